package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
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

// topFunc declares a function and sees to its body.
func (c *checker) topFunc(s *scope, d *ast.FuncDecl) {
	if len(d.Name.Parts) > 1 {
		c.outOfLine(s, d)
		return
	}
	if d.Name.Last().HasArgs {
		c.errorf(d, "a specialisation needs 'template <>' in front")
		return
	}
	fd := c.funcDecl(s, d, nil, nil)
	if fd == nil {
		return
	}
	f := c.sigOf(fd)
	if f == nil {
		if d.Specs&ast.Kernel != 0 && d.Body != nil {
			c.failedKernel(fd.name, d)
		}
		return
	}
	if d.Body == nil {
		return
	}
	if d.Specs&ast.Kernel != 0 {
		c.kernel(f, d, s, "", d.Attrs)
	}
	if f.checker.state == bodyNone && !c.inPrelude {
		f.checker.state = bodyQueued
		c.now = append(c.now, f)
	}
}

// funcDecl adds a function or template to the scope's overload set.
func (c *checker) funcDecl(s *scope, d *ast.FuncDecl, tparams []*ast.TemplateParam, rec *record) *fnDecl {
	if d.Specs&(ast.Vertex|ast.Fragment) != 0 {
		return nil // not compute: nothing here calls them
	}
	part := d.Name.Last()
	fd := &fnDecl{name: partKey(part), ast: d, all: []*ast.FuncDecl{d}, tparams: tparams, scope: s, rec: rec, pos: d.Name.Span(), static: d.Specs&ast.Static != 0 && rec != nil, explicit: d.Specs&ast.Explicit != 0}
	if d.Body != nil || d.Default {
		fd.def = d
	}
	if tparams != nil {
		fd.insts = map[string]*Func{}
	}
	if d.Specs&ast.Virtual != 0 {
		c.errorf(d, "virtual functions are not supported in Metal")
		return nil
	}
	if rec == nil && d.Kind != ast.Function {
		c.errorf(d, "constructor, destructor or conversion outside of a class")
		return nil
	}
	switch d.Kind {
	case ast.Destructor:
		if d.Body != nil && len(d.Body.Stmts) > 0 {
			c.errorf(d, "destructors are not supported in Metal")
		}
		return nil
	case ast.Constructor:
		fd.ctor, fd.name = true, rec.t.Name
		if d.ThisSpace != ast.NoSpace && d.ThisSpace != ast.Thread {
			return nil // values are made in thread space
		}
		if rec.isCopyCtor(d) {
			return nil
		}
		if d.Default {
			// The class stays an aggregate.
			rec.plain = rec.plain || len(d.Params) == 0
			return nil
		}
		rec.ctors = c.addUnique(rec.ctors, fd)
		return fd
	case ast.Conversion:
		fd.name = "operator " + "conversion"
		rec.convs = append(rec.convs, fd)
		return fd
	}
	name := partKey(part)
	y := s.own(name)
	switch {
	case y == nil:
		y = &sym{kind: symFunc, pos: d.Name.Span()}
		s.put(name, y)
	case y.kind == symType && (y.q.T.Kind == types.Struct || y.q.T.Kind == types.Enum):
		y = &sym{kind: symFunc, pos: d.Name.Span(), tag: y}
		s.put(name, y)
	case y.kind != symFunc:
		c.report(source.Errorf(d.Name.Span(), "redefinition of '%s' as a function", name).Note(y.pos, "declared here before, as a %s", y.kind))
		return nil
	}
	if old := c.redeclared(y.fns, fd); old != nil {
		if old.def != nil && fd.def != nil {
			c.report(source.Errorf(d.Name.Span(), "redefinition of '%s'", name).Note(old.pos, "defined here before"))
			return nil
		}
		old.all = append(old.all, d)
		if fd.def != nil {
			old.def = d
			// The definition's parameter names count, not the first declaration's.
			if tparams != nil {
				old.tparams = mergeDefaults(old.tparams, tparams)
				for _, f := range old.insts {
					c.redefineInstance(old, f, d)
				}
			} else if old.fn != nil {
				c.adopt(old, fd)
			}
			old.ast = d
		}
		return old
	}
	y.fns = append(y.fns, fd)
	return fd
}

// mergeDefaults keeps default template arguments of an earlier declaration.
func mergeDefaults(old, new []*ast.TemplateParam) []*ast.TemplateParam {
	out := make([]*ast.TemplateParam, len(new))
	for i, p := range new {
		k := *p
		if k.DefaultExpr == nil && k.DefaultType == nil && i < len(old) {
			k.DefaultExpr, k.DefaultType = old[i].DefaultExpr, old[i].DefaultType
		}
		out[i] = &k
	}
	return out
}

