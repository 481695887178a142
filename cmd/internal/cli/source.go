package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Sources are files of source text named on a command line, with the folders
// that they include from, as one fs.FS.
type Sources struct {
	FS    fs.FS
	Files []string // names in FS, in the order given
	Dirs  []string // names in FS of the include folders
	outer string   // what a name in FS lacks to be a path, "" below the current folder
}

// OpenSources makes the FS. All files must be readable and all folders be there.
func OpenSources(files, dirs []string) (*Sources, error) {
	for _, f := range files {
		if info, err := os.Stat(f); err != nil {
			return nil, err
		} else if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder: want a .metal file", f)
		}
	}
	for _, d := range dirs {
		if info, err := os.Stat(d); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("-I %s is a file: want a folder", d)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	s := &Sources{}
	// Names below the current folder read best; where something lies outside of
	// it, all names start at the root of the file system.
	root := here
	for _, p := range append(append([]string(nil), files...), dirs...) {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		if rel, err := filepath.Rel(here, abs); err != nil || !filepath.IsLocal(rel) {
			root = filepath.VolumeName(abs) + string(filepath.Separator)
			s.outer = filepath.ToSlash(root)
		}
	}
	name := func(p string) (string, error) {
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		rel, err := filepath.Rel(root, abs)
		if err != nil || !filepath.IsLocal(rel) {
			return "", fmt.Errorf("%s does not lie below %s as the other files do", p, root)
		}
		return filepath.ToSlash(rel), nil
	}
	s.FS = os.DirFS(root)
	for _, f := range files {
		n, err := name(f)
		if err != nil {
			return nil, err
		}
		s.Files = append(s.Files, n)
	}
	for _, d := range dirs {
		n, err := name(d)
		if err != nil {
			return nil, err
		}
		s.Dirs = append(s.Dirs, n)
	}
	return s, nil
}

// Path is the path that a name in FS stands for.
func (s *Sources) Path(name string) string { return s.outer + name }

// Show puts paths in the place of names at the start of a diagnostic's lines.
func (s *Sources) Show(text string) string {
	if s.outer == "" {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		const included = "in file included from "
		switch name, _, ok := strings.Cut(strings.TrimPrefix(line, included), ":"); {
		case !ok || name == "" || strings.ContainsAny(name, " \t|<"):
		case strings.HasPrefix(line, included):
			lines[i] = included + s.outer + line[len(included):]
		default:
			lines[i] = s.outer + line
		}
	}
	return strings.Join(lines, "")
}
