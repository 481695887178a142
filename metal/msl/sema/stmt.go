package sema

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// checkBody checks a function's body once.
func (c *checker) checkBody(f *Func) {
	st := f.checker
	if st.def == nil || st.state == bodyChecking || st.state == bodyDone {
		return
	}
	st.state = bodyChecking
	sink, cur, stack, unev, depth := c.sink, c.cur, c.stack, c.unev, c.depth
	c.sink, c.cur, c.stack, c.unev = &st.sink, f, st.stack, 0
	if c.depth > c.opt.MaxDepth/2 {
		// A deep chain of on-demand bodies: count it, don't restart it.
		c.depth++
	} else {
		c.depth = 0
	}
	defer func() {
		c.sink, c.cur, c.stack, c.unev, c.depth = sink, cur, stack, unev, depth
		st.state = bodyDone
	}()
	s := newScope(blockScope, st.scope)
	s.fn, s.this, s.rec = f, f.This, nil
	if st.decl.rec != nil {
		s.rec = st.decl.rec
	}
	c.bindParams(s, f, st.def)
	if f.Ctor {
		c.memberInits(s, f, st.def)
	}
	if st.def.Body == nil {
		f.Body = &Block{}
		return
	}
	b := &bodyCtx{c: c, f: f}
	f.Body = &Block{Math: st.fp}
	b.stmts(s, st.def.Body.Stmts, &f.Body.Stmts, &f.Body.Math)
	if st.autoResult {
		st.autoResult = false
	}
	if f.Result.T.Kind != types.Void && !f.Ctor && !terminates(f.Body) && st.sink.errs == 0 {
		c.warnAt(source.Span{Start: f.Pos, End: f.Pos}, "control may reach the end of '%s', which returns '%s'", f.Name, f.Result)
	}
}

// bindParams puts the parameters in scope; packs under their name.
func (c *checker) bindParams(s *scope, f *Func, def *ast.FuncDecl) {
	k := 0
	for _, p := range def.Params {
		if p.Pack || isPackType(p.Type) {
			y := &sym{kind: symPack, pos: p.Name.Span()}
			for ; k < len(f.Params); k++ {
				y.pack = append(y.pack, targ{sym: &sym{v: f.Params[k]}})
			}
			s.put(p.Name.Name, y)
			continue
		}
		if k >= len(f.Params) {
			break
		}
		v := f.Params[k]
		k++
		if p.Name.Name != "" {
			v.Name = p.Name.Name
			if old := s.own(p.Name.Name); old != nil {
				c.errorf(p, "parameter '%s' is declared twice", p.Name.Name)
			}
			s.put(p.Name.Name, &sym{kind: symVar, v: v, pos: p.Name.Span()})
		}
	}
}

// memberInits checks a constructor's initialiser list, in member order.
func (c *checker) memberInits(s *scope, f *Func, def *ast.FuncDecl) {
	t := f.Result.T
	r := recordOf(t)
	if r == nil {
		return
	}
	done := map[int]bool{}
	for _, in := range def.Inits {
		name := in.Name.Last().Ident
		var field *types.Field
		if y := r.scope.own(name); y != nil && y.kind == symField {
			fd, ok := t.Field(name)
			if !ok {
				c.errorf(in, "member '%s' of an anonymous struct or union can't be initialised here", name)
				continue
			}
			field = fd
		} else {
			q := c.typ(s, &ast.NamedType{Range: in.Name.Range, Name: in.Name})
			if bad(q) {
				continue
			}
			if q.T == t { // delegating
				e := c.construct(s, q, in.Args, in.Braces, in)
				if !isBad(e) {
					f.Body = &Block{}
					f.Inits = append(f.Inits, MemberInit{Init: e})
				}
				return
			}
			if t.Base != q.T {
				c.errorf(in, "'%s' is no member or base of '%s'", name, t)
				continue
			}
			if len(t.Fields) == 0 || !t.Fields[0].IsBase {
				continue // an empty base
			}
			field = &t.Fields[0]
		}
		if done[field.Index] {
			c.errorf(in, "member '%s' is initialised twice", name)
			continue
		}
		done[field.Index] = true
		var e Expr
		switch {
		case field.Type.T.Kind == types.Reference && len(in.Args) == 1:
			e = c.coerce(c.expr(s, in.Args[0]), field.Type, "initialiser", in)
		case field.Type.T.Kind == types.Array && len(in.Args) == 0:
			e = c.zero(field.Type.T, in.Start)
		case len(in.Args) == 1 && !in.Braces && !isList(in.Args[0]) && field.Type.T.Kind != types.Struct && !field.Type.T.IsVector() && field.Type.T.Kind != types.Matrix && field.Type.T.Kind != types.SgMatrix:
			e = c.coerce(c.expr(s, in.Args[0]), field.Type.Bare(), "initialiser", in)
		default:
			e = c.construct(s, field.Type.Bare(), in.Args, in.Braces, in)
		}
		if !isBad(e) {
			f.Inits = append(f.Inits, MemberInit{field, e})
		}
	}
	for i := range t.Fields {
		if x := r.inits[i]; x != nil && !done[i] {
			if e, ok := c.initFrom(s, t.Fields[i].Type.Bare(), x); ok {
				f.Inits = append(f.Inits, MemberInit{&t.Fields[i], e})
			}
		}
	}
	for i := 1; i < len(f.Inits); i++ { // insertion sort: few elements
		for k := i; k > 0 && f.Inits[k].Field.Index < f.Inits[k-1].Field.Index; k-- {
			f.Inits[k], f.Inits[k-1] = f.Inits[k-1], f.Inits[k]
		}
	}
}

