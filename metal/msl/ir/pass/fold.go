package pass

import (
	"math"
	"math/bits"

	"minfer/metal/msl/ir"
)

func commutative(op ir.Op) bool {
	switch op {
	case ir.Add, ir.Mul, ir.And, ir.Or, ir.Xor, ir.SMin, ir.SMax, ir.UMin, ir.UMax, ir.SMulHi, ir.UMulHi, ir.FAdd, ir.FMul:
		return true
	}
	return false
}

// fold gives a value equal to what i computes, 0 where i has to be computed. It
// may bring i into a form that others share: constants right, other operands by number.
func (s *simplifier) fold(i *ir.Instr, out *[]*ir.Instr) ir.Value {
	t := s.typ(i.Res[0])
	if v := s.constants(i, t); v != 0 {
		return v
	}
	a := i.Args
	if len(a) == 2 && commutative(i.Op) {
		_, ca := s.bits(a[0])
		_, cb := s.bits(a[1])
		if ca && !cb || ca == cb && a[0] > a[1] {
			a[0], a[1] = a[1], a[0]
		}
	}
	switch op := i.Op; {
	case op >= ir.Add && op <= ir.UMulHi:
		return s.foldInt(i, t, out)
	case op >= ir.FAdd && op <= ir.FNeg:
		return s.foldFloat(i, t, out)
	case op == ir.ICmp:
		return s.foldICmp(i, out)
	case op == ir.Select:
		return s.foldSelect(i, t, out)
	case op >= ir.IntTrunc && op <= ir.Bitcast:
		return s.foldConv(i, t, out)
	case op == ir.PtrAdd:
		return s.foldPtrAdd(i, out)
	case op == ir.PtrDiff:
		return s.foldPtrDiff(i)
	}
	return 0
}

func (s *simplifier) constants(i *ir.Instr, t ir.Type) ir.Value {
	if len(i.Args) == 0 || len(i.Args) > 3 || t.IsSg() || t == ir.Ptr {
		return 0
	}
	var a [3]uint64
	for k, v := range i.Args {
		b, ok := s.bits(v)
		if !ok {
			return 0
		}
		a[k] = b
	}
	r, ok := Eval(i.Op, t, s.typ(i.Args[0]), i.Imm, a[:len(i.Args)])
	if !ok {
		return 0
	}
	return s.constant(t, r)
}

func (s *simplifier) defOf(v ir.Value, op ir.Op) *ir.Instr {
	if d := s.def[v]; d != nil && d.Op == op {
		return d
	}
	return nil
}

// constOp matches x op constant.
func (s *simplifier) constOp(v ir.Value, op ir.Op) (x ir.Value, c uint64, ok bool) {
	d := s.defOf(v, op)
	if d == nil {
		return 0, 0, false
	}
	c, ok = s.bits(s.get(d.Args[1]))
	return s.get(d.Args[0]), c, ok
}

