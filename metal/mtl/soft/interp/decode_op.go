package interp

import (
	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
)

// result emits o into a new register and defines the instruction's result as it.
func (d *decoder) result(i *ir.Instr, o lane.Op, args ...int) {
	v := i.Res[0]
	d.define(v, d.op(o, d.varying[v], d.classOf(d.f.Types[v], d.varying[v]), args...))
}

// narrowMask keeps the bits of a narrow integer type.
func narrowMask(t ir.Type) uint64 { return 1<<t.Bits() - 1 }

func wide(t ir.Type) bool { return t == ir.I64 || t == ir.Ptr }

// vclass is the class of a 32-bit intermediate that varies or not.
func vclass(varying bool) class {
	if varying {
		return cVec
	}
	return cScalar
}

// konst is a constant operand of up to 32 bits.
func (d *decoder) konst(bits uint64, varying bool) int { return d.constReg(bits, vclass(varying)) }

// sext makes a narrow integer's register a 32-bit one.
func (d *decoder) sext(r int, t ir.Type, varying bool) int {
	switch t {
	case ir.I8:
		return d.op(lane.SExt8, varying, vclass(varying), r)
	case ir.I16:
		return d.op(lane.SExt16, varying, vclass(varying), r)
	}
	return r
}

// float makes a half or bfloat register a float32 one.
func (d *decoder) float(r int, t ir.Type, varying bool) int {
	switch t {
	case ir.F16:
		return d.op(lane.F16ToF, varying, vclass(varying), r)
	case ir.BF16:
		return d.op(lane.BF16ToF, varying, vclass(varying), r)
	}
	return r
}

// resultFloat emits a float32 operation and rounds its result to the type.
func (d *decoder) resultFloat(i *ir.Instr, o lane.Op, args ...int) {
	v := i.Res[0]
	varying := d.varying[v]
	switch d.f.Types[v] {
	case ir.F16:
		d.result(i, lane.FToF16, d.op(o, varying, vclass(varying), args...))
	case ir.BF16:
		d.result(i, lane.FToBF16, d.op(o, varying, vclass(varying), args...))
	default:
		d.result(i, o, args...)
	}
}

// intOps are the 32-bit operations; the 64-bit one lies at the same distance
// from Add64.
var intOps = map[ir.Op]lane.Op{
	ir.Add: lane.Add32, ir.Sub: lane.Sub32, ir.Mul: lane.Mul32, ir.SDiv: lane.SDiv32, ir.UDiv: lane.UDiv32,
	ir.SRem: lane.SRem32, ir.URem: lane.URem32, ir.And: lane.And32, ir.Or: lane.Or32, ir.Xor: lane.Xor32,
	ir.Shl: lane.Shl32, ir.LShr: lane.LShr32, ir.AShr: lane.AShr32, ir.SMin: lane.SMin32, ir.SMax: lane.SMax32,
	ir.UMin: lane.UMin32, ir.UMax: lane.UMax32, ir.SMulHi: lane.SMulHi32, ir.UMulHi: lane.UMulHi32,
	ir.Clz: lane.Clz32, ir.Ctz: lane.Ctz32, ir.Popcount: lane.Popcount32, ir.ReverseBits: lane.Reverse32,
}

var floatOps = map[ir.Op]lane.Op{
	ir.FAdd: lane.FAdd, ir.FSub: lane.FSub, ir.FMul: lane.FMul, ir.FDiv: lane.FDiv, ir.FRem: lane.FRem,
	ir.FMin: lane.FMin, ir.FMax: lane.FMax, ir.Floor: lane.Floor, ir.Ceil: lane.Ceil, ir.Trunc: lane.Trunc,
	ir.Rint: lane.Rint, ir.Round: lane.Round, ir.Sqrt: lane.Sqrt, ir.Rsqrt: lane.Rsqrt, ir.Exp: lane.Exp,
	ir.Exp2: lane.Exp2, ir.Exp10: lane.Exp10, ir.Log: lane.Log, ir.Log2: lane.Log2, ir.Log10: lane.Log10,
	ir.Sin: lane.Sin, ir.Cos: lane.Cos, ir.Tan: lane.Tan, ir.Tanh: lane.Tanh, ir.Sinh: lane.Sinh,
	ir.Cosh: lane.Cosh, ir.Asin: lane.Asin, ir.Acos: lane.Acos, ir.Atan: lane.Atan, ir.Atan2: lane.Atan2,
	ir.Pow: lane.Pow, ir.Erf: lane.Erf,
}

