package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// classTmpl is a class template with its specialisations and instances.
type classTmpl struct {
	name    string
	sym     *sym
	scope   *scope
	params  []*ast.TemplateParam
	decl    *ast.RecordDecl // nil until defined
	partial []*partialSpec
	insts   map[string]*record
}

// partialSpec is a partial (or, without parameters, full) specialisation.
type partialSpec struct {
	params []*ast.TemplateParam
	args   []ast.TemplateArg
	full   []targ // of a full one, resolved
	decl   *ast.RecordDecl
	v      *ast.VarDecl
	scope  *scope
}

type aliasTmpl struct {
	scope  *scope
	params []*ast.TemplateParam
	decl   *ast.TypedefDecl
}

type varTmpl struct {
	name    string
	scope   *scope
	params  []*ast.TemplateParam
	decl    *ast.VarDecl
	partial []*partialSpec
	insts   map[string]*Var
}

func (t *classTmpl) hasRequired() bool {
	for _, p := range t.params {
		if p.DefaultType == nil && p.DefaultExpr == nil && !p.Pack {
			return true
		}
	}
	return false
}

// bind puts an argument under its parameter's name.
func bind(s *scope, p *ast.TemplateParam, a targ) {
	name := p.Name.Name
	if name == "" {
		return
	}
	y := &sym{pos: p.Name.Span()}
	switch a.kind {
	case targType:
		y.kind, y.q = symType, a.q
	case targValue:
		y.kind, y.q, y.val = symConst, a.q, a.val
	case targFunc:
		y.kind, y.expr = symExpr, &FuncRef{Node: Node{T: types.Q(a.fn.typ())}, Func: a.fn}
	case targTmpl:
		*y = *a.sym
	case targPack:
		y.kind, y.pack = symPack, a.pack
	default:
		return
	}
	s.put(name, y)
}

// templateArg resolves one written argument for a parameter. s is where the
// argument stands, inst where earlier parameters are bound.
func (c *checker) templateArg(s *scope, p *ast.TemplateParam, inst *scope, a ast.TemplateArg) (targ, bool) {
	switch p.Kind {
	case ast.TypeParam:
		if a.Type != nil {
			q := c.typ(s, a.Type)
			return targ{kind: targType, q: dropThread(q)}, !bad(q)
		}
		if n, ok := a.Expr.(*ast.NameExpr); ok {
			r, ok := c.resolve(s, n.Name)
			if !ok {
				return targ{}, false
			}
			q, ok := c.symAsType(s, r.sym, r.part, a.Span())
			return targ{kind: targType, q: dropThread(q)}, ok
		}
		c.errAt(a.Span(), "template argument for '%s' is a value, expected a type", p.Name.Name)
		return targ{}, false
	case ast.TemplateTemplateParam:
		var n *ast.Name
		if x, ok := a.Expr.(*ast.NameExpr); ok {
			n = x.Name
		} else if t, ok := a.Type.(*ast.NamedType); ok {
			n = t.Name
		}
		if n != nil {
			r, ok := c.resolve(s, n)
			if !ok {
				return targ{}, false
			}
			y := r.sym
			if y.kind == symType && y.tmpl != nil {
				y = y.tmpl.sym
			}
			if y.kind == symClassTmpl || y.kind == symAliasTmpl || y.kind == symTypeTmpl {
				return targ{kind: targTmpl, sym: y}, true
			}
		}
		c.errAt(a.Span(), "template argument for '%s' is not a class template", p.Name.Name)
		return targ{}, false
	}
	x := a.Expr
	if x == nil {
		n, ok := a.Type.(*ast.NamedType)
		if !ok {
			c.errAt(a.Span(), "template argument for '%s' is a type, expected a value", p.Name.Name)
			return targ{}, false
		}
		x = &ast.NameExpr{Range: n.Range, Name: n.Name}
	}
	q := c.valueParamType(inst, p, func() types.Qual {
		e := c.rvalue(c.expr(s, x))
		return e.Type().Bare()
	})
	if bad(q) {
		return targ{}, false
	}
	return c.valueArg(s, q, x)
}

// valueParamType is the type of a value parameter; auto takes the argument's.
func (c *checker) valueParamType(inst *scope, p *ast.TemplateParam, auto func() types.Qual) types.Qual {
	if _, ok := p.Type.(*ast.AutoType); ok {
		return auto()
	}
	if q, ok := p.Type.(*ast.QualifiedType); ok {
		if _, ok := q.Elem.(*ast.AutoType); ok {
			return auto()
		}
	}
	q := c.typ(inst, p.Type)
	if !bad(q) && q.T.Kind == types.Function {
		q = types.Q(types.PointerTo(q))
	}
	return q.Bare()
}

