package metal

import (
	"fmt"
	"unsafe"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// registry is the weights that the device reads, by GGUF name: each a window of a
// wrapped file part, or a copy.
type registry struct {
	parts  []part
	byName map[string]*held
	// byPtr spares a node the search by name.
	byPtr map[*graph.Weight]*held
	sum   mtl.Buffer // output of the warm-up read
}

// part is a window of a file part that the device reads in place: all of it,
// unless it is longer than a buffer of the device can be.
type part struct {
	data []byte
	buf  mtl.Buffer
}

type held struct {
	data   []byte // the weight's, for identity
	buf    mtl.Buffer
	off    int
	copied bool
}

// weightAlignment is what the kernels' widest loads need: mul_mv.metal reads the blocks
// of q4_K and q5_K, whose bytes are multiples of 16, as uint4. Weights of a file that is
// aligned to less are copied.
const weightAlignment = 16

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
	if r.sum != nil {
		r.sum.Release()
		r.sum = nil
	}
	clear(r.byName)
	clear(r.byPtr)
}

func address(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }

func same(a, b []byte) bool { return len(a) == len(b) && address(a) == address(b) }

// HoldPart wraps a mapped file part, which must stay mapped until Close. Nothing
// is copied. Where the device cannot wrap memory, or the part does not start on a
// page boundary, or MINFER_WEIGHT_COPY is set, its weights are copied one by one
// by HoldWeight.
func (b *Backend) HoldPart(data []byte) error {
	if err := b.alive(); err != nil {
		return err
	}
	if b.o.Levers.WeightCopy || !b.limits.NoCopy || len(data) == 0 || address(data)%uintptr(b.limits.PageSize) != 0 {
		return nil
	}
	for _, p := range b.weights.parts {
		if address(p.data) == address(data) {
			return nil // announced before
		}
	}
	most := b.limits.MaxBufferLength / b.limits.PageSize * b.limits.PageSize
	number := len(b.weights.parts) + 1
	for len(data) > 0 {
		n := min(len(data), most)
		buf, err := b.dev.WrapNoCopy(data[:n:n], fmt.Sprintf("weights %d", number))
		if err != nil {
			return fmt.Errorf("metal: file part of %d bytes: %w", len(data), err)
		}
		b.weights.parts = append(b.weights.parts, part{data[:n:n], buf})
		data = data[n:]
		number++
	}
	return nil
}

// HoldWeight registers a weight: in place where it lies in an announced part, by
// copy otherwise, and has the device read it once.
func (b *Backend) HoldWeight(w *graph.Weight) error {
	if err := b.alive(); err != nil {
		return err
	}
	switch h := b.weights.byName[w.Name]; {
	case len(w.Data) == 0:
		return fmt.Errorf("metal: weight %s has no bytes", w.Name)
	case h != nil && !same(h.data, w.Data):
		return fmt.Errorf("metal: weight %s: %d bytes at another address are registered under this name, these are %d", w.Name, len(h.data), len(w.Data))
	case h != nil:
		return nil
	}
	h := b.inPart(w.Data)
	if h == nil {
		buf, err := b.dev.NewBuffer(len(w.Data), w.Name)
		if err != nil {
			return fmt.Errorf("metal: weight %s: %w", w.Name, err)
		}
		h = &held{data: w.Data, buf: buf, copied: true}
		if err := buf.Write(0, w.Data); err != nil {
			buf.Release()
			return fmt.Errorf("metal: weight %s: %w", w.Name, err)
		}
	}
	if err := b.warmUp(h, w.Name); err != nil {
		if h.copied {
			h.buf.Release()
		}
		return fmt.Errorf("metal: weight %s: warm-up read: %w", w.Name, err)
	}
	b.weights.byName[w.Name] = h
	return nil
}

// inPart finds the part that contains a weight, nil where there is none from
// which the kernels can read it.
func (b *Backend) inPart(data []byte) *held {
	at := address(data)
	for _, p := range b.weights.parts {
		start := address(p.data)
		if at >= start && at-start <= uintptr(len(p.data)) && uintptr(len(data)) <= uintptr(len(p.data))-(at-start) {
			if off := int(at - start); off%weightAlignment == 0 {
				return &held{data: data, buf: p.buf, off: off}
			}
		}
	}
	return nil
}

// warmUp has the device read a word of every page of a weight, in a command
// buffer of its own, so that the first token does not wait for the memory.
func (b *Backend) warmUp(h *held, name string) error {
	words := len(h.data) / 4
	if words == 0 {
		return nil
	}
	if b.weights.sum == nil {
		sum, err := b.dev.NewBuffer(4, "warm-up sum")
		if err != nil {
			return err
		}
		b.weights.sum = sum
	}
	e := Lookup("warm_up", "", "")
	pipeline, err := b.pipeline(e)
	if err != nil {
		return err
	}
	cb, err := b.dev.NewCommandBuffer("warm-up " + name)
	if err != nil {
		return err
	}
	defer cb.Discard()
	p := b.params(2, words, b.limits.PageSize/4)
	b.bytes = b.bytes[:0]
	err = cb.Dispatch(mtl.Dispatch{
		Label: e.ID() + " " + name, Pipeline: pipeline,
		Bindings: []mtl.Binding{
			{Index: 0, Buffer: h.buf, Offset: h.off, Length: 4 * words, Access: mtl.Read, Name: name},
			{Index: 1, Buffer: b.weights.sum, Length: 4, Access: mtl.Output},
			p,
		},
		Threadgroups: mtl.Size{X: 1, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 32, Y: 1, Z: 1},
	})
	if err != nil {
		return err
	}
	if b.o.Launched != nil {
		b.o.Launched(e)
	}
	return b.submit(cb)
}

// WeightStats says how the registered weights are held.
type WeightStats struct {
	InPlace, Copied           int // weights
	InPlaceBytes, CopiedBytes int
	Parts                     int // wrapped without a copy
}

// WeightStats counts the weights.
func (b *Backend) WeightStats() WeightStats {
	s := WeightStats{Parts: len(b.weights.parts)}
	for _, h := range b.weights.byName {
		if h.copied {
			s.Copied++
			s.CopiedBytes += len(h.data)
		} else {
			s.InPlace++
			s.InPlaceBytes += len(h.data)
		}
	}
	return s
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
		b.weights.byPtr[w] = h
	}
	if !same(h.data, w.Data) {
		return mtl.Binding{}, fmt.Errorf("weight %s: other bytes are registered under this name", w.Name)
	}
	return mtl.Binding{Index: index, Buffer: h.buf, Offset: h.off, Length: len(h.data), Access: mtl.Read, Name: w.Name}, nil
}

func warmUpTable() []*Entry {
	return []*Entry{{
		Op: "warm_up", Kernel: "kernel_warm_up", When: "a weight is registered",
		Bound: Bound{Why: "a sum of integers: exact"},
	}}
}
