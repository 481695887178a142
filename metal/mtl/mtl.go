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
// The package holds types and no code of any device, and imports none; the
// devices are metal/mtl/apple, soft and cuda. A Device may be used from several
// goroutines; a CommandBuffer from one.
package mtl

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// DefaultDeadline bounds Submit where the caller's context has no deadline.
const DefaultDeadline = 10 * time.Second

// LabelRing is the number of dispatch labels that a failed Submit reports.
const LabelRing = 16

// Device is one GPU, or something that behaves like one.
type Device interface {
	// Name is for people; a software device's says that it is software.
	Name() string
	Limits() Limits

	// Compile builds a library from MSL source, already preprocessed or not as
	// the options say. Diagnostics are in the error.
	Compile(ctx context.Context, source Source) (Library, error)

	// NewBuffer gives size bytes that the host and the device both reach. The
	// content is undefined until written.
	NewBuffer(size int, label string) (Buffer, error)
	// WrapNoCopy makes a buffer of memory that the caller owns and keeps alive
	// until Release. data must start on a page boundary; its length is rounded up
	// to pages by the device. It fails where Limits.NoCopy is false.
	WrapNoCopy(data []byte, label string) (Buffer, error)

	NewCommandBuffer(label string) (CommandBuffer, error)

	// Close releases the device. Buffers and pipelines must be released before.
	Close() error
}

// Limits are queried from the device, never assumed.
type Limits struct {
	MaxThreadsPerThreadgroup int
	MaxThreadgroupMemory     int // bytes, static and host-sized together
	MaxBufferLength          int // bytes
	MaxBuffers               int // buffer arguments of one kernel
	SIMDWidth                int // lanes of a simdgroup
	PageSize                 int // alignment of WrapNoCopy, bytes
	NoCopy                   bool
	Unified                  bool // host and device share memory
}

// Source is MSL text with its compile options.
type Source struct {
	Name     string // for diagnostics
	Text     string
	FastMath bool
	Defines  map[string]string
}

// Library holds compiled kernels.
type Library interface {
	// Kernels lists the entry points.
	Kernels() []string
	// Pipeline specialises one kernel with function constants by name.
	Pipeline(kernel string, constants map[string]any) (Pipeline, error)
	Release()
}

// Pipeline is one specialised kernel, ready to dispatch.
type Pipeline interface {
	Kernel() string
	MaxThreadsPerThreadgroup() int
	StaticThreadgroupMemory() int // bytes
	Release()
}

// Buffer is device memory.
type Buffer interface {
	Label() string
	Size() int // bytes
	// Read and Write copy a window. They fail, naming the buffer, while submitted
	// or recorded work on it is pending.
	Read(off int, dst []byte) error
	Write(off int, src []byte) error
	// Mapped is the buffer's memory where the host can address it, nil otherwise.
	Mapped() []byte
	Release()
}

// Access is how a dispatch uses a binding.
type Access uint8

// Output is a write that must reach every element of the extent.
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
	Bytes  []byte // inline constants instead of a buffer (setBytes), at most 4096
}

// Size is a grid extent.
type Size struct{ X, Y, Z int }

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

// CommandBuffer records work and submits it once.
type CommandBuffer interface {
	// Dispatch records a launch. One that Metal would refuse is an error here.
	Dispatch(d Dispatch) error
	// Barrier orders all that was recorded before against all recorded after.
	Barrier()
	// Copy records a device-side copy.
	Copy(dst Buffer, dstOff int, src Buffer, srcOff, n int) error
	// Submit runs everything and waits. It ends at the context's deadline, or
	// DefaultDeadline. A failure is a *SubmitError.
	Submit(ctx context.Context) (Timing, error)
}

// Timing is what a device with timers knows of a submit; zero otherwise.
type Timing struct{ GPU time.Duration }

// SubmitError is a failed submit.
type SubmitError struct {
	Label  string   // of the command buffer
	Status string   // what the device says
	Last   []string // labels of the last dispatches, oldest first, at most LabelRing
}

// Error is one line.
func (e *SubmitError) Error() string {
	return fmt.Sprintf("metal: submit of %q failed: %s; last dispatches: %s", e.Label, e.Status, strings.Join(e.Last, ", "))
}
