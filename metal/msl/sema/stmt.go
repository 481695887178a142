package sema

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

// bodyCtx is the state of one body.
type bodyCtx struct {
	c      *checker
	f      *Func
	loops  int
	breaks int // loops and switches
}

func (b *bodyCtx) stmts(s *scope, in []ast.Stmt, out *[]Stmt, mode *FPMode) {
	for _, st := range in {
		if p, ok := st.(*ast.PragmaStmt); ok {
			pragmaFP(p.Text(), mode)
			continue
		}
		b.stmt(s, st, out)
	}
}

// pragmaFP reads `METAL fp math_mode(safe)` and `METAL fp contract(off)`.
func pragmaFP(text string, mode *FPMode) {
	rest, ok := strings.CutPrefix(text, "METAL fp ")
	if !ok || mode == nil {
		return
	}
	arg := func(name string) (string, bool) {
		r, ok := strings.CutPrefix(strings.ReplaceAll(rest, " ", ""), name+"(")
		return strings.TrimSuffix(r, ")"), ok
	}
	if v, ok := arg("math_mode"); ok {
		mode.MathMode = v
	}
	if v, ok := arg("contract"); ok {
		mode.Contract = v
	}
}

// block checks a statement in a scope of its own.
func (b *bodyCtx) block(s *scope, st ast.Stmt) *Block {
	out := &Block{}
	in := newScope(blockScope, s)
	if k, ok := st.(*ast.CompoundStmt); ok {
		b.stmts(in, k.Stmts, &out.Stmts, &out.Math)
	} else {
		b.stmt(in, st, &out.Stmts)
	}
	return out
}

func (b *bodyCtx) stmt(s *scope, st ast.Stmt, out *[]Stmt) {
	c := b.c
	if !c.enter(st.Span()) {
		return
	}
	defer c.leave()
	add := func(x Stmt) { *out = append(*out, x) }
	switch st := st.(type) {
	case nil, *ast.EmptyStmt, *ast.PragmaStmt:
	case *ast.BadStmt:
		c.sink.errs++
	case *ast.CompoundStmt:
		add(b.block(s, st))
	case *ast.DeclStmt:
		for _, d := range st.Decls {
			b.localDecl(s, d, out)
		}
	case *ast.ExprStmt:
		if e := c.discard(c.expr(s, st.X)); !isBad(e) {
			add(&ExprStmt{e})
		}
	case *ast.IfStmt:
		b.ifStmt(s, st, add)
	case *ast.ForStmt:
		b.forStmt(s, st, add)
	case *ast.WhileStmt:
		in := newScope(blockScope, s)
		l := &Loop{Pos: st.Start, Unroll: b.unroll(s, st.Unroll)}
		if st.CondVar != nil {
			// while (T x = e) body: declare and test in the body.
			body := &Block{}
			cond := b.condVar(in, st.CondVar, &body.Stmts)
			b.loops, b.breaks = b.loops+1, b.breaks+1
			inner := b.block(in, st.Body)
			b.loops, b.breaks = b.loops-1, b.breaks-1
			if cond != nil {
				body.Stmts = append(body.Stmts, &If{C: cond, Then: inner, Else: &Break{st.Start}, Pos: st.Start})
			}
			l.Body = body
			add(l)
			return
		}
		l.C = c.toBool(c.expr(in, st.Cond), st.Cond)
		if v := l.C.Const(); v != nil && v.I != 0 {
			l.C = nil
		}
		b.loopBody(in, st.Body, l)
		add(l)
	case *ast.DoStmt:
		l := &Loop{Pos: st.Start, TestAt: TestAfter, Unroll: b.unroll(s, st.Unroll)}
		b.loopBody(s, st.Body, l)
		l.C = c.toBool(c.expr(s, st.Cond), st.Cond)
		if v := l.C.Const(); v != nil && v.I != 0 {
			l.C = nil
		}
		add(l)
	case *ast.RangeForStmt:
		b.rangeFor(s, st, add)
	case *ast.SwitchStmt:
		b.switchStmt(s, st, add)
	case *ast.CaseStmt:
		c.errorf(st, "case label outside of the top level of a switch")
	case *ast.BreakStmt:
		if b.breaks == 0 {
			c.errorf(st, "break outside of a loop or switch")
			return
		}
		add(&Break{st.Start})
	case *ast.ContinueStmt:
		if b.loops == 0 {
			c.errorf(st, "continue outside of a loop")
			return
		}
		add(&Continue{st.Start})
	case *ast.ReturnStmt:
		b.returnStmt(s, st, add)
	default:
		c.errorf(st, "this statement is not supported in Metal")
	}
}

