package cuda

import (
	"bytes"
	"slices"
	"sync"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/record"
)

// A sequence is what a submitted command buffer had recorded. A decoded token
// records what the one before did: such a command buffer takes its launches from the
// sequence as they are, without checks and conversions, and the GPU gets them as one
// graph, made when the sequence comes for the second time.
type sequence struct {
	work   []work
	inline []byte

	// What follows is of whoever holds the device's queue.
	graph  graph
	memory *Memory // of the inline bytes
}

// key is what a piece of work was recorded from, as far as a repeated one has to
// equal it.
type key struct {
	dispatch mtl.Dispatch // its slices are own copies; unused by a copy
	// fresh are the memories that no earlier piece of the sequence has, and pipeline
	// the pipeline, nil where an earlier piece has it.
	fresh    []*record.Memory
	pipeline *Pipeline
}

const (
	// shortest is the number of pieces from which on a sequence is worth keeping.
	shortest = 8
	// sequences is how many are kept.
	sequences = 6
)

// sequenceList keeps the last sequences, the latest first.
type sequenceList struct {
	mu   sync.Mutex
	list []*sequence
}

// all is a snapshot.
func (l *sequenceList) all() []*sequence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// has says whether a sequence is kept.
func (l *sequenceList) has(s *sequence) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.list, s)
}

// use puts a sequence in front and gives the one that drops out, nil for none. The
// caller holds the device's queue.
func (l *sequenceList) use(s *sequence) (dropped *sequence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := slices.Index(l.list, s); k >= 0 {
		l.list = slices.Delete(l.list, k, k+1)
	}
	l.list = slices.Insert(l.list, 0, s)
	if len(l.list) > sequences {
		dropped = l.list[sequences]
		l.list = l.list[:sequences]
	}
	return dropped
}

// close gives back what the sequence has on the GPU. The caller holds the device's
// queue.
func (s *sequence) close() error {
	err := s.graph.destroy()
	if s.memory != nil {
		if e := s.memory.Free(); err == nil {
			err = e
		}
		s.memory = nil
	}
	return err
}

// keyOf copies what is kept of a dispatch.
func keyOf(d *mtl.Dispatch) mtl.Dispatch {
	c := *d
	c.Bindings = slices.Clone(d.Bindings)
	c.ThreadgroupMemory = slices.Clone(d.ThreadgroupMemory)
	for k := range c.Bindings {
		c.Bindings[k].Bytes = bytes.Clone(c.Bindings[k].Bytes)
	}
	return c
}

// repeats says whether a dispatch is the one that was recorded, of objects that can
// still be used.
func (w *work) repeats(d *mtl.Dispatch) bool {
	o := &w.key.dispatch
	if w.kernel == nil || o.Pipeline != d.Pipeline || len(o.Bindings) != len(d.Bindings) ||
		o.Threadgroups != d.Threadgroups || o.Threads != d.Threads || o.ThreadsPerThreadgroup != d.ThreadsPerThreadgroup ||
		o.Label != d.Label || !slices.Equal(o.ThreadgroupMemory, d.ThreadgroupMemory) {
		return false
	}
	for k := range o.Bindings {
		x, y := &o.Bindings[k], &d.Bindings[k]
		if x.Index != y.Index || x.Buffer != y.Buffer || x.Offset != y.Offset || x.Length != y.Length || x.Access != y.Access ||
			x.Type != y.Type || x.Rows != y.Rows || x.Ahead != y.Ahead || (x.Bytes == nil) != (y.Bytes == nil) || !bytes.Equal(x.Bytes, y.Bytes) {
			return false
		}
		if x.Buffer != nil && x.Buffer.(*Buffer).life.Released() {
			return false
		}
	}
	return true
}

// follow takes a dispatch from the sequences that all before was taken from. Where
// none goes on so, the command buffer gets what it took as its own work, and goes on
// without.
func (cb *CommandBuffer) follow(d *mtl.Dispatch) bool {
	if len(cb.following) == 0 {
		return false
	}
	n := cb.taken
	first := cb.following[0]
	cb.following = slices.DeleteFunc(cb.following, func(s *sequence) bool { return n >= len(s.work) || !s.work[n].repeats(d) })
	if len(cb.following) == 0 {
		cb.leave(first)
		return false
	}
	w := &cb.following[0].work[n]
	// The same prefix has the same fresh buffers in every sequence.
	if err := cb.hold(w.key.pipeline, w.key.fresh); err != nil {
		cb.leave(cb.following[0])
		cb.following = nil
		return false
	}
	cb.taken++
	return true
}

// leave makes own work of what was taken from a sequence.
func (cb *CommandBuffer) leave(s *sequence) {
	if cb.taken == 0 {
		return
	}
	cb.work = slices.Clone(s.work[:cb.taken])
	cb.inline = slices.Clone(s.inline[:cb.work[cb.taken-1].inlineEnd])
	cb.taken = 0
}

// unfollow ends following, for what no sequence has or for the submit. It gives the
// sequence that the command buffer repeats to its end, nil for none.
func (cb *CommandBuffer) unfollow() *sequence {
	if len(cb.following) == 0 {
		return nil
	}
	for _, s := range cb.following {
		if len(s.work) == cb.taken {
			return s
		}
	}
	cb.leave(cb.following[0])
	cb.following = nil
	return nil
}

// sequenceOf makes a sequence of a command buffer's own work.
func (cb *CommandBuffer) sequenceOf() *sequence {
	s := &sequence{work: slices.Clone(cb.work), inline: cb.inline}
	buffers, pipelines := map[*Buffer]bool{}, map[*Pipeline]bool{}
	for k := range s.work {
		w := &s.work[k]
		w.key.fresh, w.key.pipeline = nil, nil
		for _, b := range w.key.dispatch.Bindings {
			if own, ok := b.Buffer.(*Buffer); ok && !buffers[own] {
				buffers[own] = true
				w.key.fresh = append(w.key.fresh, own.life)
			}
		}
		if p, ok := w.key.dispatch.Pipeline.(*Pipeline); ok && !pipelines[p] {
			pipelines[p] = true
			w.key.pipeline = p
		}
	}
	return s
}

// copies says whether one of the pieces is a copy.
func (cb *CommandBuffer) copies() bool {
	return slices.ContainsFunc(cb.work, func(w work) bool { return w.kernel == nil })
}
