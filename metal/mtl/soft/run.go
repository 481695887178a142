package soft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/interp"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"
)

// FindingsError is what made a submit fail that ran to its end: errors that the
// sanitizer found.
type FindingsError struct {
	Report *san.Report // with at least one error; notes too
}

// Findings gives the report.
func (e *FindingsError) Findings() *san.Report { return e.Report }

// Error is one line about the first error.
func (e *FindingsError) Error() string {
	n := e.Report.Errors()
	for _, f := range e.Report.Findings {
		if f.Severity != san.Error {
			continue
		}
		at := ""
		if len(f.Sides) > 0 {
			at = f.Sides[0].Location.String() + ": "
		}
		if n == 1 {
			return fmt.Sprintf("%s%s: %s", at, f.Kind, f.Message)
		}
		return fmt.Sprintf("%d errors, the first: %s%s: %s", n, at, f.Kind, f.Message)
	}
	return "no error"
}

// Submit implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Submit(ctx context.Context) (mtl.Timing, error) {
	fail := func(err error) (mtl.Timing, error) {
		return mtl.Timing{}, &mtl.SubmitError{Label: cb.commands.Label(), Status: status(err), Err: err}
	}
	if err := cb.open(); err != nil {
		return fail(err)
	}
	cb.commands.Submit()
	defer cb.release()
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cb.device.o.Deadline)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	select {
	case cb.device.queue <- struct{}{}:
		defer func() { <-cb.device.queue }()
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	var ring mtl.Ring
	report, err := cb.run(ctx, &ring)
	if report != nil && len(report.Findings) > 0 && cb.device.o.Report != nil {
		cb.device.o.Report(cb.commands.Label(), report)
	}
	if err == nil && report != nil && report.Errors() > 0 {
		err = &FindingsError{report}
	}
	if err != nil {
		return mtl.Timing{}, &mtl.SubmitError{Label: cb.commands.Label(), Status: status(err), Last: ring.Last(), Err: err}
	}
	return mtl.Timing{}, nil
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

// run executes what was recorded, under mode chaos several times.
func (cb *CommandBuffer) run(ctx context.Context, ring *mtl.Ring) (*san.Report, error) {
	o := cb.device.o
	if o.Mode == san.Chaos {
		return cb.chaos(ctx, ring)
	}
	e := cb.execution(schedule{}, ring)
	e.counters = o.Counters
	err := e.all(ctx)
	return e.check.Report(), err
}

// schedule is a legal order of what is not ordered.
type schedule struct {
	seed    uint64 // random where not 0
	reverse bool   // descending, the dispatches between two barriers too
}

// execution is one run of a command buffer.
type execution struct {
	cb       *CommandBuffer
	schedule schedule
	ring     *mtl.Ring
	check    *san.Checker
	counters func(*mtl.Dispatch, interp.Counters)
	index    map[*dispatch]int // of the sanitizer
	stop     atomic.Bool       // the context is done
}

func (cb *CommandBuffer) execution(s schedule, ring *mtl.Ring) *execution {
	e := &execution{cb: cb, schedule: s, ring: ring}
	if cb.device.o.Mode != san.Off {
		e.index = map[*dispatch]int{}
		for _, w := range cb.work {
			if w.dispatch != nil {
				e.index[w.dispatch] = len(e.index)
			}
		}
	}
	e.check = san.New(cb.device.o.Mode, san.Options{Source: cb.sourceLine})
	for _, w := range cb.wanted {
		e.check.Output(w.buffer.mem.San, w.off, w.n, max(1, w.elem.Size()), w.elem.String())
	}
	return e
}

// sourceLine gives the text of a line of one of the pipelines' sources.
func (cb *CommandBuffer) sourceLine(file string, line int) string {
	for _, w := range cb.work {
		if w.dispatch == nil {
			continue
		}
		if text := w.dispatch.pipeline.source(file, line); text != "" {
			return text
		}
	}
	return ""
}

// all runs the intervals between barriers one after another.
func (e *execution) all(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { e.stop.Store(true) })()
	first := 0
	for i := 0; i <= len(e.cb.work); i++ {
		if i < len(e.cb.work) && !e.cb.work[i].barrier() {
			continue
		}
		if err := e.interval(ctx, e.cb.work[first:i]); err != nil {
			return err
		}
		first = i + 1
	}
	e.check.Finish()
	for _, f := range e.cb.inspect {
		f(e.check, func(b mtl.Buffer) []byte { return b.(*Buffer).mem.Data })
	}
	return nil
}

