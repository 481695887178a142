package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

func (c *checker) deref(e Expr, at ast.Node) Expr {
	v := c.rvalue(e)
	t := v.Type().T
	if t.Kind != types.Pointer {
		c.errorf(at, "operator * on '%s': expected a pointer", t)
		return c.bad(at)
	}
	if t.Of.T.Kind == types.Void {
		c.errorf(at, "operator * on a pointer to void")
		return c.bad(at)
	}
	if t.Of.T.Kind == types.Function {
		return v
	}
	if a, ok := stripCast(v).(*AddrOf); ok && types.Identical(a.X.Type().T, t.Of.T) {
		return a.X
	}
	return &Deref{Node{T: objectQ(t.Of), LV: true, Where: at.Span().Start}, v}
}

// stripCast looks through pointer casts.
func stripCast(e Expr) Expr {
	for {
		k, ok := e.(*Convert)
		if !ok || k.How != ConvPointer {
			return e
		}
		e = k.X
	}
}

// objectQ is the type of an object reached through a pointer; without a space it is
// in thread.
func objectQ(q types.Qual) types.Qual {
	if q.Space == types.NoSpace {
		q.Space = types.Thread
	}
	return q
}

func (c *checker) addrOf(e Expr, at ast.Node) Expr {
	if isBad(e) {
		return c.bad(at)
	}
	switch x := e.(type) {
	case *overloadSet:
		return x
	case *FuncRef:
		return x
	case *Swizzle:
		c.errorf(at, "address of a vector component")
		return c.bad(at)
	case *IndexExpr:
		if x.X.Type().T.IsVector() {
			c.errorf(at, "address of a vector component")
			return c.bad(at)
		}
	}
	if !e.Lvalue() {
		c.errorf(at, "address of a temporary of type '%s'", e.Type())
		return c.bad(at)
	}
	if d, ok := e.(*Deref); ok {
		return d.X
	}
	a := &AddrOf{Node{T: types.Q(types.PointerTo(e.Type())), Where: at.Span().Start}, e}
	a.Val, _ = c.foldAddr(e)
	return a
}

// foldAddr gives the address of an lvalue inside a program-scope constant.
func (c *checker) foldAddr(e Expr) (*Value, bool) {
	switch e := e.(type) {
	case *VarRef:
		if e.Var.Kind == GlobalVar && e.Var.Type.T.Kind != types.Reference {
			return &Value{Ref: e.Var}, true
		}
	case *FieldExpr:
		if v, ok := c.foldAddr(e.X); ok && e.Field.Type.T.Kind != types.Reference {
			return &Value{Ref: v.Ref, Offset: v.Offset + e.Field.Offset}, true
		}
	case *IndexExpr:
		if e.X.Type().T.Kind == types.Array && e.I.Const() != nil {
			if v, ok := c.foldAddr(e.X); ok {
				return &Value{Ref: v.Ref, Offset: v.Offset + int(e.I.Const().I)*e.T.T.Size()}, true
			}
		}
	}
	return nil, false
}

