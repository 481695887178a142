package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/types"
)

// floatOps are the functions of one kind: floats in, a float of the same type out,
// element by element.
var floatOps = map[sema.Intrinsic]ir.Op{
	sema.IFabs: ir.FAbs, sema.IFloor: ir.Floor, sema.ICeil: ir.Ceil, sema.ITrunc: ir.Trunc, sema.IRint: ir.Rint, sema.IRound: ir.Round,
	sema.ISqrt: ir.Sqrt, sema.IRsqrt: ir.Rsqrt, sema.IExp: ir.Exp, sema.IExp2: ir.Exp2, sema.IExp10: ir.Exp10, sema.ILog: ir.Log,
	sema.ILog2: ir.Log2, sema.ILog10: ir.Log10, sema.ISin: ir.Sin, sema.ICos: ir.Cos, sema.ITan: ir.Tan, sema.ISinh: ir.Sinh,
	sema.ICosh: ir.Cosh, sema.ITanh: ir.Tanh, sema.IAsin: ir.Asin, sema.IAcos: ir.Acos, sema.IAtan: ir.Atan,
	sema.IAtan2: ir.Atan2, sema.IPow: ir.Pow, sema.IFmod: ir.FRem, sema.IFmin: ir.FMin, sema.IFmax: ir.FMax, sema.ICopysign: ir.FCopysign,
	sema.IFma: ir.FMA,
}

// intOps likewise; signed and unsigned.
var intOps = map[sema.Intrinsic][2]ir.Op{
	sema.IMin: {ir.SMin, ir.UMin}, sema.IMax: {ir.SMax, ir.UMax}, sema.IMulHi: {ir.SMulHi, ir.UMulHi},
	sema.IClz: {ir.Clz, ir.Clz}, sema.ICtz: {ir.Ctz, ir.Ctz}, sema.IPopcount: {ir.Popcount, ir.Popcount},
	sema.IReverseBits: {ir.ReverseBits, ir.ReverseBits},
}

// group is a simdgroup function in either width.
type group struct {
	op  sema.Intrinsic
	imm uint64 // QuadScope or 0
}

// groupOf maps the quad functions, which are declared in the same order, to the simdgroup ones.
func groupOf(op sema.Intrinsic) (group, bool) {
	switch {
	case op >= sema.ISimdSum && op <= sema.ISimdActiveMask:
		return group{op, 0}, true
	case op >= sema.IQuadSum && op <= sema.IQuadActiveMask:
		return group{op - sema.IQuadSum + sema.ISimdSum, ir.QuadScope}, true
	}
	return group{}, false
}

var shuffleOps = map[sema.Intrinsic]ir.ShuffleOp{
	sema.ISimdShuffle: ir.ShuffleLane, sema.ISimdBroadcast: ir.ShuffleBroadcast, sema.ISimdShuffleUp: ir.ShuffleUp,
	sema.ISimdShuffleDown: ir.ShuffleDown, sema.ISimdShuffleXor: ir.ShuffleXor, sema.ISimdShuffleRotateUp: ir.ShuffleRotateUp,
	sema.ISimdShuffleRotateDown: ir.ShuffleRotateDown, sema.ISimdBroadcastFirst: ir.ShuffleBroadcastFirst,
	sema.ISimdShuffleAndFillUp: ir.ShuffleFillUp, sema.ISimdShuffleAndFillDown: ir.ShuffleFillDown,
}

