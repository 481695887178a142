package ir

// Op is an operation. "int" below is any of I8..I64, "float" any of F16, BF16,
// F32; operands of one instruction have the result's type unless said otherwise.
type Op uint16

// The operations.
const (
	BadOp Op = iota

	Const // Imm: the bits, zero-extended; any scalar type, Ptr null with Imm 0
	Undef // an indeterminate value (poison under the sanitizer); any type

	// Integers. Signedness is the operation's, not the type's.
	Add
	Sub
	Mul
	SDiv
	UDiv
	SRem
	URem
	And // also I1
	Or  // also I1
	Xor // also I1
	Shl // count modulo the width
	LShr
	AShr
	SMin
	SMax
	UMin
	UMax
	SMulHi
	UMulHi
	Clz
	Ctz
	Popcount
	ReverseBits

	// Floats.
	FAdd
	FSub
	FMul
	FDiv
	FRem // fmod
	FNeg
	FAbs
	FCopysign
	FMA  // one rounding of a*b+c
	FMin // the non-NaN operand
	FMax // the non-NaN operand
	Floor
	Ceil
	Trunc
	Rint  // half to even
	Round // half away from zero
	Sqrt  // correctly rounded
	Rsqrt
	Exp
	Exp2
	Exp10
	Log
	Log2
	Log10
	Sin
	Cos
	Tan
	Tanh
	Sinh
	Cosh
	Asin
	Acos
	Atan
	Atan2
	Pow // a^b
	Erf

	// Comparisons: Imm is a Pred, result I1.
	ICmp // also Ptr (Eq, Ne, and order within one object)
	FCmp

	Select // Args: I1, a, b -> c ? a : b; any type

	// Conversions: the types are those of argument and result.
	IntTrunc
	ZExt // also from I1
	SExt
	FToS
	FToU
	SToF
	UToF
	FConv   // between float types, round to nearest even
	Bitcast // equal width

	// Pointers.
	PtrParam  // Imm: index in Func.Params
	PtrStatic // Imm: index in Func.Statics
	PtrAlloca // Imm: index in Func.Allocas
	PtrTable  // Imm: index in Func.Tables
	PtrAdd    // Args: Ptr, I64 byte offset
	PtrDiff   // Args: Ptr, Ptr -> I64 bytes (of one object)

	// Memory. Load: Args {Ptr}, Res Count elements. Store: Args {Ptr, elements...}.
	Load
	Store
	// Atomics on one element (Mem.Count 1): Imm is an AtomicOp. AtomicRMW: Args
	// {Ptr, value} -> old value. AtomicCAS: Args {Ptr, expected, desired} -> old.
	AtomicLoad
	AtomicStore
	AtomicRMW
	AtomicCAS

	// Grid attributes: Imm is GridKind<<2 | component; result I32.
	Grid

	// Simdgroup functions on one 32-bit or 16-bit scalar (I1 for votes). Imm
	// carries the kind; Quad in Imm's bit 16 narrows the group to 4 lanes.
	SimdReduce  // Imm: ReduceOp
	SimdScan    // Imm: ReduceOp | ScanExclusive
	SimdShuffle // Imm: ShuffleOp; Args {value, lane or delta or mask (I32)[, fill, modulo]}
	SimdVote    // Imm: VoteOp; Args {I1} -> I1, or I64 for Ballot
	SimdFirst   // -> I1: is this the first active lane
	SimdActive  // -> I64: mask of active lanes

	// Synchronisation. Imm: the MemFlags.
	TgBarrier
	SgBarrier
	Fence

	// 8x8 matrices. SgLoad: Args {Ptr, stride I64, col I64, row I64, transpose I1};
	// SgStore: Args {matrix, Ptr, stride, col, row, transpose}; SgFill: Args
	// {scalar}; SgDiag likewise; SgMMA: Args {a, b, c}, Res a*b + c: float fma over k = 0..7 on top
	// of c, then rounded to the result's type. SgElem reads element Imm (0 or 1)
	// of the lane, SgWith replaces it: Args {matrix, scalar}; lane mapping: row
	// 4*(L>>4&1) + (L>>1&3), columns 4*(L>>3&1) + 2*(L&1) + {0, 1}.
	SgFill
	SgDiag
	SgLoad
	SgStore
	SgMMA
	SgElem
	SgWith

	// Control. If: Args {I1}, Body {then, else}, both end in Yield (Args are the
	// results) or leave. Loop: Args are the initial carried values, Imm what the
	// source asks of an unroller (an UnrollHint, which devices ignore), Body {body}
	// whose Args are the carried ones; Continue gives the next ones, Break the
	// Loop's results. Block: Body {body}; Break gives its results.
	If
	Loop
	Block
	Yield
	Break    // Target: Loop or Block
	Continue // Target: Loop
	Return   // of the kernel

	// Declare: Args {Ptr} of an alloca, whose content is indeterminate from here on.
	// It is there between lowering and the passes and not in what devices get.
	Declare

	NumOps
)

