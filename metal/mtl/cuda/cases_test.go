package cuda

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/mem"

	"github.com/stretchr/testify/require"
)

// launchCase is a kernel with its arguments: bytes for buffers, nil for
// threadgroup memory.
type launchCase struct {
	name   string
	f      *ir.Func
	grid   [3]int
	ragged bool
	tg     [3]int
	args   [][]byte
	tgSize []int
	// outs are the types of the results in the last buffer argument: of its slot
	// [out][i] of the given bytes, n slots each.
	outs   []ir.Type
	names  []string
	slot   int
	repeat int // timed launches on the GPU
}

// written lists the arguments that the kernel may write; the last has the typed
// results, the others are compared byte by byte.
func (c *launchCase) written() []int {
	var list []int
	for k, p := range c.f.Params {
		if p.Kind == ir.BufferParam && !p.ReadOnly {
			list = append(list, k)
		}
	}
	return list
}

// soft runs the case on the software device's interpreter and gives what its
// arguments hold then.
func (c *launchCase) soft(t *testing.T) ([][]byte, time.Duration) {
	t.Helper()
	p, err := interp.Decode(c.f)
	require.NoError(t, err, c.name)
	l := &interp.Launch{Grid: c.grid, Ragged: c.ragged, Threadgroup: c.tg, ThreadgroupBytes: c.tgSize, Threads: runtime.NumCPU()}
	for k, a := range c.args {
		w := mem.Window{}
		if a != nil {
			b := mem.Wrap(mem.Aligned(len(a)), c.f.Params[k].Name)
			copy(b.Data, a)
			w = mem.Window{Buffer: b, Length: len(a)}
		}
		l.Windows = append(l.Windows, w)
	}
	start := time.Now()
	_, err = p.Run(context.Background(), l)
	require.NoError(t, err, c.name)
	took := time.Since(start)
	out := make([][]byte, len(c.args))
	for k, w := range l.Windows {
		if w.Buffer != nil {
			out[k] = w.Buffer.Data
		}
	}
	return out, took
}

type generator struct{ r *rand.Rand }

func newGenerator(seed uint64) *generator { return &generator{rand.New(rand.NewPCG(seed, 20))} }

// bits gives operand bits of a type: special values, values near 1, any bits.
func (g *generator) bits(t ir.Type) uint64 {
	special := map[ir.Type][]uint64{
		ir.F32:  {0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 1, 0x807fffff, 0x7f7fffff, 0x4b800000, 0x40490fdb, 0x3fc90fdb, 0x4f000000, 0xcf000000, 0x5f000000},
		ir.F16:  {0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 1, 0x83ff, 0x7bff},
		ir.BF16: {0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 1, 0x807f, 0x7f7f},
	}[t]
	if special == nil {
		top := uint64(1) << (t.Bits() - 1)
		special = []uint64{0, 1, 2, top, top - 1, 2*top - 1, 7, 31, 32, 33}
	}
	x := g.r.Uint64()
	switch g.r.IntN(4) {
	case 0:
		x = special[g.r.IntN(len(special))]
	case 1, 2:
		if t.IsFloat() {
			x = t.FloatBits(float32(g.r.NormFloat64() * math.Exp(g.r.NormFloat64()*2)))
		}
	}
	if t.Bits() < 64 {
		x &= 1<<t.Bits() - 1
	}
	return x
}

func put(b []byte, t ir.Type, k int, bits uint64) {
	switch t.Size() {
	case 1:
		b[k] = byte(bits)
	case 2:
		binary.LittleEndian.PutUint16(b[2*k:], uint16(bits))
	case 4:
		binary.LittleEndian.PutUint32(b[4*k:], uint32(bits))
	default:
		binary.LittleEndian.PutUint64(b[8*k:], bits)
	}
}

// operands makes n values; the first argument walks through all patterns of the
// small types and, in steps, of float32.
func (g *generator) operands(t ir.Type, n int, walk bool) []byte {
	b := make([]byte, n*t.Size())
	for k := range n {
		x := g.bits(t)
		switch {
		case walk && t.Size() <= 2:
			x = uint64(k) & (1<<t.Bits() - 1)
		case walk && t == ir.F32 && k%4 != 0:
			x = uint64(k) * (1 << 32) / uint64(n)
			x += g.r.Uint64N(1 << 12)
			x &= 1<<32 - 1
		}
		put(b, t, k, x)
	}
	return b
}

