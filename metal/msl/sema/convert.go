package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

// rank orders implicit conversions, best first.
type rank uint8

const (
	rankExact rank = iota
	rankQual       // adds const, or binds a reference to a temporary
	rankPromotion
	rankConversion
	rankSplat
	rankUser
	rankNone // impossible
)

// badExpr stands for an expression that was reported.
type badExpr struct{ Node }

func (c *checker) bad(at ast.Node) Expr {
	return &badExpr{Node{T: invalidQ, Where: at.Span().Start}}
}

func isBad(e Expr) bool { return e == nil || bad(e.Type()) }

// rvalue reads an lvalue: arrays decay to pointers, packed vectors unpack, functions
// become themselves.
func (c *checker) rvalue(e Expr) Expr {
	if isBad(e) {
		return e
	}
	t := e.Type()
	if t.T.Kind == types.Array {
		if !e.Lvalue() {
			e = &Temp{Node{T: t.In(types.Thread), LV: true, Where: e.Pos()}, e}
		}
		of := t.T.Of
		if of.Space == types.NoSpace {
			of.Space = t.Space
		}
		of.Const = of.Const || t.Const
		r := &Convert{Node: Node{T: types.Q(types.PointerTo(of)), Where: e.Pos()}, How: ConvDecay, X: e}
		r.Val, _ = c.foldAddr(e)
		return r
	}
	if e.Lvalue() {
		e = c.load(e)
	}
	if e.Type().T.Kind == types.PackedVector {
		u := &Convert{Node: Node{T: types.Q(e.Type().T.Unpacked()), Where: e.Pos(), Val: e.Const()}, How: ConvNumeric, X: e}
		return u
	}
	return e
}

func (c *checker) load(e Expr) Expr {
	q := e.Type()
	l := &Load{Node{T: q.Bare(), Where: e.Pos()}, e}
	if v := lvalueConst(e); v != nil {
		l.Val = v
	}
	return l
}

// lvalueConst is the constant that an lvalue designates a part of, nil if it does not.
func lvalueConst(e Expr) *Value {
	switch e := e.(type) {
	case *VarRef:
		if e.Var.Type.T.Kind == types.Reference {
			if e.Var.Init != nil && e.Var.Kind != ParamVar {
				return lvalueConst(e.Var.Init)
			}
			return nil
		}
		if e.Var.Type.Const || e.Var.Kind == GlobalVar {
			return e.Var.Value
		}
	case *FieldExpr:
		return fieldConst(lvalueConst(e.X), e.Field, e.X.Type().T)
	case *IndexExpr:
		if v, i := lvalueConst(e.X), e.I.Const(); v != nil && i != nil && i.I >= 0 && i.I < int64(len(v.Elems)) {
			return &v.Elems[i.I]
		}
	case *Swizzle:
		return swizzleConst(lvalueConst(e.X), e.Comps)
	case *Temp:
		return e.X.Const()
	case *Convert:
		if e.How == ConvBase {
			if v := lvalueConst(e.X); v != nil && len(v.Elems) > 0 {
				return &v.Elems[0]
			}
		}
	}
	return nil
}

func fieldConst(v *Value, f *types.Field, t *types.Type) *Value {
	if v == nil {
		return nil
	}
	if t.Union {
		if len(v.Elems) == 1 && v.Field == f.Index {
			return &v.Elems[0]
		}
		return nil
	}
	if f.Index < len(v.Elems) {
		return &v.Elems[f.Index]
	}
	return nil
}

func swizzleConst(v *Value, comps []uint8) *Value {
	if v == nil || len(v.Elems) == 0 {
		return nil
	}
	for _, k := range comps {
		if int(k) >= len(v.Elems) {
			return nil
		}
	}
	if len(comps) == 1 {
		return &v.Elems[comps[0]]
	}
	r := &Value{}
	for _, k := range comps {
		r.Elems = append(r.Elems, v.Elems[k])
	}
	return r
}

// scalarRank ranks an implicit conversion between scalars.
func scalarRank(from, to types.Kind) rank {
	switch {
	case from == to:
		return rankExact
	case from == types.BFloat && to == types.Float:
		return rankPromotion
	case from == types.BFloat && to == types.Half:
		return rankNone
	case to == types.BFloat && from.IsFloat():
		return rankNone
	case from < types.Int && to == types.Int:
		return rankPromotion
	}
	return rankConversion
}

// valueType gives the type that an operand has once it is read.
func valueType(e Expr) *types.Type {
	t := e.Type().T
	if t.Kind == types.PackedVector {
		return t.Unpacked()
	}
	return t
}

