package ir

import "fmt"

// operation checks operand and result types of an instruction without regions.
func (v *verifier) operation(i *Instr) error {
	op := i.Op
	switch op {
	case Load, Store, AtomicLoad, AtomicStore, AtomicRMW, AtomicCAS, SgLoad, SgStore:
		if i.Mem == nil {
			return fmt.Errorf("has no Mem")
		}
		return v.memory(i)
	case Declare:
		if len(i.Res) > 0 || i.Mem != nil {
			return fmt.Errorf("has results or a Mem")
		}
		return v.args(i, Ptr)
	case TgBarrier, SgBarrier, Fence:
		if len(i.Res) > 0 || len(i.Args) > 0 {
			return fmt.Errorf("has results or operands")
		}
		if i.Imm > uint64(MemDevice|MemThreadgroup|MemTexture) {
			return fmt.Errorf("has flags 0x%x", i.Imm)
		}
		return nil
	}
	if i.Mem != nil {
		return fmt.Errorf("has a Mem")
	}
	t, err := v.res(i)
	if err != nil {
		return err
	}
	arg := func(k int) Type {
		if k < len(i.Args) {
			return v.typeOf(i.Args[k])
		}
		return Void
	}
	need := func(ok bool) error {
		if !ok {
			return fmt.Errorf("is not there for type %s", t)
		}
		return nil
	}
	object := func(n int) error {
		if t != Ptr {
			return fmt.Errorf("gives %s, expected ptr", t)
		}
		if i.Imm >= uint64(n) {
			return fmt.Errorf("object %d of %d", i.Imm, n)
		}
		return v.args(i)
	}
	same := func(n int) error {
		types := make([]Type, n)
		for k := range types {
			types[k] = t
		}
		return v.args(i, types...)
	}
	switch {
	case op == Const:
		if t.IsSg() || t == Ptr && i.Imm != 0 {
			return fmt.Errorf("is not there for type %s and bits 0x%x", t, i.Imm)
		}
		if n := t.Bits(); n < 64 && i.Imm>>n != 0 {
			return fmt.Errorf("has bits 0x%x above the width of %s", i.Imm, t)
		}
		return v.args(i)
	case op == Undef:
		return v.args(i)
	case op == And || op == Or || op == Xor:
		if err := need(t.IsInt() || t == I1); err != nil {
			return err
		}
		return same(2)
	case op >= Add && op <= UMulHi:
		if err := need(t.IsInt()); err != nil {
			return err
		}
		return same(2)
	case op >= Clz && op <= ReverseBits:
		if err := need(t.IsInt()); err != nil {
			return err
		}
		return same(1)
	case op == FMA:
		if err := need(t.IsFloat()); err != nil {
			return err
		}
		return same(3)
	case op >= FAdd && op <= FRem, op == FCopysign, op == FMin, op == FMax, op == Atan2, op == Pow:
		if err := need(t.IsFloat()); err != nil {
			return err
		}
		return same(2)
	case op >= FNeg && op <= Erf:
		if err := need(t.IsFloat()); err != nil {
			return err
		}
		return same(1)
	case op == ICmp:
		if p := Pred(i.Imm); p > UGe {
			return fmt.Errorf("has predicate %s", p)
		}
		if a := arg(0); !a.IsInt() && a != Ptr && !(a == I1 && Pred(i.Imm) <= Ne) {
			return fmt.Errorf("compares %s with %s", a, Pred(i.Imm))
		}
		if t != I1 {
			return fmt.Errorf("gives %s, expected i1", t)
		}
		return v.args(i, arg(0), arg(0))
	case op == FCmp:
		if p := Pred(i.Imm); p > Ne && p < FLt || p > FGe {
			return fmt.Errorf("has predicate %s", p)
		}
		if !arg(0).IsFloat() || t != I1 {
			return fmt.Errorf("compares %s to %s", arg(0), t)
		}
		return v.args(i, arg(0), arg(0))
	case op == Select:
		return v.args(i, I1, t, t)
	case op >= IntTrunc && op <= Bitcast:
		if len(i.Args) != 1 {
			return fmt.Errorf("%d operands, expected 1", len(i.Args))
		}
		return convertible(op, arg(0), t)
	case op == PtrParam:
		return object(len(v.f.Params))
	case op == PtrStatic:
		return object(len(v.f.Statics))
	case op == PtrAlloca:
		return object(len(v.f.Allocas))
	case op == PtrTable:
		return object(len(v.f.Tables))
	case op == PtrAdd:
		if t != Ptr {
			return fmt.Errorf("gives %s, expected ptr", t)
		}
		return v.args(i, Ptr, I64)
	case op == PtrDiff:
		if t != I64 {
			return fmt.Errorf("gives %s, expected i64", t)
		}
		return v.args(i, Ptr, Ptr)
	case op == Grid:
		k := GridKind(i.Imm >> 2)
		if c := i.Imm & 3; i.Imm>>2 > uint64(GridSize) || c > 2 || c > 0 && !k.Vector() {
			return fmt.Errorf("reads component %d of %s", c, k)
		}
		if t != I32 {
			return fmt.Errorf("gives %s, expected i32", t)
		}
		return v.args(i)
	case op >= SimdReduce && op <= SimdActive:
		return v.simd(i, t)
	case op >= SgFill && op <= SgWith:
		return v.sgmat(i, t)
	}
	return fmt.Errorf("no such operation")
}