func (s *simplifier) foldInt(i *ir.Instr, t ir.Type, out *[]*ir.Instr) ir.Value {
	x, y := i.Args[0], i.Args[1]
	c, isC := s.bits(y)
	ones := mask(t, math.MaxUint64)
	n := uint64(t.Bits())
	if x == y {
		switch i.Op {
		case ir.Sub, ir.Xor:
			return s.constant(t, 0)
		case ir.And, ir.Or, ir.SMin, ir.SMax, ir.UMin, ir.UMax:
			return x
		}
	}
	if !isC {
		switch i.Op {
		case ir.Add:
			if u, k, ok := s.constOp(x, ir.Add); ok && t == ir.I64 {
				return s.make(i, out, ir.Add, t, 0, s.make(i, out, ir.Add, t, 0, u, y), s.constant(t, k))
			}
			if u, k, ok := s.constOp(y, ir.Add); ok && t == ir.I64 {
				return s.make(i, out, ir.Add, t, 0, s.make(i, out, ir.Add, t, 0, x, u), s.constant(t, k))
			}
		case ir.Shl, ir.LShr, ir.AShr, ir.Sub, ir.SDiv, ir.UDiv:
			if s.is(x, 0) && i.Op != ir.Sub {
				return x
			}
		}
		return 0
	}
	switch i.Op {
	case ir.Add:
		if c == 0 {
			return x
		}
		if u, k, ok := s.constOp(x, ir.Add); ok {
			return s.make(i, out, ir.Add, t, 0, u, s.constant(t, k+c))
		}
	case ir.Sub:
		return s.make(i, out, ir.Add, t, 0, x, s.constant(t, -c))
	case ir.Mul:
		switch {
		case c == 0:
			return y
		case c == 1:
			return x
		case bits.OnesCount64(c) == 1:
			return s.make(i, out, ir.Shl, t, 0, x, s.constant(t, uint64(bits.TrailingZeros64(c))))
		}
		if u, k, ok := s.constOp(x, ir.Mul); ok {
			return s.make(i, out, ir.Mul, t, 0, u, s.constant(t, k*c))
		}
		if u, k, ok := s.constOp(x, ir.Add); ok && t == ir.I64 {
			return s.make(i, out, ir.Add, t, 0, s.make(i, out, ir.Mul, t, 0, u, y), s.constant(t, k*c))
		}
	case ir.SDiv, ir.SRem:
		if signed(t, c) > 0 && s.nonNegative(x) {
			op := ir.UDiv
			if i.Op == ir.SRem {
				op = ir.URem
			}
			return s.make(i, out, op, t, 0, x, y)
		}
		if c == 1 {
			if i.Op == ir.SRem {
				return s.constant(t, 0)
			}
			return x
		}
	case ir.UDiv:
		switch {
		case c == 0:
			return y
		case s.bound(x, 0) < c:
			return s.constant(t, 0)
		case bits.OnesCount64(c) == 1:
			return s.make(i, out, ir.LShr, t, 0, x, s.constant(t, uint64(bits.TrailingZeros64(c))))
		}
	case ir.URem:
		switch {
		case c == 0:
			return y
		case s.bound(x, 0) < c:
			return x
		case bits.OnesCount64(c) == 1:
			return s.make(i, out, ir.And, t, 0, x, s.constant(t, c-1))
		}
	case ir.And:
		switch {
		case c == 0:
			return y
		case c == ones, c&(c+1) == 0 && s.bound(x, 0) <= c:
			return x
		}
		if u, k, ok := s.constOp(x, ir.And); ok {
			return s.make(i, out, ir.And, t, 0, u, s.constant(t, k&c))
		}
	case ir.Or:
		switch c {
		case 0:
			return x
		case ones:
			return y
		}
	case ir.Xor:
		if c == 0 {
			return x
		}
		if u, k, ok := s.constOp(x, ir.Xor); ok {
			return s.make(i, out, ir.Xor, t, 0, u, s.constant(t, k^c))
		}
	case ir.Shl, ir.LShr, ir.AShr:
		c %= n
		if c == 0 {
			return x
		}
		if u, k, ok := s.constOp(x, i.Op); ok && i.Op != ir.AShr {
			if k = k%n + c; k >= n {
				return s.constant(t, 0)
			}
			return s.make(i, out, i.Op, t, 0, u, s.constant(t, k))
		}
		if u, k, ok := s.constOp(x, ir.Add); ok && t == ir.I64 && i.Op == ir.Shl {
			return s.make(i, out, ir.Add, t, 0, s.make(i, out, ir.Shl, t, 0, u, y), s.constant(t, k<<c))
		}
		if i.Op == ir.AShr && s.nonNegative(x) {
			return s.make(i, out, ir.LShr, t, 0, x, y)
		}
		if i.Op == ir.LShr && s.bound(x, 0)>>c == 0 {
			return s.constant(t, 0)
		}
	case ir.UMin:
		if s.bound(x, 0) <= c {
			return x
		}
	case ir.UMax:
		if s.bound(x, 0) <= c {
			return y
		}
	}
	return 0
}

// nonNegative proves that x is not negative as a signed number.
func (s *simplifier) nonNegative(x ir.Value) bool {
	return s.bound(x, 0)>>(s.typ(x).Bits()-1) == 0
}

