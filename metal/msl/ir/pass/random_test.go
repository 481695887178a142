package pass_test

import (
	"math/rand/v2"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/irtest"
	"minfer/metal/msl/ir/pass"

	"github.com/stretchr/testify/require"
)

// generator makes random functions as lowering makes them: variables in allocas,
// structured control flow, constant and variable indices, byte views of words.
type generator struct {
	r    *rand.Rand
	b    *ir.Builder
	vars []ir.Value // I32 allocas
	arr  ir.Value   // 8 I32
	out  ir.Value
	in   ir.Value
	ctr  []ir.Value // counters of enclosing loops
	brk  []*ir.Instr
	left int
}

func mem(t ir.Type, s ir.Space) ir.Mem { return ir.Mem{Elem: t, Count: 1, Align: t.Size(), Space: s} }

func (g *generator) load(p ir.Value) ir.Value { return g.b.Load(p, mem(ir.I32, ir.Thread))[0] }

func (g *generator) pick() ir.Value { return g.vars[g.r.IntN(len(g.vars))] }

func (g *generator) value(depth int) ir.Value {
	b := g.b
	switch n := g.r.IntN(12); {
	case depth == 0 || n < 2:
		return b.I32(int32(g.r.IntN(9) - 4))
	case n < 5:
		return g.load(g.pick())
	case n == 5 && len(g.ctr) > 0:
		return g.load(g.ctr[g.r.IntN(len(g.ctr))])
	case n == 6:
		return b.Load(b.PtrConst(g.in, 4*g.r.IntN(4)), mem(ir.I32, ir.Constant))[0]
	case n == 7:
		return g.load(g.element(depth))
	case n == 8: // a byte of a variable
		x := b.Load(b.PtrConst(g.pick(), g.r.IntN(4)), mem(ir.I8, ir.Thread))[0]
		return b.Conv(ir.SExt, ir.I32, x)
	case n == 9:
		return b.Select(g.cond(depth-1), g.value(depth-1), g.value(depth-1))
	}
	ops := []ir.Op{ir.Add, ir.Sub, ir.Mul, ir.And, ir.Or, ir.Xor, ir.Shl, ir.LShr, ir.AShr, ir.SDiv, ir.UDiv, ir.SRem, ir.URem, ir.SMin, ir.UMax}
	return b.Bin(ops[g.r.IntN(len(ops))], g.value(depth-1), g.value(depth-1))
}

// element is the address of an array element, in range.
func (g *generator) element(depth int) ir.Value {
	b := g.b
	i := b.Bin(ir.And, g.value(depth-1), b.I32(7))
	if g.r.IntN(2) == 0 && len(g.ctr) > 0 {
		i = b.Bin(ir.And, g.load(g.ctr[g.r.IntN(len(g.ctr))]), b.I32(7))
	}
	return b.PtrAdd(g.arr, b.Bin(ir.Mul, b.Conv(ir.SExt, ir.I64, i), b.I64(4)))
}

func (g *generator) cond(depth int) ir.Value {
	return g.b.Cmp(ir.Pred(g.r.IntN(10)), g.value(max(depth, 0)), g.value(max(depth, 0)))
}

func (g *generator) store(p ir.Value, v ir.Value) { g.b.Store(p, mem(ir.I32, ir.Thread), v) }

func (g *generator) stmts(depth int) {
	for range 1 + g.r.IntN(4) {
		if g.b.Terminated() {
			return
		}
		g.stmt(depth)
	}
}

func (g *generator) stmt(depth int) {
	b := g.b
	if g.left--; g.left < 0 {
		return
	}
	n := g.r.IntN(14)
	if depth == 0 && n >= 6 {
		n = g.r.IntN(6)
	}
	switch {
	case n < 3:
		g.store(g.pick(), g.value(3))
	case n == 3:
		g.store(g.element(2), g.value(2))
	case n == 4:
		b.Store(b.PtrConst(g.pick(), g.r.IntN(4)), mem(ir.I8, ir.Thread), b.Conv(ir.IntTrunc, ir.I8, g.value(2)))
	case n == 5:
		b.Store(b.PtrConst(g.out, 4*g.r.IntN(8)), mem(ir.I32, ir.Device), g.value(3))
	case n < 9:
		b.If(g.cond(2), nil, func() []ir.Value { g.stmts(depth - 1); return nil }, func() []ir.Value { g.stmts(depth - 1); return nil })
	case n == 9 && len(g.brk) > 0:
		b.If(g.cond(2), nil, func() []ir.Value { b.Break(g.brk[g.r.IntN(len(g.brk))]); return nil }, nil)
	case n == 10:
		b.Block(nil, func(blk *ir.Instr) []ir.Value {
			g.brk = append(g.brk, blk)
			g.stmts(depth - 1)
			g.brk = g.brk[:len(g.brk)-1]
			return nil
		})
	case n == 11 && g.r.IntN(8) == 0:
		b.If(g.cond(2), nil, func() []ir.Value { b.Return(); return nil }, nil)
	default:
		g.loop(depth)
	}
}