// implicit converts e to the type (or reference) to as an initialisation would. With
// build false it only ranks. It reports nothing.
func (c *checker) implicit(e Expr, to types.Qual, build bool) (Expr, rank) {
	if isBad(e) || bad(to) {
		return e, rankExact
	}
	switch x := e.(type) {
	case *overloadSet:
		return c.implicitFunc(x, to, build)
	case *listExpr:
		var v Expr
		if t := c.trap(func() { v = c.initList(x.scope, to, x.list) }); t.errs > 0 {
			return e, rankNone
		}
		return v, rankConversion
	}
	if to.T.Kind == types.Reference {
		return c.bindRef(e, to, build)
	}
	if to.T.Kind == types.Struct {
		from := e.Type().T
		if from == to.T {
			if build {
				e = c.rvalue(e)
			}
			return e, rankExact
		}
		if derivesFrom(from, to.T) {
			if build {
				e = c.rvalue(c.toBase(e, to.T))
			}
			return e, rankConversion
		}
		return c.userConversion(e, to, build)
	}
	from := valueType(e)
	if from.Kind == types.Struct {
		return c.userConversion(e, to, build)
	}
	how, r := c.standard(e, from, to.T)
	if r == rankNone || !build {
		return e, r
	}
	e = c.rvalue(e)
	return c.convertNode(e, to.T, how), r
}

// step is a way to convert, more exact than ConvKind: a splat converts its element.
type step uint8

const (
	stepNone step = iota
	stepNumeric
	stepSplat
	stepPointer
	stepNull
	stepPtrBool
	stepPacked // vector to packed vector
)

func (c *checker) standard(e Expr, from, to *types.Type) (step, rank) {
	if types.Identical(from, to) {
		return stepNone, rankExact
	}
	fk := from.ScalarKind()
	switch to.Kind {
	case types.Vector, types.PackedVector:
		if from.Kind == types.Vector {
			if to.Kind == types.PackedVector && from.N == to.N && from.Elem == to.Elem {
				return stepPacked, rankConversion
			}
			return 0, rankNone
		}
		if from.IsScalar() || from.Kind == types.Enum && !from.Scoped {
			if scalarRank(fk, to.Elem) == rankNone {
				return 0, rankNone
			}
			return stepSplat, rankSplat
		}
		return 0, rankNone
	case types.Pointer:
		if from.Kind == types.NullPtr || from.IsInteger() && isZeroLiteral(e) {
			return stepNull, rankConversion
		}
		if from.Kind == types.Array {
			of := from.Of
			if of.Space == types.NoSpace {
				of.Space = e.Type().Space
			}
			of.Const = of.Const || e.Type().Const
			from = types.PointerTo(of)
			if types.Identical(from, to) {
				return stepNone, rankExact
			}
		}
		if from.Kind != types.Pointer {
			return 0, rankNone
		}
		a, b := from.Of, to.Of
		if !types.SameSpace(a.Space, b.Space) || a.Const && !b.Const && a.Space != types.Constant || a.Volatile && !b.Volatile {
			return 0, rankNone
		}
		if types.Identical(a.T, b.T) {
			return stepPointer, rankQual
		}
		if b.T.Kind == types.Void {
			return stepPointer, rankConversion
		}
		if derivesFrom(a.T, b.T) {
			return stepPointer, rankConversion
		}
		return 0, rankNone
	case types.Bool:
		if from.Kind == types.Pointer || from.Kind == types.Array {
			return stepPtrBool, rankConversion
		}
		if from.Kind == types.NullPtr {
			return 0, rankNone
		}
	case types.NullPtr:
		return 0, rankNone
	}
	if !to.IsScalar() {
		return 0, rankNone
	}
	if from.Kind == types.Enum {
		if from.Scoped {
			return 0, rankNone
		}
		if to == from.Under || to.Kind == types.Int && from.Under.Kind <= types.Int {
			return stepNumeric, rankPromotion
		}
		return stepNumeric, scalarRankNZ(fk, to.Kind)
	}
	if !from.IsScalar() {
		return 0, rankNone
	}
	return stepNumeric, scalarRank(from.Kind, to.Kind)
}

func scalarRankNZ(a, b types.Kind) rank {
	if r := scalarRank(a, b); r > rankConversion {
		return r
	}
	return rankConversion
}

