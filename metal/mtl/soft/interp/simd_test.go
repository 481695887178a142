package interp

import (
	"encoding/binary"
	"math"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"

	"github.com/stretchr/testify/require"
)

// simdOp runs one simdgroup function over values in[id] in a simdgroup of n lanes.
func simdOp(t *testing.T, n int, build func(p *probe, v ir.Value) ir.Value) []uint32 {
	p := newProbe()
	v := build(p, p.read(p.id))
	p.write(p.id, v)
	p.Return()
	got, _ := launch(t, p.Func(), n, n, n)
	return got
}

func TestShuffles(t *testing.T) {
	shuffle := func(op ir.ShuffleOp, operand func(p *probe) ir.Value, quad bool) func(p *probe, v ir.Value) ir.Value {
		return func(p *probe, v ir.Value) ir.Value {
			imm := uint64(op)
			if quad {
				imm |= ir.QuadScope
			}
			if operand == nil {
				return p.Op(ir.SimdShuffle, i32, imm, v)
			}
			return p.Op(ir.SimdShuffle, i32, imm, v, operand(p))
		}
	}
	konst := func(n int32) func(p *probe) ir.Value { return func(p *probe) ir.Value { return p.I32(n) } }
	for _, c := range []struct {
		name    string
		op      ir.ShuffleOp
		operand func(p *probe) ir.Value
		quad    bool
		src     func(l int) int
	}{
		{"lane reversed", ir.ShuffleLane, func(p *probe) ir.Value { return p.Bin(ir.Sub, p.I32(31), p.id) }, false, func(l int) int { return 31 - l }},
		{"broadcast", ir.ShuffleBroadcast, konst(9), false, func(l int) int { return 9 }},
		{"broadcast first", ir.ShuffleBroadcastFirst, nil, false, func(l int) int { return 0 }},
		{"up", ir.ShuffleUp, konst(5), false, func(l int) int {
			if l < 5 {
				return l
			}
			return l - 5
		}},
		{"down", ir.ShuffleDown, konst(7), false, func(l int) int {
			if l+7 > 31 {
				return l
			}
			return l + 7
		}},
		{"xor", ir.ShuffleXor, konst(19), false, func(l int) int { return l ^ 19 }},
		{"rotate up", ir.ShuffleRotateUp, konst(3), false, func(l int) int { return (l + 29) % 32 }},
		{"rotate down", ir.ShuffleRotateDown, konst(3), false, func(l int) int { return (l + 3) % 32 }},
		{"quad xor", ir.ShuffleXor, konst(1), true, func(l int) int { return l ^ 1 }},
		{"quad broadcast", ir.ShuffleBroadcast, konst(2), true, func(l int) int { return l&^3 + 2 }},
		{"quad up", ir.ShuffleUp, konst(1), true, func(l int) int {
			if l&3 == 0 {
				return l
			}
			return l - 1
		}},
		{"quad first", ir.ShuffleBroadcastFirst, nil, true, func(l int) int { return l &^ 3 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := simdOp(t, 32, shuffle(c.op, c.operand, c.quad))
			each(t, got, func(l int) uint32 { return uint32(3 * c.src(l)) })
		})
	}
	t.Run("fill", func(t *testing.T) {
		for _, modulo := range []int32{4, 32} {
			n := int(modulo)
			up := simdOp(t, 32, func(p *probe, v ir.Value) ir.Value {
				return p.Op(ir.SimdShuffle, i32, uint64(ir.ShuffleFillUp), v, p.I32(3), p.Bin(ir.Add, v, p.I32(1000)), p.I32(modulo))
			})
			each(t, up, func(l int) uint32 {
				if l%n < 3 {
					return uint32(3*(l+n-3) + 1000) // the upper lanes of fill
				}
				return uint32(3 * (l - 3))
			})
			down := simdOp(t, 32, func(p *probe, v ir.Value) ir.Value {
				return p.Op(ir.SimdShuffle, i32, uint64(ir.ShuffleFillDown), v, p.I32(3), p.Bin(ir.Add, v, p.I32(1000)), p.I32(modulo))
			})
			each(t, down, func(l int) uint32 {
				if l%n+3 >= n {
					return uint32(3*(l+3-n) + 1000) // the lower lanes of fill
				}
				return uint32(3 * (l + 3))
			})
		}
	})
}

func TestVotes(t *testing.T) {
	vote := func(o ir.VoteOp, quad bool) []uint32 {
		return simdOp(t, 20, func(p *probe, v ir.Value) ir.Value {
			imm := uint64(o)
			if quad {
				imm |= ir.QuadScope
			}
			typ := ir.I1
			if o == ir.VoteBallot {
				typ = ir.I64
			}
			return p.Op(ir.SimdVote, typ, imm, p.Cmp(ir.ULt, p.id, p.I32(6)))
		})
	}
	each(t, vote(ir.VoteAny, false), func(int) uint32 { return 1 })
	each(t, vote(ir.VoteAll, false), func(int) uint32 { return 0 })
	each(t, vote(ir.VoteBallot, false), func(int) uint32 { return 63 })
	each(t, vote(ir.VoteAny, true), func(l int) uint32 { return map[bool]uint32{true: 1}[l/4 < 2] })
	each(t, vote(ir.VoteAll, true), func(l int) uint32 { return map[bool]uint32{true: 1}[l/4 < 1] })
	each(t, vote(ir.VoteBallot, true), func(l int) uint32 { return []uint32{15, 3, 0, 0, 0}[l/4] })
	got := simdOp(t, 20, func(p *probe, v ir.Value) ir.Value { return p.Op(ir.SimdActive, ir.I64, 0) })
	each(t, got, func(int) uint32 { return 1<<20 - 1 })
	got = simdOp(t, 20, func(p *probe, v ir.Value) ir.Value { return p.Op(ir.SimdFirst, ir.I1, 0) })
	each(t, got, func(l int) uint32 { return map[bool]uint32{true: 1}[l == 0] })
}

