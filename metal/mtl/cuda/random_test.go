package cuda

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"

	"github.com/stretchr/testify/require"
)

var (
	randomCount = flag.Int("random", 100, "random programs that -cuda runs")
	randomFrom  = flag.Int("random-from", 1, "seed of the first random program")
)

// program makes a kernel of nested conditions, loops and blocks that lanes leave
// at different times, with simdgroup functions in between: out[i] is a hash of
// what happened to the thread. Loops end: each has a counter of at most 7.
type program struct {
	b    *ir.Builder
	r    *rand.Rand
	x    ir.Value // the thread's random word
	out  ir.Value // where its result goes
	left int      // statements to make
}

// target is a construct that may be left: results and carried values are one
// word, behind a loop's counter.
type target struct {
	i    *ir.Instr
	next ir.Value // a loop's counter plus 1
}

func randomKernel(seed uint64) *ir.Func {
	b := ir.NewBuilder(fmt.Sprintf("random_%d", seed))
	b.Param(ir.Param{Name: "in", Index: 0, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32, ReadOnly: true})
	b.Param(ir.Param{Name: "out", Index: 1, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32})
	off := b.Bin(ir.Shl, b.Conv(ir.ZExt, ir.I64, b.Grid(ir.ThreadPositionInGrid, 0)), b.I64(2))
	p := &program{b: b, r: rand.New(rand.NewPCG(seed, 3)), left: 60}
	p.x = b.Load(b.PtrAdd(b.Op(ir.PtrParam, ir.Ptr, 0), off), word)[0]
	p.out = b.PtrAdd(b.Op(ir.PtrParam, ir.Ptr, 1), off)
	acc := p.statements(p.x, nil, 0)
	b.Store(p.out, word, acc)
	b.Return()
	return b.Func()
}

var word = ir.Mem{Elem: ir.I32, Count: 1, Align: 4, Space: ir.Device}

// condition is a bit of the thread's word, of the hash, of the lane's number, or
// the same in all lanes.
func (p *program) condition(acc ir.Value) ir.Value {
	b := p.b
	v := p.x
	switch p.r.IntN(6) {
	case 0:
		v = acc
	case 1:
		v = b.Grid(ir.ThreadIndexInSimdgroup, 0)
		return b.Cmp(ir.ULt, v, b.I32(int32(p.r.IntN(34))))
	case 2:
		v = b.Grid(ir.ThreadgroupPositionInGrid, 0)
	case 3:
		return b.Op(ir.SimdVote, ir.I1, uint64(p.r.IntN(2)), b.Cmp(ir.ULt, b.Bin(ir.And, p.x, b.I32(255)), b.I32(int32(p.r.IntN(256)))))
	}
	mask := int32(1) << p.r.IntN(20)
	if p.r.IntN(2) == 0 {
		mask |= int32(1) << p.r.IntN(20)
	}
	return b.Cmp(ir.Ne, b.Bin(ir.And, v, b.I32(mask)), b.I32(0))
}

// simd mixes a simdgroup function of the hash into it.
func (p *program) simd(acc ir.Value) ir.Value {
	b := p.b
	var v ir.Value
	switch p.r.IntN(6) {
	case 0, 1:
		v = b.Op(ir.SimdReduce, ir.I32, uint64([]ir.ReduceOp{ir.ReduceAdd, ir.ReduceUMin, ir.ReduceSMax, ir.ReduceXor, ir.ReduceMul}[p.r.IntN(5)]), acc)
	case 2:
		v = b.Conv(ir.IntTrunc, ir.I32, b.Op(ir.SimdActive, ir.I64, 0))
	case 3:
		v = b.Op(ir.SimdShuffle, ir.I32, uint64(ir.ShuffleXor), acc, b.I32(int32(p.r.IntN(32))))
	case 4:
		v = b.Op(ir.SimdScan, ir.I32, uint64(ir.ReduceAdd)|uint64(p.r.IntN(2))*ir.ScanExclusive, acc)
	default:
		v = b.Op(ir.SimdReduce, ir.I32, uint64(ir.ReduceAdd)|ir.QuadScope, acc)
	}
	return b.Bin(ir.Add, b.Bin(ir.Mul, acc, b.I32(0x01000193)), v)
}

// leave prints a way out of here, if the dice say so.
func (p *program) leave(acc ir.Value, around []target) bool {
	b := p.b
	n := p.r.IntN(2*len(around) + 2)
	switch {
	case n == 0 && p.r.IntN(3) == 0:
		b.Store(p.out, word, b.Bin(ir.Xor, acc, b.I32(0x5555)))
		b.Return()
		return true
	case n >= 2 && n/2 <= len(around):
		t := around[n/2-1]
		if t.i.Op == ir.Loop && n%2 == 0 {
			b.Continue(t.i, t.next, acc)
		} else {
			b.Break(t.i, acc)
		}
		return true
	}
	return false
}

