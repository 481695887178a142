package cuda

import (
	"fmt"

	"minfer/metal/msl/ir"
)

// maskedOr is the text of (x & mask) | c, of constants, as one instruction, and "" for
// anything else. Where mask is a byte that a shift by whole bytes put there, that
// instruction moves it. The compiler would make three of the shift and the masks,
// because it moves masks past shifts and an instruction has room for one constant.
func (e *emitter) maskedOr(i *ir.Instr) string {
	if i.Op != ir.Or || e.typ(i.Res[0]) != ir.I32 {
		return ""
	}
	a, c, ok := e.withConstant(i)
	and := e.defs[a]
	if !ok || and == nil || and.Op != ir.And {
		return ""
	}
	a, mask, ok := e.withConstant(and)
	if !ok {
		return ""
	}
	x, to := a, 0
	for to < 4 && mask != 0xff<<(8*to) {
		to++
	}
	from := to
	if d := e.defs[x]; to < 4 && d != nil && (d.Op == ir.Shl || d.Op == ir.LShr) {
		if n, ok := e.constant(d.Args[1]); ok && n%8 == 0 {
			y := from + int(n/8)
			if d.Op == ir.Shl {
				y = from - int(n/8)
			}
			if y >= 0 && y < 4 {
				x, from = d.Args[0], y
			}
		}
	}
	if from == to || c&mask != 0 {
		return e.masked(e.v(a), mask, c)
	}
	selector := 0
	for k := range 4 {
		s := 4 + k // of the constant
		if k == to {
			s = from
		}
		selector |= s << (4 * k)
	}
	return fmt.Sprintf("__byte_perm(%s, %du, 0x%04x)", e.v(x), c, selector)
}

// masked prints (x & mask) | c as one instruction and gives its result.
func (e *emitter) masked(x string, mask, c uint64) string {
	name := e.fresh("b")
	e.line(`u32 %s; asm("lop3.b32 %%0, %%1, %%2, %%3, 0xea;" : "=r"(%s) : "r"(%s), "r"(0x%xu), "r"(0x%08xu));`, name, name, x, mask, c)
	return name
}

// withConstant takes an operation of two operands apart of which one is a constant.
func (e *emitter) withConstant(i *ir.Instr) (ir.Value, uint64, bool) {
	for k := range 2 {
		if c, ok := e.constant(i.Args[k]); ok {
			return i.Args[1-k], c & 0xffffffff, true
		}
	}
	return 0, 0, false
}