// gridBound is the largest value of an attribute by the limits of the language.
func gridBound(k ir.GridKind) uint64 {
	switch k {
	case ir.ThreadIndexInSimdgroup, ir.SimdgroupIndexInThreadgroup:
		return 31
	case ir.SimdgroupsPerThreadgroup, ir.DispatchSimdgroupsPerThreadgroup, ir.ThreadsPerSimdgroup:
		return 32
	case ir.ThreadIndexInQuadgroup:
		return 3
	case ir.QuadgroupIndexInThreadgroup:
		return 255
	case ir.QuadgroupsPerThreadgroup:
		return 256
	case ir.ThreadPositionInThreadgroup, ir.ThreadIndexInThreadgroup:
		return 1023
	case ir.ThreadsPerThreadgroup, ir.DispatchThreadsPerThreadgroup:
		return 1024
	}
	return math.MaxUint32
}

// bound gives an upper bound of x as an unsigned number.
func (s *simplifier) bound(x ir.Value, depth int) uint64 {
	t := s.typ(x)
	all := mask(t, math.MaxUint64)
	d := s.def[x]
	if d == nil || depth > 8 || !d.Op.Pure() {
		return all
	}
	arg := func(k int) uint64 { return s.bound(s.get(d.Args[k]), depth+1) }
	switch d.Op {
	case ir.Const:
		return d.Imm
	case ir.Grid:
		return gridBound(ir.GridKind(d.Imm >> 2))
	case ir.ZExt:
		return arg(0)
	case ir.SExt:
		if b := arg(0); b>>(s.typ(s.get(d.Args[0])).Bits()-1) == 0 {
			return b
		}
	case ir.IntTrunc:
		return min(all, arg(0))
	case ir.And, ir.UMin:
		return min(arg(0), arg(1))
	case ir.UMax:
		return max(arg(0), arg(1))
	case ir.Or, ir.Xor:
		return 1<<bits.Len64(arg(0)|arg(1)) - 1
	case ir.Select:
		return max(arg(1), arg(2))
	case ir.URem:
		if b := arg(1); b > 0 {
			return min(arg(0), b-1)
		}
	case ir.UDiv:
		return arg(0)
	case ir.LShr:
		if c, ok := s.bits(s.get(d.Args[1])); ok {
			return arg(0) >> (c % uint64(t.Bits()))
		}
		return arg(0)
	case ir.Add:
		if a, b := arg(0), arg(1); a <= all-b {
			return a + b
		}
	case ir.Mul:
		if hi, lo := bits.Mul64(arg(0), arg(1)); hi == 0 && lo <= all {
			return lo
		}
	case ir.Shl:
		if c, ok := s.bits(s.get(d.Args[1])); ok {
			if c %= uint64(t.Bits()); arg(0) <= all>>c {
				return arg(0) << c
			}
		}
	case ir.Clz, ir.Ctz, ir.Popcount:
		return uint64(t.Bits())
	}
	return all
}

func (s *simplifier) foldFloat(i *ir.Instr, t ir.Type, out *[]*ir.Instr) ir.Value {
	x := i.Args[0]
	if i.Op == ir.FNeg {
		if d := s.defOf(x, ir.FNeg); d != nil {
			return s.get(d.Args[0])
		}
		return 0
	}
	c, ok := s.bits(i.Args[1])
	if !ok {
		return 0
	}
	one, negZero := t.FloatBits(1), t.FloatBits(float32(math.Copysign(0, -1)))
	switch i.Op {
	case ir.FMul:
		if c == one {
			return x
		}
	case ir.FDiv:
		if c == one {
			return x
		}
		// The reciprocal of a power of two is exact, so both round the same number.
		f := float64(t.Float(c))
		limit := 100
		if t == ir.F16 {
			limit = 12
		}
		if m, e := math.Frexp(f); math.Abs(m) == 0.5 && e > -limit && e < limit {
			return s.make(i, out, ir.FMul, t, i.Imm, x, s.constant(t, t.FloatBits(float32(1/f))))
		}
	case ir.FAdd:
		if c == negZero || c == 0 && i.Imm == ContractAny {
			return x
		}
	case ir.FSub:
		if c == 0 {
			return x
		}
	}
	return 0
}

