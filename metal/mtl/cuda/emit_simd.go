package cuda

import (
	"fmt"

	"minfer/metal/msl/ir"
)

// collective prints simdgroup functions and matrices.
func (e *emitter) collective(i *ir.Instr) {
	group := 32
	if i.Imm&ir.QuadScope != 0 {
		group = 4
	}
	switch i.Op {
	case ir.TgBarrier, ir.SgBarrier, ir.Fence:
		e.other(i)
		return
	}
	e.simd = true
	arg := func(k int) string { return e.v(i.Args[k]) }
	switch i.Op {
	case ir.SimdReduce, ir.SimdScan:
		t := e.typ(i.Args[0])
		kind := ir.ReduceOp(i.Imm & 0xff)
		suffix := map[ir.Type]string{ir.F32: "float", ir.F16: "half", ir.BF16: "bfloat"}[t]
		if suffix == "" {
			suffix = ctype(t)
		}
		op := kind.String() + "_" + suffix
		switch {
		case i.Op == ir.SimdScan:
			start := op + "::id()"
			if kind == ir.ReduceAdd {
				start = "(" + ctype(t) + ")0" // +0 for floats
			}
			e.define(i, "scan<%s>(%s, %s, %d, %t, %s)", op, e.mask, arg(0), group, i.Imm&ir.ScanExclusive != 0, start)
		case group == 4:
			e.define(i, "reduce_quad<%s>(%s, %s)", op, e.mask, arg(0))
		default:
			e.define(i, "reduce<%s>(%s, %s)", op, e.mask, arg(0))
		}
	case ir.SimdShuffle:
		e.shuffle(i, group)
	case ir.SimdVote:
		e.vote(i, group)
	case ir.SimdFirst:
		if group == 4 {
			e.define(i, "(quad_bits(%s) & ((1u << (lane_id() & 3)) - 1)) == 0", e.mask)
		} else {
			e.define(i, "(%s & ((1u << lane_id()) - 1)) == 0", e.mask)
		}
	case ir.SimdActive:
		if group == 4 {
			e.define(i, "(u64)quad_bits(%s)", e.mask)
		} else {
			e.define(i, "(u64)%s", e.mask)
		}
	case ir.SgFill:
		e.define(i, "sg_fill(%s)", e.float(i.Args[0]))
	case ir.SgDiag:
		name := "sg_diag"
		if e.tensor.on {
			name = "tc_diag"
		}
		e.define(i, "%s(%s)", name, e.float(i.Args[0]))
	case ir.SgMMA:
		if e.tensor.on {
			e.product(i)
			return
		}
		expr := fmt.Sprintf("sg_mma(%s, %s, %s, %s)", e.mask, arg(0), arg(1), arg(2))
		switch e.typ(i.Res[0]) {
		case ir.SgF16:
			expr = "sg_h(" + expr + ")"
		case ir.SgBF16:
			expr = "sg_b(" + expr + ")"
		}
		e.define(i, "%s", expr)
	case ir.SgElem:
		e.define(i, "%s", rounded(e.typ(i.Res[0]), arg(0)+"."+string("xy"[i.Imm])))
	case ir.SgWith:
		v := e.float(i.Args[1])
		if i.Imm == 0 {
			e.define(i, "sgmat{%s, %s.y}", v, arg(0))
		} else {
			e.define(i, "sgmat{%s.x, %s}", arg(0), v)
		}
	default:
		e.fail(i, "operation %s", i.Op)
	}
}

func (e *emitter) shuffle(i *ir.Instr, group int) {
	v := e.v(i.Args[0])
	by := func(name, sign string) {
		e.define(i, "%s(%s, %s, %s(s32)%s, %d)", name, e.mask, v, sign, e.v(i.Args[1]), group)
	}
	switch s := ir.ShuffleOp(i.Imm & 0xff); s {
	case ir.ShuffleLane, ir.ShuffleBroadcast:
		by("shuffle", "")
	case ir.ShuffleBroadcastFirst:
		e.define(i, "shuffle_first(%s, %s, %d)", e.mask, v, group)
	case ir.ShuffleUp:
		by("shuffle_up", "")
	case ir.ShuffleDown:
		by("shuffle_down", "")
	case ir.ShuffleXor:
		by("shuffle_xor", "")
	case ir.ShuffleRotateUp:
		by("shuffle_rotate", "-")
	case ir.ShuffleRotateDown:
		by("shuffle_rotate", "")
	case ir.ShuffleFillUp, ir.ShuffleFillDown:
		e.define(i, "shuffle_fill(%s, %s, %s, (s32)%s, (s32)%s, %t, %d)", e.mask, v, e.v(i.Args[2]), e.v(i.Args[1]), e.v(i.Args[3]), s == ir.ShuffleFillUp, group)
	default:
		e.fail(i, "shuffle %s", s)
	}
}

func (e *emitter) vote(i *ir.Instr, group int) {
	c := e.v(i.Args[0])
	ballot := fmt.Sprintf("__ballot_sync(%s, %s)", e.mask, c)
	switch o := ir.VoteOp(i.Imm & 0xff); {
	case o == ir.VoteBallot && group == 4:
		e.define(i, "(u64)quad_bits(%s)", ballot)
	case o == ir.VoteBallot:
		e.define(i, "(u64)%s", ballot)
	case o == ir.VoteAny && group == 4:
		e.define(i, "quad_bits(%s) != 0", ballot)
	case o == ir.VoteAny:
		e.define(i, "__any_sync(%s, %s) != 0", e.mask, c)
	case o == ir.VoteAll && group == 4:
		e.define(i, "quad_bits(%s) == quad_bits(%s)", ballot, e.mask)
	case o == ir.VoteAll:
		e.define(i, "__all_sync(%s, %s) != 0", e.mask, c)
	default:
		e.fail(i, "vote %s", o)
	}
}
