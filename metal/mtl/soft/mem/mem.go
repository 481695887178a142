// Package mem holds the memory objects of the software Metal device: device
// allocations and the windows of them that a dispatch binds.
//
// It decides nothing and checks nothing: the interpreter checks accesses against
// a [Window], the sanitizer knows which bytes were written. A Buffer may be used
// by one dispatch at a time; within a dispatch the interpreter's workers share
// it, as the threadgroups of a GPU do, and touch distinct bytes unless the kernel
// itself races.
package mem

import (
	"math/rand/v2"
	"unsafe"

	"minfer/metal/mtl/soft/san"
)

// Buffer is a device allocation.
type Buffer struct {
	Label string
	Data  []byte
	// San is what the sanitizer knows of it, nil where nothing is checked.
	San *san.Buffer
}

// New makes an allocation of size bytes, aligned to 64 bytes and filled with a
// pattern that is easy to see (a NaN as float and as half).
func New(size int, label string) *Buffer {
	b := &Buffer{Label: label, Data: Aligned(size)}
	for i := range b.Data {
		b.Data[i] = 0xff
	}
	return b
}

// Wrap makes an allocation of the caller's memory.
func Wrap(data []byte, label string) *Buffer { return &Buffer{Label: label, Data: data} }

// Aligned gives size zero bytes on a 64-byte boundary.
func Aligned(size int) []byte {
	raw := make([]byte, size+64)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & 63)
	return raw[skip : skip+size : skip+size]
}

// Fill overwrites all bytes with seeded noise: what an undefined allocation may
// hold.
func (b *Buffer) Fill(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0x6d656d))
	for i := range b.Data {
		b.Data[i] = byte(r.Uint32())
	}
}

// Window is what a dispatch binds: the part of a buffer that the kernel may
// touch. The kernel's offset 0 is byte Offset of the buffer.
type Window struct {
	Buffer   *Buffer
	Offset   int // bytes
	Length   int // bytes
	ReadOnly bool
	Name     string // how reports call the tensor; the buffer's label if empty
}

// Bytes gives the window's memory.
func (w *Window) Bytes() []byte { return w.Buffer.Data[w.Offset : w.Offset+w.Length] }
