package soft

import (
	"fmt"
	"math"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
	"minfer/metal/mtl/soft/san"
)

// CommandBuffer is an [mtl.CommandBuffer] of the device.
type CommandBuffer struct {
	device   *Device
	commands record.Commands
	work     []work
	held     []*Buffer // those of the work
	wanted   []wanted
	// inspect are the callbacks of Inspect.
	inspect []func(c *san.Checker, data func(mtl.Buffer) []byte)
}

// work is one recorded thing: exactly one field is set, or none for a barrier.
type work struct {
	dispatch *dispatch
	copy     *deviceCopy
}

func (w work) barrier() bool { return w.dispatch == nil && w.copy == nil }

// dispatch is a recorded launch. Its Bindings are a copy.
type dispatch struct {
	mtl.Dispatch
	pipeline *Pipeline
}

type deviceCopy struct {
	dst, src       *Buffer
	dstOff, srcOff int
	n              int
}

// wanted is an output of the whole command buffer.
type wanted struct {
	buffer *Buffer
	off, n int
	elem   mtl.Type
}

// NewCommandBuffer implements [mtl.Device]. The result is a *CommandBuffer.
func (d *Device) NewCommandBuffer(label string) (mtl.CommandBuffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return &CommandBuffer{device: d, commands: record.NewCommands(label)}, nil
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
	if err := checkGroups(&d); err != nil {
		return err
	}
	if err := cb.hold(buffers...); err != nil {
		return fmt.Errorf("metal: dispatch %q: %w", d.Label, err)
	}
	bindings := make([]mtl.Binding, len(d.Bindings))
	copy(bindings, d.Bindings)
	for i := range bindings {
		if bindings[i].Bytes != nil {
			bindings[i].Bytes = append([]byte(nil), bindings[i].Bytes...)
		}
	}
	d.Bindings = bindings
	d.ThreadgroupMemory = append([]int(nil), d.ThreadgroupMemory...)
	cb.work = append(cb.work, work{dispatch: &dispatch{d, p}})
	return nil
}

// maxGroups is the number of threadgroups that a launch may have: their linear
// indices are 32-bit numbers here, one of which is taken.
const maxGroups = math.MaxUint32 - 1

// checkGroups refuses launches of more than maxGroups threadgroups. The grid is
// known to be sound along each axis.
func checkGroups(d *mtl.Dispatch) error {
	total := uint64(1)
	for _, axis := range [][3]int{{d.Threads.X, d.ThreadsPerThreadgroup.X, d.Threadgroups.X}, {d.Threads.Y, d.ThreadsPerThreadgroup.Y, d.Threadgroups.Y}, {d.Threads.Z, d.ThreadsPerThreadgroup.Z, d.Threadgroups.Z}} {
		groups := uint64(axis[2])
		if groups == 0 {
			groups = uint64((axis[0] + axis[1] - 1) / axis[1])
		}
		// Both factors are below 2^32.
		if total *= groups; total > maxGroups {
			return &mtl.LaunchError{Kind: mtl.InvalidLaunch, Label: d.Label, Kernel: d.Pipeline.Kernel(),
				Reason: fmt.Sprintf("threadgroups %v, threads %v by %v: want at most %d threadgroups on this device", d.Threadgroups, d.Threads, d.ThreadsPerThreadgroup, uint64(maxGroups))}
		}
	}
	return nil
}

// Barrier implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Barrier() {
	if cb.commands.Recording() {
		cb.work = append(cb.work, work{})
	}
}

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
	if err := cb.hold(to, from); err != nil {
		return fmt.Errorf("metal: copy: %w", err)
	}
	cb.work = append(cb.work, work{copy: &deviceCopy{to, from, dstOff, srcOff, n}})
	return nil
}

// Output asks that the dispatches of the command buffer together write every
// element of n bytes of a buffer, where a binding's access mtl.Output asks it of
// one dispatch.
func (cb *CommandBuffer) Output(b mtl.Buffer, off, n int, elem mtl.Type) error {
	if err := cb.open(); err != nil {
		return err
	}
	own, err := cb.device.buffer(b)
	if err != nil {
		return err
	}
	if err := mtl.CheckWindow(b, off, n); err != nil {
		return err
	}
	if err := cb.hold(own); err != nil {
		return err
	}
	cb.wanted = append(cb.wanted, wanted{own, off, n, elem})
	return nil
}

// Inspect has f called at the end of a submit under a sanitizer, before what was
// found is handed out: f may add findings to the checker, and data gives the
// content of a buffer of the device. f runs once for each order of mode chaos,
// and not at all where the submit did not run to its end.
func (cb *CommandBuffer) Inspect(f func(c *san.Checker, data func(mtl.Buffer) []byte)) {
	if cb.commands.Recording() {
		cb.inspect = append(cb.inspect, f)
	}
}

// Discard implements [mtl.CommandBuffer].
func (cb *CommandBuffer) Discard() {
	if cb.commands.Discard() {
		cb.release()
	}
}

func (cb *CommandBuffer) open() error {
	if err := cb.commands.Open(); err != nil {
		return err
	}
	return cb.device.alive()
}

// hold keeps all of the buffers or none.
func (cb *CommandBuffer) hold(buffers ...*Buffer) error {
	memories := make([]*record.Memory, len(buffers))
	for i, b := range buffers {
		memories[i] = b.life
	}
	if err := cb.commands.Hold(memories...); err != nil {
		return err
	}
	cb.held = append(cb.held, buffers...)
	return nil
}

// release lets go of everything recorded.
func (cb *CommandBuffer) release() {
	cb.commands.Let()
	cb.held, cb.work, cb.wanted, cb.inspect = nil, nil, nil, nil
}
