package apple

import (
	"fmt"
	"unsafe"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
)

// Buffer is an [mtl.Buffer] of the device, in memory that host and GPU share.
type Buffer struct {
	device *Device
	label  string
	life   *record.Memory
	buf    mtlBuffer // the Buffer's own reference
	data   []byte    // the buffer's memory, without what WrapNoCopy rounded up
	// wrapped keeps the memory of WrapNoCopy, where it is Go's.
	wrapped []byte
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
	b := &Buffer{device: d, label: label, buf: buf, data: unsafe.Slice((*byte)(contents), size)}
	b.life = record.NewMemory(label, func() {
		d.release(uintptr(buf))
		b.wrapped = nil
	})
	return b, nil
}

// Label implements [mtl.Buffer].
func (b *Buffer) Label() string { return b.label }

// Size implements [mtl.Buffer].
func (b *Buffer) Size() int { return len(b.data) }

// Read implements [mtl.Buffer].
func (b *Buffer) Read(off int, dst []byte) error {
	return b.life.Host(b, "read", off, len(dst), func() { copy(dst, b.data[off:]) })
}

// Write implements [mtl.Buffer].
func (b *Buffer) Write(off int, src []byte) error {
	return b.life.Host(b, "write", off, len(src), func() { copy(b.data[off:], src) })
}

// Mapped implements [mtl.Buffer].
func (b *Buffer) Mapped() (data []byte) {
	b.life.Live(func() { data = b.data })
	return data
}

// Release implements [mtl.Buffer].
func (b *Buffer) Release() { b.life.Release() }

// buffer recognises the device's own.
func (d *Device) buffer(b mtl.Buffer) (*Buffer, error) {
	return record.Own(b, d.name, func(b *Buffer) bool { return b.device == d })
}