func isList(x ast.Expr) bool { _, ok := x.(*ast.InitList); return ok }

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

// localDecl checks a declaration in a body.
func (b *bodyCtx) localDecl(s *scope, d ast.Decl, out *[]Stmt) {
	c := b.c
	v, ok := d.(*ast.VarDecl)
	if !ok {
		switch d.(type) {
		case *ast.FuncDecl, *ast.NamespaceDecl, *ast.InstanceDecl, *ast.TemplateDecl:
			c.errorf(d, "this declaration is not allowed in a function")
			return
		}
		c.decl(s, d)
		return
	}
	name := v.Name.Last().Ident
	lv := b.localVar(s, v, name)
	if lv == nil {
		lv = &Var{Name: name, Type: invalidQ}
		if y := s.own(name); y == nil && name != "" {
			s.put(name, &sym{kind: symVar, v: lv, pos: v.Name.Span()})
		}
		return
	}
	if c.declare(s, name, &sym{kind: symVar, v: lv, pos: v.Name.Span()}) && lv.Kind != GlobalVar {
		*out = append(*out, &DeclStmt{lv})
	}
}

func (b *bodyCtx) localVar(s *scope, d *ast.VarDecl, name string) *Var {
	c := b.c
	if d.Specs&ast.Static != 0 && d.Specs&ast.Constexpr == 0 {
		c.errorf(d, "static local variable '%s' is not supported in Metal", name)
		return nil
	}
	if d.Specs&ast.Extern != 0 {
		c.errorf(d, "extern local variable '%s' is not supported in Metal", name)
		return nil
	}
	q, init, ok := c.declType(s, d)
	if !ok {
		return nil
	}
	v := &Var{Name: name, Kind: LocalVar, Pos: d.Name.Span().Start, Align: c.alignAttr(s, d.Attrs)}
	t := q.T
	switch {
	case t.Kind == types.Void || t.Kind == types.Function:
		c.errorf(d, "variable '%s' of type '%s'", name, t)
		return nil
	case t.Kind == types.Reference:
		q.Space = types.NoSpace
	case q.Space == types.Threadgroup:
		return b.threadgroupVar(d, q, v)
	case q.Space == types.Constant && d.Init != nil:
		// A constant table inside a function: one object for the program.
		q.Const = true
		v.Kind = GlobalVar
	case q.Space == types.Device || q.Space == types.Constant:
		c.errorf(d, "local variable '%s' in address space '%s', expected thread or threadgroup", name, q.Space)
		return nil
	}
	if d.Specs&ast.Constexpr != 0 {
		q.Const = true
	}
	c.warnSpace(d.Type, q, d)
	v.Type = q
	if t.Kind != types.Reference && !(t.Kind == types.Array && t.N < 0) && !c.needComplete(t, d.Span()) {
		return nil
	}
	switch {
	case init != nil:
		v.Init = init
	case d.Init != nil:
		// The name is visible in its own initialiser; that use is rare and never right.
		if d.InitStyle == ast.ParenInit && t.Kind == types.Reference {
			if l, isP := d.Init.(*ast.ParenList); isP && len(l.Args) == 1 {
				init = c.coerce(c.expr(s, l.Args[0]), q, "initialiser", d)
				ok = !isBad(init)
			}
		} else {
			to := q
			if t.Kind != types.Reference {
				to = types.Q(t)
			}
			init, ok = c.initFrom(s, to, d.Init)
		}
		if !ok {
			return nil
		}
		v.Init = init
		if t.Kind == types.Array && t.N < 0 {
			v.Type.T = init.Type().T
		}
	case t.Kind == types.Reference:
		c.errorf(d, "reference '%s' needs an initialiser", name)
		return nil
	case t.Kind == types.Array && t.N < 0:
		c.errorf(d, "array '%s' needs a length or an initialiser", name)
		return nil
	case q.Const && t.Kind != types.Struct:
		c.errorf(d, "const variable '%s' needs an initialiser", name)
		return nil
	default:
		v.Init = c.defaultInit(t, d)
		if isBad(v.Init) && v.Init != nil {
			return nil
		}
	}
	if v.Init != nil && t.Kind != types.Reference && (q.Const || v.Kind == GlobalVar) && worthFolding(v.Type.T) {
		val, why := c.eval(v.Init)
		v.Value = val
		if val == nil && (d.Specs&ast.Constexpr != 0 || v.Kind == GlobalVar) && t.Kind != types.Struct {
			c.errorf(d, "initialiser of constexpr '%s' is not a constant expression: %s", name, why)
			return nil
		}
	}
	return v
}

