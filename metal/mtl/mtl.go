// Package mtl is the device interface of the Metal backend: small and
// Metal-shaped, so that an Apple implementation is a thin shim and a software or
// CUDA implementation has nothing to guess.
//
// Order of use: a [Device] compiles a [Library] from source, makes a [Pipeline]
// per kernel and function constants, and [Buffer] values for data. A
// [CommandBuffer] records dispatches, memory barriers and copies in order;
// Submit runs them and waits, bounded by a deadline. A command buffer is
// concurrent, as Metal's concurrent encoders are: two dispatches are ordered by
// a memory barrier between them and by nothing else.
//
// A [Binding] carries not just a buffer and an offset but the extent of the
// tensor behind it and how the kernel may use it: with all weights of a model in
// one buffer, only extents let a checker see an overrun into the next tensor.
//
// The package holds types, and the rules that every device checks on the host
// before it records ([CheckDispatch], [CheckCopy], [CheckWindow], [Constant.Bits],
// [Ring]); it has no code of any device and imports none. The devices are
// metal/mtl/apple, soft and cuda; metal/mtl/mtltest is the suite that each of
// them passes. A Device and its Library, Pipeline and Buffer values may be used
// from several goroutines; a CommandBuffer from one.
package mtl

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// DefaultDeadline bounds Submit where the caller's context has no deadline.
const DefaultDeadline = 10 * time.Second

// MaxInlineBytes is the most that a Binding's Bytes may hold.
const MaxInlineBytes = 4096

// Device is one GPU, or something that behaves like one.
type Device interface {
	// Name is for people; a software device's says that it is software.
	Name() string
	Limits() Limits

	// Compile builds a library from MSL source. Diagnostics are in the error.
	Compile(ctx context.Context, source Source) (Library, error)

	// NewBuffer gives size > 0 bytes that the host and the device both reach. The
	// content is undefined until written.
	NewBuffer(size int, label string) (Buffer, error)
	// WrapNoCopy makes a buffer of memory that the caller owns and keeps alive
	// until Release and the end of all work on it. data must start on a page
	// boundary; the device rounds its length up to whole pages, so all of the last
	// page must be addressable. It fails where Limits.NoCopy is false.
	WrapNoCopy(data []byte, label string) (Buffer, error)

	NewCommandBuffer(label string) (CommandBuffer, error)

	// Close releases the device. Buffers and pipelines must be released before.
	// Everything but Close fails afterwards.
	Close() error
}

// Limits are queried from the device, never assumed.
type Limits struct {
	MaxThreadsPerThreadgroup int
	MaxThreadgroupMemory     int // bytes, static and host-sized together
	MaxBufferLength          int // bytes
	MaxBuffers               int // buffer arguments of one kernel: indices 0 to MaxBuffers-1
	SIMDWidth                int // lanes of a simdgroup
	PageSize                 int // alignment of WrapNoCopy, bytes
	NoCopy                   bool
	Unified                  bool // host and device share memory
	// GEMMFrom is from how many outputs times tokens on products of several tokens were
	// faster on simdgroup matrices than without; 0 where that was not measured.
	GEMMFrom int
}

// Source is MSL text with its compile options.
type Source struct {
	Name string // for diagnostics
	Text string
	// Include is where #include "..." finds files, nil for none. A device whose
	// compiler takes a single text expands it first.
	Include  fs.FS
	FastMath bool
	Defines  map[string]string // value "" defines the empty macro
	// ProductError is how far the product of two elements of float simdgroup matrices
	// may be from the exact one, relative to it, where that is faster; 0 asks for what
	// float32 gives, or close to it. Sums are float32 in any case.
	ProductError float64
}

// Library holds compiled kernels. Releasing it leaves its pipelines alive.
type Library interface {
	// Kernels lists the entry points by host name, sorted.
	Kernels() []string
	// Constants lists the function constants by index.
	Constants() []Constant
	// Pipeline specialises one kernel. A key of constants is a constant's name or
	// its index in decimal; a value is what [Constant.Bits] takes. A constant that
	// the kernel uses and the map lacks is an error, as is one that the library
	// does not have.
	Pipeline(kernel string, constants map[string]any) (Pipeline, error)
	Release()
}

// Pipeline is one specialised kernel, ready to dispatch.
type Pipeline interface {
	Kernel() string
	// Arguments lists the buffer and threadgroup arguments that this
	// specialisation has.
	Arguments() []Argument
	// MaxThreadsPerThreadgroup is the kernel's own limit, at most the device's.
	MaxThreadsPerThreadgroup() int
	StaticThreadgroupMemory() int // bytes
	Release()
}

