package cuda

import (
	"fmt"
	"math"
	"strconv"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
)

func (e *emitter) varying(i *ir.Instr) bool { return e.u.Control(i) == pass.Varying }

// literal is a constant's text.
func literal(t ir.Type, bits uint64) string {
	switch t {
	case ir.I1:
		return strconv.FormatBool(bits&1 != 0)
	case ir.I8, ir.I16, ir.F16, ir.BF16:
		return fmt.Sprintf("(%s)%d", ctype(t), bits)
	case ir.I32:
		return fmt.Sprintf("%du", uint32(bits))
	case ir.I64:
		return fmt.Sprintf("%dull", bits)
	case ir.F32:
		f := math.Float32frombits(uint32(bits))
		if f != f || math.IsInf(float64(f), 0) {
			return fmt.Sprintf("bits(0x%08xu)", uint32(bits))
		}
		// Decimal is enough digits for the value, and 'g' never loses the sign of 0.
		s := strconv.FormatFloat(float64(f), 'g', -1, 32)
		if _, err := strconv.Atoi(s); err == nil {
			s += ".0"
		}
		if s[0] == '-' {
			return "(" + s + "f)"
		}
		return s + "f"
	}
	return "(char*)0"
}

// u32or64 and signed give a value as the unsigned or signed integer that C++ computes with:
// 32 bits for the narrow types.
func (e *emitter) u32or64(x ir.Value) string {
	if t := e.typ(x); t == ir.I8 || t == ir.I16 {
		return "(u32)" + e.v(x)
	}
	return e.v(x)
}

func (e *emitter) signed(x ir.Value) string {
	switch e.typ(x) {
	case ir.I8:
		return "(s32)(s8)" + e.v(x)
	case ir.I16:
		return "(s32)(s16)" + e.v(x)
	case ir.I64:
		return "(s64)" + e.v(x)
	}
	return "(s32)" + e.v(x)
}

// float gives a float value as float32.
func (e *emitter) float(x ir.Value) string {
	switch e.typ(x) {
	case ir.F16:
		return "h2f(" + e.v(x) + ")"
	case ir.BF16:
		return "b2f(" + e.v(x) + ")"
	}
	return e.v(x)
}

// rounded wraps a float32 expression for a result type.
func rounded(t ir.Type, expr string) string {
	switch t {
	case ir.F16:
		return "f2h(" + expr + ")"
	case ir.BF16:
		return "f2b(" + expr + ")"
	}
	return expr
}

// floatFuncs are float operations by the function that computes them in float32.
var floatFuncs = map[ir.Op]string{
	ir.FAdd: "__fadd_rn", ir.FSub: "__fsub_rn", ir.FMul: "__fmul_rn", ir.FDiv: "__fdiv_rn", ir.FRem: "fmodf",
	ir.FMin: "fmin1", ir.FMax: "fmax1", ir.Floor: "floorf", ir.Ceil: "ceilf", ir.Trunc: "truncf", ir.Rint: "rintf",
	ir.Round: "roundf", ir.Sqrt: "__fsqrt_rn",
}

// libmFuncs come from libm.cuh.
var libmFuncs = map[ir.Op]string{
	ir.Rsqrt: "m_rsqrt", ir.Exp: "m_exp", ir.Exp2: "m_exp2", ir.Exp10: "m_exp10", ir.Log: "m_log", ir.Log2: "m_log2",
	ir.Log10: "m_log10", ir.Sin: "m_sin", ir.Cos: "m_cos", ir.Tan: "m_tan", ir.Tanh: "m_tanh", ir.Sinh: "m_sinh",
	ir.Cosh: "m_cosh", ir.Asin: "m_asin", ir.Acos: "m_acos", ir.Atan: "m_atan", ir.Atan2: "m_atan2", ir.Pow: "m_pow", ir.Erf: "m_erf",
}

