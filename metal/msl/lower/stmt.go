package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/types"
)

func (l *lowerer) block(b *sema.Block) {
	old := l.math
	if b.Math.MathMode != "" {
		l.math.MathMode = b.Math.MathMode
		l.math.Contract = ""
	}
	if b.Math.Contract != "" {
		l.math.Contract = b.Math.Contract
	}
	l.stmts(b.Stmts)
	l.math = old
}

func (l *lowerer) stmts(list []sema.Stmt) {
	for _, s := range list {
		if l.b.Terminated() {
			return // not reached
		}
		l.stmt(s)
	}
}

func (l *lowerer) stmt(s sema.Stmt) {
	l.statement++
	switch s := s.(type) {
	case nil:
	case *sema.Block:
		if s != nil {
			l.block(s)
		}
	case *sema.ExprStmt:
		if s.X != nil {
			l.effects(s.X)
		}
	case *sema.DeclStmt:
		l.declare(s.Var)
	case *sema.If:
		l.ifStmt(s)
	case *sema.Loop:
		l.loop(s)
	case *sema.Switch:
		l.switchStmt(s)
	case *sema.Break:
		l.at(s.Pos)
		if n := len(l.brk); n > 0 {
			l.b.Break(l.brk[n-1])
			return
		}
		l.fail(s.Pos, "break outside of a loop or switch")
	case *sema.Continue:
		l.at(s.Pos)
		if n := len(l.cont); n > 0 && l.cont[n-1] != nil {
			l.b.Break(l.cont[n-1])
			return
		}
		l.fail(s.Pos, "continue outside of a loop")
	case *sema.Return:
		l.at(s.Pos)
		l.returns(s)
	default:
		l.fail(0, "a statement of kind %T is not supported", s)
	}
}

func (l *lowerer) declare(v *sema.Var) {
	l.at(v.Pos)
	switch {
	case v.Kind == sema.ThreadgroupVar:
		return // made where it is used
	case v.Type.T.Kind == types.Reference:
		l.fr.vars[v] = l.lv(v.Init)
		return
	case v.Value != nil && l.shared(v):
		return // a table
	}
	// The initialiser may name the variable: int x = x is indeterminate.
	p := l.local(v)
	if v.Init != nil {
		x := l.rv(v.Init)
		l.at(v.Pos)
		l.store(p, x)
	} else if v.Value != nil {
		l.store(p, l.constValue(v.Type.T, v.Value))
	}
}

// shared tells constants that live in a table instead of in each lane.
func (l *lowerer) shared(v *sema.Var) bool { return v.Type.Space == types.Constant }

func (l *lowerer) ifStmt(s *sema.If) {
	c := l.rv(s.C).s[0]
	if k, ok := l.constOf(c); ok {
		if k != 0 {
			l.stmt(s.Then)
		} else if s.Else != nil {
			l.stmt(s.Else)
		}
		return
	}
	l.at(s.Pos)
	arm := func(t sema.Stmt) func() []ir.Value {
		return func() []ir.Value {
			if t != nil {
				l.stmt(t)
			}
			return nil
		}
	}
	l.b.If(c, nil, arm(s.Then), arm(s.Else))
}

// continues tells whether a continue in s refers to the loop that s is the body of.
func continues(s sema.Stmt) bool {
	switch s := s.(type) {
	case *sema.Continue:
		return true
	case *sema.Block:
		if s == nil {
			return false
		}
		for _, t := range s.Stmts {
			if continues(t) {
				return true
			}
		}
	case *sema.If:
		return continues(s.Then) || continues(s.Else)
	case *sema.Switch:
		for _, c := range s.Cases {
			for _, t := range c.Body {
				if continues(t) {
					return true
				}
			}
		}
	}
	return false
}

func (l *lowerer) loop(s *sema.Loop) {
	l.stmts(s.Init)
	if l.b.Terminated() {
		return
	}
	l.at(s.Pos)
	// test leaves the loop where the condition is false; true if it always leaves.
	test := func(lp *ir.Instr) bool {
		if s.C == nil {
			return false
		}
		l.statement++
		c := l.rv(s.C).s[0]
		if k, ok := l.constOf(c); ok {
			if k == 0 {
				l.b.Break(lp)
			}
			return k == 0
		}
		l.at(s.Pos)
		l.b.If(c, nil, nil, func() []ir.Value { l.b.Break(lp); return nil })
		return false
	}
	var made *ir.Instr
	l.b.Loop(nil, nil, func(lp *ir.Instr, _ []ir.Value) {
		made = lp
		if s.TestAt == sema.TestBefore && test(lp) {
			return
		}
		l.brk = append(l.brk, lp)
		body := func(target *ir.Instr) {
			l.cont = append(l.cont, target)
			l.stmt(s.Body)
			l.cont = l.cont[:len(l.cont)-1]
		}
		if continues(s.Body) {
			l.b.Block(nil, func(blk *ir.Instr) []ir.Value {
				body(blk)
				return nil
			})
		} else {
			body(nil)
		}
		l.brk = l.brk[:len(l.brk)-1]
		if l.b.Terminated() {
			return
		}
		if s.Post != nil {
			l.statement++
			l.effects(s.Post)
		}
		if s.TestAt == sema.TestAfter && test(lp) {
			return
		}
		l.at(s.Pos)
		l.b.Continue(lp)
	})
	if u := s.Unroll; u.Set {
		switch {
		case u.Disable || u.Count == 1:
			made.Imm = uint64(ir.UnrollNever)
		case u.Count > 1:
			made.Imm = uint64(ir.UnrollFull) + uint64(u.Count)
		default:
			made.Imm = uint64(ir.UnrollFull)
		}
	}
}

