package soft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
)

// Library is an [mtl.Library] of the device.
type Library struct {
	device    *Device
	lib       *msl.Library
	constants []mtl.Constant
	released  atomic.Bool
}

// Compile implements [mtl.Device]. The error has all diagnostics, with source
// lines.
func (d *Device) Compile(ctx context.Context, source mtl.Source) (mtl.Library, error) {
	if err := errors.Join(d.alive(), ctx.Err()); err != nil {
		return nil, err
	}
	name := path.Clean(strings.TrimLeft(source.Name, "/"))
	if !fs.ValidPath(name) || name == "." {
		name = "source.metal"
	}
	o := msl.Options{Safe: !source.FastMath}
	for macro, value := range source.Defines {
		o.Defines = append(o.Defines, macro+"="+value)
	}
	sort.Strings(o.Defines)
	lib, err := msl.Compile(sourceFS{name, source}, name, o)
	if err == nil {
		err = lib.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("metal: %s does not compile:\n%w", name, err)
	}
	l := &Library{device: d, lib: lib}
	for _, c := range lib.Constants() {
		t, n := constantType(c.Type)
		l.constants = append(l.constants, mtl.Constant{Name: c.Name, Index: c.Index, Type: t, Count: n})
	}
	sort.SliceStable(l.constants, func(i, j int) bool { return l.constants[i].Index < l.constants[j].Index })
	return l, ctx.Err()
}

// sourceFS is a source's text among the files that it includes.
type sourceFS struct {
	name   string
	source mtl.Source
}

// Open implements fs.FS.
func (f sourceFS) Open(name string) (fs.File, error) {
	if name == f.name {
		return &textFile{strings.NewReader(f.source.Text), name}, nil
	}
	if f.source.Include == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.source.Include.Open(name)
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

var constantTypes = map[string]mtl.Type{
	"bool": mtl.Bool, "char": mtl.Int8, "uchar": mtl.Uint8, "short": mtl.Int16, "ushort": mtl.Uint16, "int": mtl.Int32, "uint": mtl.Uint32,
	"long": mtl.Int64, "ulong": mtl.Uint64, "half": mtl.Float16, "bfloat": mtl.BFloat16, "float": mtl.Float32,
}

// constantType takes the spelling of a scalar or vector apart.
func constantType(spelled string) (t mtl.Type, components int) {
	components = 1
	if last := len(spelled) - 1; last > 0 && spelled[last] >= '2' && spelled[last] <= '4' {
		components = int(spelled[last] - '0')
		spelled = spelled[:last]
	}
	return constantTypes[spelled], components
}

// Kernels implements [mtl.Library].
func (l *Library) Kernels() []string {
	var names []string
	for _, k := range l.lib.Kernels() {
		names = append(names, k.Name)
	}
	sort.Strings(names)
	return names
}

// Constants implements [mtl.Library].
func (l *Library) Constants() []mtl.Constant { return append([]mtl.Constant(nil), l.constants...) }

// Pipeline implements [mtl.Library]. The result is a *Pipeline.
func (l *Library) Pipeline(kernel string, constants map[string]any) (mtl.Pipeline, error) {
	if err := l.device.alive(); err != nil {
		return nil, err
	}
	if l.released.Load() {
		return nil, fmt.Errorf("metal: pipeline of kernel %q: the library was released", kernel)
	}
	values := map[string]any{}
	for key, value := range constants {
		c, err := l.constant(key)
		if err != nil {
			return nil, fmt.Errorf("metal: pipeline of kernel %q: %w", kernel, err)
		}
		index := strconv.Itoa(c.Index)
		if _, twice := values[index]; twice {
			return nil, fmt.Errorf("metal: pipeline of kernel %q: function constant %s (%d) is set twice", kernel, c.Name, c.Index)
		}
		if values[index], err = exact(c, value); err != nil {
			return nil, fmt.Errorf("metal: pipeline of kernel %q: %w", kernel, err)
		}
	}
	f, err := l.lib.Specialize(kernel, values)
	if err != nil {
		return nil, fmt.Errorf("metal: pipeline of kernel %q: %w", kernel, err)
	}
	p, err := l.device.newPipeline(f, l.lib.Source().FileLine)
	if err != nil {
		return nil, fmt.Errorf("metal: pipeline: %w", err)
	}
	return p, nil
}

// constant finds a function constant by name or by index in decimal.
func (l *Library) constant(key string) (mtl.Constant, error) {
	index, err := strconv.Atoi(key)
	for _, c := range l.constants {
		if c.Name == key || err == nil && c.Index == index {
			return c, nil
		}
	}
	var names []string
	for _, c := range l.constants {
		names = append(names, fmt.Sprintf("%s (%d)", c.Name, c.Index))
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return mtl.Constant{}, fmt.Errorf("no function constant %q in the library: it has %s", key, strings.Join(names, ", "))
}

// exact gives a value in the form that specialisation takes, floats rounded to
// the constant's type.
func exact(c mtl.Constant, value any) (any, error) {
	bits, err := c.Bits(value)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(bits))
	for i, b := range bits {
		switch c.Type {
		case mtl.Bool:
			all[i] = b != 0
		case mtl.Float32:
			all[i] = float64(ir.F32.Float(b))
		case mtl.Float16:
			all[i] = float64(ir.F16.Float(b))
		case mtl.BFloat16:
			all[i] = float64(ir.BF16.Float(b))
		case mtl.Int8, mtl.Int16, mtl.Int32, mtl.Int64:
			drop := 64 - 8*c.Type.Size()
			all[i] = int64(b<<drop) >> drop
		default:
			all[i] = b
		}
	}
	if c.Count <= 1 {
		return all[0], nil
	}
	return all, nil
}

// Release implements [mtl.Library].
func (l *Library) Release() { l.released.Store(true) }
