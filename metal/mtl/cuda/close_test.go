package cuda

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// fakeDriver counts what is there of a driver's objects, in the place of a GPU.
type fakeDriver struct {
	memories, graphs, hostMemories, writes int
	failing                                string // the call that does not succeed
}

func (f *fakeDriver) attach(d *Driver) {
	code := func(call string) int32 {
		if call == f.failing {
			return 2
		}
		return 0
	}
	count := func(n *int, by int, call string) int32 {
		c := code(call)
		if c == 0 {
			*n += by
		}
		return c
	}
	d.staging, d.stop = make([]byte, 1<<10), new([2]uint32)
	f.hostMemories = 2
	d.fn.setCurrent = func(uintptr) int32 { return 0 }
	d.fn.release = func(int32) int32 { return 0 }
	d.fn.errorName = func(int32, **byte) int32 { return 1 }
	d.fn.alloc = func(addr *uint64, n uintptr) int32 { *addr = 4096; return count(&f.memories, 1, "alloc") }
	d.fn.free = func(uint64) int32 { return count(&f.memories, -1, "free") }
	d.fn.hostFree = func(unsafe.Pointer) int32 { return count(&f.hostMemories, -1, "hostFree") }
	d.fn.toDeviceLater = func(uint64, unsafe.Pointer, uintptr, uintptr) int32 { return count(&f.writes, 1, "write") }
	d.fn.synchronize = func(uintptr) int32 { return 0 }
	d.fn.beginCapture = func(uintptr, int32) int32 { return code("capture") }
	d.fn.endCapture = func(_ uintptr, g *uintptr) int32 { *g = 1; return 0 }
	d.fn.instantiate = func(e *uintptr, _ uintptr, _ uint64) int32 { *e = 1; return count(&f.graphs, 1, "instantiate") }
	d.fn.graphDestroy = func(uintptr) int32 { return 0 }
	d.fn.graphLaunch = func(uintptr, uintptr) int32 { return code("graphLaunch") }
	d.fn.execDestroy = func(uintptr) int32 { return count(&f.graphs, -1, "execDestroy") }
	d.fn.eventCreate = func(*uintptr, uint32) int32 { return code("eventCreate") }
	d.fn.eventDestroy = func(uintptr) int32 { return 0 }
}

// A graph is not made of parameters that were not written, and what could not be
// written is given back.
func TestReadyAfterFailure(t *testing.T) {
	d, f := &Driver{name: "none"}, &fakeDriver{}
	f.attach(d)
	s := &sequence{inline: make([]byte, 64)}
	for _, call := range []string{"alloc", "write", "capture", "instantiate"} {
		f.failing = call
		_, err := s.ready(d)
		require.Error(t, err, call)
		require.Zero(t, f.graphs, call)
		if f.writes == 0 {
			require.Zero(t, f.memories, call)
		}
	}
	f.failing = ""
	_, err := s.ready(d)
	require.NoError(t, err)
	require.Equal(t, 1, f.writes)
	require.Equal(t, 1, f.memories)
	require.NoError(t, s.close())
	require.Zero(t, f.memories)
	require.Zero(t, f.graphs)
}

// A sequence that dropped out of the list leaves nothing on the GPU when a command
// buffer that was recorded before repeats it and fails.
func TestDroppedSequenceFails(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		r, f := newRecorder(t), &fakeDriver{}
		f.attach(r.d.driver)
		s := r.kept(steps(12))
		s.graph, f.graphs = graph{d: r.d.driver, exec: 1}, 1
		s.memory, f.memories = &Memory{d: r.d.driver, addr: 4096, size: 64}, 1
		cb := r.record(steps(12))
		if dropped {
			for range sequences {
				r.d.driver.sequences.use(&sequence{})
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f.failing = "eventCreate"
		_, err := cb.Submit(ctx)
		require.ErrorContains(t, err, "cuda: event")
		f.failing = ""
		left := 1
		if dropped {
			left = 0
		}
		require.Equal(t, left, f.graphs)
		require.Equal(t, left, f.memories)
		require.NoError(t, s.close())
	}
}

// watched says when somebody begins to wait for its end.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// Close waits for the submit that runs, and one that waits for its turn fails then.
func TestCloseWaitsForSubmit(t *testing.T) {
	r, f := newRecorder(t), &fakeDriver{}
	f.attach(r.d.driver)
	s := r.kept(steps(12))
	s.graph, f.graphs = graph{d: r.d.driver, exec: 1}, 1
	cb := r.record(steps(12))
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx := &watched{Context: limit, asked: make(chan struct{})}

	r.d.queue <- struct{}{} // a submit runs
	submitted, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := cb.Submit(ctx)
		submitted <- err
	}()
	<-ctx.asked
	go func() { closed <- r.d.Close() }()
	require.Eventually(t, r.d.closed.Load, time.Minute, time.Millisecond)
	select {
	case <-closed:
		t.Fatal("Close did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	require.NoError(t, r.d.driver.do(func() error { return s.graph.launch() }))
	<-r.d.queue
	require.NoError(t, <-closed)
	err := <-submitted
	require.True(t, errors.Is(err, errClosed), "%v", err)
	require.Zero(t, f.graphs)
	require.Zero(t, f.hostMemories, "page-locked memory")
	require.NoError(t, r.d.Close())
	require.Zero(t, f.hostMemories)
}
