package cuda

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
)

// CommandBuffer is an [mtl.CommandBuffer] of the device. What is recorded runs in
// one stream, in order: a barrier is between any two dispatches, asked for or not.
type CommandBuffer struct {
	device    *Device
	label     string
	state     state
	work      []work
	buffers   []*Buffer   // one entry for each retain
	pipelines []*Pipeline // likewise
	inline    []byte      // all inline bytes, each at a multiple of inlineAlign
}

type state uint8

const (
	recording state = iota
	submitted
	discarded
)

var stateNames = [...]string{"being recorded", "submitted", "discarded"}

// inlineAlign is what the widest loads need.
const inlineAlign = 16

// work is a launch, or a copy where its kernel is nil.
type work struct {
	label  string
	kernel *Kernel
	launch Launch // a nil Args entry of a buffer lies in the inline bytes
	copy   deviceCopy
}

type deviceCopy struct {
	dst, src       *Buffer
	dstOff, srcOff int
	n              int
}

// inline is device memory for the inline bytes of a submit. A submit that holds
// the device's queue owns it.
type inline struct{ mem *Memory }

func (i *inline) free() error {
	if i.mem == nil {
		return nil
	}
	return i.mem.Free()
}

// write copies the bytes of a submit to the device.
func (i *inline) write(d *Driver, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if i.mem == nil || i.mem.Size() < len(data) {
		m, err := d.Alloc(max(64<<10, 2*len(data)))
		if err != nil {
			return err
		}
		if err := i.free(); err != nil {
			return errors.Join(err, m.Free())
		}
		i.mem = m
	}
	return i.mem.Write(0, data)
}

// NewCommandBuffer implements [mtl.Device]. The result is a *CommandBuffer.
func (d *Device) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return &CommandBuffer{device: d, label: label}, nil
}

// Dispatch implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Dispatch(d mtl.Dispatch) error {
	if err := cb.open(); err != nil {
		return err
	}
	p, err := cb.device.pipeline(d.Pipeline)
	if err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	for _, b := range d.Bindings {
		if b.Buffer == nil {
			continue
		}
		if _, err := cb.device.buffer(b.Buffer); err != nil {
			return fmt.Errorf("metal: dispatch %q, buffer index %d: %w", d.Label, b.Index, err)
		}
	}
	if err := mtl.CheckDispatch(cb.device.limits, &d); err != nil {
		return err
	}
	if err := checkDevice(p, &d); err != nil {
		return err
	}
	k, err := p.taking(&d)
	if err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	if err := p.retain(); err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	var buffers []*Buffer
	for _, b := range d.Bindings {
		if b.Buffer != nil {
			buffers = append(buffers, b.Buffer.(*Buffer))
		}
	}
	if err := cb.retain(buffers...); err != nil {
		p.done()
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	cb.pipelines = append(cb.pipelines, p)
	cb.work = append(cb.work, work{label: d.Label, kernel: k, launch: cb.launch(k, &d)})
	return nil
}

// launch is a checked dispatch in the terms of the driver.
func (cb *CommandBuffer) launch(kernel *Kernel, d *mtl.Dispatch) Launch {
	params := kernel.src.Func.Params
	l := Launch{
		Ragged: d.Threads != mtl.Size{}, Threadgroup: axes(d.ThreadsPerThreadgroup),
		Args: make([]*Memory, len(params)), Offsets: make([]int, len(params)), ThreadgroupBytes: make([]int, len(params)),
		Values: make([][]byte, len(params)),
	}
	l.Grid = axes(d.Threadgroups)
	if l.Ragged {
		l.Grid = axes(d.Threads)
	}
	for k, param := range params {
		if param.Kind == ir.ThreadgroupParam {
			l.ThreadgroupBytes[k] = d.ThreadgroupMemory[param.Index]
			continue
		}
		for _, b := range d.Bindings {
			switch {
			case b.Index != param.Index:
			case b.Buffer != nil:
				l.Args[k], l.Offsets[k] = b.Buffer.(*Buffer).mem, b.Offset
			case kernel.src.Inline[k] > 0:
				l.Values[k] = append([]byte(nil), b.Bytes...)
			default:
				for len(cb.inline)%inlineAlign != 0 {
					cb.inline = append(cb.inline, 0)
				}
				l.Offsets[k] = len(cb.inline)
				cb.inline = append(cb.inline, b.Bytes...)
			}
		}
	}
	return l
}

