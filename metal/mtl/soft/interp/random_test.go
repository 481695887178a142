package interp

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/irtest"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"

	"github.com/stretchr/testify/require"
)

var randomPrograms = flag.Int("programs", 150, "random programs that TestRandomPrograms runs")

// program generates functions with every kind of control flow over values that
// are the same in all lanes, values that differ, and mixtures, and keeps all
// accesses in bounds. Each lane owns 16 words of the output.
type program struct {
	*kb
	r       *rand.Rand
	id      ir.Value
	in, out ir.Value
	priv    ir.Value
	scope   []ir.Value
	targets []target
	fuel    int
}

type target struct {
	i     *ir.Instr
	types []ir.Type         // of results
	next  func() []ir.Value // arguments of a Continue, nil for a Block
}

var scalarTypes = []ir.Type{ir.I1, ir.I8, ir.I16, ir.I32, ir.I32, ir.I32, ir.I64, ir.I64, ir.F16, ir.BF16, ir.F32, ir.F32, ir.Ptr}

func (g *program) typ() ir.Type { return scalarTypes[g.r.IntN(len(scalarTypes))] }

func (g *program) types() []ir.Type {
	var ts []ir.Type
	for range g.r.IntN(4) {
		ts = append(ts, g.typ())
	}
	return ts
}

// value is one of the scope of that type, or a new constant.
func (g *program) value(t ir.Type) ir.Value {
	for range 8 {
		if v := g.scope[g.r.IntN(len(g.scope))]; g.TypeOf(v) == t {
			return v
		}
	}
	switch t {
	case ir.Ptr:
		return []ir.Value{g.in, g.priv}[g.r.IntN(2)]
	case ir.I32:
		if g.r.IntN(3) == 0 {
			return g.id
		}
	}
	x := g.r.Uint64() >> g.r.IntN(64)
	switch t {
	case ir.F32:
		x = uint64(0x3f000000 + g.r.Uint32()&0x01ffffff)
	case ir.F16:
		x = uint64(0x3800 + g.r.Uint32()&0xfff)
	case ir.BF16:
		x = uint64(0x3f00 + g.r.Uint32()&0x1ff)
	}
	return g.Const(t, x)
}

func (g *program) values(ts []ir.Type) []ir.Value {
	var vs []ir.Value
	for _, t := range ts {
		vs = append(vs, g.value(t))
	}
	return vs
}

func (g *program) keep(v ir.Value) { g.scope = append(g.scope, v) }

// index is an I64 of n words of 4 bytes, different by lane or not.
func (g *program) index(n int32) ir.Value {
	return g.mul64(g.zext(g.Bin(ir.And, g.value(ir.I32), g.I32(n-1))), 4)
}

var intBinary = []ir.Op{ir.Add, ir.Sub, ir.Mul, ir.SDiv, ir.UDiv, ir.SRem, ir.URem, ir.And, ir.Or, ir.Xor, ir.Shl, ir.LShr, ir.AShr, ir.SMin, ir.SMax, ir.UMin, ir.UMax, ir.SMulHi, ir.UMulHi}
var floatBinary = []ir.Op{ir.FAdd, ir.FSub, ir.FMul, ir.FDiv, ir.FMin, ir.FMax, ir.FCopysign}

