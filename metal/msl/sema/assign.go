package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

func (c *checker) assign(s *scope, x *ast.AssignExpr) Expr {
	l := c.expr(s, x.X)
	if isBad(l) {
		c.expr(s, x.Y)
		return c.bad(x)
	}
	if x.Op == "=" {
		return c.assignPlain(s, l, x)
	}
	r := c.expr(s, x.Y)
	if isBad(r) {
		return c.bad(x)
	}
	if e, done := c.compoundOperator(s, x, l, r); done {
		return e
	}
	if !c.modifiable(l, x.X) {
		return c.bad(x)
	}
	op := binaryOps[x.Op[:len(x.Op)-1]]
	lt := valueType(l)
	n := Node{T: l.Type(), LV: true, Where: x.Start}
	a := &Assign{Node: n, L: l, Compound: true, Op: op, OpType: lt}
	if lt.Kind == types.Pointer {
		v := c.rvalue(r)
		if op != Add && op != Sub || !v.Type().T.IsInteger() || lt.Of.T.Kind != types.Void && !c.needComplete(lt.Of.T, x.Span()) {
			c.errorf(x, "operator %s on '%s' and '%s'", x.Op, lt, v.Type().T)
			return c.bad(x)
		}
		a.R = v
		return a
	}
	res := c.binary(s, op.String(), &Load{Node{T: l.Type().Bare(), Where: l.Pos()}, l}, r, x)
	if isBad(res) {
		return res
	}
	b, ok := res.(*Binary)
	if !ok {
		c.errorf(x, "operator %s on '%s'", x.Op, lt)
		return c.bad(x)
	}
	a.R, a.Op, a.OpType = b.R, b.Op, b.L.Type().T
	if lt.Kind == types.Matrix {
		a.OpType = lt
	}
	if lt.Kind == types.Vector && b.R.Type().T.Kind == types.Matrix {
		a.OpType = lt
	}
	if a.OpType.Kind == types.Vector && !lt.IsVector() {
		c.errorf(x, "operator %s: no implicit conversion from '%s' to '%s'", x.Op, a.OpType, lt)
		return c.bad(x)
	}
	if !types.Identical(b.T.T, lt) {
		if _, rk := c.implicit(&badExpr{Node{T: b.T}}, types.Q(lt), false); rk == rankNone {
			c.errorf(x, "operator %s: no implicit conversion from '%s' to '%s'%s", x.Op, b.T, lt, c.whyNot(b, types.Q(lt)))
			return c.bad(x)
		}
	}
	return a
}

// compoundOperator resolves a user's compound assignment.
func (c *checker) compoundOperator(s *scope, x *ast.AssignExpr, l, r Expr) (Expr, bool) {
	if l.Type().T.Kind != types.Struct && r.Type().T.Kind != types.Struct {
		return nil, false
	}
	if l.Type().T.Kind != types.Struct {
		to := valueType(l)
		if to.Kind == types.Pointer {
			to = types.LongType
		}
		v, rk := c.implicit(r, types.Q(to), true)
		if rk == rankNone {
			return c.userOperator(s, x.Op, []Expr{l, r}, x)
		}
		if !c.modifiable(l, x.X) {
			return c.bad(x), true
		}
		return &Assign{Node: Node{T: l.Type(), LV: true, Where: x.Start}, L: l, R: v, Compound: true, Op: binaryOps[x.Op[:len(x.Op)-1]], OpType: valueType(l)}, true
	}
	return c.userOperator(s, x.Op, []Expr{l, r}, x)
}

func (c *checker) assignPlain(s *scope, l Expr, x *ast.AssignExpr) Expr {
	lt := l.Type().T
	if lt.Kind == types.Struct {
		r := recordOf(lt)
		if r != nil && c.completeType(lt, x.Span()) {
			if y := c.lookupRecord(r, "operator="); y != nil && y.kind == symFunc {
				var arg Expr
				if il, ok := x.Y.(*ast.InitList); ok {
					arg = c.initList(s, types.Q(lt), il)
				} else {
					arg = c.expr(s, x.Y)
				}
				if isBad(arg) {
					return c.bad(x)
				}
				q := &callReq{name: "operator=", fns: y.fns, this: l, args: []Expr{arg}, at: x.Span(), quiet: arg.Type().T == lt}
				var k *cand
				t := c.trap(func() { k = c.pick(q) })
				if k != nil && !k.d.ast.Default {
					return c.callCand(k, q)
				}
				if arg.Type().T != lt {
					c.sink.diags = append(c.sink.diags, t.diags...)
					c.sink.errs += t.errs
					if t.errs > 0 {
						return c.bad(x)
					}
				}
			}
		}
	}
	if lt.Kind == types.Array {
		c.errorf(x, "arrays are not assignable")
		return c.bad(x)
	}
	if !c.modifiable(l, x.X) {
		c.expr(s, x.Y)
		return c.bad(x)
	}
	r, ok := c.initWhat(s, types.Q(lt), x.Y, "assignment")
	if !ok {
		return c.bad(x)
	}
	return &Assign{Node: Node{T: l.Type(), LV: true, Where: x.Start}, L: l, R: r}
}

