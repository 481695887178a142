package safety

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"

	"minfer/metal/mtl/soft/san"
)

// Baseline lists known findings, which do not make a case fail. Ids survive edits
// of other lines; see san.Finding.
type Baseline struct {
	Findings []BaselineEntry `json:"findings"`
}

// BaselineEntry is one known finding. Only the id decides; the rest is for the
// reader.
type BaselineEntry struct {
	ID     string `json:"id"`
	Case   string `json:"case,omitempty"`
	Where  string `json:"where,omitempty"`
	Reason string `json:"reason,omitempty"` // why it is accepted
}

// ParseBaseline reads a baseline file strictly.
func ParseBaseline(name string, data []byte) (*Baseline, error) {
	n, err := readTree(name, data)
	if err != nil {
		return nil, err
	}
	b := &Baseline{Findings: []BaselineEntry{}}
	if f := n.need("findings"); n.r.err == nil {
		for _, e := range f.list() {
			var x BaselineEntry
			if x.ID = e.need("id").text(); x.ID == "" && n.r.err == nil {
				e.need("id").fail("the id of a finding")
			}
			for key, to := range map[string]*string{"case": &x.Case, "where": &x.Where, "reason": &x.Reason} {
				if f := e.get(key); f != nil {
					*to = f.text()
				}
			}
			e.done("id", "case", "where", "reason")
			b.Findings = append(b.Findings, x)
		}
	}
	n.done("findings")
	if n.r.err != nil {
		return nil, n.r.err
	}
	return b, nil
}

// Known gives the set of ids.
func (b *Baseline) Known() map[string]bool {
	known := map[string]bool{}
	if b != nil {
		for _, e := range b.Findings {
			known[e.ID] = true
		}
	}
	return known
}

// Add takes in a finding of a case, once.
func (b *Baseline) Add(path string, f *san.Finding) {
	for _, e := range b.Findings {
		if e.ID == f.ID {
			return
		}
	}
	b.Findings = append(b.Findings, BaselineEntry{ID: f.ID, Case: path, Where: place(f)})
}

// Write writes the file, in the order of ids.
func (b *Baseline) Write(w io.Writer) error {
	sort.Slice(b.Findings, func(i, j int) bool { return b.Findings[i].ID < b.Findings[j].ID })
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}