// plainInstr emits an instruction that stays in its region.
func (d *decoder) plainInstr(i *ir.Instr) {
	if o, ok := intOps[i.Op]; ok {
		d.intOp(i, o)
		return
	}
	if o, ok := floatOps[i.Op]; ok {
		varying := d.varying[i.Res[0]]
		var args []int
		for _, a := range i.Args {
			args = append(args, d.float(d.operand(a, varying), d.f.Types[a], varying))
		}
		d.resultFloat(i, o, args...)
		return
	}
	switch i.Op {
	case ir.Const:
		d.vals[i.Res[0]] = value{isConst: true, bits: d.constBits(i)}
	case ir.Undef:
		v := i.Res[0]
		c := d.classOf(d.f.Types[v], d.varying[v])
		r := d.newReg(c)
		d.emit(instr{op: opUndef, dst: uint32(r), imm: uint64(c.size())})
		d.define(v, r)
	case ir.FNeg, ir.FAbs, ir.FCopysign:
		d.signOp(i)
	case ir.FMA:
		v := i.Res[0]
		o := lane.FMA
		switch d.f.Types[v] {
		case ir.F16:
			o = lane.FMA16
		case ir.BF16:
			o = lane.FMABF16
		}
		varying := d.varying[v]
		d.result(i, o, d.operand(i.Args[0], varying), d.operand(i.Args[1], varying), d.operand(i.Args[2], varying))
	case ir.ICmp:
		d.icmp(i)
	case ir.FCmp:
		d.fcmp(i)
	case ir.Select:
		d.selectOp(i)
	case ir.IntTrunc, ir.ZExt, ir.SExt, ir.FToS, ir.FToU, ir.SToF, ir.UToF, ir.FConv, ir.Bitcast:
		d.convert(i)
	case ir.PtrParam, ir.PtrStatic, ir.PtrAlloca, ir.PtrTable:
		d.vals[i.Res[0]] = value{isAddr: true}
	case ir.PtrAdd:
		d.ptrAdd(i)
	case ir.PtrDiff:
		x, y := i.Args[0], i.Args[1]
		varying := d.varying[i.Res[0]]
		tagged := d.root[x] != d.root[y]
		d.result(i, lane.Sub64, d.pointerAs(x, tagged, varying), d.pointerAs(y, tagged, varying))
	case ir.Declare:
	default:
		d.effect(i)
	}
}

// constBits canonicalises a constant: narrow integers zero-extended, true all
// ones.
func (d *decoder) constBits(i *ir.Instr) uint64 {
	switch t := d.f.Types[i.Res[0]]; t {
	case ir.I1:
		if i.Imm&1 != 0 {
			return 0xffffffff
		}
		return 0
	case ir.I64, ir.Ptr:
		return i.Imm
	default:
		return i.Imm & narrowMask(t)
	}
}

func (d *decoder) intOp(i *ir.Instr, o lane.Op) {
	v := i.Res[0]
	t := d.f.Types[v]
	varying := d.varying[v]
	if t == ir.I1 {
		var op lane.Op
		var rule poisonRule
		switch i.Op {
		case ir.And:
			op, rule = lane.And64, poisonAnd
		case ir.Or:
			op, rule = lane.Or64, poisonOr
		case ir.Xor:
			op = lane.Xor64
		default:
			d.fail(i, i.Op.String()+" of i1")
			return
		}
		d.define(v, d.mask(op, rule, d.scalarOf(i.Args[0]), d.scalarOf(i.Args[1])))
		return
	}
	var args []int
	for _, a := range i.Args {
		args = append(args, d.operand(a, varying))
	}
	if t == ir.I64 {
		d.result(i, o-lane.Add32+lane.Add64, args...)
		return
	}
	if t == ir.I32 {
		d.result(i, o, args...)
		return
	}
	// Narrow types: in 32 bits, then cut back.
	c := vclass(varying)
	w := uint64(t.Bits())
	switch i.Op {
	case ir.SDiv, ir.SRem, ir.SMin, ir.SMax, ir.SMulHi:
		args[0], args[1] = d.sext(args[0], t, varying), d.sext(args[1], t, varying)
	case ir.AShr:
		args[0] = d.sext(args[0], t, varying)
	case ir.Ctz:
		args[0] = d.op(lane.Or32, varying, c, args[0], d.konst(1<<w, varying))
	}
	switch i.Op {
	case ir.Shl, ir.LShr, ir.AShr:
		args[1] = d.op(lane.And32, varying, c, args[1], d.konst(w-1, varying))
	case ir.SMulHi, ir.UMulHi:
		p := d.op(lane.Mul32, varying, c, args...)
		p = d.op(lane.LShr32, varying, c, p, d.konst(w, varying))
		d.result(i, lane.And32, p, d.konst(narrowMask(t), varying))
		return
	}
	switch i.Op {
	case ir.And, ir.Or, ir.Xor, ir.LShr, ir.UMin, ir.UMax, ir.UDiv, ir.URem, ir.Popcount, ir.Ctz:
		d.result(i, o, args...)
	case ir.Clz:
		d.result(i, lane.Sub32, d.op(o, varying, c, args...), d.konst(32-w, varying))
	case ir.ReverseBits:
		d.result(i, lane.LShr32, d.op(o, varying, c, args...), d.konst(32-w, varying))
	default:
		d.result(i, lane.And32, d.op(o, varying, c, args...), d.konst(narrowMask(t), varying))
	}
}

