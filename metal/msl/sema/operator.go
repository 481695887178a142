package sema

import (
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
