package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

func (p *parser) value(s string) (Value, error) {
	if strings.HasPrefix(s, "%") {
		if n, err := strconv.ParseInt(s[1:], 10, 32); err == nil && n >= 0 && n < maxTextValues {
			return Value(n), nil
		}
	}
	return 0, fmt.Errorf("%q where a value such as %%7 is expected", s)
}

// def reads "%7:f32".
func (p *parser) def(s string) (Value, error) {
	name, typ, ok := strings.Cut(s, ":")
	if !ok {
		return 0, fmt.Errorf("%q where a definition such as %%7:f32 is expected", s)
	}
	v, err := p.value(name)
	if err != nil {
		return 0, err
	}
	t, err := p.typ(typ)
	if err != nil {
		return 0, err
	}
	if v == 0 || t == Void {
		return 0, fmt.Errorf("%q defines nothing", s)
	}
	for int(v) >= len(p.f.Types) {
		p.f.Types = append(p.f.Types, Void)
	}
	if p.f.Types[v] != Void {
		return 0, fmt.Errorf("%%%d is defined twice", v)
	}
	p.f.Types[v] = t
	return v, nil
}

func (p *parser) target() (*Instr, error) {
	t := p.take()
	if strings.HasPrefix(t, "#") {
		if n, err := strconv.Atoi(t[1:]); err == nil {
			if i := p.labels[n]; i != nil {
				return i, nil
			}
			return nil, fmt.Errorf("no enclosing loop or block has the label %s", t)
		}
	}
	return nil, fmt.Errorf("%q where a label such as #2 is expected", t)
}

// region reads lines up to one that starts with "}", which stays in toks without
// the brace.
func (p *parser) region(r *Region) error {
	if p.depth++; p.depth > maxTextDepth {
		return fmt.Errorf("more than %d regions inside each other", maxTextDepth)
	}
	defer func() { p.depth-- }()
	for {
		ok, err := p.next()
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the text ends inside a region")
		}
		if p.accept("}") {
			return nil
		}
		i, err := p.instr()
		if err != nil {
			return err
		}
		if err := p.end(); err != nil {
			return err
		}
		r.Instrs = append(r.Instrs, i)
	}
}

