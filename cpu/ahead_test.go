package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

func TestSuccessors(t *testing.T) {
	a, b, c := new(graph.Weight), new(graph.Weight), new(graph.Weight)
	s := successors{next: map[*graph.Weight]*graph.Weight{}}
	for _, w := range []*graph.Weight{a, b, c} {
		require.Nil(t, s.after(w), "the first token")
	}
	require.Same(t, b, s.after(a), "the second token")
	require.Same(t, c, s.after(b))
	require.Same(t, a, s.after(c), "the next token begins where this one did")
	require.Same(t, b, s.after(a))
	require.Same(t, a, s.after(c), "the order may change")
	require.Same(t, c, s.after(a))
}

// What a thread reads ahead is the beginning of the rows that it will have.
func TestAnnounce(t *testing.T) {
	const k, rows, threads = 64, 899, 3
	w := &graph.Weight{Type: gguf.Q4_0, Shape: graph.Mat(k, rows), Data: make([]byte, gguf.Q4_0.RowBytes(k)*rows)}
	mm := &matMul{m: rows, n: 1, k: k, stride: gguf.Q4_0.RowBytes(k)}
	mm.cutStream(threads)
	p := &pool{threads: threads, workers: make([]*worker, threads-1), upcoming: make([][]byte, threads)}
	p.announce(w)
	require.Zero(t, p.turn, "there is no prefetching")

	var seen []byte
	p.prefetch = func(b []byte) { seen = append(seen, b...) }
	for i := range w.Data {
		w.Data[i] = byte(i * i >> 7)
	}
	p.announce(w)
	for thread := range threads {
		var r reader
		r.take(p, thread)
		seen = nil
		for range len(w.Data) {
			r.some(p)
		}
		lo, hi := mm.bounds[mm.starts[thread]], mm.bounds[mm.starts[thread+1]]
		require.Equal(t, w.Data[lo*mm.stride:hi*mm.stride], seen)
		r.take(p, thread)
		require.Empty(t, r.left, "once")
	}
	large := &graph.Weight{Type: gguf.Q4_0, Shape: graph.Mat(1<<16, 256), Data: make([]byte, gguf.Q4_0.RowBytes(1<<16)*256)}
	p.announce(large)
	for thread := range threads {
		require.Len(t, p.upcoming[thread], aheadBytes)
	}
	p.announce(nil)
	require.Equal(t, make([][]byte, threads), p.upcoming)
}