func (e *emitter) instr(i *ir.Instr) {
	name, ok := floatFuncs[i.Op]
	if !ok {
		if name, ok = libmFuncs[i.Op]; ok {
			e.libm = true
		}
	}
	if ok {
		expr := name + "(" + e.float(i.Args[0])
		for _, a := range i.Args[1:] {
			expr += ", " + e.float(a)
		}
		e.define(i, "%s", rounded(e.typ(i.Res[0]), expr+")"))
		return
	}
	switch {
	case i.Op >= ir.Add && i.Op <= ir.ReverseBits:
		e.integer(i)
	case i.Op >= ir.IntTrunc && i.Op <= ir.Bitcast:
		e.convert(i)
	case i.Op >= ir.Load && i.Op <= ir.AtomicCAS || i.Op == ir.SgLoad || i.Op == ir.SgStore:
		e.memory(i)
	case i.Op >= ir.SimdReduce && i.Op <= ir.SgWith:
		e.collective(i)
	default:
		e.other(i)
	}
}

func (e *emitter) other(i *ir.Instr) {
	arg := func(k int) string { return e.v(i.Args[k]) }
	switch i.Op {
	case ir.Const:
		e.text[i.Res[0]] = literal(e.typ(i.Res[0]), i.Imm)
	case ir.Undef:
		x := i.Res[0]
		if e.typ(x).IsSg() {
			e.simd = true
			e.define(i, "sgmat{0, 0}")
			return
		}
		e.text[x] = literal(e.typ(x), 0)
	case ir.FNeg:
		switch e.typ(i.Res[0]) {
		case ir.F32:
			e.define(i, "-%s", arg(0))
		default:
			e.define(i, "(u16)(%s ^ 0x8000)", arg(0))
		}
	case ir.FAbs:
		switch e.typ(i.Res[0]) {
		case ir.F32:
			e.define(i, "fabsf(%s)", arg(0))
		default:
			e.define(i, "(u16)(%s & 0x7fff)", arg(0))
		}
	case ir.FCopysign:
		switch e.typ(i.Res[0]) {
		case ir.F32:
			e.define(i, "copysign1(%s, %s)", arg(0), arg(1))
		default:
			e.define(i, "(u16)((%s & 0x7fff) | (%s & 0x8000))", arg(0), arg(1))
		}
	case ir.FMA:
		name := map[ir.Type]string{ir.F32: "fma1", ir.F16: "fma_h", ir.BF16: "fma_b"}[e.typ(i.Res[0])]
		e.define(i, "%s(%s, %s, %s)", name, arg(0), arg(1), arg(2))
	case ir.ICmp:
		e.icmp(i)
	case ir.FCmp:
		op := map[ir.Pred]string{ir.Eq: "==", ir.Ne: "!=", ir.FLt: "<", ir.FLe: "<=", ir.FGt: ">", ir.FGe: ">="}[ir.Pred(i.Imm)]
		e.define(i, "%s %s %s", e.float(i.Args[0]), op, e.float(i.Args[1]))
	case ir.Select:
		e.define(i, "%s ? %s : %s", arg(0), arg(1), arg(2))
	case ir.PtrParam:
		if e.f.Params[i.Imm].Kind == ir.ThreadgroupParam {
			e.define(i, "(char*)shared_ + arg%d", i.Imm)
		} else {
			e.text[i.Res[0]] = fmt.Sprintf("arg%d", i.Imm)
		}
	case ir.PtrStatic:
		e.text[i.Res[0]] = fmt.Sprintf("static%d", i.Imm)
	case ir.PtrAlloca:
		e.text[i.Res[0]] = fmt.Sprintf("local%d", i.Imm)
	case ir.PtrTable:
		e.text[i.Res[0]] = fmt.Sprintf("(char*)table%d", i.Imm)
	case ir.PtrAdd:
		e.define(i, "%s + (s64)%s", arg(0), arg(1))
	case ir.PtrDiff:
		e.define(i, "(u64)%s - (u64)%s", arg(0), arg(1))
	case ir.Grid:
		e.grid(i)
	case ir.TgBarrier:
		e.line("__syncthreads();")
	case ir.SgBarrier:
		e.line("__syncwarp(%s);", e.mask)
	case ir.Fence:
		if ir.MemFlags(i.Imm)&ir.MemDevice != 0 {
			e.line("__threadfence();")
		} else {
			e.line("__threadfence_block();")
		}
	case ir.Declare:
	default:
		e.fail(i, "operation %s", i.Op)
	}
}