// Argument describes a resource argument of a pipeline.
type Argument struct {
	Name        string
	Threadgroup bool // [[threadgroup(Index)]] rather than [[buffer(Index)]]
	Index       int
	Elem        string // the pointee type as the source spells it
	ElemSize    int    // bytes of one element, 0 where the device does not know
	// Scalar is the type that all of the element consists of (float4: Float32),
	// AnyType for a struct of several and where the device does not know.
	Scalar   Type
	ReadOnly bool // a pointer to const, or constant address space
	Ref      bool // a reference: the kernel sees exactly one element
}

// Buffer is device memory. After Release every method but Label, Size and
// Release fails; Release twice is once. Work that was recorded before keeps the
// memory until it ended.
type Buffer interface {
	Label() string
	Size() int // bytes
	// Read and Write copy a window. They fail, naming the buffer, where the window
	// leaves it and while recorded or submitted work on it is pending.
	Read(off int, dst []byte) error
	Write(off int, src []byte) error
	// Mapped is the buffer's memory where the host can address it, nil otherwise.
	// It must not be touched while work is pending. A checker takes all of the
	// buffer as written from then on.
	Mapped() []byte
	Release()
}

// Access is how a dispatch uses a binding.
type Access uint8

// The accesses. Output is a write that must reach every element of the extent.
const (
	Read Access = iota
	Write
	ReadWrite
	Output
)

// Binding is one [[buffer(n)]] argument.
type Binding struct {
	Index  int
	Buffer Buffer
	Offset int // bytes
	Length int // bytes of the tensor from Offset on: the extent that the kernel may touch
	Access Access
	Bytes  []byte // inline constants instead of a buffer (setBytes), at most MaxInlineBytes
	// Type is what the host takes the elements for. Where both it and the
	// Argument's Scalar are known they must agree but for signedness.
	Type Type
	// Name is what reports call the tensor; the buffer's label if empty.
	Name string
	// Rows and Ahead are a hint, 0 for none: the extent is as many rows of equal length, and
	// each threadgroup of a row of threadgroups reads its share of them, in order. A device
	// may have the first Ahead bytes of each fetched before the kernel asks.
	Rows, Ahead int
}

// Size is a grid extent.
type Size struct{ X, Y, Z int }

// Count is the number of points.
func (s Size) Count() int { return s.X * s.Y * s.Z }

// String is "XxYxZ".
func (s Size) String() string { return fmt.Sprintf("%dx%dx%d", s.X, s.Y, s.Z) }

// Dispatch is one launch.
type Dispatch struct {
	Label                 string // for errors and traces: "mul_mat q4_0 blk.3.ffn_down"
	Pipeline              Pipeline
	Bindings              []Binding
	ThreadgroupMemory     []int // bytes of each [[threadgroup(n)]] argument, multiples of 16
	Threadgroups          Size  // either this
	Threads               Size  // or this (dispatchThreads, with ragged edges)
	ThreadsPerThreadgroup Size
}

// CommandBuffer records work and ends with one Submit or Discard; everything
// fails after that. What an erroneous call meant to record is not recorded, and
// the command buffer stays usable.
type CommandBuffer interface {
	// Dispatch records a launch. One that Metal would refuse is a *LaunchError
	// here. The device copies what it needs of d, Bytes included.
	Dispatch(d Dispatch) error
	// Barrier orders all that was recorded before against all recorded after.
	Barrier()
	// Copy records a device-side copy of n bytes. Offsets and n are multiples of
	// 4, and the windows do not overlap. It is ordered as a dispatch is.
	Copy(dst Buffer, dstOff int, src Buffer, srcOff, n int) error
	// Submit runs everything and waits. It ends at the context's deadline, or
	// after DefaultDeadline where that has none. A failure is a *SubmitError.
	Submit(ctx context.Context) (Timing, error)
	// Discard drops what was recorded; nothing of it runs. After Submit it does
	// nothing.
	Discard()
}

// Timing is what a device with timers knows of a submit; zero otherwise.
type Timing struct{ GPU time.Duration }

// SubmitError is a failed submit. The dispatches of a failed submit have run
// fully, in part, or not at all.
type SubmitError struct {
	Label  string // of the command buffer
	Status string // what the device says
	// Last has the labels of the last dispatches, oldest first, at most LabelRing;
	// it ends with the one that failed where the device knows which that is.
	Last []string
	Err  error // the cause, such as context.DeadlineExceeded; nil if there is none but Status
}

// Error is one line.
func (e *SubmitError) Error() string {
	last := "no dispatch"
	if len(e.Last) > 0 {
		last = "last dispatches: " + strings.Join(e.Last, ", ")
	}
	return fmt.Sprintf("metal: submit of %q failed: %s; %s", e.Label, e.Status, last)
}

// Unwrap gives the cause.
func (e *SubmitError) Unwrap() error { return e.Err }