func (c *checker) cond(s *scope, x *ast.CondExpr) Expr {
	cv := c.expr(s, x.Cond)
	if !isBad(cv) && valueType(cv).IsVector() {
		c.errorf(x.Cond, "condition of ?: has type '%s', expected a scalar bool: use select()", valueType(cv))
		return c.bad(x)
	}
	cc := c.toBool(cv, x.Cond)
	a, b := c.expr(s, x.Then), c.expr(s, x.Else)
	if isBad(cc) || isBad(a) || isBad(b) {
		return c.bad(x)
	}
	n := Node{Where: x.Start}
	if a.Lvalue() && b.Lvalue() && types.IdenticalQ(a.Type(), b.Type()) && !isSwizzleOfMany(a) && !isSwizzleOfMany(b) && a.Type().T.Kind != types.Array && a.Type().T.Kind != types.PackedVector {
		n.T, n.LV = a.Type(), true
		return &Cond{n, cc, a, b}
	}
	at, bt := valueType(a), valueType(b)
	if at.Kind == types.Void && bt.Kind == types.Void {
		n.T = types.Q(types.VoidType)
		return &Cond{n, cc, a, b}
	}
	if _, ok := a.(*listExpr); ok {
		c.errorf(x, "'{' is not an operand")
		return c.bad(x)
	}
	switch {
	case at.Kind == types.Struct || bt.Kind == types.Struct:
		if at == bt {
			a, b = c.rvalue(a), c.rvalue(b)
			break
		}
		if v, r := c.implicit(b, types.Q(at), true); r != rankNone {
			a, b = c.rvalue(a), v
		} else if v, r := c.implicit(a, types.Q(bt), true); r != rankNone {
			a, b = v, c.rvalue(b)
		} else {
			c.errorf(x, "operands of ?: have types '%s' and '%s'", at, bt)
			return c.bad(x)
		}
	case isPtr(at) || isPtr(bt):
		a, b = c.rvalue(a), c.rvalue(b)
		var to types.Qual
		at, bt = a.Type().T, b.Type().T
		switch {
		case at.Kind == types.Pointer && bt.Kind == types.Pointer && types.Identical(at.Of.T, bt.Of.T) && types.SameSpace(at.Of.Space, bt.Of.Space):
			q := at.Of
			q.Const, q.Volatile = q.Const || bt.Of.Const, q.Volatile || bt.Of.Volatile
			to = types.Q(types.PointerTo(q))
		case at.Kind == types.Pointer:
			to = types.Q(at)
		default:
			to = types.Q(bt)
		}
		a, b = c.coerce(a, to, "operand of ?:", x.Then), c.coerce(b, to, "operand of ?:", x.Else)
		if isBad(a) || isBad(b) {
			return c.bad(x)
		}
	case at.Kind == types.Enum && at == bt, at.Kind == types.Matrix && at == bt, at.Kind == types.SgMatrix && at == bt:
		a, b = c.rvalue(a), c.rvalue(b)
	default:
		if valueType(a).Kind == types.Void || valueType(b).Kind == types.Void {
			c.errorf(x, "operands of ?: have types '%s' and '%s'", at, bt)
			return c.bad(x)
		}
		if at == bt && at.IsScalar() {
			a, b = c.rvalue(a), c.rvalue(b)
			break
		}
		var ok bool
		if a, b, ok = c.arith(a, b, "?:", x); !ok {
			return c.bad(x)
		}
	}
	n.T = a.Type().Bare()
	if v := cc.Const(); v != nil {
		pick := b
		if v.I != 0 {
			pick = a
		}
		n.Val = pick.Const()
	}
	return fold(&Cond{n, cc, a, b})
}

func isPtr(t *types.Type) bool {
	return t.Kind == types.Pointer || t.Kind == types.Array || t.Kind == types.NullPtr
}