// signOp works on the sign bit of any float type.
func (d *decoder) signOp(i *ir.Instr) {
	v := i.Res[0]
	varying := d.varying[v]
	sign := uint64(1) << (d.f.Types[v].Bits() - 1)
	x := d.operand(i.Args[0], varying)
	switch i.Op {
	case ir.FNeg:
		d.result(i, lane.Xor32, x, d.konst(sign, varying))
	case ir.FAbs:
		d.result(i, lane.And32, x, d.konst(sign-1, varying))
	default:
		c := vclass(varying)
		m := d.op(lane.And32, varying, c, x, d.konst(sign-1, varying))
		s := d.op(lane.And32, varying, c, d.operand(i.Args[1], varying), d.konst(sign, varying))
		d.result(i, lane.Or32, m, s)
	}
}

func (d *decoder) icmp(i *ir.Instr) {
	x, y := i.Args[0], i.Args[1]
	t := d.f.Types[x]
	varying := d.varying[i.Res[0]]
	pred := ir.Pred(i.Imm)
	if t == ir.I1 {
		d.maskCompare(i, pred)
		return
	}
	var a, b int
	switch {
	case t == ir.Ptr && d.root[x] == d.root[y] && d.root[x] >= 0:
		a, b = d.pointerAs(x, false, varying), d.pointerAs(y, false, varying)
	case t == ir.Ptr:
		// Of different or unknown objects: compare places in memory.
		a, b = d.pointerAs(x, true, varying), d.pointerAs(y, true, varying)
		ra, rb := d.newReg(d.classOf(ir.Ptr, varying)), d.newReg(d.classOf(ir.Ptr, varying))
		var uni uint32
		if !varying {
			uni = 1
		}
		d.emit(instr{op: opPtrCmp, dst: uint32(ra), a: uint32(a), x: uni})
		d.emit(instr{op: opPtrCmp, dst: uint32(rb), a: uint32(b), x: uni})
		a, b = ra, rb
	default:
		a, b = d.operand(x, varying), d.operand(y, varying)
	}
	switch pred {
	case ir.SGt, ir.SGe, ir.UGt, ir.UGe:
		a, b = b, a
	}
	switch pred {
	case ir.SLt, ir.SLe, ir.SGt, ir.SGe:
		a, b = d.sext(a, t, varying), d.sext(b, t, varying)
	}
	o := map[ir.Pred]lane.Op{
		ir.Eq: lane.Eq32, ir.Ne: lane.Ne32, ir.SLt: lane.SLt32, ir.SLe: lane.SLe32, ir.SGt: lane.SLt32, ir.SGe: lane.SLe32,
		ir.ULt: lane.ULt32, ir.ULe: lane.ULe32, ir.UGt: lane.ULt32, ir.UGe: lane.ULe32,
	}[pred]
	if o == 0 {
		d.fail(i, "icmp with a float predicate")
		return
	}
	if wide(t) {
		o += lane.Eq64 - lane.Eq32
	}
	d.result(i, o, a, b)
}

