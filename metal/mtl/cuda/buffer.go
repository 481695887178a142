package cuda

import (
	"fmt"
	"sync"
	"sync/atomic"

	"minfer/metal/mtl"
)

// Buffer is an [mtl.Buffer] in the GPU's memory. The host reads and writes it by
// copies; it is not mapped.
type Buffer struct {
	device *Device
	label  string
	size   int

	mu       sync.Mutex
	mem      *Memory // nil once released and idle
	pending  int     // recorded or running pieces of work
	released atomic.Bool
}

// Label implements [mtl.Buffer].
func (b *Buffer) Label() string { return b.label }

// Size implements [mtl.Buffer].
func (b *Buffer) Size() int { return b.size }

// Read implements [mtl.Buffer].
func (b *Buffer) Read(off int, dst []byte) error {
	return b.host("read", off, len(dst), func(m *Memory) error { return m.Read(off, dst) })
}

// Write implements [mtl.Buffer].
func (b *Buffer) Write(off int, src []byte) error {
	return b.host("write", off, len(src), func(m *Memory) error { return m.Write(off, src) })
}

func (b *Buffer) host(verb string, off, n int, f func(*Memory) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released.Load() {
		return fmt.Errorf("metal: %s of buffer %q: it was released", verb, b.label)
	}
	if b.pending > 0 {
		return fmt.Errorf("metal: %s of buffer %q: recorded or submitted work on it is pending: submit or discard it first", verb, b.label)
	}
	if err := mtl.CheckWindow(b, off, n); err != nil {
		return err
	}
	if err := f(b.mem); err != nil {
		return fmt.Errorf("metal: %s of buffer %q: %w", verb, b.label, err)
	}
	return nil
}

// Mapped implements [mtl.Buffer]: the memory is not the host's.
func (b *Buffer) Mapped() []byte { return nil }

// Release implements [mtl.Buffer].
func (b *Buffer) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released.Store(true)
	b.free()
}

// free gives the memory back once nobody can use it. A driver that is lost or
// closed has taken it back already. The caller holds mu.
func (b *Buffer) free() {
	if b.released.Load() && b.pending == 0 && b.mem != nil {
		_ = b.mem.Free()
		b.mem = nil
	}
}

// retain keeps the memory for a piece of work.
func (b *Buffer) retain() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released.Load() {
		return fmt.Errorf("metal: buffer %q was released", b.label)
	}
	b.pending++
	return nil
}

// done ends a piece of work.
func (b *Buffer) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending--
	b.free()
}

// buffer recognises the device's own.
func (d *Device) buffer(b mtl.Buffer) (*Buffer, error) {
	own, ok := b.(*Buffer)
	switch {
	case b == nil || ok && own == nil:
		return nil, fmt.Errorf("metal: no buffer: want one of %s", d.Name())
	case !ok || own.device != d:
		return nil, fmt.Errorf("metal: buffer %q: it belongs to another device than %s", b.Label(), d.Name())
	}
	return own, nil
}

// NewBuffer implements [mtl.Device].
func (d *Device) NewBuffer(size int, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	if size < 1 || size > d.limits.MaxBufferLength {
		return nil, fmt.Errorf("metal: new buffer %q: %d bytes: want 1 to %d", label, size, d.limits.MaxBufferLength)
	}
	m, err := d.driver.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("metal: new buffer %q: %w", label, err)
	}
	return &Buffer{device: d, label: label, size: size, mem: m}, nil
}

// WrapNoCopy implements [mtl.Device]: the GPU's memory is its own, so it fails.
func (d *Device) WrapNoCopy(data []byte, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("metal: wrap of %q: %s has memory of its own: want a buffer and a copy of the %d bytes", label, d.Name(), len(data))
}