func (l *lowerer) builtin(e *sema.Builtin) value {
	switch e.Op {
	case sema.ISgLoad, sema.ISgStore, sema.ISgMul, sema.ISgMulAdd, sema.ISgFill, sema.ISgDiag:
		return l.sgmat(e)
	case sema.IFuncConstDefined:
		return l.funcConstDefined(e)
	case sema.IUnreachable:
		return value{typ: e.T.T}
	case sema.IAssume:
		l.effects(e.Args[0])
		return value{typ: e.T.T}
	case sema.IThreadgroupBarrier, sema.ISimdgroupBarrier, sema.IFence:
		return l.barrier(e)
	}
	if e.Op >= sema.IAtomicLoad && e.Op <= sema.IAtomicMax {
		return l.atomic(e)
	}
	args := make([]value, len(e.Args))
	n := 1
	for k, a := range e.Args {
		args[k] = l.rv(a)
		n = max(n, len(args[k].s))
	}
	l.at(e.Where)
	if g, ok := groupOf(e.Op); ok {
		return l.group(e, g, args)
	}
	each := func(f func(k int) ir.Value) value {
		out := value{typ: e.T.T}
		for k := range n {
			out.s = append(out.s, f(k))
		}
		return out
	}
	ops := func(k int) []ir.Value {
		var vs []ir.Value
		for _, a := range args {
			vs = append(vs, pick(a, k))
		}
		return vs
	}
	if op, ok := floatOps[e.Op]; ok {
		return each(func(k int) ir.Value { vs := ops(k); return l.emit(op, l.b.TypeOf(vs[0]), 0, vs...) })
	}
	kind := types.Invalid
	if len(args) > 0 {
		kind = args[0].typ.ScalarKind()
	}
	switch e.Op {
	case sema.ISelect:
		return each(func(k int) ir.Value {
			return l.emit(ir.Select, l.b.TypeOf(pick(args[0], k)), 0, l.truth(pick(args[2], k)), pick(args[1], k), pick(args[0], k))
		})
	case sema.IDot:
		return value{e.T.T, []ir.Value{l.dot(args[0], args[1])}}
	case sema.IAll, sema.IAny:
		op := ir.And
		if e.Op == sema.IAny {
			op = ir.Or
		}
		r := l.truth(args[0].s[0])
		for _, v := range args[0].s[1:] {
			r = l.emit(op, ir.I1, 0, r, l.truth(v))
		}
		return value{e.T.T, []ir.Value{r}}
	case sema.ITranspose:
		m := args[0].typ
		out := value{typ: e.T.T}
		for r := range m.Rows {
			for c := range m.N {
				out.s = append(out.s, args[0].s[c*m.Rows+r])
			}
		}
		return out
	case sema.IAbs:
		if kind.IsFloat() {
			return each(func(k int) ir.Value { v := pick(args[0], k); return l.emit(ir.FAbs, l.b.TypeOf(v), 0, v) })
		}
		if !kind.IsSigned() {
			return args[0]
		}
		return each(func(k int) ir.Value {
			v := pick(args[0], k)
			t := l.b.TypeOf(v)
			return l.emit(ir.SMax, t, 0, v, l.emit(ir.Sub, t, 0, l.const_(t, 0), v))
		})
	}
	if op, ok := intOps[e.Op]; ok {
		o := op[1]
		switch {
		case kind.IsFloat() && e.Op == sema.IMin:
			o = ir.FMin
		case kind.IsFloat() && e.Op == sema.IMax:
			o = ir.FMax
		case kind.IsSigned():
			o = op[0]
		}
		return each(func(k int) ir.Value { vs := ops(k); return l.emit(o, l.b.TypeOf(vs[0]), 0, vs...) })
	}
	l.fail(e.Where, "intrinsic %d is not supported", e.Op)
	return value{}
}

// dot sums from component 0 up.
func (l *lowerer) dot(a, b value) ir.Value {
	var r ir.Value
	for k := range a.s {
		t := l.b.TypeOf(a.s[k])
		mul, add, imm := ir.Mul, ir.Add, uint64(0)
		if t.IsFloat() {
			mul, add, imm = ir.FMul, ir.FAdd, l.contraction()
		}
		p := l.emit(mul, t, imm, a.s[k], b.s[k])
		if k == 0 {
			r = p
		} else {
			r = l.emit(add, t, imm, r, p)
		}
	}
	return r
}

func (l *lowerer) funcConstDefined(e *sema.Builtin) value {
	var v *sema.Var
	x := e.Args[0]
	if ld, ok := x.(*sema.Load); ok {
		x = ld.X
	}
	if r, ok := x.(*sema.VarRef); ok {
		v = r.Var
	}
	if v == nil || v.Kind != sema.FuncConstVar {
		l.fail(e.Where, "is_function_constant_defined needs a function constant")
	}
	_, ok := l.opt.Constants[v.FuncConst]
	bits := uint64(0)
	if ok {
		bits = 1
	}
	return value{e.T.T, []ir.Value{l.const_(ir.I1, bits)}}
}

