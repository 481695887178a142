package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"minfer/metal/mtl"
)

// DeviceOptions say which GPU and where things are. The zero value is the first
// GPU, the libraries by their usual names, and no cache.
type DeviceOptions struct {
	GPU int
	// Compiler is the path of NVIDIA's run-time compiler; empty for its usual names.
	Compiler string
	// Cache is a folder for compiled kernels, made if it is not there; empty for
	// none. What is in it depends on source, options, compiler and driver by name,
	// so it can be deleted at any time and shared by processes.
	Cache string
	// Deadline bounds a submit whose context has no deadline; 0 is
	// mtl.DefaultDeadline.
	Deadline time.Duration
	// Dispatched, where not nil, is called after each submit with every dispatch's label
	// and time on the GPU, in order. Dispatches run one by one then, which takes longer.
	Dispatched func(label string, took time.Duration)
	// NoReplay has every submit launch one by one what it recorded, where otherwise one
	// that repeats an earlier one gives the GPU all of it at once.
	NoReplay bool
	// SoftMatrices has products of simdgroup matrices made without tensor cores, with
	// the software device's bits.
	SoftMatrices bool
}

// Device is an NVIDIA GPU as an [mtl.Device]. It is safe for concurrent use.
type Device struct {
	o        DeviceOptions
	driver   *Driver
	compiler *Compiler
	cache    *cache
	limits   mtl.Limits
	queue    chan struct{} // holds a token while a submit runs
	inline   inline
	closed   atomic.Bool
}

var _ mtl.Device = (*Device)(nil)

// maxBuffers is the number of buffer arguments: that of Metal.
const maxBuffers = 31

// gemmFrom is what was measured on an H200 at the shapes of models of 0.5B and 7B
// parameters, f32 to q4_0 and 2 to 128 tokens: taking the better of the two ways each
// time would win 2 % in all, and 19 % for one product near the border (TestGPUGEMM,
// 2026-11-30).
const gemmFrom = 200_000

// Open opens a GPU. The error says which library or GPU is missing.
func Open(o DeviceOptions) (*Device, error) {
	driver, err := OpenDriver(o.GPU)
	if err != nil {
		return nil, err
	}
	compiler, err := OpenCompiler(o.Compiler)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	if o.Deadline == 0 {
		o.Deadline = mtl.DefaultDeadline
	}
	a := driver.attrs
	d := &Device{o: o, driver: driver, compiler: compiler, queue: make(chan struct{}, 1), limits: mtl.Limits{
		MaxThreadsPerThreadgroup: a.blockThreads,
		MaxThreadgroupMemory:     a.blockShared,
		MaxBufferLength:          int(driver.memory),
		MaxBuffers:               maxBuffers,
		SIMDWidth:                a.warp,
		PageSize:                 os.Getpagesize(),
		GEMMFrom:                 gemmFrom,
	}}
	if d.limits.SIMDWidth != 32 {
		return nil, errors.Join(fmt.Errorf("cuda: %s has warps of %d lanes: want 32", driver.Name(), d.limits.SIMDWidth), driver.Close())
	}
	if d.cache, err = openCache(o.Cache, driver, compiler); err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	return d, nil
}

// tensor is how products of matrices are made that may be off by an error.
func (d *Device) tensor(productError float64) Tensor {
	major, _ := d.driver.Capability()
	switch {
	case major < 8 || d.o.SoftMatrices:
		return NoTensor
	case productError >= pairsError:
		return TensorPairs
	}
	return TensorFloat
}

// Name implements [mtl.Device].
func (d *Device) Name() string { return d.driver.Name() }

// Versions are those of the driver interface and of the run-time compiler, such
// as 13.0.
func (d *Device) Versions() (driver, compiler string) {
	return d.driver.Version(), d.compiler.Version()
}

// Limits implements [mtl.Device].
func (d *Device) Limits() mtl.Limits { return d.limits }

// Close implements [mtl.Device]. It waits for the submit that runs; those that wait
// for their turn fail.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.queue <- struct{}{}
	defer func() { <-d.queue }()
	return errors.Join(d.inline.free(), d.driver.Close())
}

var errClosed = errors.New("metal: the CUDA device is closed")

func (d *Device) alive() error {
	if d.closed.Load() {
		return errClosed
	}
	return nil
}
