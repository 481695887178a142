package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/types"
)

func (l *lowerer) unary(e *sema.Unary) value {
	x := l.rv(e.X)
	l.at(e.Where)
	out := value{typ: e.T.T}
	for _, v := range x.s {
		t := l.b.TypeOf(v)
		switch e.Op {
		case sema.Neg:
			if t.IsFloat() {
				v = l.emit(ir.FNeg, t, 0, v)
			} else {
				v = l.emit(ir.Sub, t, 0, l.const_(t, 0), v)
			}
		case sema.BitNot:
			v = l.emit(ir.Xor, t, 0, v, l.const_(t, ^uint64(0)))
		case sema.Not:
			v = l.emit(ir.Xor, ir.I1, 0, l.truth(v), l.const_(ir.I1, 1))
		}
		out.s = append(out.s, v)
	}
	return out
}

// truth is v != 0.
func (l *lowerer) truth(v ir.Value) ir.Value {
	t := l.b.TypeOf(v)
	switch {
	case t == ir.I1:
		return v
	case t.IsFloat():
		return l.emit(ir.FCmp, ir.I1, uint64(ir.Ne), v, l.const_(t, 0))
	}
	return l.emit(ir.ICmp, ir.I1, uint64(ir.Ne), v, l.const_(t, 0))
}

func (l *lowerer) binaryExpr(e *sema.Binary) value {
	if e.Op == sema.LAnd || e.Op == sema.LOr {
		return l.logical(e)
	}
	x, y := l.rv(e.L), l.rv(e.R)
	l.at(e.Where)
	return l.arith(e.Op, x, y, e.T.T)
}

// logical evaluates the right side on need; the passes make it unconditional where
// it only computes.
func (l *lowerer) logical(e *sema.Binary) value {
	x := l.rv(e.L).s[0]
	short := uint64(0) // the value that decides
	if e.Op == sema.LOr {
		short = 1
	}
	if c, ok := l.constOf(x); ok {
		if c == short {
			return value{e.T.T, []ir.Value{x}}
		}
		return l.rv(e.R)
	}
	l.at(e.Where)
	right := func() []ir.Value { return l.rv(e.R).s }
	known := func() []ir.Value { return []ir.Value{l.const_(ir.I1, short)} }
	if e.Op == sema.LOr {
		return value{e.T.T, l.b.If(x, []ir.Type{ir.I1}, known, right)}
	}
	return value{e.T.T, l.b.If(x, []ir.Type{ir.I1}, right, known)}
}

// arith applies an operator to operands of one type (but see sema.Binary); t is the
// result's type.
func (l *lowerer) arith(op sema.BinaryOp, x, y value, t *types.Type) value {
	if op == sema.Mul && (x.typ.Kind == types.Matrix || y.typ.Kind == types.Matrix) {
		return l.matMul(x, y, t)
	}
	n := max(len(x.s), len(y.s))
	out := value{typ: t}
	for k := range n {
		out.s = append(out.s, l.scalarOp(op, pick(x, k), pick(y, k), x.typ.ScalarKind()))
	}
	return out
}

func pick(v value, k int) ir.Value {
	if len(v.s) == 1 {
		return v.s[0]
	}
	return v.s[k]
}

func (l *lowerer) scalarOp(op sema.BinaryOp, x, y ir.Value, k types.Kind) ir.Value {
	t := l.b.TypeOf(x)
	if op >= sema.Eq && op <= sema.Ge {
		return l.compare(op, x, y, t, k)
	}
	if t.IsFloat() {
		o := [...]ir.Op{sema.Add: ir.FAdd, sema.Sub: ir.FSub, sema.Mul: ir.FMul, sema.Div: ir.FDiv, sema.Rem: ir.FRem}
		if int(op) >= len(o) {
			l.fail(0, "operator %s on floats", op)
		}
		imm := l.contraction()
		if o[op] == ir.FRem {
			imm = 0
		}
		return l.emit(o[op], t, imm, x, y)
	}
	signed := k.IsSigned()
	choose := func(s, u ir.Op) ir.Op {
		if signed {
			return s
		}
		return u
	}
	var o ir.Op
	switch op {
	case sema.Add:
		o = ir.Add
	case sema.Sub:
		o = ir.Sub
	case sema.Mul:
		o = ir.Mul
	case sema.Div:
		o = choose(ir.SDiv, ir.UDiv)
	case sema.Rem:
		o = choose(ir.SRem, ir.URem)
	case sema.BitAnd:
		o = ir.And
	case sema.BitOr:
		o = ir.Or
	case sema.BitXor:
		o = ir.Xor
	case sema.Shl, sema.Shr:
		o = ir.Shl
		if op == sema.Shr {
			o = choose(ir.AShr, ir.LShr)
		}
		y = l.resize(y, t)
	default:
		l.fail(0, "operator %s", op)
	}
	if t == ir.I1 && o != ir.And && o != ir.Or && o != ir.Xor {
		// Arithmetic on bools is that of integers, modulo two.
		z := l.emit(o, ir.I32, 0, l.emit(ir.ZExt, ir.I32, 0, x), l.emit(ir.ZExt, ir.I32, 0, y))
		return l.truth(z)
	}
	return l.emit(o, t, 0, x, y)
}

