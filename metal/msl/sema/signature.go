package sema

import (
	"fmt"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// sigOf resolves the signature of a function that is not a template.
func (c *checker) sigOf(d *fnDecl) *Func {
	if d.fn == nil {
		d.fn = c.makeFunc(d, d.ast, d.scope, d.name)
		if d.fn != nil && d.def != nil {
			d.fn.checker.define(d.def, d.scope)
		}
	}
	if d.fn == nil || d.fn.Params == nil && len(d.ast.Params) > 0 {
		return nil
	}
	return d.fn
}

// define attaches a body.
func (st *funcState) define(def *ast.FuncDecl, s *scope) {
	if st.def == nil {
		st.def, st.scope = def, s
	}
}

// instance gives the instance of a function template for bound arguments; defaults
// are filled in. It reports what does not work and remembers that.
func (c *checker) instance(d *fnDecl, b *bindings, at source.Span) *Func {
	if !c.enter(at) {
		return nil
	}
	defer c.leave()
	inst := newScope(templateScope, d.scope)
	as := append([]targ{}, b.args...)
	if !c.bindDefaults(d.tparams, inst, as, at) || !c.argsFit(as, at) {
		return nil
	}
	key := targsKey(as)
	if f, ok := d.insts[key]; ok {
		if f == nil {
			c.errAt(at, "template arguments <%s> do not fit '%s'", targsString(as), d.name)
		}
		return f
	}
	level := 1
	if c.cur != nil {
		level = c.cur.checker.level + 1
	}
	if level > maxLevel {
		c.errAt(at, "instances of function templates nest deeper than %d", maxLevel)
		return nil
	}
	if !c.countInstance(at) {
		return nil
	}
	d.insts[key] = nil
	name := d.name + "<" + targsString(as) + ">"
	def, sc := d.def, inst
	for _, s := range d.specs {
		if s.key == key {
			def, sc = s.def, s.sc
		}
	}
	sig := d.ast
	if def != nil {
		sig = def
	}
	f := c.makeFunc(d, sig, sc, name)
	if f == nil {
		return nil
	}
	if def != nil {
		f.checker.define(def, sc)
	}
	f.checker.level = level
	f.checker.stack = append(append([]source.Note{}, c.stack...), source.Note{Span: at, Msg: fmt.Sprintf("in instantiation of '%s' requested here", name)})
	if len(f.checker.stack) > 8 {
		f.checker.stack = f.checker.stack[len(f.checker.stack)-8:]
	}
	d.insts[key] = f
	return f
}

// makeFunc resolves a signature.
func (c *checker) makeFunc(d *fnDecl, sig *ast.FuncDecl, sc *scope, name string) *Func {
	f := &Func{Name: name, Pos: sig.Name.Span().Start, Ctor: d.ctor}
	if d.rec != nil {
		f.Name = d.rec.t.Name + "::" + name
	}
	st := &funcState{fp: c.fp, decl: d, scope: sc, constexpr: sig.Specs&(ast.Constexpr|ast.Consteval) != 0, kernel: sig.Specs&ast.Kernel != 0}
	f.checker = st
	fs := newScope(blockScope, sc)
	ok := true
	f.Params = []*Var{}
	for i, p := range sig.Params {
		if p.Pack || isPackType(p.Type) {
			if i != len(sig.Params)-1 {
				c.errorf(p, "a parameter pack must be the last parameter")
				ok = false
			}
			ok = c.packParams(f, fs, p) && ok
			continue
		}
		q := c.paramType(sc, p)
		if bad(q) {
			if dependsOnParams(p.Type, sig.Params[:i]) {
				q = c.paramType(fs, p)
			}
			if bad(q) {
				ok = false
				continue
			}
		}
		c.warnSpace(p.Type, q, p)
		v := &Var{Name: p.Name.Name, Type: q, Kind: ParamVar, Pos: p.Name.Start}
		if !v.Pos.IsValid() {
			v.Pos = p.Start
		}
		f.Params = append(f.Params, v)
		if v.Name != "" {
			fs.put(v.Name, &sym{kind: symVar, v: v, pos: p.Name.Span()})
		}
	}
	if sig.Variadic {
		c.errorf(sig, "variadic functions are not supported in Metal")
		ok = false
	}
	switch {
	case d.ctor:
		f.Result = types.Q(d.rec.t)
	case sig.Kind == ast.Conversion:
		f.Result = c.typ(sc, sig.Name.Last().Conv)
	case sig.Result == nil:
		c.errorf(sig, "'%s' has no result type", name)
	case hasAuto(sig.Result):
		st.autoResult = true
		f.Result = types.Q(types.VoidType)
	default:
		f.Result = c.typ(fs, sig.Result)
	}
	if bad(f.Result) {
		ok = false
	} else if f.Result.T.Kind == types.Array || f.Result.T.Kind == types.Function {
		c.errorf(sig, "function '%s' returns '%s'", name, f.Result.T)
		ok = false
	}
	if f.Result.T != nil && f.Result.T.Kind != types.Reference {
		f.Result = f.Result.Bare()
	}
	if d.rec != nil && !d.static {
		q := types.Qual{T: d.rec.t, Const: sig.ThisQuals&ast.Const != 0, Volatile: sig.ThisQuals&ast.Volatile != 0, Space: spaceOf[sig.ThisSpace]}
		if q.Space == types.NoSpace {
			q.Space = types.Thread
		}
		if q.Space == types.Constant {
			q.Const = true
		}
		if d.ctor {
			q.Const, q.Space = false, types.Thread
		}
		f.This = &Var{Name: "this", Type: types.Q(types.ReferenceTo(q)), Kind: ParamVar, Pos: f.Pos}
	}
	if !ok {
		return nil
	}
	c.all = append(c.all, f)
	return f
}

func isPackType(t ast.Type) bool { _, ok := t.(*ast.PackType); return ok }

func dependsOnParams(t ast.Type, ps []*ast.ParamDecl) bool {
	found := false
	walkNames(t, func(id string) {
		for _, p := range ps {
			found = found || id != "" && p.Name.Name == id
		}
	})
	return found
}

func hasAuto(t ast.Type) bool {
	switch t := t.(type) {
	case *ast.AutoType:
		return true
	case *ast.QualifiedType:
		return hasAuto(t.Elem)
	case *ast.PointerType:
		return hasAuto(t.Elem)
	case *ast.ReferenceType:
		return hasAuto(t.Elem)
	}
	return false
}

// packParams expands a function parameter pack.
func (c *checker) packParams(f *Func, fs *scope, p *ast.ParamDecl) bool {
	pt := p.Type
	if k, ok := pt.(*ast.PackType); ok {
		pt = k.Elem
	}
	pack := []targ{}
	ok := c.eachPack(fs, pt, func(es *scope) bool {
		q := c.typ(es, pt)
		if bad(q) {
			return false
		}
		q = c.adjustParam(q, p)
		v := &Var{Name: fmt.Sprintf("%s#%d", p.Name.Name, len(pack)), Type: q, Kind: ParamVar, Pos: p.Name.Start}
		f.Params = append(f.Params, v)
		pack = append(pack, targ{sym: &sym{v: v}})
		return !bad(q)
	})
	fs.put(p.Name.Name, &sym{kind: symPack, pack: pack, pos: p.Name.Span()})
	return ok
}
