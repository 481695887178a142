package interp

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"testing"
	"time"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"

	"github.com/stretchr/testify/require"
)

// probe builds kernels that write one word for each thread of the grid: out[i].
type probe struct {
	*kb
	out, in ir.Value
	id      ir.Value // thread_position_in_grid.x
}

func newProbe() *probe {
	k := newKernel("probe")
	p := &probe{kb: k}
	p.out = k.buffer("out", 0, "uint", 4, ir.I32, false)
	p.in = k.buffer("in", 1, "uint", 4, ir.I32, true)
	p.id = k.Grid(ir.ThreadPositionInGrid, 0)
	return p
}

func (p *probe) write(i, v ir.Value) {
	switch p.TypeOf(v) {
	case ir.I1:
		v = p.Conv(ir.ZExt, ir.I32, v)
	case ir.I8, ir.I16:
		v = p.Conv(ir.ZExt, ir.I32, v)
	case ir.I64:
		v = p.Conv(ir.IntTrunc, ir.I32, v)
	case ir.F16, ir.BF16:
		v = p.Conv(ir.ZExt, ir.I32, p.Conv(ir.Bitcast, ir.I16, v))
	}
	p.store1(p.at(p.out, i, 4), v, ir.Device)
}

func (p *probe) read(i ir.Value) ir.Value { return p.load1(p.at(p.in, i, 4), ir.I32, ir.Device) }

// launch runs f over n threads with threadgroups of tg, dispatchThreads style,
// on a result of size words that starts as all ones and an input of the word's
// index times 3.
func launch(t testing.TB, f *ir.Func, n, tg, size int, change ...func(*Launch)) ([]uint32, Counters) {
	return launchSan(t, f, n, tg, size, nil, change...)
}

func launchSan(t testing.TB, f *ir.Func, n, tg, size int, report **san.Report, change ...func(*Launch)) ([]uint32, Counters) {
	p := decode(t, f)
	out, in := mem.New(4*size, "out"), mem.New(4*4096, "in")
	for i := range 4096 {
		binary.LittleEndian.PutUint32(in.Data[4*i:], uint32(3*i))
	}
	l := Launch{Grid: [3]int{n, 1, 1}, Ragged: true, Threadgroup: [3]int{tg, 1, 1}, Threads: 1,
		Windows: all(out, in)[:len(f.Params)], ThreadgroupBytes: make([]int, len(f.Params))}
	for _, c := range change {
		c(&l)
	}
	var c *san.Checker
	if report != nil {
		c = san.New(san.Strict, san.Options{})
		g := l.shape()
		d := &san.Dispatch{Kernel: f, Threadgroups: g.groups, Threads: l.Threadgroup, ThreadgroupBytes: []int{}}
		for i, b := range []*mem.Buffer{out, in}[:len(f.Params)] {
			b.San = san.NewBuffer(b.Label, len(b.Data))
			if i == 1 {
				b.San.Define(0, len(b.Data))
			}
			d.Bindings = append(d.Bindings, san.Binding{Param: i, Buffer: b.San, Length: len(b.Data)})
		}
		c.BeginInterval([]*san.Dispatch{d})
		l.San = c.Begin(d, l.Threads)
	}
	n2, err := p.Run(context.Background(), &l)
	require.NoError(t, err)
	if c != nil {
		l.San.End()
		c.Finish()
		*report = c.Report()
	}
	res := make([]uint32, size)
	for i := range res {
		res[i] = binary.LittleEndian.Uint32(out.Data[4*i:])
	}
	return res, n2
}

// each checks a result of one word a thread.
func each(t *testing.T, got []uint32, want func(i int) uint32) {
	t.Helper()
	for i, x := range got {
		w := want(i)
		require.Equal(t, w, x, "thread %d: got %#x, want %#x", i, x, w)
	}
}

const (
	void = ir.Void
	i32  = ir.I32
)

