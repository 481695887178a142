package pass

import (
	"math"
	"math/bits"

	"minfer/metal/msl/ir"
)

func mask(t ir.Type, x uint64) uint64 {
	if n := t.Bits(); n < 64 {
		return x & (1<<n - 1)
	}
	return x
}

func signed(t ir.Type, x uint64) int64 {
	switch t.Bits() {
	case 1:
		return -int64(x & 1)
	case 8:
		return int64(int8(x))
	case 16:
		return int64(int16(x))
	case 32:
		return int64(int32(x))
	}
	return int64(x)
}

func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Eval computes an instruction of constant operands by the contract of package
// ir: op with result type t, operands of type at with the bits a. ok is false for
// what it does not compute: objects, memory, and the functions whose
// polynomials belong to the devices.
func Eval(op ir.Op, t, at ir.Type, imm uint64, a []uint64) (r uint64, ok bool) {
	switch {
	case op == ir.Const:
		return imm, true
	case op == ir.Select:
		if a[0] != 0 {
			return a[1], true
		}
		return a[2], true
	case op >= ir.Add && op <= ir.ReverseBits:
		return evalInt(op, t, a)
	case op == ir.ICmp:
		if at == ir.Ptr {
			return 0, false
		}
		return boolBits(evalICmp(ir.Pred(imm), at, a[0], a[1])), true
	case op == ir.FCmp:
		return boolBits(evalFCmp(ir.Pred(imm), at.Float(a[0]), at.Float(a[1]))), true
	case op >= ir.IntTrunc && op <= ir.Bitcast:
		return evalConv(op, t, at, a[0]), true
	case op >= ir.FAdd && op <= ir.Sqrt:
		return evalFloat(op, t, a)
	}
	return 0, false
}

func evalInt(op ir.Op, t ir.Type, a []uint64) (uint64, bool) {
	x := a[0]
	var y uint64
	if len(a) > 1 {
		y = a[1]
	}
	n := uint64(t.Bits())
	sx, sy := signed(t, x), signed(t, y)
	var r uint64
	switch op {
	case ir.Add:
		r = x + y
	case ir.Sub:
		r = x - y
	case ir.Mul:
		r = x * y
	case ir.SDiv:
		switch {
		case sy == 0:
		case sy == -1:
			r = uint64(-sx)
		default:
			r = uint64(sx / sy)
		}
	case ir.UDiv:
		if y != 0 {
			r = x / y
		}
	case ir.SRem:
		if sy != 0 && sy != -1 {
			r = uint64(sx % sy)
		}
	case ir.URem:
		if y != 0 {
			r = x % y
		}
	case ir.And:
		r = x & y
	case ir.Or:
		r = x | y
	case ir.Xor:
		r = x ^ y
	case ir.Shl:
		r = x << (y % n)
	case ir.LShr:
		r = x >> (y % n)
	case ir.AShr:
		r = uint64(sx >> (y % n))
	case ir.SMin:
		r = uint64(min(sx, sy))
	case ir.SMax:
		r = uint64(max(sx, sy))
	case ir.UMin:
		r = min(x, y)
	case ir.UMax:
		r = max(x, y)
	case ir.SMulHi:
		hi, _ := bits.Mul64(uint64(sx), uint64(sy))
		if sx < 0 {
			hi -= uint64(sy)
		}
		if sy < 0 {
			hi -= uint64(sx)
		}
		r = hi
		if n < 64 {
			r = uint64(sx * sy >> n)
		}
	case ir.UMulHi:
		if n < 64 {
			r = x * y >> n
		} else {
			r, _ = bits.Mul64(x, y)
		}
	case ir.Clz:
		r = uint64(bits.LeadingZeros64(x)) - (64 - n)
	case ir.Ctz:
		r = min(uint64(bits.TrailingZeros64(x)), n)
	case ir.Popcount:
		r = uint64(bits.OnesCount64(x))
	case ir.ReverseBits:
		r = bits.Reverse64(x) >> (64 - n)
	default:
		return 0, false
	}
	return mask(t, r), true
}

func evalICmp(p ir.Pred, t ir.Type, x, y uint64) bool {
	sx, sy := signed(t, x), signed(t, y)
	switch p {
	case ir.Eq:
		return x == y
	case ir.Ne:
		return x != y
	case ir.SLt:
		return sx < sy
	case ir.SLe:
		return sx <= sy
	case ir.SGt:
		return sx > sy
	case ir.SGe:
		return sx >= sy
	case ir.ULt:
		return x < y
	case ir.ULe:
		return x <= y
	case ir.UGt:
		return x > y
	}
	return x >= y
}