func axes(s mtl.Size) [3]int { return [3]int{s.X, s.Y, s.Z} }

// gridLimits are the threadgroups along each axis that the hardware counts.
var gridLimits = [3]int{1<<31 - 1, 65535, 65535}

// checkDevice refuses what the hardware cannot do and Metal may: more threadgroups
// along an axis than it counts, and vectors that are not aligned, on which its
// loads fail.
func checkDevice(p *Pipeline, d *mtl.Dispatch) error {
	refuse := func(argument, format string, a ...any) error {
		return &mtl.LaunchError{Kind: mtl.InvalidLaunch, Label: d.Label, Kernel: p.Kernel(), Argument: argument, Reason: fmt.Sprintf(format, a...)}
	}
	groups := axes(d.Threadgroups)
	if (d.Threads != mtl.Size{}) {
		for k, n := range axes(d.Threads) {
			per := axes(d.ThreadsPerThreadgroup)[k]
			groups[k] = (n + per - 1) / per
		}
	}
	for k, n := range groups {
		if n > gridLimits[k] {
			return refuse("", "%d threadgroups along axis %d: want at most %d on this device", n, k, gridLimits[k])
		}
	}
	for _, a := range p.args {
		if a.Threadgroup || !isVector(a) {
			continue
		}
		for _, b := range d.Bindings {
			if b.Index == a.Index && b.Buffer != nil && b.Offset%a.ElemSize != 0 {
				return refuse(a.Name, "offset %d at buffer index %d: want a multiple of the %d bytes of %s on this device", b.Offset, a.Index, a.ElemSize, a.Elem)
			}
		}
	}
	return nil
}

// isVector tells arguments of aligned vectors from those of scalars, packed
// vectors and structs.
func isVector(a mtl.Argument) bool {
	n := a.Scalar.Size()
	return n > 0 && (a.ElemSize == 2*n || a.ElemSize == 4*n) && len(a.Elem) > 0 && strings.ContainsRune("234", rune(a.Elem[len(a.Elem)-1])) && !strings.HasPrefix(a.Elem, "packed_")
}

// Barrier implements [mtl.CommandBuffer]. The stream's order is one.
func (cb *CommandBuffer) Barrier() {}

// Copy implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Copy(dst mtl.Buffer, dstOff int, src mtl.Buffer, srcOff, n int) error {
	if err := cb.open(); err != nil {
		return err
	}
	to, err := cb.device.buffer(dst)
	if err != nil {
		return fmt.Errorf("metal: copy: destination: %w", err)
	}
	from, err := cb.device.buffer(src)
	if err != nil {
		return fmt.Errorf("metal: copy: source: %w", err)
	}
	if err := mtl.CheckCopy(dst, dstOff, src, srcOff, n); err != nil {
		return err
	}
	if err := cb.retain(to, from); err != nil {
		return fmt.Errorf("metal: copy: %w", err)
	}
	cb.work = append(cb.work, work{copy: deviceCopy{to, from, dstOff, srcOff, n}})
	return nil
}

