package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/types"
)

// value is an rvalue: the scalars of its type in the order of leaves.
type value struct {
	typ *types.Type
	s   []ir.Value
}

// leaf is a scalar part of a type.
type leaf struct {
	off int
	typ ir.Type
}

// place is an lvalue.
type place struct {
	ptr      ir.Value
	typ      *types.Type // of the object at ptr
	space    ir.Space
	align    int // what is known of ptr beyond the type's alignment
	coherent bool
	// A component of a vector remembers the vector: its size and the offset in it.
	vector, vectorOff int
	// comps picks components of the vector at ptr; the place then stands for these.
	comps []uint8
	// lanes: the place stands for the lane's elements of the simdgroup matrix at ptr.
	lanes bool
}

// placeAt is the object of type q at an address.
func (l *lowerer) placeAt(ptr ir.Value, q types.Qual) place {
	return place{ptr: ptr, typ: q.T, space: space(q.Space), coherent: q.Coherent || q.Volatile}
}

func scalarType(k types.Kind) ir.Type {
	switch k {
	case types.Bool:
		return ir.I1
	case types.Char, types.UChar:
		return ir.I8
	case types.Short, types.UShort:
		return ir.I16
	case types.Int, types.UInt:
		return ir.I32
	case types.Long, types.ULong:
		return ir.I64
	case types.Half:
		return ir.F16
	case types.BFloat:
		return ir.BF16
	case types.Float:
		return ir.F32
	}
	return ir.Void
}

// maxLeaves bounds values: nobody copies more by value.
const maxLeaves = 1 << 14

// leaves takes a type apart.
func (l *lowerer) leaves(t *types.Type) []leaf {
	if c, ok := l.leafCache[t]; ok {
		return c
	}
	var out []leaf
	l.appendLeaves(&out, t, 0)
	l.leafCache[t] = out
	return out
}

func (l *lowerer) appendLeaves(out *[]leaf, t *types.Type, at int) {
	if len(*out) > maxLeaves {
		l.fail(0, "a value of type %s has more than %d scalars", t, maxLeaves)
	}
	switch t.Kind {
	case types.Vector, types.PackedVector:
		e := scalarType(t.Elem)
		for c := range t.N {
			*out = append(*out, leaf{at + c*e.Size(), e})
		}
	case types.Matrix:
		for c := range t.N {
			l.appendLeaves(out, t.Column(), at+c*t.Column().Size())
		}
	case types.SgMatrix:
		*out = append(*out, leaf{at, ir.SgOf(scalarType(t.Elem))})
	case types.Pointer, types.Reference, types.NullPtr:
		*out = append(*out, leaf{at, ir.Ptr})
	case types.Enum:
		l.appendLeaves(out, t.Under, at)
	case types.Array:
		for k := range max(t.N, 0) {
			l.appendLeaves(out, t.Of.T, at+k*t.Of.T.Size())
		}
	case types.Struct:
		if t.Union {
			// Words: the members' views are for loads and stores.
			w := ir.IntOf(min(t.Align(), 8))
			for off := 0; off < t.Size(); off += w.Size() {
				*out = append(*out, leaf{at + off, w})
			}
			return
		}
		for i := range t.Fields {
			l.appendLeaves(out, t.Fields[i].Type.T, at+t.Fields[i].Offset)
		}
	default:
		e := scalarType(t.ScalarKind())
		if e == ir.Void {
			l.fail(0, "an object of type %s is not supported", t)
		}
		*out = append(*out, leaf{at, e})
	}
}

func (p place) mem(off int, natural int) ir.Mem {
	a := max(p.typ.Align(), p.align)
	if off != 0 {
		a = min(a, off&-off)
	}
	return ir.Mem{Align: max(a, natural), Space: p.space, Coherent: p.coherent && p.space == ir.Device, Vector: p.vector, VectorOff: p.vectorOff}
}

// runs calls visit for the pieces in which a type is loaded and stored: whole
// vectors, columns, pairs and fours of array elements, single scalars. natural is
// the alignment that the piece's own type has.
func runs(leaves []leaf, t *types.Type, visit func(from, n, natural int)) {
	k := 0
	var piece func(t *types.Type)
	piece = func(t *types.Type) {
		switch t.Kind {
		case types.Vector, types.PackedVector:
			visit(k, t.N, t.Align())
			k += t.N
		case types.Matrix:
			for range t.N {
				visit(k, t.Rows, t.Column().Align())
				k += t.Rows
			}
		case types.Array:
			if e := t.Of.T; e.IsScalar() {
				for n := max(t.N, 0); n > 0; {
					c := min(n, 4)
					visit(k, c, e.Align())
					k += c
					n -= c
				}
				return
			}
			for range max(t.N, 0) {
				piece(t.Of.T)
			}
		case types.Struct:
			if t.Union {
				for n := 0; n < t.Size(); n += min(t.Align(), 8) {
					visit(k, 1, min(t.Align(), 8))
					k++
				}
				return
			}
			for i := range t.Fields {
				piece(t.Fields[i].Type.T)
			}
		default:
			visit(k, 1, t.Align())
			k++
		}
	}
	piece(t)
}

