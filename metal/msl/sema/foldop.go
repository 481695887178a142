package sema

import (
	"math"

	"minfer/metal/msl/types"
)

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
