package san

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Report collects findings. Equal ones, by the source positions of all their
// sides, are one with a count.
type Report struct {
	Mode     string     `json:"mode"`
	Findings []*Finding `json:"findings"`

	index map[string]*Finding
	ids   map[string]int
}

// The severities. A note fails nothing.
const (
	Error = "error"
	Note  = "note"
)

// Finding is one diagnosed fault.
type Finding struct {
	// ID is stable against edits elsewhere in the source: it is made of the kind,
	// the kernel, the argument and the text of the source lines.
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Kernel   string `json:"kernel,omitempty"`
	// Dispatches are the indices of the dispatches in which it occurred; of a
	// dispatch-race, of its two sides.
	Dispatches []int  `json:"dispatches,omitempty"`
	Label      string `json:"label,omitempty"`

	// Between says what is in conflict in a race: dispatches, threadgroups, simdgroups
	// or lanes.
	Between string `json:"between,omitempty"`

	Space    string `json:"space,omitempty"` // device, constant, threadgroup or thread
	Argument string `json:"argument,omitempty"`
	Tensor   string `json:"tensor,omitempty"` // what the host calls the part of the buffer
	Buffer   string `json:"buffer,omitempty"`
	Access   string `json:"access,omitempty"` // read or write

	// Offset is the first byte of the argument that is concerned, BufferOffset that
	// of the buffer; Past is how many bytes an access reaches past the end (or,
	// negative, how many before the start it begins); Extent and Allocation are the
	// bytes of the argument and of the buffer.
	Offset       int64 `json:"offset"`
	BufferOffset int64 `json:"buffer_offset"`
	Past         int64 `json:"past,omitempty"`
	Extent       int   `json:"extent,omitempty"`
	Allocation   int   `json:"allocation,omitempty"`
	// Bytes is the whole range concerned, of the buffer where there is one, else of
	// the object: [first, end). ElementSize is the size of an element of it.
	Bytes       *[2]int64 `json:"bytes,omitempty"`
	ElementSize int       `json:"element_size,omitempty"`

	// Sides are the accesses or places that belong to it: the first is the one that
	// was found out, the second what it conflicts with, where one came from, or
	// where the missing threads are.
	Sides []Side `json:"sides,omitempty"`
	// From are the places that a wrong value was computed from, in the order of the
	// source: of mismatch and nan.
	From  []Location `json:"from,omitempty"`
	Count int        `json:"count"` // of equal occurrences
}

// Side is one of the accesses or places of a finding.
type Side struct {
	What string `json:"what"` // read, write, atomic write, barrier, store, return, use, load
	Location
	Kernel      string  `json:"kernel,omitempty"`
	Dispatch    int     `json:"dispatch"`
	Threadgroup *[3]int `json:"threadgroup,omitempty"`
	Simdgroup   int     `json:"simdgroup"`
	Lane        int     `json:"lane"`
}

// Location is a place in the source, innermost, with the calls that were inlined
// there, innermost first.
type Location struct {
	File    string     `json:"file,omitempty"`
	Line    int        `json:"line,omitempty"`
	Column  int        `json:"column,omitempty"`
	Text    string     `json:"text,omitempty"`
	Inlined []Location `json:"inlined_at,omitempty"`
}

// String is file:line:column.
func (l Location) String() string {
	if l.File == "" && l.Line == 0 {
		return "(unknown place)"
	}
	return fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column)
}

// Add takes a finding in: merged with an equal one, or with a new ID.
func (r *Report) Add(f *Finding) {
	if r.index == nil {
		r.index, r.ids = map[string]*Finding{}, map[string]int{}
	}
	f.Count = max(1, f.Count)
	key := f.key()
	if old := r.index[key]; old != nil {
		if f.rank() > old.rank() {
			// The graver of two equal ones gives the details.
			*old, *f = *f, *old
			old.ID = f.ID
		}
		old.Count += f.Count
		old.Past = later(old.Past, f.Past)
		if old.Bytes != nil && f.Bytes != nil {
			old.Bytes[0], old.Bytes[1] = min(old.Bytes[0], f.Bytes[0]), max(old.Bytes[1], f.Bytes[1])
		}
		for _, d := range f.Dispatches {
			if !contains(old.Dispatches, d) {
				old.Dispatches = append(old.Dispatches, d)
			}
		}
		return
	}
	f.ID = f.stableID()
	r.ids[f.ID]++
	if n := r.ids[f.ID]; n > 1 {
		f.ID = fmt.Sprintf("%s-%d", f.ID, n)
	}
	r.index[key] = f
	r.Findings = append(r.Findings, f)
}

func later(a, b int64) int64 {
	if a < 0 || b < 0 {
		return min(a, b)
	}
	return max(a, b)
}

func contains(s []int, v int) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}

// race says whether the finding is one of two sides that are alike.
func (f *Finding) race() bool {
	return f.Kind == KindThreadgroupRace || f.Kind == KindDeviceRace || f.Kind == KindDispatchRace
}

// rank orders races of the same two sides: errors over notes, and what happens
// far apart over what happens between lanes.
func (f *Finding) rank() int {
	n := map[string]int{"lanes": 1, "simdgroups": 2, "threadgroups": 3, "dispatches": 4}[f.Between]
	if f.Severity == Error {
		n += 10
	}
	return n
}

