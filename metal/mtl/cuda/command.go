package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
)

// CommandBuffer is an [mtl.CommandBuffer] of the device. What is recorded runs in
// one stream, in order: a barrier is between any two dispatches, asked for or not.
type CommandBuffer struct {
	device    *Device
	state     record.Commands
	work      []work
	pipelines []*Pipeline // one entry for each retain
	inline    []byte      // all inline bytes, each at a multiple of inlineAlign
	// following are the sequences that begin with what was recorded so far, taken
	// pieces; while there are any, work is empty.
	following []*sequence
	taken     int
}

// inlineAlign is what the widest loads need.
const inlineAlign = 16

// work is a launch, or a copy where its kernel is nil. It doesn't change once it is
// recorded.
type work struct {
	kernel    *Kernel
	launch    Launch // a nil Args entry of a buffer lies in the inline bytes
	copy      deviceCopy
	key       key
	inlineEnd int // of the inline bytes up to this piece
}

func (w *work) label() string { return w.key.dispatch.Label }

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
	cb := &CommandBuffer{device: d, state: record.NewCommands(label)}
	if !d.o.NoReplay && d.o.Dispatched == nil {
		cb.following = d.driver.sequences.all()
	}
	return cb, nil
}

// Dispatch implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Dispatch(d mtl.Dispatch) error {
	if err := cb.open(); err != nil {
		return err
	}
	if cb.follow(&d) {
		return nil
	}
	p, err := cb.device.pipeline(d.Pipeline)
	if err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	buffers, err := record.Buffers(&d, cb.device.buffer)
	if err != nil {
		return err
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
	memories := make([]*record.Memory, len(buffers))
	for i, b := range buffers {
		memories[i] = b.life
	}
	if err := cb.hold(p, memories); err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	launch := cb.launch(k, &d)
	cb.work = append(cb.work, work{kernel: k, launch: launch, key: key{dispatch: keyOf(&d)}, inlineEnd: len(cb.inline)})
	return nil
}

// hold retains a pipeline, nil for none, and memories, or nothing.
func (cb *CommandBuffer) hold(p *Pipeline, memories []*record.Memory) error {
	if p != nil {
		if err := p.retain(); err != nil {
			return err
		}
	}
	if err := cb.state.Hold(memories...); err != nil {
		if p != nil {
			p.done()
		}
		return err
	}
	if p != nil {
		cb.pipelines = append(cb.pipelines, p)
	}
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
				if b.Rows > 0 && b.Ahead > 0 {
					l.Ahead = Ahead{Param: k, Bytes: b.Length, Rows: b.Rows, Each: b.Ahead}
				}
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
	to, from, err := record.Copied(dst, src, cb.device.buffer)
	if err != nil {
		return err
	}
	if err := mtl.CheckCopy(dst, dstOff, src, srcOff, n); err != nil {
		return err
	}
	if len(cb.following) > 0 {
		cb.leave(cb.following[0])
		cb.following = nil
	}
	if err := cb.state.Hold(to.life, from.life); err != nil {
		return fmt.Errorf("metal: copy: %w", err)
	}
	cb.work = append(cb.work, work{copy: deviceCopy{to, from, dstOff, srcOff, n}, inlineEnd: len(cb.inline)})
	return nil
}

// Submit implements [mtl.CommandBuffer]. Work that has to stop at the deadline
// stops at the next look of a loop at the host's wish; where a kernel does not
// within some seconds, the device is lost to the process, and says so.
func (cb *CommandBuffer) Submit(ctx context.Context) (mtl.Timing, error) {
	fail := func(err error, last []string) (mtl.Timing, error) {
		return mtl.Timing{}, &mtl.SubmitError{Label: cb.state.Label(), Status: status(err), Last: last, Err: err}
	}
	if err := cb.open(); err != nil {
		return fail(err, nil)
	}
	cb.state.Submit()
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
	if err := d.alive(); err != nil { // closed meanwhile
		return fail(err, nil)
	}
	repeated := cb.unfollow()
	work := cb.work
	if repeated != nil {
		work = repeated.work
	}
	if len(work) == 0 {
		return mtl.Timing{}, nil
	}
	timing, reached, err := cb.run(ctx, repeated)
	if err != nil {
		if repeated != nil && !d.driver.sequences.has(repeated) {
			_ = repeated.close() // nobody would later; what fails here has gone already
		}
		var ring mtl.Ring
		for _, w := range work[:reached] {
			if w.kernel != nil {
				ring.Add(w.label())
			}
		}
		return fail(err, ring.Last())
	}
	cb.keep(repeated)
	return timing, nil
}

