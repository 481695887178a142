package san

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
)

// Threadgroups of one dispatch are never ordered, whichever workers run them in
// whichever order.
func TestThreadgroups(t *testing.T) {
	type step struct {
		group, sg, lane int
		kind            Kind
		off             int
		pos             ir.Pos
		val             uint32
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"apart", []step{{0, 0, 0, Write, 0, 10, 1}, {1, 0, 0, Write, 4, 10, 2}}, []string{}},
		{"write write", []step{{0, 0, 0, Write, 0, 10, 1}, {1, 0, 0, Write, 0, 11, 2}}, []string{"error device-race 11 10"}},
		{"equal writes", []step{{0, 0, 0, Write, 0, 10, 1}, {1, 0, 0, Write, 0, 11, 1}}, []string{"note device-race 11 10"}},
		{"equal last writes", []step{{0, 0, 0, Write, 0, 9, 0}, {0, 0, 0, Write, 0, 10, 1}, {1, 0, 0, Write, 0, 11, 1}}, []string{"error device-race 11 9"}},
		{"read write", []step{{0, 0, 0, Read, 0, 10, 0}, {1, 0, 0, Write, 0, 11, 1}}, []string{"error device-race 11 10"}},
		{"write read", []step{{1, 0, 0, Write, 0, 11, 1}, {0, 0, 0, Read, 0, 10, 0}}, []string{"error device-race 11 10"}},
		{"its own", []step{{0, 0, 0, Write, 0, 10, 1}, {0, 0, 0, Read, 0, 11, 0}, {1, 0, 0, Read, 8, 11, 0}}, []string{}},
		{"read read", []step{{0, 0, 0, Read, 0, 10, 0}, {1, 0, 0, Read, 0, 11, 0}}, []string{}},
		{"atomics", []step{{0, 0, 0, AtomicWrite, 0, 10, 0}, {1, 0, 0, AtomicWrite, 0, 10, 0}, {2, 0, 0, AtomicRead, 0, 12, 0}}, []string{}},
		{"atomic and write", []step{{0, 0, 0, AtomicWrite, 0, 10, 0}, {1, 0, 0, Write, 0, 11, 0}}, []string{"error device-race 11 10"}},
		{"atomic and read", []step{{0, 0, 0, AtomicWrite, 0, 10, 0}, {1, 0, 0, Read, 0, 11, 0}}, []string{"error device-race 11 10"}},
		{"atomic read and write", []step{{0, 0, 0, AtomicRead, 0, 10, 0}, {1, 0, 0, Write, 0, 11, 0}}, []string{"error device-race 11 10"}},
		{"three readers, one writes", []step{{0, 0, 0, Read, 0, 10, 0}, {1, 0, 0, Read, 0, 10, 0}, {1, 0, 0, Write, 0, 11, 1}, {2, 0, 0, Read, 0, 10, 0}}, []string{"error device-race 11 10"}},
	} {
		var first string
		for _, workers := range []int{1, 2, 3} {
			for _, reverse := range []bool{false, true} {
				r := newRig(t, Race, workers)
				for g := range 3 {
					if reverse {
						g = 2 - g
					}
					r.w = r.run.Worker(g % workers)
					r.w.BeginGroup(g, 128, 4)
					for _, s := range c.steps {
						if s.group == g {
							r.one(s.kind, r.run.Params[1], s.sg, s.lane, s.off, s.pos, s.val)
						}
					}
				}
				require.Equal(t, c.want, r.found(), "%s, %d workers", c.name, workers)
				var b strings.Builder
				require.NoError(t, r.c.Report().WriteJSON(&b))
				if first == "" {
					first = b.String()
				}
				require.Equal(t, first, b.String(), "%s: the whole report is the same", c.name)
			}
		}
	}
}

