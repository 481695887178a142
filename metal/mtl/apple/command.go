package apple

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
)

// CommandBuffer is an [mtl.CommandBuffer] of the device.
type CommandBuffer struct {
	device *Device
	state  record.Commands
	last   mtl.Ring
	// commands and encoder are made with the first launch, 0 until then; commands is
	// the CommandBuffer's own reference, and so is encoder.
	commands mtlCommandBuffer
	encoder  mtlComputeCommandEncoder
	barrier  bool // one is due before the next launch
	pipeline *Pipeline
}

// NewCommandBuffer implements [mtl.Device]. The result is a *CommandBuffer.
func (d *Device) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return &CommandBuffer{device: d, state: record.NewCommands(label)}, nil
}

func (cb *CommandBuffer) open() error {
	if err := cb.state.Open(); err != nil {
		return err
	}
	return cb.device.alive()
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
	buffers, err := record.Buffers(&d, cb.device.buffer)
	if err != nil {
		return err
	}
	if err := mtl.CheckDispatch(cb.device.limits, &d); err != nil {
		return err
	}
	return cb.encode(p, buffers, &d)
}

// Copy implements [mtl.CommandBuffer]. It is a launch of the device's own kernel,
// so that it is ordered as launches are, in the one encoder.
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
	p := cb.device.copier
	d := mtl.Dispatch{
		Label: fmt.Sprintf("copy %q to %q", src.Label(), dst.Label()), Pipeline: p,
		Bindings: []mtl.Binding{
			{Index: 0, Buffer: src, Offset: srcOff, Length: n},
			{Index: 1, Buffer: dst, Offset: dstOff, Length: n, Access: mtl.Output},
		},
		Threads: mtl.Size{X: n / 4, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: min(p.threads, 256), Y: 1, Z: 1},
	}
	if err := mtl.CheckDispatch(cb.device.limits, &d); err != nil {
		return fmt.Errorf("metal: copy: %w", err)
	}
	return cb.encode(p, []*Buffer{from, to}, &d)
}

// Barrier implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Barrier() {
	if cb.encoder != 0 {
		cb.barrier = true
	}
}

// encode records a launch that was checked, of buffers that are all the device's.
func (cb *CommandBuffer) encode(p *Pipeline, buffers []*Buffer, d *mtl.Dispatch) error {
	// Neither the pipeline nor a buffer may go between the check and the encoder,
	// which keeps them from then on.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return fmt.Errorf("metal: dispatch %q: the pipeline of kernel %s was released", d.Label, p.kernel)
	}
	// The device's part comes first: without it nothing is held.
	if err := cb.begin(); err != nil {
		return err
	}
	memories := make([]*record.Memory, len(buffers))
	for i, b := range buffers {
		memories[i] = b.life
	}
	if err := cb.state.Hold(memories...); err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	cb.last.Add(d.Label)
	cb.device.pooled(func() { cb.launch(p, d) })
	return nil
}

// launch sends a launch to the encoder. It runs in a pool.
func (cb *CommandBuffer) launch(p *Pipeline, d *mtl.Dispatch) {
	m, enc := &cb.device.msg, cb.encoder
	if cb.barrier {
		m.encodeBarrier.send(enc, mtlBarrierScopeBuffers)
		cb.barrier = false
	}
	if cb.device.capturing {
		m.encodePush.send(enc, cb.device.str(d.Label))
		defer m.encodePop.send(enc)
	}
	if cb.pipeline != p {
		m.encodePipeline.send(enc, p.state)
		cb.pipeline = p
	}
	for i := range d.Bindings {
		b := &d.Bindings[i]
		if b.Buffer == nil {
			m.encodeBytes.send(enc, unsafe.Pointer(unsafe.SliceData(b.Bytes)), uint(len(b.Bytes)), uint(b.Index))
			continue
		}
		m.encodeBuffer.send(enc, b.Buffer.(*Buffer).buf, uint(b.Offset), uint(b.Index))
	}
	for i, n := range d.ThreadgroupMemory {
		m.encodeMemory.send(enc, uint(n), uint(i))
	}
	if d.Threads == (mtl.Size{}) {
		m.encodeThreadgroups.send(enc, sizeOf(d.Threadgroups), sizeOf(d.ThreadsPerThreadgroup))
	} else {
		m.encodeThreads.send(enc, sizeOf(d.Threads), sizeOf(d.ThreadsPerThreadgroup))
	}
}

func sizeOf(s mtl.Size) mtlSize { return mtlSize{uint(s.X), uint(s.Y), uint(s.Z)} }

