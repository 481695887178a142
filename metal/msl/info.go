package msl

import (
	"fmt"
	"math"
	"reflect"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/lower"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// KernelInfo describes an entry point.
type KernelInfo struct {
	Name     string // host name
	Spelling string // as the source spells it, with template arguments
	Pos      source.Position
	Params   []Param
	// Attributes are the grid attributes that it reads, by variable.
	Attributes []Attribute
	MaxThreads int // max_total_threads_per_threadgroup, 0 if unset
	// Constants are the function constants that it refers to, by index. Which of
	// them need a value depends on the values of others.
	Constants []Constant
	// ThreadgroupMemory is the size of its own threadgroup variables in bytes;
	// [[threadgroup(n)]] arguments come on top.
	ThreadgroupMemory int
	// Err is what is wrong with it, nil for a kernel that checks; the rest may be incomplete then.
	Err error
}

// Param is a resource argument.
type Param struct {
	Name     string
	Kind     ir.ParamKind
	Index    int    // [[buffer(n)]] or [[threadgroup(n)]]
	Type     string // as declared
	Elem     string // the pointee
	ElemSize int    // bytes
	Scalar   string // the scalar type where the element is made of one, "" for a mixed struct
	Space    ir.Space
	ReadOnly bool
	Ref      bool   // a reference: exactly one element
	Gate     string // the function constant that decides whether it exists, "" if it always does
	// Element is the checked type, with the layout of structs.
	Element *types.Type
}

// Attribute is a grid attribute of a kernel.
type Attribute struct {
	Name string
	Kind ir.GridKind
	Type string
}

// Constant is a function constant.
type Constant struct {
	Name  string
	Index int
	Type  string
}

func (l *Library) info(k *sema.Kernel) KernelInfo {
	i := KernelInfo{Name: k.HostName, Spelling: k.Name, Pos: l.src.Position(k.Pos), MaxThreads: k.MaxThreads}
	if len(k.Errors) > 0 {
		i.Err = newError(l.src, k.Errors)
	} else {
		u := lower.UsesOf(k)
		i.ThreadgroupMemory = u.Static
		for _, v := range u.Constants {
			i.Constants = append(i.Constants, constantInfo(v))
		}
	}
	for _, p := range k.Params {
		if p == nil || p.Var == nil || p.Var.Type.T == nil {
			continue
		}
		t := p.Var.Type.T
		switch p.Kind {
		case sema.GridParam:
			i.Attributes = append(i.Attributes, Attribute{p.Var.Name, p.Grid, t.String()})
			continue
		case sema.ResourceParam:
			continue
		}
		of := t.Of
		if of.T == nil {
			continue
		}
		q := Param{Name: p.Var.Name, Index: p.Index, Type: t.String(), Elem: of.T.String(), ElemSize: of.T.Size(), Ref: t.Kind == types.Reference, Element: of.T}
		switch of.Space {
		case types.Constant:
			q.Space = ir.Constant
		case types.Threadgroup:
			q.Space = ir.Threadgroup
		}
		if p.Kind == sema.ThreadgroupParam {
			q.Kind = ir.ThreadgroupParam
		}
		q.ReadOnly = of.Const || of.Space == types.Constant
		if k := uniformScalar(of.T, 0); k != types.Invalid {
			q.Scalar = k.String()
		}
		if p.Gate != nil {
			q.Gate = p.Gate.Name
		}
		i.Params = append(i.Params, q)
	}
	return i
}

func constantInfo(v *sema.Var) Constant {
	return Constant{Name: v.Name, Index: v.FuncConst, Type: v.Type.T.String()}
}

// uniformScalar is the kind of all scalars of a type, Invalid where they differ.
func uniformScalar(t *types.Type, depth int) types.Kind {
	if k := t.ScalarKind(); k != types.Invalid || depth > 32 {
		return k
	}
	switch t.Kind {
	case types.Array:
		return uniformScalar(t.Of.T, depth+1)
	case types.Struct:
		kind := types.Invalid
		for n := range t.Fields {
			k := uniformScalar(t.Fields[n].Type.T, depth+1)
			if n > 0 && k != kind {
				return types.Invalid
			}
			kind = k
		}
		return kind
	}
	return types.Invalid
}

// probe is a stand-in for a function constant: false, 1 or 1.0.
func probe(t *types.Type) sema.Value {
	if t.IsVector() {
		v := sema.Value{}
		for range t.N {
			v.Elems = append(v.Elems, probe(types.Scalar(t.Elem)))
		}
		return v
	}
	if t.ScalarKind() == types.Bool {
		return sema.Value{}
	}
	return sema.Value{I: 1, F: 1}
}

// constant converts a Go value to a constant of type t.
func constant(t *types.Type, x any) (sema.Value, error) {
	v := reflect.ValueOf(x)
	if t.IsVector() {
		if v.Kind() != reflect.Slice || v.Len() != t.N {
			return sema.Value{}, fmt.Errorf("%v is no value of type %s, expected a list of %d", x, t, t.N)
		}
		out := sema.Value{}
		for n := range t.N {
			e, err := constant(types.Scalar(t.Elem), v.Index(n).Interface())
			if err != nil {
				return out, err
			}
			out.Elems = append(out.Elems, e)
		}
		return out, nil
	}
	kind := t.ScalarKind()
	bad := fmt.Errorf("%v (%T) is no value of type %s", x, x, t)
	var f float64
	whole := true
	var i int64
	switch {
	case v.Kind() == reflect.Bool:
		if v.Bool() {
			i = 1
		}
		f = float64(i)
	case v.CanInt():
		i = v.Int()
		f = float64(i)
	case v.CanUint():
		i = int64(v.Uint())
		f = float64(v.Uint())
		if kind != types.ULong && !kind.IsFloat() && i < 0 {
			return sema.Value{}, bad
		}
	case v.CanFloat():
		f = v.Float()
		i = int64(f)
		whole = float64(i) == f
	default:
		return sema.Value{}, bad
	}
	switch {
	case kind.IsFloat():
		return sema.Value{F: f}, nil
	case !whole || kind == types.Invalid:
		return sema.Value{}, bad
	case kind == types.Bool:
		if i != 0 && i != 1 {
			return sema.Value{}, bad
		}
	case kind.Size() < 8:
		n := 8 * kind.Size()
		lo, hi := int64(0), int64(1)<<n-1
		if kind.IsSigned() {
			lo, hi = -1<<(n-1), 1<<(n-1)-1
		}
		if i < lo || i > hi {
			return sema.Value{}, bad
		}
	case kind == types.ULong && i < 0 && v.CanInt(), v.CanFloat() && math.Abs(f) > 1<<62:
		return sema.Value{}, bad
	}
	return sema.Value{I: i}, nil
}