// Two names of one buffer are one memory.
func TestAliases(t *testing.T) {
	r := newRig(t, Race, 1)
	r.bufs[2] = r.bufs[1]
	r.d = dispatch(kernel(false), 0, r.bufs)
	r.d.Bindings[2].Offset, r.d.Bindings[2].Length = 2048, 2048
	r.begin(1)
	r.one(Write, r.run.Params[1], 0, 0, 2048, 10, 1)
	r.one(Read, r.run.Params[2], 1, 0, 0, 20, 0)
	require.Equal(t, []string{"error device-race 20 10"}, r.found())
	f := r.c.Report().Findings[0]
	require.Equal(t, "out2", f.Argument)
	require.Equal(t, int64(0), f.Offset)
	require.Equal(t, int64(2048), f.BufferOffset)
	require.Equal(t, "y", f.Buffer)
}

// Memory that nothing writes is not watched, and modes below race watch none.
func TestTracked(t *testing.T) {
	for mode, want := range map[Mode][3]bool{Off: {}, Mem: {}, Race: {false, true, true}, Strict: {false, true, true}} {
		r := newRig(t, mode, 1)
		for i, w := range want {
			require.Equal(t, w, r.run.Params[i].Track, "mode %s, parameter %d", mode, i)
		}
		require.Equal(t, mode >= Mem, r.run.Ordered(), "the kernel reads what it writes")
	}
}

// Dispatches of one interval conflict; those of two do not.
func TestDispatches(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, then Kind
		barrier     bool
		swap        bool // the second dispatch only reads the buffer
		want        []string
	}{
		{"read after write", Write, Read, false, true, []string{"error dispatch-race 20 10"}},
		{"read after write, barrier", Write, Read, true, true, []string{}},
		{"write after read", Read, Write, false, false, []string{"error dispatch-race 20 10"}},
		{"write after read, barrier", Read, Write, true, false, []string{}},
		{"write after write", Write, Write, false, false, []string{"error dispatch-race 20 10"}},
		{"read after read", Read, Read, false, false, []string{}},
		{"atomics", AtomicWrite, AtomicWrite, false, false, []string{}},
		{"atomic and read", AtomicWrite, Read, false, false, []string{"error dispatch-race 20 10"}},
	} {
		r := newRig(t, Race, 1)
		d0 := dispatch(kernel(false), 0, r.bufs)
		bufs := r.bufs
		param := 1
		if c.swap {
			bufs[0], bufs[1] = bufs[1], bufs[0]
			param = 0
		}
		d1 := dispatch(kernel(false), 1, bufs)
		d1.Kernel.Name = "k2"
		r.c = New(Race, Options{})
		begin := func(d *Dispatch, together ...*Dispatch) {
			if together != nil {
				r.c.BeginInterval(together)
			}
			r.d, r.run = d, r.c.Begin(d, 1)
			r.w = r.run.Worker(0)
			r.w.BeginGroup(3, 128, 4)
		}
		if c.barrier {
			begin(d0, d0)
		} else {
			begin(d0, d0, d1)
		}
		r.one(c.first, r.run.Params[1], 0, 0, 40, 10, 1)
		r.run.End()
		if c.barrier {
			begin(d1, d1)
		} else {
			begin(d1)
		}
		r.one(c.then, r.run.Params[param], 0, 0, 40, 20, 1)
		require.Equal(t, c.want, r.found(), c.name)
		for _, f := range r.c.Report().Findings {
			require.Equal(t, []int{0, 1}, f.Dispatches)
			require.Equal(t, "y", f.Buffer)
			require.Equal(t, &[3]int{3, 0, 0}, f.Sides[1].Threadgroup)
			require.Equal(t, "k", f.Sides[1].Kernel)
			require.Equal(t, "k2", f.Sides[0].Kernel)
		}
	}
}