func convertible(op Op, from, to Type) error {
	ok := false
	switch op {
	case IntTrunc:
		ok = from.IsInt() && (to.IsInt() || to == I1) && to.Bits() < from.Bits()
	case ZExt, SExt:
		ok = (from.IsInt() || from == I1) && to.IsInt() && from.Bits() < to.Bits()
	case FToS, FToU:
		ok = from.IsFloat() && to.IsInt()
	case SToF, UToF:
		ok = (from.IsInt() || from == I1) && to.IsFloat()
	case FConv:
		ok = from.IsFloat() && to.IsFloat() && from != to
	case Bitcast:
		ok = (from.IsInt() || from.IsFloat()) && (to.IsInt() || to.IsFloat()) && from != to && from.Size() == to.Size()
	}
	if !ok {
		return fmt.Errorf("converts %s to %s", from, to)
	}
	return nil
}

func (v *verifier) simd(i *Instr, t Type) error {
	scalar := t.IsFloat() || t.IsInt()
	switch i.Op {
	case SimdReduce, SimdScan:
		r := ReduceOp(i.Imm & 0xff)
		ok := scalar && r <= ReduceXor && i.Imm&^(0xff|ScanExclusive|QuadScope) == 0
		switch r {
		case ReduceSMin, ReduceSMax, ReduceUMin, ReduceUMax, ReduceAnd, ReduceOr, ReduceXor:
			ok = ok && t.IsInt()
		case ReduceFMin, ReduceFMax:
			ok = ok && t.IsFloat()
		}
		if !ok {
			return fmt.Errorf("reduces %s with 0x%x", t, i.Imm)
		}
		return v.args(i, t)
	case SimdShuffle:
		s := ShuffleOp(i.Imm & 0xff)
		if !scalar && t != I1 || s > ShuffleFillDown || i.Imm&^(0xff|QuadScope) != 0 {
			return fmt.Errorf("shuffles %s with 0x%x", t, i.Imm)
		}
		switch s {
		case ShuffleBroadcastFirst:
			return v.args(i, t)
		case ShuffleFillUp, ShuffleFillDown:
			return v.args(i, t, I32, t, I32)
		}
		return v.args(i, t, I32)
	case SimdVote:
		o := VoteOp(i.Imm & 0xff)
		want := I1
		if o == VoteBallot {
			want = I64
		}
		if o > VoteBallot || t != want {
			return fmt.Errorf("vote 0x%x gives %s", i.Imm, t)
		}
		return v.args(i, I1)
	case SimdFirst:
		if t != I1 {
			return fmt.Errorf("gives %s, expected i1", t)
		}
	case SimdActive:
		if t != I64 {
			return fmt.Errorf("gives %s, expected i64", t)
		}
	}
	return v.args(i)
}

