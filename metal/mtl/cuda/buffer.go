package cuda

import (
	"fmt"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
)

// Buffer is an [mtl.Buffer] in the GPU's memory. The host reads and writes it by
// copies; it is not mapped.
type Buffer struct {
	device *Device
	label  string
	size   int
	life   *record.Memory
	mem    *Memory // nil once released and idle
}

// newBuffer takes memory over.
func (d *Device) newBuffer(m *Memory, size int, label string) *Buffer {
	b := &Buffer{device: d, label: label, size: size, mem: m}
	b.life = record.NewMemory(label, func() {
		_ = m.Free() // a lost context has taken it back; what is released after Close stays with it
		b.mem = nil
	})
	return b
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
	var failed error
	if err := b.life.Host(b, verb, off, n, func() { failed = f(b.mem) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("metal: %s of buffer %q: %w", verb, b.label, failed)
	}
	return nil
}

// Mapped implements [mtl.Buffer]: the memory is not the host's.
func (b *Buffer) Mapped() []byte { return nil }

// Release implements [mtl.Buffer].
func (b *Buffer) Release() { b.life.Release() }

// buffer recognises the device's own.
func (d *Device) buffer(b mtl.Buffer) (*Buffer, error) {
	return record.Own(b, d.Name(), func(b *Buffer) bool { return b.device == d })
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
	return d.newBuffer(m, size, label), nil
}

// WrapNoCopy implements [mtl.Device]: the GPU's memory is its own, so it fails.
func (d *Device) WrapNoCopy(data []byte, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("metal: wrap of %q: %s has memory of its own: want a buffer and a copy of the %d bytes", label, d.Name(), len(data))
}