func evalFCmp(p ir.Pred, x, y float32) bool {
	switch p {
	case ir.Eq:
		return x == y
	case ir.Ne:
		return x != y
	case ir.FLt:
		return x < y
	case ir.FLe:
		return x <= y
	case ir.FGt:
		return x > y
	}
	return x >= y
}

func evalConv(op ir.Op, t, at ir.Type, x uint64) uint64 {
	switch op {
	case ir.SExt:
		return mask(t, uint64(signed(at, x)))
	case ir.FToS:
		f := float64(at.Float(x))
		lo := -math.Ldexp(1, t.Bits()-1)
		switch {
		case f != f:
			return 0
		case f <= lo:
			return mask(t, 1<<(t.Bits()-1))
		case f >= -lo:
			return mask(t, 1<<(t.Bits()-1)-1)
		}
		return mask(t, uint64(int64(f)))
	case ir.FToU:
		f := float64(at.Float(x))
		switch {
		case !(f > 0):
			return 0
		case f >= math.Ldexp(1, t.Bits()):
			return mask(t, math.MaxUint64)
		}
		return mask(t, uint64(f))
	case ir.SToF:
		if at == ir.I1 {
			return t.FloatBits(float32(x))
		}
		return intToFloat(t, signed(at, x) < 0, magnitude(signed(at, x)))
	case ir.UToF:
		return intToFloat(t, false, x)
	case ir.FConv:
		return t.FloatBits(at.Float(x))
	}
	return mask(t, x) // IntTrunc, ZExt, Bitcast
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return uint64(-x)
	}
	return uint64(x)
}

// intToFloat rounds once, straight from the integer.
func intToFloat(t ir.Type, neg bool, m uint64) uint64 {
	// 64 bits to at most 24: rounding to odd at 40 bits first keeps the second
	// rounding right.
	if n := bits.Len64(m); n > 40 {
		drop := n - 40
		sticky := m&(1<<drop-1) != 0
		m = m >> drop << drop
		if sticky {
			m |= 1 << drop
		}
	}
	f := float64(m) // exact: 40 significant bits
	if neg {
		f = -f
	}
	return roundTo(t, f)
}

// roundTo rounds a float64 to t in one step.
func roundTo(t ir.Type, f float64) uint64 {
	g := float32(f)
	if t != ir.F32 && float64(g) != f && !math.IsInf(float64(g), 0) && f == f {
		// Round to odd: the float32 neighbour of f with the last bit set.
		b := math.Float32bits(g)
		if b&1 == 0 {
			if math.Abs(float64(g)) > math.Abs(f) {
				b--
			} else {
				b++
			}
		}
		g = math.Float32frombits(b)
	}
	return t.FloatBits(g)
}

func evalFloat(op ir.Op, t ir.Type, a []uint64) (uint64, bool) {
	x := float64(t.Float(a[0]))
	var y float64
	if len(a) > 1 {
		y = float64(t.Float(a[1]))
	}
	sign := uint64(1) << (t.Bits() - 1)
	switch op {
	case ir.FNeg:
		return a[0] ^ sign, true
	case ir.FAbs:
		return a[0] &^ sign, true
	case ir.FCopysign:
		return a[0]&^sign | a[1]&sign, true
	case ir.FAdd: // float64 holds sums, products and quotients well enough for one more rounding (53 >= 2*24+2)
		return roundTo(t, x+y), true
	case ir.FMul:
		return roundTo(t, x*y), true
	case ir.FDiv:
		return roundTo(t, x/y), true
	case ir.Sqrt:
		return roundTo(t, math.Sqrt(x)), true
	case ir.FSub:
		return roundTo(t, x-y), true
	case ir.FMin:
		if x != x || y < x {
			return a[1], true
		}
		return a[0], true
	case ir.FMax:
		if x != x || y > x {
			return a[1], true
		}
		return a[0], true
	case ir.Floor:
		return roundTo(t, math.Floor(x)), true
	case ir.Ceil:
		return roundTo(t, math.Ceil(x)), true
	case ir.Trunc:
		return roundTo(t, math.Trunc(x)), true
	case ir.Rint:
		return roundTo(t, math.RoundToEven(x)), true
	case ir.Round:
		return roundTo(t, math.Round(x)), true
	}
	return 0, false // FMA needs more bits, FRem and the rest are the devices'
}