// statements emits some and gives the hash behind them; after it the region may
// be terminated.
func (p *program) statements(acc ir.Value, around []target, depth int) ir.Value {
	b := p.b
	for range 2 + p.r.IntN(4) {
		if p.left--; p.left < 0 {
			break
		}
		kind := p.r.IntN(10)
		if depth > 4 && kind > 4 {
			kind = 0
		}
		one := []ir.Type{ir.I32}
		switch kind {
		case 0, 1, 2:
			acc = p.simd(acc)
		case 3, 4:
			acc = b.Bin(ir.Xor, b.Bin(ir.LShr, acc, b.I32(3)), b.Bin(ir.Add, acc, p.x))
		case 5, 6, 7:
			in := acc
			arm := func() []ir.Value {
				v := p.statements(in, around, depth+1)
				if !b.Terminated() && p.r.IntN(3) == 0 {
					p.leave(v, around)
				}
				return []ir.Value{v}
			}
			els := func() []ir.Value { return []ir.Value{in} }
			if p.r.IntN(2) == 0 {
				els = arm
			}
			acc = b.If(p.condition(acc), one, arm, els)[0]
		case 8:
			in := acc
			acc = b.Loop([]ir.Value{b.I32(0), in}, one, func(l *ir.Instr, c []ir.Value) {
				next := b.Bin(ir.Add, c[0], b.I32(1))
				trips := b.Bin(ir.And, b.Bin(ir.LShr, p.x, b.I32(int32(p.r.IntN(28)))), b.I32(7))
				if p.r.IntN(3) == 0 {
					trips = b.I32(int32(p.r.IntN(4)))
				}
				b.If(b.Cmp(ir.ULt, c[0], trips), nil, nil, func() []ir.Value { b.Break(l, c[1]); return nil })
				v := p.statements(c[1], append(around, target{l, next}), depth+1)
				if !b.Terminated() {
					b.Continue(l, next, v)
				}
			})[0]
		default:
			in := acc
			acc = b.Block(one, func(blk *ir.Instr) []ir.Value {
				return []ir.Value{p.statements(in, append(around, target{i: blk}), depth+1)}
			})[0]
		}
	}
	return acc
}

// randomCases are programs on a ragged grid with a partial last simdgroup.
func randomCases(t *testing.T, from, n, threads int) []*launchCase {
	var list []*launchCase
	for seed := range n {
		f := randomKernel(uint64(from + seed))
		require.NoError(t, ir.Verify(f), f.String())
		g := newGenerator(uint64(seed))
		list = append(list, &launchCase{
			name: f.Name, f: f, grid: [3]int{threads, 1, 1}, ragged: true, tg: [3]int{96, 1, 1}, tgSize: []int{0, 0},
			args: [][]byte{g.randomBytes(4 * threads), make([]byte, 4*threads)}, outs: []ir.Type{ir.I32}, slot: 4,
		})
	}
	return list
}

// Random programs verify, print, run on the software device and leave early in
// ways that the plan of masks has to handle.
func TestRandomPrograms(t *testing.T) {
	joined, voting := 0, 0
	for _, c := range randomCases(t, 1, 60, 500) {
		_, err := Emit(c.f, Options{})
		require.NoError(t, err)
		out, _ := c.soft(t)
		require.NotEqual(t, c.args[1], out[1], c.name)
		p := planFlow(c.f, pass.Analyze(c.f))
		joined += len(p.joined)
		for _, v := range p.voting {
			if v {
				voting++
			}
		}
	}
	require.Greater(t, joined, 20)
	require.Greater(t, voting, 10)
}

// TestGPURandom holds random programs on the GPU against the software device.
func TestGPURandom(t *testing.T) {
	g := openGPU(t)
	defer g.d.Close()
	wrong, elements := 0, 0
	cases := randomCases(t, *randomFrom, *randomCount, 4096-5)
	for _, c := range cases {
		src, err := Emit(c.f, Options{})
		require.NoError(t, err)
		have, _ := g.run(t, c, src)
		want, _ := c.soft(t)
		for _, d := range c.compare(want, have) {
			elements += d.Elements
			if d.Different > 0 {
				wrong++
				t.Errorf("%s: %d of %d differ; %s", c.name, d.Different, d.Elements, d.First)
			}
		}
		if t.Failed() && wrong > 5 {
			break
		}
	}
	t.Logf("%d programs, %d results, %d programs wrong", len(cases), elements, wrong)
}