// TestReductionsUnderMask: lanes divisible by 3 of a partial simdgroup.
func TestReductionsUnderMask(t *testing.T) {
	val := func(i int) int32 { return int32(i*7) - 50 }
	var active []int
	for i := 0; i < 23; i += 3 {
		active = append(active, i)
	}
	fold := func(f func(a, b int32) int32) int32 {
		x := val(active[0])
		for _, i := range active[1:] {
			x = f(x, val(i))
		}
		return x
	}
	for op, want := range map[ir.ReduceOp]int32{
		ir.ReduceAdd:  fold(func(a, b int32) int32 { return a + b }),
		ir.ReduceMul:  fold(func(a, b int32) int32 { return a * b }),
		ir.ReduceSMin: fold(func(a, b int32) int32 { return min(a, b) }),
		ir.ReduceSMax: fold(func(a, b int32) int32 { return max(a, b) }),
		ir.ReduceUMin: fold(func(a, b int32) int32 { return int32(min(uint32(a), uint32(b))) }),
		ir.ReduceUMax: fold(func(a, b int32) int32 { return int32(max(uint32(a), uint32(b))) }),
		ir.ReduceAnd:  fold(func(a, b int32) int32 { return a & b }),
		ir.ReduceOr:   fold(func(a, b int32) int32 { return a | b }),
		ir.ReduceXor:  fold(func(a, b int32) int32 { return a ^ b }),
	} {
		for _, typ := range []ir.Type{ir.I32, ir.I64} {
			p := newProbe()
			p.If(p.Cmp(ir.Eq, p.Bin(ir.URem, p.id, p.I32(3)), p.I32(0)), nil, func() []ir.Value {
				v := p.Bin(ir.Sub, p.Bin(ir.Mul, p.id, p.I32(7)), p.I32(50))
				if typ == ir.I64 {
					v = p.Conv(ir.SExt, ir.I64, v)
				}
				p.write(p.id, p.Op(ir.SimdReduce, typ, uint64(op), v))
				return nil
			}, nil)
			p.Return()
			got, _ := launch(t, p.Func(), 23, 23, 23)
			each(t, got, func(i int) uint32 {
				if i%3 == 0 {
					return uint32(want)
				}
				return 0xffffffff
			})
		}
	}
}

// TestFloatReduceOrder: the sum is the butterfly's, computed here by its
// definition, and differs from the sum in order.
func TestFloatReduceOrder(t *testing.T) {
	val := func(i int) float32 { return float32(math.Exp(float64(i%7)*2)) / 3 }
	for _, typ := range []ir.Type{ir.F32, ir.F16} {
		p := newProbe()
		v := p.Conv(ir.Bitcast, ir.F32, p.read(p.id))
		if typ == ir.F16 {
			v = p.Conv(ir.FConv, ir.F16, v)
		}
		s := p.Op(ir.SimdReduce, typ, uint64(ir.ReduceAdd), v)
		if typ == ir.F16 {
			s = p.Conv(ir.FConv, ir.F32, s)
		}
		p.write(p.id, s)
		p.Return()
		got, _ := launch(t, p.Func(), 32, 32, 32, func(l *Launch) {
			for i := range 32 {
				binary.LittleEndian.PutUint32(l.Windows[1].Buffer.Data[4*i:], math.Float32bits(val(i)))
			}
		})
		round := func(x float32) float32 {
			if typ == ir.F16 {
				return lane.FromF16(lane.F16(x))
			}
			return x
		}
		var x [32]float32
		serial := float32(0)
		for i := range x {
			x[i] = round(val(i))
			serial += x[i]
		}
		for _, step := range []int{16, 8, 4, 2, 1} {
			old := x
			for i := range x {
				x[i] = round(old[i] + old[i^step])
			}
		}
		require.NotEqual(t, serial, x[0])
		each(t, got, func(i int) uint32 { return math.Float32bits(x[0]) })
	}
}

func TestScans(t *testing.T) {
	for _, excl := range []uint64{0, ir.ScanExclusive} {
		for _, op := range []ir.ReduceOp{ir.ReduceAdd, ir.ReduceMul} {
			p := newProbe()
			p.If(p.Cmp(ir.Ne, p.Bin(ir.URem, p.id, p.I32(4)), p.I32(1)), nil, func() []ir.Value {
				p.write(p.id, p.Op(ir.SimdScan, i32, uint64(op)|excl, p.Bin(ir.Add, p.id, p.I32(1))))
				return nil
			}, nil)
			p.Return()
			got, _ := launch(t, p.Func(), 30, 30, 30)
			acc := uint32(0)
			if op == ir.ReduceMul {
				acc = 1
			}
			each(t, got, func(i int) uint32 {
				if i%4 == 1 {
					return 0xffffffff
				}
				before := acc
				if op == ir.ReduceAdd {
					acc += uint32(i + 1)
				} else {
					acc *= uint32(i + 1)
				}
				if excl != 0 {
					return before
				}
				return acc
			})
		}
	}
}
