// Package soft is the software Metal device: it executes kernels on any CPU with
// Metal's semantics, under a sanitizer, deterministically for any number of
// threads. Its name says that it is software, and nothing falls back to it
// unasked.
//
// [New] gives a [Device], which is an [mtl.Device]. Beyond that interface a
// [CommandBuffer] takes whole-buffer outputs to check, and a [Device] hands out
// the sanitizer's findings and the counters of each dispatch through its
// [Options]. A submit with an error among its findings fails with an
// *mtl.SubmitError whose cause is a [*FindingsError]; its work has run to the end
// all the same, with wrong accesses left out.
//
// Submits of one device run one after another; the threadgroups of a dispatch
// run in parallel. The dispatches between two barriers run in the order they
// were recorded in, but in mode chaos.
package soft

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/san"
)

// Options choose what is checked and how kernels run. The zero value checks
// nothing and uses all cores.
type Options struct {
	Mode    san.Mode
	Threads int // threadgroups that run at a time; 0 is one for each core
	// Seed varies the schedules of mode chaos.
	Seed uint64
	// Deadline bounds a submit whose context has no deadline; 0 is
	// mtl.DefaultDeadline.
	Deadline time.Duration
	// Report, where not nil, is called at the end of each submit with what the
	// sanitizer found, notes included, and not at all where it found nothing.
	Report func(commandBuffer string, r *san.Report)
	// Counters, where not nil, is called after each dispatch.
	Counters func(d *mtl.Dispatch, c interp.Counters)
}

// Device is the software device. It is safe for concurrent use.
type Device struct {
	o      Options
	limits mtl.Limits
	queue  chan struct{} // holds a token while a submit runs
	closed atomic.Bool
}

var _ mtl.Device = (*Device)(nil)

// New opens a software device.
func New(o Options) (*Device, error) {
	if o.Threads < 0 {
		return nil, fmt.Errorf("software Metal device: %d threads: want 0 (all cores) or more", o.Threads)
	}
	if o.Mode > san.Chaos {
		return nil, fmt.Errorf("software Metal device: mode %v: want off, mem, race, strict or chaos", o.Mode)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Deadline == 0 {
		o.Deadline = mtl.DefaultDeadline
	}
	return &Device{o: o, queue: make(chan struct{}, 1), limits: mtl.Limits{
		// Those of an Apple GPU, but for the page size, which is this machine's.
		MaxThreadsPerThreadgroup: 1024,
		MaxThreadgroupMemory:     32 << 10,
		MaxBufferLength:          min(1<<33, maxInt),
		MaxBuffers:               31,
		SIMDWidth:                san.Lanes,
		PageSize:                 os.Getpagesize(),
		NoCopy:                   true,
		Unified:                  true,
	}}, nil
}

const maxInt = int(^uint(0) >> 1)

// Name implements [mtl.Device].
func (d *Device) Name() string {
	threads := fmt.Sprintf("%d threads", d.o.Threads)
	if d.o.Threads == 1 {
		threads = "1 thread"
	}
	if d.o.Mode == san.Off {
		return fmt.Sprintf("Software Metal device (%s)", threads)
	}
	return fmt.Sprintf("Software Metal device (%s, %v)", threads, d.o.Mode)
}

// Limits implements [mtl.Device].
func (d *Device) Limits() mtl.Limits { return d.limits }

// Close implements [mtl.Device].
func (d *Device) Close() error {
	d.closed.Store(true)
	return nil
}

var errClosed = errors.New("metal: the software device is closed")

func (d *Device) alive() error {
	if d.closed.Load() {
		return errClosed
	}
	return nil
}

func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }
