package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"minfer/metal/msl/ir"
)

// driverName is what the driver's library is called.
const driverName = "libcuda.so.1"

// Codes and attributes of the driver interface.
const (
	notReady             = 600
	attrBlockThreads     = 1
	attrWarp             = 10
	attrMultiprocessors  = 16
	attrCapabilityMajor  = 75
	attrCapabilityMinor  = 76
	attrBlockShared      = 97
	funcAttrMaxThreads   = 0
	funcAttrLocalBytes   = 3
	funcAttrRegisters    = 4
	funcSetDynamicShared = 8
	maxPlainShared       = 48 << 10
	hostMapped           = 2
	streamNonBlocking    = 1
	captureRelaxed       = 2
	attrProgrammatic     = 6

	// stagingBytes is the most of a copy that goes through page-locked memory: a row
	// of logits.
	stagingBytes = 1 << 20
)

// Driver is one GPU, in its primary context. Calls are one at a time; it is safe
// for concurrent use.
type Driver struct {
	mu       sync.Mutex
	device   int32
	ctx      uintptr
	name     string
	version  int32
	attrs    attributes
	memory   uintptr // bytes of the GPU's
	closed   bool
	lost     error      // why nothing runs any more
	stop     *[2]uint32 // page-locked, seen by kernels at stopAddr: see launch_t
	stopAddr uint64
	events   []uintptr // made and not in use
	stream   uintptr   // of all launches
	staging  []byte    // page-locked, for reads and writes: faster than pages that the driver has to lock
	staged   int       // bytes of it that copies in the stream may still read
	// sequences are those of the device's command buffers. Whoever changes one holds
	// the device's queue.
	sequences sequenceList
	fn        struct {
		init          func(flags uint32) int32
		version       func(v *int32) int32
		count         func(n *int32) int32
		get           func(dev *int32, n int32) int32
		deviceName    func(buf *byte, n int32, dev int32) int32
		attribute     func(v *int32, attr, dev int32) int32
		retain        func(ctx *uintptr, dev int32) int32
		release       func(dev int32) int32
		setCurrent    func(ctx uintptr) int32
		loadData      func(mod *uintptr, image *byte) int32
		unload        func(mod uintptr) int32
		getFunction   func(fn *uintptr, mod uintptr, name *byte) int32
		funcAttribute func(v *int32, attr int32, fn uintptr) int32
		setAttribute  func(fn uintptr, attr, v int32) int32
		alloc         func(p *uint64, n uintptr) int32
		free          func(p uint64) int32
		toDevice      func(dst uint64, src *byte, n uintptr) int32
		toHost        func(dst *byte, src uint64, n uintptr) int32
		fill          func(dst uint64, value uint8, n, stream uintptr) int32
		copy          func(dst, src uint64, n, stream uintptr) int32
		totalMemory   func(n *uintptr, dev int32) int32
		eventCreate   func(ev *uintptr, flags uint32) int32
		eventRecord   func(ev, stream uintptr) int32
		eventElapsed  func(ms *float32, start, end uintptr) int32
		eventDestroy  func(ev uintptr) int32
		errorName     func(code int32, s **byte) int32
		hostAlloc     func(p *unsafe.Pointer, n uintptr, flags uint32) int32
		hostFree      func(p unsafe.Pointer) int32
		hostAddress   func(addr *uint64, p unsafe.Pointer, flags uint32) int32
		toDeviceLater func(dst uint64, src unsafe.Pointer, n, stream uintptr) int32
		toHostLater   func(dst unsafe.Pointer, src uint64, n, stream uintptr) int32
		synchronize   func(stream uintptr) int32
		streamCreate  func(stream *uintptr, flags uint32) int32
		streamDestroy func(stream uintptr) int32
		beginCapture  func(stream uintptr, mode int32) int32
		endCapture    func(stream uintptr, graph *uintptr) int32
		instantiate   func(exec *uintptr, graph uintptr, flags uint64) int32
		graphLaunch   func(exec, stream uintptr) int32
		graphDestroy  func(graph uintptr) int32
		execDestroy   func(exec uintptr) int32
		// What a submit calls often goes by address, for invoke.
		launch, launchEx, eventQuery uintptr
	}
}

// attributes are those of a GPU.
type attributes struct{ major, minor, multiprocessors, blockThreads, blockShared, warp int }

// OpenDriver opens the driver's library and the n-th GPU.
func OpenDriver(n int) (*Driver, error) {
	lib, err := dlopen(driverName)
	if err != nil {
		return nil, fmt.Errorf("cuda: driver: %w", err)
	}
	d := &Driver{}
	f := &d.fn
	for _, x := range []struct {
		name string
		ptr  any
	}{
		{"cuInit", &f.init}, {"cuDriverGetVersion", &f.version}, {"cuDeviceGetCount", &f.count}, {"cuDeviceGet", &f.get},
		{"cuDeviceGetName", &f.deviceName}, {"cuDeviceGetAttribute", &f.attribute}, {"cuDevicePrimaryCtxRetain", &f.retain},
		{"cuDevicePrimaryCtxRelease_v2", &f.release}, {"cuCtxSetCurrent", &f.setCurrent}, {"cuModuleLoadData", &f.loadData},
		{"cuModuleUnload", &f.unload}, {"cuModuleGetFunction", &f.getFunction}, {"cuFuncGetAttribute", &f.funcAttribute},
		{"cuFuncSetAttribute", &f.setAttribute}, {"cuMemAlloc_v2", &f.alloc}, {"cuMemFree_v2", &f.free},
		{"cuMemcpyHtoD_v2", &f.toDevice}, {"cuMemcpyDtoH_v2", &f.toHost}, {"cuMemsetD8Async", &f.fill}, {"cuMemcpyDtoDAsync_v2", &f.copy},
		{"cuEventCreate", &f.eventCreate}, {"cuEventRecord", &f.eventRecord}, {"cuDeviceTotalMem_v2", &f.totalMemory},
		{"cuEventElapsedTime", &f.eventElapsed}, {"cuEventDestroy_v2", &f.eventDestroy}, {"cuGetErrorName", &f.errorName},
		{"cuMemHostAlloc", &f.hostAlloc}, {"cuMemFreeHost", &f.hostFree}, {"cuMemHostGetDevicePointer_v2", &f.hostAddress},
		{"cuMemcpyDtoHAsync_v2", &f.toHostLater}, {"cuMemcpyHtoDAsync_v2", &f.toDeviceLater}, {"cuStreamSynchronize", &f.synchronize}, {"cuStreamCreate", &f.streamCreate},
		{"cuStreamDestroy_v2", &f.streamDestroy}, {"cuStreamBeginCapture_v2", &f.beginCapture}, {"cuStreamEndCapture", &f.endCapture},
		{"cuGraphInstantiateWithFlags", &f.instantiate}, {"cuGraphLaunch", &f.graphLaunch}, {"cuGraphDestroy", &f.graphDestroy},
		{"cuGraphExecDestroy", &f.execDestroy},
	} {
		if err := bind(lib, x.name, x.ptr); err != nil {
			return nil, fmt.Errorf("cuda: driver: %w", err)
		}
	}
	for _, x := range []struct {
		name string
		addr *uintptr
	}{{"cuLaunchKernel", &f.launch}, {"cuLaunchKernelEx", &f.launchEx}, {"cuEventQuery", &f.eventQuery}} {
		if *x.addr, err = symbol(lib, x.name); err != nil {
			return nil, fmt.Errorf("cuda: driver: %w", err)
		}
	}
	var count int32
	if err := errors.Join(d.check("init", f.init(0)), d.check("device count", f.count(&count))); err != nil {
		return nil, err
	}
	if n < 0 || n >= int(count) {
		return nil, fmt.Errorf("cuda: no GPU %d: the driver has %d", n, count)
	}
	name := make([]byte, 128)
	err = errors.Join(
		d.check("driver version", f.version(&d.version)),
		d.check("device", f.get(&d.device, int32(n))),
		d.check("device name", f.deviceName(&name[0], int32(len(name)), d.device)),
	)
	for _, a := range []struct {
		attr int32
		to   *int
	}{
		{attrCapabilityMajor, &d.attrs.major}, {attrCapabilityMinor, &d.attrs.minor}, {attrMultiprocessors, &d.attrs.multiprocessors},
		{attrBlockThreads, &d.attrs.blockThreads}, {attrBlockShared, &d.attrs.blockShared}, {attrWarp, &d.attrs.warp},
	} {
		var v int32
		err = errors.Join(err, d.check("device attribute", f.attribute(&v, a.attr, d.device)))
		*a.to = int(v)
	}
	err = errors.Join(err, d.check("memory of the device", f.totalMemory(&d.memory, d.device)))
	if err != nil {
		return nil, err
	}
	for k, b := range name {
		if b == 0 {
			d.name = string(name[:k])
			break
		}
	}
	if err := d.check("context", f.retain(&d.ctx, d.device)); err != nil {
		return nil, err
	}
	err = d.do(func() error {
		var p unsafe.Pointer
		if err := d.check("page-locked memory", f.hostAlloc(&p, unsafe.Sizeof(*d.stop), hostMapped)); err != nil {
			return err
		}
		d.stop = (*[2]uint32)(p)
		*d.stop = [2]uint32{}
		var staging unsafe.Pointer
		err := errors.Join(
			d.check("address of page-locked memory", f.hostAddress(&d.stopAddr, p, 0)),
			d.check("page-locked memory", f.hostAlloc(&staging, stagingBytes, 0)),
			d.check("stream", f.streamCreate(&d.stream, streamNonBlocking)),
		)
		if staging != nil {
			d.staging = unsafe.Slice((*byte)(staging), stagingBytes)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// check makes an error of a result code.
func (d *Driver) check(what string, code int32) error {
	if code == 0 {
		return nil
	}
	name := fmt.Sprintf("error %d", code)
	var s *byte
	if d.fn.errorName(code, &s) == 0 && s != nil {
		name = unsafe.String(s, length(s))
	}
	return fmt.Errorf("cuda: %s: %s", what, name)
}

// length is that of a zero-terminated string.
func length(s *byte) int {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return n
}

// do runs f on a thread with the context current.
func (d *Driver) do(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errors.New("cuda: the driver is closed")
	}
	if d.lost != nil {
		return d.lost
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.check("context", d.fn.setCurrent(d.ctx)); err != nil {
		return err
	}
	return f()
}

// Name is the GPU's.
func (d *Driver) Name() string { return d.name }

// Version is the driver interface's, as "13.0".
func (d *Driver) Version() string { return fmt.Sprintf("%d.%d", d.version/1000, d.version%1000/10) }

// Capability is the GPU's compute capability.
func (d *Driver) Capability() (major, minor int) { return d.attrs.major, d.attrs.minor }

// Close releases the context. Memory and kernels go before. Where there may be
// sequences, the caller holds the device's queue.
func (d *Driver) Close() error {
	for _, s := range d.sequences.all() {
		_ = s.close() // what fails here has gone already
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.lost != nil {
		return nil // a release would wait for the kernel
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := d.check("context", d.fn.setCurrent(d.ctx))
	if d.staged > 0 {
		err = errors.Join(err, d.check("end of the copies", d.settle()))
	}
	for _, ev := range d.events {
		d.fn.eventDestroy(ev)
	}
	if d.stream != 0 {
		d.fn.streamDestroy(d.stream)
	}
	// The context may have other users, with whom page-locked memory would stay.
	if d.staging != nil {
		err = errors.Join(err, d.check("page-locked memory", d.fn.hostFree(unsafe.Pointer(&d.staging[0]))))
	}
	if d.stop != nil {
		err = errors.Join(err, d.check("page-locked memory", d.fn.hostFree(unsafe.Pointer(d.stop))))
	}
	d.staging, d.stop = nil, nil
	return errors.Join(err, d.check("release of the context", d.fn.release(d.device)))
}

// Memory is an allocation on the GPU, aligned to 256 bytes.
type Memory struct {
	d    *Driver
	addr uint64
	size int
}

// Alloc gives size > 0 bytes, undefined until written.
func (d *Driver) Alloc(size int) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("cuda: allocation of %d bytes, expected at least 1", size)
	}
	m := &Memory{d: d, size: size}
	err := d.do(func() error {
		return d.check(fmt.Sprintf("allocation of %d bytes", size), d.fn.alloc(&m.addr, uintptr(size)))
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Memory) window(off, n int) error {
	if m.addr == 0 {
		return errors.New("cuda: the memory was freed")
	}
	if off < 0 || n < 0 || off > m.size-n {
		return fmt.Errorf("cuda: bytes %d to %d of an allocation of %d", off, off+n, m.size)
	}
	return nil
}

// Size in bytes.
func (m *Memory) Size() int { return m.size }

// Write copies src to the memory at off, before all work after.
func (m *Memory) Write(off int, src []byte) error {
	if err := m.window(off, len(src)); err != nil || len(src) == 0 {
		return err
	}
	return m.d.do(func() error { return m.d.check("copy to the device", m.d.write(m.addr+uint64(off), src)) })
}

// write copies through page-locked memory what fits into it, in the stream's order,
// and the rest at once.
func (d *Driver) write(addr uint64, src []byte) int32 {
	if len(src) > len(d.staging) {
		// Not in the stream's order: it waits for the stream, and the stream for it.
		if code := d.settle(); code != 0 {
			return code
		}
		if code := d.fn.toDevice(addr, &src[0], uintptr(len(src))); code != 0 {
			return code
		}
		return d.fn.synchronize(0)
	}
	if d.staged+len(src) > len(d.staging) {
		if code := d.settle(); code != 0 {
			return code
		}
	}
	at := d.staging[d.staged:]
	copy(at, src)
	d.staged += (len(src) + 15) &^ 15
	return d.fn.toDeviceLater(addr, unsafe.Pointer(&at[0]), uintptr(len(src)), d.stream)
}

// settle waits for the stream; what was staged can be written over then.
func (d *Driver) settle() int32 {
	code := d.fn.synchronize(d.stream)
	if code == 0 {
		d.staged = 0
	}
	return code
}

// Read copies the memory at off to dst, after all work before.
func (m *Memory) Read(off int, dst []byte) error {
	if err := m.window(off, len(dst)); err != nil || len(dst) == 0 {
		return err
	}
	return m.d.do(func() error { return m.d.check("copy to the host", m.d.read(dst, m.addr+uint64(off))) })
}

func (d *Driver) read(dst []byte, addr uint64) int32 {
	large := len(dst) > len(d.staging)
	if large || d.staged > 0 {
		if code := d.settle(); code != 0 {
			return code
		}
	}
	if large {
		return d.fn.toHost(&dst[0], addr, uintptr(len(dst)))
	}
	code := d.fn.toHostLater(unsafe.Pointer(&d.staging[0]), addr, uintptr(len(dst)), d.stream)
	if code == 0 {
		code = d.settle()
	}
	copy(dst, d.staging)
	return code
}

// Fill sets all bytes.
func (m *Memory) Fill(value byte) error {
	if err := m.window(0, 0); err != nil {
		return err
	}
	return m.d.do(func() error { return m.d.check("fill", m.d.fn.fill(m.addr, value, uintptr(m.size), m.d.stream)) })
}

// Free gives the memory back; twice is once.
func (m *Memory) Free() error {
	if m.addr == 0 {
		return nil
	}
	addr := m.addr
	m.addr = 0
	return m.d.do(func() error { return m.d.check("free", m.d.fn.free(addr)) })
}

// Kernel is a loaded kernel.
type Kernel struct {
	d      *Driver
	src    *Source
	module uintptr
	fn     uintptr
	shared int // dynamic shared memory that was asked for
	// Registers and LocalBytes are what a thread takes, MaxThreads what a threadgroup
	// may have of them.
	Registers, LocalBytes, MaxThreads int
}

// Load loads the machine code that [Compiler.Compile] made of s.
func (d *Driver) Load(s *Source, cubin []byte) (*Kernel, error) {
	if len(cubin) == 0 {
		return nil, fmt.Errorf("cuda: kernel %s: no machine code", s.Func.Name)
	}
	k := &Kernel{d: d, src: s}
	err := d.do(func() error {
		if err := d.check("load", d.fn.loadData(&k.module, &cubin[0])); err != nil {
			return err
		}
		var regs, local, threads int32
		if err := d.check("function", d.fn.getFunction(&k.fn, k.module, cstring(s.Entry))); err != nil {
			return err
		}
		return errors.Join(
			d.check("registers", d.fn.funcAttribute(&regs, funcAttrRegisters, k.fn)),
			d.check("local memory", d.fn.funcAttribute(&local, funcAttrLocalBytes, k.fn)),
			d.check("threads", d.fn.funcAttribute(&threads, funcAttrMaxThreads, k.fn)),
			func() error {
				k.Registers, k.LocalBytes, k.MaxThreads = int(regs), int(local), int(threads)
				return nil
			}(),
		)
	})
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", s.Func.Name, err)
	}
	return k, nil
}

// Unload gives the kernel back.
func (k *Kernel) Unload() error {
	if k.module == 0 {
		return nil
	}
	m := k.module
	k.module = 0
	return k.d.do(func() error { return k.d.check("unload", k.d.fn.unload(m)) })
}

// Launch is one dispatch, in the terms of mtl.Dispatch.
type Launch struct {
	// Grid counts threads where Ragged, threadgroups otherwise.
	Grid        [3]int
	Ragged      bool
	Threadgroup [3]int
	// Args has the memory of each buffer argument, by Param; nil is null. Offsets
	// are bytes in it.
	Args    []*Memory
	Offsets []int
	// Values has the bytes of each argument that goes by value (Source.Inline), by
	// Param; nil where there is none.
	Values [][]byte
	// ThreadgroupBytes has the size of each threadgroup argument, by Param.
	ThreadgroupBytes []int
	// Repeat launches as often, one after another; 0 is once.
	Repeat int
	// Ahead is memory that blocks read in order, a share each.
	Ahead Ahead
}

// Ahead is Rows rows of equal length, in Bytes bytes of a buffer argument, by Param, of
// each of which Each bytes at most are fetched. The zero value is none.
type Ahead struct{ Param, Bytes, Rows, Each int }

// fetch fills in what blocks fetch before they wait.
func (g *geometry) fetch(a Ahead, addr uint64, groups [3]uint32) {
	if a.Rows < 1 || a.Bytes < a.Rows || groups[1] != 1 || groups[2] != 1 {
		return
	}
	each := (a.Rows + int(groups[0]) - 1) / int(groups[0])
	row := a.Bytes / a.Rows
	if each*row > math.MaxInt32 {
		return // no share, but a matrix
	}
	g.ahead, g.step, g.last = addr, uint64(each*row), uint64((a.Rows-each)*row)
	g.pieces, g.stride, g.bytes = uint32(each), uint32(row), uint32(min(row, a.Each))
	if row <= a.Each { // whole rows follow each other
		g.pieces, g.bytes = 1, uint32(each*row)
	}
}

// call is a checked launch, ready for the queue.
type call struct {
	k       *Kernel
	groups  [3]uint32
	threads uint32
	shared  uint32
	geometry
	args   []uint64         // by Param: an address, or an offset in shared memory
	values [][]byte         // by Param, what goes by value
	params []unsafe.Pointer // to the geometry and to each of args
}

// geometry is launch_t of device/base.cuh.
type geometry struct {
	threads, tg           [3]uint32
	stop                  uint64
	id                    uint32
	pieces, bytes, stride uint32
	ahead, step, last     uint64
}

func (k *Kernel) prepare(l Launch) (*call, error) {
	f := k.src.Func
	fail := func(format string, args ...any) (*call, error) {
		return nil, fmt.Errorf("cuda: kernel %s: launch: %s", f.Name, fmt.Sprintf(format, args...))
	}
	if len(l.Args) != len(f.Params) || len(l.Offsets) != len(f.Params) || len(l.ThreadgroupBytes) != len(f.Params) {
		return fail("%d arguments, %d offsets and %d sizes, expected %d of each", len(l.Args), len(l.Offsets), len(l.ThreadgroupBytes), len(f.Params))
	}
	c := &call{k: k}
	c.stop = k.d.stopAddr
	threads := 1
	for n := range 3 {
		if l.Grid[n] < 1 || l.Threadgroup[n] < 1 || l.Threadgroup[n] > 1024 || l.Grid[n] > 1<<32-1 {
			return fail("grid %v, threadgroup %v", l.Grid, l.Threadgroup)
		}
		groups := l.Grid[n]
		if l.Ragged {
			c.geometry.threads[n] = uint32(groups)
			groups = (groups + l.Threadgroup[n] - 1) / l.Threadgroup[n]
		} else {
			c.geometry.threads[n] = uint32(groups * l.Threadgroup[n])
		}
		if limit := [3]int{1<<31 - 1, 65535, 65535}[n]; groups > limit {
			return fail("%d threadgroups along axis %d, expected at most %d", groups, n, limit)
		}
		c.groups[n] = uint32(groups)
		c.tg[n] = uint32(l.Threadgroup[n])
		threads *= l.Threadgroup[n]
	}
	if limit := k.MaxThreads; threads > limit || f.MaxThreads != 0 && threads > f.MaxThreads {
		return fail("%d threads in a threadgroup, expected at most %d", threads, limit)
	}
	if k.src.Whole && (l.Ragged || threads%k.d.attrs.warp != 0) {
		return fail("%d threads in a threadgroup, ragged edges %v, expected whole simdgroups", threads, l.Ragged)
	}
	c.threads = uint32(threads)
	shared := k.src.StaticBytes
	for n, p := range f.Params {
		switch m := l.Args[n]; {
		case k.src.Inline[n] > 0:
			if l.Values == nil || len(l.Values[n]) != p.ElemSize {
				return fail("argument %s: no value of %d bytes", p.Name, p.ElemSize)
			}
			c.args = append(c.args, 0)
			c.values = append(c.values, append(make([]byte, 0, k.src.Inline[n]), l.Values[n]...))
			continue
		case p.Kind == ir.ThreadgroupParam:
			c.args = append(c.args, uint64(shared))
			shared += (l.ThreadgroupBytes[n] + 15) &^ 15
		case m == nil:
			c.args = append(c.args, 0)
		default:
			if err := m.window(l.Offsets[n], 0); err != nil {
				return nil, err
			}
			c.args = append(c.args, m.addr+uint64(l.Offsets[n]))
		}
		c.values = append(c.values, nil)
	}
	c.shared = uint32(shared)
	if l.Ahead.Rows > 0 {
		c.fetch(l.Ahead, c.args[l.Ahead.Param], c.groups)
	}
	c.params = append(make([]unsafe.Pointer, 0, 1+len(c.args)), unsafe.Pointer(&c.geometry))
	for n := range c.args {
		// An offset is the low half: the machine is little-endian.
		p := unsafe.Pointer(&c.args[n])
		if v := c.values[n]; v != nil {
			p = unsafe.Pointer(unsafe.SliceData(v)) // its capacity is what the kernel takes
		}
		c.params = append(c.params, p)
	}
	return c, nil
}

// allowShared lets a kernel have the shared memory of a launch.
func (d *Driver) allowShared(c *call) error {
	if int(c.shared) <= max(maxPlainShared, c.k.shared) {
		return nil
	}
	if err := d.check("shared memory", d.fn.setAttribute(c.k.fn, funcSetDynamicShared, int32(c.shared))); err != nil {
		return err
	}
	c.k.shared = int(c.shared)
	return nil
}

// enqueue starts a launch behind all before. The caller is in do.
func (d *Driver) enqueue(c *call) error {
	if err := d.allowShared(c); err != nil {
		return err
	}
	// The heap does not move: what params points to stays where it is while c lives.
	code := invoke(d.fn.launch, c.k.fn, uintptr(c.groups[0]), uintptr(c.groups[1]), uintptr(c.groups[2]),
		uintptr(c.threads), 1, 1, uintptr(c.shared), d.stream, uintptr(unsafe.Pointer(&c.params[0])), 0)
	runtime.KeepAlive(c)
	return d.check("launch", code)
}

// fatal tells the results after which a context does nothing any more: a fault of
// a kernel.
func fatal(code int32) bool { return code >= 700 && code < 800 && code != 704 && code != 705 }

// ran makes an error of the result of waiting.
func (d *Driver) ran(code int32) error {
	err := d.check("run", code)
	if err != nil && fatal(code) {
		d.lost = fmt.Errorf("%w: the GPU is lost to this process", err)
	}
	return err
}

// events is a row of events in the queue.
type events struct {
	d    *Driver
	list []uintptr
}

// record puts an event behind all before.
func (e *events) record() error {
	var ev uintptr
	if n := len(e.d.events); n > 0 {
		ev = e.d.events[n-1]
		e.d.events = e.d.events[:n-1]
	} else if err := e.d.check("event", e.d.fn.eventCreate(&ev, 0)); err != nil {
		return err
	}
	e.list = append(e.list, ev)
	return e.d.check("event", e.d.fn.eventRecord(ev, e.d.stream))
}

// spinning is how long a wait asks without a pause: that of a token.
const spinning = 10 * time.Millisecond

// wait waits for the last event. When the context is done first it asks the
// kernels to stop and gives them a moment; the error is the context's then.
func (e *events) wait(ctx context.Context) error {
	d := e.d
	last := e.list[len(e.list)-1]
	start := time.Now()
	asked := time.Time{}
	for {
		code := invoke(d.fn.eventQuery, last)
		if code != notReady {
			if code == 0 {
				d.staged = 0
			}
			if err := d.ran(code); err != nil || asked.IsZero() {
				return err
			}
			return ctx.Err()
		}
		if asked.IsZero() && ctx.Err() != nil {
			asked = time.Now()
			d.setStop(1)
		}
		if !asked.IsZero() && time.Since(asked) > stopPatience {
			d.lost = errors.New("cuda: a kernel did not stop: the GPU is lost to this process")
			return errors.Join(ctx.Err(), d.lost)
		}
		if time.Since(start) < spinning {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// elapsed is the time from the first event to the last.
func (e *events) elapsed() (time.Duration, error) {
	var ms float32
	err := e.d.check("time", e.d.fn.eventElapsed(&ms, e.list[0], e.list[len(e.list)-1]))
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// times are those between each event and the next.
func (e *events) times() ([]time.Duration, error) {
	times := make([]time.Duration, len(e.list)-1)
	for k := range times {
		var ms float32
		if err := e.d.check("time", e.d.fn.eventElapsed(&ms, e.list[k], e.list[k+1])); err != nil {
			return nil, err
		}
		times[k] = time.Duration(float64(ms) * float64(time.Millisecond))
	}
	return times, nil
}

// destroy keeps the events for others.
func (e *events) destroy() { e.d.events = append(e.d.events, e.list...) }

// stopPatience is how long kernels get to see that they should stop.
const stopPatience = 5 * time.Second

// setStop sets the word that kernels with polls look at. 0 forgets which of them
// stopped.
func (d *Driver) setStop(x uint32) {
	if x == 0 {
		atomic.StoreUint32(&d.stop[1], 0)
	}
	atomic.StoreUint32(&d.stop[0], x)
}

// stopped is the id of the launch that was asked to stop and did first, 0 for
// none.
func (d *Driver) stopped() uint32 { return atomic.LoadUint32(&d.stop[1]) }

// Launch runs a kernel, waits, and gives the GPU's time for all repetitions. When
// the context is done first the kernel is asked to stop, which it sees if it was
// emitted with polls.
func (k *Kernel) Launch(ctx context.Context, l Launch) (time.Duration, error) {
	c, err := k.prepare(l)
	if err != nil {
		return 0, err
	}
	var took time.Duration
	err = k.d.do(func() error {
		k.d.setStop(0)
		ev := &events{d: k.d}
		defer ev.destroy()
		if err := ev.record(); err != nil {
			return err
		}
		for range max(1, l.Repeat) {
			if err := k.d.enqueue(c); err != nil {
				return err
			}
		}
		if err := ev.record(); err != nil {
			return err
		}
		if err := ev.wait(ctx); err != nil {
			return err
		}
		took, err = ev.elapsed()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("kernel %s: %w", k.src.Func.Name, err)
	}
	return took, nil
}
