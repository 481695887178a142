package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

// whyFuncConst is the reason that an expression depends on a function constant.
const whyFuncConst = "it depends on a function constant, whose value is known only when the pipeline is made"

// evaluator computes constant expressions, calls of constexpr functions included.
type evaluator struct {
	c     *checker
	exact bool // only functions whose result does not depend on the library's accuracy
	frame map[*Var]*Value
	why   string
	depth int
	ret   *Value
}

// eval gives the value of a constant expression, or nil and the reason.
func (c *checker) eval(e Expr) (*Value, string) {
	if isBad(e) {
		return nil, "it has errors"
	}
	if v := e.Const(); v != nil {
		return v, ""
	}
	ev := &evaluator{c: c, frame: map[*Var]*Value{}}
	v := ev.value(e)
	if v == nil && ev.why == "" {
		ev.why = "it is not constant"
	}
	return v, ev.why
}

// constInt evaluates an integer constant expression; it reports one that is none.
func (c *checker) constInt(s *scope, x ast.Expr, what string) (int64, bool) {
	e := c.expr(s, x)
	if isBad(e) {
		return 0, false
	}
	v := c.rvalue(e)
	if v.Type().T.Kind == types.Struct {
		y, r := c.implicit(v, types.Q(types.LongType), true)
		if r == rankNone {
			c.errorf(x, "%s has type '%s', expected an integer", what, v.Type().T)
			return 0, false
		}
		v = y
	}
	if t := v.Type().T; !t.IsInteger() && t.Kind != types.Enum {
		c.errorf(x, "%s has type '%s', expected an integer", what, t)
		return 0, false
	}
	return c.constOf(v, x, what)
}

func (c *checker) constOf(e Expr, x ast.Node, what string) (int64, bool) {
	v, why := c.eval(e)
	if v == nil {
		c.errorf(x, "%s is not a constant expression: %s", what, why)
		return 0, false
	}
	return v.I, true
}

func (ev *evaluator) fail(why string) *Value {
	if ev.why == "" {
		ev.why = why
	}
	return nil
}

func (ev *evaluator) step() bool {
	ev.c.steps++
	if ev.c.steps > ev.c.opt.MaxSteps {
		ev.fail("it needs more steps than the limit")
		return false
	}
	return true
}

// copy copies a value; its elements count as steps.
func (ev *evaluator) copy(v *Value) *Value {
	r := *v
	if v.Elems != nil {
		ev.c.steps += len(v.Elems)
		r.Elems = make([]Value, len(v.Elems))
		for i := range v.Elems {
			r.Elems[i] = *ev.copy(&v.Elems[i])
		}
	}
	return &r
}

// zero makes a zero value; its elements count as steps.
func (ev *evaluator) zero(t *types.Type) *Value {
	ev.c.steps += t.Size() / 4
	if !ev.step() {
		return nil
	}
	if v := zeroValue(t); v != nil {
		return v
	}
	return ev.fail("it is too large")
}