func (l *lowerer) barrier(e *sema.Builtin) value {
	f := l.rv(e.Args[0])
	for _, a := range e.Args[1:] {
		l.effects(a)
	}
	l.at(e.Where)
	c, ok := l.constOf(f.s[0])
	if !ok || c > uint64(ir.MemDevice|ir.MemThreadgroup|ir.MemTexture) {
		l.fail(e.Where, "the memory flags of a barrier must be a constant")
	}
	op := ir.TgBarrier
	switch e.Op {
	case sema.ISimdgroupBarrier:
		op = ir.SgBarrier
	case sema.IFence:
		op = ir.Fence
	}
	l.b.Op(op, ir.Void, c)
	return value{typ: e.T.T}
}

func reduceOp(op sema.Intrinsic, k types.Kind) ir.ReduceOp {
	switch op {
	case sema.ISimdSum, sema.ISimdPrefixInclusiveSum, sema.ISimdPrefixExclusiveSum:
		return ir.ReduceAdd
	case sema.ISimdProduct, sema.ISimdPrefixInclusiveProduct, sema.ISimdPrefixExclusiveProduct:
		return ir.ReduceMul
	case sema.ISimdMin, sema.ISimdMax:
		r := ir.ReduceUMin
		switch {
		case k.IsFloat():
			r = ir.ReduceFMin
		case k.IsSigned():
			r = ir.ReduceSMin
		}
		if op == sema.ISimdMax {
			r++ // each max follows its min
		}
		return r
	case sema.ISimdAnd:
		return ir.ReduceAnd
	case sema.ISimdOr:
		return ir.ReduceOr
	}
	return ir.ReduceXor
}

// group lowers the simdgroup and quad functions, element by element.
func (l *lowerer) group(e *sema.Builtin, g group, args []value) value {
	out := value{typ: e.T.T}
	switch g.op {
	case sema.ISimdAny, sema.ISimdAll, sema.ISimdBallot:
		c := l.truth(args[0].s[0])
		t, vote := ir.I1, ir.VoteAny
		switch g.op {
		case sema.ISimdAll:
			vote = ir.VoteAll
		case sema.ISimdBallot:
			t, vote = ir.I64, ir.VoteBallot
		}
		out.s = []ir.Value{l.mask(l.b.Op(ir.SimdVote, t, uint64(vote)|g.imm, c), e.T.T)}
		return out
	case sema.ISimdIsFirst:
		out.s = []ir.Value{l.b.Op(ir.SimdFirst, ir.I1, g.imm)}
		return out
	case sema.ISimdActiveMask:
		out.s = []ir.Value{l.mask(l.b.Op(ir.SimdActive, ir.I64, g.imm), e.T.T)}
		return out
	}
	kind := args[0].typ.ScalarKind()
	index := func(k int) ir.Value { return l.convScalar(args[k].s[0], args[k].typ.ScalarKind(), types.UInt) }
	for k, v := range args[0].s {
		t := l.b.TypeOf(v)
		var r ir.Value
		switch {
		case g.op >= sema.ISimdSum && g.op <= sema.ISimdXor:
			r = l.b.Op(ir.SimdReduce, t, uint64(reduceOp(g.op, kind))|g.imm, v)
		case g.op >= sema.ISimdPrefixInclusiveSum && g.op <= sema.ISimdPrefixExclusiveProduct:
			imm := uint64(reduceOp(g.op, kind)) | g.imm
			if g.op == sema.ISimdPrefixExclusiveSum || g.op == sema.ISimdPrefixExclusiveProduct {
				imm |= ir.ScanExclusive
			}
			r = l.b.Op(ir.SimdScan, t, imm, v)
		default:
			s, ok := shuffleOps[g.op]
			if !ok {
				l.fail(e.Where, "simdgroup function %d is not supported", g.op)
			}
			ops := []ir.Value{v}
			switch s {
			case ir.ShuffleBroadcastFirst:
			case ir.ShuffleFillUp, ir.ShuffleFillDown:
				width := uint64(32)
				if g.imm != 0 {
					width = 4
				}
				modulo := l.const_(ir.I32, width)
				if len(args) > 3 {
					modulo = index(3)
				}
				ops = append(ops, index(2), pick(args[1], k), modulo)
			default:
				ops = append(ops, index(1))
			}
			r = l.b.Op(ir.SimdShuffle, t, uint64(s)|g.imm, ops...)
		}
		out.s = append(out.s, r)
	}
	return out
}

