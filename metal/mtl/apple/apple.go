// Package apple is the Metal device of macOS: a thin shim over Metal.framework,
// opened at run time through purego, without cgo. Off macOS, and in static builds,
// [Open] says that there is no Apple GPU.
//
// [Open] gives the default device as an [mtl.Device]. Its limits are queried. A
// source is flattened to one text and compiled by Metal for MSL 3.1, which macOS
// 14 and later have; with [Options.Metallib] its kernels come from a library that
// was compiled before. A command buffer has one concurrent compute encoder:
// launches are encoded as they are recorded, copies are launches of a kernel of
// this package's own, and barriers are memory barriers of the encoder, so all of
// them are ordered in one way.
//
// Objects that Metal hands over are released once, by whoever holds them here: a
// library, a pipeline, a buffer, a command buffer, the device. Every message is sent,
// and every object released, in an autorelease pool, locked to its thread: Metal may
// leave objects to the pool in any of them. A submit waits for Metal's completion
// handler: one that misses its deadline comes back all the same, and the work's
// objects are kept until the GPU is done with them.
//
// The messages and constants of Metal are in the tables of objc.go and enums.go,
// which are checked without a Mac; the rest of the package runs in tests against a
// stand-in for the Objective-C runtime. native_darwin.go is what only a Mac can run.
package apple

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"minfer/metal/mtl"
)

// ErrAbsent says that there is no Apple GPU, or no way to it in this build.
var ErrAbsent = errors.New("no Apple GPU here")

// Options are how a device is opened. The zero value will do.
type Options struct {
	// Metallib is a file with all kernels, compiled: Compile takes those that a
	// source defines from it instead of compiling the source.
	Metallib string
	// Capture is where a GPU trace of everything is written, a new file whose name
	// ends with .gputrace; "" is none. macOS wants it allowed by the environment, under
	// a name that depends on its version: METAL_CAPTURE_ENABLED=1, MTL_CAPTURE_ENABLED=1.
	Capture string
	// Arguments reads the arguments of a source's kernels, by host name. Metal's
	// own reflection knows neither which are references nor what threadgroup memory
	// is made of. Metallib needs it; nil is what Metal alone knows.
	Arguments func(source mtl.Source) (map[string][]mtl.Argument, error)
}

// Device is an Apple GPU. It is safe for concurrent use.
type Device struct {
	o      Options
	rt     objects
	msg    messages
	class  classes
	dev    mtlDevice
	queue  mtlCommandQueue
	copier *Pipeline // of kernel copy
	name   string
	limits mtl.Limits

	mu        sync.Mutex
	closed    bool
	capturing bool
	metallib  *Library // of Options.Metallib, nil until it is wanted
}

var _ mtl.Device = (*Device)(nil)

// Open opens the default device of macOS.
func Open(o Options) (*Device, error) {
	rt, err := native()
	if err != nil {
		return nil, err
	}
	return open(o, rt)
}

// probe is a kernel that copies words, and whose pipeline tells the width of a
// simdgroup.
const probe = `#include <metal_stdlib>
using namespace metal;

kernel void copy(device const uint *src [[buffer(0)]],
                 device uint *dst [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
    dst[i] = src[i];
}
`