// ordered gives the sides, those of a race in an order that does not depend on
// which was found out.
func (f *Finding) ordered() []Side {
	sides := slices.Clone(f.Sides)
	if f.race() {
		slices.SortStableFunc(sides, func(a, b Side) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.What, b.What))
		})
	}
	return sides
}

// key is equal for findings that are one.
func (f *Finding) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%s|%s|%s|%s", f.Kind, f.Kernel, f.Argument, f.Buffer, f.Access)
	if !f.race() {
		b.WriteString("|" + f.Severity)
	}
	if f.Kind == KindInvalidLaunch || f.Kind == KindTypeMismatch || f.Kind == KindCompileError {
		b.WriteString("|" + f.Message)
	}
	for _, s := range f.ordered() {
		fmt.Fprintf(&b, "|%s %s %s", s.What, s.Kernel, s.Location)
	}
	if f.Kind == KindDispatchRace {
		fmt.Fprintf(&b, "|%v", f.Dispatches)
	}
	return b.String()
}

// stableID hashes what stays when lines are added elsewhere.
func (f *Finding) stableID() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s", f.Kind, f.Kernel, f.Argument, f.Access)
	for _, s := range f.ordered() {
		text := strings.Join(strings.Fields(s.Text), " ")
		if text == "" {
			text = fmt.Sprint(s.Line)
		}
		fmt.Fprintf(h, "\x00%s\x00%s\x00%s", s.What, path.Base(s.File), text)
	}
	if len(f.Sides) == 0 && f.Kind != KindTimeout {
		fmt.Fprintf(h, "\x00%s", f.Message)
	}
	return f.Kind + "-" + hex.EncodeToString(h.Sum(nil)[:4])
}

// Errors is the number of findings that make a run fail.
func (r *Report) Errors() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Error {
			n++
		}
	}
	return n
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the findings for people; notes only where asked.
func (r *Report) WriteText(w io.Writer, notes bool) error {
	var b strings.Builder
	for _, f := range r.Findings {
		if f.Severity != Error && !notes {
			continue
		}
		f.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *Finding) text(b *strings.Builder) {
	place := ""
	if len(f.Sides) > 0 {
		place = f.Sides[0].Location.String() + ": "
	}
	fmt.Fprintf(b, "%s%s: %s: %s\n", place, f.Severity, f.Kind, f.Message)
	for i, s := range f.Sides {
		if i > 0 {
			fmt.Fprintf(b, "  %s: %s\n", s.Location, s.describe(f))
		}
		s.source(b)
		if i == 0 {
			fmt.Fprintf(b, "  %s\n", s.describe(f))
		}
		for _, at := range s.Inlined {
			fmt.Fprintf(b, "    inlined at %s", at)
			if at.Text != "" {
				fmt.Fprintf(b, ": %s", strings.TrimSpace(at.Text))
			}
			b.WriteByte('\n')
		}
	}
	if len(f.From) > 0 {
		var at []string
		for _, l := range f.From {
			at = append(at, fmt.Sprint(l.Line))
		}
		fmt.Fprintf(b, "  the value was made from lines %s\n", strings.Join(at, ", "))
	}
	var facts []string
	if f.Kernel != "" {
		facts = append(facts, "kernel "+f.Kernel)
	}
	if f.Label != "" {
		facts = append(facts, "dispatch "+f.Label)
	}
	if f.Argument != "" {
		arg := "argument " + f.Argument
		if f.Space != "" {
			arg = f.Space + " memory " + f.Argument
		}
		if f.Tensor != "" {
			arg += fmt.Sprintf(" = tensor %q", f.Tensor)
		}
		if f.Buffer != "" {
			arg += fmt.Sprintf(" = buffer %q", f.Buffer)
		}
		facts = append(facts, arg)
	}
	if f.Extent > 0 {
		facts = append(facts, fmt.Sprintf("byte offset %d of %d", f.Offset, f.Extent))
	}
	if f.Allocation > 0 && f.Allocation != f.Extent {
		facts = append(facts, fmt.Sprintf("allocation of %d bytes", f.Allocation))
	}
	if f.Count > 1 {
		facts = append(facts, fmt.Sprintf("%d times", f.Count))
	}
	facts = append(facts, "id "+f.ID)
	fmt.Fprintf(b, "  %s\n", strings.Join(facts, "; "))
}

// source writes the line with a caret under the column.
func (s *Side) source(b *strings.Builder) {
	if s.Text == "" {
		return
	}
	line := strings.TrimRight(s.Text, " \t\r\n")
	fmt.Fprintf(b, "  %5d | %s\n", s.Line, line)
	if s.Column >= 1 && s.Column <= len(line)+1 {
		pad := []byte(line[:s.Column-1])
		for i, c := range pad {
			if c != '\t' {
				pad[i] = ' '
			}
		}
		fmt.Fprintf(b, "        | %s^\n", pad)
	}
}

func (s *Side) describe(f *Finding) string {
	d := s.What
	if s.Threadgroup != nil {
		t := s.Threadgroup
		d += fmt.Sprintf(" by threadgroup (%d, %d, %d), simdgroup %d, lane %d", t[0], t[1], t[2], s.Simdgroup, s.Lane)
	}
	if f.Kind == KindDispatchRace {
		d += fmt.Sprintf(", dispatch %d (%s)", s.Dispatch, s.Kernel)
	}
	return d
}
