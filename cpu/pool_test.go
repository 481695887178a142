package cpu

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The hammer: short jobs back to back, of every size, with pauses that send the
// workers to sleep. Under the race detector it also shows that a job's plain
// fields and results are handed over properly.
func TestPoolHammer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, threads := range []int{1, 2, 3, 8} {
		for _, spin := range []int{0, 1, 100, 1 << 10, spinLimit} {
			rounds := 400
			if spin == spinLimit {
				if threads > 2 {
					continue // more threads than cores that spin that long take minutes
				}
				rounds = 40
			}
			p := newPool(threads, spin, func([]byte) {})
			var out [64]int
			var in [64]int
			for round := range rounds {
				chunks := rng.IntN(len(out) + 1)
				for i := range in {
					in[i] = round*1000 + i
				}
				var seen atomic.Int64
				p.run(chunks, func(thread, chunk int) {
					if thread < 0 || thread >= threads {
						panic("no such thread")
					}
					seen.Add(1)
					out[chunk] = in[chunk]
				})
				require.EqualValues(t, chunks, seen.Load())
				for i := range chunks {
					require.Equal(t, in[i], out[i])
				}
				starts := []int{0}
				for range threads - 1 {
					starts = append(starts, min(chunks, starts[len(starts)-1]+rng.IntN(chunks+1)))
				}
				clear(out[:])
				p.runParts(append(starts, chunks), func(_, chunk int) { out[chunk]++ })
				for i, n := range out {
					require.Equal(t, i < chunks, n == 1, "chunk %d ran %d times", i, n)
				}
				if round%97 == 0 {
					time.Sleep(200 * time.Microsecond)
				}
			}
			p.close()
			p.close()
			n := 0
			p.run(3, func(thread, _ int) { n++ })
			require.Equal(t, 3, n, "a closed pool works on its caller")
		}
	}
}

// A worker that is held up after it counted itself out of a job wakes nobody when it
// goes on, though the caller sleeps in the next job by then.
func TestPoolLateWorker(t *testing.T) {
	counted, goOn := make(chan struct{}), make(chan struct{})
	// No thread serves the worker: its steps are taken here, one by one.
	p := &pool{threads: 2, spin: 1, upcoming: make([][]byte, 2), workers: []*worker{{}}, done: make(chan struct{}, 1)}
	p.late = func() {
		counted <- struct{}{}
		<-goOn
	}
	p.signal()
	first, ok := p.join(0)
	require.True(t, ok)
	late := make(chan struct{})
	go func() {
		p.report()
		close(late)
	}()
	<-counted
	p.wait() // the first job is over

	p.signal()
	_, ok = p.join(first)
	require.True(t, ok)
	over := make(chan struct{})
	go func() {
		p.wait()
		close(over)
	}()
	time.Sleep(10 * time.Millisecond) // the caller has looked once and sleeps
	close(goOn)
	<-late
	select {
	case <-over:
		t.Fatal("the caller of the second job was woken by the worker of the first")
	case <-time.After(50 * time.Millisecond):
	}

	p.late = nil
	p.report()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("the caller of the second job was not woken by its worker")
	}
	require.Empty(t, p.done)
}

// Who comes when a job is over takes no part, and is not waited for.
func TestPoolAbsentWorker(t *testing.T) {
	p := &pool{threads: 2, spin: 1, upcoming: make([][]byte, 2), workers: []*worker{{}}, done: make(chan struct{}, 1)}
	_, ok := p.join(0)
	require.False(t, ok, "there is no job yet")
	p.signal()
	p.wait()
	_, ok = p.join(0)
	require.False(t, ok, "the job is over")
	p.signal()
	second, ok := p.join(0)
	require.True(t, ok)
	_, ok = p.join(second)
	require.False(t, ok, "twice the same job")
	p.report()
	p.wait()
	require.Empty(t, p.done)
}

func TestPoolCloses(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		b, err := New(Options{Threads: 4})
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.NoError(t, b.Close())
	}
	for i := 0; runtime.NumGoroutine() > before && i < 5000; i++ {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before, "goroutines left")
}

func TestSizeClass(t *testing.T) {
	last := 0
	for n := range 1 << 14 {
		c := sizeClass(n)
		require.GreaterOrEqual(t, c, n)
		require.Zero(t, c%alignment)
		require.LessOrEqual(t, c, max(alignment, n+n/8+alignment))
		require.GreaterOrEqual(t, c, last)
		last = c
	}
}