func TestPoison(t *testing.T) {
	r := newRig(t, Mem, 1)
	r.bufs[1].Undefine(0, 4096)
	r.bufs[1].Define(0, 64)
	r.begin(1)
	var out [MaxElems]uint32
	load := func(o *Object, base, stride int64, elem, count int) uint32 {
		r.a = Access{Kind: Read, Obj: o, Mask: ^uint32(0), Base: base, Stride: stride, ElemSize: elem, Count: count}
		return r.w.LoadPoison(1, &r.a, &out)
	}
	store := func(o *Object, mask uint32, base, stride int64, elem, count int, in *[MaxElems]uint32) {
		r.a = Access{Kind: Write, Obj: o, Mask: mask, Base: base, Stride: stride, ElemSize: elem, Count: count}
		r.w.StorePoison(1, &r.a, in)
	}
	y := r.run.Params[1]
	require.True(t, y.Poison)
	require.True(t, y.Mark)
	require.False(t, r.run.Params[0].Poison)
	require.Equal(t, uint32(0xffff0000), load(y, 0, 4, 4, 1), "host wrote 16 floats")
	store(y, 0xff<<16, 0, 4, 4, 1, nil)
	require.Equal(t, uint32(0xff000000), load(y, 0, 4, 4, 1))
	require.Equal(t, uint32(0xff000000), load(y, 1, 4, 2, 1), "bytes 1 and 2 of each")
	for _, o := range []*Object{r.run.Params[3], r.run.Statics[0], r.run.Allocas[0]} {
		stride := int64(16)
		if o.Space == ir.Thread {
			stride = 0
		}
		require.Equal(t, ^uint32(0), load(o, 0, stride, 4, 4))
		require.Equal(t, ^uint32(0), out[3])
		store(o, 0xffff, 0, stride, 4, 4, nil)
		require.Equal(t, uint32(0xffff0000), load(o, 0, stride, 4, 4))
		store(o, ^uint32(0), 0, stride, 4, 4, &[MaxElems]uint32{0, 0, 1 << 5, 0})
		require.Equal(t, uint32(1<<5), load(o, 0, stride, 4, 4))
		require.Equal(t, [4]uint32{0, 0, 1 << 5, 0}, [4]uint32(out[:4]))
		store(o, ^uint32(0), 0, stride, 4, 4, nil)
		require.Zero(t, load(o, 0, stride, 4, 4))
		r.w.BeginGroup(1, 128, 4)
		require.Equal(t, ^uint32(0), load(o, 0, stride, 4, 4), "the next threadgroup starts undefined")
		r.w.BeginGroup(0, 128, 4)
	}
	// A private array by lane.
	acc := r.run.Allocas[0]
	for l := range Lanes {
		r.offsets[l] = uint64(l % 16 * 4)
	}
	r.a = Access{Kind: Write, Obj: acc, Mask: ^uint32(0), Off: &r.offsets, ElemSize: 4, Count: 1}
	r.w.StorePoison(1, &r.a, nil)
	require.Zero(t, r.w.LoadPoison(1, &r.a, &out))
	require.Equal(t, ^uint32(1<<2|1<<18), load(acc, 8, 0, 4, 1))
	r.w.Uninitialized(1, 30, UseCollective, 1<<7, r.w.Origin(y, 29, 96))
	r.w.Uninitialized(1, 30, UseCollective, 1<<9, r.w.Origin(y, 29, 100))
	// Without an origin: the last load of poison in one of the lanes.
	r.w.BeginGroup(1, 128, 4)
	r.w.Uninitialized(0, 31, UseStore, 1, 0)
	r.a = Access{Kind: Read, Obj: y, Pos: 33, Mask: 1 << 4, Base: 800, ElemSize: 4, Count: 1}
	require.Equal(t, uint32(1<<4), r.w.LoadPoison(2, &r.a, &out))
	r.a = Access{Kind: Read, Obj: r.run.Statics[0], Pos: 34, Mask: 1 << 5, Base: 80, ElemSize: 4, Count: 1}
	require.Equal(t, uint32(1<<5), r.w.LoadPoison(2, &r.a, &out))
	r.w.Uninitialized(2, 35, UseBranch, 1<<4|1<<3, 0)
	r.w.Uninitialized(2, 36, UseBranch, 1<<5, 0)
	require.Equal(t, []string{"error uninitialized 30 29", "error uninitialized 31", "error uninitialized 35 33", "error uninitialized 36 34"}, r.found())
	f := r.c.Report().Findings[0]
	require.Equal(t, "y", f.Buffer)
	require.Equal(t, "device", f.Space)
	require.Equal(t, 7, f.Sides[0].Lane)
	require.Equal(t, 2, f.Count)
	require.True(t, r.bufs[1].Defined(0, 96))
	require.False(t, r.bufs[1].Defined(0, 97))
}

