package mutation

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
)

// Sources are the parsed files of a set of kernels.
type Sources struct {
	fsys  fs.FS
	texts map[string]string
	units []*unit // one for each .metal file
	by    map[string][]*unit
}

// unit is one .metal file with what it includes.
type unit struct {
	file  string
	texts map[string]string
	m     *source.Map
	tree  *ast.File
	types *typeTable
}

// Parse reads every .metal file of fsys. One that does not compile is an error.
func Parse(fsys fs.FS) (*Sources, error) {
	s := &Sources{fsys: fsys, texts: map[string]string{}, by: map[string][]*unit{}}
	names, err := fs.Glob(fsys, "*.metal")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		toks, m, diags := pp.Process(fsys, name, pp.Options{})
		tree, ds := parse.File(toks, parse.Options{})
		diags = append(diags, ds...)
		prog, ds := sema.Check(tree, sema.Options{})
		if diags = append(diags, ds...); source.HasErrors(diags) {
			return nil, fmt.Errorf("mutation: %s does not compile:\n%s", name, m.RenderAll(diags))
		}
		files := s.closure(name)
		u := &unit{file: name, texts: s.texts, m: m, tree: tree, types: typesOf(prog)}
		s.units = append(s.units, u)
		for _, file := range files {
			s.by[file] = append(s.by[file], u)
		}
	}
	if len(s.units) == 0 {
		return nil, fmt.Errorf("mutation: no .metal file among the kernels")
	}
	return s, nil
}

// Files are the .metal files.
func (s *Sources) Files() []string {
	var names []string
	for _, u := range s.units {
		names = append(names, u.file)
	}
	return names
}

var include = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// closure lists a file and all that it includes, and reads their text.
func (s *Sources) closure(name string) []string {
	seen := []string{}
	var add func(name string)
	add = func(name string) {
		if slices.Contains(seen, name) {
			return
		}
		text, ok := s.texts[name]
		if !ok {
			data, err := fs.ReadFile(s.fsys, name)
			if err != nil {
				return // a header of the library
			}
			text = string(data)
			s.texts[name] = text
		}
		seen = append(seen, name)
		for _, m := range include.FindAllStringSubmatch(text, -1) {
			add(path.Join(path.Dir(name), m[1]))
		}
	}
	add(name)
	return seen
}

// place is a piece of a file.
type place struct {
	file       string
	start, end int
}

// find gives the text that a node's range stands for: where the node is written,
// in a macro's body or outside of any. It fails for a node that is written in
// pieces, such as one that starts in a macro's argument and ends in its body.
func (u *unit) find(s source.Span) (place, bool) {
	if s.Start == 0 || s.End == 0 {
		return place{}, false
	}
	m := u.m
	in := func(start, end source.Pos) (place, bool) {
		file, a, b, ok := m.Range(source.Span{Start: start, End: end})
		return place{file, a, b}, ok && a < b && b <= len(u.texts[file])
	}
	if s.Start > 0 && s.End > 0 {
		return in(s.Start, s.End)
	}
	if s.Start < 0 && s.End < 0 {
		// Both ends in one macro's body, or in one argument.
		if p, ok := in(m.Spelling(s.Start), m.Spelling(s.End)); ok && oneLine(u.text(p)) {
			return p, true
		}
		// A node that is made of two macros' uses is written where they stand, but not
		// one whose ends come out of the same use. The ends of a token are a pair: see
		// source.Map.AddToken.
		if m.Place(s.Start-1) == m.Place(s.End) && m.Place(s.Start) == m.Place(s.End+1) {
			return place{}, false
		}
	}
	return in(m.Place(s.Start), m.Place(s.End))
}

func (u *unit) text(p place) string { return u.texts[p.file][p.start:p.end] }

// oneLine reports whether text lies on one logical line: line ends only behind
// backslashes.
func oneLine(text string) bool {
	for i := strings.IndexByte(text, '\n'); i >= 0; {
		if !strings.HasSuffix(strings.TrimRight(text[:i], " \t\r"), `\`) {
			return false
		}
		next := strings.IndexByte(text[i+1:], '\n')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return true
}