// redefineInstance gives an instance made from a forward declaration its body. The
// parameters are renamed to those of the definition.
func (c *checker) redefineInstance(d *fnDecl, f *Func, def *ast.FuncDecl) {
	if f == nil || f.checker.def != nil {
		return
	}
	inst := newScope(templateScope, f.checker.scope.parent)
	// Arguments are bound by the first declaration's names; bind them by the new ones too.
	for i, p := range d.tparams {
		if i < len(d.ast.Params) || true {
			for name, y := range f.checker.scope.syms {
				if name == p.Name.Name {
					inst.put(name, y)
				}
			}
		}
	}
	for i := range f.Params {
		if i < len(def.Params) {
			f.Params[i].Name = def.Params[i].Name.Name
		}
	}
	f.checker.define(def, inst)
}

// adopt makes a forward-declared function the one that fd defines.
func (c *checker) adopt(old, fd *fnDecl) {
	f := old.fn
	for i := range f.Params {
		if i < len(fd.ast.Params) {
			f.Params[i].Name = fd.ast.Params[i].Name.Name
		}
	}
	f.Pos = fd.pos.Start
	f.checker.kernel = f.checker.kernel || fd.ast.Specs&ast.Kernel != 0
	f.checker.constexpr = f.checker.constexpr || fd.ast.Specs&ast.Constexpr != 0
	f.checker.define(fd.def, fd.scope)
}

func (c *checker) addUnique(fns []*fnDecl, fd *fnDecl) []*fnDecl {
	if old := c.redeclared(fns, fd); old != nil {
		if old.def == nil && fd.def != nil {
			old.def = fd.def
			return fns
		}
		c.report(source.Errorf(fd.pos, "redefinition of '%s'", fd.name).Note(old.pos, "declared here before"))
		return fns
	}
	return append(fns, fd)
}

// redeclared finds an earlier declaration of the same function.
func (c *checker) redeclared(fns []*fnDecl, fd *fnDecl) *fnDecl {
	for _, d := range fns {
		if d.bi != nil || d.rec != fd.rec || (d.tparams == nil) != (fd.tparams == nil) || d.ast.ThisSpace != fd.ast.ThisSpace || d.ast.ThisQuals != fd.ast.ThisQuals || len(d.ast.Params) != len(fd.ast.Params) {
			continue
		}
		if fd.tparams != nil {
			if d.scope == fd.scope && sameTemplate(d, fd) {
				return d
			}
			continue
		}
		// Signatures may not be resolvable yet inside a class: compare as written first.
		same := true
		for i := range d.ast.Params {
			same = same && sameSyntax(d.ast.Params[i].Type, fd.ast.Params[i].Type)
		}
		if same {
			return d
		}
		if fd.rec != nil {
			continue
		}
		a, b := c.sigOf(d), c.sigQuiet(fd)
		if a == nil || b == nil || len(a.Params) != len(b.Params) {
			continue
		}
		same = true
		for i := range a.Params {
			same = same && types.Identical(a.Params[i].Type.T, b.Params[i].Type.T)
		}
		if same {
			return d
		}
	}
	return nil
}

func (c *checker) sigQuiet(d *fnDecl) (f *Func) {
	c.trap(func() { f = c.sigOf(d) })
	if f == nil {
		d.fn = nil
	}
	return f
}

func sameTemplate(a, b *fnDecl) bool {
	if len(a.tparams) != len(b.tparams) {
		return false
	}
	for i := range a.tparams {
		p, q := a.tparams[i], b.tparams[i]
		if p.Kind != q.Kind || p.Pack != q.Pack || p.Name.Name != q.Name.Name || p.Kind == ast.ValueParam && !sameSyntax(p.Type, q.Type) {
			return false
		}
		// enable_if defaults tell overloads apart only where both have bodies.
	}
	for i := range a.ast.Params {
		if !sameSyntax(a.ast.Params[i].Type, b.ast.Params[i].Type) {
			return false
		}
	}
	if a.ast.Result == nil || b.ast.Result == nil {
		return a.ast.Result == nil && b.ast.Result == nil
	}
	return sameSyntax(a.ast.Result, b.ast.Result)
}

// isCopyCtor says that a constructor copies its own class: copies are member by member
// here, which is what such constructors do.
func (r *record) isCopyCtor(d *ast.FuncDecl) bool {
	if len(d.Params) != 1 {
		return false
	}
	ref, ok := stripRef(d.Params[0].Type)
	if !ok {
		return false
	}
	t := ref.Elem
	if q, ok := t.(*ast.QualifiedType); ok {
		t = q.Elem
	}
	n, ok := t.(*ast.NamedType)
	if !ok || len(n.Name.Parts) != 1 {
		return false
	}
	name := ""
	if r.decl != nil && r.decl.Name != nil {
		name = r.decl.Name.Last().Ident
	}
	return n.Name.Parts[0].Ident == name && !n.Name.Parts[0].HasArgs && (d.Default || d.Body != nil && len(d.Body.Stmts) == 0 && len(d.Inits) == 0)
}

