// Package irtest runs IR functions one lane at a time, slowly and obviously, for
// tests of what makes and changes IR: a pass must change no result, and code
// lowered from source must compute what the source says.
//
// It is not a device: a simdgroup is one lane here, so collectives give what they
// give for a lone lane, barriers do nothing, and mathematical functions are those
// of package math rounded once. An access outside of its object is an error.
package irtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
)

// Lane is one run.
type Lane struct {
	// Buffers are the arguments' memory by position in Func.Params.
	Buffers [][]byte
	// Grid gives the attributes; nil is all zero.
	Grid func(k ir.GridKind, component int) uint32
	// MaxSteps bounds the instructions executed, 1<<20 if 0.
	MaxSteps int
}

// Run executes f, which must be verified.
func (l Lane) Run(f *ir.Func) error {
	m := &machine{f: f, lane: l, vals: make([]uint64, len(f.Types)), ptrs: make([]pointer, len(f.Types)), mats: make([]*matrix, len(f.Types)),
		mem: map[object][]byte{}, held: map[pointer]pointer{}, heldMats: map[pointer]*matrix{}}
	if l.MaxSteps == 0 {
		m.lane.MaxSteps = 1 << 20
	}
	for k, b := range l.Buffers {
		m.mem[object{ir.PtrParam, uint64(k)}] = b
	}
	for k, a := range f.Allocas {
		m.mem[object{ir.PtrAlloca, uint64(k)}] = make([]byte, a.Size)
	}
	for k, a := range f.Statics {
		m.mem[object{ir.PtrStatic, uint64(k)}] = make([]byte, a.Size)
	}
	for k, t := range f.Tables {
		m.mem[object{ir.PtrTable, uint64(k)}] = t.Data
	}
	e, err := m.region(f.Body)
	if err == nil && e.op != ir.Return {
		err = fmt.Errorf("the body ends with %s", e.op)
	}
	return err
}

type machine struct {
	f     *ir.Func
	lane  Lane
	vals  []uint64
	ptrs  []pointer
	mats  []*matrix
	mem   map[object][]byte
	steps int
	// Pointers and matrices in private memory.
	held     map[pointer]pointer
	heldMats map[pointer]*matrix
}

// matrix is a simdgroup matrix, row by row; a new one for each value.
type matrix [64]float32

type object struct {
	op ir.Op
	n  uint64
}

type pointer struct {
	obj object
	off int64
}

// exit says why a region ended: what is left, with which values.
type exit struct {
	op     ir.Op
	target *ir.Instr
	vals   []uint64
	ptrs   []pointer
	mats   []*matrix
}

func (m *machine) take(vs []ir.Value) (e exit) {
	for _, v := range vs {
		e.vals = append(e.vals, m.vals[v])
		e.ptrs = append(e.ptrs, m.ptrs[v])
		e.mats = append(e.mats, m.mats[v])
	}
	return e
}

func (m *machine) give(vs []ir.Value, e exit) {
	for k, v := range vs {
		m.vals[v], m.ptrs[v], m.mats[v] = e.vals[k], e.ptrs[k], e.mats[k]
	}
}

func (m *machine) region(r *ir.Region) (exit, error) {
	for _, i := range r.Instrs {
		if m.steps++; m.steps > m.lane.MaxSteps {
			return exit{}, fmt.Errorf("more than %d steps", m.lane.MaxSteps)
		}
		switch i.Op {
		case ir.If:
			e, err := m.region(i.Body[1-m.vals[i.Args[0]]])
			if err != nil || e.op != ir.Yield {
				return e, err
			}
			m.give(i.Res, e)
		case ir.Block:
			e, err := m.region(i.Body[0])
			if err != nil || e.target != i {
				return e, err
			}
			m.give(i.Res, e)
		case ir.Loop:
			e := m.take(i.Args)
			for {
				m.give(i.Body[0].Args, e)
				var err error
				if e, err = m.region(i.Body[0]); err != nil || e.target != i {
					return e, err
				}
				if e.op == ir.Break {
					break
				}
			}
			m.give(i.Res, e)
		case ir.Yield, ir.Break, ir.Continue, ir.Return:
			e := m.take(i.Args)
			e.op, e.target = i.Op, i.Target
			return e, nil
		default:
			if err := m.instr(i); err != nil {
				p := m.f.Positions[i.Pos]
				return exit{}, fmt.Errorf("%s:%d: %s: %w", p.File, p.Line, i.Op, err)
			}
		}
	}
	return exit{}, fmt.Errorf("a region without an end")
}