// valueArg evaluates a value argument for a parameter of type q.
func (c *checker) valueArg(s *scope, q types.Qual, x ast.Expr) (targ, bool) {
	if ft := funcTypeOf(q.T); ft != nil {
		e := c.expr(s, x)
		if isBad(e) {
			return targ{}, false
		}
		if u, ok := e.(*AddrOf); ok {
			e = u.X
		}
		f, ok := c.pickByType(e, ft, x)
		if !ok {
			return targ{}, false
		}
		return targ{kind: targFunc, fn: f}, true
	}
	e, ok := c.initFrom(s, q, x)
	if !ok {
		return targ{}, false
	}
	v, why := c.eval(e)
	if v == nil {
		c.errorf(x, "template argument is not a constant expression: %s", why)
		return targ{}, false
	}
	return targ{kind: targValue, q: q, val: v}, true
}

// funcTypeOf gives the function type of a pointer or reference to a function.
func funcTypeOf(t *types.Type) *types.Type {
	if t.Kind == types.Pointer || t.Kind == types.Reference {
		t = t.Of.T
	}
	if t.Kind == types.Function {
		return t
	}
	return nil
}

// bindWritten resolves written arguments in order and binds them in inst. It
// gives one per parameter, the rest with kind targNone.
func (c *checker) bindWritten(s *scope, params []*ast.TemplateParam, inst *scope, raw []ast.TemplateArg, at source.Span) ([]targ, bool) {
	as := make([]targ, len(params))
	i := 0
	raw, pre, ok := c.expandArgs(s, raw)
	if !ok {
		return nil, false
	}
	for k, p := range params {
		if p.Pack {
			pack := targ{kind: targPack}
			for ; i < len(raw); i++ {
				a, ok := c.oneArg(s, p, inst, raw[i], pre[i])
				if !ok {
					return nil, false
				}
				pack.pack = append(pack.pack, a)
			}
			as[k] = pack
			bind(inst, p, pack)
			continue
		}
		if i >= len(raw) {
			break
		}
		a, ok := c.oneArg(s, p, inst, raw[i], pre[i])
		if !ok {
			return nil, false
		}
		i++
		as[k] = a
		bind(inst, p, a)
	}
	if i < len(raw) {
		c.errAt(at, "too many template arguments: found %d, expected at most %d", len(raw), len(params))
		return nil, false
	}
	return as, true
}

func (c *checker) oneArg(s *scope, p *ast.TemplateParam, inst *scope, a ast.TemplateArg, pre *targ) (targ, bool) {
	if pre != nil {
		return *pre, true
	}
	return c.templateArg(s, p, inst, a)
}

// expandArgs expands `pack...` among written arguments; an expanded one is in pre.
func (c *checker) expandArgs(s *scope, raw []ast.TemplateArg) ([]ast.TemplateArg, []*targ, bool) {
	plain := true
	for _, a := range raw {
		plain = plain && !a.Pack
	}
	if plain {
		return raw, make([]*targ, len(raw)), true
	}
	var out []ast.TemplateArg
	var pre []*targ
	for _, a := range raw {
		if !a.Pack {
			out, pre = append(out, a), append(pre, nil)
			continue
		}
		if name, ok := packName(a); ok {
			if y := c.lookup(s, name); y != nil && y.kind == symPack {
				for i := range y.pack {
					if y.pack[i].kind != targNone {
						out, pre = append(out, a), append(pre, &y.pack[i])
					}
				}
				continue
			}
		}
		var n ast.Node = a.Type
		if a.Type == nil {
			n = a.Expr
		}
		ok := c.eachPack(s, n, func(es *scope) bool {
			if a.Type != nil {
				q := c.typ(es, a.Type)
				out, pre = append(out, a), append(pre, &targ{kind: targType, q: q})
				return !bad(q)
			}
			if name, ok := a.Expr.(*ast.NameExpr); ok {
				if r, ok := c.resolve(es, name.Name); ok && r.sym.kind == symType {
					out, pre = append(out, a), append(pre, &targ{kind: targType, q: r.sym.q})
					return true
				}
			}
			e := c.rvalue(c.expr(es, a.Expr))
			v, _ := c.eval(e)
			if v == nil {
				c.errAt(a.Span(), "template argument is not a constant expression")
				return false
			}
			out, pre = append(out, a), append(pre, &targ{kind: targValue, q: e.Type().Bare(), val: v})
			return true
		})
		if !ok {
			return nil, nil, false
		}
	}
	return out, pre, true
}