func (s *simplifier) foldICmp(i *ir.Instr, out *[]*ir.Instr) ir.Value {
	x, y := i.Args[0], i.Args[1]
	p := ir.Pred(i.Imm)
	t := s.typ(x)
	if x == y {
		switch p {
		case ir.Eq, ir.SLe, ir.SGe, ir.ULe, ir.UGe:
			return s.constant(ir.I1, 1)
		}
		return s.constant(ir.I1, 0)
	}
	if t == ir.Ptr {
		// A local object is at no other address.
		if p <= ir.Ne && (s.local(x) && s.foreign(y) || s.local(y) && s.foreign(x)) {
			return s.constant(ir.I1, boolBits(p == ir.Ne))
		}
		return 0
	}
	c, ok := s.bits(y)
	if !ok {
		return 0
	}
	if t == ir.I1 {
		if (p == ir.Eq) == (c == 1) {
			return x
		}
		return s.not(i, x, out)
	}
	if d := s.def[x]; d != nil && c == 0 && p <= ir.Ne && (d.Op == ir.ZExt || d.Op == ir.SExt) && s.typ(s.get(d.Args[0])) == ir.I1 {
		if p == ir.Ne {
			return s.get(d.Args[0])
		}
		return s.not(i, s.get(d.Args[0]), out)
	}
	b := s.bound(x, 0)
	sc := signed(t, c)
	pos := b>>(t.Bits()-1) == 0
	switch {
	case p == ir.ULt && b < c, p == ir.ULe && b <= c, p == ir.UGe && c == 0,
		pos && p == ir.SLt && sc > 0 && b < c, pos && p == ir.SLe && sc >= 0 && b <= c, pos && p == ir.SGe && sc <= 0, pos && p == ir.SGt && sc < 0,
		p == ir.Ne && b < c:
		return s.constant(ir.I1, 1)
	case p == ir.ULt && c == 0, p == ir.UGt && b <= c, p == ir.UGe && b < c,
		pos && p == ir.SLt && sc <= 0, pos && p == ir.SLe && sc < 0, pos && p == ir.SGe && sc > 0 && b < c, pos && p == ir.SGt && sc >= 0 && b <= c,
		p == ir.Eq && b < c:
		return s.constant(ir.I1, 0)
	}
	return 0
}

// local tells addresses within an alloca or a threadgroup variable.
func (s *simplifier) local(p ir.Value) bool {
	d := s.object(p)
	return d != nil && (d.Op == ir.PtrAlloca || d.Op == ir.PtrStatic)
}

// foreign tells addresses that are null or in an argument or table.
func (s *simplifier) foreign(p ir.Value) bool {
	d := s.object(p)
	return d != nil && (d.Op == ir.Const || d.Op == ir.PtrParam || d.Op == ir.PtrTable)
}

func (s *simplifier) object(p ir.Value) *ir.Instr {
	for {
		d := s.def[p]
		if d == nil || d.Op != ir.PtrAdd {
			return d
		}
		p = s.get(d.Args[0])
	}
}

func (s *simplifier) not(i *ir.Instr, x ir.Value, out *[]*ir.Instr) ir.Value {
	return s.make(i, out, ir.Xor, ir.I1, 0, x, s.constant(ir.I1, 1))
}

func (s *simplifier) foldSelect(i *ir.Instr, t ir.Type, out *[]*ir.Instr) ir.Value {
	c, x, y := i.Args[0], i.Args[1], i.Args[2]
	if b, ok := s.bits(c); ok {
		return i.Args[2-b&1]
	}
	if x == y {
		return x
	}
	// c && x stays a select: x may be indeterminate where c is false.
	if t == ir.I1 {
		bx, okx := s.bits(x)
		_, oky := s.bits(y)
		switch {
		case okx && oky && bx == 1:
			return c
		case okx && oky:
			return s.not(i, c, out)
		}
	}
	return 0
}