func TestBounds(t *testing.T) {
	r := newRig(t, Mem, 2)
	r.d.Bindings[1].Offset, r.d.Bindings[1].Length = 1024, 40
	r.begin(2)
	bounds := func(o *Object, kind Kind, elem, count int, off ...int64) {
		var offs [Lanes]int64
		copy(offs[:], off)
		r.a = Access{Kind: kind, Obj: o, Pos: 12, ElemSize: elem, Count: count}
		r.w.OutOfBounds(2, &r.a, 1<<len(off)-1, &offs)
	}
	bounds(r.run.Params[1], Write, 4, 1, 40, 44)
	bounds(r.run.Params[1], Read, 4, 4, 32) // straddles the end
	bounds(r.run.Params[0], Read, 4, 1, -8)
	bounds(r.run.Statics[0], Write, 4, 1, 2048)
	bounds(r.run.Allocas[0], Write, 4, 1, 64, 124)
	r.w.NullAccess(0, 13, Write, 1)
	r.w.Misaligned(0, &Access{Kind: Read, Obj: r.run.Params[0], Pos: 14, Mask: 1, Base: 6, ElemSize: 4, Count: 1}, 1, 4)
	require.Equal(t, []string{
		"error out-of-bounds 12", "error out-of-bounds 12", "error out-of-bounds 12",
		"error threadgroup-out-of-bounds 12", "error private-out-of-bounds 12", "error out-of-bounds 13", "error misaligned 14",
	}, r.found())
	fs := r.c.Report().Findings
	require.Equal(t, "write up to 8 bytes past the end of argument out1 of 40 bytes (buffer \"y\" has 4096)", fs[0].Message)
	require.Equal(t, &[2]int64{1064, 1072}, fs[0].Bytes)
	require.Equal(t, int64(40), fs[0].Offset)
	require.Equal(t, int64(8), fs[0].Past)
	require.Equal(t, 4096, fs[0].Allocation)
	require.Equal(t, 2, fs[0].Count)
	require.Equal(t, int64(8), fs[1].Past)
	require.Equal(t, int64(40), fs[1].Offset)
	require.Equal(t, int64(-8), fs[2].Past)
	require.Equal(t, "read 8 bytes before the start of argument in0", fs[2].Message)
	require.Equal(t, &[2]int64{64, 128}, fs[4].Bytes)
	require.Equal(t, 4, fs[4].ElementSize)
	require.Equal(t, "read of argument in0 at byte offset 6, which is not a multiple of 4", fs[6].Message)
}

func TestOutputs(t *testing.T) {
	r := newRig(t, Mem, 2)
	r.d.Bindings[1].Output = true
	r.c.Output(r.bufs[2], 0, 4096, 4, "float")
	r.d.Threadgroups[0] = 64
	r.begin(2)
	data := make([]byte, 4096)
	put := func(worker, group int, o *Object, pos ir.Pos, mask uint32, base int64) {
		r.w = r.run.Worker(worker)
		r.w.BeginGroup(group, 128, 4)
		r.a = Access{Kind: Write, Obj: o, Pos: pos, Mask: mask, Base: base, Stride: 4, ElemSize: 4, Count: 1}
		r.w.StorePoison(3, &r.a, nil)
	}
	for g := range 32 {
		put(g%2, g, r.run.Params[1], 3, ^uint32(0), int64(128*g))
		if g != 5 {
			put(g%2, g, r.run.Params[2], 4, ^uint32(0)>>min(g, 31), int64(128*g))
		}
	}
	// The greater threadgroup counts as the later one.
	put(1, 40, r.run.Params[2], 6, 1, 0)
	put(0, 30, r.run.Params[2], 7, 1, 0)
	data[3], data[2] = 0x7f, 0xc0 // element 0
	data[4*160+3], data[4*160+2] = 0xff, 0xff
	whole := make([]byte, 4096)
	whole[4*7+2], whole[4*7+3] = 0xc0, 0xff
	r.run.Memory = func(b *Buffer) []byte {
		require.Equal(t, r.bufs[1], b)
		return whole
	}
	r.run.End()
	r.c.Finish()
	r.c.CheckNaN(r.bufs[2], data, ir.F32)
	r.c.WrongElements(KindMismatch, r.bufs[2], 4, []int{33, 34}, "is 1, want 2")
	fs := r.c.Report().Findings
	require.Len(t, fs, 4)
	require.Equal(t, KindNaN, fs[0].Kind)
	require.Equal(t, "out1", fs[0].Argument)
	require.Equal(t, &[2]int64{28, 32}, fs[0].Bytes)
	require.Equal(t, 3, fs[0].Sides[0].Line)
	fs = fs[1:]
	require.Equal(t, KindUnwrittenOutput, fs[0].Kind)
	require.Equal(t, 4, fs[0].Sides[0].Line, "the stores to the argument")
	// 32-g elements of each group are written, none of group 5, one of group 31.
	require.Equal(t, 31*32/2+27, fs[0].Count)
	require.Equal(t, &[2]int64{4 * 63, 4096}, fs[0].Bytes)
	require.Equal(t, "out2", fs[0].Argument)
	require.Equal(t, KindNaN, fs[1].Kind)
	require.Equal(t, 6, fs[1].Sides[0].Line)
	require.Equal(t, 40, fs[1].Sides[0].Threadgroup[0])
	require.Equal(t, 1, fs[1].Count, "a NaN that nobody wrote is none")
	require.Equal(t, KindMismatch, fs[2].Kind)
	require.Equal(t, 2, fs[2].Count)
	require.Equal(t, 4, fs[2].Sides[0].Line)
	require.Equal(t, 3, fs[2].Sides[0].Simdgroup)
	require.Equal(t, 1, fs[2].Sides[0].Lane)
}

