package cuda

import (
	"fmt"
	"math/bits"

	"minfer/metal/msl/ir"
)

// Conversions of small integers to float32 without the conversion unit, whose rate
// is an eighth of the others': a number below 2^23 put into the mantissa of 2^23
// is that power plus the number, and a subtraction leaves the number itself.
// Both steps are exact, so the bits are those of a conversion.

// definitions maps the values of a function to what defines them.
func definitions(r *ir.Region, to map[ir.Value]*ir.Instr) map[ir.Value]*ir.Instr {
	for _, i := range r.Instrs {
		for _, x := range i.Res {
			to[x] = i
		}
		for _, b := range i.Body {
			definitions(b, to)
		}
	}
	return to
}

// constant is the value of a constant.
func (e *emitter) constant(x ir.Value) (uint64, bool) {
	if d := e.defs[x]; d != nil && d.Op == ir.Const {
		return d.Imm, true
	}
	return 0, false
}

// rangeDepth bounds how far back most and signBits look.
const rangeDepth = 8

// most is a bound of an integer, read as unsigned.
func (e *emitter) most(x ir.Value, depth int) uint64 {
	w := e.typ(x).Bits()
	all := uint64(1)<<w - 1
	d := e.defs[x]
	if d == nil || depth == 0 || w > 32 {
		return all
	}
	arg := func(k int) uint64 { return e.most(d.Args[k], depth-1) }
	switch d.Op {
	case ir.Const:
		return d.Imm & all
	case ir.And, ir.UMin:
		return min(arg(0), arg(1))
	case ir.Or, ir.Xor:
		return 1<<bits.Len64(max(arg(0), arg(1))) - 1
	case ir.Add:
		if sum := arg(0) + arg(1); sum <= all {
			return sum
		}
	case ir.ZExt:
		return arg(0)
	case ir.LShr, ir.AShr:
		c, ok := e.constant(d.Args[1])
		if y := arg(0); ok && (d.Op == ir.LShr || y <= all>>1) {
			return y >> (c & uint64(w-1))
		}
	case ir.Shl:
		if c, ok := e.constant(d.Args[1]); ok {
			if y := arg(0) << (c & uint64(w-1)); y <= all {
				return y
			}
		}
	}
	return all
}

// signBits is a bound of the bits of an integer, the sign included.
func (e *emitter) signBits(x ir.Value, depth int) int {
	w := e.typ(x).Bits()
	d := e.defs[x]
	if d == nil || depth == 0 {
		return w
	}
	switch d.Op {
	case ir.SExt:
		if e.typ(d.Args[0]) != ir.I1 {
			return e.signBits(d.Args[0], depth-1)
		}
	case ir.AShr:
		if c, ok := e.constant(d.Args[1]); ok {
			return max(1, e.signBits(d.Args[0], depth-1)-int(c&uint64(w-1)))
		}
	}
	return w
}

// smallToFloat is the float32 of an integer of at most 32 bits that is known to be
// small, "" where it is not.
func (e *emitter) smallToFloat(x ir.Value, signed bool) string {
	if e.typ(x) == ir.I1 || e.typ(x) == ir.I64 {
		return ""
	}
	limit := e.most(x, rangeDepth)
	if w := e.typ(x).Bits(); signed && limit > 1<<(w-1)-1 {
		if e.signBits(x, rangeDepth) <= 23 {
			return fmt.Sprintf("__fsub_rn(bits((u32)(%s) + 0x4b400000u), 12582912.0f)", e.signed(x))
		}
		return ""
	}
	if limit >= 1<<23 {
		return ""
	}
	// A field of a word stays where it is, in the mantissa of a smaller power.
	mask := uint64(1)<<bits.Len64(limit) - 1
	d := e.defs[x]
	if d != nil && d.Op == ir.And && e.typ(x) == ir.I32 {
		for k := range 2 {
			if c, ok := e.constant(d.Args[k]); ok {
				mask = c
				d = e.defs[d.Args[1-k]]
				break
			}
		}
	}
	if d != nil && (d.Op == ir.LShr || d.Op == ir.AShr) && e.typ(d.Res[0]) == ir.I32 {
		y := d.Args[0]
		if c, ok := e.constant(d.Args[1]); ok && c < 23 && mask<<c < 1<<23 && (d.Op == ir.LShr || e.most(y, rangeDepth) < 1<<31) {
			return fmt.Sprintf("__fsub_rn(bits(%s), %d.0f)", e.masked(e.v(y), mask<<c, (127+23-c)<<23), 1<<(23-c))
		}
	}
	if and := e.defs[x]; and != nil && and.Op == ir.And && e.typ(x) == ir.I32 {
		if y, c, ok := e.withConstant(and); ok {
			return fmt.Sprintf("__fsub_rn(bits(%s), 8388608.0f)", e.masked(e.v(y), c, 0x4b000000))
		}
	}
	return fmt.Sprintf("__fsub_rn(bits((u32)%s | 0x4b000000u), 8388608.0f)", e.v(x))
}
