package ir

import (
	"math"
	"slices"
)

// Builder makes a Func, one instruction after another. Regions are built by
// callbacks: the instructions that a callback emits are the region's. A Builder
// does not check types; run [Verify] on the result. Use from one goroutine.
type Builder struct {
	f     *Func
	cur   *Region
	pos   Pos
	posOf map[Position]Pos
	sites int32
}

// NewBuilder starts a function with an empty body.
func NewBuilder(name string) *Builder {
	f := &Func{Name: name, Types: []Type{Void}, Positions: []Position{{}}, Body: &Region{}}
	return &Builder{f: f, cur: f.Body, posOf: map[Position]Pos{}}
}

// Func gives the function as built so far.
func (b *Builder) Func() *Func { return b.f }

// Param, Static, Alloca and Table add an object and give its index.
func (b *Builder) Param(p Param) int {
	b.f.Params = append(b.f.Params, p)
	return len(b.f.Params) - 1
}

// Static adds a threadgroup variable and gives its index.
func (b *Builder) Static(s Static) int {
	b.f.Statics = append(b.f.Statics, s)
	return len(b.f.Statics) - 1
}

// Alloca adds a private object and gives its index.
func (b *Builder) Alloca(a Alloca) int {
	b.f.Allocas = append(b.f.Allocas, a)
	return len(b.f.Allocas) - 1
}

// Table adds a constant object and gives its index.
func (b *Builder) Table(t Table) int {
	b.f.Tables = append(b.f.Tables, t)
	return len(b.f.Tables) - 1
}

// Position interns a source position.
func (b *Builder) Position(p Position) Pos {
	if i, ok := b.posOf[p]; ok {
		return i
	}
	b.f.Positions = append(b.f.Positions, p)
	i := Pos(len(b.f.Positions) - 1)
	b.posOf[p] = i
	return i
}

// SetPos sets the position of the instructions that follow and gives the one
// before.
func (b *Builder) SetPos(p Pos) Pos {
	old := b.pos
	b.pos = p
	return old
}

// Pos gives the position that instructions get now.
func (b *Builder) Pos() Pos { return b.pos }

// NewValue makes a value that no instruction defines yet.
func (b *Builder) NewValue(t Type) Value { return b.f.NewValue(t) }

// NewValue makes a value that no instruction defines yet.
func (f *Func) NewValue(t Type) Value {
	f.Types = append(f.Types, t)
	return Value(len(f.Types) - 1)
}

// TypeOf gives a value's type.
func (b *Builder) TypeOf(v Value) Type { return b.f.Types[v] }

// Region gives the region that instructions go to now.
func (b *Builder) Region() *Region { return b.cur }

// In lets emit put its instructions at the end of r.
func (b *Builder) In(r *Region, emit func()) {
	old := b.cur
	b.cur = r
	emit()
	b.cur = old
}

// Terminated tells whether the current region has its terminator already.
func (b *Builder) Terminated() bool {
	n := len(b.cur.Instrs)
	return n > 0 && b.cur.Instrs[n-1].Op.Terminator()
}

// Add appends an instruction as it is, setting the position where it has none.
func (b *Builder) Add(i *Instr) *Instr {
	if i.Pos == 0 {
		i.Pos = b.pos
	}
	i.Args = slices.Clone(i.Args) // the caller may pass another instruction's results
	if i.Op.Collective() && i.Site == 0 {
		b.sites++
		i.Site = b.sites
	}
	b.cur.Instrs = append(b.cur.Instrs, i)
	return i
}

// Op appends an instruction with one result of type t, or none where t is Void.
func (b *Builder) Op(op Op, t Type, imm uint64, args ...Value) Value {
	i := &Instr{Op: op, Imm: imm, Args: args}
	var v Value
	if t != Void {
		v = b.NewValue(t)
		i.Res = []Value{v}
	}
	b.Add(i)
	return v
}

// Const gives a constant of the bits.
func (b *Builder) Const(t Type, bits uint64) Value {
	if n := t.Bits(); n < 64 {
		bits &= 1<<n - 1
	}
	return b.Op(Const, t, bits)
}

// I32 gives an I32 constant.
func (b *Builder) I32(x int32) Value { return b.Const(I32, uint64(uint32(x))) }

// I64 gives an I64 constant.
func (b *Builder) I64(x int64) Value { return b.Const(I64, uint64(x)) }

// F32 gives an F32 constant.
func (b *Builder) F32(x float32) Value { return b.Const(F32, uint64(math.Float32bits(x))) }

// Bin appends an operation whose result has the type of its first operand.
func (b *Builder) Bin(op Op, args ...Value) Value { return b.Op(op, b.TypeOf(args[0]), 0, args...) }

