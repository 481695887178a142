package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

// decl checks a declaration at program, namespace, class or block scope.
func (c *checker) decl(s *scope, d ast.Decl) {
	switch d := d.(type) {
	case *ast.EmptyDecl, *ast.AccessDecl:
	case *ast.PragmaDecl:
		pragmaFP(d.Text(), &c.fp)
	case *ast.BadDecl:
		c.sink.errs++
	case *ast.NamespaceDecl:
		c.namespace(s, d)
	case *ast.NamespaceAlias:
		if r, ok := c.resolve(s, d.Target); ok {
			if r.sym.kind != symNamespace {
				c.errorf(d.Target, "'%s' is not a namespace", nameString(d.Target))
				return
			}
			c.declare(s, d.Name.Name, &sym{kind: symNamespace, ns: r.sym.ns, pos: d.Name.Span()})
		}
	case *ast.UsingDirective:
		if r, ok := c.resolve(s, d.Name); ok {
			if r.sym.kind != symNamespace {
				c.errorf(d.Name, "'%s' is a %s, expected a namespace", nameString(d.Name), r.sym.kind)
				return
			}
			for _, u := range s.using {
				if u == r.sym.ns {
					return
				}
			}
			s.using = append(s.using, r.sym.ns)
		}
	case *ast.UsingDecl:
		c.usingDecl(s, d)
	case *ast.TypedefDecl:
		q := c.typ(s, d.Type)
		if bad(q) {
			return
		}
		if r := recordOf(q.T); r != nil && r.decl != nil && r.decl.Name == nil && r.t.Name[0] == '(' {
			r.t.Name = d.Name.Name
		}
		if q.T.Kind == types.Enum && q.T.Name[0] == '(' {
			q.T.Name = d.Name.Name
		}
		c.declare(s, d.Name.Name, &sym{kind: symType, q: q, pos: d.Name.Span()})
	case *ast.VarDecl:
		c.varDecl(s, d)
	case *ast.FuncDecl:
		c.topFunc(s, d)
	case *ast.RecordDecl:
		if d.Name != nil && d.Name.Last().HasArgs {
			c.errorf(d, "a specialisation needs 'template <>' in front")
			return
		}
		r := c.declareRecord(s, d)
		if r != nil && d.Name == nil && r.t.Union && s.kind != recordScope {
			c.errorf(d, "anonymous union outside of a struct")
		}
	case *ast.EnumDecl:
		c.enumType(s, d)
	case *ast.StaticAssertDecl:
		c.staticAssert(s, d)
	case *ast.TemplateDecl:
		c.templateDecl(s, d)
	case *ast.InstanceDecl:
		c.instanceDecl(s, d)
	default:
		c.errorf(d, "this declaration is not supported")
	}
}

func (c *checker) namespace(s *scope, d *ast.NamespaceDecl) {
	var ns *scope
	if y := s.own(d.Name.Name); d.Name.Name != "" && y != nil {
		if y.kind != symNamespace {
			c.errorf(d, "'%s' is a %s, expected a namespace", d.Name.Name, y.kind)
			return
		}
		ns = y.ns
	} else {
		ns = newScope(nsScope, s)
		ns.name = d.Name.Name
		if d.Name.Name == "" {
			ns.name = "(unnamed)"
			s.using = append(s.using, ns)
		} else {
			c.declare(s, d.Name.Name, &sym{kind: symNamespace, ns: ns, pos: d.Name.Span()})
			if d.Inline {
				s.using = append(s.using, ns)
			}
		}
	}
	for _, in := range d.Decls {
		c.decl(ns, in)
		c.drain(&c.now)
	}
}

func (c *checker) usingDecl(s *scope, d *ast.UsingDecl) {
	r, ok := c.resolve(s, d.Name)
	if !ok {
		return
	}
	name := partKey(d.Name.Last())
	y := *r.sym
	if old := s.own(name); old != nil {
		if old.kind == symFunc && y.kind == symFunc {
			m := merge(old, &y)
			s.put(name, m)
			return
		}
		if old.kind == y.kind {
			return
		}
	}
	y.pos = d.Span()
	c.declare(s, name, &y)
}

func (c *checker) staticAssert(s *scope, d *ast.StaticAssertDecl) {
	e := c.toBool(c.expr(s, d.Cond), d.Cond)
	if isBad(e) {
		return
	}
	v, why := c.eval(e)
	switch {
	case v == nil:
		c.errorf(d.Cond, "static_assert needs a constant expression: %s", why)
	case v.I == 0 && d.Msg != "":
		c.errorf(d, "static assertion failed: %s", d.Msg)
	case v.I == 0:
		c.errorf(d, "static assertion failed")
	}
}

// varDecl declares a variable at namespace scope.
func (c *checker) varDecl(s *scope, d *ast.VarDecl) {
	v := c.globalVar(s, d, d.Name.Last().Ident)
	if v == nil {
		// Keep the name known, so that each use is not an error of its own.
		v = &Var{Name: d.Name.Last().Ident, Type: invalidQ, Kind: GlobalVar}
		if s.own(v.Name) == nil {
			s.put(v.Name, &sym{kind: symVar, v: v, pos: d.Name.Span()})
		}
		return
	}
	if len(d.Name.Parts) > 1 {
		return // the definition of a static member
	}
	if d.Specs&ast.Extern != 0 && d.Init == nil && s.own(v.Name) != nil {
		return
	}
	if old := s.own(v.Name); old != nil && old.kind == symVar && old.v.Init == nil && old.v.Kind == GlobalVar && d.Init != nil {
		*old.v = *v
		return
	}
	c.declare(s, v.Name, &sym{kind: symVar, v: v, pos: d.Name.Span()})
}