func (m *machine) bytes(p pointer, n int) ([]byte, error) {
	b := m.mem[p.obj]
	if p.off < 0 || p.off+int64(n) > int64(len(b)) {
		return nil, fmt.Errorf("access at %d of %d bytes of object %d of %s", p.off, len(b), p.obj.n, p.obj.op)
	}
	return b[p.off : p.off+int64(n)], nil
}

func (m *machine) read(p pointer, size int) (uint64, error) {
	b, err := m.bytes(p, size)
	var w [8]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:]), err
}

func (m *machine) write(p pointer, size int, x uint64) error {
	b, err := m.bytes(p, size)
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], x)
	copy(b, w[:size])
	return err
}

func (m *machine) instr(i *ir.Instr) (err error) {
	var r ir.Value
	if len(i.Res) > 0 {
		r = i.Res[0]
	}
	arg := func(k int) uint64 { return m.vals[i.Args[k]] }
	t := m.f.Types[r]
	switch i.Op {
	case ir.Declare, ir.TgBarrier, ir.SgBarrier, ir.Fence:
	case ir.Undef:
		m.vals[r], m.ptrs[r], m.mats[r] = 0, pointer{}, &matrix{}
	case ir.Const:
		m.vals[r], m.ptrs[r] = i.Imm, pointer{}
	case ir.Grid:
		if m.lane.Grid != nil {
			m.vals[r] = uint64(m.lane.Grid(ir.GridKind(i.Imm>>2), int(i.Imm&3)))
		}
	case ir.PtrParam, ir.PtrAlloca, ir.PtrStatic, ir.PtrTable:
		m.ptrs[r] = pointer{object{i.Op, i.Imm}, 0}
	case ir.PtrAdd:
		p := m.ptrs[i.Args[0]]
		p.off += int64(arg(1))
		m.ptrs[r] = p
	case ir.PtrDiff:
		m.vals[r] = uint64(m.ptrs[i.Args[0]].off - m.ptrs[i.Args[1]].off)
	case ir.FMA:
		m.vals[r] = fma(t, arg(0), arg(1), arg(2))
	case ir.Load, ir.Store:
		return m.access(i)
	case ir.SgFill, ir.SgDiag, ir.SgLoad, ir.SgStore, ir.SgMMA, ir.SgElem, ir.SgWith:
		return m.matrix(i, t)
	case ir.AtomicLoad:
		m.vals[r], err = m.read(m.ptrs[i.Args[0]], i.Mem.Elem.Size())
	case ir.AtomicStore:
		err = m.write(m.ptrs[i.Args[0]], i.Mem.Elem.Size(), arg(1))
	case ir.AtomicRMW, ir.AtomicCAS:
		return m.atomic(i)
	case ir.SimdReduce, ir.SimdScan, ir.SimdShuffle:
		m.vals[r] = arg(0)
		if i.Op == ir.SimdScan && i.Imm&ir.ScanExclusive != 0 {
			m.vals[r] = 0
			if ir.ReduceOp(i.Imm&0xff) == ir.ReduceMul {
				m.vals[r] = 1
				if t.IsFloat() {
					m.vals[r] = t.FloatBits(1)
				}
			}
		}
	case ir.SimdVote:
		m.vals[r] = arg(0)
	case ir.SimdFirst, ir.SimdActive:
		m.vals[r] = 1
	default:
		return m.pure(i, t)
	}
	return err
}

func (m *machine) access(i *ir.Instr) error {
	if i.Mem.Elem.IsSg() { // before the passes
		p := m.ptrs[i.Args[0]]
		if i.Op == ir.Store {
			m.heldMats[p] = m.mats[i.Args[1]]
		} else if m.mats[i.Res[0]] = m.heldMats[p]; m.mats[i.Res[0]] == nil {
			m.mats[i.Res[0]] = &matrix{}
		}
		return nil
	}
	size := i.Mem.Elem.Size()
	for k := range i.Mem.Count {
		p := m.ptrs[i.Args[0]]
		p.off += int64(k * size)
		if i.Op == ir.Load {
			x, err := m.read(p, size)
			if err != nil {
				return err
			}
			if i.Mem.Elem == ir.I1 && x != 0 {
				x = 1
			}
			m.vals[i.Res[k]] = x
			if i.Mem.Elem == ir.Ptr {
				m.ptrs[i.Res[k]] = m.held[p]
			}
			continue
		}
		if err := m.write(p, size, m.vals[i.Args[1+k]]); err != nil {
			return err
		}
		if i.Mem.Elem == ir.Ptr {
			m.held[p] = m.ptrs[i.Args[1+k]]
		}
	}
	return nil
}

