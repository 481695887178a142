package apple

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"minfer/metal/mtl"
)

// maxDepth is how far files include each other.
const maxDepth = 64

// flatten makes one text of a source, its macros and the files that it includes
// by "name": Metal takes a single text. All else is left to Metal's preprocessor.
// Line directives keep the places of its diagnostics.
//
// A file is put in the place of each #include of it, whatever conditions stand
// around; where it says #pragma once, in the first place only.
func flatten(source mtl.Source) (string, error) {
	f := flattener{include: source.Include}
	names := make([]string, 0, len(source.Defines))
	for name := range source.Defines {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&f.text, "#define %s %s\n", name, source.Defines[name])
	}
	if err := f.file(source.Name, source.Text); err != nil {
		return "", err
	}
	text := f.text.String()
	if strings.ContainsRune(text, 0) {
		return "", errors.New("a NUL in the text")
	}
	return text, nil
}

type flattener struct {
	include fs.FS
	text    strings.Builder
	open    []string // files that are being read, outermost first
	once    []string // files that said #pragma once
}

// file adds one file's text.
func (f *flattener) file(name, text string) error {
	if len(f.open) == maxDepth {
		return fmt.Errorf("%s: included at depth %d: want at most %d", name, len(f.open), maxDepth)
	}
	f.open = append(f.open, name)
	defer func() { f.open = f.open[:len(f.open)-1] }()
	fmt.Fprintf(&f.text, "#line 1 %s\n", strconv.Quote(name))
	comment := false
	for i, line := range strings.SplitAfter(text, "\n") {
		bare, still := uncomment(line, comment)
		directive, isDirective := strings.CutPrefix(strings.TrimSpace(bare), "#")
		inside := comment
		comment = still
		if inside || !isDirective {
			f.text.WriteString(line)
			continue
		}
		words := strings.Fields(directive)
		if len(words) == 2 && words[0] == "pragma" && words[1] == "once" {
			if len(f.open) > 1 {
				f.once = append(f.once, name)
			}
			f.text.WriteString("\n")
			continue
		}
		rest, isInclude := strings.CutPrefix(strings.TrimSpace(directive), "include")
		included, quoted := strings.CutPrefix(strings.TrimSpace(rest), `"`)
		if !isInclude || !quoted {
			f.text.WriteString(line)
			continue
		}
		included, _, closed := strings.Cut(included, `"`)
		if !closed {
			return fmt.Errorf("%s:%d: #include %s: want a name between quotes", name, i+1, strings.TrimSpace(rest))
		}
		if err := f.included(name, i+1, included); err != nil {
			return err
		}
		fmt.Fprintf(&f.text, "\n#line %d %s\n", i+2, strconv.Quote(name))
	}
	return nil
}

// included adds a file that another one includes: one beside it, or one of the
// root.
func (f *flattener) included(by string, line int, name string) error {
	if f.include == nil {
		return fmt.Errorf("%s:%d: #include %q: the source has no files to include", by, line, name)
	}
	for _, place := range []string{path.Join(path.Dir(by), name), path.Clean(name)} {
		text, err := fs.ReadFile(f.include, place)
		if errors.Is(err, fs.ErrNotExist) || !fs.ValidPath(place) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s:%d: #include %q: %w", by, line, name, err)
		}
		if slices.Contains(f.once, place) {
			return nil
		}
		return f.file(place, string(text))
	}
	return fmt.Errorf("%s:%d: #include %q: no such file", by, line, name)
}

// uncomment takes the comments out of a line that starts inside of one or not, and
// says whether one goes on after it.
func uncomment(line string, inside bool) (bare string, still bool) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch two := line[i:min(i+2, len(line))]; {
		case inside:
			if two == "*/" {
				inside = false
				i++
			}
		case quoted:
			b.WriteByte(line[i])
			if line[i] == '\\' && i+1 < len(line) {
				i++
				b.WriteByte(line[i])
			} else if line[i] == '"' || line[i] == '\n' {
				quoted = false
			}
		case two == "//":
			return b.String(), false
		case two == "/*":
			inside = true
			i++
		default:
			quoted = line[i] == '"'
			b.WriteByte(line[i])
		}
	}
	return b.String(), inside
}
