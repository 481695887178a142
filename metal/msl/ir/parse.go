package ir

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limits of the text form, so that hostile text cannot ask for much memory.
const (
	maxTextValues = 1 << 22
	maxTextDepth  = 1000
	maxTextCount  = 1 << 12
)

// Parse reads the text form. It checks what it needs for building the function;
// [Verify] checks the rest. Errors name the line.
func Parse(text string) (*Func, error) {
	p := &parser{lines: strings.Split(text, "\n"), labels: map[int]*Instr{}}
	f, err := p.function()
	if err != nil {
		return nil, fmt.Errorf("ir: line %d: %w", p.n, err)
	}
	return f, nil
}

type parser struct {
	lines  []string
	n      int // lines read
	toks   []string
	f      *Func
	labels map[int]*Instr
	depth  int
}

// next splits the next line that is not empty into tokens; false at the end.
func (p *parser) next() (bool, error) {
	for p.n < len(p.lines) {
		line := p.lines[p.n]
		p.n++
		toks, err := tokens(line)
		if err != nil {
			return false, err
		}
		if len(toks) > 0 {
			p.toks = toks
			return true, nil
		}
	}
	return false, nil
}

func tokens(s string) ([]string, error) {
	var out []string
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == ',':
			i++
		case c == ';': // comment
			return out, nil
		case c == '"':
			q, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return nil, fmt.Errorf("broken string at column %d", i+1)
			}
			out = append(out, q)
			i += len(q)
		case strings.IndexByte("(){}=", c) >= 0:
			out = append(out, string(c))
			i++
		default:
			j := i
			for j < len(s) && strings.IndexByte(" \t\r,;\"(){}=", s[j]) < 0 {
				j++
			}
			out = append(out, s[i:j])
			i = j
		}
	}
	return out, nil
}

func (p *parser) peek() string {
	if len(p.toks) == 0 {
		return ""
	}
	return p.toks[0]
}

func (p *parser) take() string {
	t := p.peek()
	if len(p.toks) > 0 {
		p.toks = p.toks[1:]
	}
	return t
}

func (p *parser) accept(t string) bool {
	if p.peek() != t {
		return false
	}
	p.take()
	return true
}

func (p *parser) expect(t string) error {
	if g := p.take(); g != t {
		return fmt.Errorf("%q where %q is expected", g, t)
	}
	return nil
}

func (p *parser) end() error {
	if len(p.toks) > 0 {
		return fmt.Errorf("%q after the end of the line's content", p.toks[0])
	}
	return nil
}

func (p *parser) str() (string, error) {
	t := p.take()
	s, err := strconv.Unquote(t)
	if err != nil || !strings.HasPrefix(t, `"`) {
		return "", fmt.Errorf("%q where a quoted string is expected", t)
	}
	return s, nil
}

func (p *parser) num() (int, error) {
	t := p.take()
	n, err := strconv.ParseInt(t, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q where a number from 0 to %d is expected", t, math.MaxInt32)
	}
	return int(n), nil
}

func (p *parser) named(word string) (int, error) {
	if err := p.expect(word); err != nil {
		return 0, err
	}
	return p.num()
}

func (p *parser) posSuffix() (Pos, error) {
	if t := p.peek(); strings.HasPrefix(t, "!") {
		p.take()
		n, err := strconv.ParseInt(t[1:], 10, 32)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q where a position such as !3 is expected", t)
		}
		return Pos(n), nil
	}
	return 0, nil
}

func (p *parser) typ(s string) (Type, error) {
	if t, ok := lookup(typeNames[:], s); ok {
		return Type(t), nil
	}
	return 0, fmt.Errorf("%q is not a type", s)
}

func (p *parser) space() (Space, error) {
	t := p.take()
	if s, ok := lookup(spaceNames[:], t); ok {
		return Space(s), nil
	}
	return 0, fmt.Errorf("%q is not an address space", t)
}

func (p *parser) function() (*Func, error) {
	p.f = &Func{Types: []Type{Void}, Positions: []Position{{}}, Body: &Region{}}
	f := p.f
	ok, err := p.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("no function")
	}
	if err := p.expect("func"); err != nil {
		return nil, err
	}
	if f.Name, err = p.str(); err != nil {
		return nil, err
	}
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	for {
		ok, err := p.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("the text ends before body")
		}
		word := p.take()
		if word == "body" {
			break
		}
		if err := p.header(word); err != nil {
			return nil, err
		}
		if err := p.end(); err != nil {
			return nil, err
		}
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if err := p.region(f.Body); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if ok, err := p.next(); err != nil || ok {
		if err == nil {
			err = fmt.Errorf("%q after the function", p.toks[0])
		}
		return nil, err
	}
	return f, nil
}

func (p *parser) header(word string) (err error) {
	f := p.f
	switch word {
	case "param":
		var a Param
		switch k := p.take(); k {
		case "buffer":
		case "threadgroup":
			a.Kind = ThreadgroupParam
		default:
			return fmt.Errorf("%q where buffer or threadgroup is expected", k)
		}
		if a.Index, err = p.num(); err != nil {
			return err
		}
		if a.Space, err = p.space(); err != nil {
			return err
		}
		a.ReadOnly = p.accept("readonly")
		a.Ref = p.accept("ref")
		if a.Elem, err = p.str(); err != nil {
			return err
		}
		if a.ElemSize, err = p.named("size"); err != nil {
			return err
		}
		if a.Scalar, err = p.typ(p.take()); err != nil {
			return err
		}
		if err = p.expect("name"); err != nil {
			return err
		}
		if a.Name, err = p.str(); err != nil {
			return err
		}
		if a.Pos, err = p.posSuffix(); err != nil {
			return err
		}
		f.Params = append(f.Params, a)
	case "static", "alloca":
		name, err := p.str()
		if err != nil {
			return err
		}
		size, err := p.named("size")
		if err != nil {
			return err
		}
		align, err := p.named("align")
		if err != nil {
			return err
		}
		pos, err := p.posSuffix()
		if err != nil {
			return err
		}
		if word == "static" {
			f.Statics = append(f.Statics, Static{name, size, align, pos})
		} else {
			f.Allocas = append(f.Allocas, Alloca{name, size, align, pos})
		}
	case "table":
		name, err := p.str()
		if err != nil {
			return err
		}
		data, err := hex.DecodeString(p.take())
		if err != nil {
			return fmt.Errorf("table %q: %w", name, err)
		}
		f.Tables = append(f.Tables, Table{name, data})
	case "threads":
		f.MaxThreads, err = p.num()
		return err
	case "pos":
		i, err := p.num()
		if err != nil {
			return err
		}
		if i != len(f.Positions) {
			return fmt.Errorf("position %d where %d is expected", i, len(f.Positions))
		}
		var q Position
		if q.File, err = p.str(); err != nil {
			return err
		}
		if q.Line, err = p.num(); err != nil {
			return err
		}
		if q.Col, err = p.num(); err != nil {
			return err
		}
		at, err := p.named("at")
		if err != nil {
			return err
		}
		q.InlinedAt = Pos(at)
		f.Positions = append(f.Positions, q)
	default:
		return fmt.Errorf("%q where param, static, alloca, table, threads, pos or body is expected", word)
	}
	return nil
}

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
