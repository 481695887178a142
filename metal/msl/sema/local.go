package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

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
