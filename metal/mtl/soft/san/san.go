// Package san is the sanitizer of the software Metal device: races, memory
// that nobody wrote, accesses out of bounds, and the reports of them. It
// watches; it executes nothing. The interpreter calls it for every memory
// access, barrier and fault, 32 lanes at a time.
//
// # Order of use
//
// One [Checker] serves one command buffer. Give each device buffer one
// [Buffer] for its life. For the dispatches between two memory barriers call
// [Checker.BeginInterval] with all of them (a serial encoder has one dispatch to
// an interval), then for each of them in order [Checker.Begin], which gives a
// [Run]. Each goroutine that executes threadgroups takes its own [Worker] from
// [Run.Worker]. For each threadgroup: [Worker.BeginGroup], any number of hooks,
// [Worker.EndGroup]. When all threadgroups have run: [Run.End]. After the last
// interval: [Checker.Finish], which checks outputs, and [Checker.Report].
//
// # What decides
//
// The verdicts are the table of docs/launch-cases.md. Races are found by clocks,
// not by the order that was observed: an access is a race with an earlier one if
// no barrier that names the memory lies between, in whatever order the simdgroups
// happened to run.
// Threadgroups are compared after the dispatch by summaries whose merge is
// commutative. So findings are the same for any number of workers, provided
// that each threadgroup runs on one worker and simdgroups in a fixed order.
// Where [Run.Ordered] says so, threadgroups must run in ascending order on one
// worker, because what they read depends on what others wrote.
//
// # Cost
//
// Device memory that no dispatch of an interval writes has Object.Track false:
// Access need not be called. Memory whose every byte is defined has
// Object.Poison false. Nothing is allocated for an access.
//
// # Concurrency
//
// A Worker belongs to one goroutine; workers of one Run may run at once.
// Everything else is called from one goroutine.
package san

import (
	"fmt"

	"minfer/metal/msl/ir"
)

// Lanes is the width of a simdgroup.
const Lanes = 32

// Mode says what is watched.
type Mode uint8

// The modes. Each contains the one before.
const (
	Off Mode = iota
	// Mem finds accesses out of bounds, misaligned ones, values that nobody wrote,
	// outputs not written, NaN in outputs, diverged barriers and collectives.
	Mem
	// Race adds races between simdgroups, threadgroups and dispatches.
	Race
	// Strict takes lanes of one simdgroup to be unordered too.
	Strict
	// Chaos is Strict under seeded schedules.
	Chaos
)

var modeNames = [...]string{"off", "mem", "race", "strict", "chaos"}

// String is the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("sanitizer mode: found %q, want off, mem, race, strict or chaos", s)
}

// Kind of access.
type Kind uint8

// The kinds. AtomicWrite is any atomic that may store (read-modify-write
// included).
const (
	Read Kind = iota
	Write
	AtomicRead
	AtomicWrite
)

// String is the kind as reports print it.
func (k Kind) String() string {
	return [...]string{"read", "write", "atomic read", "atomic write"}[k&3]
}

func (k Kind) writes() bool { return k&1 != 0 }
func (k Kind) atomic() bool { return k >= AtomicRead }

// Object is a piece of memory that pointers are derived from: a binding, a
// threadgroup argument or variable, a private array.
type Object struct {
	Space ir.Space
	Name  string // the argument's or variable's name in the kernel
	// Param is the index in Func.Params, Static in Func.Statics, Alloca in
	// Func.Allocas; -1 where it is none.
	Param, Static, Alloca int
	Buffer                *Buffer // of device and constant bindings; nil for inline bytes
	Tensor                string  // what the binding calls its part of the buffer, "" if nothing
	Base                  int     // device: the binding's offset in the buffer, bytes; threadgroup: the object's place in the threadgroup's memory
	Size                  int     // extent in bytes
	Elem                  string  // element type, for reports
	ElemSize              int     // bytes, at least 1
	Output                bool    // every element must be written

	// Track: call Worker.Access for accesses. Poison: call Worker.LoadPoison after
	// loads. Mark: call Worker.StorePoison (or Define) at stores. All are false in
	// mode off.
	Track, Poison, Mark bool

	id  int // in Run.objects
	buf int // in Run.bufs; -1
}

// Access is one memory instruction executed by one simdgroup for the lanes in
// Mask, all of them in bounds. The caller keeps one and refills it.
type Access struct {
	Kind Kind
	Obj  *Object
	Pos  ir.Pos
	Mask uint32
	// Off are the lanes' byte offsets from the object's start. Where it is nil,
	// lane l is at Base + l*Stride (Stride 0: all lanes at one place).
	Off          *[Lanes]uint64
	Base, Stride int64
	// Count elements of ElemSize bytes lie one after another.
	ElemSize, Count int
	// Vector and VectorOff are those of ir.Mem: a store of a vector's component
	// counts as a store of the vector.
	Vector, VectorOff int
	// Matrix marks a simdgroup-matrix load or store, given as lanes with a row of the
	// matrix each; which lane really has which element is not defined.
	Matrix bool
	// Val are the values of a store, element by element: Val32 for elements of up
	// to 4 bytes, Val64 for 8. Nil elements are values that differ from any other.
	Val32 [MaxElems]*[Lanes]uint32
	Val64 [MaxElems]*[Lanes]uint64
}

// MaxElems is the largest Count of an Access.
const MaxElems = 16

// Use says where a value that nobody wrote arrived.
type Use uint8

// The uses.
const (
	UseBranch Use = iota
	UseAddress
	UseTrip
	UseCollective
	UseAtomic
	UseStore
)

// String is the use as reports print it.
func (u Use) String() string {
	return [...]string{"a branch", "an address", "a loop's trip count", "a collective", "an atomic", "a device store"}[u%6]
}

// Origin names where a poisoned value came from: 0 is unknown. See
// [Worker.Origin].
type Origin uint32

// Dispatch describes one launch to the checker.
type Dispatch struct {
	Index    int // in the command buffer, from 0
	Label    string
	Kernel   *ir.Func
	Bindings []Binding
	// ThreadgroupBytes are the sizes of the threadgroup arguments, by the argument's
	// index.
	ThreadgroupBytes []int
	Threadgroups     [3]int
	Threads          [3]int // of a full threadgroup
}

// Binding is one buffer argument of a Dispatch.
type Binding struct {
	Param          int     // index in Kernel.Params
	Buffer         *Buffer // nil for inline bytes
	Offset, Length int     // the extent, bytes
	Name           string  // of the tensor there, "" if it has none of its own
	Output         bool
}
