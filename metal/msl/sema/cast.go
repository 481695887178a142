package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

type castKind uint8

const (
	castC castKind = iota
	castStatic
	castReinterpret
	castConst
)

func (c *checker) namedCast(s *scope, x *ast.NamedCastExpr) Expr {
	q := c.typ(s, x.Type)
	if bad(q) {
		return c.bad(x)
	}
	kind := castC
	switch x.Kind {
	case ast.StaticCast:
		kind = castStatic
	case ast.ReinterpretCast:
		kind = castReinterpret
	case ast.ConstCast:
		kind = castConst
	default:
		c.errorf(x, "%s is not supported in Metal", x.Kind)
		return c.bad(x)
	}
	if l, ok := x.X.(*ast.InitList); ok {
		return c.initList(s, q, l)
	}
	return c.cast(q, c.expr(s, x.X), kind, x)
}

// cast converts explicitly.
func (c *checker) cast(to types.Qual, e Expr, kind castKind, at ast.Node) Expr {
	if isBad(e) || bad(to) {
		return c.bad(at)
	}
	fail := func(why string) Expr {
		name := "cast"
		switch kind {
		case castStatic:
			name = "static_cast"
		case castReinterpret:
			name = "reinterpret_cast"
		case castConst:
			name = "const_cast"
		}
		c.errorf(at, "%s from '%s' to '%s'%s", name, exprTypeString(e), to, why)
		return c.bad(at)
	}
	pos := at.Span().Start
	t := to.T
	if t.Kind == types.Void {
		return &Convert{Node: Node{T: types.Q(t), Where: pos}, How: ConvVoid, X: e}
	}
	if t.Kind == types.Reference {
		return c.castRef(to, e, kind, at, fail)
	}
	if set, ok := e.(*overloadSet); ok {
		if x, r := c.implicitFunc(set, to, true); r != rankNone {
			return x
		}
		return fail("")
	}
	if kind != castReinterpret {
		if x, r := c.implicit(e, to.Bare(), true); r != rankNone {
			return x
		}
	}
	if t.Kind == types.Struct && kind != castReinterpret {
		if r := recordOf(t); r != nil && c.completeType(t, at.Span()) && len(r.ctors) > 0 {
			k := c.pick(&callReq{name: t.Name, fns: r.ctors, args: []Expr{e}, at: at.Span()})
			if k == nil {
				return c.bad(at)
			}
			return c.ctorCall(k, []Expr{e}, t, at.Span())
		}
		return fail("")
	}
	if e.Type().T.Kind == types.Struct {
		if r := recordOf(e.Type().T); r != nil && kind != castReinterpret {
			if x, ok := c.convOperator(r, e, to.Bare(), true, true); ok {
				return x
			}
		}
		return fail("")
	}
	v := c.rvalue(e)
	from := v.Type().T
	switch t.Kind {
	case types.Pointer:
		switch {
		case from.Kind == types.Pointer:
			if !types.SameSpace(from.Of.Space, t.Of.Space) {
				return fail(": address spaces differ")
			}
			if kind == castStatic && from.Of.T.Kind != types.Void && !derivesFrom(t.Of.T, from.Of.T) {
				return fail(": unrelated types, use reinterpret_cast")
			}
			return &Convert{Node: Node{T: types.Q(t), Where: pos, Val: v.Const()}, How: ConvPointer, X: v}
		case from.IsInteger() && kind != castStatic:
			if k := v.Const(); k != nil && k.I == 0 {
				return c.convertNode(v, t, stepNull)
			}
			return &Convert{Node: Node{T: types.Q(t), Where: pos}, How: ConvPointer, X: c.numeric(v, types.ULongType)}
		}
		return fail("")
	case types.Enum:
		if from.IsScalar() || from.Kind == types.Enum {
			return c.numeric(v, t)
		}
		return fail("")
	case types.Vector, types.PackedVector:
		if from.Kind == types.Vector && from.N == t.N {
			return c.numeric(v, t)
		}
		if from.IsScalar() { // bfloat and the like, which don't splat implicitly
			return c.convertNode(v, t, stepSplat)
		}
		if from.Kind == types.Vector {
			return fail(": widths differ")
		}
		return fail("")
	case types.Matrix:
		if from.Kind == types.Matrix && from.N == t.N && from.Rows == t.Rows {
			return c.numeric(v, t)
		}
		if from.IsScalar() {
			return &Construct{Node: Node{T: types.Q(t), Where: pos}, How: Diagonal, Args: []Expr{c.numeric(v, types.Scalar(t.Elem))}}
		}
		return fail(": shapes differ")
	}
	if t.IsScalar() {
		switch {
		case from.IsScalar() || from.Kind == types.Enum:
			return c.numeric(v, t)
		case from.Kind == types.Pointer && t.IsInteger() && t.Size() == 8 && kind != castStatic:
			return &Convert{Node: Node{T: types.Q(t), Where: pos}, How: ConvPointer, X: v}
		case from.IsVector():
			return fail(": a vector is no scalar, pick a component")
		}
	}
	return fail("")
}

// castRef casts to a reference: the same object seen as another type.
func (c *checker) castRef(to types.Qual, e Expr, kind castKind, at ast.Node, fail func(string) Expr) Expr {
	of := to.T.Of
	if x, r := c.bindRef(e, to, true); r != rankNone && kind != castReinterpret {
		return x
	}
	if !e.Lvalue() {
		return fail(": not an lvalue")
	}
	q := e.Type()
	if !types.SameSpace(q.Space, of.Space) {
		return fail(": address spaces differ")
	}
	if kind == castStatic && !types.Identical(q.T, of.T) && !derivesFrom(of.T, q.T) {
		return fail(": unrelated types, use reinterpret_cast")
	}
	target := of
	target.Space = q.Space
	if types.Identical(q.T, of.T) {
		p := c.addrOf(e, at)
		return &Deref{Node{T: target, LV: true, Where: at.Span().Start}, &Convert{Node: Node{T: types.Q(types.PointerTo(target)), Where: at.Span().Start}, How: ConvPointer, X: p}}
	}
	p := c.addrOf(e, at)
	if isBad(p) {
		return p
	}
	return &Deref{Node{T: target, LV: true, Where: at.Span().Start}, &Convert{Node: Node{T: types.Q(types.PointerTo(target)), Where: at.Span().Start}, How: ConvPointer, X: p}}
}