// keep has later command buffers find what this one did. The caller holds the queue.
func (cb *CommandBuffer) keep(s *sequence) {
	if s == nil {
		if len(cb.work) < shortest || cb.copies() {
			return
		}
		s = cb.sequenceOf()
	}
	if dropped := cb.device.driver.sequences.use(s); dropped != nil {
		_ = dropped.close() // what fails here has gone already
	}
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

// run queues the work, or the graph of a sequence that it repeats, and waits.
// reached is the number of pieces that started, as far as one can tell.
func (cb *CommandBuffer) run(ctx context.Context, repeated *sequence) (timing mtl.Timing, reached int, err error) {
	d := cb.device.driver
	work := cb.work
	var calls []*call
	if repeated == nil {
		if err := cb.device.inline.write(d, cb.inline); err != nil {
			return timing, 0, err
		}
		if calls, reached, err = prepareAll(work, cb.device.inline.mem); err != nil {
			return timing, reached, err
		}
	} else {
		work = repeated.work
		if reached, err = repeated.ready(d); err != nil {
			return timing, reached, err
		}
	}
	reached = len(work)
	var times []time.Duration
	err = d.do(func() error {
		d.setStop(0)
		ev := &events{d: d}
		defer ev.destroy()
		if err := ev.record(); err != nil {
			return err
		}
		if repeated != nil {
			if err := repeated.graph.launch(); err != nil {
				return err
			}
		}
		for k, c := range calls {
			var err error
			if c == nil {
				w := work[k].copy
				err = d.check("copy", d.fn.copy(w.dst.mem.addr+uint64(w.dstOff), w.src.mem.addr+uint64(w.srcOff), uintptr(w.n), d.stream))
			} else {
				err = d.enqueue(c)
			}
			if err == nil && cb.device.o.Dispatched != nil {
				err = ev.record()
			}
			if err != nil {
				reached = k + 1
				return errors.Join(err, cb.drain(ctx, ev))
			}
		}
		if err := ev.record(); err != nil {
			return err
		}
		if err := ev.wait(ctx); err != nil {
			if id := int(d.stopped()); id > 0 && id <= len(work) {
				reached = id
			}
			return err
		}
		timing.GPU, err = ev.elapsed()
		if err == nil && cb.device.o.Dispatched != nil {
			times, err = ev.times()
		}
		return err
	})
	for k := range times {
		if k < len(work) {
			cb.device.o.Dispatched(work[k].label(), times[k])
		}
	}
	return timing, reached, err
}

// prepareAll makes calls of work, nil for a copy; inline bytes lie in mem. After an
// error reached is the number of the piece that it is of.
func prepareAll(work []work, mem *Memory) (calls []*call, reached int, err error) {
	calls = make([]*call, len(work))
	for k := range work {
		w := &work[k]
		if w.kernel == nil {
			continue
		}
		l := w.launch
		l.Args = slices.Clone(l.Args)
		for n, p := range w.kernel.src.Func.Params {
			if p.Kind == ir.BufferParam && l.Args[n] == nil {
				l.Args[n] = mem
			}
		}
		if calls[k], err = w.kernel.prepare(l); err != nil {
			return nil, k + 1, err
		}
		calls[k].id = uint32(k + 1)
	}
	return calls, 0, nil
}

// ready makes the graph of a sequence, if there is none.
func (s *sequence) ready(d *Driver) (reached int, err error) {
	if s.graph.d != nil {
		return 0, nil
	}
	if s.memory == nil && len(s.inline) > 0 {
		m, err := d.Alloc(len(s.inline))
		if err != nil {
			return 0, err
		}
		if err := m.Write(0, s.inline); err != nil {
			return 0, errors.Join(err, m.Free())
		}
		s.memory = m
	}
	calls, reached, err := prepareAll(s.work, s.memory)
	if err != nil {
		return reached, err
	}
	s.graph, err = d.newGraph(calls)
	return 0, err
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
	if cb.state.Discard() {
		cb.release()
	}
}

func (cb *CommandBuffer) open() error {
	if err := cb.state.Open(); err != nil {
		return err
	}
	return cb.device.alive()
}

// release lets go of everything recorded.
func (cb *CommandBuffer) release() {
	cb.state.Let()
	for _, p := range cb.pipelines {
		p.done()
	}
	cb.pipelines, cb.work, cb.inline, cb.following = nil, nil, nil, nil
}
