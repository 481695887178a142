package mtltest

import (
	"context"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// Lifetimes checks pending work, released objects and objects of another device.
func Lifetimes() []Check {
	// fill records one launch that writes x.
	fill := func(k kit, x mtl.Buffer) mtl.Dispatch {
		return line("fill", k.pipeline("basic.metal", "fill", nil), 4, 4, whole(0, x, mtl.Output), inline(1, 5))
	}
	return []Check{
		{"lifetimes/host access to pending buffers", func(t T, d mtl.Device) {
			k := kit{t, d}
			x, y, z, idle := k.words("out of bounds to the host", 1, 2, 3, 4), k.words("source", 9), k.words("target", 0), k.words("idle", 3)
			cb := k.commands("pending")
			k.dispatch(cb, fill(k, x))
			require.NoError(t, cb.Copy(z, 0, y, 0, 4))
			for _, b := range []mtl.Buffer{x, y, z} {
				require.ErrorContains(t, b.Read(0, make([]byte, 4)), b.Label())
				require.ErrorContains(t, b.Write(0, make([]byte, 4)), b.Label())
			}
			require.Equal(t, []uint32{3}, k.read(idle))
			require.NoError(t, idle.Write(0, make([]byte, 4)))
			k.submit(cb)
			require.Equal(t, times(4, 5), k.read(x))
			require.Equal(t, []uint32{9}, k.read(z))
			require.NoError(t, x.Write(0, make([]byte, 16)))
		}},
		{"lifetimes/pending in two command buffers", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 1, 2, 3, 4)
			a, b := k.commands("a"), k.commands("b")
			k.dispatch(a, fill(k, x))
			k.dispatch(b, fill(k, x))
			k.submit(a)
			require.Error(t, x.Read(0, make([]byte, 4)), "b is still pending")
			k.submit(b)
			require.Equal(t, times(4, 5), k.read(x))
		}},
		{"lifetimes/a refused launch leaves nothing pending", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 1, 2, 3, 4)
			cb := k.commands("refused")
			bad := fill(k, x)
			bad.ThreadsPerThreadgroup.X = 0
			k.refused(cb, bad)
			require.Error(t, cb.Copy(x, 0, x, 0, 4))
			require.Equal(t, []uint32{1, 2, 3, 4}, k.read(x))
			cb.Discard()
		}},
		{"lifetimes/discard", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 1, 2, 3, 4)
			cb := k.commands("discarded")
			k.dispatch(cb, fill(k, x))
			cb.Discard()
			cb.Discard()
			require.Equal(t, []uint32{1, 2, 3, 4}, k.read(x))
			require.Error(t, cb.Dispatch(fill(k, x)))
			_, err := cb.Submit(context.Background())
			require.ErrorContains(t, err, "discarded")
			require.Equal(t, []uint32{1, 2, 3, 4}, k.read(x))
		}},
		{"lifetimes/submit twice", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 1, 2, 3, 4)
			cb := k.commands("once")
			k.dispatch(cb, fill(k, x))
			k.submit(cb)
			require.NoError(t, x.Write(0, bytesOf(times(4, 0))))
			_, err := cb.Submit(context.Background())
			require.ErrorContains(t, err, "once")
			require.Error(t, cb.Dispatch(fill(k, x)))
			require.Error(t, cb.Copy(x, 0, x, 8, 4))
			cb.Barrier()
			cb.Discard()
			require.Equal(t, times(4, 0), k.read(x), "nothing ran again, and nothing is pending")
		}},
		{"lifetimes/released buffers", func(t T, d mtl.Device) {
			k := kit{t, d}
			gone, x := k.words("gone", 1, 2, 3, 4), k.words("x", 0)
			gone.Release()
			gone.Release()
			require.ErrorContains(t, gone.Read(0, make([]byte, 4)), "gone")
			require.ErrorContains(t, gone.Write(0, make([]byte, 4)), "gone")
			require.Nil(t, gone.Mapped())
			require.Equal(t, "gone", gone.Label())
			cb := k.commands("after")
			require.ErrorContains(t, cb.Dispatch(fill(k, gone)), "gone")
			require.ErrorContains(t, cb.Copy(x, 0, gone, 0, 4), "gone")
			require.ErrorContains(t, cb.Copy(gone, 0, x, 0, 4), "gone")
			k.submit(cb)
		}},
		{"lifetimes/released with work recorded", func(t T, d mtl.Device) {
			k := kit{t, d}
			a, b := k.words("a", 1, 2, 3, 4), k.words("b", 0, 0, 0, 0)
			p := k.pipeline("basic.metal", "add", nil)
			cb := k.commands("outlives")
			k.dispatch(cb, line("add", p, 4, 4, whole(0, a, mtl.Read), whole(1, b, mtl.Output), inline(2, 1)))
			a.Release()
			p.Release()
			k.submit(cb)
			require.Equal(t, []uint32{2, 3, 4, 5}, k.read(b))
		}},
		{"lifetimes/released pipelines", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 1, 2, 3, 4)
			launch := fill(k, x)
			launch.Pipeline.Release()
			launch.Pipeline.Release()
			cb := k.commands("after")
			require.Error(t, cb.Dispatch(launch))
			k.submit(cb)
			require.Equal(t, []uint32{1, 2, 3, 4}, k.read(x))
		}},
		{"lifetimes/released libraries", func(t T, d mtl.Device) {
			k := kit{t, d}
			lib := k.library("basic.metal")
			p, err := lib.Pipeline("fill", nil)
			require.NoError(t, err)
			lib.Release()
			lib.Release()
			_, err = lib.Pipeline("fill", nil)
			require.Error(t, err)
			x := k.empty("x", 16)
			k.run(line("fill", p, 4, 4, whole(0, x, mtl.Output), inline(1, 5)))
			require.Equal(t, times(4, 5), k.read(x), "its pipelines live on")
		}},
		{"lifetimes/objects of something else", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.words("x", 1, 2, 3, 4)
			cb := k.commands("foreign")
			strange := fill(k, foreignBuffer{x})
			require.ErrorContains(t, cb.Dispatch(strange), `"x"`)
			strange = fill(k, x)
			strange.Pipeline = foreignPipeline{strange.Pipeline}
			require.ErrorContains(t, cb.Dispatch(strange), "fill")
			require.Error(t, cb.Copy(foreignBuffer{x}, 0, x, 8, 4))
			require.Error(t, cb.Copy(x, 0, foreignBuffer{x}, 8, 4))
			require.Error(t, cb.Copy(nil, 0, x, 0, 4))
			require.Error(t, cb.Copy(x, 0, nil, 0, 4))
			k.submit(cb)
			require.Equal(t, []uint32{1, 2, 3, 4}, k.read(x))
		}},
		{"lifetimes/closed device", func(t T, d mtl.Device) {
			require.NoError(t, d.Close())
			_, err := d.NewBuffer(16, "late")
			require.Error(t, err)
			_, err = d.NewCommandBuffer("late")
			require.Error(t, err)
			_, err = d.Compile(context.Background(), kit{t, d}.source("basic.metal"))
			require.Error(t, err)
			_, err = d.WrapNoCopy(pages(d.Limits().PageSize, d.Limits().PageSize), "late")
			require.Error(t, err)
		}},
	}
}

// foreignBuffer and foreignPipeline are no device's own.
type (
	foreignBuffer   struct{ mtl.Buffer }
	foreignPipeline struct{ mtl.Pipeline }
)