// convertNode builds a standard conversion of the value e.
func (c *checker) convertNode(e Expr, to *types.Type, how step) Expr {
	at := e.Pos()
	n := Node{T: types.Q(to), Where: at}
	switch how {
	case stepNumeric, stepPacked:
		return c.numeric(e, to)
	case stepSplat:
		e = c.numeric(e, types.Scalar(to.Elem))
		if e.Const() != nil {
			v := &Value{}
			for range to.N {
				v.Elems = append(v.Elems, *e.Const())
			}
			n.Val = v
		}
		return &Convert{Node: n, How: ConvSplat, X: e}
	case stepPointer:
		n.Val = e.Const()
		return &Convert{Node: n, How: ConvPointer, X: e}
	case stepNull:
		n.Val = &Value{}
		return &Convert{Node: n, How: ConvNull, X: e}
	case stepPtrBool:
		if v := e.Const(); v != nil {
			n.Val = boolValue(v.Ref != nil)
		}
		return &Convert{Node: n, How: ConvPtrBool, X: e}
	}
	return e
}

// numeric converts a scalar, vector or matrix value to a type of the same shape.
func (c *checker) numeric(e Expr, to *types.Type) Expr {
	from := e.Type().T
	if types.Identical(from, to) {
		return e
	}
	n := Node{T: types.Q(to), Where: e.Pos()}
	if v := e.Const(); v != nil {
		n.Val = convertValue(v, from, to)
		if n.Val != nil && to.IsScalar() {
			return &ConstExpr{n}
		}
	}
	return &Convert{Node: n, How: ConvNumeric, X: e}
}

func isZeroLiteral(e Expr) bool {
	k, ok := e.(*ConstExpr)
	return ok && k.Val != nil && k.T.T.IsInteger() && k.Val.I == 0
}

// bindRef binds e to a reference.
func (c *checker) bindRef(e Expr, to types.Qual, build bool) (Expr, rank) {
	of := to.T.Of
	if of.T.Kind == types.Function {
		if f, ok := e.(*FuncRef); ok && types.Identical(f.T.T, of.T) {
			return e, rankExact
		}
		return e, rankNone
	}
	q := e.Type()
	if e.Lvalue() && !isSwizzleOfMany(e) {
		same := types.Identical(q.T, of.T) || q.T.Kind == types.Array && of.T.Kind == types.Array && q.T.N == of.T.N && types.Identical(q.T.Of.T, of.T.Of.T)
		if (same || derivesFrom(q.T, of.T)) && types.SameSpace(q.Space, of.Space) && (of.Const || !q.Const || of.Space == types.Constant) && (of.Volatile || !q.Volatile) {
			r := rankExact
			if of.Const && !q.Const {
				r = rankQual
			}
			if !same {
				if build {
					e = c.toBase(e, of.T)
				}
				return e, rankConversion
			}
			return e, r
		}
	}
	if !of.Const || of.Space > types.Thread {
		if !(of.Const && of.Space == types.Constant && e.Const() != nil) {
			return e, rankNone
		}
	}
	v, r := c.implicit(e, of.Bare(), build)
	if r == rankNone {
		return e, r
	}
	if build {
		v = &Temp{Node{T: of.In(types.Thread), LV: true, Where: e.Pos()}, v}
	}
	if r == rankExact {
		r = rankQual
		if e.Lvalue() && types.Identical(q.T, of.T) {
			r = rankConversion // a copy, where another candidate may bind the object itself
		}
	}
	return v, r
}

func isSwizzleOfMany(e Expr) bool {
	s, ok := e.(*Swizzle)
	return ok && len(s.Comps) > 1
}

func derivesFrom(t, base *types.Type) bool {
	if base.Kind != types.Struct {
		return false
	}
	for n := 0; t != nil && t.Kind == types.Struct && n < 100; n++ {
		if t.Base == base {
			return true
		}
		t = t.Base
	}
	return false
}

// toBase converts a struct lvalue or value to a base class.
func (c *checker) toBase(e Expr, base *types.Type) Expr {
	for t := e.Type().T; t != nil && t != base; t = t.Base {
		if t.Base == nil {
			return e
		}
		q := e.Type()
		q.T = t.Base
		e = &Convert{Node: Node{T: q, LV: e.Lvalue(), Where: e.Pos()}, How: ConvBase, X: e}
	}
	return e
}

// userConversion uses a converting constructor or a conversion operator.
func (c *checker) userConversion(e Expr, to types.Qual, build bool) (Expr, rank) {
	if c.userDepth > 0 {
		return e, rankNone
	}
	c.userDepth++
	defer func() { c.userDepth-- }()
	if f := e.Type().T; f.Kind == types.Struct {
		if r := recordOf(f); r != nil {
			c.completeType(f, span(e.Pos()))
			if x, ok := c.convOperator(r, e, to, false, build); ok {
				return x, rankUser
			}
		}
	}
	if to.T.Kind == types.Struct {
		r := recordOf(to.T)
		if r == nil || !c.completeType(to.T, span(e.Pos())) || len(r.ctors) == 0 {
			return e, rankNone
		}
		var ctors []*fnDecl
		for _, d := range r.ctors {
			if !d.explicit {
				ctors = append(ctors, d)
			}
		}
		var best *cand
		t := c.trap(func() { best = c.pick(&callReq{name: to.T.Name, fns: ctors, args: []Expr{e}, at: span(e.Pos())}) })
		if t.errs > 0 || best == nil {
			return e, rankNone
		}
		if !build {
			return e, rankUser
		}
		return c.ctorCall(best, []Expr{e}, to.T, span(e.Pos())), rankUser
	}
	return e, rankNone
}

