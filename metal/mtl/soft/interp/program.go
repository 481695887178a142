package interp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
)

// Program is a kernel decoded for execution: a flat array of instructions whose
// operands are byte offsets in a simdgroup's frame. It may run in several
// goroutines at once.
type Program struct {
	f       *ir.Func
	code    []instr
	steps   []lane.Step
	batches []batch  // by opBatch's imm
	pos     []ir.Pos // by instruction
	acc     []access
	coll    []collective

	// The frame: scalars (8 bytes each, the first always 0, the second scratch),
	// then vectors of 128 and of 256 bytes.
	frame  int
	consts []constant
	frames sync.Pool // of *[]byte: frames that no launch uses

	// Private memory of a simdgroup: object number, offset.
	allocas     []int // offset of each alloca, in words of 32 lanes
	allocaWords int
	statics     []int // offset of each static in the threadgroup's memory behind the arguments
	staticBytes int

	// fast is the form without a sanitizer; a program that is one has none.
	fast  func() (*Program, error)
	slots []objectSlot

	idle         sync.Pool    // workers between launches
	perSimdgroup atomic.Int64 // instructions of the last launch; 0 before

	ordered bool // threadgroups must run in order for results to be defined
}

// Func is the function that was decoded.
func (p *Program) Func() *ir.Func { return p.f }

// StaticThreadgroupBytes is the memory of the kernel's threadgroup variables.
func (p *Program) StaticThreadgroupBytes() int { return p.staticBytes }

const (
	zeroSlot    = 0
	scratchSlot = 8
)

type opcode uint16

const (
	opBatch      opcode = iota // x: the first of n steps, this and the next n-1 instructions
	opStep                     // x: its step
	opSlow                     // dst = fn(a, b, c) for 32 lanes
	opSlowScalar               // dst = sfn(a, b, c) once
	opMergeSg                  // dst = mask ? a : dst; x 1: b ? a : dst
	opCopySg
	opUndef // imm: bytes

	opCount // counts and nothing else
	opIf
	opElse
	opEndIf
	opJump
	opJumpFalse
	opBackEdge
	opLoopEnter
	opLoopNext
	opLeave  // a: mask slot that collects (0: none)
	opReturn // lanes end
	opEnd

	opLoad
	opLoadUniform
	opStore
	opAtomic
	opPtrCmp
	opGrid
	opGridUniform
	opReduce
	opReduceUniform
	opScan
	opShuffle
	opVote
	opFirst
	opActive
	opTgBarrier
	opSgBarrier
	opFence
	opSgFill
	opSgDiag
	opSgLoad
	opSgStore
	opSgMMA
	opSgElem
	opSgWith
)

// instr is one decoded instruction.
type instr struct {
	op   opcode
	use  uint8 // opJumpFalse, opIf: a san.Use
	poi  poisonRule
	once bool    // a step's scalar form
	lop  lane.Op // of a step
	n    uint32  // opBatch
	cnt  uint32  // IR instructions that this one accounts for
	tgt  int32   // where to jump
	x    uint32  // index in acc or coll, flags of a barrier
	dst  uint32  // frame offsets
	a    uint32
	b    uint32
	c    uint32
	fn   lane.Fn
	sfn  lane.ScalarFn
	imm  uint64
}

// batch says what a row of steps reads from before and what it writes.
type batch struct {
	ins, outs []uint32
	loads     bool
	// Bytes of device memory that its loads ask for: for each lane, and once.
	lanes, once int64
}

// count notes a load among the steps.
func (b *batch) count(a *access, uniform bool) {
	b.loads = true
	switch n := int64(a.size * a.count); {
	case !a.dev:
	case uniform:
		b.once += n
	default:
		b.lanes += n
	}
}

// poisonRule says how a step's result gets its poison.
type poisonRule uint8

const (
	poisonAny    poisonRule = iota // of any operand
	poisonSelect                   // a chooses b or c
	poisonAnd                      // a known false decides
	poisonOr                       // a known true decides
)

// access describes a load, store, atomic or matrix access.
type access struct {
	obj    int32  // object number, rootDynamic: from the pointer's top bits
	su, sv uint32 // frame offsets of the uniform and the varying part of the address; 0 if none
	disp   int64
	elem   ir.Type
	size   int // bytes of an element
	count  int
	align  int
	regs   []uint32 // frame offsets of the elements, loaded or stored
	uni    bool     // one address for all lanes
	joined bool     // the elements are loads of their own
	write  bool
	dev    bool // counts as device traffic
	mem    *ir.Mem
	pos    ir.Pos
	atomic ir.AtomicOp
	kind   ir.Op
	// Matrices: scalars stride, column, row, transpose flag, and their varying forms
	// where they are not uniform.
	sg [4]uint32
	// sgVarying has the vector slots of those that vary (0: uniform).
	sgVarying [4]uint32
}

// collective describes a simdgroup function.
type collective struct {
	typ  ir.Type
	op   uint64
	quad bool
	excl bool
	uni  bool // the operand that must be uniform is a scalar (in b), else a vector
	fill uint32
	mod  uint32 // frame offset of the modulo, 0 if none
	args int
}

// constant is a slot filled once.
type constant struct {
	off  uint32
	bits uint64
	kind class
}

// tag packs an object number and a byte offset in the one word that a pointer of
// unknown object is. The offset is signed.
func tag(obj int32, off int64) uint64 { return uint64(int64(obj)<<tagShift + off) }

func untag(p uint64) (obj int32, off int64) {
	off = int64(p<<(64-tagShift)) >> (64 - tagShift)
	return int32(uint64(int64(p)-off) >> tagShift), off
}

const tagShift = 48

// DecodeError says what a function asks that the interpreter can't do.
type DecodeError struct {
	Func string
	Pos  ir.Position
	Msg  string
}

// Error is one line.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s:%d:%d: kernel %s: %s", e.Pos.File, e.Pos.Line, e.Pos.Col, e.Func, e.Msg)
}
