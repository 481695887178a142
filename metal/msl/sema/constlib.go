package sema

import (
	"math"
	"math/bits"

	"minfer/metal/msl/types"
)

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