func TestDivergentIf(t *testing.T) {
	p := newProbe()
	// id%3 == 0 ? (id < 10 ? id+100 : id+200) : id*7
	m := p.Cmp(ir.Eq, p.Bin(ir.URem, p.id, p.I32(3)), p.I32(0))
	v := p.If(m, []ir.Type{i32}, func() []ir.Value {
		return p.If(p.Cmp(ir.ULt, p.id, p.I32(10)), []ir.Type{i32},
			func() []ir.Value { return []ir.Value{p.Bin(ir.Add, p.id, p.I32(100))} },
			func() []ir.Value { return []ir.Value{p.Bin(ir.Add, p.id, p.I32(200))} })
	}, func() []ir.Value { return []ir.Value{p.Bin(ir.Mul, p.id, p.I32(7))} })[0]
	p.write(p.id, v)
	p.Return()
	got, n := launch(t, p.Func(), 50, 50, 50)
	each(t, got, func(i int) uint32 {
		switch {
		case i%3 != 0:
			return uint32(7 * i)
		case i < 10:
			return uint32(i + 100)
		}
		return uint32(i + 200)
	})
	// Simdgroup 0: both ifs; simdgroup 1 (lanes 32 to 49): only the outer one.
	require.EqualValues(t, 3, n.Divergent)
	require.EqualValues(t, 2, n.Simdgroups)
	require.EqualValues(t, 50*4, n.DeviceWritten)
}

// TestLoopsWithTripCountsByLane nests two loops whose bounds differ by lane, with
// break and continue, and carries two values that change places.
func TestLoopsWithTripCountsByLane(t *testing.T) {
	p := newProbe()
	outer := p.Loop([]ir.Value{p.I32(0), p.I32(0)}, []ir.Type{i32}, func(lo *ir.Instr, c []ir.Value) {
		i, sum := c[0], c[1]
		p.If(p.Cmp(ir.UGe, i, p.Bin(ir.URem, p.id, p.I32(5))), nil, func() []ir.Value { p.Break(lo, sum); return nil }, nil)
		inner := p.Loop([]ir.Value{p.I32(0), sum}, []ir.Type{i32}, func(li *ir.Instr, c []ir.Value) {
			j, sum := c[0], c[1]
			p.If(p.Cmp(ir.UGe, j, p.Bin(ir.Add, i, p.Bin(ir.URem, p.id, p.I32(3)))), nil, func() []ir.Value { p.Break(li, sum); return nil }, nil)
			next := p.Bin(ir.Add, j, p.I32(1))
			// Odd j do not count.
			p.If(p.Cmp(ir.Eq, p.Bin(ir.And, j, p.I32(1)), p.I32(1)), nil, func() []ir.Value { p.Continue(li, next, sum); return nil }, nil)
			// A sum above 40 leaves both loops.
			s2 := p.Bin(ir.Add, sum, p.Bin(ir.Add, p.Bin(ir.Mul, i, p.I32(10)), j))
			p.If(p.Cmp(ir.UGt, s2, p.I32(40)), nil, func() []ir.Value { p.Break(lo, p.Bin(ir.Add, s2, p.I32(1000))); return nil }, nil)
			p.Continue(li, next, s2)
		})[0]
		p.Continue(lo, p.Bin(ir.Add, i, p.I32(1)), inner)
	})[0]
	p.write(p.id, outer)
	p.Return()
	got, _ := launch(t, p.Func(), 100, 40, 100)
	each(t, got, func(id int) uint32 {
		sum := 0
		for i := 0; i < id%5; i++ {
			for j := 0; j < i+id%3; j++ {
				if j&1 == 1 {
					continue
				}
				sum += 10*i + j
				if sum > 40 {
					return uint32(sum + 1000)
				}
			}
		}
		return uint32(sum)
	})
}

// TestCarriedValuesSwap is a parallel move: Fibonacci by lanes.
func TestCarriedValuesSwap(t *testing.T) {
	p := newProbe()
	r := p.Loop([]ir.Value{p.I32(0), p.I32(0), p.I32(1)}, []ir.Type{i32, i32}, func(l *ir.Instr, c []ir.Value) {
		p.If(p.Cmp(ir.Eq, c[0], p.Bin(ir.And, p.id, p.I32(15))), nil, func() []ir.Value { p.Break(l, c[2], c[1]); return nil }, nil)
		p.Continue(l, p.Bin(ir.Add, c[0], p.I32(1)), c[2], p.Bin(ir.Add, c[1], c[2]))
	})
	p.write(p.id, p.Bin(ir.Add, p.Bin(ir.Mul, r[0], p.I32(10000)), r[1]))
	p.Return()
	got, _ := launch(t, p.Func(), 32, 32, 32)
	each(t, got, func(id int) uint32 {
		a, b := 0, 1
		for range id & 15 {
			a, b = b, a+b
		}
		return uint32(b*10000 + a)
	})
}