func (b *bodyCtx) loopBody(s *scope, st ast.Stmt, l *Loop) {
	b.loops, b.breaks = b.loops+1, b.breaks+1
	l.Body = b.block(s, st)
	b.loops, b.breaks = b.loops-1, b.breaks-1
}

func (b *bodyCtx) condVar(s *scope, d *ast.VarDecl, out *[]Stmt) Expr {
	b.localDecl(s, d, out)
	y := s.own(d.Name.Last().Ident)
	if y == nil || y.v == nil {
		return nil
	}
	e := b.c.toBool(b.c.varRef(y.v, d.Start), d)
	if isBad(e) {
		return nil
	}
	return e
}

func (b *bodyCtx) ifStmt(s *scope, st *ast.IfStmt, add func(Stmt)) {
	c := b.c
	in := newScope(blockScope, s)
	outer := &Block{}
	if st.Init != nil {
		b.stmt(in, st.Init, &outer.Stmts)
	}
	var cond Expr
	if st.CondVar != nil {
		cond = b.condVar(in, st.CondVar, &outer.Stmts)
	} else {
		cond = c.toBool(c.expr(in, st.Cond), st.Cond)
	}
	if cond == nil {
		return
	}
	if st.Constexpr {
		if isBad(cond) {
			return
		}
		v, why := c.eval(cond)
		if v == nil {
			c.errorf(st.Cond, "condition of 'if constexpr' is not a constant expression: %s", why)
			return
		}
		// The branch not taken is not instantiated.
		switch {
		case v.I != 0:
			outer.Stmts = append(outer.Stmts, b.block(in, st.Then))
		case st.Else != nil:
			outer.Stmts = append(outer.Stmts, b.block(in, st.Else))
		}
		add(outer)
		return
	}
	n := &If{C: cond, Pos: st.Start}
	n.Then = b.arm(in, st.Then, cond, true)
	if st.Else != nil {
		n.Else = b.arm(in, st.Else, cond, false)
	}
	if isBad(cond) {
		return
	}
	if len(outer.Stmts) > 0 {
		outer.Stmts = append(outer.Stmts, n)
		add(outer)
		return
	}
	add(n)
}

// arm checks one side of an if. Threadgroup variables of a side that a constant condition
// excludes take no memory.
func (b *bodyCtx) arm(s *scope, st ast.Stmt, cond Expr, side bool) *Block {
	tg := &b.f.checker.tgVars
	n := len(*tg)
	out := b.block(s, st)
	if v := cond.Const(); v != nil && (v.I != 0) != side {
		*tg = (*tg)[:n]
	}
	return out
}

func (b *bodyCtx) forStmt(s *scope, st *ast.ForStmt, add func(Stmt)) {
	c := b.c
	in := newScope(blockScope, s)
	l := &Loop{Pos: st.Start}
	if st.Init != nil {
		b.stmt(in, st.Init, &l.Init)
	}
	l.Unroll = b.unroll(in, st.Unroll)
	switch {
	case st.CondVar != nil:
		c.errorf(st.CondVar, "a declaration as condition of 'for' is not supported")
		return
	case st.Cond != nil:
		l.C = c.toBool(c.expr(in, st.Cond), st.Cond)
		if v := l.C.Const(); v != nil && v.I != 0 {
			l.C = nil
		}
	}
	if st.Post != nil {
		l.Post = c.discard(c.expr(in, st.Post))
		if isBad(l.Post) {
			l.Post = nil
		}
	}
	b.loopBody(in, st.Body, l)
	add(l)
}

