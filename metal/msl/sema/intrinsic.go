package sema

// Intrinsic is a function that the compiler knows. Operands are converted: where
// the comment says T, operands and result have one type, scalar or vector, and
// the operation is element by element.
type Intrinsic uint16

// The intrinsics.
const (
	NoIntrinsic Intrinsic = iota

	// Float, T(T).
	IFabs
	IFloor
	ICeil
	ITrunc
	IRint
	IRound
	ISqrt
	IRsqrt
	IExp
	IExp2
	IExp10
	ILog
	ILog2
	ILog10
	ISin
	ICos
	ITan
	ISinh
	ICosh
	ITanh
	IAsin
	IAcos
	IAtan
	// Float, T(T, T).
	IAtan2
	IPow
	IFmod
	IFmin
	IFmax
	ICopysign
	// Float, T(T, T, T).
	IFma

	// Integer or float, T(T, T) and T(T): max and min of floats are fmax and fmin.
	IMin
	IMax
	IAbs
	// Integer.
	IMulHi
	IClz
	ICtz
	IPopcount
	IReverseBits

	// ISelect is (a, b, c): c ? b : a element by element; c is bool or boolN.
	ISelect
	// IDot is (T, T) -> element, accumulated from component 0 up.
	IDot
	// IAll and IAny are boolN -> bool.
	IAll
	IAny
	// ITranspose is a matrix.
	ITranspose

	// Simdgroup functions. Reductions, scans: T(T).
	ISimdSum
	ISimdProduct
	ISimdMin
	ISimdMax
	ISimdAnd
	ISimdOr
	ISimdXor
	ISimdPrefixInclusiveSum
	ISimdPrefixExclusiveSum
	ISimdPrefixInclusiveProduct
	ISimdPrefixExclusiveProduct
	// T(T, ushort).
	ISimdShuffle
	ISimdBroadcast
	ISimdShuffleUp
	ISimdShuffleDown
	ISimdShuffleXor
	ISimdShuffleRotateUp
	ISimdShuffleRotateDown
	// T(T).
	ISimdBroadcastFirst
	// T(T data, T fill, ushort delta, ushort modulo).
	ISimdShuffleAndFillUp
	ISimdShuffleAndFillDown
	// bool(bool).
	ISimdAny
	ISimdAll
	// ulong(bool), bool(), ulong().
	ISimdBallot
	ISimdIsFirst
	ISimdActiveMask

	// The same for quads; ballot and mask give ushort.
	IQuadSum
	IQuadProduct
	IQuadMin
	IQuadMax
	IQuadAnd
	IQuadOr
	IQuadXor
	IQuadPrefixInclusiveSum
	IQuadPrefixExclusiveSum
	IQuadPrefixInclusiveProduct
	IQuadPrefixExclusiveProduct
	IQuadShuffle
	IQuadBroadcast
	IQuadShuffleUp
	IQuadShuffleDown
	IQuadShuffleXor
	IQuadShuffleRotateUp
	IQuadShuffleRotateDown
	IQuadBroadcastFirst
	IQuadShuffleAndFillUp
	IQuadShuffleAndFillDown
	IQuadAny
	IQuadAll
	IQuadBallot
	IQuadIsFirst
	IQuadActiveMask

	// Simdgroup matrices. ISgFill and ISgDiag: scalar -> matrix.
	ISgFill
	ISgDiag
	// (lvalue matrix, pointer, ulong stride, ulong2 origin, bool transpose) -> void.
	ISgLoad
	// (matrix, pointer, ulong stride, ulong2 origin, bool transpose) -> void.
	ISgStore
	// (lvalue d, a, b) and (lvalue d, a, b, c) -> void: d = a*b (+ c).
	ISgMul
	ISgMulAdd

	// Barriers: (mem_flags). Fence: (mem_flags, thread_scope).
	IThreadgroupBarrier
	ISimdgroupBarrier
	IFence

	// Atomics, relaxed: pointer to an atomic first. Load: -> value. Store: (p, v).
	// Exchange and Fetch*: (p, v) -> old value. CompareExchange: (p, pointer to
	// expected, desired) -> bool, writing the old value to *expected on failure.
	IAtomicLoad
	IAtomicStore
	IAtomicExchange
	IAtomicCompareExchange
	IAtomicFetchAdd
	IAtomicFetchSub
	IAtomicFetchAnd
	IAtomicFetchOr
	IAtomicFetchXor
	IAtomicFetchMin
	IAtomicFetchMax
	// Without a result: (p, v), ulong.
	IAtomicMin
	IAtomicMax

	// IFuncConstDefined is (VarRef of a function constant) -> bool.
	IFuncConstDefined
	// IUnreachable and IAssume (bool) say what cannot be.
	IUnreachable
	IAssume
)