func (g *program) pure() {
	t := g.typ()
	switch {
	case t == ir.Ptr:
		p := g.value(ir.Ptr)
		if g.r.IntN(2) == 0 {
			p = g.Select(g.value(ir.I1), p, g.value(ir.Ptr))
		}
		g.keep(p)
	case t == ir.I1:
		switch g.r.IntN(4) {
		case 0:
			g.keep(g.Bin([]ir.Op{ir.And, ir.Or, ir.Xor}[g.r.IntN(3)], g.value(t), g.value(t)))
		case 1:
			ft := []ir.Type{ir.F16, ir.BF16, ir.F32}[g.r.IntN(3)]
			g.keep(g.Cmp([]ir.Pred{ir.Eq, ir.Ne, ir.FLt, ir.FLe, ir.FGt, ir.FGe}[g.r.IntN(6)], g.value(ft), g.value(ft)))
		default:
			it := []ir.Type{ir.I8, ir.I16, ir.I32, ir.I64}[g.r.IntN(4)]
			g.keep(g.Cmp(ir.Pred(g.r.IntN(10)), g.value(it), g.value(it)))
		}
	case t.IsInt():
		switch g.r.IntN(6) {
		case 0:
			g.keep(g.Op([]ir.Op{ir.Clz, ir.Ctz, ir.Popcount, ir.ReverseBits}[g.r.IntN(4)], t, 0, g.value(t)))
		case 1:
			g.keep(g.Select(g.value(ir.I1), g.value(t), g.value(t)))
		case 2:
			from := []ir.Type{ir.I1, ir.I8, ir.I16, ir.I32, ir.I64}[g.r.IntN(5)]
			switch {
			case from.Bits() < t.Bits():
				g.keep(g.Conv([]ir.Op{ir.ZExt, ir.SExt}[g.r.IntN(2)], t, g.value(from)))
			case from.Bits() > t.Bits():
				g.keep(g.Conv(ir.IntTrunc, t, g.value(from)))
			}
		case 3:
			from := []ir.Type{ir.F16, ir.BF16, ir.F32}[g.r.IntN(3)]
			g.keep(g.Conv([]ir.Op{ir.FToS, ir.FToU}[g.r.IntN(2)], t, g.value(from)))
		default:
			g.keep(g.Bin(intBinary[g.r.IntN(len(intBinary))], g.value(t), g.value(t)))
		}
	default:
		switch g.r.IntN(6) {
		case 0:
			g.keep(g.Op([]ir.Op{ir.FNeg, ir.FAbs, ir.Floor, ir.Ceil, ir.Trunc, ir.Rint, ir.Round, ir.Sqrt}[g.r.IntN(8)], t, 0, g.value(t)))
		case 1:
			g.keep(g.Bin(ir.FMA, g.value(t), g.value(t), g.value(t)))
		case 2:
			from := []ir.Type{ir.I8, ir.I16, ir.I32, ir.I64}[g.r.IntN(4)]
			g.keep(g.Conv([]ir.Op{ir.SToF, ir.UToF}[g.r.IntN(2)], t, g.value(from)))
		case 3:
			if from := []ir.Type{ir.F16, ir.BF16, ir.F32}[g.r.IntN(3)]; from != t {
				g.keep(g.Conv(ir.FConv, t, g.value(from)))
			}
		default:
			g.keep(g.Bin(floatBinary[g.r.IntN(len(floatBinary))], g.value(t), g.value(t)))
		}
	}
}

// store writes a value's bits to a word that the lane owns. A NaN's payload is
// not defined, so floats are compared with themselves first.
func (g *program) store() {
	t := g.typ()
	if t == ir.Ptr || t == ir.I1 {
		t = ir.I32
	}
	v := g.value(t)
	if t.IsFloat() {
		v = g.Select(g.Cmp(ir.Eq, v, v), v, g.Const(t, 0))
	}
	if g.r.IntN(3) == 0 && t == ir.I32 {
		g.store1(g.PtrAdd(g.priv, g.index(16)), v, ir.Thread)
		return
	}
	p := g.PtrAdd(g.PtrAdd(g.out, g.mul64(g.zext(g.id), 64)), g.index(8))
	if t == ir.I64 {
		p = g.PtrAdd(g.PtrAdd(g.out, g.mul64(g.zext(g.id), 64)), g.Bin(ir.Mul, g.index(4), g.I64(2)))
	}
	g.store1(p, v, ir.Device)
}