// TestSwapByLane exchanges two carried values some lanes of which stay in the
// loop: the cycle of moves under a mask.
func TestSwapByLane(t *testing.T) {
	p := newProbe()
	r := p.Loop([]ir.Value{p.I32(0), p.id, p.I32(77)}, []ir.Type{i32}, func(l *ir.Instr, c []ir.Value) {
		p.If(p.Cmp(ir.UGe, c[0], p.Bin(ir.And, p.id, p.I32(7))), nil, func() []ir.Value { p.Break(l, c[1]); return nil }, nil)
		n := p.Bin(ir.Add, c[0], p.I32(1))
		p.If(p.Cmp(ir.ULt, p.id, p.I32(16)), nil, func() []ir.Value { p.Continue(l, n, c[2], c[1]); return nil }, nil)
		p.Continue(l, n, c[1], c[2])
	})
	p.write(p.id, r[0])
	p.Return()
	got, _ := launch(t, p.Func(), 32, 32, 32)
	each(t, got, func(id int) uint32 {
		if id < 16 && id&1 == 1 {
			return 77
		}
		return uint32(id)
	})
}

// TestUniformCarriedUnderContinue: a value that is the same in all lanes of an
// iteration is read again, after some lanes have continued.
func TestUniformCarriedUnderContinue(t *testing.T) {
	p := newProbe()
	r := p.Loop([]ir.Value{p.I32(5)}, []ir.Type{i32}, func(l *ir.Instr, c []ir.Value) {
		p.If(p.Cmp(ir.UGt, p.id, c[0]), nil, func() []ir.Value {
			p.Continue(l, p.Bin(ir.Add, c[0], p.I32(5)))
			return nil
		}, nil)
		p.Break(l, c[0])
	})
	p.write(p.id, r[0])
	p.Return()
	got, _ := launch(t, p.Func(), 32, 32, 32)
	each(t, got, func(id int) uint32 {
		c := 5
		for id > c {
			c += 5
		}
		return uint32(c)
	})
}

// TestUniformValuesByTwoContinues: lanes of one iteration go on with one of two
// values, so that what was the same in all lanes is not any more.
func TestUniformValuesByTwoContinues(t *testing.T) {
	p := newProbe()
	r := p.Loop([]ir.Value{p.I32(0), p.I32(0)}, []ir.Type{i32}, func(l *ir.Instr, c []ir.Value) {
		p.If(p.Cmp(ir.Eq, c[0], p.I32(4)), nil, func() []ir.Value { p.Break(l, c[1]); return nil }, nil)
		n := p.Bin(ir.Add, c[0], p.I32(1))
		p.If(p.Cmp(ir.Eq, p.Bin(ir.And, p.Bin(ir.LShr, p.id, c[0]), p.I32(1)), p.I32(1)), nil, func() []ir.Value {
			p.Continue(l, n, p.Bin(ir.Add, c[1], p.I32(100)))
			return nil
		}, nil)
		p.Continue(l, n, p.Bin(ir.Add, c[1], p.I32(1)))
	})
	p.write(p.id, r[0])
	p.Return()
	got, _ := launch(t, p.Func(), 32, 32, 32)
	each(t, got, func(id int) uint32 {
		n := bits.OnesCount(uint(id & 15))
		return uint32(100*n + 4 - n)
	})
}

