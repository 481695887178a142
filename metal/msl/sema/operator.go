package sema

import (
	"math"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

var binaryOps = map[string]BinaryOp{
	"+": Add, "-": Sub, "*": Mul, "/": Div, "%": Rem, "&": BitAnd, "|": BitOr, "^": BitXor, "<<": Shl, ">>": Shr,
	"==": Eq, "!=": Ne, "<": Lt, "<=": Le, ">": Gt, ">=": Ge, "&&": LAnd, "||": LOr,
}

func (o BinaryOp) isCompare() bool { return o >= Eq && o <= Ge }

// userOperator resolves an operator with an operand of class or enum type; done is false
// where the built-in one applies.
func (c *checker) userOperator(s *scope, op string, args []Expr, at ast.Node) (Expr, bool) {
	class := false
	for _, a := range args {
		k := a.Type().T.Kind
		class = class || k == types.Struct || k == types.Enum
	}
	if !class {
		return nil, false
	}
	name := "operator" + op
	var fns []*fnDecl
	var best *cand
	req := &callReq{name: name, args: args, at: at.Span(), quiet: true}
	if args[0].Type().T.Kind == types.Struct {
		r := recordOf(args[0].Type().T)
		if r != nil {
			c.completeType(r.t, at.Span())
			if y := c.lookupRecord(r, name); y != nil && y.kind == symFunc {
				fns = append(fns, y.fns...)
			}
		}
	}
	if len(fns) > 0 {
		m := *req
		m.fns, m.this, m.args = fns, args[0], args[1:]
		c.trap(func() { best = c.pick(&m) })
		if best != nil {
			req = &m
		}
	}
	if op != "[]" && op != "()" && op != "=" {
		var free []*fnDecl
		for sc := s; sc != nil; sc = sc.parent {
			if sc.kind == recordScope {
				continue
			}
			if y := c.lookupIn(sc, name); y != nil && y.kind == symFunc {
				free = y.fns
				break
			}
		}
		free = c.withADL(free, name, args)
		if len(free) > 0 {
			f := *req
			f.fns, f.this, f.args = free, nil, args
			var k *cand
			c.trap(func() { k = c.pick(&f) })
			if k != nil && (best == nil || c.better(k, best, &f)) {
				best, req = k, &f
			}
		}
	}
	if best != nil {
		return c.callCand(best, req), true
	}
	if args[0].Type().T.Kind == types.Struct || len(args) > 1 && args[1].Type().T.Kind == types.Struct {
		if x, ok := c.builtinByConversion(s, op, args, at); ok {
			return x, true
		}
		if len(args) > 1 {
			c.errorf(at, "operator %s on '%s' and '%s': no such operator", op, args[0].Type(), args[1].Type())
		} else {
			c.errorf(at, "operator %s on '%s': no such operator", op, args[0].Type())
		}
		return c.bad(at), true
	}
	return nil, false
}

// builtinByConversion tries the built-in operator after converting class operands by
// their conversion operators.
func (c *checker) builtinByConversion(s *scope, op string, args []Expr, at ast.Node) (Expr, bool) {
	if op == "=" || op == "[]" || op == "&" && len(args) == 1 || len(op) > 1 && op[len(op)-1] == '=' && !binaryOps[op].isCompare() {
		return nil, false
	}
	conv := make([]Expr, len(args))
	for i, a := range args {
		conv[i] = a
		if a.Type().T.Kind != types.Struct {
			continue
		}
		var hit []Expr
		for _, k := range []*types.Type{types.FloatType, types.BoolType, types.IntType, types.UIntType, types.LongType, types.ULongType, types.HalfType, types.BFloatType} {
			var x Expr
			ok := false
			c.trap(func() {
				if f := c.exactConv(a, k); f != nil {
					x, ok = c.finishCall(f, c.thisArg(f, a), nil, at.Span()), true
				}
			})
			if ok {
				hit = append(hit, x)
			}
		}
		if len(hit) != 1 {
			// A template operator T gives anything: take the other operand's type.
			if len(args) == 2 && valueType(args[1-i]).IsScalar() {
				x, r := c.implicit(a, types.Q(valueType(args[1-i])), true)
				if r == rankNone {
					return nil, false
				}
				conv[i] = x
				continue
			}
			x, r := c.implicit(a, types.Q(types.FloatType), true)
			if r == rankNone {
				return nil, false
			}
			conv[i] = x
			continue
		}
		conv[i] = hit[0]
	}
	if len(conv) == 2 {
		return c.binary(s, op, conv[0], conv[1], at), true
	}
	switch op {
	case "!":
		b := c.toBool(conv[0], at)
		return &Unary{Node{T: types.Q(types.BoolType), Where: at.Span().Start}, Not, b}, true
	case "-":
		v := c.promote(c.rvalue(conv[0]))
		return &Unary{Node{T: v.Type(), Where: at.Span().Start}, Neg, v}, true
	}
	return nil, false
}

// exactConv finds a conversion operator, not a template, to exactly the type.
func (c *checker) exactConv(e Expr, t *types.Type) *Func {
	for r := recordOf(e.Type().T); r != nil; r = r.base {
		for _, d := range r.convs {
			if d.tparams != nil || d.explicit {
				continue
			}
			if f := c.sigOf(d); f != nil && f.Result.T == t && c.thisFits(f, e) {
				return f
			}
		}
	}
	return nil
}

// arith brings two operands to their common type by the rules for arithmetic. what is the
// operator, for messages.
func (c *checker) arith(l, r Expr, what string, at ast.Node) (Expr, Expr, bool) {
	l, r = c.rvalue(l), c.rvalue(r)
	lt, rt := l.Type().T, r.Type().T
	fail := func(why string) (Expr, Expr, bool) {
		c.errorf(at, "operator %s on '%s' and '%s'%s", what, lt, rt, why)
		return nil, nil, false
	}
	if lt.Kind == types.Enum && !lt.Scoped {
		l = c.numeric(l, lt.Under)
		lt = lt.Under
	}
	if rt.Kind == types.Enum && !rt.Scoped {
		r = c.numeric(r, rt.Under)
		rt = rt.Under
	}
	switch {
	case lt.IsScalar() && rt.IsScalar():
		t := commonScalar(lt.Kind, rt.Kind)
		if t == nil {
			return fail(": half and bfloat don't mix, one must be cast")
		}
		return c.numeric(l, t), c.numeric(r, t), true
	case lt.Kind == types.Vector && rt.Kind == types.Vector:
		if lt != rt {
			return fail(": vectors of different types, one must be converted explicitly")
		}
		return l, r, true
	case lt.Kind == types.Vector && rt.IsScalar():
		return l, c.convertNode(r, lt, stepSplat), true
	case rt.Kind == types.Vector && lt.IsScalar():
		return c.convertNode(l, rt, stepSplat), r, true
	}
	return fail(": expected numbers")
}

// commonScalar is the type of scalar arithmetic; nil for half with bfloat.
func commonScalar(a, b types.Kind) *types.Type {
	if a.IsFloat() || b.IsFloat() {
		switch {
		case a == b:
			return types.Scalar(a)
		case !a.IsFloat():
			return types.Scalar(b)
		case !b.IsFloat():
			return types.Scalar(a)
		case a == types.Float || b == types.Float:
			return types.FloatType
		}
		return nil
	}
	a, b = max(a, types.Int), max(b, types.Int)
	if a == b {
		return types.Scalar(a)
	}
	// int < uint < long < ulong, as each is able to hold the one before or is its
	// unsigned form.
	return types.Scalar(max(a, b))
}

func (c *checker) binary(s *scope, op string, l, r Expr, at ast.Node) Expr {
	if _, ok := l.(*listExpr); ok {
		c.errorf(at, "'{' is not an operand")
		return c.bad(at)
	}
	if x, done := c.userOperator(s, op, []Expr{l, r}, at); done {
		return x
	}
	if l.Type().T.Kind == types.SgMatrix && op == "*" {
		if y := c.metal.own("operator*"); y != nil && y.kind == symFunc {
			return c.callExpr(&overloadSet{Node: Node{T: types.Q(types.VoidType), Where: at.Span().Start}, name: y.name, fns: y.fns, scope: s}, []Expr{l, r}, at)
		}
	}
	o, ok := binaryOps[op]
	if !ok {
		c.errorf(at, "operator %s is not supported", op)
		return c.bad(at)
	}
	switch o {
	case LAnd, LOr:
		return c.logical(o, l, r, at)
	case Shl, Shr:
		return c.shift(o, l, r, at)
	}
	lt, rt := valueType(l), valueType(r)
	lp := lt.Kind == types.Pointer || lt.Kind == types.Array || lt.Kind == types.NullPtr
	rp := rt.Kind == types.Pointer || rt.Kind == types.Array || rt.Kind == types.NullPtr
	if lp || rp {
		return c.pointerOp(o, l, r, at)
	}
	if lt.Kind == types.Matrix || rt.Kind == types.Matrix {
		return c.matrixOp(o, l, r, at)
	}
	if lt.Kind == types.Enum && lt == rt && lt.Scoped && o.isCompare() {
		l, r = c.numeric(c.rvalue(l), lt.Under), c.numeric(c.rvalue(r), lt.Under)
	}
	a, b, ok := c.arith(l, r, op, at)
	if !ok {
		return c.bad(at)
	}
	t := a.Type().T
	k := t.ScalarKind()
	switch o {
	case Rem, BitAnd, BitOr, BitXor:
		if !k.IsInteger() {
			hint := ""
			if o == Rem {
				hint = ": use fmod"
			}
			c.errorf(at, "operator %s on '%s', expected integers%s", op, t, hint)
			return c.bad(at)
		}
	}
	n := Node{T: types.Q(t), Where: at.Span().Start}
	if o.isCompare() {
		n.T = types.Q(types.Vec(types.Bool, t.Lanes()))
	}
	if (o == Div || o == Rem) && k.IsInteger() && b.Const() != nil && len(b.Const().Elems) == 0 && b.Const().I == 0 && t.IsScalar() {
		c.warnf(at, "division by zero")
	}
	n.Val = foldBinary(o, a, b, n.T.T)
	return fold(&Binary{n, o, a, b})
}

func (c *checker) logical(o BinaryOp, l, r Expr, at ast.Node) Expr {
	lt, rt := valueType(l), valueType(r)
	if lt.Kind == types.Vector || rt.Kind == types.Vector {
		n := max(lt.Lanes(), rt.Lanes())
		bt := types.Vec(types.Bool, n)
		var side [2]Expr
		for i, e := range []Expr{l, r} {
			v := c.rvalue(e)
			switch t := v.Type().T; {
			case t.Kind == types.Vector && t.N == n:
				side[i] = c.numeric(v, bt)
			case t.IsScalar():
				side[i] = c.convertNode(v, bt, stepSplat)
			default:
				c.errorf(at, "operator %s on '%s' and '%s'", o, lt, rt)
				return c.bad(at)
			}
		}
		op := BitAnd
		if o == LOr {
			op = BitOr
		}
		return &Binary{Node{T: types.Q(bt), Where: at.Span().Start}, op, side[0], side[1]}
	}
	a, b := c.toBool(l, at), c.toBool(r, at)
	if isBad(a) || isBad(b) {
		return c.bad(at)
	}
	n := Node{T: types.Q(types.BoolType), Where: at.Span().Start}
	if v := a.Const(); v != nil {
		if (v.I != 0) == (o == LOr) {
			n.Val = v
			return &ConstExpr{n}
		}
		if b.Const() != nil {
			n.Val = b.Const()
			return &ConstExpr{n}
		}
	}
	return &Binary{n, o, a, b}
}

func (c *checker) shift(o BinaryOp, l, r Expr, at ast.Node) Expr {
	a, b := c.promote(c.rvalue(l)), c.promote(c.rvalue(r))
	at1, bt := a.Type().T, b.Type().T
	if !at1.ScalarKind().IsInteger() || !bt.ScalarKind().IsInteger() || at1.Kind == types.Matrix || at1.Kind == types.Enum || bt.Kind == types.Enum {
		c.errorf(at, "operator %s on '%s' and '%s', expected integers", o, at1, bt)
		return c.bad(at)
	}
	switch {
	case at1.Kind == types.Vector && bt.Kind == types.Vector && at1.N != bt.N, at1.IsScalar() && bt.Kind == types.Vector:
		c.errorf(at, "operator %s on '%s' and '%s': widths differ", o, at1, bt)
		return c.bad(at)
	case at1.Kind == types.Vector && bt.IsScalar():
		b = c.convertNode(b, at1, stepSplat)
	}
	n := Node{T: types.Q(at1), Where: at.Span().Start}
	n.Val = foldBinary(o, a, b, at1)
	return fold(&Binary{n, o, a, b})
}

func (c *checker) pointerOp(o BinaryOp, l, r Expr, at ast.Node) Expr {
	a, b := c.rvalue(l), c.rvalue(r)
	lt, rt := a.Type().T, b.Type().T
	n := Node{Where: at.Span().Start}
	fail := func(why string) Expr {
		c.errorf(at, "operator %s on '%s' and '%s'%s", o, lt, rt, why)
		return c.bad(at)
	}
	isInt := func(e Expr) bool { return e.Type().T.IsInteger() }
	switch {
	case o == Add && rt.Kind == types.Pointer && isInt(a):
		a, b, lt, rt = b, a, rt, lt
		fallthrough
	case (o == Add || o == Sub) && lt.Kind == types.Pointer && isInt(b):
		if lt.Of.T.Kind == types.Function || lt.Of.T.Kind != types.Void && !c.needComplete(lt.Of.T, at.Span()) {
			return fail("")
		}
		n.T = types.Q(lt)
		return &PtrAdd{n, a, b, o == Sub}
	case o == Sub && lt.Kind == types.Pointer && rt.Kind == types.Pointer:
		if !types.Identical(lt.Of.T, rt.Of.T) || !types.SameSpace(lt.Of.Space, rt.Of.Space) {
			return fail(": pointers to different types")
		}
		n.T = types.Q(types.LongType)
		return &PtrDiff{n, a, b}
	case o.isCompare():
		switch {
		case lt.Kind == types.NullPtr && rt.Kind == types.NullPtr:
			n.T, n.Val = types.Q(types.BoolType), boolValue(o == Eq || o == Le || o == Ge)
			return &ConstExpr{n}
		case lt.Kind == types.NullPtr || isZeroLiteral(a):
			a = c.convertNode(a, rt, stepNull)
		case rt.Kind == types.NullPtr || isZeroLiteral(b):
			b = c.convertNode(b, lt, stepNull)
		case lt.Kind != types.Pointer || rt.Kind != types.Pointer:
			return fail("")
		case !types.SameSpace(lt.Of.Space, rt.Of.Space):
			return fail(": address spaces differ")
		case !types.Identical(lt.Of.T, rt.Of.T) && lt.Of.T.Kind != types.Void && rt.Of.T.Kind != types.Void:
			return fail(": pointers to different types")
		}
		n.T = types.Q(types.BoolType)
		return &Binary{n, o, a, b}
	}
	return fail("")
}

func (c *checker) matrixOp(o BinaryOp, l, r Expr, at ast.Node) Expr {
	a, b := c.rvalue(l), c.rvalue(r)
	lt, rt := a.Type().T, b.Type().T
	n := Node{Where: at.Span().Start}
	switch {
	case o == Add || o == Sub:
		if lt == rt {
			n.T = types.Q(lt)
			return &Binary{n, o, a, b}
		}
	case o == Eq || o == Ne:
		if lt == rt {
			n.T = types.Q(types.BoolType)
			return &Binary{n, o, a, b}
		}
	case o == Mul:
		switch {
		case lt.Kind == types.Matrix && rt.Kind == types.Matrix && lt.Elem == rt.Elem && lt.N == rt.Rows:
			n.T = types.Q(types.Mat(lt.Elem, rt.N, lt.Rows))
			return &Binary{n, o, a, b}
		case lt.Kind == types.Matrix && rt.Kind == types.Vector && rt.Elem == lt.Elem && rt.N == lt.N:
			n.T = types.Q(lt.Column())
			return &Binary{n, o, a, b}
		case rt.Kind == types.Matrix && lt.Kind == types.Vector && lt.Elem == rt.Elem && lt.N == rt.Rows:
			n.T = types.Q(types.Vec(rt.Elem, rt.N))
			return &Binary{n, o, a, b}
		case lt.Kind == types.Matrix && rt.IsScalar():
			n.T = types.Q(lt)
			return &Binary{n, o, a, c.numeric(b, types.Scalar(lt.Elem))}
		case rt.Kind == types.Matrix && lt.IsScalar():
			n.T = types.Q(rt)
			return &Binary{n, o, b, c.numeric(a, types.Scalar(rt.Elem))}
		}
	}
	c.errorf(at, "operator %s on '%s' and '%s'", o, lt, rt)
	return c.bad(at)
}

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
	if a.Lvalue() && b.Lvalue() && types.IdenticalQ(a.Type(), b.Type()) && a.Type().T.Kind != types.Array && a.Type().T.Kind != types.PackedVector {
		n.T, n.LV = a.Type(), true
		return &Cond{n, cc, a, b}
	}
	at, bt := valueType(a), valueType(b)
	if at.Kind == types.Void && bt.Kind == types.Void {
		n.T = types.Q(types.VoidType)
		return &Cond{n, cc, a, b}
	}
	if la, ok := a.(*listExpr); ok {
		_ = la
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

// foldUnary computes a unary operator on a constant scalar.
func foldUnary(op UnaryOp, e Expr) *Value {
	v, t := e.Const(), e.Type().T
	if v == nil || !t.IsScalar() {
		return nil
	}
	switch op {
	case Neg:
		if t.IsFloat() {
			return &Value{F: -v.F}
		}
		return &Value{I: wrapInt(-v.I, t.Kind)}
	case BitNot:
		return &Value{I: wrapInt(^v.I, t.Kind)}
	}
	return v
}

// foldBinary computes a binary operator on constant scalars of one type; nil if it
// has no value.
func foldBinary(o BinaryOp, l, r Expr, res *types.Type) *Value {
	a, b := l.Const(), r.Const()
	t := l.Type().T
	if a == nil || b == nil || !t.IsScalar() {
		return nil
	}
	return binaryValue(o, a, b, t.Kind, r.Type().T.Kind)
}

// binaryValue computes on scalars of kind k; rk is the kind of a shift's count.
func binaryValue(o BinaryOp, a, b *Value, k, rk types.Kind) *Value {
	if k.IsFloat() {
		x, y := a.F, b.F
		switch o {
		// float64 holds sums, products, quotients of these formats well enough that the second
		// rounding changes nothing (53 >= 2*24+2).
		case Add:
			return &Value{F: roundFloat(x+y, k)}
		case Sub:
			return &Value{F: roundFloat(x-y, k)}
		case Mul:
			return &Value{F: roundFloat(x*y, k)}
		case Div:
			return &Value{F: roundFloat(x/y, k)}
		case Eq:
			return boolValue(x == y)
		case Ne:
			return boolValue(x != y)
		case Lt:
			return boolValue(x < y)
		case Le:
			return boolValue(x <= y)
		case Gt:
			return boolValue(x > y)
		case Ge:
			return boolValue(x >= y)
		}
		return nil
	}
	x, y := a.I, b.I
	unsigned := !k.IsSigned()
	cmp := 0
	switch {
	case unsigned && uint64(x) < uint64(y), !unsigned && x < y:
		cmp = -1
	case x != y:
		cmp = 1
	}
	bits := int64(max(k.Size(), 1) * 8)
	switch o {
	case Add:
		return &Value{I: wrapInt(x+y, k)}
	case Sub:
		return &Value{I: wrapInt(x-y, k)}
	case Mul:
		return &Value{I: wrapInt(x*y, k)}
	case Div, Rem:
		if y == 0 {
			return nil
		}
		if unsigned {
			if o == Div {
				return &Value{I: wrapInt(int64(uint64(x)/uint64(y)), k)}
			}
			return &Value{I: wrapInt(int64(uint64(x)%uint64(y)), k)}
		}
		if x == math.MinInt64 && y == -1 {
			if o == Div {
				return &Value{I: x}
			}
			return &Value{}
		}
		if o == Div {
			return &Value{I: wrapInt(x/y, k)}
		}
		return &Value{I: wrapInt(x%y, k)}
	case BitAnd:
		return &Value{I: wrapInt(x&y, k)}
	case BitOr:
		return &Value{I: wrapInt(x|y, k)}
	case BitXor:
		return &Value{I: wrapInt(x^y, k)}
	case Shl:
		return &Value{I: wrapInt(x<<uint64(y&(bits-1)), k)}
	case Shr:
		if unsigned {
			return &Value{I: wrapInt(int64(uint64(x)>>uint64(y&(bits-1))), k)}
		}
		return &Value{I: wrapInt(x>>uint64(y&(bits-1)), k)}
	case Eq:
		return boolValue(cmp == 0)
	case Ne:
		return boolValue(cmp != 0)
	case Lt:
		return boolValue(cmp < 0)
	case Le:
		return boolValue(cmp <= 0)
	case Gt:
		return boolValue(cmp > 0)
	case Ge:
		return boolValue(cmp >= 0)
	}
	return nil
}
