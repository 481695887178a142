package cuda

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/internal/frontend"
)

// recorder records on a device without a driver: everything up to the submit.
type recorder struct {
	t        *testing.T
	d        *Device
	pipeline *Pipeline
	buffers  []*Buffer
}

func newRecorder(t *testing.T) *recorder {
	f := specialize(t, "lanes.metal", "forever")
	src, err := Emit(f, Options{Poll: true, Inline: true})
	require.NoError(t, err)
	args, err := frontend.Arguments(f, maxBuffers)
	require.NoError(t, err)
	d := &Device{driver: &Driver{name: "none"}, queue: make(chan struct{}, 1),
		limits: mtl.Limits{MaxThreadsPerThreadgroup: 1024, MaxThreadgroupMemory: 48 << 10, MaxBuffers: maxBuffers, SIMDWidth: 32}}
	r := &recorder{t: t, d: d, pipeline: &Pipeline{device: d, kernel: &Kernel{d: d.driver, src: src, MaxThreads: 1024}, args: args, threads: 1024}}
	for k := range 3 {
		// At address 0, as freed memory is: no driver is here to take it back.
		b := d.newBuffer(&Memory{d: d.driver, size: 1 << 10}, 1<<10, fmt.Sprint("b", k))
		r.buffers = append(r.buffers, b)
	}
	return r
}

// step is one dispatch of a test: what of it can differ.
type step struct{ buffer, offset, groups, rows, ahead int }

func (r *recorder) dispatch(s step) mtl.Dispatch {
	return mtl.Dispatch{Label: fmt.Sprint("step ", s.groups), Pipeline: r.pipeline,
		Bindings:     []mtl.Binding{{Index: r.pipeline.args[0].Index, Buffer: r.buffers[s.buffer], Offset: s.offset, Length: 8, Rows: s.rows, Ahead: s.ahead, Access: mtl.ReadWrite}},
		Threadgroups: mtl.Size{X: s.groups, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 32, Y: 1, Z: 1}}
}

func (r *recorder) record(steps []step) *CommandBuffer {
	cb, err := r.d.NewCommandBuffer("test")
	require.NoError(r.t, err)
	for _, s := range steps {
		require.NoError(r.t, cb.Dispatch(r.dispatch(s)))
		cb.Barrier()
	}
	return cb.(*CommandBuffer)
}

// kept records, and keeps the result as a submit does.
func (r *recorder) kept(steps []step) *sequence {
	cb := r.record(steps)
	require.Nil(r.t, cb.unfollow())
	cb.keep(nil)
	cb.state.Submit()
	cb.release()
	r.idle()
	return r.d.driver.sequences.all()[0]
}

// idle wants nothing held.
func (r *recorder) idle() {
	for _, b := range r.buffers {
		if !b.life.Released() {
			require.NoError(r.t, b.life.Host(b, "read", 0, 1, func() {}))
		}
	}
	require.Zero(r.t, r.pipeline.recorded)
}

func steps(n int) []step {
	var list []step
	for k := range n {
		list = append(list, step{buffer: k % 3, offset: 8 * k, groups: k + 1, rows: 4, ahead: 2})
	}
	return list
}

// A command buffer that records what an earlier one did repeats it; one that differs
// anywhere, is shorter or goes on has work of its own, the same as without.
func TestRepeats(t *testing.T) {
	r := newRecorder(t)
	all := steps(12)
	s := r.kept(all)
	require.Len(t, s.work, 12)

	cb := r.record(all)
	require.Empty(t, cb.work)
	require.ErrorContains(t, r.buffers[1].Read(0, make([]byte, 4)), "pending")
	require.Same(t, s, cb.unfollow())
	cb.Discard()
	r.idle()

	for name, change := range map[string]func(l []step) []step{
		"shorter":       func(l []step) []step { return l[:11] },
		"one more":      func(l []step) []step { return append(l, step{groups: 1, rows: 1, ahead: 8}) },
		"another first": func(l []step) []step { l[0].offset = 512; return l },
		"another grid":  func(l []step) []step { l[7].groups++; return l },
		"another last":  func(l []step) []step { l[11].buffer = 0; return l },
		"other rows":    func(l []step) []step { l[5].rows = 2; return l },
		"another hint":  func(l []step) []step { l[5].ahead = 1; return l },
	} {
		list := change(steps(12))
		cb := r.record(list)
		require.Nil(t, cb.unfollow(), name)
		require.Len(t, cb.work, len(list), name)
		for k, s := range list {
			require.Equal(t, r.dispatch(s), cb.work[k].key.dispatch, name)
			require.Equal(t, s.groups, cb.work[k].launch.Grid[0], name)
			require.Equal(t, s.offset, cb.work[k].launch.Offsets[0], name)
			require.Same(t, r.buffers[s.buffer].mem, cb.work[k].launch.Args[0], name)
			require.Equal(t, Ahead{Bytes: 8, Rows: s.rows, Each: s.ahead}, cb.work[k].launch.Ahead, name)
		}
		cb.Discard()
		r.idle()
	}
}

// Of several sequences with the same beginning the one is repeated that goes on so.
func TestRepeatsOneOfSeveral(t *testing.T) {
	r := newRecorder(t)
	first, second := steps(12), steps(12)
	second[9].groups = 100
	repeated := func(l []step) *sequence {
		cb := r.record(l)
		defer cb.Discard()
		return cb.unfollow()
	}
	one, two := r.kept(first), r.kept(second)
	require.Same(t, one, repeated(first))
	require.Same(t, two, repeated(second))
	require.Nil(t, repeated(steps(9)))
	three := r.kept(steps(9))
	require.Same(t, three, repeated(steps(9)))
	require.Same(t, one, repeated(first))
	short := r.record(steps(shortest - 1))
	require.Nil(t, short.unfollow())
	short.keep(nil)
	short.Discard()
	require.Len(t, r.d.driver.sequences.all(), 3, "too short to be kept")

	for k := range sequences {
		r.kept(steps(20 + k))
	}
	require.Len(t, r.d.driver.sequences.all(), sequences)
	require.Nil(t, repeated(first), "dropped for later ones")
}

// A sequence does not outlive what it uses: a buffer of it that was released is an
// error as it is without.
func TestRepeatsNothingReleased(t *testing.T) {
	r := newRecorder(t)
	all := steps(12)
	r.kept(all)
	r.buffers[2].Release()
	cb := r.record(all[:2])
	err := cb.Dispatch(r.dispatch(all[2]))
	require.ErrorContains(t, err, `buffer "b2" was released`)
	require.Len(t, cb.work, 2)
	require.NoError(t, cb.Dispatch(r.dispatch(all[3])), "the command buffer stays usable")
	require.Len(t, cb.work, 3)
	cb.Discard()
	r.idle()
	r.pipeline.released = true
	cb = r.record(nil)
	require.ErrorContains(t, cb.Dispatch(r.dispatch(all[0])), "released")
}

// A copy is no part of a sequence.
func TestRepeatsNoCopies(t *testing.T) {
	r := newRecorder(t)
	r.kept(steps(12))
	cb := r.record(steps(12))
	require.NoError(t, cb.Copy(r.buffers[0], 0, r.buffers[1], 0, 16))
	require.Nil(t, cb.unfollow())
	require.Len(t, cb.work, 13)
	require.Equal(t, 12, cb.work[11].launch.Grid[0])
	require.Equal(t, 16, cb.work[12].copy.n)
	cb.keep(nil)
	require.Len(t, r.d.driver.sequences.all(), 1)
	cb.Discard()
	r.idle()
}