func TestReturnUnderMask(t *testing.T) {
	p := newProbe()
	p.write(p.id, p.I32(1))
	p.If(p.Cmp(ir.Eq, p.Bin(ir.And, p.id, p.I32(1)), p.I32(1)), nil, func() []ir.Value { p.Return(); return nil }, nil)
	n := p.Loop([]ir.Value{p.I32(0)}, []ir.Type{i32}, func(l *ir.Instr, c []ir.Value) {
		// Lanes divisible by 8 end inside the loop, the others break out of it.
		p.If(p.Cmp(ir.UGe, c[0], p.I32(3)), nil, func() []ir.Value {
			p.If(p.Cmp(ir.Eq, p.Bin(ir.And, p.id, p.I32(7)), p.I32(0)), nil, func() []ir.Value { p.Return(); return nil }, nil)
			p.Break(l, p.Bin(ir.Add, c[0], p.id))
			return nil
		}, nil)
		p.Continue(l, p.Bin(ir.Add, c[0], p.I32(1)))
	})[0]
	// A sum of the lanes that are left: 2, 4, 6, 10, ...
	p.write(p.id, p.Bin(ir.Add, n, p.Op(ir.SimdReduce, i32, uint64(ir.ReduceAdd), p.id)))
	p.Return()
	got, _ := launch(t, p.Func(), 32, 32, 32)
	sum := 0
	for i := range 32 {
		if i%2 == 0 && i%8 != 0 {
			sum += i
		}
	}
	each(t, got, func(i int) uint32 {
		if i%2 == 1 || i%8 == 0 {
			return 1
		}
		return uint32(3 + i + sum)
	})
}

func TestBlockBreaks(t *testing.T) {
	p := newProbe()
	v := p.Block([]ir.Type{i32}, func(b *ir.Instr) []ir.Value {
		p.If(p.Cmp(ir.ULt, p.id, p.I32(4)), nil, func() []ir.Value { p.Break(b, p.I32(1)); return nil }, nil)
		w := p.Block([]ir.Type{i32}, func(b2 *ir.Instr) []ir.Value {
			p.If(p.Cmp(ir.ULt, p.id, p.I32(8)), nil, func() []ir.Value { p.Break(b2, p.I32(2)); return nil }, nil)
			p.If(p.Cmp(ir.ULt, p.id, p.I32(12)), nil, func() []ir.Value { p.Break(b, p.I32(3)); return nil }, nil)
			return []ir.Value{p.id}
		})[0]
		return []ir.Value{p.Bin(ir.Mul, w, p.I32(10))}
	})[0]
	p.write(p.id, v)
	p.Return()
	got, _ := launch(t, p.Func(), 40, 40, 40)
	each(t, got, func(i int) uint32 {
		switch {
		case i < 4:
			return 1
		case i < 8:
			return 20
		case i < 12:
			return 3
		}
		return uint32(10 * i)
	})
}

// TestGrid looks at every attribute in a ragged 3-D grid with a partial simdgroup.
func TestGrid(t *testing.T) {
	tg, grid := [3]int{5, 3, 3}, [3]int{12, 4, 5}
	total := grid[0] * grid[1] * grid[2]
	kinds := []ir.GridKind{ir.ThreadPositionInGrid, ir.ThreadPositionInThreadgroup, ir.ThreadgroupPositionInGrid, ir.ThreadsPerGrid,
		ir.ThreadsPerThreadgroup, ir.DispatchThreadsPerThreadgroup, ir.ThreadgroupsPerGrid,
		ir.ThreadIndexInThreadgroup, ir.ThreadIndexInSimdgroup, ir.SimdgroupIndexInThreadgroup, ir.SimdgroupsPerThreadgroup,
		ir.DispatchSimdgroupsPerThreadgroup, ir.ThreadsPerSimdgroup, ir.ThreadIndexInQuadgroup, ir.QuadgroupIndexInThreadgroup, ir.QuadgroupsPerThreadgroup}
	for _, kind := range kinds {
		for c := range 3 {
			if c > 0 && !kind.Vector() {
				continue
			}
			p := newProbe()
			x, y, z := p.Grid(ir.ThreadPositionInGrid, 0), p.Grid(ir.ThreadPositionInGrid, 1), p.Grid(ir.ThreadPositionInGrid, 2)
			i := p.Bin(ir.Add, x, p.Bin(ir.Mul, p.I32(int32(grid[0])), p.Bin(ir.Add, y, p.Bin(ir.Mul, p.I32(int32(grid[1])), z))))
			p.write(i, p.Grid(kind, c))
			p.Return()
			got, _ := launch(t, p.Func(), 0, 0, total, func(l *Launch) { l.Grid, l.Threadgroup = grid, tg })
			each(t, got, func(i int) uint32 {
				at := [3]int{i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]}
				var group, local, size, groups [3]int
				for k := range 3 {
					group[k], local[k] = at[k]/tg[k], at[k]%tg[k]
					size[k] = min(tg[k], grid[k]-group[k]*tg[k])
					groups[k] = (grid[k] + tg[k] - 1) / tg[k]
				}
				index := local[0] + size[0]*(local[1]+size[1]*local[2])
				n := size[0] * size[1] * size[2]
				var want int
				switch kind {
				case ir.ThreadPositionInGrid:
					want = at[c]
				case ir.ThreadPositionInThreadgroup:
					want = local[c]
				case ir.ThreadgroupPositionInGrid:
					want = group[c]
				case ir.ThreadsPerGrid:
					want = grid[c]
				case ir.ThreadsPerThreadgroup:
					want = size[c]
				case ir.DispatchThreadsPerThreadgroup:
					want = tg[c]
				case ir.ThreadgroupsPerGrid:
					want = groups[c]
				case ir.ThreadIndexInThreadgroup:
					want = index
				case ir.ThreadIndexInSimdgroup:
					want = index % 32
				case ir.SimdgroupIndexInThreadgroup:
					want = index / 32
				case ir.SimdgroupsPerThreadgroup:
					want = (n + 31) / 32
				case ir.DispatchSimdgroupsPerThreadgroup:
					want = 2 // 45 threads
				case ir.ThreadsPerSimdgroup:
					want = 32
				case ir.ThreadIndexInQuadgroup:
					want = index % 4
				case ir.QuadgroupIndexInThreadgroup:
					want = index / 4
				case ir.QuadgroupsPerThreadgroup:
					want = (n + 3) / 4
				}
				return uint32(want)
			})
		}
	}
}

