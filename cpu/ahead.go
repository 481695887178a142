package cpu

import (
	"weak"

	"minfer/engine/graph"
)

// aheadBytes is how much of the next weights each thread reads ahead: what memory
// gives in the time that threads wait for each other now and then, and no more than a
// part of a second-level cache.
const aheadBytes = 512 << 10

// aheadAtOnce is how much of it lies between two looks whether the wait is over.
const aheadAtOnce = 512

// successors knows the weights of one token's products in their order, from the token
// before: a graph is run again and again. It keeps none of them alive, since a backend may
// outlive models.
type successors struct {
	order  []weak.Pointer[graph.Weight]
	at     int  // where the next one is in order
	closed bool // the first one follows the last
}

// longestOrder bounds order: one that has no end is not of a graph that runs again.
const longestOrder = 1 << 14

// after says which weight will probably follow w, or nil, when w follows the one of
// the last call.
func (s *successors) after(w *graph.Weight) *graph.Weight {
	switch {
	case s.at < len(s.order) && s.order[s.at].Value() == w:
	case len(s.order) > 0 && s.order[0].Value() == w: // the next token
		s.order, s.at, s.closed = s.order[:s.at], 0, true
	default: // not what was there, if anything
		if s.at == longestOrder {
			s.at = 0
		}
		s.order, s.closed = append(s.order[:s.at], weak.Make(w)), false
	}
	s.at++
	switch {
	case s.at < len(s.order):
		return s.order[s.at].Value()
	case s.closed:
		return s.order[0].Value()
	}
	return nil
}

// A reader is one thread's reading ahead. While threads wait for each other, or for
// the caller between two products, memory would have nothing to do, and the next
// product can't be faster than memory.
type reader struct {
	left []byte
	turn uint64 // of the pool, when left was taken
}

// take looks whether there is something new.
func (r *reader) take(p *pool, thread int) {
	if r.turn != p.turn {
		r.turn, r.left = p.turn, p.upcoming[thread]
	}
}

// some reads a little. It is a hint: memory that is gone is no fault.
func (r *reader) some(p *pool) {
	if n := min(len(r.left), aheadAtOnce); n > 0 {
		p.prefetch(r.left[:n])
		r.left = r.left[n:]
	}
}

// readsAhead says whether there is anything to announce to.
func (p *pool) readsAhead() bool { return p.prefetch != nil && len(p.workers) > 0 }

// announce makes what each thread reads first of w's rows known to the pool, before
// it starts on the product before.
func (p *pool) announce(w *graph.Weight) {
	p.turn++
	for t := range p.upcoming {
		p.upcoming[t] = nil
		if w != nil {
			rows := w.Shape[1]
			lo, hi := firstRow(rows, t, p.threads), firstRow(rows, t+1, p.threads)
			stride := len(w.Data) / max(rows, 1)
			p.upcoming[t] = w.Data[lo*stride:][:min((hi-lo)*stride, aheadBytes)]
		}
	}
}

// firstRow is the first of the rows that a thread has of a single token's product.
// Kernels take rows in small groups.
func firstRow(rows, thread, threads int) int {
	if thread == threads {
		return rows
	}
	return rows * thread / threads &^ 7
}