// outOfLine defines a member function outside its class.
func (c *checker) outOfLine(s *scope, d *ast.FuncDecl) {
	r, ok := c.resolve(s, d.Name)
	if !ok {
		return
	}
	if r.qual == nil {
		if r.sym.kind == symFunc && len(r.sym.fns) > 0 { // ns::f
			c.topFunc(r.sym.fns[0].scope, stripQualifier(d))
			return
		}
		c.errorf(d, "'%s' is not a member of a class", nameString(d.Name))
		return
	}
	set := r.sym.fns
	if d.Kind == ast.Constructor {
		set = r.qual.ctors
	}
	for _, m := range set {
		if m.tparams != nil || m.def != nil || len(m.ast.Params) != len(d.Params) || m.ast.ThisQuals != d.ThisQuals || m.ast.ThisSpace != d.ThisSpace {
			continue
		}
		same := true
		for i := range d.Params {
			c.trap(func() {
				same = same && types.Identical(c.paramType(m.scope, d.Params[i]).T, c.paramType(m.scope, m.ast.Params[i]).T)
			})
		}
		if !same {
			continue
		}
		m.def = d
		m.all = append(m.all, d)
		f := c.sigOf(m)
		if f == nil {
			return
		}
		for i := range f.Params {
			f.Params[i].Name = d.Params[i].Name.Name
		}
		f.checker.define(d, m.scope)
		if f.checker.state == bodyNone {
			f.checker.state = bodyQueued
			c.now = append(c.now, f)
		}
		return
	}
	c.errorf(d, "no declaration in '%s' matches '%s'", r.qual.t.Name, nameString(d.Name))
}

func stripQualifier(d *ast.FuncDecl) *ast.FuncDecl {
	k := *d
	n := *d.Name
	n.Parts = n.Parts[len(n.Parts)-1:]
	n.Global = false
	k.Name = &n
	return &k
}

// templateDecl declares a template or an explicit specialisation.
func (c *checker) templateDecl(s *scope, d *ast.TemplateDecl) {
	if d.Requires != nil {
		c.errorf(d.Requires, "requires clauses are not supported")
		return
	}
	spec := len(d.Params) == 0
	switch in := d.Decl.(type) {
	case *ast.FuncDecl:
		if spec {
			c.funcSpec(s, in)
			return
		}
		if len(in.Name.Parts) > 1 {
			c.errorf(in, "members of class templates must be defined inside the class")
			return
		}
		c.funcDecl(s, in, d.Params, nil)
	case *ast.RecordDecl:
		c.classTemplate(s, d, in)
	case *ast.TypedefDecl:
		c.declare(s, in.Name.Name, &sym{kind: symAliasTmpl, als: &aliasTmpl{scope: s, params: d.Params, decl: in}, pos: in.Name.Span()})
	case *ast.VarDecl:
		c.varTemplate(s, d, in)
	case *ast.TemplateDecl:
		c.errorf(in, "member templates defined outside of their class are not supported")
	case *ast.BadDecl:
		c.sink.errs++
	default:
		c.errorf(d, "this can't be a template")
	}
}

func (c *checker) classTemplate(s *scope, d *ast.TemplateDecl, in *ast.RecordDecl) {
	if in.Name == nil {
		c.errorf(in, "a class template needs a name")
		return
	}
	part := in.Name.Last()
	name := part.Ident
	var y *sym
	if len(in.Name.Parts) > 1 {
		if r, ok := c.resolve(s, in.Name); ok {
			y = r.sym
		}
	} else {
		y = s.own(name)
	}
	if part.HasArgs {
		if y == nil {
			y = c.lookup(s, name)
		}
		if y == nil || y.kind != symClassTmpl {
			c.errorf(in, "specialisation of '%s', which is not a class template", name)
			return
		}
		ps := &partialSpec{params: d.Params, args: part.Args, decl: in, scope: s}
		if len(d.Params) == 0 {
			ps.params = nil
			as, _, ok := c.allArgs(s, y.tmpl.params, y.tmpl.scope, part, part.Span())
			if !ok {
				return
			}
			ps.full = as
			if r := y.tmpl.insts[targsKey(as)]; r != nil && r.state != bodyNone {
				c.errorf(in, "specialisation of '%s' after its first use", r.t.Name)
				return
			}
		}
		if in.Defined {
			y.tmpl.partial = append(y.tmpl.partial, ps)
		}
		return
	}
	if y != nil {
		if y.kind != symClassTmpl {
			c.report(source.Errorf(in.Name.Span(), "redefinition of '%s' as a class template", name).Note(y.pos, "declared here before, as a %s", y.kind))
			return
		}
		if in.Defined {
			if y.tmpl.decl != nil {
				c.report(source.Errorf(in.Name.Span(), "redefinition of '%s'", name).Note(y.pos, "defined here before"))
				return
			}
			y.tmpl.decl = in
		}
		y.tmpl.params = mergeDefaults(y.tmpl.params, d.Params)
		return
	}
	t := &classTmpl{name: name, scope: s, params: d.Params, insts: map[string]*record{}}
	if in.Defined {
		t.decl = in
	}
	y = &sym{kind: symClassTmpl, tmpl: t, pos: in.Name.Span()}
	t.sym = y
	c.declare(s, name, y)
}