func open(o Options, rt objects) (*Device, error) {
	d := &Device{o: o, rt: rt}
	if err := errors.Join(d.msg.bind(rt), d.class.find(rt)); err != nil {
		return nil, fmt.Errorf("Metal: %w", err)
	}
	if d.dev = rt.systemDevice(); d.dev == 0 {
		return nil, fmt.Errorf("%w: Metal has no default device", ErrAbsent)
	}
	if err := d.setUp(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// setUp queries the limits, makes the queue and compiles the package's own kernel.
func (d *Device) setUp() error {
	m := &d.msg
	d.pooled(func() {
		d.name = d.text(m.deviceName.send(d.dev))
		threads := m.deviceMaxThreads.send(d.dev)
		d.limits = mtl.Limits{
			MaxThreadsPerThreadgroup: int(threads.Width),
			MaxThreadgroupMemory:     int(m.deviceMaxMemory.send(d.dev)),
			MaxBufferLength:          int(m.deviceMaxBuffer.send(d.dev)),
			MaxBuffers:               31, // of every GPU family; nothing tells it
			PageSize:                 os.Getpagesize(),
			NoCopy:                   true,
			Unified:                  m.deviceUnified.send(d.dev),
		}
		d.queue = m.deviceNewQueue.send(d.dev)
	})
	if d.queue == 0 {
		return fmt.Errorf("metal: %s gives no command queue", d.name)
	}
	lib, err := d.compile(mtl.Source{Name: "copy.metal", Text: probe})
	if err != nil {
		return err
	}
	defer lib.Release()
	p, err := lib.pipeline("copy", nil)
	if err != nil {
		return err
	}
	d.copier = p
	d.pooled(func() { d.limits.SIMDWidth = int(m.pipelineWidth.send(p.state)) })
	if d.o.Capture != "" {
		return d.startCapture()
	}
	return nil
}

// Name implements [mtl.Device].
func (d *Device) Name() string { return d.name }

// Limits implements [mtl.Device].
func (d *Device) Limits() mtl.Limits { return d.limits }

// Close implements [mtl.Device]. It ends a capture.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.capturing {
		d.pooled(func() {
			d.msg.captureStop.send(d.msg.captureShared.send(classOf[mtlCaptureManager](d.class.captureManager)))
		})
	}
	if d.metallib != nil {
		d.metallib.Release()
	}
	if d.copier != nil {
		d.copier.Release()
	}
	for _, object := range []uintptr{uintptr(d.queue), uintptr(d.dev)} {
		if object != 0 {
			d.release(object)
		}
	}
	return nil
}

func (d *Device) alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("metal: %s is closed", d.name)
	}
	return nil
}

// pooled runs f in an autorelease pool, on one thread.
func (d *Device) pooled(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := d.rt.push()
	defer d.rt.pop(pool)
	f()
}

// release gives up a reference. What goes with it may leave objects to a pool.
func (d *Device) release(object uintptr) {
	d.pooled(func() { d.rt.release(object) })
}

// str makes a string, for the pool around the call. A NUL ends it; bytes that are
// no UTF-8, of which Foundation makes no string, are replaced.
func (d *Device) str(s string) nsString {
	data := append([]byte(strings.ToValidUTF8(s, "\uFFFD")), 0)
	return d.msg.stringWithUTF8.send(classOf[nsString](d.class.str), unsafe.SliceData(data))
}

// text copies a string; of none it is "".
func (d *Device) text(s nsString) string {
	if s == 0 {
		return ""
	}
	p := d.msg.stringUTF8.send(s)
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return strings.Clone(unsafe.String(p, n))
}

// reason is an error of Metal's, which may be none.
func (d *Device) reason(e nsError) string {
	if e == 0 {
		return "Metal gives no reason"
	}
	return fmt.Sprintf("%s (code %d)", strings.TrimSpace(d.text(d.msg.errorDescription.send(e))), d.msg.errorCode.send(e))
}

// each calls f with every object of an array.
func (d *Device) each(a nsArray, f func(anyObject)) {
	if a == 0 {
		return
	}
	for i := range d.msg.arrayCount.send(a) {
		f(d.msg.arrayAt.send(a, i))
	}
}

// startCapture begins a GPU trace of the device.
func (d *Device) startCapture() error {
	if _, err := os.Stat(d.o.Capture); err == nil {
		return fmt.Errorf("metal: capture to %s: it exists: want a new file", d.o.Capture)
	}
	if !strings.HasSuffix(d.o.Capture, ".gputrace") || strings.ContainsRune(d.o.Capture, 0) {
		return fmt.Errorf("metal: capture to %q: want a name that ends with .gputrace, without a NUL", d.o.Capture)
	}
	m := &d.msg
	var failed error
	d.pooled(func() {
		manager := m.captureShared.send(classOf[mtlCaptureManager](d.class.captureManager))
		if !m.captureSupports.send(manager, mtlCaptureDestinationGPUTraceDocument) {
			failed = fmt.Errorf("metal: capture to %s: macOS allows no GPU traces to this program: want METAL_CAPTURE_ENABLED=1 and MTL_CAPTURE_ENABLED=1", d.o.Capture)
			return
		}
		what := m.captureNew.send(classOf[mtlCaptureDescriptor](d.class.captureDescriptor))
		defer d.rt.release(uintptr(what))
		m.captureSetObject.send(what, anyObject(d.dev))
		m.captureSetDestination.send(what, mtlCaptureDestinationGPUTraceDocument)
		m.captureSetURL.send(what, m.urlOfFile.send(classOf[nsURL](d.class.url), d.str(d.o.Capture)))
		var e nsError
		if !m.captureStart.send(manager, what, &e) {
			failed = fmt.Errorf("metal: capture to %s: %s", d.o.Capture, d.reason(e))
			return
		}
		d.capturing = true
	})
	return failed
}