func (s *simplifier) foldConv(i *ir.Instr, t ir.Type, out *[]*ir.Instr) ir.Value {
	x := i.Args[0]
	at := s.typ(x)
	d := s.def[x]
	resize := func(v ir.Value) ir.Value {
		vt := s.typ(v)
		switch {
		case vt == t:
			return v
		case vt.Bits() < t.Bits():
			return s.make(i, out, ir.ZExt, t, 0, v)
		}
		return s.make(i, out, ir.IntTrunc, t, 0, v)
	}
	switch i.Op {
	case ir.SExt:
		if at != ir.I1 && s.nonNegative(x) {
			return s.make(i, out, ir.ZExt, t, 0, x)
		}
		if d != nil && d.Op == ir.SExt {
			return s.make(i, out, ir.SExt, t, 0, s.get(d.Args[0]))
		}
	case ir.ZExt:
		if d == nil {
			return 0
		}
		switch d.Op {
		case ir.ZExt:
			return s.make(i, out, ir.ZExt, t, 0, s.get(d.Args[0]))
		case ir.IntTrunc:
			if v := s.get(d.Args[0]); at != ir.I1 && s.bound(v, 0) <= mask(at, math.MaxUint64) {
				return resize(v)
			}
		case ir.Add:
			// A sum that can't wrap: the constant goes to the outside.
			if u, c, ok := s.constOp(x, ir.Add); ok && t == ir.I64 {
				if b := s.bound(u, 0); b <= mask(at, math.MaxUint64)-c {
					return s.make(i, out, ir.Add, t, 0, s.make(i, out, ir.ZExt, t, 0, u), s.constant(t, c))
				}
			}
		}
	case ir.IntTrunc:
		if d == nil {
			return 0
		}
		switch d.Op {
		case ir.IntTrunc:
			return s.make(i, out, ir.IntTrunc, t, 0, s.get(d.Args[0]))
		case ir.ZExt, ir.SExt:
			v := s.get(d.Args[0])
			if s.typ(v).Bits() >= t.Bits() || d.Op == ir.ZExt {
				return resize(v)
			}
			return s.make(i, out, ir.SExt, t, 0, v)
		}
	case ir.FConv:
		// Widening and narrowing back.
		if d != nil && d.Op == ir.FConv && at == ir.F32 && s.typ(s.get(d.Args[0])) == t {
			return s.get(d.Args[0])
		}
	case ir.Bitcast:
		if d != nil && d.Op == ir.Bitcast {
			if v := s.get(d.Args[0]); s.typ(v) == t {
				return v
			}
			return s.make(i, out, ir.Bitcast, t, 0, s.get(d.Args[0]))
		}
	case ir.SToF:
		if at != ir.I1 && s.nonNegative(x) {
			return s.make(i, out, ir.UToF, t, 0, x)
		}
	case ir.UToF:
		if d != nil && d.Op == ir.ZExt {
			return s.make(i, out, ir.UToF, t, 0, s.get(d.Args[0]))
		}
	}
	return 0
}

// foldPtrAdd brings an address to the form ((object + variable part) + constant).
func (s *simplifier) foldPtrAdd(i *ir.Instr, out *[]*ir.Instr) ir.Value {
	p, off := i.Args[0], i.Args[1]
	c, isC := s.bits(off)
	if isC && c == 0 {
		return p
	}
	if q, k, ok := s.constOp(p, ir.PtrAdd); ok {
		if isC {
			return s.make(i, out, ir.PtrAdd, ir.Ptr, 0, q, s.constant(ir.I64, k+c))
		}
		return s.make(i, out, ir.PtrAdd, ir.Ptr, 0, s.make(i, out, ir.PtrAdd, ir.Ptr, 0, q, off), s.constant(ir.I64, k))
	}
	if u, k, ok := s.constOp(off, ir.Add); ok {
		return s.make(i, out, ir.PtrAdd, ir.Ptr, 0, s.make(i, out, ir.PtrAdd, ir.Ptr, 0, p, u), s.constant(ir.I64, k))
	}
	return 0
}

func (s *simplifier) foldPtrDiff(i *ir.Instr) ir.Value {
	base := func(p ir.Value) (ir.Value, uint64) {
		if q, k, ok := s.constOp(p, ir.PtrAdd); ok {
			return q, k
		}
		return p, 0
	}
	p, k := base(i.Args[0])
	q, l := base(i.Args[1])
	if p == q {
		return s.constant(ir.I64, k-l)
	}
	return 0
}
