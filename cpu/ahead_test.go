package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

func TestSuccessors(t *testing.T) {
	a, b, c := new(graph.Weight), new(graph.Weight), new(graph.Weight)
	var s successors
	for _, w := range []*graph.Weight{a, b, c} {
		require.Nil(t, s.after(w), "the first token")
	}
	require.Same(t, b, s.after(a), "the second token")
	require.Same(t, c, s.after(b))
	require.Same(t, a, s.after(c), "the next token begins where this one did")
	require.Same(t, b, s.after(a))
	require.Nil(t, s.after(c), "the order may change")
	require.Same(t, c, s.after(a))
	require.Same(t, a, s.after(c))
	require.Nil(t, s.after(c), "once more, as after a prompt")
	require.Same(t, c, s.after(a))
	require.Same(t, c, s.after(c))
	require.Same(t, c, s.after(a), "was not always so")
	require.Same(t, a, s.after(c))
	require.Same(t, c, s.after(a))
	require.Zero(t, testing.AllocsPerRun(100, func() { s.after(c); s.after(a) }))

	for range longestOrder + 100 {
		s.after(new(graph.Weight))
	}
	require.LessOrEqual(t, cap(s.order), 2*longestOrder)
}

// Weights that nobody else has any more are not kept by a backend that has multiplied
// with them.
func TestWeightsAreFreed(t *testing.T) {
	for _, threads := range []int{1, 2} {
		b, err := New(Options{Threads: threads})
		require.NoError(t, err)
		var gone atomic.Int64
		const k, m, weights = 1024, 64, 50
		x, err := b.AllocBuffer(4 * k)
		require.NoError(t, err)
		y, err := b.AllocBuffer(4 * m)
		require.NoError(t, err)
		in := &graph.Node{Op: graph.Input, Type: gguf.F32, Shape: graph.Vec(k)}
		for range weights {
			w := &graph.Weight{Name: "w", Type: gguf.F32, Shape: graph.Mat(k, m), Data: make([]byte, 4*k*m)}
			runtime.AddCleanup(&w.Data[0], func(gone *atomic.Int64) { gone.Add(1) }, &gone)
			n := &graph.Node{Op: graph.MatMul, Type: gguf.F32, Shape: graph.Vec(m), In: []*graph.Node{in}, Weight: w}
			require.NoError(t, b.ExecuteNode(n, []graph.Operand{{Buf: x, Len: 4 * k}}, graph.Operand{Buf: y, Len: 4 * m}, nil))
		}
		require.Eventually(t, func() bool {
			runtime.GC()
			return gone.Load() >= weights-2 // the last product's, and what was announced
		}, 10*time.Second, time.Millisecond, "%d threads", threads)
		require.NoError(t, b.Close())
	}
}

// What a thread reads ahead is the beginning of the rows that it will have.
func TestAnnounce(t *testing.T) {
	const k, rows, threads = 64, 899, 3
	w := &graph.Weight{Type: gguf.Q4_0, Shape: graph.Mat(k, rows), Data: make([]byte, gguf.Q4_0.RowBytes(k)*rows)}
	mm := &matMul{m: rows, n: 1, k: k, stride: gguf.Q4_0.RowBytes(k)}
	mm.cutStream(threads)
	p := &pool{threads: threads, workers: make([]*worker, threads-1), upcoming: make([][]byte, threads)}
	require.False(t, p.readsAhead(), "there is no prefetching")

	var seen []byte
	p.prefetch = func(b []byte) { seen = append(seen, b...) }
	require.True(t, p.readsAhead())
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
	p.workers = nil
	require.False(t, p.readsAhead())
}