// TestBarrierInNestedFlow: a reduction tree through threadgroup memory with
// barriers in a uniform loop inside a uniform branch, for odd sizes.
func TestBarrierInNestedFlow(t *testing.T) {
	for _, tg := range []int{32, 96, 100, 1024} {
		p := newProbe()
		st := p.Op(ir.PtrStatic, ir.Ptr, uint64(p.Static(ir.Static{Name: "s", Size: 4 * 1024, Align: 4})))
		me := p.Grid(ir.ThreadIndexInThreadgroup, 0)
		n := p.Grid(ir.ThreadsPerThreadgroup, 0)
		p.store1(p.at(st, me, 4), p.read(p.id), ir.Threadgroup)
		p.If(p.Cmp(ir.UGt, n, p.I32(1)), nil, func() []ir.Value {
			p.Loop([]ir.Value{p.I32(512)}, nil, func(l *ir.Instr, c []ir.Value) {
				p.Barrier(ir.TgBarrier, ir.MemThreadgroup)
				p.If(p.Cmp(ir.Eq, c[0], p.I32(0)), nil, func() []ir.Value { p.Break(l); return nil }, nil)
				other := p.Bin(ir.Add, me, c[0])
				mine := p.Bin(ir.And, p.Cmp(ir.ULt, me, c[0]), p.Cmp(ir.ULt, other, n))
				p.If(mine, nil, func() []ir.Value {
					x := p.Bin(ir.Add, p.load1(p.at(st, me, 4), i32, ir.Threadgroup), p.load1(p.at(st, other, 4), i32, ir.Threadgroup))
					p.store1(p.at(st, me, 4), x, ir.Threadgroup)
					return nil
				}, nil)
				p.Continue(l, p.Bin(ir.LShr, c[0], p.I32(1)))
			})
			return nil
		}, nil)
		p.write(p.id, p.load1(st, i32, ir.Threadgroup))
		p.Return()
		var rep *san.Report
		got, cnt := launchSan(t, p.Func(), 2*tg, tg, 2*tg, &rep)
		require.Empty(t, rep.Findings)
		each(t, got, func(i int) uint32 {
			sum := 0
			for j := i / tg * tg; j < (i/tg+1)*tg; j++ {
				sum += 3 * j
			}
			return uint32(sum)
		})
		require.EqualValues(t, 2*11*((tg+31)/32), cnt.Barriers)
		// Any legal order gives the same.
		for _, change := range []func(*Launch){func(l *Launch) { l.Reverse = true }, func(l *Launch) { l.Seed = 42 }, func(l *Launch) { l.Threads = 3 }} {
			again, c2 := launch(t, p.Func(), 2*tg, tg, 2*tg, change)
			require.Equal(t, got, again)
			require.Equal(t, cnt, c2)
		}
	}
}