// mask brings a lane mask to the function's result type.
func (l *lowerer) mask(v ir.Value, t *types.Type) ir.Value {
	want := scalarType(t.ScalarKind())
	if l.b.TypeOf(v) == ir.I64 && want.IsInt() {
		return l.resize(v, want)
	}
	return v
}

func (l *lowerer) sgmat(e *sema.Builtin) value {
	void := value{typ: e.T.T}
	switch e.Op {
	case sema.ISgFill, sema.ISgDiag:
		x := l.rv(e.Args[0])
		l.at(e.Where)
		op := ir.SgFill
		if e.Op == sema.ISgDiag {
			op = ir.SgDiag
		}
		t := scalarType(e.T.T.Elem)
		v := l.convScalar(x.s[0], x.typ.ScalarKind(), e.T.T.Elem)
		return value{e.T.T, []ir.Value{l.emit(op, ir.SgOf(t), 0, v)}}
	case sema.ISgMul, sema.ISgMulAdd:
		a, b := l.rv(e.Args[1]), l.rv(e.Args[2])
		d := l.lv(e.Args[0])
		t := ir.SgOf(scalarType(d.typ.Elem))
		var c ir.Value
		if e.Op == sema.ISgMulAdd {
			c = l.rv(e.Args[3]).s[0]
		} else {
			c = l.zeroOf(t)
		}
		l.at(e.Where)
		l.store(d, value{d.typ, []ir.Value{l.emit(ir.SgMMA, t, 0, a.s[0], b.s[0], c)}})
		return void
	}
	// Load and store: matrix, pointer, stride, origin, transpose.
	ptr := l.rv(e.Args[1])
	stride := l.asI64(l.rv(e.Args[2]))
	origin := l.rv(e.Args[3])
	tr := l.truth(l.rv(e.Args[4]).s[0])
	of := ptr.typ.Of
	col := l.convScalar(origin.s[0], origin.typ.ScalarKind(), types.ULong)
	row := l.convScalar(origin.s[1], origin.typ.ScalarKind(), types.ULong)
	elem := scalarType(of.T.ScalarKind())
	m := &ir.Mem{Elem: elem, Count: 1, Align: max(elem.Size(), 1), Space: space(of.Space)}
	if e.Op == sema.ISgLoad {
		d := l.lv(e.Args[0])
		l.at(e.Where)
		if scalarType(d.typ.Elem) != elem {
			l.fail(e.Where, "a matrix of %s is loaded from %s", d.typ.Elem, of)
		}
		v := l.b.NewValue(ir.SgOf(elem))
		l.b.Add(&ir.Instr{Op: ir.SgLoad, Res: []ir.Value{v}, Args: []ir.Value{ptr.s[0], stride, col, row, tr}, Mem: m})
		l.store(d, value{d.typ, []ir.Value{v}})
		return void
	}
	x := l.rv(e.Args[0])
	l.at(e.Where)
	if scalarType(x.typ.Elem) != elem {
		l.fail(e.Where, "a matrix of %s is stored to %s", x.typ.Elem, of)
	}
	if m.Space == ir.Constant {
		l.fail(e.Where, "a write to constant memory")
	}
	l.b.Add(&ir.Instr{Op: ir.SgStore, Args: []ir.Value{x.s[0], ptr.s[0], stride, col, row, tr}, Mem: m})
	return void
}

