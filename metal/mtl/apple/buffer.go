package apple

import (
	"fmt"
	"sync"
	"unsafe"

	"minfer/metal/mtl"
)

// Buffer is an [mtl.Buffer] of the device, in memory that host and GPU share.
type Buffer struct {
	device *Device
	label  string
	data   []byte // the buffer's memory, without what WrapNoCopy rounded up
	// wrapped keeps the memory of WrapNoCopy, where it is Go's.
	wrapped []byte

	mu       sync.Mutex
	buf      mtlBuffer // the Buffer's own reference
	pending  int       // recorded or running pieces of work
	released bool
}

// NewBuffer implements [mtl.Device].
func (d *Device) NewBuffer(size int, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	if size < 1 || size > d.limits.MaxBufferLength {
		return nil, fmt.Errorf("metal: new buffer %q: %d bytes: want 1 to %d", label, size, d.limits.MaxBufferLength)
	}
	var buf mtlBuffer
	d.pooled(func() { buf = d.msg.deviceNewBuffer.send(d.dev, uint(size), mtlResourceStorageModeShared) })
	if buf == 0 {
		return nil, fmt.Errorf("metal: new buffer %q: %s has no memory for %d bytes", label, d.name, size)
	}
	return d.newBuffer(buf, size, label)
}

// WrapNoCopy implements [mtl.Device].
func (d *Device) WrapNoCopy(data []byte, label string) (mtl.Buffer, error) {
	if err := d.alive(); err != nil {
		return nil, err
	}
	page := d.limits.PageSize
	size := (len(data) + page - 1) / page * page
	if len(data) < 1 || size > d.limits.MaxBufferLength {
		return nil, fmt.Errorf("metal: wrap of %q: %d bytes: want 1 to %d", label, len(data), d.limits.MaxBufferLength/page*page)
	}
	start := unsafe.Pointer(unsafe.SliceData(data))
	if past := uintptr(start) % uintptr(page); past != 0 {
		return nil, fmt.Errorf("metal: wrap of %q: its memory starts %d bytes past a page boundary: want a multiple of %d", label, past, page)
	}
	var buf mtlBuffer
	d.pooled(func() { buf = d.msg.deviceWrap.send(d.dev, start, uint(size), mtlResourceStorageModeShared, 0) })
	if buf == 0 {
		return nil, fmt.Errorf("metal: wrap of %q: %s does not take its %d bytes", label, d.name, size)
	}
	b, err := d.newBuffer(buf, len(data), label)
	if err != nil {
		return nil, err
	}
	b.wrapped = data
	return b, nil
}

// newBuffer takes over a buffer.
func (d *Device) newBuffer(buf mtlBuffer, size int, label string) (*Buffer, error) {
	var contents unsafe.Pointer
	d.pooled(func() {
		if contents = d.msg.bufferContents.send(buf); contents != nil {
			d.msg.bufferSetLabel.send(buf, d.str(label))
		}
	})
	if contents == nil {
		d.release(uintptr(buf))
		return nil, fmt.Errorf("metal: buffer %q: the host cannot address it", label)
	}
	return &Buffer{device: d, label: label, buf: buf, data: unsafe.Slice((*byte)(contents), size)}, nil
}

// Label implements [mtl.Buffer].
func (b *Buffer) Label() string { return b.label }

// Size implements [mtl.Buffer].
func (b *Buffer) Size() int { return len(b.data) }

// Read implements [mtl.Buffer].
func (b *Buffer) Read(off int, dst []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.hostAccess("read", off, len(dst)); err != nil {
		return err
	}
	copy(dst, b.data[off:])
	return nil
}

// Write implements [mtl.Buffer].
func (b *Buffer) Write(off int, src []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.hostAccess("write", off, len(src)); err != nil {
		return err
	}
	copy(b.data[off:], src)
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
	return b.data
}

// Release implements [mtl.Buffer].
func (b *Buffer) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return
	}
	b.released = true
	if b.pending == 0 {
		b.free()
	}
}

// free gives up the memory.
func (b *Buffer) free() {
	b.device.release(uintptr(b.buf))
	b.wrapped = nil
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
		b.free()
	}
}

// buffer recognises the device's own.
func (d *Device) buffer(b mtl.Buffer) (*Buffer, error) {
	own, ok := b.(*Buffer)
	switch {
	case b == nil || ok && own == nil:
		return nil, fmt.Errorf("metal: no buffer: want one of %s", d.name)
	case !ok || own.device != d:
		return nil, fmt.Errorf("metal: buffer %q: it belongs to another device than %s", b.Label(), d.name)
	}
	return own, nil
}
