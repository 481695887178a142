package mtltest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// Failures checks deadlines, cancelled submits, and what errors say. The process
// and the device go on after each of them.
func Failures() []Check {
	return []Check{
		{"failures/a kernel that never ends", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 0, 0)
			cb := k.commands("the hang")
			k.dispatch(cb, line("spin blk.3", k.pipeline("forever.metal", "forever", nil), 1, 1, whole(0, x, mtl.ReadWrite)))
			failed := k.fails(cb, 300*time.Millisecond, context.DeadlineExceeded)
			require.Equal(t, "the hang", failed.Label)
			require.Equal(t, []string{"spin blk.3"}, failed.Last)
			require.NotEmpty(t, failed.Status)
			for _, part := range []string{"the hang", "spin blk.3", failed.Status} {
				require.Contains(t, failed.Error(), part)
			}
			k.works()
			require.Len(t, k.read(x), 2, "the buffer is the host's again")
		}},
		{"failures/the label ring", func(t T, d mtl.Device) {
			k := kit{t, d}
			fill := k.pipeline("basic.metal", "fill", nil)
			x, y := k.words("x", 0, 0), k.empty("y", 16)
			cb := k.commands("ring")
			var labels []string
			for i := range 40 {
				labels = append(labels, fmt.Sprintf("step %d", i))
				k.dispatch(cb, line(labels[i], fill, 4, 4, whole(0, y, mtl.Output), inline(1, uint32(i))))
				cb.Barrier()
			}
			labels = append(labels, "the last")
			k.dispatch(cb, line("the last", k.pipeline("forever.metal", "forever", nil), 1, 1, whole(0, x, mtl.ReadWrite)))
			failed := k.fails(cb, 300*time.Millisecond, context.DeadlineExceeded)
			require.Equal(t, labels[len(labels)-mtl.LabelRing:], failed.Last)
			k.works()
		}},
		{"failures/many threads that never end", func(t T, d mtl.Device) {
			k := kit{t, d}
			p := k.pipeline("forever.metal", "forever", nil)
			cb := k.commands("many")
			for range 3 {
				x := k.words("x", 0, 0)
				k.dispatch(cb, line("spin", p, 1, 1, whole(0, x, mtl.ReadWrite)))
			}
			k.fails(cb, 300*time.Millisecond, context.DeadlineExceeded)
			k.works()
		}},
		{"failures/cancelled while it runs", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 0, 0)
			cb := k.commands("cancelled")
			k.dispatch(cb, line("spin", k.pipeline("forever.metal", "forever", nil), 1, 1, whole(0, x, mtl.ReadWrite)))
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(200*time.Millisecond, cancel)
			start := time.Now()
			_, err := cb.Submit(ctx)
			require.Less(t, time.Since(start), mtl.DefaultDeadline)
			var failed *mtl.SubmitError
			require.True(t, errors.As(err, &failed), "want a *mtl.SubmitError, found %v", err)
			require.ErrorIs(t, err, context.Canceled)
			k.works()
		}},
		{"failures/cancelled before it runs", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 0)
			cb := k.commands("early")
			k.dispatch(cb, line("fill", k.pipeline("basic.metal", "fill", nil), 1, 1, whole(0, x, mtl.Output), inline(1, 5)))
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := cb.Submit(ctx)
			var failed *mtl.SubmitError
			require.True(t, errors.As(err, &failed), "want a *mtl.SubmitError, found %v", err)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, []uint32{0}, k.read(x), "nothing ran, and nothing is pending")
			k.works()
		}},
		{"failures/a deadline that is not reached", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.empty("x", 16)
			cb := k.commands("in time")
			k.dispatch(cb, line("fill", k.pipeline("basic.metal", "fill", nil), 4, 4, whole(0, x, mtl.Output), inline(1, 5)))
			k.submit(cb)
			require.Equal(t, times(4, 5), k.read(x))
		}},
	}
}

// fails submits what must end with the cause soon after the deadline.
func (k kit) fails(cb mtl.CommandBuffer, deadline time.Duration, cause error) *mtl.SubmitError {
	k.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	_, err := cb.Submit(ctx)
	took := time.Since(start)
	var failed *mtl.SubmitError
	require.True(k, errors.As(err, &failed), "want a *mtl.SubmitError, found %v", err)
	require.ErrorIs(k, err, cause)
	require.GreaterOrEqual(k, took, deadline, "it did not run until the deadline")
	require.Less(k, took, deadline+mtl.DefaultDeadline, "it did not end with the context's deadline")
	return failed
}

// works checks that the device still does its work.
func (k kit) works() {
	k.Helper()
	x := k.empty("still works", 400)
	k.run(line("after", k.pipeline("basic.metal", "fill", nil), 100, 32, whole(0, x, mtl.Output), inline(1, 6)))
	require.Equal(k, times(100, 6), k.read(x))
}