// resize changes the width of a shift count.
func (l *lowerer) resize(v ir.Value, t ir.Type) ir.Value {
	switch vt := l.b.TypeOf(v); {
	case vt == t:
		return v
	case vt.Bits() < t.Bits():
		return l.emit(ir.ZExt, t, 0, v)
	default:
		return l.emit(ir.IntTrunc, t, 0, v)
	}
}

func (l *lowerer) compare(op sema.BinaryOp, x, y ir.Value, t ir.Type, k types.Kind) ir.Value {
	n := op - sema.Eq
	if t.IsFloat() {
		p := [...]ir.Pred{ir.Eq, ir.Ne, ir.FLt, ir.FLe, ir.FGt, ir.FGe}[n]
		return l.emit(ir.FCmp, ir.I1, uint64(p), x, y)
	}
	if t == ir.I1 && n > 1 {
		x, y, t = l.emit(ir.ZExt, ir.I32, 0, x), l.emit(ir.ZExt, ir.I32, 0, y), ir.I32
	}
	p := [...]ir.Pred{ir.Eq, ir.Ne, ir.ULt, ir.ULe, ir.UGt, ir.UGe}[n]
	if k.IsSigned() {
		p = [...]ir.Pred{ir.Eq, ir.Ne, ir.SLt, ir.SLe, ir.SGt, ir.SGe}[n]
	}
	return l.emit(ir.ICmp, ir.I1, uint64(p), x, y)
}

// matMul is the product of a matrix with a matrix, vector or scalar; sums go from
// the first term up.
func (l *lowerer) matMul(x, y value, t *types.Type) value {
	out := value{typ: t}
	mul := func(a, b ir.Value) ir.Value { return l.emit(ir.FMul, l.b.TypeOf(a), l.contraction(), a, b) }
	sum := func(n int, term func(k int) ir.Value) ir.Value {
		s := term(0)
		for k := 1; k < n; k++ {
			s = l.emit(ir.FAdd, l.b.TypeOf(s), l.contraction(), s, term(k))
		}
		return s
	}
	switch {
	case x.typ.IsScalar() || y.typ.IsScalar():
		for k := range max(len(x.s), len(y.s)) {
			out.s = append(out.s, mul(pick(x, k), pick(y, k)))
		}
	case y.typ.Kind != types.Matrix: // matrix * column vector
		rows := x.typ.Rows
		for r := range rows {
			out.s = append(out.s, sum(x.typ.N, func(c int) ir.Value { return mul(x.s[c*rows+r], y.s[c]) }))
		}
	case x.typ.Kind != types.Matrix: // row vector * matrix
		rows := y.typ.Rows
		for c := range y.typ.N {
			out.s = append(out.s, sum(rows, func(r int) ir.Value { return mul(x.s[r], y.s[c*rows+r]) }))
		}
	default:
		rows := x.typ.Rows
		for c := range y.typ.N {
			for r := range rows {
				out.s = append(out.s, sum(x.typ.N, func(k int) ir.Value { return mul(x.s[k*rows+r], y.s[c*y.typ.Rows+k]) }))
			}
		}
	}
	return out
}

// convScalar converts between scalar kinds by the rules of the language.
func (l *lowerer) convScalar(v ir.Value, from, to types.Kind) ir.Value {
	ft, tt := scalarType(from), scalarType(to)
	if ft == ir.Void || tt == ir.Void {
		l.fail(0, "a conversion from %s to %s", from, to)
	}
	switch {
	case to == types.Bool:
		return l.truth(v)
	case ft == tt:
		return v
	case from == types.Bool && tt.IsFloat():
		return l.emit(ir.UToF, tt, 0, v)
	case from == types.Bool:
		return l.emit(ir.ZExt, tt, 0, v)
	case ft.IsFloat() && tt.IsFloat():
		return l.emit(ir.FConv, tt, 0, v)
	case ft.IsFloat():
		if to.IsSigned() {
			return l.emit(ir.FToS, tt, 0, v)
		}
		return l.emit(ir.FToU, tt, 0, v)
	case tt.IsFloat():
		if from.IsSigned() {
			return l.emit(ir.SToF, tt, 0, v)
		}
		return l.emit(ir.UToF, tt, 0, v)
	case tt.Bits() < ft.Bits():
		return l.emit(ir.IntTrunc, tt, 0, v)
	case from.IsSigned():
		return l.emit(ir.SExt, tt, 0, v)
	}
	return l.emit(ir.ZExt, tt, 0, v)
}