// rangeFor checks `for (T x : array)` by indices.
func (b *bodyCtx) rangeFor(s *scope, st *ast.RangeForStmt, add func(Stmt)) {
	c := b.c
	arr := c.expr(s, st.X)
	if isBad(arr) {
		return
	}
	t := arr.Type().T
	if t.Kind != types.Array || !arr.Lvalue() {
		c.errorf(st.X, "range of 'for' is '%s', expected an array", arr.Type())
		return
	}
	in := newScope(blockScope, s)
	iv := &Var{Name: "#i", Type: types.Q(types.IntType), Kind: LocalVar, Pos: st.Start,
		Init: &ConstExpr{Node{T: types.Q(types.IntType), Val: &Value{}, Where: st.Start}}}
	ref := c.varRef(iv, st.Start)
	n := &ConstExpr{Node{T: types.Q(types.IntType), Val: &Value{I: int64(t.N)}, Where: st.Start}}
	l := &Loop{Pos: st.Start, Unroll: b.unroll(s, st.Unroll), Init: []Stmt{&DeclStmt{iv}}}
	l.C = &Binary{Node{T: types.Q(types.BoolType), Where: st.Start}, Lt, c.rvalue(ref), n}
	l.Post = &IncDec{Node{T: ref.Type(), LV: true, Where: st.Start}, ref, false, false}
	q := t.Of
	if q.Space == types.NoSpace {
		q.Space = arr.Type().Space
	}
	q.Const = q.Const || arr.Type().Const
	elem := &IndexExpr{Node{T: q, LV: true, Where: st.Start}, arr, c.rvalue(ref)}
	in.put("#elem", &sym{kind: symExpr, expr: elem})
	d := *st.Var
	d.Init = &ast.NameExpr{Range: st.Var.Range, Name: &ast.Name{Range: st.Var.Range, Parts: []ast.NamePart{{Range: st.Var.Range, Ident: "#elem"}}}}
	d.InitStyle = ast.CopyInit
	body := &Block{}
	b.localDecl(in, &d, &body.Stmts)
	b.loops, b.breaks = b.loops+1, b.breaks+1
	body.Stmts = append(body.Stmts, b.block(in, st.Body))
	b.loops, b.breaks = b.loops-1, b.breaks-1
	l.Body = body
	add(l)
}

// unroll evaluates an unroll pragma; the count may depend on template parameters.
func (b *bodyCtx) unroll(s *scope, u *ast.Unroll) Unroll {
	if u == nil {
		return Unroll{}
	}
	switch u.Kind {
	case ast.UnrollDisable:
		return Unroll{Set: true, Disable: true}
	case ast.UnrollCount:
		n, ok := b.c.constInt(s, u.Count, "unroll count")
		if !ok {
			return Unroll{}
		}
		if n < 0 || n > 1<<20 {
			b.c.errorf(u.Count, "unroll count %d, expected 1 to %d", n, 1<<20)
			return Unroll{}
		}
		if n <= 1 {
			return Unroll{Set: true, Disable: n == 1}
		}
		return Unroll{Set: true, Count: int(n)}
	}
	return Unroll{Set: true}
}