func (e *emitter) integer(i *ir.Instr) {
	x := i.Res[0]
	t := e.typ(x)
	w := t.Bits()
	a, sa := e.u32or64(i.Args[0]), e.signed(i.Args[0])
	var b, sb string
	if len(i.Args) > 1 {
		b, sb = e.u32or64(i.Args[1]), e.signed(i.Args[1])
	}
	if one := e.maskedOr(i); one != "" {
		e.defineValue(x, "%s", one)
		return
	}
	expr := ""
	long := t == ir.I64
	pick := func(narrow, wide string) string {
		if long {
			return wide
		}
		return narrow
	}
	switch i.Op {
	case ir.Add, ir.Sub, ir.Mul, ir.And, ir.Or, ir.Xor:
		expr = a + " " + map[ir.Op]string{ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.And: "&", ir.Or: "|", ir.Xor: "^"}[i.Op] + " " + b
	case ir.SDiv, ir.SRem:
		expr = map[ir.Op]string{ir.SDiv: "sdiv", ir.SRem: "srem"}[i.Op] + "(" + sa + ", " + sb + ")"
	case ir.UDiv, ir.URem:
		expr = map[ir.Op]string{ir.UDiv: "udiv", ir.URem: "urem"}[i.Op] + "(" + a + ", " + b + ")"
	case ir.Shl:
		expr = fmt.Sprintf("%s << (%s & %d)", a, b, w-1)
	case ir.LShr:
		expr = fmt.Sprintf("%s >> (%s & %d)", a, b, w-1)
	case ir.AShr:
		expr = fmt.Sprintf("%s >> (%s & %d)", sa, b, w-1)
	case ir.SMin:
		expr = fmt.Sprintf("%s < %s ? %s : %s", sa, sb, a, b)
	case ir.SMax:
		expr = fmt.Sprintf("%s > %s ? %s : %s", sa, sb, a, b)
	case ir.UMin:
		expr = fmt.Sprintf("%s < %s ? %s : %s", a, b, a, b)
	case ir.UMax:
		expr = fmt.Sprintf("%s > %s ? %s : %s", a, b, a, b)
	case ir.SMulHi:
		expr = fmt.Sprintf("(u32)(%s * %s) >> %d", sa, sb, w)
		if w >= 32 {
			expr = pick("__mulhi", "__mul64hi") + "(" + sa + ", " + sb + ")"
		}
	case ir.UMulHi:
		expr = fmt.Sprintf("%s * %s >> %d", a, b, w)
		if w >= 32 {
			expr = pick("__umulhi", "__umul64hi") + "(" + a + ", " + b + ")"
		}
	case ir.Clz:
		expr = fmt.Sprintf("%s%s) - %d", pick("__clz((s32)", "__clzll((s64)"), a, max(0, 32-w))
	case ir.Ctz:
		expr = fmt.Sprintf("%s ? %s%s) - 1 : %d", a, pick("__ffs((s32)", "__ffsll((s64)"), a, w)
	case ir.Popcount:
		expr = pick("__popc(", "__popcll(") + a + ")"
	case ir.ReverseBits:
		expr = fmt.Sprintf("%s%s) >> %d", pick("__brev(", "__brevll("), a, max(0, 32-w))
	}
	e.defineValue(x, "%s", expr) // the definition cuts narrow types
}

func (e *emitter) icmp(i *ir.Instr) {
	x, y := i.Args[0], i.Args[1]
	a, b := e.v(x), e.v(y)
	p := ir.Pred(i.Imm)
	switch {
	case e.typ(x) == ir.Ptr:
		a, b = "(u64)"+a, "(u64)"+b
	case p >= ir.SLt && p <= ir.SGe:
		a, b = e.signed(x), e.signed(y)
	}
	op := map[ir.Pred]string{ir.Eq: "==", ir.Ne: "!=", ir.SLt: "<", ir.SLe: "<=", ir.SGt: ">", ir.SGe: ">=",
		ir.ULt: "<", ir.ULe: "<=", ir.UGt: ">", ir.UGe: ">="}[p]
	e.define(i, "%s %s %s", a, op, b)
}

