package pass_test

import (
	"encoding/binary"
	"fmt"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
)

// machine runs one lane of a function: enough of the semantics to see that a pass
// changed no result. Pointers are an object and an offset, as the IR says.
type machine struct {
	f     *ir.Func
	vals  []uint64
	ptrs  []pointer
	mem   map[object][]byte
	grid  func(k ir.GridKind, c int) uint64
	steps int
}

type object struct {
	op ir.Op
	n  uint64
}

type pointer struct {
	obj object
	off int64
}

// exit says why a region ended: a target left with values, or Return.
type exit struct {
	op     ir.Op
	target *ir.Instr
	vals   []uint64
	ptrs   []pointer
}

func run(f *ir.Func, buffers [][]byte, grid func(ir.GridKind, int) uint64) error {
	m := &machine{f: f, vals: make([]uint64, len(f.Types)), ptrs: make([]pointer, len(f.Types)), mem: map[object][]byte{}, grid: grid}
	for k, b := range buffers {
		m.mem[object{ir.PtrParam, uint64(k)}] = b
	}
	for k, a := range f.Allocas {
		m.mem[object{ir.PtrAlloca, uint64(k)}] = make([]byte, a.Size)
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

func (m *machine) take(vs []ir.Value) (e exit) {
	for _, v := range vs {
		e.vals = append(e.vals, m.vals[v])
		e.ptrs = append(e.ptrs, m.ptrs[v])
	}
	return e
}

func (m *machine) give(vs []ir.Value, e exit) {
	for k, v := range vs {
		m.vals[v], m.ptrs[v] = e.vals[k], e.ptrs[k]
	}
}

func (m *machine) region(r *ir.Region) (exit, error) {
	for _, i := range r.Instrs {
		if m.steps++; m.steps > 1<<20 {
			return exit{}, fmt.Errorf("too many steps")
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
				return exit{}, err
			}
		}
	}
	return exit{}, fmt.Errorf("a region without an end")
}

func (m *machine) bytes(p pointer, n int) ([]byte, error) {
	b := m.mem[p.obj]
	if p.off < 0 || p.off+int64(n) > int64(len(b)) {
		return nil, fmt.Errorf("access at %d of %d bytes", p.off, len(b))
	}
	return b[p.off : p.off+int64(n)], nil
}

func (m *machine) instr(i *ir.Instr) error {
	var r ir.Value
	if len(i.Res) > 0 {
		r = i.Res[0]
	}
	switch i.Op {
	case ir.Declare:
	case ir.Undef:
		m.vals[r] = 0
	case ir.Grid:
		m.vals[r] = m.grid(ir.GridKind(i.Imm>>2), int(i.Imm&3))
	case ir.PtrParam, ir.PtrAlloca, ir.PtrTable:
		m.ptrs[r] = pointer{object{i.Op, i.Imm}, 0}
	case ir.PtrAdd:
		p := m.ptrs[i.Args[0]]
		p.off += int64(m.vals[i.Args[1]])
		m.ptrs[r] = p
	case ir.FMA:
		t := m.f.Types[r]
		v := float64(t.Float(m.vals[i.Args[0]]))*float64(t.Float(m.vals[i.Args[1]])) + float64(t.Float(m.vals[i.Args[2]]))
		m.vals[r] = t.FloatBits(float32(v)) // exact for the small integers of the tests
	case ir.Load, ir.Store:
		size := i.Mem.Elem.Size()
		for k := range i.Mem.Count {
			p := m.ptrs[i.Args[0]]
			p.off += int64(k * size)
			b, err := m.bytes(p, size)
			if err != nil {
				return err
			}
			var w [8]byte
			if i.Op == ir.Load {
				copy(w[:], b)
				m.vals[i.Res[k]] = binary.LittleEndian.Uint64(w[:])
			} else {
				binary.LittleEndian.PutUint64(w[:], m.vals[i.Args[1+k]])
				copy(b, w[:size])
			}
		}
	default:
		t := m.f.Types[r]
		if i.Op == ir.Select && t == ir.Ptr {
			m.ptrs[r] = m.ptrs[i.Args[2-m.vals[i.Args[0]]]]
			return nil
		}
		at := t
		var a []uint64
		for _, v := range i.Args {
			a = append(a, m.vals[v])
		}
		if len(i.Args) > 0 {
			at = m.f.Types[i.Args[0]]
		}
		x, ok := pass.Eval(i.Op, t, at, i.Imm, a)
		if !ok {
			return fmt.Errorf("%s is not computed here", i.Op)
		}
		m.vals[r] = x
	}
	return nil
}