// UnrollHint is what the source asks of a loop: nothing, UnrollNever, UnrollFull,
// or UnrollFull plus a count.
type UnrollHint uint64

// The hints.
const (
	UnrollUnset UnrollHint = iota
	UnrollNever
	UnrollFull
)

// Pred is a comparison.
type Pred uint8

// The predicates. Float comparisons are ordered (false for NaN) except Ne.
const (
	Eq Pred = iota
	Ne
	SLt
	SLe
	SGt
	SGe
	ULt
	ULe
	UGt
	UGe
	FLt
	FLe
	FGt
	FGe
)

// AtomicOp is the operation of an AtomicRMW.
type AtomicOp uint8

// The atomic operations; min and max come in both signednesses.
const (
	AtomicAdd AtomicOp = iota
	AtomicSub
	AtomicAnd
	AtomicOr
	AtomicXor
	AtomicSMin
	AtomicSMax
	AtomicUMin
	AtomicUMax
	AtomicExchange
	AtomicFAdd
	AtomicFSub
)

// GridKind is a grid attribute.
type GridKind uint8

// The grid attributes, named as Metal names them.
const (
	ThreadPositionInGrid GridKind = iota
	ThreadPositionInThreadgroup
	ThreadIndexInThreadgroup
	ThreadgroupPositionInGrid
	ThreadsPerGrid
	ThreadsPerThreadgroup         // of this threadgroup
	DispatchThreadsPerThreadgroup // as requested
	ThreadgroupsPerGrid
	ThreadIndexInSimdgroup
	SimdgroupIndexInThreadgroup
	SimdgroupsPerThreadgroup
	DispatchSimdgroupsPerThreadgroup
	ThreadsPerSimdgroup
	ThreadIndexInQuadgroup
	QuadgroupIndexInThreadgroup
	QuadgroupsPerThreadgroup
	GridOrigin
	GridSize
)

// ReduceOp is the operation of a reduction or scan.
type ReduceOp uint8

// The reductions. Int or float is the operand's type.
const (
	ReduceAdd ReduceOp = iota
	ReduceMul
	ReduceSMin
	ReduceSMax
	ReduceUMin
	ReduceUMax
	ReduceFMin
	ReduceFMax
	ReduceAnd
	ReduceOr
	ReduceXor
)

// Flags in the Imm of simdgroup functions.
const (
	ScanExclusive = 1 << 15
	QuadScope     = 1 << 16
)

// ShuffleOp is a kind of shuffle.
type ShuffleOp uint8

// The shuffles, named as Metal names them. Operand 1 of the first is varying;
// of the others it must be the same in all active lanes.
const (
	ShuffleLane ShuffleOp = iota
	ShuffleBroadcast
	ShuffleBroadcastFirst
	ShuffleUp
	ShuffleDown
	ShuffleXor
	ShuffleRotateUp
	ShuffleRotateDown
	ShuffleFillUp
	ShuffleFillDown
)

// VoteOp is a vote.
type VoteOp uint8

// The votes.
const (
	VoteAny VoteOp = iota
	VoteAll
	VoteBallot
)

// MemFlags say what a barrier orders.
type MemFlags uint8

// The flags, as Metal's; 0 is mem_none.
const (
	MemDevice      MemFlags = 1
	MemThreadgroup MemFlags = 2
	MemTexture     MemFlags = 4
)