// begin makes Metal's command buffer and its encoder, once.
func (cb *CommandBuffer) begin() (err error) {
	if cb.encoder != 0 {
		return nil
	}
	d, m := cb.device, &cb.device.msg
	d.pooled(func() {
		commands := m.queueCommandBuffer.send(d.queue)
		if commands == 0 {
			err = fmt.Errorf("metal: command buffer %q: the queue gives none", cb.state.Label())
			return
		}
		m.commandsSetLabel.send(commands, d.str(cb.state.Label()))
		encoder := m.commandsEncoder.send(commands, mtlDispatchTypeConcurrent)
		if encoder == 0 {
			err = fmt.Errorf("metal: command buffer %q: it gives no encoder", cb.state.Label())
			return
		}
		// Both belong to the pool, which ends here.
		d.rt.retain(uintptr(commands))
		d.rt.retain(uintptr(encoder))
		cb.commands, cb.encoder = commands, encoder
	})
	return err
}

// endEncoding ends the encoder, which has to be before the command buffer goes on
// or goes away.
func (cb *CommandBuffer) endEncoding() {
	if cb.encoder == 0 {
		return
	}
	cb.device.pooled(func() {
		cb.device.msg.encodeEnd.send(cb.encoder)
		cb.device.rt.release(uintptr(cb.encoder))
	})
	cb.encoder, cb.pipeline = 0, nil
}

// Discard implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Discard() {
	if cb.state.Discard() {
		cb.drop()
	}
}

// drop lets go of everything of work that does not run.
func (cb *CommandBuffer) drop() {
	cb.endEncoding()
	if cb.commands != 0 {
		cb.device.release(uintptr(cb.commands))
		cb.commands = 0
	}
	cb.state.Let()
}

// Submit implements [mtl.CommandBuffer]. At the deadline it returns while the work
// may go on: its buffers stay pending until the GPU ends it, or macOS does.
func (cb *CommandBuffer) Submit(ctx context.Context) (mtl.Timing, error) {
	if err := cb.open(); err != nil {
		return mtl.Timing{}, err
	}
	cb.state.Submit()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, mtl.DefaultDeadline)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		cb.drop()
		return mtl.Timing{}, cb.failed("not run: "+err.Error(), err)
	}
	if cb.commands == 0 {
		return mtl.Timing{}, nil
	}
	cb.endEncoding()
	d, commands, let := cb.device, cb.commands, cb.state.Take()
	cb.commands = 0
	start := time.Now()
	ended := d.commit(commands)
	select {
	case <-ended:
	case <-ctx.Done():
		select {
		case <-ended: // at the same time
		default:
			go func() {
				<-ended
				d.finish(commands)
				let()
			}()
			return mtl.Timing{}, cb.failed(fmt.Sprintf("no end after %v: it may still run", time.Since(start).Round(time.Millisecond)), ctx.Err())
		}
	}
	timing, fault := d.finish(commands)
	let()
	if fault != "" {
		return timing, cb.failed(fault, nil)
	}
	return timing, nil
}

func (cb *CommandBuffer) failed(status string, cause error) error {
	return &mtl.SubmitError{Label: cb.state.Label(), Status: status, Last: cb.last.Last(), Err: cause}
}

// commit starts a command buffer. The channel is closed once it has ended, well or
// not: all that Metal's thread does here.
func (d *Device) commit(commands mtlCommandBuffer) <-chan struct{} {
	m := &d.msg
	ended := make(chan struct{})
	d.pooled(func() {
		handler := d.rt.handler(func() { close(ended) })
		defer d.rt.release(uintptr(handler))
		m.commandsOnEnd.send(commands, handler)
		m.commandsCommit.send(commands)
	})
	return ended
}

// finish reads how a command buffer ended, well where fault is empty, and releases
// it.
func (d *Device) finish(commands mtlCommandBuffer) (timing mtl.Timing, fault string) {
	m := &d.msg
	d.pooled(func() {
		defer d.rt.release(uintptr(commands))
		if status := m.commandsStatus.send(commands); status != mtlCommandBufferStatusCompleted {
			fault = fmt.Sprintf("status %d", status)
			if status == mtlCommandBufferStatusError {
				fault = d.reason(m.commandsError.send(commands))
			}
		}
		seconds := m.commandsGPUEnd.send(commands) - m.commandsGPUStart.send(commands)
		timing.GPU = time.Duration(seconds * float64(time.Second))
	})
	return timing, fault
}