func TestOutOfBounds(t *testing.T) {
	p := newProbe()
	// Reads of in at id*64: in bounds for the first 64 threads only; stores at id+10.
	v := p.read(p.Bin(ir.Mul, p.id, p.I32(64)))
	p.write(p.Bin(ir.Add, p.id, p.I32(10)), v)
	p.Return()
	var rep *san.Report
	got, _ := launchSan(t, p.Func(), 96, 32, 64, &rep)
	each(t, got, func(i int) uint32 {
		if i < 10 {
			return 0xffffffff
		}
		return uint32(3 * 64 * (i - 10))
	})
	kinds := map[string]int{}
	for _, f := range rep.Findings {
		kinds[f.Kind]++
	}
	require.Equal(t, map[string]int{"out-of-bounds": 2}, kinds)

	// Addresses far away, negative and wrapping must not touch memory either.
	for _, off := range []int64{-1, -1 << 40, 1 << 40, math.MaxInt64, math.MinInt64, 1 << 47, -4096} {
		for _, uniform := range []bool{false, true} {
			p := newProbe()
			o := p.I64(off)
			if !uniform {
				o = p.Bin(ir.Add, o, p.Bin(ir.And, p.Conv(ir.ZExt, ir.I64, p.id), p.I64(0)))
			}
			x := p.load1(p.PtrAdd(p.in, o), i32, ir.Device)
			p.store1(p.PtrAdd(p.out, o), x, ir.Device)
			p.write(p.id, p.Bin(ir.Add, x, p.I32(4)))
			p.Return()
			got, _ := launch(t, p.Func(), 40, 40, 40)
			each(t, got, func(int) uint32 { return 4 })
		}
	}
}

func TestDeadline(t *testing.T) {
	p := newProbe()
	p.Loop([]ir.Value{p.I32(0)}, nil, func(l *ir.Instr, c []ir.Value) {
		p.If(p.Cmp(ir.Eq, p.read(p.id), p.I32(-1)), nil, func() []ir.Value { p.Break(l); return nil }, nil)
		p.Continue(l, p.Bin(ir.Add, c[0], p.I32(1)))
	})
	p.Return()
	prog := decode(t, p.Func())
	out, in := mem.New(4, "out"), mem.New(4096, "in")
	clear(in.Data)
	for _, threads := range []int{1, 2} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := prog.Run(ctx, &Launch{Grid: [3]int{8, 1, 1}, Threadgroup: [3]int{64, 1, 1}, Windows: all(out, in), ThreadgroupBytes: make([]int, 2), Threads: threads})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(begin), 5*time.Second)
	}
}

// TestThreads: results and counters do not depend on the number of threads.
func TestThreads(t *testing.T) {
	for _, b := range []*bench{benchMatvec(t, 256, 96), benchNorm(t, 7, 300), benchGemm(t, 128, 64, 32)} {
		var first []byte
		var cnt Counters
		for _, threads := range []int{1, 2, 3} {
			for i := range b.bufs[2].Data {
				b.bufs[2].Data[i] = 0xee
			}
			b.l.Threads = threads
			n, _ := b.run(t, san.Off)
			_, rep := b.run(t, san.Race)
			require.Empty(t, rep.Findings)
			if threads == 1 {
				first, cnt = append([]byte{}, b.bufs[2].Data...), n
				continue
			}
			require.Equal(t, first, b.bufs[2].Data)
			require.Equal(t, cnt, n)
		}
	}
}

// TestLevels: the kernels give the same bits and counters at every instruction
// set level.
func TestLevels(t *testing.T) {
	defer lane.Use(lane.Use(lane.Levels()[0]))
	var want [][]byte
	var counts []Counters
	for k, name := range lane.Levels() {
		lane.Use(name)
		require.Equal(t, name, lane.Level())
		for i, b := range []*bench{benchMatvec(t, 32, 96), benchNorm(t, 3, 300), benchGemm(t, 64, 64, 32)} {
			n, _ := b.run(t, san.Off)
			b.check(t)
			if k == 0 {
				want = append(want, append([]byte{}, b.bufs[2].Data...))
				counts = append(counts, n)
				continue
			}
			require.Equal(t, want[i], b.bufs[2].Data, "%s %s", name, b.name)
			require.Equal(t, counts[i], n, "%s %s", name, b.name)
		}
	}
}