// eachPack calls f once for each element of the packs that n mentions, with the
// element bound to the pack's name.
func (c *checker) eachPack(s *scope, n ast.Node, f func(es *scope) bool) bool {
	var names []string
	var packs []*sym
	length := -1
	walkNames(n, func(id string) {
		if y := c.lookup(s, id); y != nil && y.kind == symPack {
			names, packs = append(names, id), append(packs, y)
			length = len(y.pack)
		}
	})
	if length < 0 {
		c.errorf(n, "pattern of '...' mentions no parameter pack")
		return false
	}
	for i := range length {
		es := newScope(blockScope, s)
		for k, id := range names {
			y := packs[k]
			if i >= len(y.pack) {
				c.errorf(n, "parameter packs of different lengths")
				return false
			}
			bind(es, &ast.TemplateParam{Name: ast.Ident{Name: id}}, y.pack[i])
			if y.pack[i].sym != nil && y.pack[i].kind == targNone {
				es.put(id, &sym{kind: symVar, v: y.pack[i].sym.v})
			}
		}
		if !f(es) {
			return false
		}
	}
	return true
}

// bindDefaults fills parameters from from on with their defaults.
func (c *checker) bindDefaults(params []*ast.TemplateParam, inst *scope, as []targ, at source.Span) bool {
	for k, p := range params {
		if as[k].kind != targNone {
			bind(inst, p, as[k])
			continue
		}
		switch {
		case p.Pack:
			as[k] = targ{kind: targPack}
		case p.DefaultType != nil && p.Kind == ast.TypeParam:
			q := c.typ(inst, p.DefaultType)
			if bad(q) {
				return false
			}
			as[k] = targ{kind: targType, q: dropThread(q)}
		case p.DefaultType != nil || p.DefaultExpr != nil:
			a, ok := c.templateArg(inst, p, inst, ast.TemplateArg{Range: p.Range, Type: p.DefaultType, Expr: p.DefaultExpr})
			if !ok {
				return false
			}
			as[k] = a
		default:
			c.errAt(at, "no argument for template parameter '%s'", p.Name.Name)
			return false
		}
		bind(inst, p, as[k])
	}
	return true
}

// allArgs resolves all arguments of a class, alias or variable template.
func (c *checker) allArgs(s *scope, params []*ast.TemplateParam, decl *scope, part *ast.NamePart, at source.Span) ([]targ, *scope, bool) {
	inst := newScope(templateScope, decl)
	var raw []ast.TemplateArg
	if part != nil {
		raw = part.Args
	}
	as, ok := c.bindWritten(s, params, inst, raw, at)
	if !ok || !c.bindDefaults(params, inst, as, at) {
		return nil, nil, false
	}
	return as, inst, true
}

// classInstance gives the type of X<args>.
func (c *checker) classInstance(s *scope, t *classTmpl, part *ast.NamePart, at source.Span) (types.Qual, bool) {
	as, _, ok := c.allArgs(s, t.params, t.scope, part, at)
	if !ok {
		return invalidQ, false
	}
	r, ok := c.classOf(t, as, at)
	if !ok {
		return invalidQ, false
	}
	return types.Q(r.t), true
}

// classOf gives the instance of a class template, laid out only when needed.
func (c *checker) classOf(t *classTmpl, as []targ, at source.Span) (*record, bool) {
	if !c.argsFit(as, at) {
		return nil, false
	}
	key := targsKey(as)
	if r, ok := t.insts[key]; ok {
		return r, true
	}
	if !c.countInstance(at) {
		return nil, false
	}
	r := c.newRecord(t.name+"<"+targsString(as)+">", nil, nil)
	r.tmpl, r.args, r.at = t, as, at
	t.insts[key] = r
	return r, true
}

// chooseClass finds the definition for an instance: a full specialisation, the most
// special partial one that matches, or the template itself.
func (c *checker) chooseClass(r *record) (*ast.RecordDecl, *scope) {
	t := r.tmpl
	ps, inst := c.choosePartial(t.partial, r.args, r.at)
	if ps != nil {
		return ps.decl, inst
	}
	inst = newScope(templateScope, t.scope)
	for i, p := range t.params {
		bind(inst, p, r.args[i])
	}
	return t.decl, inst
}

func (c *checker) choosePartial(specs []*partialSpec, args []targ, at source.Span) (*partialSpec, *scope) {
	var best *partialSpec
	var bestScope *scope
	for _, ps := range specs {
		if ps.params == nil {
			if targsKey(ps.full) == targsKey(args) {
				return ps, newScope(templateScope, ps.scope)
			}
			continue
		}
		inst, ok := c.matchPartial(ps, args, at)
		if !ok {
			continue
		}
		if best == nil || c.moreSpecial(ps, best, at) {
			best, bestScope = ps, inst
		}
	}
	return best, bestScope
}