func (l *lowerer) load(p place) value {
	if p.lanes {
		return l.loadLanes(p)
	}
	if p.comps != nil {
		return l.loadComps(p)
	}
	lv := l.leaves(p.typ)
	v := value{typ: p.typ, s: make([]ir.Value, len(lv))}
	runs(lv, p.typ, func(from, n, natural int) {
		m := p.mem(lv[from].off, natural)
		m.Elem, m.Count = lv[from].typ, n
		if m.Elem.IsSg() || m.Elem == ir.Ptr {
			l.memoryOnly(p, m.Elem)
		}
		l.instrs++
		copy(v.s[from:], l.b.Load(l.offset(p.ptr, lv[from].off), m))
	})
	return v
}

// memoryOnly refuses what has no form in shared memory.
func (l *lowerer) memoryOnly(p place, t ir.Type) {
	if p.space != ir.Thread {
		what := "a pointer"
		if t.IsSg() {
			what = "a simdgroup matrix"
		}
		l.fail(0, "%s in %s memory is not supported", what, p.space)
	}
}

func (l *lowerer) store(p place, v value) {
	if p.space == ir.Constant {
		l.fail(0, "a write to constant memory")
	}
	if p.lanes {
		l.storeLanes(p, v)
		return
	}
	if p.comps != nil {
		// Neighbours go in one store.
		e := p.typ.Elem.Size()
		for k := 0; k < len(p.comps); {
			n := 1
			for k+n < len(p.comps) && p.comps[k+n] == p.comps[k]+uint8(n) {
				n++
			}
			q := l.component(p, int(p.comps[k]), e)
			m := q.mem(0, e)
			m.Elem = scalarType(p.typ.Elem)
			l.instrs++
			l.b.Store(q.ptr, m, v.s[k:k+n]...)
			k += n
		}
		return
	}
	lv := l.leaves(p.typ)
	runs(lv, p.typ, func(from, n, natural int) {
		m := p.mem(lv[from].off, natural)
		m.Elem = lv[from].typ
		if m.Elem.IsSg() || m.Elem == ir.Ptr {
			l.memoryOnly(p, m.Elem)
		}
		l.instrs++
		l.b.Store(l.offset(p.ptr, lv[from].off), m, v.s[from:from+n]...)
	})
}

// component is the place of one component of the vector at p.
func (l *lowerer) component(p place, c, size int) place {
	q := place{ptr: l.offset(p.ptr, c*size), typ: types.Scalar(p.typ.Elem), space: p.space, coherent: p.coherent}
	a := max(p.typ.Align(), p.align)
	if c > 0 {
		a = min(a, c*size&-(c*size))
	}
	q.align = a
	if p.typ.Kind == types.Vector && (p.space == ir.Device || p.space == ir.Threadgroup) {
		q.vector, q.vectorOff = p.typ.Size(), c*size
	}
	return q
}

func (l *lowerer) loadComps(p place) value {
	e := p.typ.Elem.Size()
	out := value{typ: types.Vec(p.typ.Elem, len(p.comps))}
	for _, c := range p.comps {
		q := l.component(p, int(c), e)
		q.vector, q.vectorOff = 0, 0 // reading one component reads no other
		out.s = append(out.s, l.load(q).s[0])
	}
	return out
}

// loadLanes and storeLanes give the lane's two elements of a simdgroup matrix.
func (l *lowerer) loadLanes(p place) value {
	m := place{ptr: p.ptr, typ: p.typ, space: p.space}
	mat := l.load(m).s[0]
	e := scalarType(p.typ.Elem)
	comps := p.comps
	if comps == nil {
		comps = []uint8{0, 1}
	}
	out := value{typ: types.Vec(p.typ.Elem, len(comps))}
	for _, c := range comps {
		out.s = append(out.s, l.emit(ir.SgElem, e, uint64(c), mat))
	}
	return out
}

func (l *lowerer) storeLanes(p place, v value) {
	m := place{ptr: p.ptr, typ: p.typ, space: p.space}
	mat := l.load(m).s[0]
	comps := p.comps
	if comps == nil {
		comps = []uint8{0, 1}
	}
	for k, c := range comps {
		mat = l.emit(ir.SgWith, l.b.TypeOf(mat), uint64(c), mat, v.s[k])
	}
	l.store(m, value{p.typ, []ir.Value{mat}})
}

// spill puts a value into an object of its own.
func (l *lowerer) spill(v value) place {
	p := l.object("", v.typ, 0)
	l.store(p, v)
	return p
}

// zero is a value of all zero bits.
func (l *lowerer) zero(t *types.Type) value {
	v := value{typ: t}
	for _, f := range l.leaves(t) {
		v.s = append(v.s, l.zeroOf(f.typ))
	}
	return v
}

func (l *lowerer) zeroOf(t ir.Type) ir.Value {
	if t.IsSg() {
		return l.emit(ir.SgFill, t, 0, l.const_(t.SgElem(), 0))
	}
	return l.const_(t, 0)
}
