// Package signatures reads the arguments of kernels from their source, for devices
// whose own compiler tells less of them: whether one is a reference, and what
// threadgroup memory is made of.
//
// [Of] compiles the source with the front end of metal/msl. It has no state and is
// safe for concurrent use.
package signatures

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
)

// Of gives the arguments of each kernel that a source defines, by host name, in
// the order of the source. An argument that a function constant decides is among
// them. A source with an error is an error.
func Of(source mtl.Source) (map[string][]mtl.Argument, error) {
	name := path.Clean(strings.TrimLeft(source.Name, "/"))
	if !fs.ValidPath(name) || name == "." {
		name = "source.metal"
	}
	o := msl.Options{Safe: !source.FastMath}
	for macro, value := range source.Defines {
		o.Defines = append(o.Defines, macro+"="+value)
	}
	sort.Strings(o.Defines)
	lib, err := msl.Compile(overlay{name, source}, name, o)
	if err == nil {
		err = lib.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not compile:\n%w", name, err)
	}
	all := map[string][]mtl.Argument{}
	for _, k := range lib.Kernels() {
		args := []mtl.Argument{}
		for _, p := range k.Params {
			args = append(args, mtl.Argument{
				Name: p.Name, Threadgroup: p.Kind == ir.ThreadgroupParam, Index: p.Index,
				Elem: p.Elem, ElemSize: p.ElemSize, Scalar: scalars[p.Scalar], ReadOnly: p.ReadOnly, Ref: p.Ref,
			})
		}
		all[k.Name] = args
	}
	return all, nil
}

var scalars = map[string]mtl.Type{
	"bool": mtl.Bool, "char": mtl.Int8, "uchar": mtl.Uint8, "short": mtl.Int16, "ushort": mtl.Uint16, "int": mtl.Int32, "uint": mtl.Uint32,
	"long": mtl.Int64, "ulong": mtl.Uint64, "half": mtl.Float16, "bfloat": mtl.BFloat16, "float": mtl.Float32,
}

// overlay is a source's text among the files that it includes.
type overlay struct {
	name   string
	source mtl.Source
}

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	if name == o.name {
		return &file{strings.NewReader(o.source.Text), name}, nil
	}
	if o.source.Include == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.source.Include.Open(name)
}

// file is an open file, and its own fs.FileInfo, of a text in memory.
type file struct {
	*strings.Reader
	name string
}

func (f *file) Stat() (fs.FileInfo, error) { return f, nil }
func (f *file) Close() error               { return nil }
func (f *file) Name() string               { return path.Base(f.name) }
func (f *file) Mode() fs.FileMode          { return 0o444 }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return false }
func (f *file) Sys() any                   { return nil }