var atomicOps = map[sema.Intrinsic][3]ir.AtomicOp{ // signed, unsigned, float
	sema.IAtomicExchange: {ir.AtomicExchange, ir.AtomicExchange, ir.AtomicExchange},
	sema.IAtomicFetchAdd: {ir.AtomicAdd, ir.AtomicAdd, ir.AtomicFAdd},
	sema.IAtomicFetchSub: {ir.AtomicSub, ir.AtomicSub, ir.AtomicFSub},
	sema.IAtomicFetchAnd: {ir.AtomicAnd, ir.AtomicAnd, ir.AtomicAnd},
	sema.IAtomicFetchOr:  {ir.AtomicOr, ir.AtomicOr, ir.AtomicOr},
	sema.IAtomicFetchXor: {ir.AtomicXor, ir.AtomicXor, ir.AtomicXor},
	sema.IAtomicFetchMin: {ir.AtomicSMin, ir.AtomicUMin, ir.AtomicUMin},
	sema.IAtomicFetchMax: {ir.AtomicSMax, ir.AtomicUMax, ir.AtomicUMax},
	sema.IAtomicMin:      {ir.AtomicSMin, ir.AtomicUMin, ir.AtomicUMin},
	sema.IAtomicMax:      {ir.AtomicSMax, ir.AtomicUMax, ir.AtomicUMax},
}

func (l *lowerer) atomic(e *sema.Builtin) value {
	ptr := l.rv(e.Args[0])
	of := ptr.typ.Of
	kind := of.T.ScalarKind()
	t := scalarType(kind)
	if t != ir.I32 && t != ir.I64 && t != ir.F32 {
		l.fail(e.Where, "an atomic of type %s is not supported", of.T)
	}
	mem := func() *ir.Mem {
		return &ir.Mem{Elem: t, Count: 1, Align: t.Size(), Space: space(of.Space), Coherent: of.Coherent}
	}
	operand := func(k int) ir.Value {
		v := l.rv(e.Args[k])
		return l.convScalar(v.s[0], v.typ.ScalarKind(), kind)
	}
	out := value{typ: e.T.T}
	switch e.Op {
	case sema.IAtomicLoad:
		l.at(e.Where)
		v := l.b.NewValue(t)
		l.b.Add(&ir.Instr{Op: ir.AtomicLoad, Res: []ir.Value{v}, Args: []ir.Value{ptr.s[0]}, Mem: mem()})
		out.s = []ir.Value{v}
	case sema.IAtomicStore:
		v := operand(1)
		l.at(e.Where)
		l.b.Add(&ir.Instr{Op: ir.AtomicStore, Args: []ir.Value{ptr.s[0], v}, Mem: mem()})
	case sema.IAtomicCompareExchange:
		exp := l.rv(e.Args[1])
		expected := l.placeAt(exp.s[0], exp.typ.Of)
		want := operand(2)
		l.at(e.Where)
		was := l.load(expected).s[0]
		v := l.b.NewValue(t)
		l.b.Add(&ir.Instr{Op: ir.AtomicCAS, Res: []ir.Value{v}, Args: []ir.Value{ptr.s[0], was, want}, Mem: mem()})
		it := ir.IntOf(t.Size())
		// Where the exchange happens, the old value is the expected one: the store changes
		// nothing then.
		l.store(expected, value{expected.typ, []ir.Value{v}})
		out.s = []ir.Value{l.emit(ir.ICmp, ir.I1, uint64(ir.Eq), l.bitcast(v, it), l.bitcast(was, it))}
	default:
		ops, ok := atomicOps[e.Op]
		if !ok {
			l.fail(e.Where, "atomic function %d is not supported", e.Op)
		}
		op := ops[1]
		switch {
		case kind.IsFloat():
			op = ops[2]
		case kind.IsSigned():
			op = ops[0]
		}
		x := operand(1)
		l.at(e.Where)
		v := l.b.NewValue(t)
		l.b.Add(&ir.Instr{Op: ir.AtomicRMW, Imm: uint64(op), Res: []ir.Value{v}, Args: []ir.Value{ptr.s[0], x}, Mem: mem()})
		if e.T.T.Kind != types.Void {
			out.s = []ir.Value{v}
		}
	}
	return out
}
