package sema

import (
	"minfer/metal/msl/types"
)

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
