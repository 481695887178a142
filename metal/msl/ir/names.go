package ir

import "fmt"

var typeNames = [...]string{
	Void: "void", I1: "i1", I8: "i8", I16: "i16", I32: "i32", I64: "i64",
	F16: "f16", BF16: "bf16", F32: "f32", Ptr: "ptr",
	SgF16: "sgf16", SgBF16: "sgbf16", SgF32: "sgf32",
}

// String gives the type's name in the text form.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// Size gives the bytes of a value in memory: 1 for I1, 8 for Ptr, 0 for Void and
// the simdgroup matrices, which have no place in memory.
func (t Type) Size() int {
	switch t {
	case I1, I8:
		return 1
	case I16, F16, BF16:
		return 2
	case I32, F32:
		return 4
	case I64, Ptr:
		return 8
	}
	return 0
}

// Bits gives the width of a scalar: 1 for I1, otherwise 8*Size.
func (t Type) Bits() int {
	if t == I1 {
		return 1
	}
	return 8 * t.Size()
}

// IsInt tells I8 to I64.
func (t Type) IsInt() bool { return t >= I8 && t <= I64 }

// IsFloat tells F16, BF16 and F32.
func (t Type) IsFloat() bool { return t >= F16 && t <= F32 }

// IsSg tells simdgroup matrices.
func (t Type) IsSg() bool { return t >= SgF16 && t <= SgF32 }

// SgElem gives the element type of a simdgroup matrix, Void for another type.
func (t Type) SgElem() Type {
	if t.IsSg() {
		return t - SgF16 + F16
	}
	return Void
}

// SgOf gives the simdgroup matrix type of an element type, Void if there is none.
func SgOf(elem Type) Type {
	if elem.IsFloat() {
		return elem - F16 + SgF16
	}
	return Void
}

// IntOf gives the integer type of that many bytes (1, 2, 4 or 8), Void
// otherwise.
func IntOf(size int) Type {
	switch size {
	case 1:
		return I8
	case 2:
		return I16
	case 4:
		return I32
	case 8:
		return I64
	}
	return Void
}

var spaceNames = [...]string{Device: "device", Constant: "constant", Threadgroup: "threadgroup", Thread: "thread"}

// String gives the space as the language spells it.
func (s Space) String() string {
	if int(s) < len(spaceNames) {
		return spaceNames[s]
	}
	return fmt.Sprintf("space(%d)", uint8(s))
}

// String gives the kind's name in the text form.
func (k ParamKind) String() string {
	if k == BufferParam {
		return "buffer"
	}
	return "threadgroup"
}

var opNames = [NumOps]string{
	BadOp: "bad", Const: "const", Undef: "undef",
	Add: "add", Sub: "sub", Mul: "mul", SDiv: "sdiv", UDiv: "udiv", SRem: "srem", URem: "urem",
	And: "and", Or: "or", Xor: "xor", Shl: "shl", LShr: "lshr", AShr: "ashr",
	SMin: "smin", SMax: "smax", UMin: "umin", UMax: "umax", SMulHi: "smulhi", UMulHi: "umulhi",
	Clz: "clz", Ctz: "ctz", Popcount: "popcount", ReverseBits: "reversebits",
	FAdd: "fadd", FSub: "fsub", FMul: "fmul", FDiv: "fdiv", FRem: "frem", FNeg: "fneg", FAbs: "fabs",
	FCopysign: "fcopysign", FMA: "fma", FMin: "fmin", FMax: "fmax", Floor: "floor", Ceil: "ceil",
	Trunc: "trunc", Rint: "rint", Round: "round", Sqrt: "sqrt", Rsqrt: "rsqrt", Exp: "exp", Exp2: "exp2",
	Exp10: "exp10", Log: "log", Log2: "log2", Log10: "log10", Sin: "sin", Cos: "cos", Tan: "tan",
	Tanh: "tanh", Sinh: "sinh", Cosh: "cosh", Asin: "asin", Acos: "acos", Atan: "atan", Atan2: "atan2",
	Pow: "pow", Erf: "erf",
	ICmp: "icmp", FCmp: "fcmp", Select: "select",
	IntTrunc: "inttrunc", ZExt: "zext", SExt: "sext", FToS: "ftos", FToU: "ftou", SToF: "stof", UToF: "utof",
	FConv: "fconv", Bitcast: "bitcast",
	PtrParam: "ptrparam", PtrStatic: "ptrstatic", PtrAlloca: "ptralloca", PtrTable: "ptrtable",
	PtrAdd: "ptradd", PtrDiff: "ptrdiff",
	Load: "load", Store: "store",
	AtomicLoad: "atomicload", AtomicStore: "atomicstore", AtomicRMW: "atomicrmw", AtomicCAS: "atomiccas",
	Grid:       "grid",
	SimdReduce: "simdreduce", SimdScan: "simdscan", SimdShuffle: "simdshuffle", SimdVote: "simdvote",
	SimdFirst: "simdfirst", SimdActive: "simdactive",
	TgBarrier: "tgbarrier", SgBarrier: "sgbarrier", Fence: "fence",
	SgFill: "sgfill", SgDiag: "sgdiag", SgLoad: "sgload", SgStore: "sgstore", SgMMA: "sgmma",
	SgElem: "sgelem", SgWith: "sgwith",
	If: "if", Loop: "loop", Block: "block", Yield: "yield", Break: "break", Continue: "continue", Return: "return",
	Declare: "declare",
}