// Cmp appends an ICmp, or an FCmp for floats.
func (b *Builder) Cmp(p Pred, x, y Value) Value {
	if b.TypeOf(x).IsFloat() {
		return b.Op(FCmp, I1, uint64(p), x, y)
	}
	return b.Op(ICmp, I1, uint64(p), x, y)
}

// Conv appends a conversion to t.
func (b *Builder) Conv(op Op, t Type, x Value) Value { return b.Op(op, t, 0, x) }

// Select appends c ? x : y.
func (b *Builder) Select(c, x, y Value) Value { return b.Op(Select, b.TypeOf(x), 0, c, x, y) }

// PtrAdd appends p plus off bytes (an I64).
func (b *Builder) PtrAdd(p, off Value) Value { return b.Op(PtrAdd, Ptr, 0, p, off) }

// PtrConst appends p plus a constant number of bytes, p itself for 0.
func (b *Builder) PtrConst(p Value, off int) Value {
	if off == 0 {
		return p
	}
	return b.PtrAdd(p, b.I64(int64(off)))
}

// Load appends a load of m.Count elements.
func (b *Builder) Load(p Value, m Mem) []Value {
	i := &Instr{Op: Load, Args: []Value{p}, Mem: &m}
	for range m.Count {
		i.Res = append(i.Res, b.NewValue(m.Elem))
	}
	b.Add(i)
	return slices.Clone(i.Res)
}

// Store appends a store of the values, setting m.Count to their number.
func (b *Builder) Store(p Value, m Mem, vals ...Value) {
	m.Count = len(vals)
	b.Add(&Instr{Op: Store, Args: append([]Value{p}, vals...), Mem: &m})
}

// Grid appends the read of a component of a grid attribute.
func (b *Builder) Grid(k GridKind, component int) Value {
	return b.Op(Grid, I32, uint64(k)<<2|uint64(component))
}

// Barrier appends a TgBarrier or SgBarrier.
func (b *Builder) Barrier(op Op, flags MemFlags) { b.Op(op, Void, uint64(flags)) }

func (b *Builder) results(types []Type) []Value {
	var vs []Value
	for _, t := range types {
		vs = append(vs, b.NewValue(t))
	}
	return vs
}

// If appends a conditional. Each arm emits its instructions and gives the values
// that it yields, unless its last instruction leaves.
func (b *Builder) If(cond Value, results []Type, then, els func() []Value) []Value {
	i := &Instr{Op: If, Args: []Value{cond}, Body: []*Region{{}, {}}, Pos: b.pos}
	for k, arm := range []func() []Value{then, els} {
		b.In(i.Body[k], func() {
			var vs []Value
			if arm != nil {
				vs = arm()
			}
			if !b.Terminated() {
				b.Op(Yield, Void, 0, vs...)
			}
		})
	}
	i.Res = b.results(results)
	b.Add(i)
	return slices.Clone(i.Res)
}

// Loop appends a loop. body gets the loop, for Break and Continue, and the
// carried values; it must leave the region terminated, else the loop ends with
// Continue of the same carried values.
func (b *Builder) Loop(init []Value, results []Type, body func(loop *Instr, carried []Value)) []Value {
	r := &Region{}
	for _, v := range init {
		r.Args = append(r.Args, b.NewValue(b.TypeOf(v)))
	}
	i := &Instr{Op: Loop, Args: init, Body: []*Region{r}, Pos: b.pos}
	b.In(r, func() {
		body(i, r.Args)
		if !b.Terminated() {
			b.Continue(i, r.Args...)
		}
	})
	i.Res = b.results(results)
	b.Add(i)
	return slices.Clone(i.Res)
}

// Block appends a region that Break leaves. A body without a terminator breaks
// out at its end with the values that it gives.
func (b *Builder) Block(results []Type, body func(block *Instr) []Value) []Value {
	i := &Instr{Op: Block, Body: []*Region{{}}, Pos: b.pos}
	b.In(i.Body[0], func() {
		vs := body(i)
		if !b.Terminated() {
			b.Break(i, vs...)
		}
	})
	i.Res = b.results(results)
	b.Add(i)
	return slices.Clone(i.Res)
}

// Break leaves a Loop or Block with its results.
func (b *Builder) Break(target *Instr, vals ...Value) {
	b.Add(&Instr{Op: Break, Args: vals, Target: target})
}

// Continue starts the loop's next iteration.
func (b *Builder) Continue(target *Instr, vals ...Value) {
	b.Add(&Instr{Op: Continue, Args: vals, Target: target})
}

// Return ends the kernel for the lane.
func (b *Builder) Return() { b.Add(&Instr{Op: Return}) }