// maskCompare compares bools: true is greater than false (unsigned).
func (d *decoder) maskCompare(i *ir.Instr, pred ir.Pred) {
	a, b := d.scalarOf(i.Args[0]), d.scalarOf(i.Args[1])
	all := d.constReg(0xffffffff, cScalar)
	not := func(a int) int { return d.mask(lane.Xor64, poisonAny, a, all) }
	var r int
	switch pred {
	case ir.Eq:
		r = not(d.mask(lane.Xor64, poisonAny, a, b))
	case ir.Ne:
		r = d.mask(lane.Xor64, poisonAny, a, b)
	case ir.ULt, ir.SGt:
		r = d.mask(lane.And64, poisonAnd, not(a), b)
	case ir.UGt, ir.SLt:
		r = d.mask(lane.And64, poisonAnd, a, not(b))
	case ir.ULe, ir.SGe:
		r = d.mask(lane.Or64, poisonOr, not(a), b)
	default:
		r = d.mask(lane.Or64, poisonOr, a, not(b))
	}
	d.define(i.Res[0], r)
}

func (d *decoder) fcmp(i *ir.Instr) {
	t := d.f.Types[i.Args[0]]
	varying := d.varying[i.Res[0]]
	a := d.float(d.operand(i.Args[0], varying), t, varying)
	b := d.float(d.operand(i.Args[1], varying), t, varying)
	switch ir.Pred(i.Imm) {
	case ir.Eq:
		d.result(i, lane.FEq, a, b)
	case ir.Ne:
		d.result(i, lane.FNe, a, b)
	case ir.FLt:
		d.result(i, lane.FLt, a, b)
	case ir.FLe:
		d.result(i, lane.FLe, a, b)
	case ir.FGt:
		d.result(i, lane.FLt, b, a)
	case ir.FGe:
		d.result(i, lane.FLe, b, a)
	default:
		d.fail(i, "fcmp with an integer predicate")
	}
}

func (d *decoder) selectOp(i *ir.Instr) {
	v := i.Res[0]
	t := d.f.Types[v]
	varying := d.varying[v]
	c := d.scalarOf(i.Args[0])
	switch {
	case t == ir.I1:
		d.define(v, d.mask(lane.MaskSelect, poisonSelect, c, d.scalarOf(i.Args[1]), d.scalarOf(i.Args[2])))
	case t.IsSg():
		r := d.newReg(cSg)
		d.emit(instr{op: opCopySg, dst: uint32(r), a: uint32(d.vals[i.Args[2]].reg)})
		d.emit(instr{op: opMergeSg, dst: uint32(r), a: uint32(d.vals[i.Args[1]].reg), b: uint32(c), x: 1})
		d.define(v, r)
	case t == ir.Ptr:
		tagged := d.root[v] == rootDynamic
		a := d.pointerAs(i.Args[1], tagged && d.root[i.Args[1]] >= 0, varying)
		b := d.pointerAs(i.Args[2], tagged && d.root[i.Args[2]] >= 0, varying)
		d.result(i, lane.Select64, c, a, b)
	case t == ir.I64:
		d.result(i, lane.Select64, c, d.operand(i.Args[1], varying), d.operand(i.Args[2], varying))
	default:
		d.result(i, lane.Select32, c, d.operand(i.Args[1], varying), d.operand(i.Args[2], varying))
	}
}

// pointerAs is pointer, in a vector where varying asks for one.
func (d *decoder) pointerAs(v ir.Value, tagged, varying bool) int {
	if varying && !d.varying[v] && d.vals[v].isConst {
		return d.constReg(d.vals[v].bits, cWide)
	}
	r := d.pointer(v, tagged && d.root[v] >= 0)
	if varying && !d.varying[v] {
		r = d.bcast(r, cWide)
	}
	return r
}

func (d *decoder) ptrAdd(i *ir.Instr) {
	v, p, off := i.Res[0], i.Args[0], i.Args[1]
	x := d.vals[p]
	if !x.isAddr {
		x = value{isAddr: true, disp: 0}
		switch {
		case d.vals[p].isConst:
			x.disp = int64(d.vals[p].bits)
		case d.varying[p]:
			x.sv = d.vals[p].reg
		default:
			x.su = d.vals[p].reg
		}
	}
	x.vec = 0
	o := &d.vals[off]
	switch {
	case o.isConst:
		x.disp += int64(o.bits)
	case d.varying[off]:
		if x.sv == 0 {
			x.sv = o.reg
		} else {
			x.sv = d.op(lane.Add64, true, cWide, x.sv, o.reg)
		}
	default:
		if x.su == 0 {
			x.su = d.scalarOf(off)
		} else {
			x.su = d.op(lane.Add64, false, cScalar, x.su, d.scalarOf(off))
		}
	}
	d.vals[v] = x
}