func (c *checker) index(s *scope, x *ast.IndexExpr) Expr {
	b, i := c.expr(s, x.X), c.expr(s, x.Index)
	if isBad(b) || isBad(i) {
		return c.bad(x)
	}
	if r, done := c.userOperator(s, "[]", []Expr{b, i}, x); done {
		return r
	}
	t := b.Type().T
	if t.Kind != types.Pointer && t.Kind != types.Array && valueType(i).Kind == types.Pointer {
		b, i = i, b // 3[p]
		t = b.Type().T
	}
	iv := c.rvalue(i)
	if it := iv.Type().T; it.Kind == types.Enum && !it.Scoped {
		iv = c.numeric(iv, it.Under)
	}
	if !iv.Type().T.IsInteger() {
		c.errorf(x.Index, "index has type '%s', expected an integer", iv.Type().T)
		return c.bad(x)
	}
	n := Node{Where: x.Start}
	switch t.Kind {
	case types.Pointer:
		p := c.rvalue(b)
		if t.Of.T.Kind == types.Void || t.Of.T.Kind == types.Function {
			c.errorf(x, "index of a pointer to '%s'", t.Of.T)
			return c.bad(x)
		}
		if !c.needComplete(t.Of.T, x.Span()) {
			return c.bad(x)
		}
		add := &PtrAdd{Node: Node{T: types.Q(p.Type().T), Where: x.Start}, P: p, I: iv}
		n.T, n.LV = objectQ(t.Of), true
		return &Deref{n, add}
	case types.Array:
		if k := iv.Const(); k != nil && t.N > 0 && (k.I < 0 || k.I > int64(t.N)) {
			c.warnf(x.Index, "index %d is outside of an array of %d", k.I, t.N)
		}
		q := t.Of
		if q.Space == types.NoSpace {
			q.Space = b.Type().Space
		}
		q.Const = q.Const || b.Type().Const
		n.T, n.LV = q, b.Lvalue()
	case types.Vector, types.PackedVector:
		if k := iv.Const(); k != nil && (k.I < 0 || k.I >= int64(t.N)) {
			c.errorf(x.Index, "index %d is outside of '%s'", k.I, t)
			return c.bad(x)
		}
		n.T, n.LV = b.Type(), b.Lvalue()
		n.T.T = types.Scalar(t.Elem)
	case types.Matrix:
		if k := iv.Const(); k != nil && (k.I < 0 || k.I >= int64(t.N)) {
			c.errorf(x.Index, "column %d is outside of '%s'", k.I, t)
			return c.bad(x)
		}
		n.T, n.LV = b.Type(), b.Lvalue()
		n.T.T = t.Column()
	default:
		c.errorf(x, "'%s' can't be indexed", t)
		return c.bad(x)
	}
	return &IndexExpr{n, b, iv}
}

func (c *checker) incDec(s *scope, x ast.Expr, op string, post bool, at ast.Node) Expr {
	e := c.expr(s, x)
	if isBad(e) {
		return c.bad(at)
	}
	args := []Expr{e}
	if post {
		args = append(args, &ConstExpr{Node{T: types.Q(types.IntType), Val: &Value{}, Where: e.Pos()}})
	}
	if r, done := c.userOperator(s, op, args, at); done {
		return r
	}
	t := e.Type().T
	if !c.modifiable(e, at) {
		return c.bad(at)
	}
	if !(t.IsScalar() && t.Kind != types.Bool) && !t.IsVector() && t.Kind != types.Pointer {
		c.errorf(at, "operator %s on '%s': expected a number or pointer", op, t)
		return c.bad(at)
	}
	n := Node{T: e.Type(), LV: !post, Where: at.Span().Start}
	if post {
		n.T = types.Q(t)
	}
	return &IncDec{n, e, op == "--", post}
}

// modifiable reports an lvalue that can't be written.
func (c *checker) modifiable(e Expr, at ast.Node) bool {
	if isBad(e) {
		return false
	}
	q := e.Type()
	switch {
	case !e.Lvalue():
		c.errorf(at, "expression of type '%s' is not assignable: it is not an lvalue", q)
		return false
	case q.Space == types.Constant:
		c.errorf(at, "assignment through constant address space: '%s' is read-only", describe(e))
		return false
	case q.Const:
		c.errorf(at, "assignment to const: '%s' is read-only", describe(e))
		return false
	}
	if sw, ok := e.(*Swizzle); ok {
		seen := [4]bool{}
		for _, k := range sw.Comps {
			if seen[k] {
				c.errorf(at, "assignment to a swizzle that repeats a component")
				return false
			}
			seen[k] = true
		}
	}
	return true
}

// describe names an lvalue for messages.
func describe(e Expr) string {
	switch e := e.(type) {
	case *VarRef:
		return e.Var.Name
	case *FieldExpr:
		return describe(e.X) + "." + e.Field.Name
	case *IndexExpr:
		return describe(e.X) + "[]"
	case *Deref:
		return "*" + describe(e.X)
	case *PtrAdd:
		return describe(e.P)
	case *Load:
		return describe(e.X)
	case *Convert:
		return describe(e.X)
	case *Swizzle:
		return describe(e.X)
	}
	return e.Type().String()
}