func floats(r *rand.Rand, n int) []byte {
	b := make([]byte, 4*n)
	for k := range n {
		put(b, ir.F32, k, uint64(math.Float32bits(float32(r.NormFloat64()))))
	}
	return b
}

func words(vals ...uint32) []byte {
	b := make([]byte, 4*len(vals))
	for k, v := range vals {
		binary.LittleEndian.PutUint32(b[4*k:], v)
	}
	return b
}

// q4 makes rows of random q4_0 blocks: a half scale and 16 bytes of nibbles.
func q4(r *rand.Rand, blocks int) []byte {
	b := make([]byte, 18*blocks)
	for k := range blocks {
		binary.LittleEndian.PutUint16(b[18*k:], ir.F32ToF16(float32(r.NormFloat64()*0.01)))
		for i := 2; i < 18; i++ {
			b[18*k+i] = byte(r.Uint32())
		}
	}
	return b
}

// mainCases are the three kernels of the front end.
func mainCases(t *testing.T, small bool) []*launchCase {
	r := rand.New(rand.NewPCG(7, 7))
	pick := func(a, b int) int {
		if small {
			return a
		}
		return b
	}
	n := pick(1003, 1<<24+3)
	f32 := []ir.Type{ir.F32}
	cases := []*launchCase{{
		name: fmt.Sprintf("scale_add n=%d", n), f: specialize(t, "kernels.metal", "scale_add"), grid: [3]int{n, 1, 1}, ragged: true, tg: [3]int{256, 1, 1},
		args: [][]byte{floats(r, n), floats(r, n), make([]byte, 4*n), words(math.Float32bits(1.7))}, outs: f32, slot: 4, repeat: 20,
	}}
	rows, width := pick(3, 4096), 4096
	cases = append(cases, &launchCase{
		name: fmt.Sprintf("rms_norm rows=%d n=%d", rows, width), f: specialize(t, "kernels.metal", "rms_norm"), grid: [3]int{rows, 1, 1}, tg: [3]int{256, 1, 1},
		args: [][]byte{floats(r, rows*width), floats(r, width), make([]byte, 4*rows*width), words(uint32(width), math.Float32bits(1e-5))}, outs: f32, slot: 4, repeat: 20,
	})
	rows, width = pick(21, 14337), 4096
	cases = append(cases, &launchCase{
		name: fmt.Sprintf("mul_mv_q4_0 rows=%d n=%d", rows, width), f: specialize(t, "kernels.metal", "mul_mv_q4_0"), grid: [3]int{(rows + 7) / 8, 1, 1}, tg: [3]int{128, 1, 1},
		args: [][]byte{q4(r, rows*width/32), floats(r, width), make([]byte, 4*rows), words(uint32(rows), uint32(width/32))}, outs: f32, slot: 4, repeat: 20,
	})
	return cases
}

// laneCases are the kernels about lanes, positions and matrices.
func laneCases(t *testing.T, small bool) []*launchCase {
	g := newGenerator(9)
	n := 1<<18 - 7
	if small {
		n = 2048 - 7
	}
	halves := func(n int) []byte {
		b := make([]byte, 2*n)
		for k := range n {
			put(b, ir.F16, k, uint64(ir.F32ToF16(float32(g.r.NormFloat64()))))
		}
		return b
	}
	groups := 64
	return []*launchCase{{
		name: fmt.Sprintf("divergence n=%d", n), f: specialize(t, "lanes.metal", "divergence"), grid: [3]int{n, 1, 1}, ragged: true, tg: [3]int{128, 1, 1},
		args: [][]byte{g.randomBytes(4 * n), make([]byte, 4*n)}, outs: []ir.Type{ir.I32}, slot: 4,
	}, {
		name: "positions 37x5x3", f: specialize(t, "lanes.metal", "positions"), grid: [3]int{37, 5, 3}, ragged: true, tg: [3]int{8, 4, 2},
		args: [][]byte{make([]byte, 64*37*5*3)}, outs: []ir.Type{ir.I32}, slot: 4,
	}, {
		name: "matrices", f: specialize(t, "lanes.metal", "matrices"), grid: [3]int{groups, 1, 1}, tg: [3]int{32, 1, 1},
		args: [][]byte{halves(256 * groups), halves(256), make([]byte, 512*groups), nil}, tgSize: []int{0, 0, 0, 256}, outs: []ir.Type{ir.F32}, slot: 4,
	}}
}