func (m *machine) atomic(i *ir.Instr) error {
	p, size, t := m.ptrs[i.Args[0]], i.Mem.Elem.Size(), i.Mem.Elem
	old, err := m.read(p, size)
	if err != nil {
		return err
	}
	m.vals[i.Res[0]] = old
	x := m.vals[i.Args[1]]
	if i.Op == ir.AtomicCAS {
		if old == x {
			return m.write(p, size, m.vals[i.Args[2]])
		}
		return nil
	}
	if o := ir.AtomicOp(i.Imm); o != ir.AtomicExchange {
		op := [...]ir.Op{ir.Add, ir.Sub, ir.And, ir.Or, ir.Xor, ir.SMin, ir.SMax, ir.UMin, ir.UMax, 0, ir.FAdd, ir.FSub}[o]
		x, _ = pass.Eval(op, t, t, 0, []uint64{old, x})
	}
	return m.write(p, size, x)
}

func (m *machine) pure(i *ir.Instr, t ir.Type) error {
	r := i.Res[0]
	at := t
	var a []uint64
	for _, v := range i.Args {
		a = append(a, m.vals[v])
	}
	if len(i.Args) > 0 {
		at = m.f.Types[i.Args[0]]
	}
	switch {
	case i.Op == ir.Select && t == ir.Ptr:
		m.ptrs[r] = m.ptrs[i.Args[2-a[0]]]
		return nil
	case i.Op == ir.ICmp && at == ir.Ptr:
		p, q := m.ptrs[i.Args[0]], m.ptrs[i.Args[1]]
		same := p.obj == q.obj
		x := uint64(0)
		if ir.Pred(i.Imm) == ir.Ne && !same {
			x = 1
		}
		if same {
			x, _ = pass.Eval(ir.ICmp, ir.I1, ir.I64, i.Imm, []uint64{uint64(p.off), uint64(q.off)})
		}
		m.vals[r] = x
		return nil
	}
	if x, ok := pass.Eval(i.Op, t, at, i.Imm, a); ok {
		m.vals[r] = x
		return nil
	}
	f, ok := functions[i.Op]
	if !ok {
		return fmt.Errorf("is not computed here")
	}
	y := 0.0
	if len(a) > 1 {
		y = float64(t.Float(a[1]))
	}
	m.vals[r] = t.FloatBits(float32(f(float64(t.Float(a[0])), y)))
	return nil
}

func of(f func(float64) float64) func(x, y float64) float64 {
	return func(x, _ float64) float64 { return f(x) }
}

var functions = map[ir.Op]func(x, y float64) float64{
	ir.Exp: of(math.Exp), ir.Exp2: of(math.Exp2), ir.Exp10: of(func(x float64) float64 { return math.Pow(10, x) }), ir.Log: of(math.Log),
	ir.Log2: of(math.Log2), ir.Log10: of(math.Log10), ir.Sin: of(math.Sin), ir.Cos: of(math.Cos), ir.Tan: of(math.Tan), ir.Tanh: of(math.Tanh),
	ir.Sinh: of(math.Sinh), ir.Cosh: of(math.Cosh), ir.Asin: of(math.Asin), ir.Acos: of(math.Acos), ir.Atan: of(math.Atan), ir.Erf: of(math.Erf),
	ir.Rsqrt: of(func(x float64) float64 { return 1 / math.Sqrt(x) }), ir.Atan2: math.Atan2, ir.Pow: math.Pow, ir.FRem: math.Mod,
}

// fma rounds a*b+c once: the sum is rounded to odd in float64, which keeps the
// second rounding right.
func fma(t ir.Type, a, b, c uint64) uint64 {
	p := float64(t.Float(a)) * float64(t.Float(b)) // exact
	z := float64(t.Float(c))
	s := p + z
	v := s - p
	e := (p - (s - v)) + (z - v) // what the sum lost
	if bits := math.Float64bits(s); e != 0 && e == e && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	if t == ir.F32 {
		return t.FloatBits(float32(s))
	}
	r, _ := pass.Eval(ir.FConv, t, ir.F32, 0, []uint64{uint64(math.Float32bits(odd32(s)))})
	return r
}

// odd32 rounds to float32 towards odd.
func odd32(s float64) float32 {
	g := float32(s)
	if float64(g) == s || math.IsInf(float64(g), 0) || s != s {
		return g
	}
	b := math.Float32bits(g)
	if b&1 == 0 {
		if math.Abs(float64(g)) > math.Abs(s) {
			b--
		} else {
			b++
		}
	}
	return math.Float32frombits(b)
}
