package sema

import (
	"math"
	"math/bits"

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

// lval finds the storage that an lvalue designates.
func (ev *evaluator) lval(e Expr) *Value {
	if !ev.step() {
		return nil
	}
	switch e := e.(type) {
	case *VarRef:
		if v, ok := ev.frame[e.Var]; ok {
			return v
		}
		switch {
		case e.Var.Kind == FuncConstVar:
			return ev.fail(whyFuncConst)
		case e.Var.Type.T.Kind == types.Reference && e.Var.Init != nil:
			return ev.lval(e.Var.Init)
		case e.Var.Value != nil && (e.Var.Type.Const || e.Var.Kind == GlobalVar):
			return e.Var.Value
		case e.Var.Kind == GlobalVar && e.Var.Init != nil:
			return ev.fail(whyFuncConst)
		}
		return ev.fail("'" + e.Var.Name + "' is not a constant")
	case *FieldExpr:
		x := ev.lval(e.X)
		if x == nil {
			return nil
		}
		if t := e.X.Type().T; t.Union && x.Field != e.Field.Index {
			return ev.fail("it reads a member of a union that is not the active one")
		}
		if v := fieldConst(x, e.Field, e.X.Type().T); v != nil {
			return v
		}
		return ev.fail("it reads an unset member")
	case *IndexExpr:
		x := ev.lval(e.X)
		i := ev.value(e.I)
		if x == nil || i == nil {
			return nil
		}
		if i.I < 0 || i.I >= int64(len(x.Elems)) {
			return ev.fail("an index is out of range")
		}
		return &x.Elems[i.I]
	case *Swizzle:
		x := ev.lval(e.X)
		if x == nil {
			return nil
		}
		if v := swizzleConst(x, e.Comps); v != nil {
			return v
		}
	case *Temp:
		if v := ev.value(e.X); v != nil {
			return ev.copy(v)
		}
		return nil
	case *Convert:
		if e.How == ConvBase {
			x := ev.lval(e.X)
			if x != nil && len(x.Elems) > 0 {
				return &x.Elems[0]
			}
		}
	case *Deref:
		if a, ok := stripCast(e.X).(*AddrOf); ok {
			return ev.lval(a.X)
		}
		return ev.deref(e)
	case *Assign:
		return ev.assign(e)
	case *IncDec:
		x := ev.lval(e.X)
		if x == nil {
			return nil
		}
		ev.bump(x, e)
		return x
	case *Cond:
		c := ev.value(e.C)
		if c == nil {
			return nil
		}
		if c.I != 0 {
			return ev.lval(e.A)
		}
		return ev.lval(e.B)
	case *Comma:
		if !ev.effect(e.L) {
			return nil
		}
		return ev.lval(e.R)
	case *Call:
		return ev.call(e)
	}
	return ev.fail("it is not constant")
}

// deref follows a constant pointer into a program-scope array.
func (ev *evaluator) deref(e *Deref) *Value {
	p, i := e.X, int64(0)
	if add, ok := p.(*PtrAdd); ok {
		k := ev.value(add.I)
		if k == nil {
			return nil
		}
		p, i = add.P, k.I
		if add.Neg {
			i = -i
		}
	}
	v := ev.value(p)
	if v == nil {
		return nil
	}
	if v.Ref == nil || v.Ref.Value == nil || v.Ref.Type.T.Kind != types.Array || !types.Identical(v.Ref.Type.T.Of.T, e.T.T) {
		return ev.fail("it reads through a pointer")
	}
	size := int64(max(1, e.T.T.Size()))
	if i += int64(v.Offset) / size; i < 0 || i >= int64(len(v.Ref.Value.Elems)) {
		return ev.fail("an index is out of range")
	}
	return &v.Ref.Value.Elems[i]
}

func (ev *evaluator) bump(x *Value, e *IncDec) {
	t := e.X.Type().T
	d := int64(1)
	if e.Dec {
		d = -1
	}
	one := func(k types.Kind, x *Value) {
		if k.IsFloat() {
			x.F = roundFloat(x.F+float64(d), k)
		} else {
			x.I = wrapInt(x.I+d, k)
		}
	}
	if t.IsVector() {
		for i := range x.Elems {
			one(t.Elem, &x.Elems[i])
		}
		return
	}
	one(t.ScalarKind(), x)
}

func (ev *evaluator) incDec(e *IncDec) *Value {
	x := ev.lval(e.X)
	if x == nil {
		return nil
	}
	old := ev.copy(x)
	ev.bump(x, e)
	return old
}

func (ev *evaluator) assign(e *Assign) *Value {
	r := ev.value(e.R)
	if r == nil {
		return nil
	}
	l := ev.lval(e.L)
	if l == nil {
		return nil
	}
	if sw, ok := e.L.(*Swizzle); ok && len(sw.Comps) > 1 {
		return ev.fail("it assigns a swizzle")
	}
	if e.Compound {
		lt := valueType(e.L)
		a := convertValue(l, lt, e.OpType)
		if a == nil {
			return ev.fail("it is not constant")
		}
		v := ev.each2(e.Op, e.OpType, a, r, e.R.Type().T)
		if v == nil {
			return nil
		}
		if r = convertValue(v, e.OpType, lt); r == nil {
			return ev.fail("it is not constant")
		}
	}
	*l = *ev.copy(r)
	return l
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

// builtin computes the library functions that constants are made with.
func (ev *evaluator) builtin(e *Builtin) *Value {
	if e.Op == IFuncConstDefined {
		return ev.fail(whyFuncConst)
	}
	var args []*Value
	for _, a := range e.Args {
		if a.Lvalue() {
			return ev.fail("it calls a library function that is not constexpr")
		}
		v := ev.value(a)
		if v == nil {
			return nil
		}
		args = append(args, v)
	}
	t := e.T.T
	switch e.Op {
	case IMin, IMax, IFmin, IFmax:
		o := Lt
		if e.Op == IMax || e.Op == IFmax {
			o = Gt
		}
		pick := func(k types.Kind, a, b *Value) *Value {
			if k.IsFloat() && (math.IsNaN(a.F) || !math.IsNaN(b.F) && binaryValue(o, b, a, k, k).I != 0) {
				return b
			}
			if !k.IsFloat() && binaryValue(o, b, a, k, k).I != 0 {
				return b
			}
			return a
		}
		if t.IsScalar() {
			return pick(t.Kind, args[0], args[1])
		}
		r := &Value{}
		for i := range args[0].Elems {
			r.Elems = append(r.Elems, *pick(t.Elem, &args[0].Elems[i], &args[1].Elems[i]))
		}
		return r
	case IAbs, IFabs:
		return ev.each1(t, args[0], func(t *types.Type, x *Value) *Value {
			if t.IsFloat() {
				return &Value{F: math.Abs(x.F)}
			}
			if x.I < 0 && t.Kind.IsSigned() {
				return &Value{I: wrapInt(-x.I, t.Kind)}
			}
			return x
		})
	case IFloor, ICeil, ITrunc, IRint, ISqrt:
		f := map[Intrinsic]func(float64) float64{IFloor: math.Floor, ICeil: math.Ceil, ITrunc: math.Trunc, IRint: math.RoundToEven, ISqrt: math.Sqrt}[e.Op]
		return ev.each1(t, args[0], func(t *types.Type, x *Value) *Value { return &Value{F: roundFloat(f(x.F), t.Kind)} })
	case IClz, ICtz, IPopcount:
		return ev.each1(t, args[0], func(t *types.Type, x *Value) *Value {
			n := t.Size() * 8
			b := x.Bits(t.Kind)
			switch e.Op {
			case IClz:
				return &Value{I: int64(bits.LeadingZeros64(b) - 64 + n)}
			case ICtz:
				return &Value{I: int64(min(bits.TrailingZeros64(b), n))}
			}
			return &Value{I: int64(bits.OnesCount64(b))}
		})
	case IExp, IExp2, ILog, ILog2, ILog10, ISin, ICos, ITanh:
		if ev.exact {
			break
		}
		f := map[Intrinsic]func(float64) float64{IExp: math.Exp, IExp2: math.Exp2, ILog: math.Log, ILog2: math.Log2, ILog10: math.Log10, ISin: math.Sin, ICos: math.Cos, ITanh: math.Tanh}[e.Op]
		return ev.each1(t, args[0], func(t *types.Type, x *Value) *Value { return &Value{F: roundFloat(f(x.F), t.Kind)} })
	case IPow:
		if !ev.exact && t.IsScalar() {
			return &Value{F: roundFloat(math.Pow(args[0].F, args[1].F), t.Kind)}
		}
	case ISelect:
		if t.IsScalar() {
			if args[2].I != 0 {
				return args[1]
			}
			return args[0]
		}
	}
	return ev.fail("it calls a library function that is not constexpr")
}