func (c *checker) varTemplate(s *scope, d *ast.TemplateDecl, in *ast.VarDecl) {
	part := in.Name.Last()
	y := s.own(part.Ident)
	if part.HasArgs {
		if y == nil || y.kind != symVarTmpl {
			c.errorf(in, "specialisation of '%s', which is not a variable template", part.Ident)
			return
		}
		ps := &partialSpec{params: d.Params, args: part.Args, v: in, scope: s}
		if len(d.Params) == 0 {
			ps.params = nil
			as, _, ok := c.allArgs(s, y.vt.params, y.vt.scope, part, part.Span())
			if !ok {
				return
			}
			ps.full = as
		}
		y.vt.partial = append(y.vt.partial, ps)
		return
	}
	c.declare(s, part.Ident, &sym{kind: symVarTmpl, vt: &varTmpl{name: part.Ident, scope: s, params: d.Params, decl: in, insts: map[string]*Var{}}, pos: in.Name.Span()})
}

// funcSpec records an explicit specialisation: template <> R f<A>(params).
func (c *checker) funcSpec(s *scope, d *ast.FuncDecl) {
	var y *sym
	if len(d.Name.Parts) > 1 {
		if r, ok := c.resolve(s, d.Name); ok {
			y = r.sym
		} else {
			return
		}
	} else {
		y = c.lookup(s, partKey(d.Name.Last()))
	}
	if y == nil || y.kind != symFunc {
		c.errorf(d, "specialisation of '%s', which is not a function template", nameString(d.Name))
		return
	}
	sig := &fnDecl{name: y.name, ast: d, scope: s, pos: d.Name.Span()}
	f := c.makeFunc(sig, d, s, y.name)
	if f == nil {
		return
	}
	c.all = c.all[:len(c.all)-1] // only its type was wanted
	for _, t := range y.fns {
		if t.tparams == nil || t.bi != nil || len(t.ast.Params) != len(d.Params) {
			continue
		}
		b := newBindings(t.scope, t.tparams)
		inst := newScope(templateScope, t.scope)
		ok := true
		tr := c.trap(func() {
			if d.Name.Last().HasArgs {
				var as []targ
				if as, ok = c.bindWritten(s, t.tparams, inst, d.Name.Last().Args, d.Span()); !ok {
					return
				}
				for i, a := range as {
					b.args[i], b.fixed[i] = a, a.kind != targNone
				}
			}
			for i, p := range t.ast.Params {
				ok = ok && c.deduce(b, decayParam(p.Type), f.Params[i].Type)
			}
			if t.ast.Result != nil {
				ok = ok && c.deduce(b, t.ast.Result, f.Result)
			}
			if ok = ok && c.bindDefaults(t.tparams, inst, b.args, d.Span()); ok {
				// enable_if in the signature decides too.
				g := c.makeFunc(t, t.ast, inst, y.name)
				if ok = g != nil; ok {
					c.all = c.all[:len(c.all)-1]
					ok = types.Identical(g.typ(), f.typ())
				}
			}
		})
		if !ok || tr.errs > 0 {
			continue
		}
		if d.Body == nil {
			return
		}
		key := targsKey(b.args)
		// The body sees the specialisation's own names only.
		sp := &fnSpec{key: key, def: d, sc: newScope(templateScope, s)}
		t.specs = append(t.specs, sp)
		if old := t.insts[key]; old != nil && old.checker.state == bodyNone || old != nil && old.checker.state == bodyQueued {
			old.checker.def, old.checker.scope = d, sp.sc
			for i := range old.Params {
				old.Params[i].Name = d.Params[i].Name.Name
			}
		}
		return
	}
	c.errorf(d, "no function template matches the specialisation '%s'", nameString(d.Name))
}