func (g *program) load() {
	switch g.r.IntN(3) {
	case 0:
		g.keep(g.load1(g.PtrAdd(g.in, g.index(64)), ir.I32, ir.Device))
	case 1:
		g.keep(g.load1(g.PtrAdd(g.priv, g.index(16)), ir.I32, ir.Thread))
	default:
		// Whichever object it is.
		p := g.PtrAdd(g.value(ir.Ptr), g.index(8))
		vs := g.Load(p, ir.Mem{Elem: ir.I16, Count: 2, Align: 1, Space: ir.Device})
		g.scope = append(g.scope, vs...)
	}
}

// body emits statements; what they define is not known behind it.
func (g *program) body(depth int) {
	for range 1 + g.r.IntN(5) {
		if g.Terminated() {
			return
		}
		g.fuel--
		switch k := g.r.IntN(12); {
		case k < 5 || depth == 0 || g.fuel < 0:
			g.pure()
		case k == 5:
			g.store()
		case k == 6:
			g.load()
		case k < 10:
			g.branch(depth - 1)
		case k == 10:
			g.loop(depth - 1)
		default:
			g.block(depth - 1)
		}
	}
}

// inside runs f in a scope of its own.
func (g *program) inside(f func()) {
	scope := slices.Clone(g.scope)
	targets := slices.Clone(g.targets)
	f()
	g.scope, g.targets = scope, targets
}

// leave sometimes ends the region by an exit.
func (g *program) leave() {
	if g.Terminated() || g.r.IntN(3) > 0 {
		return
	}
	if len(g.targets) == 0 || g.r.IntN(8) == 0 {
		g.Return()
		return
	}
	t := g.targets[g.r.IntN(len(g.targets))]
	if t.next != nil && g.r.IntN(2) == 0 {
		g.Continue(t.i, t.next()...)
		return
	}
	g.Break(t.i, g.values(t.types)...)
}

func (g *program) branch(depth int) {
	ts := g.types()
	arm := func() (vs []ir.Value) {
		g.inside(func() {
			g.body(depth)
			g.leave()
			if !g.Terminated() {
				vs = g.values(ts)
			}
		})
		return vs
	}
	els := arm
	if len(ts) == 0 && g.r.IntN(2) == 0 {
		els = nil
	}
	g.scope = append(g.scope, g.If(g.value(ir.I1), ts, arm, els)...)
}

func (g *program) loop(depth int) {
	results, carried := g.types(), g.types()
	bound := g.I32(int32(g.r.IntN(4)))
	if g.r.IntN(2) == 0 {
		bound = g.Bin(ir.And, g.value(ir.I32), g.I32(3))
	}
	init := append([]ir.Value{g.I32(0)}, g.values(carried)...)
	rs := g.Loop(init, results, func(l *ir.Instr, c []ir.Value) {
		g.inside(func() {
			g.scope = append(g.scope, c...)
			g.If(g.Cmp(ir.UGe, c[0], bound), nil, func() []ir.Value { g.Break(l, g.values(results)...); return nil }, nil)
			next := func() []ir.Value { return append([]ir.Value{g.Bin(ir.Add, c[0], g.I32(1))}, g.values(carried)...) }
			g.targets = append(g.targets, target{l, results, next})
			g.body(depth)
			g.leave()
			if !g.Terminated() {
				g.Continue(l, next()...)
			}
		})
	})
	g.scope = append(g.scope, rs...)
}

func (g *program) block(depth int) {
	results := g.types()
	rs := g.Block(results, func(b *ir.Instr) (vs []ir.Value) {
		g.inside(func() {
			g.targets = append(g.targets, target{b, results, nil})
			g.body(depth)
			if !g.Terminated() {
				vs = g.values(results)
			}
		})
		return vs
	})
	g.scope = append(g.scope, rs...)
}

