package ir

import "fmt"

// Verify checks a function: each value is defined once, before its uses and in
// an enclosing region; operand and result types fit the operations; regions end
// in their one terminator; Break and Continue name an enclosing region and carry
// what it expects; indices of objects and positions exist; accesses are sane.
// The error names the first offender.
func Verify(f *Func) error {
	v := &verifier{f: f, state: make([]uint8, len(f.Types)), sites: map[int32]bool{}}
	if err := v.function(); err != nil {
		return fmt.Errorf("ir: %s: %w", f.Name, err)
	}
	return nil
}

// States of a value.
const (
	undefined = iota
	inScope
	outOfScope
)

type verifier struct {
	f         *Func
	state     []uint8
	sites     map[int32]bool
	enclosing []*Instr
}

func (v *verifier) function() error {
	f := v.f
	if len(f.Types) == 0 || f.Types[0] != Void {
		return fmt.Errorf("Types[0] must be void")
	}
	if len(f.Positions) == 0 {
		return fmt.Errorf("Positions[0] must exist")
	}
	for i, p := range f.Positions {
		if p.InlinedAt < 0 || int(p.InlinedAt) >= len(f.Positions) || i > 0 && int(p.InlinedAt) >= i {
			return fmt.Errorf("position %d is inlined at %d, expected an earlier position", i, p.InlinedAt)
		}
	}
	for i, p := range f.Params {
		if p.Space == Thread || (p.Kind == ThreadgroupParam) != (p.Space == Threadgroup) {
			return fmt.Errorf("parameter %d (%s) of kind %s has space %s", i, p.Name, p.Kind, p.Space)
		}
		if p.ElemSize < 0 || p.Index < 0 {
			return fmt.Errorf("parameter %d (%s) has element size %d and index %d", i, p.Name, p.ElemSize, p.Index)
		}
		if err := v.pos(p.Pos); err != nil {
			return err
		}
	}
	for i, s := range f.Statics {
		if s.Size < 0 || !pow2(s.Align) {
			return fmt.Errorf("static %d (%s) has size %d and alignment %d", i, s.Name, s.Size, s.Align)
		}
	}
	for i, s := range f.Allocas {
		if s.Size < 0 || !pow2(s.Align) {
			return fmt.Errorf("alloca %d (%s) has size %d and alignment %d", i, s.Name, s.Size, s.Align)
		}
	}
	if f.Body == nil || len(f.Body.Args) > 0 {
		return fmt.Errorf("the body is missing or has arguments")
	}
	if err := v.region(f.Body, Return, nil); err != nil {
		return err
	}
	return nil
}

func pow2(n int) bool { return n > 0 && n&(n-1) == 0 }

func (v *verifier) pos(p Pos) error {
	if p < 0 || int(p) >= len(v.f.Positions) {
		return fmt.Errorf("position %d does not exist", p)
	}
	return nil
}

func (v *verifier) define(x Value) error {
	if x <= 0 || int(x) >= len(v.f.Types) {
		return fmt.Errorf("%%%d does not exist", x)
	}
	if v.state[x] != undefined {
		return fmt.Errorf("%%%d is defined twice", x)
	}
	if v.f.Types[x] == Void || v.f.Types[x] > SgF32 {
		return fmt.Errorf("%%%d has type %s", x, v.f.Types[x])
	}
	v.state[x] = inScope
	return nil
}

func (v *verifier) use(x Value) error {
	if x <= 0 || int(x) >= len(v.f.Types) {
		return fmt.Errorf("%%%d does not exist", x)
	}
	switch v.state[x] {
	case undefined:
		return fmt.Errorf("%%%d is used before its definition", x)
	case outOfScope:
		return fmt.Errorf("%%%d is used outside the region that defines it", x)
	}
	return nil
}

// region checks r, whose last instruction may be end (a Yield with the types of
// results, a Return) or leave an enclosing region.
func (v *verifier) region(r *Region, end Op, results []Value) error {
	for _, a := range r.Args {
		if err := v.define(a); err != nil {
			return err
		}
	}
	if len(r.Instrs) == 0 {
		return fmt.Errorf("a region is empty, expected a terminator")
	}
	for k, i := range r.Instrs {
		if i == nil {
			return fmt.Errorf("an instruction is nil")
		}
		last := k == len(r.Instrs)-1
		if i.Op.Terminator() != last {
			if last {
				return v.wrap(i, fmt.Errorf("a region ends without a terminator"))
			}
			return v.wrap(i, fmt.Errorf("a terminator before the end of its region"))
		}
		if i.Op == Yield {
			if end != Yield {
				return v.wrap(i, fmt.Errorf("yield outside of an if"))
			}
			if err := v.uses(i); err != nil {
				return v.wrap(i, err)
			}
			if err := v.same(i.Args, results); err != nil {
				return v.wrap(i, err)
			}
			continue
		}
		if err := v.instr(i); err != nil {
			return v.wrap(i, err)
		}
	}
	for _, a := range r.Args {
		v.state[a] = outOfScope
	}
	for _, i := range r.Instrs {
		for _, x := range i.Res {
			v.state[x] = outOfScope
		}
	}
	return nil
}

