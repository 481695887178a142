// Package frontend is what the devices that compile MSL themselves share: from an
// [mtl.Source] to the kernels and function constants of a library, from a kernel
// and values of constants to its IR, and the IR's parameters as an [mtl.Argument]
// each. What a device makes of the IR is its own.
//
// Order of use: [Compile], then [Library.Specialize] for each pipeline. A Library
// is safe for concurrent use; nothing has to be released.
package frontend

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
)

// Library is a compiled source.
type Library struct {
	lib       *msl.Library
	constants []mtl.Constant
}

// Compile reads a source. The error has all diagnostics, with source lines.
func Compile(ctx context.Context, source mtl.Source) (*Library, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lib, err := msl.CompileText(source.Name, source.Text, source.Include, source.Defines, msl.Options{Safe: !source.FastMath})
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	l := &Library{lib: lib}
	for _, c := range lib.Constants() {
		t, n := constantType(c.Type)
		l.constants = append(l.constants, mtl.Constant{Name: c.Name, Index: c.Index, Type: t, Count: n})
	}
	sort.SliceStable(l.constants, func(i, j int) bool { return l.constants[i].Index < l.constants[j].Index })
	return l, ctx.Err()
}

// constantType takes the spelling of a scalar or vector apart.
func constantType(spelled string) (t mtl.Type, components int) {
	components = 1
	if last := len(spelled) - 1; last > 0 && spelled[last] >= '2' && spelled[last] <= '4' {
		components = int(spelled[last] - '0')
		spelled = spelled[:last]
	}
	return mtl.MSLType(spelled), components
}

// Kernels lists the entry points by host name, sorted.
func (l *Library) Kernels() []string {
	var names []string
	for _, k := range l.lib.Kernels() {
		names = append(names, k.Name)
	}
	sort.Strings(names)
	return names
}

// Constants lists the function constants by index.
func (l *Library) Constants() []mtl.Constant { return slices.Clone(l.constants) }

// Line is the text of a line of the source or of a file that it includes.
func (l *Library) Line(file string, line int) string { return l.lib.Source().FileLine(file, line) }

// Specialize gives a kernel for values of the function constants, in the terms of
// [mtl.Library].
func (l *Library) Specialize(kernel string, constants map[string]any) (*ir.Func, error) {
	values := map[string]any{}
	for key, value := range constants {
		c, err := mtl.FindConstant(l.constants, key)
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
	return f, nil
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

// Arguments are a kernel's parameters, of which buffers have an index below
// maxBuffers.
func Arguments(f *ir.Func, maxBuffers int) ([]mtl.Argument, error) {
	var args []mtl.Argument
	for _, p := range f.Params {
		if p.Index < 0 || p.Index >= maxBuffers {
			return nil, fmt.Errorf("kernel %s: argument %s has index %d: want 0 to %d", f.Name, p.Name, p.Index, maxBuffers-1)
		}
		args = append(args, mtl.Argument{
			Name: p.Name, Threadgroup: p.Kind == ir.ThreadgroupParam, Index: p.Index,
			Elem: p.Elem, ElemSize: p.ElemSize, Scalar: scalarType(p), ReadOnly: p.ReadOnly, Ref: p.Ref,
		})
	}
	return args, nil
}

// scalarType is the type of a parameter's elements. The IR's integers have no
// sign, and a host's need none to fit.
func scalarType(p ir.Param) mtl.Type {
	switch p.Scalar {
	case ir.I8:
		return mtl.Uint8
	case ir.I16:
		return mtl.Uint16
	case ir.I32:
		return mtl.Uint32
	case ir.I64:
		return mtl.Uint64
	case ir.F16:
		return mtl.Float16
	case ir.BF16:
		return mtl.BFloat16
	case ir.F32:
		return mtl.Float32
	}
	return mtl.AnyType
}
