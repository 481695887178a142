package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

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