func (b *bodyCtx) switchStmt(s *scope, st *ast.SwitchStmt, add func(Stmt)) {
	c := b.c
	in := newScope(blockScope, s)
	outer := &Block{}
	if st.Init != nil {
		b.stmt(in, st.Init, &outer.Stmts)
	}
	if st.CondVar != nil {
		c.errorf(st.CondVar, "a declaration as condition of 'switch' is not supported")
		return
	}
	x := c.rvalue(c.expr(in, st.Cond))
	if isBad(x) {
		return
	}
	t := x.Type().T
	switch {
	case t.Kind == types.Enum:
		x = c.numeric(x, t.Under)
	case t.IsInteger():
		x = c.promote(x)
	default:
		c.errorf(st.Cond, "switch on '%s', expected an integer or enum", t)
		return
	}
	sw := &Switch{X: x, Pos: st.Start}
	var cur *Case
	body := newScope(blockScope, in)
	seen := map[int64]bool{}
	hasDefault := false
	b.breaks++
	for _, one := range st.Body.Stmts {
		l, ok := one.(*ast.CaseStmt)
		if !ok {
			if cur == nil {
				if _, isDecl := one.(*ast.DeclStmt); !isDecl {
					c.warnf(one, "statement before the first case label is never reached")
				}
				dead := []Stmt{}
				b.stmt(body, one, &dead)
				for _, d := range dead { // variables without initialiser may be declared there
					if ds, ok := d.(*DeclStmt); ok {
						outer.Stmts = append(outer.Stmts, ds)
					}
				}
				continue
			}
			b.stmt(body, one, &cur.Body)
			continue
		}
		if cur == nil || len(cur.Body) > 0 {
			sw.Cases = append(sw.Cases, Case{})
			cur = &sw.Cases[len(sw.Cases)-1]
		}
		if l.Value == nil {
			if hasDefault {
				c.errorf(l, "more than one default label")
			}
			hasDefault, cur.Default = true, true
			continue
		}
		e, ok := c.initFrom(body, types.Q(t), l.Value)
		if !ok {
			continue
		}
		lo, ok := c.constOf(e, l.Value, "case label")
		hi := lo
		if ok && l.Hi != nil {
			if e, ok = c.initFrom(body, types.Q(t), l.Hi); ok {
				hi, ok = c.constOf(e, l.Hi, "case label")
			}
		}
		if !ok {
			continue
		}
		if hi < lo || uint64(hi)-uint64(lo) > 1<<16 {
			c.errorf(l, "case range %d ... %d is empty or too long", lo, hi)
			continue
		}
		for v := lo; v <= hi; v++ {
			if seen[v] {
				c.errorf(l, "duplicate case value %d", v)
			}
			seen[v] = true
			cur.Values = append(cur.Values, v)
			if v == hi {
				break // hi may be the largest value
			}
		}
	}
	b.breaks--
	if len(outer.Stmts) > 0 {
		outer.Stmts = append(outer.Stmts, sw)
		add(outer)
		return
	}
	add(sw)
}

func (b *bodyCtx) returnStmt(s *scope, st *ast.ReturnStmt, add func(Stmt)) {
	c, f := b.c, b.f
	r := &Return{Pos: st.Start}
	if f.checker.autoResult {
		b.autoReturn(s, st)
	}
	res := f.Result
	switch {
	case st.X == nil:
		if res.T.Kind != types.Void && !f.Ctor {
			c.errorf(st, "return without a value in '%s', which returns '%s'", f.Name, res)
			return
		}
	case f.Ctor:
		c.errorf(st, "return with a value in a constructor")
		return
	case res.T.Kind == types.Void:
		e := c.expr(s, st.X)
		if isBad(e) {
			return
		}
		if e.Type().T.Kind != types.Void {
			c.errorf(st.X, "return with a value of type '%s' in '%s', which returns void", e.Type(), f.Name)
			return
		}
		add(&ExprStmt{e})
	default:
		e, ok := c.initWhat(s, res, st.X, "return value")
		if !ok {
			return
		}
		r.X = e
	}
	add(r)
}

// autoReturn deduces an auto result from the first return with a value.
func (b *bodyCtx) autoReturn(s *scope, st *ast.ReturnStmt) {
	c, f := b.c, b.f
	f.checker.autoResult = false
	if st.X == nil {
		f.Result = types.Q(types.VoidType)
		return
	}
	e := c.expr(s, st.X)
	if isBad(e) {
		f.Result = invalidQ
		return
	}
	if e.Type().T.Kind == types.Void {
		f.Result = types.Q(types.VoidType)
		return
	}
	q, ok := c.autoType(s, f.checker.def.Result, e)
	if !ok {
		c.errorf(st, "can't deduce the result type from '%s'", e.Type())
		f.Result = invalidQ
		return
	}
	if q.T.Kind != types.Reference {
		q = q.Bare()
	}
	f.Result = q
}