// value computes a prvalue.
func (ev *evaluator) value(e Expr) *Value {
	if v := e.Const(); v != nil {
		return v
	}
	if !ev.step() {
		return nil
	}
	if ev.depth > ev.c.opt.MaxDepth {
		return ev.fail("it nests too deep")
	}
	ev.depth++
	defer func() { ev.depth-- }()
	switch e := e.(type) {
	case *Load:
		v := ev.lval(e.X)
		if v == nil {
			return nil
		}
		return ev.copy(v)
	case *Unary:
		x := ev.value(e.X)
		if x == nil {
			return nil
		}
		return ev.each1(e.T.T, x, func(t *types.Type, x *Value) *Value {
			if e.Op == Not {
				return boolValue(x.I == 0)
			}
			return foldUnary(e.Op, &ConstExpr{Node{T: types.Q(t), Val: x}})
		})
	case *Binary:
		return ev.binary(e)
	case *Cond:
		c := ev.value(e.C)
		if c == nil {
			return nil
		}
		if c.I != 0 {
			return ev.value(e.A)
		}
		return ev.value(e.B)
	case *Convert:
		return ev.convert(e)
	case *Construct:
		return ev.construct(e)
	case *InitList:
		return ev.initList(e)
	case *Comma:
		if !ev.effect(e.L) {
			return nil
		}
		return ev.value(e.R)
	case *FieldExpr:
		x := ev.value(e.X)
		if v := fieldConst(x, e.Field, e.X.Type().T); v != nil {
			return v
		}
		return ev.fail("it reads an unset member")
	case *Swizzle:
		if v := swizzleConst(ev.value(e.X), e.Comps); v != nil {
			return v
		}
		return ev.fail("it is not constant")
	case *IndexExpr:
		x, i := ev.value(e.X), ev.value(e.I)
		if x == nil || i == nil {
			return nil
		}
		if i.I < 0 || i.I >= int64(len(x.Elems)) {
			return ev.fail("an index is out of range")
		}
		return &x.Elems[i.I]
	case *Call:
		return ev.call(e)
	case *Assign, *IncDec:
		if e.Lvalue() {
			return ev.lval(e)
		}
		return ev.incDec(e.(*IncDec))
	case *AddrOf:
		if v, ok := ev.c.foldAddr(e.X); ok {
			return v
		}
	case *Builtin:
		return ev.builtin(e)
	case *FuncRef:
		return ev.fail("it is a function")
	}
	return ev.fail("it is not constant")
}

// effect evaluates for side effects only.
func (ev *evaluator) effect(e Expr) bool {
	if e.Lvalue() {
		return ev.lval(e) != nil
	}
	if e.Type().T.Kind == types.Void {
		if call, ok := e.(*Call); ok {
			ev.call(call)
			return ev.why == ""
		}
		if k, ok := e.(*Convert); ok && k.How == ConvVoid {
			return ev.effect(k.X)
		}
	}
	return ev.value(e) != nil
}

// each1 applies f to a scalar or to each element of a vector or matrix.
func (ev *evaluator) each1(t *types.Type, x *Value, f func(*types.Type, *Value) *Value) *Value {
	e := elemType(t)
	if e == nil {
		if v := f(t, x); v != nil {
			return v
		}
		return ev.fail("it has no value")
	}
	r := &Value{}
	for i := range x.Elems {
		v := ev.each1(e, &x.Elems[i], f)
		if v == nil {
			return nil
		}
		r.Elems = append(r.Elems, *v)
	}
	return r
}

// each2 applies an operator; t is the left operand's type.
func (ev *evaluator) each2(o BinaryOp, t *types.Type, a, b *Value, rt *types.Type) *Value {
	if t.Kind == types.Vector && rt.Kind == types.Vector {
		if len(a.Elems) != len(b.Elems) {
			return ev.fail("it is not constant")
		}
		r := &Value{}
		for i := range a.Elems {
			v := binaryValue(o, &a.Elems[i], &b.Elems[i], t.Elem, rt.Elem)
			if v == nil {
				return ev.fail("it has no value")
			}
			r.Elems = append(r.Elems, *v)
		}
		return r
	}
	if t.Kind == types.Pointer {
		if o == Eq || o == Ne {
			return boolValue((a.Ref == b.Ref && a.Offset == b.Offset) == (o == Eq))
		}
		return ev.fail("it computes with pointers")
	}
	if !t.IsScalar() || !rt.IsScalar() {
		return ev.fail("it computes with matrices")
	}
	if v := binaryValue(o, a, b, t.Kind, rt.Kind); v != nil {
		return v
	}
	return ev.fail("it divides by zero")
}