func TestNaN(t *testing.T) {
	f32 := func(x float32) []byte {
		v := math.Float32bits(x)
		return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}
	}
	require.True(t, isNaN(f32(float32(math.NaN())), ir.F32))
	require.False(t, isNaN(f32(float32(math.Inf(-1))), ir.F32))
	require.True(t, isNaN([]byte{0x01, 0x7c}, ir.F16))
	require.False(t, isNaN([]byte{0x00, 0xfc}, ir.F16))
	require.True(t, isNaN([]byte{0x81, 0xff}, ir.BF16))
	require.False(t, isNaN([]byte{0x80, 0x7f}, ir.BF16))
}

func TestBarriersAndCollectives(t *testing.T) {
	r := newRig(t, Mem, 1)
	r.w.BarrierDivergence(2, 23, 17, ^uint32(0), true)
	r.w.BarrierDivergence(0, 16, 0, 0xffff0000, false)
	r.w.NonuniformSimd(1, 14, 0xff, ^uint32(0), false)
	r.w.NonuniformSimd(1, 15, 0xff, 0xff, true)
	require.Equal(t, []string{"error barrier-divergence 23 17", "error barrier-divergence 16", "error nonuniform-simd 14", "error nonuniform-simd 15"}, r.found())
	require.Equal(t, "not every thread of the threadgroup reaches this barrier: 32 threads of simdgroup 2 have returned", r.c.Report().Findings[0].Message)
	require.Equal(t, "a simdgroup function is reached by 8 of 32 live lanes (missing lanes 0xffffff00)", r.c.Report().Findings[2].Message)
}

