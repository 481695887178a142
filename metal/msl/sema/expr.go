package sema

import (
	"math"
	"strconv"
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// expr checks an expression. It may be an lvalue, and an overloadSet where the name
// of functions stands.
func (c *checker) expr(s *scope, x ast.Expr) Expr {
	if x == nil {
		return &badExpr{Node{T: invalidQ}}
	}
	if !c.enter(x.Span()) {
		return c.bad(x)
	}
	defer c.leave()
	switch x := x.(type) {
	case *ast.ParenExpr:
		return c.expr(s, x.X)
	case *ast.IntLit:
		return c.intLit(x)
	case *ast.FloatLit:
		return c.floatLit(x)
	case *ast.BoolLit:
		return &ConstExpr{Node{T: types.Q(types.BoolType), Val: boolValue(x.Value), Where: x.Start}}
	case *ast.CharLit:
		return &ConstExpr{Node{T: types.Q(types.CharType), Val: &Value{I: int64(int8(x.Value))}, Where: x.Start}}
	case *ast.StringLit:
		return &StringLit{Node{T: types.Q(types.PointerTo(types.Q(types.CharType).AsConst().In(types.Constant))), Where: x.Start}, x.Value}
	case *ast.NullLit:
		return &ConstExpr{Node{T: types.Q(types.NullPtrType), Val: &Value{}, Where: x.Start}}
	case *ast.NameExpr:
		return c.nameExpr(s, x)
	case *ast.ThisExpr:
		if s.this == nil {
			c.errorf(x, "'this' outside of a method")
			return c.bad(x)
		}
		of := s.this.Type.T.Of
		ref := &VarRef{Node{T: of, LV: true, Where: x.Start}, s.this}
		return &AddrOf{Node{T: types.Q(types.PointerTo(of)), Where: x.Start}, ref}
	case *ast.UnaryExpr:
		return c.unary(s, x)
	case *ast.PostfixExpr:
		return c.incDec(s, x.X, x.Op, true, x)
	case *ast.BinaryExpr:
		if x.Op == "," {
			l := c.discard(c.expr(s, x.X))
			r := c.expr(s, x.Y)
			if isBad(l) || isBad(r) {
				return c.bad(x)
			}
			return &Comma{Node{T: r.Type(), LV: r.Lvalue(), Where: x.Start}, l, r}
		}
		l, r := c.expr(s, x.X), c.expr(s, x.Y)
		if isBad(l) || isBad(r) {
			return c.bad(x)
		}
		return c.binary(s, x.Op, l, r, x)
	case *ast.AssignExpr:
		return c.assign(s, x)
	case *ast.CondExpr:
		return c.cond(s, x)
	case *ast.CallExpr:
		return c.call(s, x)
	case *ast.ConstructExpr:
		q := c.typ(s, x.Type)
		if bad(q) {
			return c.bad(x)
		}
		return c.construct(s, q, x.Args, x.Braces, x)
	case *ast.IndexExpr:
		return c.index(s, x)
	case *ast.MemberExpr:
		return c.member(s, x)
	case *ast.CastExpr:
		q := c.typ(s, x.Type)
		if bad(q) {
			return c.bad(x)
		}
		if l, ok := x.X.(*ast.InitList); ok {
			return c.initList(s, q, l)
		}
		return c.cast(q, c.expr(s, x.X), castC, x)
	case *ast.NamedCastExpr:
		return c.namedCast(s, x)
	case *ast.SizeofExpr:
		return c.sizeof(s, x)
	case *ast.SizeofPackExpr:
		y := c.lookup(s, x.Name.Name)
		if y == nil || y.kind != symPack {
			c.errorf(x, "'%s' is not a parameter pack", x.Name.Name)
			return c.bad(x)
		}
		return &ConstExpr{Node{T: types.Q(types.ULongType), Val: &Value{I: int64(len(y.pack))}, Where: x.Start}}
	case *ast.FoldExpr:
		return c.fold(s, x)
	case *ast.InitList:
		return &listExpr{Node: Node{T: types.Q(types.VoidType), Where: x.Start}, list: x, scope: s}
	case *ast.LambdaExpr:
		return c.lambda(s, x)
	case *ast.BadExpr:
		c.sink.errs++
		return c.bad(x)
	case *ast.TypeExpr:
		c.errorf(x, "a type is not an expression")
		return c.bad(x)
	case *ast.PackExpr:
		c.errorf(x, "'...' is not allowed here")
		return c.bad(x)
	}
	c.errorf(x, "this form of expression is not supported")
	return c.bad(x)
}

func (c *checker) intLit(x *ast.IntLit) Expr {
	t := types.IntType
	v := x.Value
	switch {
	case x.Long > 0 && (x.Unsigned || v > math.MaxInt64):
		t = types.ULongType
	case x.Long > 0:
		t = types.LongType
	case x.Unsigned && v <= math.MaxUint32:
		t = types.UIntType
	case x.Unsigned:
		t = types.ULongType
	case v <= math.MaxInt32:
	case x.Base != 10 && v <= math.MaxUint32:
		t = types.UIntType
	case v <= math.MaxInt64:
		t = types.LongType
	default:
		t = types.ULongType
	}
	return &ConstExpr{Node{T: types.Q(t), Val: &Value{I: int64(v)}, Where: x.Start}}
}

func (c *checker) floatLit(x *ast.FloatLit) Expr {
	t := types.FloatType
	switch strings.ToLower(x.Suffix) {
	case "h":
		t = types.HalfType
	case "bf":
		t = types.BFloatType
	}
	// Decimal text is rounded once, to float; half and bfloat come from the double, as
	// their literals do.
	var f float64
	if t == types.FloatType {
		v, err := strconv.ParseFloat(x.Text, 32)
		if err != nil && !math.IsInf(v, 0) {
			c.errorf(x, "malformed number '%s'", x.Text)
			return c.bad(x)
		}
		f = v
	} else {
		v, err := strconv.ParseFloat(x.Text, 64)
		if err != nil && !math.IsInf(v, 0) {
			c.errorf(x, "malformed number '%s'", x.Text)
			return c.bad(x)
		}
		f = roundFloat(v, t.Kind)
	}
	return &ConstExpr{Node{T: types.Q(t), Val: &Value{F: f}, Where: x.Start}}
}

// varRef names a variable.
func (c *checker) varRef(v *Var, at source.Pos) Expr {
	q := v.Type
	if bad(q) {
		return &badExpr{Node{T: invalidQ, Where: at}}
	}
	if q.T.Kind == types.Reference {
		return &VarRef{Node{T: q.T.Of, LV: true, Where: at}, v}
	}
	if q.Space == types.NoSpace {
		switch v.Kind {
		case LocalVar, ParamVar:
			q.Space = types.Thread
		case ThreadgroupVar:
			q.Space = types.Threadgroup
		default:
			q.Space = types.Constant
		}
	}
	return &VarRef{Node{T: q, LV: true, Where: at}, v}
}

func (c *checker) nameExpr(s *scope, x *ast.NameExpr) Expr {
	r, ok := c.resolve(s, x.Name)
	if !ok {
		return c.bad(x)
	}
	return c.symExpr(s, r, x)
}

// symExpr gives the expression that a resolved name is.
func (c *checker) symExpr(s *scope, r nameRes, x ast.Node) Expr {
	at := x.Span().Start
	y := r.sym
	switch y.kind {
	case symVar:
		return c.varRef(y.v, at)
	case symConst:
		return &ConstExpr{Node{T: y.q.Bare(), Val: y.val, Where: at}}
	case symExpr:
		if f, ok := y.expr.(*FuncRef); ok {
			g := *f
			g.Where = at
			return &g
		}
		return y.expr
	case symFunc:
		adl := r.qual == nil
		if adl {
			for _, d := range y.fns {
				adl = adl && d.rec == nil
			}
		}
		return &overloadSet{Node: Node{T: types.Q(types.VoidType), Where: at}, name: y.name, fns: y.fns, part: r.part, scope: s, adl: adl}
	case symVarTmpl:
		v, ok := c.varInstance(s, y.vt, r.part, x.Span())
		if !ok {
			return c.bad(x)
		}
		return c.varRef(v, at)
	case symField:
		if s.this == nil {
			if c.unev > 0 { // sizeof(S::m), decltype(S::m)
				if f, ok := r.fieldOf(); ok {
					return &FieldExpr{Node: Node{T: f.Type, LV: true, Where: at}, X: &badExpr{}, Field: f}
				}
			}
			c.errorf(x, "member '%s' is used without an object", y.name)
			return c.bad(x)
		}
		of := s.this.Type.T.Of
		obj := &VarRef{Node{T: of, LV: true, Where: at}, s.this}
		if e := c.fieldOf(obj, y.name, at); e != nil {
			return e
		}
		c.errorf(x, "'%s' is not a member of '%s'", y.name, of.T)
		return c.bad(x)
	case symPack:
		c.errorf(x, "parameter pack '%s' is not expanded: '...' expected", y.name)
		return c.bad(x)
	case symNamespace, symClassTmpl, symAliasTmpl, symTypeTmpl, symType:
		c.errorf(x, "'%s' is a %s, expected an expression", y.name, y.kind)
		return c.bad(x)
	}
	c.errorf(x, "'%s' can't be used here", y.name)
	return c.bad(x)
}

func (r nameRes) fieldOf() (*types.Field, bool) {
	if r.qual == nil {
		return nil, false
	}
	return r.qual.t.Field(r.sym.name)
}

func (c *checker) sizeof(s *scope, x *ast.SizeofExpr) Expr {
	c.unev++
	defer func() { c.unev-- }()
	var q types.Qual
	switch {
	case x.Type != nil:
		q = c.typ(s, x.Type)
	default:
		if p, ok := x.X.(*ast.ParenExpr); ok {
			if n, ok := p.X.(*ast.NameExpr); ok {
				if y, part, ok := c.calleeType(s, n); ok {
					q, _ = c.symAsType(s, y, part, n.Span())
				}
			}
		} else if n, ok := x.X.(*ast.NameExpr); ok {
			if y, part, ok := c.calleeType(s, n); ok {
				q, _ = c.symAsType(s, y, part, n.Span())
			}
		}
		if q.T == nil {
			q = c.expr(s, x.X).Type()
		}
	}
	if bad(q) {
		return c.bad(x)
	}
	if q.T.Kind == types.Reference {
		q = q.T.Of
	}
	if q.T.Kind == types.Void || q.T.Kind == types.Function {
		c.errorf(x, "size of '%s'", q.T)
		return c.bad(x)
	}
	if !c.needComplete(q.T, x.Span()) {
		return c.bad(x)
	}
	n := q.T.Size()
	if x.Align {
		n = q.T.Align()
	}
	return &ConstExpr{Node{T: types.Q(types.ULongType), Val: &Value{I: int64(n)}, Where: x.Start}}
}

// discard drops a value.
func (c *checker) discard(e Expr) Expr {
	if set, ok := e.(*overloadSet); ok {
		c.errAt(span(set.Where), "function '%s' is named but not called", set.name)
		return &badExpr{Node{T: invalidQ, Where: e.Pos()}}
	}
	return e
}

func (c *checker) unary(s *scope, x *ast.UnaryExpr) Expr {
	switch x.Op {
	case "++", "--":
		return c.incDec(s, x.X, x.Op, false, x)
	case "__extension__":
		return c.expr(s, x.X)
	case "&":
		return c.addrOf(c.expr(s, x.X), x)
	}
	e := c.expr(s, x.X)
	if isBad(e) {
		return c.bad(x)
	}
	if r, done := c.userOperator(s, x.Op, []Expr{e}, x); done {
		return r
	}
	if x.Op == "*" {
		return c.deref(e, x)
	}
	v := c.rvalue(e)
	t := v.Type().T
	if t.Kind == types.Enum && !t.Scoped {
		v = c.numeric(v, t.Under)
		t = t.Under
	}
	n := Node{Where: x.Start}
	switch x.Op {
	case "!":
		if t.Kind == types.Vector {
			b := c.numeric(v, types.Vec(types.Bool, t.N))
			n.T = b.Type()
			return &Unary{n, Not, b}
		}
		b := c.toBool(v, x)
		if isBad(b) {
			return b
		}
		n.T = types.Q(types.BoolType)
		if k := b.Const(); k != nil {
			n.Val = boolValue(k.I == 0)
		}
		return &Unary{n, Not, b}
	case "~":
		if !t.ScalarKind().IsInteger() || t.Kind == types.Matrix {
			c.errorf(x, "operator ~ on '%s': expected an integer", t)
			return c.bad(x)
		}
		v = c.promote(v)
		n.T = v.Type()
		n.Val = foldUnary(BitNot, v)
		return fold(&Unary{n, BitNot, v})
	case "-", "+":
		if t.Kind == types.Pointer && x.Op == "+" {
			return v
		}
		if !t.IsArithmetic() {
			c.errorf(x, "operator %s on '%s': expected a number", x.Op, t)
			return c.bad(x)
		}
		v = c.promote(v)
		op := Neg
		if x.Op == "+" {
			op = Plus
		}
		n.T = v.Type()
		n.Val = foldUnary(op, v)
		return fold(&Unary{n, op, v})
	}
	c.errorf(x, "operator %s is not supported", x.Op)
	return c.bad(x)
}

// fold replaces an expression with a known scalar value by the constant.
func fold(e Expr) Expr {
	if v := e.Const(); v != nil && e.Type().T.IsScalar() {
		return &ConstExpr{Node{T: e.Type(), Val: v, Where: e.Pos()}}
	}
	return e
}

// promote applies the integer promotions to a scalar value; vectors don't promote.
func (c *checker) promote(e Expr) Expr {
	t := e.Type().T
	if t.Kind == types.Enum && !t.Scoped {
		e = c.numeric(e, t.Under)
		t = t.Under
	}
	if t.IsInteger() && t.Kind < types.Int {
		return c.numeric(e, types.IntType)
	}
	return e
}

// mentionsPack says that an expression names a parameter pack.
func (c *checker) mentionsPack(s *scope, n ast.Node) bool {
	found := false
	walkNames(n, func(id string) {
		y := c.lookup(s, id)
		found = found || y != nil && y.kind == symPack
	})
	return found
}

func (c *checker) fold(s *scope, x *ast.FoldExpr) Expr {
	var es []Expr
	// Of the two operands of (a op ... op b) the one that mentions a pack is the pack.
	pack, init, left := x.X, x.Init, x.Left
	if init != nil {
		left = !c.mentionsPack(s, pack)
		if left {
			pack, init = init, pack
		}
	}
	ok := c.eachPack(s, pack, func(ps *scope) bool {
		e := c.expr(ps, pack)
		es = append(es, e)
		return !isBad(e)
	})
	if !ok {
		return c.bad(x)
	}
	if init != nil {
		i := c.expr(s, init)
		if isBad(i) {
			return c.bad(x)
		}
		if left {
			es = append([]Expr{i}, es...)
		} else {
			es = append(es, i)
		}
	}
	join := func(a, b Expr) Expr {
		if x.Op == "," {
			return &Comma{Node{T: b.Type(), LV: b.Lvalue(), Where: x.Start}, a, b}
		}
		if isBad(a) || isBad(b) {
			return c.bad(x)
		}
		return c.binary(s, x.Op, a, b, x)
	}
	if len(es) == 0 {
		switch x.Op {
		case "&&", "||":
			return &ConstExpr{Node{T: types.Q(types.BoolType), Val: boolValue(x.Op == "&&"), Where: x.Start}}
		case ",":
			return &Convert{Node: Node{T: types.Q(types.VoidType), Where: x.Start}, How: ConvVoid, X: &ConstExpr{Node{T: types.Q(types.IntType), Val: &Value{}}}}
		}
		c.errorf(x, "fold of an empty pack over %s", x.Op)
		return c.bad(x)
	}
	if left {
		r := es[0]
		for _, e := range es[1:] {
			r = join(r, e)
		}
		return r
	}
	r := es[len(es)-1]
	for i := len(es) - 2; i >= 0; i-- {
		r = join(es[i], r)
	}
	return r
}