func (ev *evaluator) binary(e *Binary) *Value {
	a := ev.value(e.L)
	if a == nil {
		return nil
	}
	if e.Op == LAnd && a.I == 0 || e.Op == LOr && a.I != 0 {
		return a
	}
	b := ev.value(e.R)
	if b == nil || e.Op == LAnd || e.Op == LOr {
		return b
	}
	return ev.each2(e.Op, e.L.Type().T, a, b, e.R.Type().T)
}

func (ev *evaluator) convert(e *Convert) *Value {
	if e.How == ConvDecay {
		if v, ok := ev.c.foldAddr(e.X); ok {
			return v
		}
		return ev.fail("it is the address of a variable")
	}
	x := ev.value(e.X)
	if x == nil {
		return nil
	}
	from, to := e.X.Type().T, e.T.T
	switch e.How {
	case ConvNumeric:
		if v := convertValue(x, from, to); v != nil {
			return v
		}
	case ConvSplat:
		r := &Value{}
		for range to.N {
			r.Elems = append(r.Elems, *x)
		}
		return r
	case ConvPointer:
		if from.Kind == types.Pointer && to.Kind == types.Pointer {
			return x
		}
	case ConvPtrBool:
		return boolValue(x.Ref != nil)
	case ConvNull:
		return &Value{}
	case ConvBase:
		if len(x.Elems) > 0 {
			return &x.Elems[0]
		}
		return &Value{}
	case ConvBits:
		buf := make([]byte, max(from.Size(), to.Size()))
		if x.Encode(from, buf) == nil {
			if v := decode(to, buf); v != nil {
				return v
			}
		}
	}
	return ev.fail("it converts in a way that is not constant")
}

// decode is the reverse of Encode for scalars and vectors.
func decode(t *types.Type, b []byte) *Value {
	switch {
	case t.IsScalar() || t.Kind == types.Enum:
		u := uint64(0)
		for i := t.Size() - 1; i >= 0; i-- {
			u = u<<8 | uint64(b[i])
		}
		return fromBits(u, t.ScalarKind())
	case t.IsVector():
		r := &Value{}
		e := elemType(t)
		for i := range t.N {
			r.Elems = append(r.Elems, *decode(e, b[i*e.Size():]))
		}
		return r
	}
	return nil
}

func (ev *evaluator) construct(e *Construct) *Value {
	t := e.T.T
	switch e.How {
	case Zero:
		return zeroValue(t)
	case Diagonal:
		x := ev.value(e.Args[0])
		r := zeroValue(t)
		if x == nil || r == nil {
			return nil
		}
		for i := range min(t.N, t.Rows) {
			r.Elems[i].Elems[i] = *x
		}
		return r
	}
	var flat []Value
	for _, a := range e.Args {
		x := ev.value(a)
		if x == nil {
			return nil
		}
		if len(x.Elems) > 0 {
			flat = append(flat, x.Elems...)
		} else {
			flat = append(flat, *x)
		}
	}
	if t.Kind != types.Matrix {
		return &Value{Elems: flat}
	}
	r := &Value{}
	for i := 0; i+t.Rows <= len(flat); i += t.Rows {
		r.Elems = append(r.Elems, Value{Elems: flat[i : i+t.Rows]})
	}
	return r
}

func (ev *evaluator) initList(e *InitList) *Value {
	t := e.T.T
	r := ev.zero(t)
	if r == nil {
		return ev.fail("it is too large")
	}
	if t.Union && len(e.Elems) > 0 {
		x := ev.value(e.Elems[0].X)
		if x == nil {
			return nil
		}
		return &Value{Elems: []Value{*ev.copy(x)}, Field: e.Elems[0].Index}
	}
	for _, el := range e.Elems {
		if !ev.step() {
			return nil
		}
		if el.X.Lvalue() {
			return ev.fail("it binds a reference")
		}
		x := ev.value(el.X)
		if x == nil {
			return nil
		}
		for i := el.Index; i <= el.Last && i < len(r.Elems); i++ {
			r.Elems[i] = *ev.copy(x)
		}
	}
	return r
}
