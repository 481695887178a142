package interp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/mem"

	"github.com/stretchr/testify/require"
)

// loads is a kernel of loads in any order and of any shape: neighbours that can be
// joined and others, under masks, across stores, some outside the buffer.
func loads(r *rand.Rand) *ir.Func {
	p := newProbe()
	sum := p.id
	mix := func(t ir.Type, v ir.Value) {
		switch {
		case t.Size() == 8:
			v = p.Conv(ir.IntTrunc, i32, v)
		case t == ir.F32:
			v = p.Conv(ir.Bitcast, i32, v)
		case t == ir.F16:
			v = p.Conv(ir.ZExt, i32, p.Conv(ir.Bitcast, ir.I16, v))
		case t.Size() < 4:
			v = p.Conv(ir.ZExt, i32, v)
		}
		sum = p.Bin(ir.Add, p.Bin(ir.Mul, sum, p.I32(0x01000193)), v)
	}
	// What follows each other in the decoding of quantised weights.
	either := func(op ir.Op, v, w ir.Value) ir.Value {
		if r.IntN(2) == 0 {
			v, w = w, v
		}
		return p.Bin(op, v, w)
	}
	bits := func() {
		mask := p.I32(r.Int32())
		shifted := func() ir.Value {
			return p.Bin([]ir.Op{ir.Shl, ir.LShr, ir.AShr}[r.IntN(3)], sum, p.Bin(ir.And, p.id, p.I32(7)))
		}
		toF := func(v ir.Value) ir.Value { return p.Conv(ir.UToF, ir.F32, v) }
		switch r.IntN(7) {
		case 0:
			mix(ir.F32, toF(either(ir.And, sum, mask)))
		case 1:
			mix(ir.F32, toF(either(ir.Or, sum, mask)))
		case 2:
			mix(ir.F32, toF(either(ir.And, shifted(), mask)))
		case 3:
			mix(ir.I32, either(ir.And, shifted(), mask))
		case 4:
			mix(ir.I32, either(ir.Or, either(ir.And, sum, mask), p.id))
		case 5:
			mix(ir.F32, p.Conv(ir.SToF, ir.F32, p.Conv(ir.SExt, ir.I32, p.Conv(ir.IntTrunc, ir.I8, sum))))
		case 6:
			other := toF(sum)
			half := p.Conv(ir.Bitcast, ir.F16, p.Conv(ir.IntTrunc, ir.I16, p.Bin(ir.And, sum, p.I32(0x3bff))))
			args := []ir.Value{p.Conv(ir.FConv, ir.F32, half), other}
			k := r.IntN(2)
			mix(ir.F32, p.Op(ir.FMA, ir.F32, 0, args[k], args[1-k], p.F32(0.5)))
		}
	}
	off := p.mul64(p.zext(p.id), int64(r.IntN(20)))
	base := p.PtrAdd(p.in, off)
	uniform := p.PtrAdd(p.in, p.zext(p.Grid(ir.ThreadgroupPositionInGrid, 0)))
	some := func() {
		for range 1 + r.IntN(4) {
			t := []ir.Type{ir.I8, ir.I16, ir.F16, ir.I32, ir.F32, ir.I64}[r.IntN(6)]
			from := base
			if r.IntN(5) == 0 {
				from = uniform
			}
			first := int64(r.IntN(64) - 8)
			for _, k := range r.Perm(1 + r.IntN(6)) {
				m := ir.Mem{Elem: t, Count: 1, Align: 1, Space: ir.Device}
				if r.IntN(4) == 0 {
					m.Count = 1 + r.IntN(4)
				}
				for _, v := range p.Load(p.PtrConst(from, int(first)+k*t.Size()), m) {
					mix(t, v)
				}
				if r.IntN(8) == 0 {
					p.write(p.id, sum)
				}
			}
			bits()
		}
	}
	some()
	for range 2 {
		sum = p.If(p.Cmp(ir.ULt, p.Bin(ir.And, p.id, p.I32(31)), p.I32(int32(r.IntN(34)))), []ir.Type{i32}, func() []ir.Value {
			before := sum
			some()
			v := sum
			sum = before
			return []ir.Value{v}
		}, func() []ir.Value { return []ir.Value{sum} })[0]
		some()
	}
	sum = p.Bin(ir.Xor, sum, p.Conv(ir.Bitcast, i32, p.Op(ir.SimdReduce, ir.F32, uint64(ir.ReduceAdd), p.Conv(ir.UToF, ir.F32, sum))))
	p.write(p.id, sum)
	p.Return()
	return p.Func()
}

// The form without a sanitizer gives the bits and the counters of the other, at
// every level.
func TestFastForm(t *testing.T) {
	for _, level := range lane.Levels() {
		t.Run(level, func(t *testing.T) {
			defer lane.Use(lane.Use(level))
			joined, fused, outside := false, map[lane.Op]bool{}, false
			for seed := range uint64(300) {
				r := rand.New(rand.NewPCG(seed, 9))
				p := decode(t, loads(r))
				fast, err := p.fast()
				require.NoError(t, err)
				joined = joined || len(fast.acc) < len(p.acc)
				for _, i := range fast.code {
					if i.lop >= lane.AndToF {
						fused[i.lop] = true
					}
				}
				in := mem.New(64+r.IntN(1200), "in")
				in.Fill(seed)
				length := len(in.Data) - r.IntN(64)
				run := func(p *Program) (string, Counters) {
					out := mem.New(4*100, "out")
					l := Launch{Grid: [3]int{100, 1, 1}, Ragged: true, Threadgroup: [3]int{40, 1, 1}, Threads: 1, Windows: all(out, in), ThreadgroupBytes: make([]int, 2)}
					l.Windows[1].Length = length
					c, err := p.Run(context.Background(), &l)
					require.NoError(t, err)
					return fmt.Sprintf("%x", out.Data), c
				}
				got, gotCounters := run(p)
				outside = outside || length < 512
				p.fast = nil
				want, wantCounters := run(p)
				require.Equal(t, want, got, "seed %d", seed)
				require.Equal(t, wantCounters, gotCounters, "seed %d", seed)
			}
			require.True(t, joined && outside)
			if level == "avx512" {
				require.Len(t, fused, len(fusions), "kinds of fused operations")
			}
		})
	}
}