// String gives the operation's name in the text form.
func (o Op) String() string {
	if o < NumOps && opNames[o] != "" {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint16(o))
}

var predNames = [...]string{
	Eq: "eq", Ne: "ne", SLt: "slt", SLe: "sle", SGt: "sgt", SGe: "sge",
	ULt: "ult", ULe: "ule", UGt: "ugt", UGe: "uge", FLt: "flt", FLe: "fle", FGt: "fgt", FGe: "fge",
}

// String gives the predicate's name in the text form.
func (p Pred) String() string { return name(predNames[:], int(p), "pred") }

var atomicNames = [...]string{
	AtomicAdd: "add", AtomicSub: "sub", AtomicAnd: "and", AtomicOr: "or", AtomicXor: "xor",
	AtomicSMin: "smin", AtomicSMax: "smax", AtomicUMin: "umin", AtomicUMax: "umax",
	AtomicExchange: "exchange", AtomicFAdd: "fadd", AtomicFSub: "fsub",
}

// String gives the operation's name in the text form.
func (a AtomicOp) String() string { return name(atomicNames[:], int(a), "atomic") }

var gridNames = [...]string{
	ThreadPositionInGrid:             "thread_position_in_grid",
	ThreadPositionInThreadgroup:      "thread_position_in_threadgroup",
	ThreadIndexInThreadgroup:         "thread_index_in_threadgroup",
	ThreadgroupPositionInGrid:        "threadgroup_position_in_grid",
	ThreadsPerGrid:                   "threads_per_grid",
	ThreadsPerThreadgroup:            "threads_per_threadgroup",
	DispatchThreadsPerThreadgroup:    "dispatch_threads_per_threadgroup",
	ThreadgroupsPerGrid:              "threadgroups_per_grid",
	ThreadIndexInSimdgroup:           "thread_index_in_simdgroup",
	SimdgroupIndexInThreadgroup:      "simdgroup_index_in_threadgroup",
	SimdgroupsPerThreadgroup:         "simdgroups_per_threadgroup",
	DispatchSimdgroupsPerThreadgroup: "dispatch_simdgroups_per_threadgroup",
	ThreadsPerSimdgroup:              "threads_per_simdgroup",
	ThreadIndexInQuadgroup:           "thread_index_in_quadgroup",
	QuadgroupIndexInThreadgroup:      "quadgroup_index_in_threadgroup",
	QuadgroupsPerThreadgroup:         "quadgroups_per_threadgroup",
	GridOrigin:                       "grid_origin",
	GridSize:                         "grid_size",
}

// String gives the attribute as the language spells it.
func (g GridKind) String() string { return name(gridNames[:], int(g), "grid") }

// Vector tells whether the attribute has three components.
func (g GridKind) Vector() bool {
	switch g {
	case ThreadPositionInGrid, ThreadPositionInThreadgroup, ThreadgroupPositionInGrid, ThreadsPerGrid,
		ThreadsPerThreadgroup, DispatchThreadsPerThreadgroup, ThreadgroupsPerGrid, GridOrigin, GridSize:
		return true
	}
	return false
}

var reduceNames = [...]string{
	ReduceAdd: "add", ReduceMul: "mul", ReduceSMin: "smin", ReduceSMax: "smax", ReduceUMin: "umin",
	ReduceUMax: "umax", ReduceFMin: "fmin", ReduceFMax: "fmax", ReduceAnd: "and", ReduceOr: "or", ReduceXor: "xor",
}

// String gives the operation's name in the text form.
func (r ReduceOp) String() string { return name(reduceNames[:], int(r), "reduce") }

var shuffleNames = [...]string{
	ShuffleLane: "lane", ShuffleBroadcast: "broadcast", ShuffleBroadcastFirst: "broadcast_first",
	ShuffleUp: "up", ShuffleDown: "down", ShuffleXor: "xor", ShuffleRotateUp: "rotate_up",
	ShuffleRotateDown: "rotate_down", ShuffleFillUp: "fill_up", ShuffleFillDown: "fill_down",
}

// String gives the shuffle's name in the text form.
func (s ShuffleOp) String() string { return name(shuffleNames[:], int(s), "shuffle") }

var voteNames = [...]string{VoteAny: "any", VoteAll: "all", VoteBallot: "ballot"}

// String gives the vote's name in the text form.
func (v VoteOp) String() string { return name(voteNames[:], int(v), "vote") }

var flagNames = [...]string{"none", "device", "threadgroup", "device|threadgroup", "texture", "device|texture", "threadgroup|texture", "device|threadgroup|texture"}

// String gives the flags joined by bars, "none" for no flag.
func (m MemFlags) String() string { return name(flagNames[:], int(m), "flags") }

func name(list []string, i int, kind string) string {
	if i < len(list) {
		return list[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}

func lookup(list []string, s string) (uint64, bool) {
	for i, n := range list {
		if n == s {
			return uint64(i), true
		}
	}
	return 0, false
}

// Collective tells the instructions that see other lanes, for which Site counts:
// simdgroup functions, simdgroup matrix operations, barriers.
func (o Op) Collective() bool { return o >= SimdReduce && o <= SgWith }

// Terminator tells the instructions that end a region.
func (o Op) Terminator() bool { return o >= Yield && o <= Return }

// Pure tells the instructions that have no effect, read no memory and do not
// depend on which lanes are active: equal operands give equal results.
func (o Op) Pure() bool { return o >= Const && o <= PtrDiff || o == Grid || o == SgFill || o == SgDiag }