// globalVar checks a program-scope constant, static member or function constant.
func (c *checker) globalVar(s *scope, d *ast.VarDecl, name string) *Var {
	v := &Var{Name: name, Kind: GlobalVar, Pos: d.Name.Span().Start, Align: c.alignAttr(s, d.Attrs)}
	q, init, ok := c.declType(s, d)
	if !ok {
		return nil
	}
	for _, a := range d.Attrs {
		if a.Name == "function_constant" {
			return c.funcConst(s, d, a, v, q)
		}
	}
	if q.T.Kind == types.Reference {
		c.errorf(d, "program-scope variable '%s' is a reference", name)
		return nil
	}
	switch {
	case q.Space == types.Constant:
	case q.Space == types.NoSpace && s.kind == recordScope && d.Specs&ast.Constexpr != 0:
	case q.Space == types.NoSpace && d.Specs&ast.Constexpr != 0 && c.inTemplate(s):
	default:
		found := "no address space"
		if q.Space != types.NoSpace {
			found = "'" + q.Space.String() + "'"
		}
		c.errorf(d, "program-scope variable '%s' must be in address space 'constant', found %s", name, found)
		return nil
	}
	// The space alone forbids writing; const stays as written, for deduction.
	q.Space = types.Constant
	v.Type = q
	if q.T.Kind == types.Texture {
		return v // a sampler
	}
	if init == nil && d.Init == nil {
		if d.Specs&(ast.Extern|ast.Constexpr) == ast.Extern {
			return v
		}
		c.errorf(d, "program-scope constant '%s' needs an initialiser", name)
		return nil
	}
	if init == nil {
		init, ok = c.initFrom(s, types.Q(q.T), d.Init)
		if !ok {
			return nil
		}
	}
	if q.T.Kind == types.Array && q.T.N < 0 {
		v.Type.T = init.Type().T
	}
	v.Init = init
	val, why := c.eval(init)
	if val == nil {
		if why == whyFuncConst {
			return v
		}
		c.errorf(d.Init, "initialiser of program-scope constant '%s' is not a constant expression: %s", name, why)
		return nil
	}
	v.Value = val
	return v
}

// declType resolves a variable's type; with auto, the initialiser is checked first and
// returned.
func (c *checker) declType(s *scope, d *ast.VarDecl) (types.Qual, Expr, bool) {
	if !hasAuto(d.Type) {
		q := c.typ(s, d.Type)
		return q, nil, !bad(q)
	}
	x := d.Init
	if l, ok := x.(*ast.ParenList); ok && len(l.Args) == 1 {
		x = l.Args[0]
	}
	if l, ok := x.(*ast.InitList); ok && d.InitStyle == ast.BraceInit && len(l.Elems) == 1 {
		x = l.Elems[0]
	}
	if x == nil {
		c.errorf(d, "'auto' needs an initialiser")
		return invalidQ, nil, false
	}
	if _, ok := x.(*ast.InitList); ok {
		c.errorf(d, "'auto' from a brace list")
		return invalidQ, nil, false
	}
	e := c.expr(s, x)
	if isBad(e) {
		return invalidQ, nil, false
	}
	if set, ok := e.(*overloadSet); ok {
		f, ok := c.singleFunc(set)
		if !ok {
			c.errorf(x, "'auto' from overloaded function '%s'", set.name)
			return invalidQ, nil, false
		}
		c.use(f)
		e = &FuncRef{Node: Node{T: types.Q(types.PointerTo(types.Q(f.typ()))), Where: e.Pos()}, Func: f}
		return e.Type(), e, true
	}
	q, ok := c.autoType(s, d.Type, e)
	if !ok {
		c.errorf(d, "can't deduce 'auto' from '%s'", e.Type())
		return invalidQ, nil, false
	}
	init := c.coerce(e, q, "initialiser", x)
	return q, init, !isBad(init)
}

// autoType deduces a type that contains auto from an initialiser.
func (c *checker) autoType(s *scope, t ast.Type, e Expr) (types.Qual, bool) {
	b := newBindings(s, []*ast.TemplateParam{{Name: ast.Ident{Name: "auto"}}})
	if a, ok := t.(*ast.AutoType); ok && a.Decltype {
		if e.Lvalue() {
			if _, isVar := e.(*VarRef); !isVar {
				return types.Q(types.ReferenceTo(e.Type())), true
			}
		}
		return e.Type().Bare(), true
	}
	if c.deduceArg(b, &ast.ParamDecl{Type: t}, e, 0) != "" || b.args[0].kind != targType {
		return invalidQ, false
	}
	as := newScope(templateScope, s)
	as.put("auto", &sym{kind: symType, q: b.args[0].q})
	q := c.typ(as, t)
	return q, !bad(q)
}