func (d *decoder) convert(i *ir.Instr) {
	v, a := i.Res[0], i.Args[0]
	to, from := d.f.Types[v], d.f.Types[a]
	varying := d.varying[v]
	c := vclass(varying)
	wideClass := d.classOf(ir.I64, varying)
	x := func() int { return d.operand(a, varying) }
	switch i.Op {
	case ir.IntTrunc:
		switch {
		case to == from:
			d.alias(v, a)
		case to == ir.I1:
			r := x()
			if wide(from) {
				r = d.op(lane.Trunc64, varying, c, r)
			}
			r = d.op(lane.And32, varying, c, r, d.konst(1, varying))
			d.result(i, lane.Ne32, r, d.konst(0, varying))
		case from == ir.I64 && to == ir.I32:
			d.result(i, lane.Trunc64, x())
		case from == ir.I64:
			d.result(i, lane.And32, d.op(lane.Trunc64, varying, c, x()), d.konst(narrowMask(to), varying))
		default:
			d.result(i, lane.And32, x(), d.konst(narrowMask(to), varying))
		}
	case ir.ZExt:
		switch {
		case from == ir.I1 && to == ir.I64:
			d.result(i, lane.Bool64, x())
		case from == ir.I1:
			d.result(i, lane.Bool32, x())
		case to == ir.I64 && from != ir.I64:
			d.result(i, lane.ZExt64, x())
		default:
			d.alias(v, a)
		}
	case ir.SExt:
		var r int
		switch {
		case to == from:
			d.alias(v, a)
			return
		case from == ir.I1:
			r = d.op(lane.Sub32, varying, c, d.konst(0, varying), d.op(lane.Bool32, varying, c, x()))
		default:
			r = d.sext(x(), from, varying)
		}
		switch to {
		case ir.I64:
			d.result(i, lane.SExt64, r)
		case ir.I32:
			d.define(v, r)
		default:
			d.result(i, lane.And32, r, d.konst(narrowMask(to), varying))
		}
	case ir.FToS, ir.FToU:
		ops := map[ir.Type]lane.Op{ir.I8: lane.FToS8, ir.I16: lane.FToS16, ir.I32: lane.FToS32, ir.I64: lane.FToS64}
		if i.Op == ir.FToU {
			ops = map[ir.Type]lane.Op{ir.I8: lane.FToU8, ir.I16: lane.FToU16, ir.I32: lane.FToU32, ir.I64: lane.FToU64}
		}
		d.result(i, ops[to], d.float(x(), from, varying))
	case ir.SToF, ir.UToF:
		r := x()
		signed := i.Op == ir.SToF
		switch {
		case from == ir.I1:
			r = d.op(lane.Bool32, varying, c, r)
		case signed:
			r = d.sext(r, from, varying)
		}
		if to == ir.BF16 {
			// In one rounding: through 64 bits.
			switch {
			case from == ir.I64:
			case signed && from != ir.I1:
				r = d.op(lane.SExt64, varying, wideClass, r)
			default:
				r = d.op(lane.ZExt64, varying, wideClass, r)
			}
			if signed {
				d.result(i, lane.S64ToBF16, r)
			} else {
				d.result(i, lane.U64ToBF16, r)
			}
			return
		}
		o := lane.U32ToF
		switch {
		case from == ir.I64 && signed:
			o = lane.S64ToF
		case from == ir.I64:
			o = lane.U64ToF
		case signed && from != ir.I1:
			o = lane.S32ToF
		}
		// float32 holds every integer that a half holds without rounding.
		d.resultFloat(i, o, r)
	case ir.FConv:
		if to == from {
			d.alias(v, a)
			return
		}
		r := x()
		switch {
		case to == ir.F32 && from == ir.F16:
			d.result(i, lane.F16ToF, r)
		case to == ir.F32:
			d.result(i, lane.BF16ToF, r)
		case to == ir.F16:
			d.result(i, lane.FToF16, d.float(r, from, varying))
		default:
			d.result(i, lane.FToBF16, d.float(r, from, varying))
		}
	case ir.Bitcast:
		d.alias(v, a)
	}
}
