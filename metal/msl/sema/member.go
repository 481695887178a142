package sema

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

func (c *checker) member(s *scope, x *ast.MemberExpr) Expr {
	e := c.expr(s, x.X)
	if isBad(e) {
		return c.bad(x)
	}
	if x.Arrow {
		if e.Type().T.Kind == types.Struct {
			r, done := c.userOperator(s, "->", []Expr{e}, x)
			if !done {
				return c.bad(x)
			}
			e = r
			if isBad(e) {
				return c.bad(x)
			}
		}
		v := c.rvalue(e)
		if v.Type().T.Kind != types.Pointer {
			c.errorf(x, "operator -> on '%s': expected a pointer", v.Type().T)
			return c.bad(x)
		}
		e = c.deref(v, x.X)
		if isBad(e) {
			return e
		}
	}
	part := x.Name.Last()
	t := e.Type().T
	switch t.Kind {
	case types.Vector, types.PackedVector:
		return c.swizzle(e, part.Ident, x)
	case types.SgMatrix:
		if part.Ident == "thread_elements" {
			return &overloadSet{Node: Node{T: types.Q(types.VoidType), Where: x.Start}, name: part.Ident, this: e,
				fns: []*fnDecl{{name: part.Ident, bi: threadElements}}}
		}
	case types.Pointer:
		c.errorf(x, "'.%s' on a pointer: use ->", part.Ident)
		return c.bad(x)
	case types.Struct:
		return c.structMember(s, e, x)
	}
	c.errorf(x, "'%s' has no member '%s'", t, part.Ident)
	return c.bad(x)
}

func (c *checker) structMember(s *scope, e Expr, x *ast.MemberExpr) Expr {
	t := e.Type().T
	part := x.Name.Last()
	r := recordOf(t)
	if r == nil || !c.completeType(t, x.Span()) {
		c.errorf(x, "'%s' is an incomplete type", t)
		return c.bad(x)
	}
	if len(x.Name.Parts) > 1 { // e.Base::m
		if n, ok := c.resolve(s, x.Name); ok && n.qual != nil {
			r = n.qual
			if r.t != t {
				e = c.toBase(e, r.t)
			}
		} else {
			return c.bad(x)
		}
	}
	if part.Kind == ast.NameConversion {
		q := c.typ(s, part.Conv)
		if bad(q) {
			return c.bad(x)
		}
		v, ok := c.convOperator(r, e, q, true, true)
		if !ok {
			c.errorf(x, "'%s' has no conversion to '%s'", t, q)
			return c.bad(x)
		}
		return &overloadSet{Node: Node{T: types.Q(types.VoidType), Where: x.Start}, name: "operator", this: v, fns: []*fnDecl{{bi: identityBuiltin}}}
	}
	y := c.lookupRecord(r, partKey(part))
	if y == nil {
		c.errorf(x, "no member named '%s' in '%s'", partKey(part), t)
		return c.bad(x)
	}
	switch y.kind {
	case symField:
		if f := c.fieldOf(e, y.name, x.Start); f != nil {
			return f
		}
		c.errorf(x, "no member named '%s' in '%s'", y.name, t)
		return c.bad(x)
	case symFunc:
		return &overloadSet{Node: Node{T: types.Q(types.VoidType), Where: x.Start}, name: y.name, fns: y.fns, part: part, scope: s, this: e}
	case symVar, symConst, symExpr:
		return c.symExpr(s, nameRes{sym: y, part: part, qual: r}, x)
	}
	c.errorf(x, "member '%s' of '%s' is a %s, expected a value", y.name, t, y.kind)
	return c.bad(x)
}

// fieldOf finds a data member, also in anonymous members and bases.
func (c *checker) fieldOf(e Expr, name string, at source.Pos) Expr {
	t := e.Type().T
	if f, ok := t.Field(name); ok {
		return c.fieldExpr(e, f, at)
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Name == "" && f.Type.T.Kind == types.Struct && !f.IsBase {
			if x := c.fieldOf(c.fieldExpr(e, f, at), name, at); x != nil {
				return x
			}
		}
	}
	if t.Base != nil {
		return c.fieldOf(c.toBase(e, t.Base), name, at)
	}
	return nil
}

func (c *checker) fieldExpr(e Expr, f *types.Field, at source.Pos) Expr {
	q, of := f.Type, e.Type()
	if q.T.Kind == types.Reference {
		return &FieldExpr{Node{T: q.T.Of, LV: true, Where: at}, e, f}
	}
	q.Const = q.Const || of.Const && !f.Mutable
	q.Volatile = q.Volatile || of.Volatile
	q.Space = of.Space
	r := &FieldExpr{Node{T: q, LV: e.Lvalue(), Where: at}, e, f}
	if !e.Lvalue() {
		r.T = q.Bare()
		r.Val = fieldConst(e.Const(), f, of.T)
	}
	return r
}

// swizzle picks components by name: xyzw or rgba, not mixed.
func (c *checker) swizzle(e Expr, name string, at ast.Node) Expr {
	t := e.Type().T
	set := "xyzw"
	if name != "" && !strings.ContainsRune(set, rune(name[0])) {
		set = "rgba"
	}
	if len(name) > 4 || name == "" {
		c.errorf(at, "'%s' has no component '%s'", t, name)
		return c.bad(at)
	}
	var comps []uint8
	for _, r := range name {
		k := strings.IndexRune(set, r)
		if k < 0 {
			why := ""
			if strings.ContainsRune("xyzwrgba", r) {
				why = ": xyzw and rgba don't mix"
			}
			c.errorf(at, "'%s' has no component '%s'%s", t, name, why)
			return c.bad(at)
		}
		if k >= t.N {
			c.errorf(at, "component '%c' is past the end of '%s'", r, t)
			return c.bad(at)
		}
		comps = append(comps, uint8(k))
	}
	q := e.Type()
	q.T = types.Vec(t.Elem, len(comps))
	n := Node{T: q, LV: e.Lvalue(), Where: at.Span().Start}
	if !e.Lvalue() {
		n.T = q.Bare()
		n.Val = swizzleConst(e.Const(), comps)
	}
	return &Swizzle{n, e, comps}
}
