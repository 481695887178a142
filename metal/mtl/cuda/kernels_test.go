package cuda

import (
	"os"
	"testing"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

// specialize compiles a kernel of testdata.
func specialize(t *testing.T, file, kernel string) *ir.Func {
	t.Helper()
	l, err := msl.Compile(os.DirFS("testdata"), file, msl.Options{})
	require.NoError(t, err)
	f, err := l.Specialize(kernel, nil)
	require.NoError(t, err)
	return f
}

// opKernel builds a kernel that gives each thread i operands of a type, a[i],
// b[i], c[i], and writes each operation's result r to out[r*n + i], 8 bytes apart.
// n is the grid's size.
func opKernel(name string, t ir.Type, body func(b *ir.Builder, a, c, d ir.Value, out func(ir.Value))) *ir.Func {
	b := ir.NewBuilder(name)
	for k, p := range []string{"a", "b", "c"} {
		b.Param(ir.Param{Name: p, Kind: ir.BufferParam, Index: k, Space: ir.Device, Elem: "element", ElemSize: t.Size(), Scalar: t, ReadOnly: true})
	}
	b.Param(ir.Param{Name: "out", Kind: ir.BufferParam, Index: 3, Space: ir.Device, Elem: "ulong", ElemSize: 8, Scalar: ir.I64})
	i := b.Conv(ir.ZExt, ir.I64, b.Grid(ir.ThreadPositionInGrid, 0))
	n := b.Conv(ir.ZExt, ir.I64, b.Grid(ir.ThreadsPerGrid, 0))
	var in [3]ir.Value
	for k := range in {
		p := b.PtrAdd(b.Op(ir.PtrParam, ir.Ptr, uint64(k)), b.Bin(ir.Mul, i, b.I64(int64(t.Size()))))
		in[k] = b.Load(p, ir.Mem{Elem: t, Count: 1, Align: t.Size(), Space: ir.Device})[0]
	}
	out := b.Op(ir.PtrParam, ir.Ptr, 3)
	r := int64(0)
	body(b, in[0], in[1], in[2], func(v ir.Value) {
		t := b.TypeOf(v)
		at := b.PtrAdd(out, b.Bin(ir.Mul, b.I64(8), b.Bin(ir.Add, i, b.Bin(ir.Mul, n, b.I64(r)))))
		b.Store(at, ir.Mem{Elem: t, Align: 8, Space: ir.Device}, v)
		r++
	})
	b.Return()
	return b.Func()
}

// ops has what a kernel of opKernel computes: names and result types by number.
type ops struct {
	name  string
	elem  ir.Type
	f     *ir.Func
	names []string
	types []ir.Type
}

func (o *ops) build(body func(b *ir.Builder, x, y, z ir.Value, out func(string, ir.Value))) *ops {
	o.f = opKernel(o.name, o.elem, func(b *ir.Builder, x, y, z ir.Value, put func(ir.Value)) {
		body(b, x, y, z, func(name string, v ir.Value) {
			o.names = append(o.names, name)
			o.types = append(o.types, b.TypeOf(v))
			put(v)
		})
	})
	return o
}

var (
	intTypes   = []ir.Type{ir.I8, ir.I16, ir.I32, ir.I64}
	floatTypes = []ir.Type{ir.F16, ir.BF16, ir.F32}
)

// arithmetic has every operation on one lane, for each type.
func arithmetic() []*ops {
	var list []*ops
	for _, t := range intTypes {
		list = append(list, (&ops{name: "arith_" + t.String(), elem: t}).build(func(b *ir.Builder, x, y, z ir.Value, out func(string, ir.Value)) {
			for op := ir.Add; op <= ir.UMulHi; op++ {
				out(op.String(), b.Bin(op, x, y))
			}
			for op := ir.Clz; op <= ir.ReverseBits; op++ {
				out(op.String(), b.Bin(op, x))
			}
			for p := ir.Eq; p <= ir.UGe; p++ {
				out("icmp "+p.String(), b.Cmp(p, x, y))
			}
			out("select", b.Select(b.Cmp(ir.SLt, x, y), y, z))
			out("i1 and", b.Bin(ir.And, b.Cmp(ir.SLt, x, y), b.Cmp(ir.ULt, x, y)))
			out("i1 xor", b.Bin(ir.Xor, b.Cmp(ir.SLt, x, y), b.Cmp(ir.ULt, x, z)))
			bit := b.Cmp(ir.Ne, b.Bin(ir.And, x, b.Const(t, 1)), b.Const(t, 0))
			for _, u := range intTypes {
				switch {
				case u < t:
					out("inttrunc "+u.String(), b.Conv(ir.IntTrunc, u, x))
				case u > t:
					out("zext "+u.String(), b.Conv(ir.ZExt, u, x))
					out("sext "+u.String(), b.Conv(ir.SExt, u, x))
				}
				out("zext i1 "+u.String(), b.Conv(ir.ZExt, u, bit))
				out("sext i1 "+u.String(), b.Conv(ir.SExt, u, bit))
			}
			out("inttrunc i1", b.Conv(ir.IntTrunc, ir.I1, x))
			for _, u := range floatTypes {
				out("stof "+u.String(), b.Conv(ir.SToF, u, x))
				out("utof "+u.String(), b.Conv(ir.UToF, u, x))
				out("utof i1 "+u.String(), b.Conv(ir.UToF, u, bit))
			}
		}))
	}
	for _, t := range floatTypes {
		list = append(list, (&ops{name: "arith_" + t.String(), elem: t}).build(func(b *ir.Builder, x, y, z ir.Value, out func(string, ir.Value)) {
			for op := ir.FAdd; op <= ir.FRem; op++ {
				out(op.String(), b.Bin(op, x, y))
			}
			for _, op := range []ir.Op{ir.FCopysign, ir.FMin, ir.FMax, ir.Atan2, ir.Pow} {
				out(op.String(), b.Bin(op, x, y))
			}
			out("fma", b.Bin(ir.FMA, x, y, z))
			out("fmul+fadd", b.Bin(ir.FAdd, b.Bin(ir.FMul, x, y), z))
			for op := ir.FNeg; op <= ir.Erf; op++ {
				switch op {
				case ir.FCopysign, ir.FMA, ir.FMin, ir.FMax, ir.Atan2, ir.Pow:
				default:
					out(op.String(), b.Bin(op, x))
				}
			}
			for _, p := range []ir.Pred{ir.Eq, ir.Ne, ir.FLt, ir.FLe, ir.FGt, ir.FGe} {
				out("fcmp "+p.String(), b.Cmp(p, x, y))
			}
			for _, u := range intTypes {
				out("ftos "+u.String(), b.Conv(ir.FToS, u, x))
				out("ftou "+u.String(), b.Conv(ir.FToU, u, x))
			}
			for _, u := range floatTypes {
				if u != t {
					out("fconv "+u.String(), b.Conv(ir.FConv, u, x))
				}
			}
			out("bitcast", b.Conv(ir.Bitcast, ir.IntOf(t.Size()), x))
		}))
	}
	return list
}

// simdgroups has every simdgroup function, with all lanes and with those that
// have bit 0 of the operand set, and in nested conditions.
func simdgroups() []*ops {
	var list []*ops
	for _, t := range []ir.Type{ir.I8, ir.I16, ir.I32, ir.I64, ir.F16, ir.BF16, ir.F32} {
		list = append(list, (&ops{name: "simd_" + t.String(), elem: t}).build(func(b *ir.Builder, x, y, z ir.Value, out func(string, ir.Value)) {
			word := x
			if t.IsFloat() {
				word = b.Conv(ir.Bitcast, ir.IntOf(t.Size()), x)
			}
			wt := b.TypeOf(word)
			bit := func(k uint64) ir.Value { return b.Cmp(ir.Ne, b.Bin(ir.And, word, b.Const(wt, 1<<k)), b.Const(wt, 0)) }
			odd, second := bit(0), bit(1)
			var reductions []ir.ReduceOp
			for r := ir.ReduceAdd; r <= ir.ReduceXor; r++ {
				float := r == ir.ReduceFMin || r == ir.ReduceFMax
				if r <= ir.ReduceMul || float == t.IsFloat() {
					reductions = append(reductions, r)
				}
			}
			all := func(name string) {
				for _, quad := range []uint64{0, ir.QuadScope} {
					q := name
					lane := int32(17)
					if quad != 0 {
						q += " quad"
						lane = 2
					}
					for _, r := range reductions {
						out(q+" reduce "+r.String(), b.Op(ir.SimdReduce, t, uint64(r)|quad, x))
					}
					for _, r := range reductions[:2] {
						out(q+" scan "+r.String(), b.Op(ir.SimdScan, t, uint64(r)|quad, x))
						out(q+" scan exclusive "+r.String(), b.Op(ir.SimdScan, t, uint64(r)|quad|ir.ScanExclusive, x))
					}
					for _, v := range []ir.VoteOp{ir.VoteAny, ir.VoteAll} {
						out(q+" vote "+v.String(), b.Op(ir.SimdVote, ir.I1, uint64(v)|quad, second))
					}
					out(q+" ballot", b.Op(ir.SimdVote, ir.I64, uint64(ir.VoteBallot)|quad, second))
					out(q+" first", b.Op(ir.SimdFirst, ir.I1, quad))
					out(q+" active", b.Op(ir.SimdActive, ir.I64, quad))
					id := b.Grid(ir.ThreadIndexInSimdgroup, 0)
					other := b.Bin(ir.And, b.Bin(ir.Mul, id, b.I32(7)), b.I32(31))
					if quad != 0 {
						other = b.Bin(ir.And, other, b.I32(3))
					}
					shuffle := func(s ir.ShuffleOp, args ...ir.Value) {
						out(q+" shuffle "+s.String(), b.Op(ir.SimdShuffle, t, uint64(s)|quad, append([]ir.Value{x}, args...)...))
					}
					shuffle(ir.ShuffleLane, other)
					shuffle(ir.ShuffleBroadcast, b.I32(lane))
					shuffle(ir.ShuffleBroadcastFirst)
					for _, s := range []ir.ShuffleOp{ir.ShuffleUp, ir.ShuffleDown, ir.ShuffleXor, ir.ShuffleRotateUp, ir.ShuffleRotateDown} {
						shuffle(s, b.I32(lane&3|1))
					}
					shuffle(ir.ShuffleFillUp, b.I32(3), y, b.I32(4))
					shuffle(ir.ShuffleFillDown, b.I32(1), y, b.I32(2))
				}
			}
			all("full")
			b.If(odd, nil, func() []ir.Value {
				all("odd")
				b.If(second, nil, func() []ir.Value { all("odd second"); return nil }, nil)
				return nil
			}, func() []ir.Value {
				all("even")
				return nil
			})
			out("after reduce add", b.Op(ir.SimdReduce, t, uint64(ir.ReduceAdd), z))
		}))
	}
	return list
}