// interval runs what no barrier orders.
func (e *execution) interval(ctx context.Context, all []work) error {
	if e.schedule.reverse {
		reversed := make([]work, 0, len(all))
		for i := len(all) - 1; i >= 0; i-- {
			reversed = append(reversed, all[i])
		}
		all = reversed
	}
	if e.check.Mode() == san.Off {
		return e.unchecked(ctx, all)
	}
	launches := make([]*launch, len(all))
	var announced []*san.Dispatch
	for i, w := range all {
		if w.dispatch != nil {
			launches[i] = e.prepare(w.dispatch)
		} else {
			launches[i] = e.prepareCopy(w.copy)
		}
		announced = append(announced, launches[i].watched)
	}
	if len(announced) > 0 {
		e.check.BeginInterval(announced)
	}
	for i, w := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.copy != nil {
			e.copy(w.copy, launches[i])
			continue
		}
		if err := e.dispatch(ctx, w.dispatch, launches[i]); err != nil {
			return err
		}
	}
	return nil
}

// unchecked is interval without a sanitizer.
func (e *execution) unchecked(ctx context.Context, all []work) error {
	for _, w := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.copy != nil {
			e.copy(w.copy, nil)
			continue
		}
		if err := e.dispatch(ctx, w.dispatch, e.prepare(w.dispatch)); err != nil {
			return err
		}
	}
	return nil
}

// launch is a dispatch as interpreter and sanitizer see it.
type launch struct {
	interp.Launch
	watched *san.Dispatch
}

func (e *execution) prepare(d *dispatch) *launch {
	f := d.pipeline.program.Func()
	l := &launch{Launch: interp.Launch{
		Ragged:           d.Threadgroups == mtl.Size{},
		Threadgroup:      [3]int{d.ThreadsPerThreadgroup.X, d.ThreadsPerThreadgroup.Y, d.ThreadsPerThreadgroup.Z},
		Windows:          make([]mem.Window, len(f.Params)),
		ThreadgroupBytes: make([]int, len(f.Params)),
		Seed:             e.schedule.seed,
		Reverse:          e.schedule.reverse,
		Threads:          e.cb.device.o.Threads,
		Stop:             &e.stop,
	}}
	if e.check.Mode() == san.Chaos {
		// What a race leaves in memory must depend on the schedule alone.
		l.Threads = 1
	}
	l.Grid = [3]int{d.Threadgroups.X, d.Threadgroups.Y, d.Threadgroups.Z}
	if l.Ragged {
		l.Grid = [3]int{d.Threads.X, d.Threads.Y, d.Threads.Z}
	}
	bound := func(index int) *mtl.Binding {
		return &d.Bindings[slices.IndexFunc(d.Bindings, func(b mtl.Binding) bool { return b.Index == index })]
	}
	for i, p := range f.Params {
		if p.Kind == ir.ThreadgroupParam {
			l.ThreadgroupBytes[i] = d.ThreadgroupMemory[p.Index]
			continue
		}
		b := bound(p.Index)
		if b.Buffer == nil {
			// Inline bytes get a fresh allocation: misaligned constants would be the
			// host's fault and nobody's finding.
			data := mem.Aligned(len(b.Bytes))
			copy(data, b.Bytes)
			l.Windows[i] = mem.Window{Buffer: mem.Wrap(data, p.Name), Length: len(data), ReadOnly: true, Name: b.Name}
			continue
		}
		l.Windows[i] = mem.Window{Buffer: b.Buffer.(*Buffer).mem, Offset: b.Offset, Length: b.Length, ReadOnly: p.ReadOnly || b.Access == mtl.Read, Name: b.Name}
	}
	if e.check.Mode() != san.Off {
		l.watched = e.watched(d, l, bound)
	}
	return l
}