// convNumeric converts element by element.
func (l *lowerer) convNumeric(v value, t *types.Type) value {
	if v.typ == t {
		return v
	}
	from, to := v.typ.ScalarKind(), t.ScalarKind()
	out := value{typ: t}
	for _, x := range v.s {
		out.s = append(out.s, l.convScalar(x, from, to))
	}
	if v.typ.Kind == types.SgMatrix {
		l.fail(0, "a conversion between simdgroup matrices")
	}
	return out
}

func (l *lowerer) convert(e *sema.Convert) value {
	t := e.T.T
	switch e.How {
	case sema.ConvVoid:
		l.effects(e.X)
		return value{typ: t}
	case sema.ConvNull:
		return value{t, []ir.Value{l.const_(ir.Ptr, 0)}}
	case sema.ConvDecay:
		p := l.lv(e.X)
		return value{t, []ir.Value{p.ptr}}
	}
	x := l.rv(e.X)
	l.at(e.Where)
	switch e.How {
	case sema.ConvNumeric:
		if t.Kind == types.SgMatrix || x.typ.Kind == types.SgMatrix {
			l.fail(e.Where, "a conversion from %s to %s is not supported", x.typ, t)
		}
		return l.convNumeric(x, t)
	case sema.ConvSplat:
		out := value{typ: t}
		for range l.leaves(t) {
			out.s = append(out.s, x.s[0])
		}
		return out
	case sema.ConvBits:
		return l.bits(x, t)
	case sema.ConvPointer:
		if t.Kind != types.Pointer || x.typ.Kind != types.Pointer && x.typ.Kind != types.NullPtr {
			l.fail(e.Where, "a conversion from %s to %s is not supported: pointers have no integer value here", x.typ, t)
		}
		return value{t, x.s}
	case sema.ConvPtrBool:
		c := l.emit(ir.ICmp, ir.I1, uint64(ir.Ne), x.s[0], l.const_(ir.Ptr, 0))
		return value{t, []ir.Value{c}}
	case sema.ConvBase:
		return value{t, x.s[:len(l.leaves(t))]}
	}
	l.fail(e.Where, "a conversion from %s to %s is not supported", x.typ, t)
	return value{}
}

// bits reinterprets a value as another type of equal size.
func (l *lowerer) bits(x value, t *types.Type) value {
	out := value{typ: t}
	want := l.leaves(t)
	if len(want) == len(x.s) {
		for k, f := range want {
			out.s = append(out.s, l.bitcast(x.s[k], f.typ))
		}
		return out
	}
	// Through the bytes, from the low end.
	have := l.leaves(x.typ)
	word := func(k int) ir.Value { return l.bitcast(x.s[k], ir.IntOf(have[k].typ.Size())) }
	for _, f := range want {
		size := f.typ.Size()
		it := ir.IntOf(size)
		var r ir.Value
		for k, h := range have {
			hs := h.typ.Size()
			if h.off+hs <= f.off || h.off >= f.off+size {
				continue
			}
			if hs >= size { // a part of it
				ht := ir.IntOf(hs)
				w := word(k)
				if f.off > h.off {
					w = l.emit(ir.LShr, ht, 0, w, l.const_(ht, uint64(f.off-h.off)*8))
				}
				r = w
				if hs > size {
					r = l.emit(ir.IntTrunc, it, 0, w)
				}
				break
			}
			w := l.emit(ir.ZExt, it, 0, word(k))
			if h.off > f.off {
				w = l.emit(ir.Shl, it, 0, w, l.const_(it, uint64(h.off-f.off)*8))
			}
			if r == 0 {
				r = w
			} else {
				r = l.emit(ir.Or, it, 0, r, w)
			}
		}
		if r == 0 { // the fourth component of a three-vector
			out.s = append(out.s, l.emit(ir.Undef, f.typ, 0))
			continue
		}
		out.s = append(out.s, l.bitcast(r, f.typ))
	}
	return out
}

func (l *lowerer) bitcast(v ir.Value, t ir.Type) ir.Value {
	from := l.b.TypeOf(v)
	switch {
	case from == t:
		return v
	case from == ir.I1:
		return l.bitcast(l.emit(ir.ZExt, ir.I8, 0, v), t)
	case t == ir.I1:
		return l.truth(v)
	}
	return l.emit(ir.Bitcast, t, 0, v)
}