// memoryCases are the kernels about objects, widths and atomics.
func memoryCases(t *testing.T, small bool) []*launchCase {
	g := newGenerator(11)
	n := 1 << 16
	if small {
		n = 1 << 9
	}
	word := []ir.Type{ir.I32}
	random := func(n int) []byte { return g.randomBytes(4 * n) }
	groups := 64
	bfloats := make([]byte, 128*groups)
	for k := range 64 * groups {
		put(bfloats, ir.BF16, k, uint64(ir.F32ToBF16(float32(g.r.NormFloat64()))))
	}
	mk := func(kernel string, n, tg int, args ...[]byte) *launchCase {
		return &launchCase{name: fmt.Sprintf("memory %s n=%d", kernel, n), f: specialize(t, "memory.metal", kernel), grid: [3]int{n, 1, 1}, ragged: true, tg: [3]int{tg, 1, 1}, args: args, outs: word, slot: 4}
	}
	privates := mk("privates", n-5, 96, random(256+8), random(256), make([]byte, 4*n), nil)
	privates.tgSize = []int{0, 0, 0, 96}
	elements := mk("elements", 32*groups, 32, floats(g.r, 64*groups), bfloats, make([]byte, 256*groups))
	elements.outs = []ir.Type{ir.F32}
	// Records of 32 bytes whose fields are small numbers.
	odds := make([]byte, 32*n)
	for k := range n {
		copy(odds[32*k:], g.randomBytes(32))
		put(odds[32*k+4:], ir.F32, 0, uint64(math.Float32bits(float32(k))))
		put(odds[32*k+12:], ir.F32, 0, uint64(math.Float32bits(1.25)))
		odds[32*k+18] &= 1
	}
	atomic := make([]byte, 4*(n+16))
	copy(atomic[8:], words(0xffffffff, 0, 0, 0xffffffff, 0))
	return []*launchCase{
		mk("layouts", n, 64, g.smallFloats(16*n), odds, make([]byte, 16*n)),
		privates,
		mk("atomics", n, 64, random(n), atomic, words(0, 0), words(0, 0), make([]byte, 4*(64+2*n/64))),
		elements,
	}
}

// smallFloats are words whose float32 is no NaN, so that float arithmetic on them
// has one result.
func (g *generator) smallFloats(n int) []byte {
	b := g.randomBytes(4 * n)
	for k := range n {
		b[4*k+3] &^= 0x40
	}
	return b
}

func (g *generator) randomBytes(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(g.r.Uint32())
	}
	return b
}

// opCases run the tables of operations.
func opCases(small bool) []*launchCase {
	var list []*launchCase
	for k, o := range arithmetic() {
		n := 1 << 18
		if o.elem == ir.F32 {
			n = 1 << 20
		}
		if small {
			n = 1 << 10
		}
		list = append(list, o.launch(newGenerator(uint64(k)), n))
	}
	for k, o := range simdgroups() {
		n := 1<<15 - 13
		if small {
			n = 1<<9 - 13
		}
		list = append(list, o.launch(newGenerator(uint64(100+k)), n))
	}
	return list
}

func (o *ops) launch(g *generator, n int) *launchCase {
	return &launchCase{
		name: o.name, f: o.f, grid: [3]int{n, 1, 1}, ragged: true, tg: [3]int{64, 1, 1},
		args: [][]byte{g.operands(o.elem, n, true), g.operands(o.elem, n, false), g.operands(o.elem, n, false), make([]byte, 8*n*len(o.names))},
		outs: o.types, names: o.names, slot: 8,
	}
}

func allCases(t *testing.T, small bool) []*launchCase {
	cases := mainCases(t, small)
	cases = append(cases, laneCases(t, small)...)
	cases = append(cases, memoryCases(t, small)...)
	cases = append(cases, opCases(small)...)
	for _, c := range cases {
		if c.tgSize == nil {
			c.tgSize = make([]int, len(c.args))
		}
	}
	return cases
}