// Compile implements [mtl.Device].
func (d *Device) Compile(ctx context.Context, source mtl.Source) (mtl.Library, error) {
	if err := errors.Join(d.alive(), ctx.Err()); err != nil {
		return nil, err
	}
	var lib *Library
	var err error
	if d.o.Metallib != "" {
		lib, err = d.precompiled(source)
	} else {
		lib, err = d.compile(source)
	}
	if err != nil {
		return nil, err
	}
	return lib, ctx.Err()
}

// compile has Metal compile a source.
func (d *Device) compile(source mtl.Source) (*Library, error) {
	text, err := flatten(source)
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", source.Name, err)
	}
	lib := &Library{device: d, signatures: d.signatures(source)}
	m := &d.msg
	d.pooled(func() {
		options := m.optionsNew.send(classOf[mtlCompileOptions](d.class.compileOptions))
		defer d.rt.release(uintptr(options))
		m.optionsSetFastMath.send(options, source.FastMath)
		m.optionsSetVersion.send(options, mtlLanguageVersion3_1)
		var e nsError
		// A warning comes as an error beside a library.
		if lib.lib = m.deviceNewLibrary.send(d.dev, d.str(text), options, &e); lib.lib == 0 {
			err = fmt.Errorf("metal: %s does not compile:\n%s", source.Name, d.reason(e))
			return
		}
		lib.describe(nil)
	})
	if err != nil {
		return nil, err
	}
	return lib, nil
}

// signatures are the arguments of a source's kernels, as far as the front end
// understands it; what does not compile is for Metal to say.
func (d *Device) signatures(source mtl.Source) map[string][]mtl.Argument {
	if d.o.Arguments == nil {
		return nil
	}
	all, err := d.o.Arguments(source)
	if err != nil {
		return nil
	}
	return all
}

// precompiled gives the kernels that a source defines, out of the metallib.
func (d *Device) precompiled(source mtl.Source) (*Library, error) {
	if d.o.Arguments == nil {
		return nil, fmt.Errorf("metal: %s: nothing tells which kernels of %s it defines", source.Name, d.o.Metallib)
	}
	signatures, err := d.o.Arguments(source)
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", source.Name, err)
	}
	whole, err := d.load()
	if err != nil {
		return nil, err
	}
	lib := &Library{device: d, lib: whole.lib, signatures: signatures}
	d.rt.retain(uintptr(lib.lib))
	names := make([]string, 0, len(signatures))
	for name := range signatures {
		if !slices.Contains(whole.kernels, name) {
			lib.Release()
			return nil, fmt.Errorf("metal: %s has no kernel %s of %s", d.o.Metallib, name, source.Name)
		}
		names = append(names, name)
	}
	d.pooled(func() { lib.describe(names) })
	return lib, nil
}

// load opens the metallib, once.
func (d *Device) load() (*Library, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.metallib != nil {
		return d.metallib, nil
	}
	if _, err := os.Stat(d.o.Metallib); err != nil {
		return nil, fmt.Errorf("metal: metallib: %w", err)
	}
	lib := &Library{device: d}
	m := &d.msg
	var err error
	d.pooled(func() {
		var e nsError
		if lib.lib = m.deviceLoadLibrary.send(d.dev, m.urlOfFile.send(classOf[nsURL](d.class.url), d.str(d.o.Metallib)), &e); lib.lib == 0 {
			err = fmt.Errorf("metal: metallib %s: %s", d.o.Metallib, d.reason(e))
			return
		}
		lib.describe(nil)
	})
	if err != nil {
		return nil, err
	}
	d.metallib = lib
	return lib, nil
}
