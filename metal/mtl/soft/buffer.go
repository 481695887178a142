package soft

import (
	"fmt"
	"sync"

	"minfer/metal/mtl"
	"minfer/metal/mtl/soft/mem"
	"minfer/metal/mtl/soft/san"
)

// Buffer is an [mtl.Buffer] of the device.
type Buffer struct {
	device *Device
	label  string
	size   int

	mu       sync.Mutex
	mem      *mem.Buffer // nil once released and idle
	pending  int         // recorded or running pieces of work
	released bool
}

// Label implements [mtl.Buffer].
func (b *Buffer) Label() string { return b.label }

// Size implements [mtl.Buffer].
func (b *Buffer) Size() int { return b.size }

// Read implements [mtl.Buffer].
func (b *Buffer) Read(off int, dst []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.hostAccess("read", off, len(dst)); err != nil {
		return err
	}
	copy(dst, b.mem.Data[off:])
	return nil
}

// Write implements [mtl.Buffer].
func (b *Buffer) Write(off int, src []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.hostAccess("write", off, len(src)); err != nil {
		return err
	}
	copy(b.mem.Data[off:], src)
	b.mem.San.Define(off, len(src))
	return nil
}

// Undefine makes n bytes as if nobody had written them: a checker reports who
// uses them.
func (b *Buffer) Undefine(off, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.hostAccess("write", off, n); err != nil {
		return err
	}
	for i := range n {
		b.mem.Data[off+i] = 0xff
	}
	b.mem.San.Undefine(off, n)
	return nil
}

func (b *Buffer) hostAccess(verb string, off, n int) error {
	if b.released {
		return fmt.Errorf("metal: %s of buffer %q: it was released", verb, b.label)
	}
	if b.pending > 0 {
		return fmt.Errorf("metal: %s of buffer %q: recorded or submitted work on it is pending: submit or discard it first", verb, b.label)
	}
	return mtl.CheckWindow(b, off, n)
}

// Mapped implements [mtl.Buffer].
func (b *Buffer) Mapped() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return nil
	}
	b.mem.San.Define(0, b.size)
	return b.mem.Data
}

// Release implements [mtl.Buffer].
func (b *Buffer) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = true
	if b.pending == 0 {
		b.mem = nil
	}
}

// retain keeps the memory for a piece of work.
func (b *Buffer) retain() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
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
	if b.released && b.pending == 0 {
		b.mem = nil
	}
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
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.released {
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
	m := mem.New(size, label)
	m.San = san.NewBuffer(label, size)
	return &Buffer{device: d, label: label, size: size, mem: m}, nil
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
	m := mem.Wrap(data, label)
	m.San = san.NewBuffer(label, len(data))
	m.San.Define(0, len(data))
	return &Buffer{device: d, label: label, size: len(data), mem: m}, nil
}