func (e *emitter) convert(i *ir.Instr) {
	x, a := i.Res[0], i.Args[0]
	to, from := e.typ(x), e.typ(a)
	v := e.v(a)
	c := ctype(to)
	switch i.Op {
	case ir.IntTrunc:
		if to == ir.I1 {
			e.define(i, "(%s & 1) != 0", v)
		} else {
			e.define(i, "(%s)%s", c, v)
		}
	case ir.ZExt:
		e.define(i, "%s", v)
	case ir.SExt:
		if from == ir.I1 {
			e.define(i, "(%s)(%s ? -1 : 0)", c, v)
		} else {
			e.define(i, "(%s)(%s)", c, e.signed(a))
		}
	case ir.FToS, ir.FToU:
		f := e.float(a)
		w := to.Bits()
		switch {
		case w >= 32 && i.Op == ir.FToS:
			e.define(i, "(%s)ftos%d(%s)", c, w, f)
		case w >= 32:
			e.define(i, "ftou%d(%s)", w, f)
		case i.Op == ir.FToS:
			e.define(i, "(%s)ftosn(%s, -%d.0f, %d.0f)", c, f, 1<<(w-1), 1<<(w-1)-1)
		default:
			e.define(i, "(%s)ftoun(%s, %d.0f)", c, f, 1<<w-1)
		}
	case ir.SToF, ir.UToF:
		s := i.Op == ir.SToF && from != ir.I1
		if small := e.smallToFloat(a, s); small != "" && to != ir.BF16 {
			e.define(i, "%s", rounded(to, small))
			return
		}
		switch {
		case to == ir.BF16 && s:
			e.define(i, "stob((s64)%s)", e.signed(a))
		case to == ir.BF16:
			e.define(i, "utob((u64)%s)", v)
		case from == ir.I64 && s:
			e.define(i, "%s", rounded(to, "__ll2float_rn((s64)"+v+")"))
		case from == ir.I64:
			e.define(i, "%s", rounded(to, "__ull2float_rn("+v+")"))
		case s:
			e.define(i, "%s", rounded(to, "__int2float_rn("+e.signed(a)+")"))
		default:
			e.define(i, "%s", rounded(to, "__uint2float_rn((u32)"+v+")"))
		}
	case ir.FConv:
		e.define(i, "%s", rounded(to, e.float(a)))
	case ir.Bitcast:
		if to == ir.F32 || from == ir.F32 {
			e.define(i, "bits(%s)", v)
		} else {
			e.define(i, "%s", v)
		}
	}
}

func (e *emitter) grid(i *ir.Instr) {
	c := int(i.Imm & 3)
	axis := string("xyz"[c])
	position := [...]string{"tid % sx", "tid / sx % sy", "tid / sx / sy"}[c]
	expr := ""
	switch k := ir.GridKind(i.Imm >> 2); k {
	case ir.ThreadPositionInGrid:
		expr = fmt.Sprintf("blockIdx.%s * g.tg[%d] + %s", axis, c, position)
	case ir.ThreadPositionInThreadgroup:
		expr = position
	case ir.ThreadIndexInThreadgroup:
		expr = "tid"
	case ir.ThreadgroupPositionInGrid:
		expr = "blockIdx." + axis
	case ir.ThreadsPerGrid, ir.GridSize:
		expr = fmt.Sprintf("g.threads[%d]", c)
	case ir.ThreadsPerThreadgroup:
		expr = "s" + axis
	case ir.DispatchThreadsPerThreadgroup:
		expr = fmt.Sprintf("g.tg[%d]", c)
	case ir.ThreadgroupsPerGrid:
		expr = "gridDim." + axis
	case ir.ThreadIndexInSimdgroup:
		expr = "tid & 31"
	case ir.SimdgroupIndexInThreadgroup:
		expr = "tid >> 5"
	case ir.SimdgroupsPerThreadgroup:
		expr = "(size + 31) / 32"
	case ir.DispatchSimdgroupsPerThreadgroup:
		expr = "(g.tg[0] * g.tg[1] * g.tg[2] + 31) / 32"
	case ir.ThreadsPerSimdgroup:
		expr = "32u"
	case ir.ThreadIndexInQuadgroup:
		expr = "tid & 3"
	case ir.QuadgroupIndexInThreadgroup:
		expr = "tid >> 2"
	case ir.QuadgroupsPerThreadgroup:
		expr = "(size + 3) / 4"
	case ir.GridOrigin:
		expr = "0u"
	default:
		e.fail(i, "grid attribute %s", k)
		return
	}
	e.define(i, "%s", expr)
}
