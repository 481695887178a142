package soft

import (
	"fmt"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"
)

// Buffer is an [mtl.Buffer] of the device.
type Buffer struct {
	device *Device
	label  string
	size   int
	life   *record.Memory
	mem    *mem.Buffer // nil once released and idle
}

func (d *Device) newBuffer(label string, m *mem.Buffer, size int) *Buffer {
	m.San = san.NewBuffer(label, size)
	b := &Buffer{device: d, label: label, size: size, mem: m}
	b.life = record.NewMemory(label, func() { b.mem = nil })
	return b
}

// Label implements [mtl.Buffer].
func (b *Buffer) Label() string { return b.label }

// Size implements [mtl.Buffer].
func (b *Buffer) Size() int { return b.size }

// Read implements [mtl.Buffer].
func (b *Buffer) Read(off int, dst []byte) error {
	return b.life.Host(b, "read", off, len(dst), func() { copy(dst, b.mem.Data[off:]) })
}

// Write implements [mtl.Buffer].
func (b *Buffer) Write(off int, src []byte) error {
	return b.life.Host(b, "write", off, len(src), func() {
		copy(b.mem.Data[off:], src)
		b.mem.San.Define(off, len(src))
	})
}

// Undefine makes n bytes as if nobody had written them: a checker reports who
// uses them.
func (b *Buffer) Undefine(off, n int) error {
	return b.life.Host(b, "write", off, n, func() {
		for i := range n {
			b.mem.Data[off+i] = 0xff
		}
		b.mem.San.Undefine(off, n)
	})
}

// Mapped implements [mtl.Buffer].
func (b *Buffer) Mapped() (data []byte) {
	b.life.Live(func() {
		b.mem.San.Define(0, b.size)
		data = b.mem.Data
	})
	return data
}

// Release implements [mtl.Buffer].
func (b *Buffer) Release() { b.life.Release() }

// buffer recognises the device's own, which is not released.
func (d *Device) buffer(b mtl.Buffer) (*Buffer, error) {
	own, err := record.Own(b, d.Name(), func(b *Buffer) bool { return b.device == d })
	if err != nil {
		return nil, err
	}
	if own.life.Released() {
		return nil, fmt.Errorf("metal: buffer %q was released", own.label)
	}
	return own, nil
}

// NewBuffer implements [mtl.Device]. Its bytes count as unwritten.
func (d *Device) NewBuffer(size int, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	if size < 1 || size > d.limits.MaxBufferLength {
		return nil, fmt.Errorf("metal: new buffer %q: %d bytes: want 1 to %d", label, size, d.limits.MaxBufferLength)
	}
	return d.newBuffer(label, mem.New(size, label), size), nil
}

// WrapNoCopy implements [mtl.Device]. All bytes count as written.
func (d *Device) WrapNoCopy(data []byte, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	if len(data) < 1 || len(data) > d.limits.MaxBufferLength {
		return nil, fmt.Errorf("metal: wrap of %q: %d bytes: want 1 to %d", label, len(data), d.limits.MaxBufferLength)
	}
	if past := addressOf(data) % uintptr(d.limits.PageSize); past != 0 {
		return nil, fmt.Errorf("metal: wrap of %q: its memory starts %d bytes past a page boundary: want a multiple of %d", label, past, d.limits.PageSize)
	}
	b := d.newBuffer(label, mem.Wrap(data, label), len(data))
	b.mem.San.Define(0, len(data))
	return b, nil
}