type instrError struct{ error }

func (e instrError) Unwrap() error { return e.error }

// wrap adds the instruction to the innermost error only.
func (v *verifier) wrap(i *Instr, err error) error {
	if _, ok := err.(instrError); ok {
		return err
	}
	s := i.Op.String()
	if len(i.Res) > 0 {
		s = fmt.Sprintf("%%%d = %s", i.Res[0], s)
	}
	if i.Pos > 0 && int(i.Pos) < len(v.f.Positions) {
		p := v.f.Positions[i.Pos]
		s += fmt.Sprintf(" (%s:%d:%d)", p.File, p.Line, p.Col)
	}
	return instrError{fmt.Errorf("%s: %w", s, err)}
}

func (v *verifier) uses(i *Instr) error {
	for _, a := range i.Args {
		if err := v.use(a); err != nil {
			return err
		}
	}
	return nil
}

// same checks that the values have the types of the others.
func (v *verifier) same(have, want []Value) error {
	if len(have) != len(want) {
		return fmt.Errorf("%d values, expected %d", len(have), len(want))
	}
	for k := range have {
		if a, b := v.typeOf(have[k]), v.typeOf(want[k]); a != b {
			return fmt.Errorf("value %d has type %s, expected %s", k, a, b)
		}
	}
	return nil
}

// typeOf gives Void for values that do not exist.
func (v *verifier) typeOf(x Value) Type {
	if x > 0 && int(x) < len(v.f.Types) {
		return v.f.Types[x]
	}
	return Void
}

func (v *verifier) instr(i *Instr) error {
	if i.Op == BadOp || i.Op >= NumOps {
		return fmt.Errorf("no such operation")
	}
	if err := v.pos(i.Pos); err != nil {
		return err
	}
	if err := v.uses(i); err != nil {
		return err
	}
	if i.Op.Collective() && i.Site != 0 {
		if v.sites[i.Site] {
			return fmt.Errorf("site %d is there twice", i.Site)
		}
		v.sites[i.Site] = true
	}
	switch i.Op {
	case If, Loop, Block:
		return v.control(i)
	case Break, Continue, Return:
		return v.leave(i)
	}
	if len(i.Body) > 0 || i.Target != nil {
		return fmt.Errorf("has regions or a target")
	}
	if err := v.operation(i); err != nil {
		return err
	}
	for _, r := range i.Res {
		if err := v.define(r); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) control(i *Instr) error {
	want := 1
	if i.Op == If {
		want = 2
	}
	if len(i.Body) != want {
		return fmt.Errorf("%d regions, expected %d", len(i.Body), want)
	}
	for _, r := range i.Body {
		if r == nil {
			return fmt.Errorf("a region is nil")
		}
		if i.Op != Loop && len(r.Args) > 0 {
			return fmt.Errorf("a region has arguments")
		}
	}
	// Results must have their types for the checks inside, but no definition yet.
	switch i.Op {
	case If:
		if err := v.args(i, I1); err != nil {
			return err
		}
		for _, r := range i.Body {
			if err := v.region(r, Yield, i.Res); err != nil {
				return err
			}
		}
	case Loop, Block:
		if i.Op == Block && len(i.Args) > 0 {
			return fmt.Errorf("a block has operands")
		}
		if i.Op == Loop {
			if err := v.same(i.Args, i.Body[0].Args); err != nil {
				return fmt.Errorf("carried values: %w", err)
			}
		}
		v.enclosing = append(v.enclosing, i)
		if err := v.region(i.Body[0], BadOp, nil); err != nil {
			return err
		}
		v.enclosing = v.enclosing[:len(v.enclosing)-1]
	}
	for _, r := range i.Res {
		if err := v.define(r); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) leave(i *Instr) error {
	if len(i.Res) > 0 || len(i.Body) > 0 {
		return fmt.Errorf("has results or regions")
	}
	if i.Op == Return {
		if len(i.Args) > 0 || i.Target != nil {
			return fmt.Errorf("has operands or a target")
		}
		return nil
	}
	for _, e := range v.enclosing {
		if e == i.Target {
			if i.Op == Break {
				return v.same(i.Args, e.Res)
			}
			if e.Op != Loop {
				return fmt.Errorf("continues a block")
			}
			return v.same(i.Args, e.Body[0].Args)
		}
	}
	return fmt.Errorf("the target does not enclose it")
}

// args checks operand types; Void stands for any.
func (v *verifier) args(i *Instr, types ...Type) error {
	if len(i.Args) != len(types) {
		return fmt.Errorf("%d operands, expected %d", len(i.Args), len(types))
	}
	for k, t := range types {
		if have := v.typeOf(i.Args[k]); t != Void && have != t {
			return fmt.Errorf("operand %d has type %s, expected %s", k, have, t)
		}
	}
	return nil
}

// res gives the type of the one result.
func (v *verifier) res(i *Instr) (Type, error) {
	if len(i.Res) != 1 {
		return Void, fmt.Errorf("%d results, expected 1", len(i.Res))
	}
	t := v.typeOf(i.Res[0])
	if t == Void {
		return Void, fmt.Errorf("%%%d does not exist", i.Res[0])
	}
	return t, nil
}
