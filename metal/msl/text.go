package msl

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// CompileText checks a text that is in no file, as a whole: an error has all
// diagnostics, those inside of kernels included. include is where it finds files
// (nil: nowhere), defines are its macros, after those of the options. name is what
// diagnostics call the text; the library's is a path in its place.
func CompileText(name, text string, include fs.FS, defines map[string]string, o Options) (*Library, error) {
	name = path.Clean(strings.TrimLeft(name, "/"))
	if !fs.ValidPath(name) || name == "." {
		name = "source.metal"
	}
	o.Defines = slices.Clone(o.Defines) // the caller's
	for _, macro := range slices.Sorted(maps.Keys(defines)) {
		o.Defines = append(o.Defines, macro+"="+defines[macro])
	}
	lib, err := Compile(textFS{name, text, include}, name, o)
	if err == nil {
		err = lib.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not compile:\n%w", name, err)
	}
	return lib, nil
}

// textFS is a text among the files that it includes.
type textFS struct {
	name, text string
	include    fs.FS
}

// Open implements fs.FS.
func (f textFS) Open(name string) (fs.File, error) {
	if name == f.name {
		return &textFile{strings.NewReader(f.text), name}, nil
	}
	if f.include == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.include.Open(name)
}

// textFile is an open file, and its own fs.FileInfo, of a text in memory.
type textFile struct {
	*strings.Reader
	name string
}

func (f *textFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *textFile) Close() error               { return nil }
func (f *textFile) Name() string               { return path.Base(f.name) }
func (f *textFile) Mode() fs.FileMode          { return 0o444 }
func (f *textFile) ModTime() time.Time         { return time.Time{} }
func (f *textFile) IsDir() bool                { return false }
func (f *textFile) Sys() any                   { return nil }
