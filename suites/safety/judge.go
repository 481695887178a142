package safety

import (
	"fmt"
	"slices"
	"strings"

	"minfer/metal/mtl/soft/san"
)

// Verdict says whether a case held.
type Verdict struct {
	Held   bool
	Reason string // why not: one line
	// Known are unexpected findings that the baseline lists.
	Known []*san.Finding
}

// Judge holds a report against what a case expects. Notes count for nothing.
// Findings whose id is in known are passed over where they are not expected,
// except those that say that the case did not run to its end: nothing was judged
// then, so there is nothing to accept.
func Judge(c *Case, r *san.Report, known map[string]bool) Verdict {
	v := Verdict{Held: true}
	allowed := slices.Clone(c.Also)
	// What a race leaves depends on the order, which mode chaos sees.
	for _, k := range []string{san.KindThreadgroupRace, san.KindDeviceRace, san.KindDispatchRace} {
		if slices.Contains(c.Expect, k) {
			allowed = append(allowed, san.KindOrderDependent)
		}
	}
	var expected, outside []*san.Finding
	for _, f := range r.Findings {
		switch {
		case f.Severity != san.Error:
		case matchesKind(f, c.Expect, c.Where != nil && c.Where.Space == "thread"):
			expected = append(expected, f)
		case matchesKind(f, allowed, true):
		case known[f.ID] && ran(f.Kind):
			v.Known = append(v.Known, f)
		default:
			outside = append(outside, f)
		}
	}
	fail := func(format string, a ...any) Verdict {
		v.Held, v.Reason = false, fmt.Sprintf(format, a...)
		return v
	}
	if c.Expect[0] == Clean {
		if len(outside) > 0 {
			return fail("expected clean, found %s", list(outside))
		}
		return v
	}
	what := strings.Join(c.Expect, " or ")
	if len(expected) == 0 {
		if len(outside) > 0 {
			return fail("expected %s, found %s", what, list(outside))
		}
		return fail("expected %s, found none", what)
	}
	miss := ""
	for _, f := range expected {
		m := c.misses(f)
		if m == "" {
			miss = ""
			break
		}
		if miss == "" {
			miss = fmt.Sprintf("expected %s where the case says, found one at %s: %s", what, place(f), m)
		}
	}
	if miss != "" {
		return fail("%s", miss)
	}
	if len(outside) > 0 {
		return fail("found %s beside %s", list(outside), what)
	}
	return v
}

// ran says whether a launch with a finding of the kind ran all the same.
func ran(kind string) bool {
	switch kind {
	case san.KindCompileError, san.KindInvalidLaunch, san.KindTypeMismatch, san.KindTimeout:
		return false
	}
	return true
}

// matchesKind takes private-out-of-bounds and out-of-bounds of thread memory for
// the same, where thread memory is meant.
func matchesKind(f *san.Finding, kinds []string, thread bool) bool {
	for _, k := range kinds {
		if k == f.Kind || thread && k == san.KindOutOfBounds && f.Kind == san.KindPrivateBounds {
			return true
		}
		if k == san.KindPrivateBounds && f.Kind == san.KindOutOfBounds && f.Space == "thread" {
			return true
		}
	}
	return false
}

// misses says in what a finding is not where the case says; "" where it is.
func (c *Case) misses(f *san.Finding) string {
	w := c.Where
	if w == nil {
		return ""
	}
	// A wrong value lies at its store, and in the lines that it was made from.
	from := func(line int) bool {
		return slices.ContainsFunc(f.From, func(l san.Location) bool { return l.Line == line })
	}
	if w.Lines != nil && !slices.ContainsFunc(f.Sides, func(s san.Side) bool { return s.Line >= w.Lines[0] && s.Line <= w.Lines[1] }) &&
		!slices.ContainsFunc(f.From, func(l san.Location) bool { return l.Line >= w.Lines[0] && l.Line <= w.Lines[1] }) {
		return fmt.Sprintf("no side of it lies on lines %d to %d", w.Lines[0], w.Lines[1])
	}
	if w.Accesses != nil && (f.From == nil || slices.ContainsFunc(w.Accesses, func(line int) bool { return !from(line) })) {
		for _, s := range f.Sides {
			if s.Line > 0 && !slices.Contains(w.Accesses, s.Line) {
				return fmt.Sprintf("line %d is none of %v", s.Line, w.Accesses)
			}
		}
	}
	if w.Buffer != "" && f.Buffer != w.Buffer && (w.AlsoBuffer == "" || f.Buffer != w.AlsoBuffer) {
		return fmt.Sprintf("buffer %q, want %q", f.Buffer, w.Buffer)
	}
	if w.Buffer == "" && w.AlsoBuffer != "" && f.Buffer != w.AlsoBuffer {
		return fmt.Sprintf("buffer %q, want %q", f.Buffer, w.AlsoBuffer)
	}
	if w.Argument != "" && f.Argument != w.Argument {
		return fmt.Sprintf("argument %q, want %q", f.Argument, w.Argument)
	}
	if w.Space != "" && f.Space != w.Space {
		return fmt.Sprintf("space %q, want %q", f.Space, w.Space)
	}
	if w.Access != "" && f.Access != w.Access {
		return fmt.Sprintf("access %q, want %q", f.Access, w.Access)
	}
	first, last, ok := c.elements(f)
	if w.Elements != nil && (!ok || first != int64(w.Elements[0]) || last != int64(w.Elements[1])) {
		if !ok {
			return "it has no elements"
		}
		return fmt.Sprintf("elements %d to %d, want %d to %d", first, last, w.Elements[0], w.Elements[1])
	}
	if w.Count >= 0 && f.Count != w.Count && (!ok || last-first+1 != int64(w.Count)) {
		return fmt.Sprintf("count %d, want %d", f.Count, w.Count)
	}
	if w.Dispatch >= 0 && !slices.Contains(f.Dispatches, w.Dispatch) {
		return fmt.Sprintf("dispatches %v, want %d", f.Dispatches, w.Dispatch)
	}
	if w.Dispatches != nil {
		got, want := slices.Clone(f.Dispatches), slices.Clone(w.Dispatches)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("dispatches %v, want %v", got, want)
		}
	}
	return ""
}

// elements are the first and the last element that a finding concerns, counted
// in the buffer's type, or in elements of the access where it is no buffer's.
func (c *Case) elements(f *san.Finding) (first, last int64, ok bool) {
	if f.Bytes == nil || f.Bytes[1] <= f.Bytes[0] {
		return 0, 0, false
	}
	size := int64(max(1, f.ElementSize))
	for _, b := range c.Buffers {
		if f.Buffer != "" && b.Name == f.Buffer {
			size = int64(b.Type.Size())
		}
	}
	return floorDiv(f.Bytes[0], size), floorDiv(f.Bytes[1]-1, size), true
}

func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

func place(f *san.Finding) string {
	if len(f.Sides) == 0 {
		return "no place"
	}
	var all []string
	for _, s := range f.Sides {
		all = append(all, s.Location.String())
	}
	return strings.Join(all, " and ")
}

// list names up to three findings.
func list(fs []*san.Finding) string {
	var all []string
	for i, f := range fs {
		if i == 3 {
			all = append(all, fmt.Sprintf("%d more", len(fs)-3))
			break
		}
		s := f.Kind
		if len(f.Sides) > 0 {
			s += " at " + f.Sides[0].Location.String()
		} else {
			s += " (" + f.Message + ")"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}
