package cpu

import "minfer/engine/graph"

// aheadBytes is how much of the next weights each thread reads ahead: what memory
// gives in the time that threads wait for each other now and then, and no more than a
// part of a second-level cache.
const aheadBytes = 512 << 10

// aheadAtOnce is how much of it lies between two looks whether the wait is over.
const aheadAtOnce = 512

// successors knows the weights of one token's products in their order, from the token
// before: a graph is run again and again.
type successors struct {
	next map[*graph.Weight]*graph.Weight
	last *graph.Weight
}

// after says which weight will probably follow w, or nil, when w follows the one of
// the last call.
func (s *successors) after(w *graph.Weight) *graph.Weight {
	if s.next[s.last] != w {
		s.next[s.last] = w
	}
	s.last = w
	return s.next[w]
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

// announce makes what each thread reads first of w's rows known to the pool, before
// it starts on the product before.
func (p *pool) announce(w *graph.Weight) {
	if p.prefetch == nil || len(p.workers) == 0 {
		return
	}
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
