package lower

import (
	"encoding/binary"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/types"
)

// constBits gives the bits of a constant scalar.
func constBits(k types.Kind, v *sema.Value) uint64 {
	if k.IsFloat() {
		t := scalarType(k)
		return t.FloatBits(float32(v.F))
	}
	x := uint64(v.I)
	if n := scalarType(k).Bits(); n < 64 {
		x &= 1<<n - 1
	}
	return x
}

// constValue makes a constant of any type.
func (l *lowerer) constValue(t *types.Type, c *sema.Value) value {
	v := value{typ: t}
	if t.Kind == types.Struct && t.Union {
		data := make([]byte, t.Size())
		l.encode(data, t, c)
		for _, f := range l.leaves(t) {
			var w [8]byte
			copy(w[:], data[f.off:f.off+f.typ.Size()])
			v.s = append(v.s, l.const_(f.typ, binary.LittleEndian.Uint64(w[:])))
		}
		return v
	}
	elem := func(k int) *sema.Value {
		if k < len(c.Elems) {
			return &c.Elems[k]
		}
		return &sema.Value{}
	}
	switch t.Kind {
	case types.Void:
	case types.Vector, types.PackedVector:
		for k := range t.N {
			v.s = append(v.s, l.const_(scalarType(t.Elem), constBits(t.Elem, elem(k))))
		}
	case types.Matrix:
		for k := range t.N {
			v.s = append(v.s, l.constValue(t.Column(), elem(k)).s...)
		}
	case types.Array:
		for k := range max(t.N, 0) {
			v.s = append(v.s, l.constValue(t.Of.T, elem(k)).s...)
		}
	case types.Struct:
		for k := range t.Fields {
			v.s = append(v.s, l.constValue(t.Fields[k].Type.T, elem(k)).s...)
		}
	case types.Pointer, types.Reference, types.NullPtr:
		v.s = []ir.Value{l.address(c)}
	case types.SgMatrix:
		return l.zero(t)
	default:
		k := t.ScalarKind()
		if scalarType(k) == ir.Void {
			l.fail(0, "a constant of type %s", t)
		}
		v.s = []ir.Value{l.const_(scalarType(k), constBits(k, c))}
	}
	return v
}

// address makes a constant pointer.
func (l *lowerer) address(c *sema.Value) ir.Value {
	if c.Ref == nil {
		return l.const_(ir.Ptr, 0)
	}
	return l.offset(l.variable(c.Ref).ptr, c.Offset)
}

// table gives the address of a constant object.
func (l *lowerer) table(v *sema.Var) ir.Value {
	n, ok := l.tables[v]
	if !ok {
		data := make([]byte, v.Type.T.Size())
		l.encode(data, v.Type.T, v.Value)
		n = l.b.Table(ir.Table{Name: v.Name, Data: data})
		l.tables[v] = n
	}
	return l.emit(ir.PtrTable, ir.Ptr, uint64(n))
}

// encode writes a constant as it lies in memory.
func (l *lowerer) encode(dst []byte, t *types.Type, c *sema.Value) {
	each := func(n int, e *types.Type) {
		for k := range min(n, len(c.Elems)) {
			l.encode(dst[k*e.Size():], e, &c.Elems[k])
		}
	}
	switch t.Kind {
	case types.Vector, types.PackedVector:
		each(t.N, types.Scalar(t.Elem))
	case types.Matrix:
		each(t.N, t.Column())
	case types.Array:
		each(t.N, t.Of.T)
	case types.Struct:
		if t.Union {
			if len(c.Elems) > 0 && c.Field < len(t.Fields) {
				l.encode(dst, t.Fields[c.Field].Type.T, &c.Elems[0])
			}
			return
		}
		for k := range min(len(t.Fields), len(c.Elems)) {
			l.encode(dst[t.Fields[k].Offset:], t.Fields[k].Type.T, &c.Elems[k])
		}
	case types.Pointer, types.Reference, types.NullPtr:
		if c.Ref != nil {
			l.fail(0, "a pointer inside a constant object is not supported")
		}
	default:
		k := t.ScalarKind()
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], constBits(k, c))
		copy(dst, w[:k.Size()])
	}
}
