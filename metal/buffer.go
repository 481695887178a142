package metal

import (
	"fmt"
	"math/bits"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// A buffer is a handle on device memory that may be recycled. mem is nil once it
// is freed.
type buffer struct {
	owner *Backend
	mem   mtl.Buffer
	size  int
	fresh bool
	used  uint64 // the last command buffer with work on it
}

// idle is memory without a handle. used is that of the last one: work on it may
// still be pending.
type idle struct {
	mem  mtl.Buffer
	used uint64
}

// Size is the number of bytes asked for; 0 once freed.
func (h *buffer) Size() int {
	if h.mem == nil {
		return 0
	}
	return h.size
}

// sizeClass rounds up to one of eight steps within each power of two, which
// wastes at most an eighth and lets buffers of similar sizes share memory.
func sizeClass(n int) int {
	const least = 256
	if n <= least {
		return least
	}
	step := 1 << max(8, bits.Len(uint(n-1))-4)
	return (n + step - 1) &^ (step - 1)
}

// AllocBuffer returns memory of unspecified content, that of a freed buffer of
// its size class if there is.
func (b *Backend) AllocBuffer(size int) (graph.Buffer, error) { return b.alloc(size, false) }

// AllocFresh returns memory that no other buffer has had and none will get.
func (b *Backend) AllocFresh(size int) (graph.Buffer, error) { return b.alloc(size, true) }

func (b *Backend) alloc(size int, fresh bool) (*buffer, error) {
	if err := b.alive(); err != nil {
		return nil, err
	}
	if size < 0 || size > b.limits.MaxBufferLength {
		return nil, fmt.Errorf("metal: a buffer of %d bytes: want 0 to %d", size, b.limits.MaxBufferLength)
	}
	class := min(sizeClass(size), b.limits.MaxBufferLength)
	h := &buffer{owner: b, size: size, fresh: fresh}
	if free := b.free[class]; !fresh && len(free) > 0 {
		h.mem, h.used = free[len(free)-1].mem, free[len(free)-1].used
		b.free[class] = free[:len(free)-1]
		b.poison(h.mem)
	} else {
		b.buffers++
		mem, err := b.dev.NewBuffer(class, fmt.Sprintf("buffer %d", b.buffers))
		if err != nil {
			return nil, err
		}
		h.mem = mem
	}
	b.live[h] = struct{}{}
	return h, nil
}

// poison makes memory count as unwritten where a checker watches. Memory with
// pending work keeps its state.
func (b *Backend) poison(m mtl.Buffer) {
	if u, ok := m.(interface{ Undefine(off, n int) error }); ok && b.o.Poison {
		_ = u.Undefine(0, m.Size())
	}
}

// FreeBuffer takes a buffer back. Freeing one twice, nil, or another backend's
// does nothing.
func (b *Backend) FreeBuffer(buf graph.Buffer) {
	h, ok := buf.(*buffer)
	if !ok || h == nil || h.owner != b || h.mem == nil {
		return
	}
	delete(b.live, h)
	if h.fresh {
		h.mem.Release()
	} else {
		b.free[h.mem.Size()] = append(b.free[h.mem.Size()], idle{h.mem, h.used})
	}
	h.mem = nil
}

// own checks that a buffer is a live one of this backend.
func (b *Backend) own(buf graph.Buffer) (*buffer, error) {
	h, ok := buf.(*buffer)
	switch {
	case !ok || h == nil:
		return nil, fmt.Errorf("buffer %T, want one of the Metal backend", buf)
	case h.owner != b:
		return nil, fmt.Errorf("buffer of another Metal backend")
	case h.mem == nil:
		return nil, fmt.Errorf("buffer already freed")
	}
	return h, nil
}

// use is a window's memory, marked as part of the split that is being encoded.
func (b *Backend) use(o graph.Operand) (mtl.Buffer, error) {
	h, err := b.own(o.Buf)
	if err != nil {
		return nil, err
	}
	if o.Off < 0 || o.Len < 0 || o.Off > h.size || o.Len > h.size-o.Off {
		return nil, fmt.Errorf("window of %d bytes at %d, the buffer has %d", o.Len, o.Off, h.size)
	}
	h.used = b.epoch
	if b.cb == nil {
		h.used++
	}
	if r := b.recording; r != nil {
		r.buffers = append(r.buffers, h)
	}
	return h.mem, nil
}

// fail keeps the first error of a launch that is being put together.
func (b *Backend) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Backend) bind(index int, o graph.Operand, t mtl.Type, a mtl.Access) mtl.Binding {
	mem, err := b.use(o)
	if err != nil {
		b.fail(fmt.Errorf("buffer index %d: %w", index, err))
	}
	return mtl.Binding{Index: index, Buffer: mem, Offset: o.Off, Length: o.Len, Access: a, Type: t}
}