// convOperator calls a conversion operator of e's class that gives to.
func (c *checker) convOperator(r *record, e Expr, to types.Qual, explicit, build bool) (Expr, bool) {
	var found *Func
	bestRank := rankNone
	for k := r; k != nil; k = k.base {
		for _, d := range k.convs {
			if d.explicit && !explicit {
				continue
			}
			var f *Func
			if d.tparams == nil {
				f = c.sigOf(d)
			} else {
				b := newBindings(d.scope, d.tparams)
				if !c.deduce(b, d.ast.Name.Last().Conv, to.Bare()) {
					continue
				}
				c.trap(func() { f = c.instance(d, b, span(e.Pos())) })
			}
			if f == nil || !c.thisFits(f, e) {
				continue
			}
			fake := &badExpr{Node{T: f.Result.Bare()}}
			_, rk := c.implicit(fake, to, false)
			if explicit && rk == rankNone && f.Result.T.IsScalar() && to.T.IsScalar() {
				rk = rankConversion
			}
			if rk < bestRank {
				found, bestRank = f, rk
			}
		}
	}
	if found == nil {
		return e, false
	}
	if !build {
		return e, true
	}
	call := c.finishCall(found, c.thisArg(found, e), nil, span(e.Pos()))
	x, rk := c.implicit(call, to, true)
	if rk == rankNone {
		x = c.numeric(c.rvalue(call), to.T)
	}
	return x, true
}

// coerce converts e implicitly to to and reports where that is impossible.
func (c *checker) coerce(e Expr, to types.Qual, what string, at ast.Node) Expr {
	if isBad(e) || bad(to) {
		return c.bad(at)
	}
	x, r := c.implicit(e, to, true)
	if r == rankNone {
		c.errorf(at, "%s: no implicit conversion from '%s' to '%s'%s", what, exprTypeString(e), to, c.whyNot(e, to))
		return c.bad(at)
	}
	return x
}

func exprTypeString(e Expr) string {
	if s, ok := e.(*overloadSet); ok {
		return "overloaded function " + s.name
	}
	return dropThread(e.Type()).String()
}

// whyNot adds the rule that forbids a conversion.
func (c *checker) whyNot(e Expr, to types.Qual) string {
	a, b := e.Type(), to
	if b.T.Kind == types.Reference {
		of := b.T.Of
		switch {
		case e.Lvalue() && !types.SameSpace(a.Space, of.Space):
			return " (address spaces differ)"
		case e.Lvalue() && a.Const && !of.Const:
			return " (drops const)"
		case isSwizzleOfMany(e):
			return " (a swizzle has no address)"
		case !e.Lvalue() && !of.Const:
			return " (a temporary can't bind to a reference to non-const)"
		}
		return ""
	}
	if a.T.Kind == types.Array && b.T.Kind == types.Pointer {
		a = types.Q(types.PointerTo(a.T.Of.In(max(a.T.Of.Space, a.Space))))
	}
	if a.T.Kind == types.Pointer && b.T.Kind == types.Pointer {
		switch {
		case !types.SameSpace(a.T.Of.Space, b.T.Of.Space):
			return " (address spaces differ)"
		case a.T.Of.Const && !b.T.Of.Const:
			return " (drops const)"
		}
		return ""
	}
	switch {
	case a.T.Kind == types.BFloat || b.T.Kind == types.BFloat:
		return " (a float becomes bfloat only explicitly, and half and bfloat never mix)"
	case a.T.IsVector() && b.T.IsArithmetic():
		return " (vectors convert only explicitly)"
	}
	return ""
}

// toBool converts a condition to bool.
func (c *checker) toBool(e Expr, at ast.Node) Expr {
	if isBad(e) {
		return c.bad(at)
	}
	t := valueType(e)
	if t.IsVector() {
		c.errorf(at, "condition has type '%s', expected a scalar: use any() or all()", t)
		return c.bad(at)
	}
	if t.Kind == types.Struct {
		if r := recordOf(t); r != nil {
			if x, ok := c.convOperator(r, e, types.Q(types.BoolType), true, true); ok {
				return x
			}
		}
	}
	return c.coerce(e, types.Q(types.BoolType), "condition", at)
}