func (g *generator) loop(depth int) {
	b := g.b
	i := g.variable()
	g.store(i, b.I32(0))
	bound := b.I32(int32(g.r.IntN(6)))
	if g.r.IntN(2) == 0 {
		bound = b.Bin(ir.And, g.value(2), b.I32(3))
	}
	var made *ir.Instr
	b.Loop(nil, nil, func(l *ir.Instr, _ []ir.Value) {
		made = l
		b.If(b.Cmp(ir.SLt, g.load(i), bound), nil, nil, func() []ir.Value { b.Break(l); return nil })
		g.ctr = append(g.ctr, i)
		b.Block(nil, func(blk *ir.Instr) []ir.Value {
			g.brk = append(g.brk, blk, l)
			g.stmts(depth - 1)
			g.brk = g.brk[:len(g.brk)-2]
			return nil
		})
		g.ctr = g.ctr[:len(g.ctr)-1]
		g.store(i, b.Bin(ir.Add, g.load(i), b.I32(1)))
	})
	made.Imm = uint64(g.r.IntN(4))
}

func (g *generator) variable() ir.Value {
	p := g.b.Op(ir.PtrAlloca, ir.Ptr, uint64(g.b.Alloca(ir.Alloca{Size: 4, Align: 4})))
	g.b.Op(ir.Declare, ir.Void, 0, p)
	return p
}

func random(seed uint64) *ir.Func {
	b := ir.NewBuilder("random")
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), b: b, left: 60}
	b.Param(ir.Param{Name: "out", Space: ir.Device, ElemSize: 4, Scalar: ir.I32})
	b.Param(ir.Param{Name: "in", Index: 1, Space: ir.Constant, ElemSize: 4, Scalar: ir.I32, ReadOnly: true})
	g.out, g.in = b.Op(ir.PtrParam, ir.Ptr, 0), b.Op(ir.PtrParam, ir.Ptr, 1)
	for range 4 {
		v := g.variable()
		g.store(v, b.I32(int32(g.r.IntN(100))))
		g.vars = append(g.vars, v)
	}
	g.arr = b.Op(ir.PtrAlloca, ir.Ptr, uint64(b.Alloca(ir.Alloca{Size: 32, Align: 4})))
	for k := range 8 {
		g.store(b.PtrConst(g.arr, 4*k), b.I32(int32(k*k)))
	}
	g.stmts(4)
	if !b.Terminated() {
		for k, v := range g.vars {
			b.Store(b.PtrConst(g.out, 32+4*k), mem(ir.I32, ir.Device), g.load(v))
		}
		for k := range 8 {
			b.Store(b.PtrConst(g.out, 48+4*k), mem(ir.I32, ir.Device), g.load(b.PtrConst(g.arr, 4*k)))
		}
		b.Return()
	}
	return b.Func()
}

func outcome(t *testing.T, f *ir.Func) []byte {
	out := make([]byte, 80)
	in := []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 9, 9, 0, 0, 0, 0, 0, 0x80}
	require.NoError(t, irtest.Lane{Buffers: [][]byte{out, in}}.Run(f))
	return out
}

// The passes, one by one and all together, change no result of random functions.
func TestPassesKeepResults(t *testing.T) {
	n := uint64(600)
	if testing.Short() {
		n = 200
	}
	for seed := range n {
		f := random(seed)
		require.NoError(t, ir.Verify(f), "seed %d", seed)
		want := outcome(t, f)
		check := func(name string, f *ir.Func) {
			require.NoError(t, ir.Verify(f), "seed %d after %s", seed, name)
			require.Equal(t, want, outcome(t, f), "seed %d after %s", seed, name)
		}
		pass.Simplify(f)
		check("Simplify", f)
		pass.DCE(f)
		check("DCE", f)
		f = random(seed)
		pass.Promote(f)
		check("Promote", f)
		pass.Simplify(f)
		check("Promote, Simplify", f)
		if pass.Unroll(f) {
			check("Unroll", f)
		}
		f = random(seed)
		require.NoError(t, pass.Run(f))
		check("Run", f)
		pass.Analyze(f)
	}
}