// Submit implements [mtl.CommandBuffer]. Work that has to stop at the deadline
// stops at the next look of a loop at the host's wish; where a kernel does not
// within some seconds, the device is lost to the process, and says so.
func (cb *CommandBuffer) Submit(ctx context.Context) (mtl.Timing, error) {
	fail := func(err error, last []string) (mtl.Timing, error) {
		return mtl.Timing{}, &mtl.SubmitError{Label: cb.label, Status: status(err), Last: last, Err: err}
	}
	if err := cb.open(); err != nil {
		return fail(err, nil)
	}
	cb.state = submitted
	defer cb.release()
	d := cb.device
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.o.Deadline)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return fail(err, nil)
	}
	select {
	case d.queue <- struct{}{}:
		defer func() { <-d.queue }()
	case <-ctx.Done():
		return fail(ctx.Err(), nil)
	}
	if len(cb.work) == 0 {
		return mtl.Timing{}, nil
	}
	timing, reached, err := cb.run(ctx)
	if err != nil {
		var ring mtl.Ring
		for _, w := range cb.work[:reached] {
			if w.kernel != nil {
				ring.Add(w.label)
			}
		}
		return fail(err, ring.Last())
	}
	return timing, nil
}

func status(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the deadline passed"
	case errors.Is(err, context.Canceled):
		return "it was cancelled"
	}
	return err.Error()
}

// run queues the work and waits. reached is the number of pieces that started, as
// far as one can tell.
func (cb *CommandBuffer) run(ctx context.Context) (timing mtl.Timing, reached int, err error) {
	d := cb.device.driver
	if err := cb.device.inline.write(d, cb.inline); err != nil {
		return timing, 0, err
	}
	reached = len(cb.work)
	calls := make([]*call, len(cb.work))
	for k := range cb.work {
		w := &cb.work[k]
		if w.kernel == nil {
			continue
		}
		for n, p := range w.kernel.src.Func.Params {
			if p.Kind == ir.BufferParam && w.launch.Args[n] == nil {
				w.launch.Args[n] = cb.device.inline.mem
			}
		}
		if calls[k], err = w.kernel.prepare(w.launch); err != nil {
			return timing, k + 1, err
		}
		calls[k].id = uint32(k + 1)
	}
	err = d.do(func() error {
		d.setStop(0)
		ev := &events{d: d}
		defer ev.destroy()
		if err := ev.record(); err != nil {
			return err
		}
		for k, c := range calls {
			if c == nil {
				w := cb.work[k].copy
				if err := d.check("copy", d.fn.copy(w.dst.mem.addr+uint64(w.dstOff), w.src.mem.addr+uint64(w.srcOff), uintptr(w.n), 0)); err != nil {
					reached = k + 1
					return errors.Join(err, cb.drain(ctx, ev))
				}
				continue
			}
			if err := d.enqueue(c); err != nil {
				reached = k + 1
				return errors.Join(err, cb.drain(ctx, ev))
			}
		}
		if err := ev.record(); err != nil {
			return err
		}
		if err := ev.wait(ctx); err != nil {
			if id := int(d.stopped()); id > 0 && id <= len(cb.work) {
				reached = id
			}
			return err
		}
		timing.GPU, err = ev.elapsed()
		return err
	})
	return timing, reached, err
}

// drain waits for what was queued before something could not be.
func (cb *CommandBuffer) drain(ctx context.Context, ev *events) error {
	if err := ev.record(); err != nil {
		return err
	}
	return ev.wait(ctx)
}

// Discard implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Discard() {
	if cb.state == recording {
		cb.state = discarded
		cb.release()
	}
}

func (cb *CommandBuffer) open() error {
	if cb.state != recording {
		return fmt.Errorf("metal: command buffer %q was %s: want a new one", cb.label, stateNames[cb.state])
	}
	return cb.device.alive()
}

// retain holds all of the buffers or none.
func (cb *CommandBuffer) retain(buffers ...*Buffer) error {
	for i, b := range buffers {
		if err := b.retain(); err != nil {
			for _, b := range buffers[:i] {
				b.done()
			}
			return err
		}
	}
	cb.buffers = append(cb.buffers, buffers...)
	return nil
}

// release lets go of everything recorded.
func (cb *CommandBuffer) release() {
	for _, b := range cb.buffers {
		b.done()
	}
	for _, p := range cb.pipelines {
		p.done()
	}
	cb.buffers, cb.pipelines, cb.work, cb.inline = nil, nil, nil, nil
}