// leaves tells whether control does not go past s.
func leavesStmt(s sema.Stmt) bool {
	switch s := s.(type) {
	case *sema.Break, *sema.Continue, *sema.Return:
		return true
	case *sema.Block:
		return s != nil && len(s.Stmts) > 0 && leavesStmt(s.Stmts[len(s.Stmts)-1])
	case *sema.If:
		return s.Else != nil && leavesStmt(s.Then) && leavesStmt(s.Else)
	}
	return false
}

func falls(c *sema.Case) bool {
	return len(c.Body) == 0 || !leavesStmt(c.Body[len(c.Body)-1])
}

func (l *lowerer) switchStmt(s *sema.Switch) {
	xv := l.rv(s.X)
	x := xv.s[0]
	t := l.b.TypeOf(x)
	if c, ok := l.constOf(x); ok {
		l.constSwitch(s, int64(signExtend(c, t, s.X.Type().T.ScalarKind())))
		return
	}
	l.at(s.Pos)
	// matches tells whether case k is selected.
	matches := func(k int) ir.Value {
		var m ir.Value
		or := func(c ir.Value) {
			if m != 0 {
				c = l.emit(ir.Or, ir.I1, 0, m, c)
			}
			m = c
		}
		if s.Cases[k].Default {
			for n := range s.Cases {
				for _, v := range s.Cases[n].Values {
					or(l.emit(ir.ICmp, ir.I1, uint64(ir.Eq), x, l.const_(t, uint64(v))))
				}
			}
			if m == 0 {
				return l.const_(ir.I1, 1)
			}
			none := l.emit(ir.Xor, ir.I1, 0, m, l.const_(ir.I1, 1))
			m = 0
			or(none)
		}
		if s.Cases[k].Default {
			// default among other labels: these select it too
			for _, v := range s.Cases[k].Values {
				or(l.emit(ir.ICmp, ir.I1, uint64(ir.Eq), x, l.const_(t, uint64(v))))
			}
			return m
		}
		for _, v := range s.Cases[k].Values {
			or(l.emit(ir.ICmp, ir.I1, uint64(ir.Eq), x, l.const_(t, uint64(v))))
		}
		if m == 0 {
			return l.const_(ir.I1, 0)
		}
		return m
	}
	l.b.Block(nil, func(blk *ir.Instr) []ir.Value {
		l.brk = append(l.brk, blk)
		l.cases(s, blk, matches)
		l.brk = l.brk[:len(l.brk)-1]
		return nil
	})
}

// cases emits the labels in order: each body runs if its label is selected or the
// body before fell through.
func (l *lowerer) cases(s *sema.Switch, blk *ir.Instr, matches func(int) ir.Value) {
	var fell place // bool: the body before ran to its end
	for k := range s.Cases {
		c := &s.Cases[k]
		if l.b.Terminated() {
			return
		}
		l.at(s.Pos)
		m := matches(k)
		if k > 0 && falls(&s.Cases[k-1]) {
			m = l.emit(ir.Or, ir.I1, 0, m, l.load(fell).s[0])
		}
		next := k+1 < len(s.Cases) && falls(c)
		if next {
			fell = l.object("", types.BoolType, 0)
			l.store(fell, value{types.BoolType, []ir.Value{l.const_(ir.I1, 0)}})
		}
		l.b.If(m, nil, func() []ir.Value {
			l.stmts(c.Body)
			if !l.b.Terminated() {
				if next {
					l.store(fell, value{types.BoolType, []ir.Value{l.const_(ir.I1, 1)}})
				} else {
					l.b.Break(blk)
				}
			}
			return nil
		}, nil)
	}
}

// constSwitch lowers a switch whose value is known.
func (l *lowerer) constSwitch(s *sema.Switch, x int64) {
	start := -1
	for k := range s.Cases {
		for _, v := range s.Cases[k].Values {
			if v == x {
				start = k
			}
		}
	}
	for k := range s.Cases {
		if start < 0 && s.Cases[k].Default {
			start = k
		}
	}
	if start < 0 {
		return
	}
	l.b.Block(nil, func(blk *ir.Instr) []ir.Value {
		l.brk = append(l.brk, blk)
		for k := start; k < len(s.Cases) && !l.b.Terminated(); k++ {
			l.stmts(s.Cases[k].Body)
		}
		l.brk = l.brk[:len(l.brk)-1]
		return nil
	})
}

func signExtend(c uint64, t ir.Type, k types.Kind) uint64 {
	if k.IsSigned() {
		n := 64 - t.Bits()
		return uint64(int64(c<<n) >> n)
	}
	return c
}

func (l *lowerer) returns(s *sema.Return) {
	var vs []ir.Value
	if s.X != nil {
		switch {
		case l.fr.result.T.Kind == types.Reference:
			p := l.lv(s.X)
			if p.comps != nil || p.lanes {
				l.fail(s.Pos, "a reference to components of a vector is returned")
			}
			vs = []ir.Value{p.ptr}
		case l.fr.result.T.Kind == types.Void:
			l.effects(s.X)
		default:
			vs = l.rv(s.X).s
		}
	}
	l.at(s.Pos)
	if l.fr.block == nil {
		l.b.Return()
		return
	}
	l.b.Break(l.fr.block, vs...)
}