func worthFolding(t *types.Type) bool {
	return t.IsArithmetic() || t.Kind == types.Enum || t.Kind == types.Array || t.Kind == types.Struct || t.Kind == types.Pointer
}

// defaultInit is what `T x;` does: a constructor's work, or nothing.
func (c *checker) defaultInit(t *types.Type, at ast.Node) Expr {
	for t.Kind == types.Array {
		if r := recordOf(t.Of.T); r != nil && (len(r.ctors) > 0 || len(r.inits) > 0) {
			e := c.defaultInit(t.Of.T, at)
			if e == nil || isBad(e) || t.N == 0 {
				return nil
			}
			return &InitList{Node: Node{T: types.Q(t), Where: at.Span().Start}, Elems: []InitElem{{0, t.N - 1, e}}}
		}
		t = t.Of.T
	}
	r := recordOf(t)
	if r == nil {
		return nil
	}
	if len(r.ctors) > 0 && !r.plain {
		k := c.pick(&callReq{name: t.Name, fns: r.ctors, at: at.Span()})
		if k == nil {
			return c.bad(at)
		}
		return c.ctorCall(k, nil, t, at.Span())
	}
	if len(r.inits) > 0 {
		return c.zero(t, at.Span().Start)
	}
	return nil
}

// threadgroupVar checks a threadgroup variable.
func (b *bodyCtx) threadgroupVar(d *ast.VarDecl, q types.Qual, v *Var) *Var {
	c := b.c
	if d.Init != nil {
		c.errorf(d, "threadgroup variable '%s' can't have an initialiser", v.Name)
		return nil
	}
	if !c.needComplete(q.T, d.Span()) {
		return nil
	}
	v.Kind, v.Type = ThreadgroupVar, q
	b.f.checker.tgVars = append(b.f.checker.tgVars, v)
	return v
}

// terminates says that control can't run off the end of a statement.
func terminates(s Stmt) bool {
	switch s := s.(type) {
	case *Block:
		return len(s.Stmts) > 0 && terminates(s.Stmts[len(s.Stmts)-1])
	case *Return:
		return true
	case *If:
		return s.Else != nil && terminates(s.Then) && terminates(s.Else)
	case *Loop:
		return s.C == nil && !breaksOut(s.Body)
	case *Switch:
		def := false
		for i, k := range s.Cases {
			def = def || k.Default
			for _, st := range k.Body {
				if breaksOut(st) {
					return false
				}
			}
			if i == len(s.Cases)-1 && !terminates(&Block{Stmts: k.Body}) {
				return false
			}
		}
		return def
	case *ExprStmt:
		if b, ok := s.X.(*Builtin); ok {
			return b.Op == IUnreachable
		}
	}
	return false
}

// breaksOut says that a statement has a break for the construct around it.
func breaksOut(s Stmt) bool {
	switch s := s.(type) {
	case *Block:
		for _, k := range s.Stmts {
			if breaksOut(k) {
				return true
			}
		}
	case *If:
		return breaksOut(s.Then) || s.Else != nil && breaksOut(s.Else)
	case *Break:
		return true
	}
	return false
}
