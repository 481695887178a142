package metal

import (
	"bytes"
	"slices"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// A plan runs the same nodes over the same memory for every token, with nothing new
// but what lies in the memory. So what a node was encoded as is kept, and encoded
// again as it is where nothing that it was made from has changed: the node, the
// windows and the cache. Levers, pipelines and weights are fixed for a backend.

// encoded is what one node became.
type encoded struct {
	node   graph.Node    // as it was; its In is an own copy
	shapes []graph.Shape // of its inputs, and their types
	types  []graph.DType
	in     []graph.Operand
	out    graph.Operand
	kv     graph.KV

	entries    []*Entry
	dispatches []mtl.Dispatch
	buffers    []*buffer // used, with their memory
	memory     []mtl.Buffer
}

// maxEncoded is how many nodes are kept: those of several plans.
const maxEncoded = 8192

// same says whether a node is what it was.
func (e *encoded) same(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) bool {
	o := &e.node
	if o.Op != n.Op || o.Name != n.Name || o.Type != n.Type || o.Shape != n.Shape || o.Attr != n.Attr || o.Weight != n.Weight ||
		o.Bias != n.Bias || o.Norm != n.Norm || o.Factors != n.Factors || !slices.Equal(o.In, n.In) ||
		e.out != out || !slices.Equal(e.in, in) {
		return false
	}
	for k, x := range n.In {
		if x.Shape != e.shapes[k] || x.Type != e.types[k] {
			return false
		}
	}
	if kv == nil && e.kv != (graph.KV{}) || kv != nil && e.kv != *kv {
		return false
	}
	for k, h := range e.buffers {
		if h.mem != e.memory[k] {
			return false
		}
	}
	return true
}

// record starts to keep what a node becomes.
func (b *Backend) record(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) {
	e := &encoded{node: *n, in: slices.Clone(in), out: out}
	e.node.In = slices.Clone(n.In)
	for _, x := range n.In {
		e.shapes = append(e.shapes, x.Shape)
		e.types = append(e.types, x.Type)
	}
	if kv != nil {
		e.kv = *kv
	}
	b.recording = e
}

// recorded keeps it. What was encoded with memory that its own encoding has freed
// again is not kept: nothing would show later that the memory is another's.
func (b *Backend) recorded(n *graph.Node) {
	e := b.recording
	b.recording = nil
	for _, h := range e.buffers {
		if h.mem == nil {
			delete(b.encoded, n)
			return
		}
		e.memory = append(e.memory, h.mem)
	}
	if b.encoded == nil || len(b.encoded) >= maxEncoded {
		b.encoded = map[*graph.Node]*encoded{}
	}
	b.encoded[n] = e
}

// dispatched keeps a dispatch of the node that is being recorded.
func (b *Backend) dispatched(e *Entry, d *mtl.Dispatch) {
	if b.recording == nil {
		return
	}
	c := *d
	c.Bindings = slices.Clone(d.Bindings)
	for k := range c.Bindings {
		c.Bindings[k].Bytes = bytes.Clone(c.Bindings[k].Bytes)
	}
	b.recording.entries = append(b.recording.entries, e)
	b.recording.dispatches = append(b.recording.dispatches, c)
}

// again encodes a node as before.
func (b *Backend) again(e *encoded) error {
	if len(e.dispatches) == 0 {
		return nil
	}
	cb, err := b.commands()
	if err != nil {
		return err
	}
	for _, h := range e.buffers {
		h.used = b.epoch
	}
	for k := range e.dispatches {
		if err := cb.Dispatch(e.dispatches[k]); err != nil {
			return err
		}
		cb.Barrier()
		if b.o.Launched != nil {
			b.o.Launched(e.entries[k])
		}
	}
	return nil
}
