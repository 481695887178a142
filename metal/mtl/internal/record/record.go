// Package record is what the devices' buffers and command buffers have in common:
// how long a buffer's memory lives and when the host may touch it ([Memory]), the
// state of a command buffer and the memory that its work holds ([Commands]), which
// buffers are a device's own ([Own], [Buffers]), and the errors of all of these.
// What is recorded and how it runs is each device's.
//
// A Memory is safe for concurrent use, a Commands is its command buffer's alone.
package record

import (
	"fmt"
	"sync"
	"sync/atomic"

	"minfer/metal/mtl"
)

// Memory is the life of a buffer's memory: it ends when the buffer was released
// and no work holds it.
type Memory struct {
	label string
	free  func()

	mu       sync.Mutex
	pending  int         // recorded or running pieces of work
	released atomic.Bool // changes under mu
}

// NewMemory is that of a buffer with the label. At its end free is called, once.
func NewMemory(label string, free func()) *Memory { return &Memory{label: label, free: free} }

// Host calls f, which reads or writes (the verb) a window of the buffer, unless
// the host may not: the buffer was released, its work is pending, the window
// leaves it.
func (m *Memory) Host(b mtl.Buffer, verb string, off, n int, f func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released.Load() {
		return fmt.Errorf("metal: %s of buffer %q: it was released", verb, m.label)
	}
	if m.pending > 0 {
		return fmt.Errorf("metal: %s of buffer %q: recorded or submitted work on it is pending: submit or discard it first", verb, m.label)
	}
	if err := mtl.CheckWindow(b, off, n); err != nil {
		return err
	}
	f()
	return nil
}

// Released says whether the buffer was released.
func (m *Memory) Released() bool { return m.released.Load() }

// Live calls f unless the buffer was released.
func (m *Memory) Live(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.released.Load() {
		f()
	}
}

// Release is the host's. The second one does nothing.
func (m *Memory) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.released.Swap(true) && m.pending == 0 {
		m.free()
	}
}

// Retain holds the memory for a piece of work, which ends with Done.
func (m *Memory) Retain() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released.Load() {
		return fmt.Errorf("metal: buffer %q was released", m.label)
	}
	m.pending++
	return nil
}

// Done ends a piece of work.
func (m *Memory) Done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending--; m.pending == 0 && m.released.Load() {
		m.free()
	}
}

// Commands is the state of a command buffer. It starts as one that is recorded.
type Commands struct {
	label string
	ended string    // what became of it, "" while it is recorded
	held  []*Memory // one entry for each Retain
}

// NewCommands is that of a command buffer with the label.
func NewCommands(label string) Commands { return Commands{label: label} }

// Label is the command buffer's.
func (c *Commands) Label() string { return c.label }

// Recording says whether the command buffer has not ended.
func (c *Commands) Recording() bool { return c.ended == "" }

// Open is an error where the command buffer has ended.
func (c *Commands) Open() error {
	if c.ended != "" {
		return fmt.Errorf("metal: command buffer %q was %s: want a new one", c.label, c.ended)
	}
	return nil
}

// Submit ends the recording. What is held stays so.
func (c *Commands) Submit() { c.ended = "submitted" }

// Discard ends the recording; false where it has ended before. What is held stays
// so.
func (c *Commands) Discard() bool {
	if c.ended != "" {
		return false
	}
	c.ended = "discarded"
	return true
}

// Hold retains all of the memories or none, to the call of Let or of what Take
// gives.
func (c *Commands) Hold(memories ...*Memory) error {
	for i, m := range memories {
		if err := m.Retain(); err != nil {
			done(memories[:i])
			return err
		}
	}
	c.held = append(c.held, memories...)
	return nil
}

// Let lets go of all that is held.
func (c *Commands) Let() { c.Take()() }

// Take gives all that is held into the caller's hands, who lets go of it by the
// call of let.
func (c *Commands) Take() (let func()) {
	held := c.held
	c.held = nil
	return func() { done(held) }
}

func done(memories []*Memory) {
	for _, m := range memories {
		m.Done()
	}
}

// Own is a buffer of the device that is called name, which says of its own type's
// whether they are its own.
func Own[B interface {
	comparable
	mtl.Buffer
}](b mtl.Buffer, name string, mine func(B) bool) (B, error) {
	var none B
	own, ok := b.(B)
	switch {
	case b == nil || ok && own == none:
		return none, fmt.Errorf("metal: no buffer: want one of %s", name)
	case !ok || !mine(own):
		return none, fmt.Errorf("metal: buffer %q: it belongs to another device than %s", b.Label(), name)
	}
	return own, nil
}

// Buffers are those that a dispatch binds, all of them known to own.
func Buffers[B any](d *mtl.Dispatch, own func(mtl.Buffer) (B, error)) ([]B, error) {
	var all []B
	for _, b := range d.Bindings {
		if b.Buffer == nil {
			continue
		}
		known, err := own(b.Buffer)
		if err != nil {
			return nil, fmt.Errorf("metal: dispatch %q, buffer index %d: %w", d.Label, b.Index, err)
		}
		all = append(all, known)
	}
	return all, nil
}

// Copied are the buffers of a copy, both known to own.
func Copied[B any](dst, src mtl.Buffer, own func(mtl.Buffer) (B, error)) (to, from B, err error) {
	if to, err = own(dst); err != nil {
		return to, from, fmt.Errorf("metal: copy: destination: %w", err)
	}
	if from, err = own(src); err != nil {
		return to, from, fmt.Errorf("metal: copy: source: %w", err)
	}
	return to, from, nil
}