// matchPartial deduces a partial specialisation's parameters from actual arguments.
func (c *checker) matchPartial(ps *partialSpec, args []targ, at source.Span) (*scope, bool) {
	b := newBindings(ps.scope, ps.params)
	if !c.deduceArgs(b, ps.args, args) {
		return nil, false
	}
	inst := newScope(templateScope, ps.scope)
	ok := false
	t := c.trap(func() {
		if !c.bindDefaults(ps.params, inst, b.args, at) {
			return
		}
		// Arguments that could not be deduced from must come out equal: enable_if forms.
		ok = true
		for i, a := range ps.args {
			if i >= len(args) || a.Pack || args[i].kind == targPack {
				break
			}
			if a.Type != nil && args[i].kind == targType {
				ok = ok && types.IdenticalQ(dropThread(c.typ(inst, a.Type)), args[i].q)
			} else if a.Expr != nil && args[i].kind == targValue {
				e := c.rvalue(c.expr(inst, a.Expr))
				v, _ := c.eval(e)
				ok = ok && v != nil && v.I == args[i].val.I
			}
		}
	})
	return inst, ok && t.errs == 0
}

// moreSpecial says that b matches whatever a does: a's own pattern with unique types.
func (c *checker) moreSpecial(a, b *partialSpec, at source.Span) bool {
	return c.covers(b, a, at) && !c.covers(a, b, at)
}

func (c *checker) covers(general, special *partialSpec, at source.Span) bool {
	inst := newScope(templateScope, special.scope)
	for _, p := range special.params {
		bind(inst, p, c.uniqueArg(p, inst))
	}
	var as []targ
	ok := true
	t := c.trap(func() {
		for _, a := range special.args {
			switch {
			case a.Pack:
			case a.Type != nil:
				as = append(as, targ{kind: targType, q: c.typ(inst, a.Type)})
			default:
				if n, isName := a.Expr.(*ast.NameExpr); isName {
					if r, found := c.resolve(inst, n.Name); found && r.sym.kind == symType {
						as = append(as, targ{kind: targType, q: r.sym.q})
						continue
					}
				}
				v, _ := c.eval(c.rvalue(c.expr(inst, a.Expr)))
				if v == nil {
					v = &Value{I: 1}
				}
				as = append(as, targ{kind: targValue, q: types.Q(types.IntType), val: v})
			}
		}
	})
	b := newBindings(general.scope, general.params)
	return ok && t.errs == 0 && c.deduceArgs(b, general.args, as)
}

// uniqueArg makes an argument that equals no other.
func (c *checker) uniqueArg(p *ast.TemplateParam, inst *scope) targ {
	c.nextID++
	switch {
	case p.Pack:
		return targ{kind: targPack}
	case p.Kind == ast.ValueParam:
		return targ{kind: targValue, q: types.Q(types.IntType), val: &Value{I: int64(1000003 + c.nextID)}}
	case p.Kind == ast.TemplateTemplateParam:
		return targ{kind: targTmpl, sym: &sym{kind: symClassTmpl, tmpl: &classTmpl{name: p.Name.Name, insts: map[string]*record{}, scope: c.root}}}
	}
	return targ{kind: targType, q: types.Q(types.NewOpaque(p.Name.Name))}
}

func (c *checker) aliasInstance(s *scope, a *aliasTmpl, part *ast.NamePart, at source.Span) (types.Qual, bool) {
	if part == nil {
		c.errAt(at, "alias template '%s' needs template arguments", a.decl.Name.Name)
		return invalidQ, false
	}
	_, inst, ok := c.allArgs(s, a.params, a.scope, part, at)
	if !ok {
		return invalidQ, false
	}
	q := c.typ(inst, a.decl.Type)
	return q, !bad(q)
}

// varInstance gives the variable X<args>.
func (c *checker) varInstance(s *scope, t *varTmpl, part *ast.NamePart, at source.Span) (*Var, bool) {
	as, inst, ok := c.allArgs(s, t.params, t.scope, part, at)
	if !ok {
		return nil, false
	}
	if !c.argsFit(as, at) {
		return nil, false
	}
	key := targsKey(as)
	if v, ok := t.insts[key]; ok {
		return v, v != nil
	}
	if !c.countInstance(at) {
		return nil, false
	}
	t.insts[key] = nil
	decl := t.decl
	if ps, psScope := c.choosePartial(t.partial, as, at); ps != nil {
		decl, inst = ps.v, psScope
	}
	if decl == nil {
		c.errAt(at, "variable template '%s' is not defined", t.name)
		return nil, false
	}
	c.push(at, "in instantiation of '%s<%s>' requested here", t.name, targsString(as))
	defer c.pop()
	v := c.globalVar(inst, decl, t.name+"<"+targsString(as)+">")
	t.insts[key] = v
	return v, v != nil
}