// read, write, readWrite and output bind a value whose elements the host takes
// for t; output promises that the launch writes every one of them. An error shows
// at the launch.
func (b *Backend) read(index int, o graph.Operand, t mtl.Type) mtl.Binding {
	return b.bind(index, o, t, mtl.Read)
}

func (b *Backend) write(index int, o graph.Operand, t mtl.Type) mtl.Binding {
	return b.bind(index, o, t, mtl.Write)
}

func (b *Backend) readWrite(index int, o graph.Operand, t mtl.Type) mtl.Binding {
	return b.bind(index, o, t, mtl.ReadWrite)
}

func (b *Backend) output(index int, o graph.Operand, t mtl.Type) mtl.Binding {
	return b.bind(index, o, t, mtl.Output)
}

// scratch is memory for the launches of one node; a later node of the split may
// use it again under the same name, since a barrier follows every dispatch. Two
// names never share memory.
func (b *Backend) scratch(name string, size int) (graph.Operand, error) {
	h := b.scratchs[name]
	if h == nil || h.size < size {
		grown, err := b.alloc(size+size/4, false)
		if err != nil {
			return graph.Operand{}, fmt.Errorf("scratch memory %q: %w", name, err)
		}
		if h != nil {
			h.fresh = true // work may be pending on it: it is not for others yet
			b.FreeBuffer(h)
		}
		b.scratchs[name] = grown
		h = grown
	}
	return graph.Operand{Buf: h, Len: size}, nil
}

// host checks a host access: the window, and that no work on the buffer is
// pending.
func (b *Backend) host(verb string, buf graph.Buffer, off, n int) (mtl.Buffer, error) {
	if err := b.alive(); err != nil {
		return nil, err
	}
	h, err := b.own(buf)
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", verb, err)
	}
	if off < 0 || n < 0 || off > h.size || n > h.size-off {
		return nil, fmt.Errorf("metal: %s: window of %d bytes at %d, the buffer has %d", verb, n, off, h.size)
	}
	if b.cb != nil && h.used == b.epoch {
		return nil, fmt.Errorf("metal: %s of %q: work on it is pending: synchronize first", verb, h.mem.Label())
	}
	return h.mem, nil
}

// ReadHost copies len(dst) bytes from off on. Pending work on the buffer is an
// error that names it.
func (b *Backend) ReadHost(buf graph.Buffer, off int, dst []byte) error {
	mem, err := b.host("read", buf, off, len(dst))
	if err != nil || len(dst) == 0 {
		return err
	}
	return mem.Read(off, dst)
}

// WriteHost copies src to off on. Pending work on the buffer is an error that
// names it.
func (b *Backend) WriteHost(buf graph.Buffer, off int, src []byte) error {
	mem, err := b.host("write", buf, off, len(src))
	if err != nil || len(src) == 0 {
		return err
	}
	return mem.Write(off, src)
}

// Map returns the buffer's bytes, valid until it is freed, where the device can
// address them; a checker takes all of them as written from then on.
func (b *Backend) Map(buf graph.Buffer) ([]byte, error) {
	h, err := b.own(buf)
	if err != nil {
		return nil, fmt.Errorf("metal: map: %w", err)
	}
	mem, err := b.host("map", buf, 0, h.size)
	if err != nil {
		return nil, err
	}
	data := mem.Mapped()
	if data == nil {
		return nil, fmt.Errorf("metal: map: %s does not map its buffers", b.dev.Name())
	}
	return data[:h.size:h.size], nil
}