// watched is the launch as the sanitizer sees it.
func (e *execution) watched(d *dispatch, l *launch, bound func(index int) *mtl.Binding) *san.Dispatch {
	f := d.pipeline.program.Func()
	w := &san.Dispatch{Index: e.index[d], Label: d.Label, Kernel: f, ThreadgroupBytes: d.ThreadgroupMemory, Threads: l.Threadgroup, Threadgroups: l.Grid}
	if l.Ragged {
		for i, n := range l.Grid {
			w.Threadgroups[i] = (n + l.Threadgroup[i] - 1) / l.Threadgroup[i]
		}
	}
	for i, p := range f.Params {
		if p.Kind == ir.ThreadgroupParam {
			continue
		}
		window := &l.Windows[i]
		b := bound(p.Index)
		if b.Buffer == nil {
			w.Bindings = append(w.Bindings, san.Binding{Param: i, Length: window.Length})
			continue
		}
		w.Bindings = append(w.Bindings, san.Binding{Param: i, Buffer: window.Buffer.San, Offset: b.Offset, Length: b.Length, Output: b.Access == mtl.Output, Name: b.Name})
	}
	return w
}

// memory is the content of one of the bound buffers.
func (l *launch) memory(b *san.Buffer) []byte {
	for _, w := range l.Windows {
		if w.Buffer != nil && w.Buffer.San == b {
			return w.Buffer.Data
		}
	}
	return nil
}

// dispatch runs one launch. A panic of the interpreter is an error of the submit.
func (e *execution) dispatch(ctx context.Context, d *dispatch, l *launch) (err error) {
	e.ring.Add(d.Label)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kernel %s: the interpreter failed: %v", d.pipeline.kernel, r)
		}
	}()
	if e.check.Mode() != san.Off {
		l.San = e.check.Begin(l.watched, l.Threads)
		l.San.Memory = l.memory
	}
	counters, err := d.pipeline.program.Run(ctx, &l.Launch)
	if err != nil {
		if l.San != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if l.San != nil {
		l.San.End()
	}
	if e.counters != nil {
		e.counters(&d.Dispatch, counters)
	}
	return nil
}

// copyFunc is what a copy is to the sanitizer: a kernel that reads its second
// argument and writes its first. It never runs.
var copyFunc = sync.OnceValue(func() *ir.Func {
	b := ir.NewBuilder("copy")
	arg := func(name string, index int, readOnly bool) ir.Value {
		i := b.Param(ir.Param{Name: name, Index: index, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32, ReadOnly: readOnly})
		return b.Op(ir.PtrParam, ir.Ptr, uint64(i))
	}
	dst, src := arg("dst", 0, false), arg("src", 1, true)
	word := ir.Mem{Elem: ir.I32, Count: 1, Align: 4, Space: ir.Device}
	b.Store(dst, word, b.Load(src, word)...)
	b.Op(ir.Return, ir.Void, 0)
	return b.Func()
})

func (e *execution) prepareCopy(c *deviceCopy) *launch {
	return &launch{watched: &san.Dispatch{
		Index: -1, Label: "copy", Kernel: copyFunc(), Threadgroups: [3]int{1, 1, 1}, Threads: [3]int{san.Lanes, 1, 1},
		Bindings: []san.Binding{
			{Param: 0, Buffer: c.dst.mem.San, Offset: c.dstOff, Length: c.n},
			{Param: 1, Buffer: c.src.mem.San, Offset: c.srcOff, Length: c.n},
		},
	}}
}

// copy moves the bytes, and their state: undefined ones may be copied.
func (e *execution) copy(c *deviceCopy, l *launch) {
	copy(c.dst.mem.Data[c.dstOff:c.dstOff+c.n], c.src.mem.Data[c.srcOff:c.srcOff+c.n])
	if e.check.Mode() == san.Off {
		return
	}
	run := e.check.Begin(l.watched, 1)
	w := run.Worker(0)
	w.BeginGroup(0, san.Lanes, 1)
	for at := 0; at < c.n; at += 4 * san.Lanes {
		words := min(san.Lanes, (c.n-at)/4)
		mask := uint32(1<<words - 1)
		for i, kind := range []san.Kind{san.Write, san.Read} {
			obj := run.Params[i]
			a := &san.Access{Kind: kind, Obj: obj, Mask: mask, Base: int64(at), Stride: 4, ElemSize: 4, Count: 1}
			if obj.Track {
				w.Access(0, a)
			}
			if kind == san.Write && obj.Mark {
				w.StorePoison(0, a, nil)
			}
		}
	}
	w.EndGroup()
	run.End()
	c.dst.mem.San.Copy(c.dstOff, c.src.mem.San, c.srcOff, c.n)
}
