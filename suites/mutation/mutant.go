package mutation

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/fstest"
)

// Edit puts a text in the place of another one.
type Edit struct {
	File       string
	Start, End int // bytes
	Text       string
}

// Mutant is one fault: edits of one file, in the order of their places.
type Mutant struct {
	Operator string
	Func     string // where it is, "" outside of functions
	Edits    []Edit
	Units    []string // the .metal files that the text is part of

	before string // the file

	diff struct {
		first         int
		before, after []string
	} // what lines gave, once asked
}

// File is the file that is edited.
func (m *Mutant) File() string { return m.Edits[0].File }

// Line is the line of the first edit, from 1.
func (m *Mutant) Line() int { return 1 + strings.Count(m.before[:m.Edits[0].Start], "\n") }

// String names the mutant: operator and place.
func (m *Mutant) String() string { return fmt.Sprintf("%s %s:%d", m.Operator, m.File(), m.Line()) }

// After is the text of the file with the fault.
func (m *Mutant) After() string {
	var b strings.Builder
	at := 0
	for _, e := range m.Edits {
		b.WriteString(m.before[at:e.Start])
		b.WriteString(e.Text)
		at = e.End
	}
	b.WriteString(m.before[at:])
	return b.String()
}

// Over is fsys with the fault.
func (m *Mutant) Over(fsys fs.FS) fs.FS {
	return overlay{fsys, fstest.MapFS{m.File(): &fstest.MapFile{Data: []byte(m.After())}}, m.File()}
}

type overlay struct {
	fs.FS
	edited fstest.MapFS
	name   string
}

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	if name == o.name {
		return o.edited.Open(name)
	}
	return o.FS.Open(name)
}

// lines gives the lines that differ, and the number of the first.
func (m *Mutant) lines() (first int, before, after []string) {
	d := &m.diff
	if d.first == 0 {
		d.first, d.before, d.after = m.compare()
	}
	return d.first, d.before, d.after
}

func (m *Mutant) compare() (first int, before, after []string) {
	a, b := strings.Split(m.before, "\n"), strings.Split(m.After(), "\n")
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	end := 0
	for end < len(a)-first && end < len(b)-first && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return first + 1, a[first : len(a)-end], b[first : len(b)-end]
}

// maxDiff is the number of lines of each side that a diff shows.
const maxDiff = 12

// Diff shows the fault: where, what became of it, then the lines.
func (m *Mutant) Diff(kernel, fate string) []string {
	first, before, after := m.lines()
	where := ""
	if m.Func != "" {
		where = " in " + m.Func
	}
	lines := []string{fmt.Sprintf("%s:%d: %s%s, as %s sees it: %s", m.File(), first, m.Operator, where, kernel, fate)}
	add := func(sign string, text []string) {
		for i, l := range text {
			if i == maxDiff {
				lines = append(lines, sign+" ...")
				return
			}
			lines = append(lines, sign+l)
		}
	}
	add("-", before)
	add("+", after)
	return lines
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// key identifies the edit.
func (m *Mutant) key() string { return fmt.Sprintf("%s %v", m.Operator, m.Edits) }

// spread orders mutants for sampling: at random by the seed, but one of each file
// and function in turn, so that a small sample reaches many.
func spread(mutants []*Mutant, seed uint64) []*Mutant {
	if len(mutants) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, hash(mutants[0].Operator)))
	groups := map[string][]*Mutant{}
	var names []string
	for _, i := range r.Perm(len(mutants)) {
		m := mutants[i]
		name := m.File()
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], m)
	}
	slices.Sort(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var out []*Mutant
	for len(out) < len(mutants) {
		for _, name := range names {
			if g := groups[name]; len(g) > 0 {
				out = append(out, g[0])
				groups[name] = g[1:]
			}
		}
	}
	return out
}
