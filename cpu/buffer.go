package cpu

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"minfer/engine/graph"
)

// alignment of a buffer's first byte: a cache line, and any vector's width.
const alignment = 64

// maxBuffer bounds a request, so that a nonsensical size is an error and not a
// failed allocation.
const maxBuffer = 1 << 46

// A buffer is a handle on recycled memory. mem is nil once it is freed, so that
// a second FreeBuffer, or a use after it, finds nothing.
type buffer struct {
	owner *Backend
	mem   []byte
	class int  // of the free list that mem goes to
	fresh bool // made by AllocFresh or AllocZeroed: never recycled
}

// Size is the number of bytes asked for; 0 once freed.
func (b *buffer) Size() int { return len(b.mem) }

// sizeClass rounds up to one of eight steps within each power of two, which
// wastes at most an eighth and lets buffers of similar sizes share memory.
func sizeClass(n int) int {
	if n <= alignment {
		return alignment
	}
	step := 1 << max(6, bits.Len(uint(n-1))-4)
	return (n + step - 1) &^ (step - 1)
}

// alignedBytes makes zeroed memory whose first byte is aligned.
func alignedBytes(n int) []byte {
	b := make([]byte, n+alignment-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1))
	return b[skip : skip+n : skip+n]
}

// AllocBuffer returns a buffer of exactly size bytes, aligned to 64, of
// unspecified content: memory of a freed buffer of its size class if there is.
func (b *Backend) AllocBuffer(size int) (graph.Buffer, error) { return b.alloc(size, false) }

// AllocFresh returns memory that no other buffer has had and none will get.
func (b *Backend) AllocFresh(size int) (graph.Buffer, error) { return b.alloc(size, true) }

// AllocZeroed is AllocFresh: the system's memory is zero, and not there before it is
// touched.
func (b *Backend) AllocZeroed(size int) (graph.Buffer, error) { return b.alloc(size, true) }

func (b *Backend) alloc(size int, fresh bool) (graph.Buffer, error) {
	if size < 0 || size > maxBuffer {
		return nil, fmt.Errorf("cpu: a buffer of %d bytes: want 0 to %d", size, maxBuffer)
	}
	class := sizeClass(size)
	var mem []byte
	if free := b.free[class]; !fresh && len(free) > 0 {
		mem = free[len(free)-1]
		b.free[class] = free[:len(free)-1]
	} else {
		mem = alignedBytes(class)
	}
	// The capacity stays: it is the class when the memory comes back.
	return &buffer{owner: b, mem: mem[:size], class: class, fresh: fresh}, nil
}

// FreeBuffer takes a buffer back. Freeing one twice, nil, or another backend's
// does nothing.
func (b *Backend) FreeBuffer(buf graph.Buffer) {
	h, ok := buf.(*buffer)
	if !ok || h == nil || h.owner != b || h.mem == nil {
		return
	}
	if !h.fresh {
		b.free[h.class] = append(b.free[h.class], h.mem[:h.class])
	}
	h.mem = nil
}

// window checks that n bytes from off on are within a live buffer of this
// backend, and returns them.
func (b *Backend) window(buf graph.Buffer, off, n int) ([]byte, error) {
	h, ok := buf.(*buffer)
	switch {
	case !ok || h == nil:
		return nil, fmt.Errorf("buffer %T, want one of the CPU backend", buf)
	case h.owner != b:
		return nil, fmt.Errorf("buffer of another CPU backend")
	case h.mem == nil:
		return nil, fmt.Errorf("buffer already freed")
	case off < 0 || n < 0 || off > len(h.mem) || n > len(h.mem)-off:
		return nil, fmt.Errorf("window of %d bytes at %d, the buffer has %d", n, off, len(h.mem))
	}
	return h.mem[off : off+n : off+n], nil
}

// Map returns the buffer's bytes, valid until it is freed.
func (b *Backend) Map(buf graph.Buffer) ([]byte, error) {
	mem, err := b.window(buf, 0, sizeOf(buf))
	if err != nil {
		return nil, fmt.Errorf("cpu: map: %w", err)
	}
	return mem, nil
}

func sizeOf(buf graph.Buffer) int {
	if h, ok := buf.(*buffer); ok && h != nil {
		return len(h.mem)
	}
	return 0
}

// ReadHost copies len(dst) bytes from off on.
func (b *Backend) ReadHost(buf graph.Buffer, off int, dst []byte) error {
	mem, err := b.window(buf, off, len(dst))
	if err != nil {
		return fmt.Errorf("cpu: read: %w", err)
	}
	copy(dst, mem)
	return nil
}

// WriteHost copies src to off on.
func (b *Backend) WriteHost(buf graph.Buffer, off int, src []byte) error {
	mem, err := b.window(buf, off, len(src))
	if err != nil {
		return fmt.Errorf("cpu: write: %w", err)
	}
	copy(mem, src)
	return nil
}

// floats is a value as float32, of exactly n elements. what names it in errors.
func (b *Backend) floats(what string, o graph.Operand, n int) ([]float32, error) {
	mem, err := b.bytes(what, o, 4*n)
	if err != nil || n == 0 {
		return nil, err
	}
	if uintptr(unsafe.Pointer(&mem[0]))%4 != 0 {
		return nil, fmt.Errorf("%s: offset %d, want a multiple of 4", what, o.Off)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), n), nil
}

// bytes is a value's memory, of exactly n bytes.
func (b *Backend) bytes(what string, o graph.Operand, n int) ([]byte, error) {
	if o.Len != n {
		return nil, fmt.Errorf("%s: %d bytes, want %d", what, o.Len, n)
	}
	if n == 0 {
		return nil, nil
	}
	mem, err := b.window(o.Buf, o.Off, o.Len)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return mem, nil
}

// indices appends n I32 values to dst, each checked to be in 0..limit-1.
func (b *Backend) indices(dst []int32, what string, o graph.Operand, n, limit int) ([]int32, error) {
	mem, err := b.bytes(what, o, 4*n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		v := int32(binary.LittleEndian.Uint32(mem[4*i:]))
		if v < 0 || int(v) >= limit {
			return nil, fmt.Errorf("%s %d is %d, want 0 to %d", what, i, v, limit-1)
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// asBytes views floats as the bytes that kernels take.
func asBytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// asFloats views a float32 weight as floats, by copy where it is not aligned.
func asFloats(data []byte) []float32 {
	n := len(data) / 4
	if n == 0 {
		return nil
	}
	if uintptr(unsafe.Pointer(&data[0]))%4 == 0 {
		return unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), n)
	}
	x := make([]float32, n)
	copy(asBytes(x), data)
	return x
}

// grow returns s with n elements, its content unspecified. It leaves room for
// more, so that a slowly growing need (a lengthening context) seldom allocates.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

// growAligned is grow for memory whose first byte is aligned.
func growAligned(b []byte, n int) []byte {
	if cap(b) < n {
		return alignedBytes(n + n/2)[:n]
	}
	return b[:n]
}