func (v *verifier) sgmat(i *Instr, t Type) error {
	switch i.Op {
	case SgFill, SgDiag:
		if !t.IsSg() {
			return fmt.Errorf("gives %s, expected a simdgroup matrix", t)
		}
		return v.args(i, t.SgElem())
	case SgMMA:
		if !t.IsSg() {
			return fmt.Errorf("gives %s, expected a simdgroup matrix", t)
		}
		if err := v.args(i, Void, Void, Void); err != nil {
			return err
		}
		for k, a := range i.Args {
			if !v.typeOf(a).IsSg() {
				return fmt.Errorf("operand %d has type %s, expected a simdgroup matrix", k, v.typeOf(a))
			}
		}
		return nil
	case SgElem:
		if len(i.Args) != 1 || v.typeOf(i.Args[0]).SgElem() != t || !t.IsFloat() || i.Imm > 1 {
			return fmt.Errorf("reads element %d of its operand as %s", i.Imm, t)
		}
		return nil
	}
	if !t.IsSg() || i.Imm > 1 {
		return fmt.Errorf("writes element %d of %s", i.Imm, t)
	}
	return v.args(i, t, t.SgElem())
}

// MaxCount is the largest Mem.Count: a float4x4.
const MaxCount = 16

func (v *verifier) memory(i *Instr) error {
	m := i.Mem
	if m.Elem == Void || m.Elem.Size() == 0 {
		return fmt.Errorf("accesses elements of type %s", m.Elem)
	}
	if m.Count < 1 || m.Count > MaxCount {
		return fmt.Errorf("accesses %d elements, expected 1 to %d", m.Count, MaxCount)
	}
	if !pow2(m.Align) {
		return fmt.Errorf("alignment %d, expected a power of two", m.Align)
	}
	if m.Space > Thread {
		return fmt.Errorf("%s", m.Space)
	}
	if m.Elem == Ptr && m.Space != Thread {
		return fmt.Errorf("a pointer in %s memory", m.Space)
	}
	if m.Vector < 0 || m.VectorOff < 0 || m.Vector != 0 && m.VectorOff+m.Count*m.Elem.Size() > m.Vector {
		return fmt.Errorf("%d bytes at %d of a vector of %d", m.Count*m.Elem.Size(), m.VectorOff, m.Vector)
	}
	write := i.Op == Store || i.Op == AtomicStore || i.Op == AtomicRMW || i.Op == AtomicCAS || i.Op == SgStore
	if write && m.Space == Constant {
		return fmt.Errorf("writes constant memory")
	}
	if i.Op != Load && i.Op != Store && m.Count != 1 {
		return fmt.Errorf("accesses %d elements, expected 1", m.Count)
	}
	results := 1
	types := []Type{Ptr}
	switch i.Op {
	case Load:
		results = m.Count
	case Store:
		results = 0
		for range m.Count {
			types = append(types, m.Elem)
		}
	case AtomicStore:
		results = 0
		types = append(types, m.Elem)
	case AtomicRMW:
		if i.Imm > uint64(AtomicFSub) || (AtomicOp(i.Imm) >= AtomicFAdd) != m.Elem.IsFloat() && AtomicOp(i.Imm) != AtomicExchange {
			return fmt.Errorf("%s of %s", AtomicOp(i.Imm), m.Elem)
		}
		types = append(types, m.Elem)
	case AtomicCAS:
		types = append(types, m.Elem, m.Elem)
	case SgLoad:
		types = append(types, I64, I64, I64, I1)
	case SgStore:
		results = 0
		types = []Type{SgOf(m.Elem), Ptr, I64, I64, I64, I1}
	}
	switch i.Op {
	case SgLoad, SgStore:
		if !m.Elem.IsFloat() || m.Space != Device && m.Space != Threadgroup && m.Space != Constant {
			return fmt.Errorf("a matrix of %s in %s memory", m.Elem, m.Space)
		}
	case AtomicLoad, AtomicStore, AtomicRMW, AtomicCAS:
		if m.Elem != I32 && m.Elem != I64 && m.Elem != F32 || m.Space != Device && m.Space != Threadgroup {
			return fmt.Errorf("an atomic %s in %s memory", m.Elem, m.Space)
		}
	}
	if len(i.Res) != results {
		return fmt.Errorf("%d results, expected %d", len(i.Res), results)
	}
	want := m.Elem
	if i.Op == SgLoad {
		want = SgOf(m.Elem)
	}
	for _, r := range i.Res {
		if t := v.typeOf(r); t != want {
			return fmt.Errorf("gives %s, expected %s", t, want)
		}
	}
	return v.args(i, types...)
}
