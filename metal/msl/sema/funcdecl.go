package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

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
	// Redeclarations have the same parameter names: sameTemplate sees to that.
	for _, p := range d.tparams {
		if y := f.checker.scope.syms[p.Name.Name]; y != nil {
			inst.put(p.Name.Name, y)
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
