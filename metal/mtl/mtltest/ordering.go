package mtltest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// Ordering checks what barriers and submits order, and that results repeat.
func Ordering() []Check {
	return []Check{
		{"ordering/a chain with barriers", func(t T, d mtl.Device) {
			k := kit{t, d}
			affine := k.pipeline("basic.metal", "affine", nil)
			const n = 1000
			x := k.words("x", count(1, n)...)
			want := count(1, n)
			cb := k.commands("chain")
			for i := range uint32(25) {
				k.dispatch(cb, line("step", affine, n, 64, whole(0, x, mtl.ReadWrite), inline(1, 3+i, i)))
				cb.Barrier()
				for j := range want {
					want[j] = want[j]*(3+i) + i
				}
			}
			k.submit(cb)
			require.Equal(t, want, k.read(x))
		}},
		{"ordering/a chain through buffers", func(t T, d mtl.Device) {
			k := kit{t, d}
			add := k.pipeline("basic.metal", "add", nil)
			const n = 500
			a, b := k.words("a", count(0, n)...), k.empty("b", 4*n)
			cb := k.commands("ping-pong")
			for range 8 {
				k.dispatch(cb, line("there", add, n, 32, whole(0, a, mtl.Read), whole(1, b, mtl.Output), inline(2, 1)))
				cb.Barrier()
				k.dispatch(cb, line("back", add, n, 32, whole(0, b, mtl.Read), whole(1, a, mtl.Output), inline(2, 10)))
				cb.Barrier()
			}
			k.submit(cb)
			require.Equal(t, count(88, n), k.read(a))
			require.Equal(t, count(78, n), k.read(b))
		}},
		{"ordering/independent dispatches without a barrier", func(t T, d mtl.Device) {
			k := kit{t, d}
			fill := k.pipeline("basic.metal", "fill", nil)
			out := k.empty("out", 4*64*20)
			cb := k.commands("independent")
			for i := range 20 {
				part := mtl.Binding{Index: 0, Buffer: out, Offset: 256 * i, Length: 256, Access: mtl.Output}
				k.dispatch(cb, line("part", fill, 64, 32, part, inline(1, uint32(i))))
			}
			k.submit(cb)
			for i, v := range k.read(out) {
				require.Equal(t, uint32(i/64), v)
			}
		}},
		{"ordering/barriers without work", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.empty("x", 16)
			cb := k.commands("barriers")
			cb.Barrier()
			cb.Barrier()
			k.dispatch(cb, line("fill", k.pipeline("basic.metal", "fill", nil), 4, 4, whole(0, x, mtl.Output), inline(1, 1)))
			cb.Barrier()
			cb.Barrier()
			k.submit(cb)
			require.Equal(t, times(4, 1), k.read(x))
			empty := k.commands("empty")
			k.submit(empty)
			empty = k.commands("only barriers")
			empty.Barrier()
			k.submit(empty)
		}},
		{"ordering/submits", func(t T, d mtl.Device) {
			k := kit{t, d}
			affine := k.pipeline("basic.metal", "affine", nil)
			x := k.words("x", count(0, 100)...)
			want := count(0, 100)
			for i := range uint32(6) {
				k.run(line("step", affine, 100, 32, whole(0, x, mtl.ReadWrite), inline(1, 5, i)))
				for j := range want {
					want[j] = want[j]*5 + i
				}
			}
			require.Equal(t, want, k.read(x))
		}},
		{"ordering/command buffers run in the order of submits", func(t T, d mtl.Device) {
			k := kit{t, d}
			affine := k.pipeline("basic.metal", "affine", nil)
			x := k.words("x", 1)
			first, second := k.commands("first"), k.commands("second")
			k.dispatch(second, line("second", affine, 1, 1, whole(0, x, mtl.ReadWrite), inline(1, 10, 2)))
			k.dispatch(first, line("first", affine, 1, 1, whole(0, x, mtl.ReadWrite), inline(1, 10, 1)))
			k.submit(first)
			k.submit(second)
			require.Equal(t, []uint32{112}, k.read(x))
		}},
		{"ordering/the same bits again", func(t T, d mtl.Device) {
			k := kit{t, d}
			p := k.pipeline("basic.metal", "dots", nil)
			const rows = 64
			values := make([]uint32, rows*128)
			state := uint32(1)
			for i := range values {
				state = state*1664525 + 1013904223
				values[i] = 0x3f000000 | state>>9 // in [0.5, 1)
			}
			x := k.words("x", values...)
			var first []uint32
			for range 3 {
				sum := k.empty("sum", 4*rows)
				k.run(mtl.Dispatch{Label: "dots", Pipeline: p, Bindings: []mtl.Binding{whole(0, x, mtl.Read), whole(1, sum, mtl.Output)},
					Threadgroups: mtl.Size{X: rows / 4, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 128, Y: 1, Z: 1}})
				got := k.read(sum)
				if first == nil {
					first = got
				}
				require.Equal(t, first, got)
			}
			terms := floatsOf(values)
			for row, sum := range floatsOf(first) {
				exact := 0.0
				for i := range 128 {
					exact += float64(terms[row*128+i]) * float64(terms[i])
				}
				// 128 positive terms in any order: at most 128 roundings of half a unit
				// each of a sum.
				require.InEpsilon(t, exact, float64(sum), 128*0x1p-24)
			}
		}},
		{"ordering/goroutines with command buffers of their own", func(t T, d mtl.Device) {
			k := kit{t, d}
			affine := k.pipeline("basic.metal", "affine", nil)
			const workers, steps = 6, 5
			got := make([][]uint32, workers)
			errs := make([]error, workers)
			var wait sync.WaitGroup
			for w := range workers {
				wait.Go(func() { got[w], errs[w] = chain(d, affine, uint32(w), steps) })
			}
			wait.Wait()
			for w := range workers {
				require.NoError(t, errs[w])
				want := count(uint32(w), 64)
				for i := range uint32(steps) {
					for j := range want {
						want[j] = want[j]*7 + i
					}
				}
				require.Equal(t, want, got[w])
			}
		}},
	}
}

// chain runs steps of x = 7x + i on 64 numbers, without a T, for goroutines.
func chain(d mtl.Device, affine mtl.Pipeline, first uint32, steps int) ([]uint32, error) {
	x, err := d.NewBuffer(256, "x")
	if err != nil {
		return nil, err
	}
	defer x.Release()
	if err := x.Write(0, bytesOf(count(first, 64))); err != nil {
		return nil, err
	}
	for i := range steps {
		cb, err := d.NewCommandBuffer("worker")
		if err != nil {
			return nil, err
		}
		if err := cb.Dispatch(line("step", affine, 64, 32, whole(0, x, mtl.ReadWrite), inline(1, 7, uint32(i)))); err != nil {
			return nil, err
		}
		if _, err := cb.Submit(context.Background()); err != nil {
			return nil, err
		}
	}
	data := make([]byte, 256)
	err = x.Read(0, data)
	return wordsOf(data), err
}