func randomFunc(seed uint64) *ir.Func {
	g := &program{kb: newKernel("random"), r: rand.New(rand.NewPCG(seed, 11)), fuel: 60}
	g.in = g.buffer("in", 0, "uint", 4, ir.I32, true)
	g.out = g.buffer("out", 1, "uint", 4, ir.I32, false)
	g.priv = g.Op(ir.PtrAlloca, ir.Ptr, uint64(g.Alloca(ir.Alloca{Name: "a", Size: 64, Align: 4})))
	g.id = g.Grid(ir.ThreadPositionInGrid, 0)
	for i := range 16 {
		g.store1(g.PtrConst(g.priv, 4*i), g.I32(int32(i*i)), ir.Thread)
	}
	g.scope = []ir.Value{g.id, g.Grid(ir.ThreadgroupPositionInGrid, 0), g.in, g.priv,
		g.Cmp(ir.Eq, g.Bin(ir.And, g.id, g.I32(1)), g.I32(0)), g.Cmp(ir.ULt, g.id, g.I32(20)),
		g.Conv(ir.UToF, ir.F32, g.id)}
	for range 6 {
		g.body(4)
		if g.Terminated() {
			break
		}
		g.store()
	}
	if !g.Terminated() {
		g.Return()
	}
	return g.Func()
}

// TestRandomPrograms holds the interpreter against irtest, which runs one lane at
// a time: off and under the sanitizer, which must find nothing, for these
// programs read nothing that is not written.
func TestRandomPrograms(t *testing.T) {
	const threads, tg = 100, 48
	in := make([]byte, 4*64)
	for i := range in {
		in[i] = byte(i * 37)
	}
	for seed := range uint64(*randomPrograms) {
		f := randomFunc(seed)
		require.NoError(t, ir.Verify(f), "seed %d", seed)
		want := make([]byte, 64*threads)
		for i := range uint32(threads) {
			err := irtest.Lane{Buffers: [][]byte{in, want}, Grid: func(k ir.GridKind, c int) uint32 {
				if k == ir.ThreadgroupPositionInGrid {
					return i / tg
				}
				return i
			}}.Run(f)
			require.NoError(t, err, "seed %d lane %d", seed, i)
		}
		p, err := Decode(f)
		require.NoError(t, err, "seed %d", seed)
		var count Counters
		for _, mode := range []san.Mode{san.Off, san.Strict} {
			bi, bo := mem.New(len(in), "in"), mem.New(len(want), "out")
			copy(bi.Data, in)
			clear(bo.Data)
			l := Launch{Grid: [3]int{threads, 1, 1}, Ragged: true, Threadgroup: [3]int{tg, 1, 1}, Windows: all(bi, bo), ThreadgroupBytes: make([]int, 2), Threads: 2}
			var c *san.Checker
			if mode != san.Off {
				c = san.New(mode, san.Options{})
				d := &san.Dispatch{Kernel: f, Threadgroups: [3]int{(threads + tg - 1) / tg, 1, 1}, Threads: l.Threadgroup, ThreadgroupBytes: []int{}}
				for i, b := range []*mem.Buffer{bi, bo} {
					b.San = san.NewBuffer(b.Label, len(b.Data))
					b.San.Define(0, len(b.Data))
					d.Bindings = append(d.Bindings, san.Binding{Param: i, Buffer: b.San, Length: len(b.Data)})
				}
				c.BeginInterval([]*san.Dispatch{d})
				l.San = c.Begin(d, 2)
			}
			n, err := p.Run(context.Background(), &l)
			require.NoError(t, err)
			for i := 0; i < len(want); i += 4 {
				if x, y := binary.LittleEndian.Uint32(want[i:]), binary.LittleEndian.Uint32(bo.Data[i:]); x != y {
					t.Fatalf("seed %d, mode %s, lane %d, word %d: got %#x, want %#x\n%s", seed, mode, i/64, i%64/4, y, x, f)
				}
			}
			if c == nil {
				count = n
				continue
			}
			require.Equal(t, count, n, "seed %d", seed)
			l.San.End()
			c.Finish()
			require.Empty(t, c.Report().Findings, "seed %d", seed)
		}
	}
}