func (p *parser) instr() (*Instr, error) {
	i := &Instr{}
	for strings.HasPrefix(p.peek(), "%") {
		v, err := p.def(p.take())
		if err != nil {
			return nil, err
		}
		i.Res = append(i.Res, v)
	}
	if len(i.Res) > 0 {
		if err := p.expect("="); err != nil {
			return nil, err
		}
	}
	op := p.take()
	n, ok := lookup(opNames[:], op)
	if !ok || n == 0 {
		return nil, fmt.Errorf("%q is not an operation", op)
	}
	i.Op = Op(n)
	if err := p.imm(i); err != nil {
		return nil, err
	}
	switch i.Op {
	case Load, Store, AtomicLoad, AtomicStore, AtomicRMW, AtomicCAS, SgLoad, SgStore:
		if err := p.mem(i); err != nil {
			return nil, err
		}
	case Loop, Block:
		t := p.take()
		n, err := strconv.Atoi(strings.TrimPrefix(t, "#"))
		if err != nil || p.labels[n] != nil || !strings.HasPrefix(t, "#") {
			return nil, fmt.Errorf("%q where a new label such as #2 is expected", t)
		}
		p.labels[n] = i
		defer delete(p.labels, n)
	case Break, Continue:
		var err error
		if i.Target, err = p.target(); err != nil {
			return nil, err
		}
	}
	regions := 0
	switch i.Op {
	case If:
		regions = 2
	case Loop, Block:
		regions = 1
	}
	for range regions {
		i.Body = append(i.Body, &Region{})
	}
	if i.Op == Loop {
		if err := p.expect("("); err != nil {
			return nil, err
		}
		for !p.accept(")") {
			a, err := p.def(p.take())
			if err != nil {
				return nil, err
			}
			if err := p.expect("="); err != nil {
				return nil, err
			}
			v, err := p.value(p.take())
			if err != nil {
				return nil, err
			}
			i.Body[0].Args = append(i.Body[0].Args, a)
			i.Args = append(i.Args, v)
		}
	}
	for strings.HasPrefix(p.peek(), "%") {
		v, err := p.value(p.take())
		if err != nil {
			return nil, err
		}
		i.Args = append(i.Args, v)
	}
	if p.accept("site") {
		n, err := p.num()
		if err != nil {
			return nil, err
		}
		i.Site = int32(n)
	}
	var err error
	if i.Pos, err = p.posSuffix(); err != nil {
		return nil, err
	}
	for k, r := range i.Body {
		if k > 0 {
			if err := p.expect("else"); err != nil {
				return nil, err
			}
		}
		if err := p.expect("{"); err != nil {
			return nil, err
		}
		if err := p.end(); err != nil {
			return nil, err
		}
		if err := p.region(r); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func (p *parser) mem(i *Instr) error {
	m := &Mem{}
	i.Mem = m
	t := p.take()
	elem, count, ok := strings.Cut(t, "x")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 0 || n > maxTextCount {
		return fmt.Errorf("%q where an access such as f32x4 is expected", t)
	}
	m.Count = n
	if m.Elem, err = p.typ(elem); err != nil {
		return err
	}
	if m.Space, err = p.space(); err != nil {
		return err
	}
	if m.Align, err = p.named("align"); err != nil {
		return err
	}
	if p.accept("vector") {
		t := p.take()
		size, off, ok := strings.Cut(t, "+")
		a, err1 := strconv.ParseUint(size, 10, 16)
		b, err2 := strconv.ParseUint(off, 10, 16)
		if !ok || err1 != nil || err2 != nil || a == 0 {
			return fmt.Errorf("%q where a vector's size and offset such as 16+4 is expected", t)
		}
		m.Vector, m.VectorOff = int(a), int(b)
	}
	m.Coherent = p.accept("coherent")
	return nil
}

// imm reads what immText prints.
func (p *parser) imm(i *Instr) error {
	word := func(list []string, what string) error {
		t := p.take()
		n, ok := lookup(list, t)
		if !ok {
			return fmt.Errorf("%q is not %s", t, what)
		}
		i.Imm = n
		return nil
	}
	quad := func() {
		if p.accept("quad") {
			i.Imm |= QuadScope
		}
	}
	switch i.Op {
	case Const:
		if len(i.Res) != 1 {
			return fmt.Errorf("const defines %d values, expected 1", len(i.Res))
		}
		return p.constant(i)
	case ICmp, FCmp:
		return word(predNames[:], "a predicate")
	case PtrParam, PtrStatic, PtrAlloca, PtrTable, SgElem, SgWith:
		n, err := p.num()
		i.Imm = uint64(n)
		return err
	case AtomicRMW:
		return word(atomicNames[:], "an atomic operation")
	case Grid:
		t := p.take()
		attr, c, ok := strings.Cut(t, ".")
		k, ok2 := lookup(gridNames[:], attr)
		if !ok || !ok2 || len(c) != 1 || !strings.Contains("xyz", c) {
			return fmt.Errorf("%q where a grid attribute such as thread_position_in_grid.x is expected", t)
		}
		i.Imm = k<<2 | uint64(strings.Index("xyz", c))
	case SimdReduce, SimdScan:
		if err := word(reduceNames[:], "a reduction"); err != nil {
			return err
		}
		if p.accept("exclusive") {
			i.Imm |= ScanExclusive
		}
		quad()
	case SimdShuffle:
		if err := word(shuffleNames[:], "a shuffle"); err != nil {
			return err
		}
		quad()
	case SimdVote:
		if err := word(voteNames[:], "a vote"); err != nil {
			return err
		}
		quad()
	case SimdFirst, SimdActive:
		quad()
	case TgBarrier, SgBarrier, Fence:
		return word(flagNames[:], "a set of memory flags")
	default:
		if t := p.peek(); strings.HasPrefix(t, "0x") {
			p.take()
			n, err := strconv.ParseUint(t[2:], 16, 64)
			if err != nil {
				return fmt.Errorf("%q is not a number", t)
			}
			i.Imm = n
		}
	}
	return nil
}

func (p *parser) constant(i *Instr) error {
	s := p.take()
	t := p.f.Types[i.Res[0]]
	bad := fmt.Errorf("%q is not a constant of type %s", s, t)
	switch {
	case s == "true" && t == I1:
		i.Imm = 1
	case s == "false" && t == I1:
	case strings.HasPrefix(s, "0x"):
		n, err := strconv.ParseUint(s[2:], 16, 64)
		if err != nil || t.Bits() < 64 && n>>t.Bits() != 0 {
			return bad
		}
		i.Imm = n
	case t == F32:
		f, err := strconv.ParseFloat(s, 32)
		if err != nil {
			return bad
		}
		i.Imm = uint64(math.Float32bits(float32(f)))
	case t.IsInt():
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || t.Bits() < 64 && (n < -1<<(t.Bits()-1) || n >= 1<<t.Bits()) {
			return bad
		}
		i.Imm = uint64(n)
		if t.Bits() < 64 {
			i.Imm &= 1<<t.Bits() - 1
		}
	default:
		return bad
	}
	return nil
}