// Equal findings are one with a count, and their id survives other lines.
func TestMerging(t *testing.T) {
	render := func(shift int) (*Report, string) {
		r := newRig(t, Strict, 2)
		for i := range r.d.Kernel.Positions {
			r.d.Kernel.Positions[i].Line += shift
		}
		r.c.opt.Source = func(_ string, line int) string {
			if line == 10+shift {
				return "\tshared[i] = v;"
			}
			return "    x = shared[j];"
		}
		r.d.Kernel.Positions[21].InlinedAt = 30
		r.d.Kernel.Positions[22] = r.d.Kernel.Positions[21]
		for g := range 4 {
			r.w = r.run.Worker(g % 2)
			r.w.BeginGroup(g, 128, 4)
			r.access(Write, r.run.Params[3], 0, ^uint32(0), 10, 4, func(l int) (int, uint32) { return 4 * l, 1 })
			r.access(Read, r.run.Params[3], 1, ^uint32(0), 21, 4, func(l int) (int, uint32) { return 4 * l, 1 })
			r.access(Read, r.run.Params[3], 2, 1, 22, 4, func(l int) (int, uint32) { return 4 * l, 1 })
		}
		r.found()
		var b strings.Builder
		require.NoError(t, r.c.Report().WriteText(&b, false))
		return r.c.Report(), b.String()
	}
	a, text := render(0)
	require.Len(t, a.Findings, 1)
	require.Equal(t, 4*33, a.Findings[0].Count)
	require.Equal(t, `k.metal:21:5: error: threadgroup-race: write and read of the same bytes of threadgroup memory shared by two simdgroups, no threadgroup_barrier(mem_flags::mem_threadgroup) between
     21 |     x = shared[j];
        |     ^
  read by threadgroup (0, 0, 0), simdgroup 1, lane 0
    inlined at k.metal:30:5: x = shared[j];
  k.metal:10:5: write by threadgroup (0, 0, 0), simdgroup 0, lane 0
     10 | 	shared[i] = v;
        | 	   ^
  kernel k; threadgroup memory shared; byte offset 0 of 1024; 132 times; id `+a.Findings[0].ID+"\n", text)
	b, _ := render(7)
	require.Equal(t, a.Findings[0].ID, b.Findings[0].ID)
}

func TestBitmap(t *testing.T) {
	const size = 3*bitPageBytes + 100
	b := newBitmap(size)
	want := make([]bool, size)
	check := func() {
		t.Helper()
		n := 0
		got := make([]bool, size)
		for i := range got {
			got[i] = true
		}
		b.gaps(0, size, func(off, m int) {
			require.Positive(t, m)
			for i := range m {
				got[off+i] = false
			}
		})
		for _, w := range want {
			if w {
				n++
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, n, b.count())
		for _, at := range []int{0, 60, 4090, 4096, 8000, size - 64} {
			var v uint64
			for i := range 64 {
				if want[at+i] {
					v |= 1 << i
				}
			}
			require.Equal(t, v, b.get(at, 64))
		}
	}
	put := func(off, n int, set bool) {
		b.put(off, n, set)
		for i := range n {
			if at := off + i; at >= 0 && at < size {
				want[at] = set
			}
		}
		check()
	}
	check()
	put(10, 3, true)
	put(4090, 20, true)
	put(bitPageBytes, bitPageBytes, true)
	put(5000, 1, false)
	put(bitPageBytes, bitPageBytes, false)
	put(0, size, true)
	put(64, 128, false)
	put(size-3, 100, false)
	put(-5, 7, false)
	o := newBitmap(size)
	o.put(100, 9000, true)
	b.or(o)
	for i := 100; i < 9100; i++ {
		want[i] = true
	}
	check()
	c := newBitmap(size)
	c.or(b)
	require.Equal(t, b.count(), c.count())
	o.put(0, size, true)
	c.or(o)
	require.True(t, c.covers(0, size))
	require.False(t, b.covers(0, size))
}

// Two lanes, two simdgroups and two threadgroups that race at the same two lines
// are one finding, with the gravest details.
func TestGravest(t *testing.T) {
	for _, mode := range []Mode{Race, Strict} {
		r := newRig(t, mode, 1)
		o := r.run.Params[1]
		r.one(Write, o, 0, 0, 0, 10, 1)
		r.one(Read, o, 0, 1, 0, 20, 0) // lanes
		r.one(Write, o, 0, 2, 4, 10, 1)
		r.one(Read, o, 3, 2, 4, 20, 0) // simdgroups
		r.one(Read, o, 1, 2, 8, 20, 0)
		r.one(Write, o, 2, 2, 8, 10, 1) // the other way round
		r.w.BeginGroup(5, 128, 4)
		r.one(Read, o, 0, 9, 0, 20, 0) // threadgroups
		got := r.found()
		require.Len(t, got, 1, "%v", got)
		f := r.c.Report().Findings[0]
		require.Equal(t, Error, f.Severity)
		require.Equal(t, "threadgroups", f.Between)
		require.Equal(t, 4, f.Count)
		require.Equal(t, 5, f.Sides[0].Threadgroup[0])
		require.Equal(t, &[2]int64{0, 12}, f.Bytes)
	}
}
