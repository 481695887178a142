// Package ir is the typed SSA form of one kernel, after inlining and
// specialisation: what metal/msl produces and what devices run.
//
// Control flow is structured: there are no jumps but out of enclosing regions,
// so an interpreter needs a mask stack and nothing else, a CUDA emitter prints
// it as it stands, and reconvergence points are syntactic. Masks are implicit:
// the semantics are those of one lane, plus the collectives, which see the
// simdgroup's active lanes.
//
// Scalars only: vectors and matrices of the language are taken apart, but a
// load or store keeps its width and alignment. Every memory access keeps its
// address space, the object that it is derived from and its source position.
//
// Numeric contract, the same for every device: IEEE 754 round to nearest even,
// subnormals kept; a multiplication and an addition are fused exactly where
// there is an FMA instruction (a pass decides that, once); half and bfloat
// operations round after each operation; the functions of [Exp] and below are
// the shared polynomials of metal/msl/libm; integers wrap; a shift count is
// taken modulo the width; division by zero gives 0 and MIN/-1 wraps; a float to
// integer conversion truncates, saturates, and gives 0 for NaN. SimdReduce
// combines lane i with lane i^16, i^8, i^4, i^2, i^1 in this order, an inactive
// lane contributing the identity (-0 for a float sum). FMin(a, b) is a where a < b
// or b is a NaN, and b otherwise; FMax alike: for zeros of different sign the order
// of the operands decides. The sign and payload of a NaN are unspecified, since
// processors differ.
//
// Return ends the lane: barriers, collectives and votes count it no longer.
//
// Build a [Func] with a [Builder], check it with [Verify], print and read it
// with [Func.String] and [Parse]. A Func is immutable once verified and safe for
// concurrent use.
package ir

// Type is the type of a value.
type Type uint8

// The types. Ptr is a pair of an object and a byte offset (int64). An SgMat is an
// 8x8 matrix owned by the simdgroup as a whole.
const (
	Void Type = iota
	I1
	I8
	I16
	I32
	I64
	F16
	BF16
	F32
	Ptr
	SgF16
	SgBF16
	SgF32
)

// Space is an address space. It belongs to the object that a pointer is derived
// from.
type Space uint8

// The address spaces.
const (
	Device Space = iota
	Constant
	Threadgroup
	Thread
)

// Value names an SSA value of a function: an index into Func.Types. 0 is no
// value.
type Value int32

// Pos is an index into Func.Positions. 0 is unknown.
type Pos int32

// Position is a place in the source, with the calls that were inlined there.
type Position struct {
	File      string
	Line, Col int
	InlinedAt Pos // the call, 0 for the kernel's own text
}

// Func is one specialised kernel.
type Func struct {
	Name       string // host name
	Params     []Param
	Statics    []Static // threadgroup variables of the kernel
	Allocas    []Alloca // private arrays that stayed in memory
	Tables     []Table  // constant program-scope objects, by PtrTable's Imm
	Body       *Region  // ends with a Return
	Types      []Type   // by Value; Types[0] is Void
	Positions  []Position
	MaxThreads int // max_total_threads_per_threadgroup, 0 if unset
}

// Param is one resource argument.
type Param struct {
	Name     string
	Kind     ParamKind
	Index    int    // [[buffer(n)]] or [[threadgroup(n)]]
	Space    Space  // Device, Constant or Threadgroup
	Elem     string // the pointee type as the source spells it
	ElemSize int    // bytes of one element
	Scalar   Type   // the element type's scalar where all of it is one type, Void for a mixed struct
	ReadOnly bool   // pointer to const, or constant space
	Ref      bool   // a reference: exactly one element is bound
	Pos      Pos
}

// ParamKind tells buffers from threadgroup memory.
type ParamKind uint8

// The kinds of Param.
const (
	BufferParam ParamKind = iota
	ThreadgroupParam
)

// Static is a threadgroup variable: one object for each threadgroup, undefined
// at its start.
type Static struct {
	Name        string
	Size, Align int
	Pos         Pos
}

// Alloca is a private object of each lane, undefined at entry.
type Alloca struct {
	Name        string
	Size, Align int
	Pos         Pos
}

// Table is a constant object.
type Table struct {
	Name string
	Data []byte
}

// Region is a list of instructions, the last of which is a terminator.
type Region struct {
	Args   []Value // carried values of a loop body; empty otherwise
	Instrs []*Instr
}

// Instr is one instruction.
type Instr struct {
	Op   Op
	Res  []Value // defined values: usually one; Count for loads; the results of If, Loop and Block
	Args []Value
	Imm  uint64 // see Op
	Mem  *Mem   // loads, stores, atomics, sgmat loads and stores
	Body []*Region
	// Target is the enclosing Loop or Block of a Break or Continue.
	Target *Instr
	Pos    Pos
	// Site numbers barriers and collectives within the function: inlined copies
	// of one source line have different sites.
	Site int32
}

// Mem describes a memory access of Count consecutive elements. An I1 is a byte in
// memory: 0 or 1 when stored, true unless 0 when loaded.
type Mem struct {
	Elem  Type
	Count int
	Align int // proven alignment of the address, bytes; at least 1
	// Space is that of the pointer's type.
	Space Space
	// Vector is the size in bytes of the vector that the source accesses as a
	// whole (a component store to a float4 marks 16 bytes as written), 0
	// otherwise; VectorOff is the access's offset in it.
	Vector, VectorOff int
	// Volatile and coherent accesses are marked, for the race checker.
	Coherent bool
}
