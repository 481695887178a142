package mtltest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// attributeWords is the number of uints in grid.metal's struct Attributes.
const attributeWords = 7*3 + 7

// Grids checks the shapes of grids and what threads know of their place.
func Grids() []Check {
	one := func(x int) mtl.Size { return mtl.Size{X: x, Y: 1, Z: 1} }
	shapes := []struct {
		ragged bool
		grid   mtl.Size // threads where ragged, threadgroups otherwise
		per    mtl.Size
	}{
		{false, one(1), one(1)},
		{false, one(3), one(32)},
		{false, one(2), one(33)},
		{false, one(2), one(1)},
		{false, mtl.Size{X: 2, Y: 3, Z: 2}, mtl.Size{X: 5, Y: 3, Z: 2}},
		{false, mtl.Size{X: 1, Y: 2, Z: 1}, mtl.Size{X: 8, Y: 8, Z: 1}},
		{false, mtl.Size{X: 1, Y: 1, Z: 3}, mtl.Size{X: 1, Y: 1, Z: 64}},
		{false, one(1), mtl.Size{X: 16, Y: 8, Z: 4}},
		{true, one(1), one(32)},
		{true, one(64), one(32)},
		{true, one(100), one(64)},
		{true, one(65), one(64)},
		{true, one(31), one(512)},
		{true, mtl.Size{X: 7, Y: 5, Z: 3}, mtl.Size{X: 4, Y: 2, Z: 2}},
		{true, mtl.Size{X: 40, Y: 3, Z: 1}, mtl.Size{X: 32, Y: 2, Z: 1}},
		{true, mtl.Size{X: 1, Y: 37, Z: 1}, mtl.Size{X: 1, Y: 36, Z: 1}},
		{true, mtl.Size{X: 2, Y: 2, Z: 9}, mtl.Size{X: 3, Y: 3, Z: 8}},
	}
	checks := []Check{
		{"grids/two components", func(t T, d mtl.Device) {
			k := kit{t, d}
			out := k.empty("out", 4*13*7)
			k.run(mtl.Dispatch{
				Label: "plane", Pipeline: k.pipeline("grid.metal", "plane", nil), Bindings: []mtl.Binding{whole(0, out, mtl.Output)},
				Threads: mtl.Size{X: 13, Y: 7, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: 8, Y: 4, Z: 1},
			})
			var want []uint32
			for y := range uint32(7) {
				for x := range uint32(13) {
					want = append(want, x|y<<16)
				}
			}
			require.Equal(t, want, k.read(out))
		}},
		{"grids/one component of 16 bits", func(t T, d mtl.Device) {
			k := kit{t, d}
			out := k.empty("out", 100)
			k.run(line("line", k.pipeline("grid.metal", "line", nil), 50, 32, whole(0, out, mtl.Output)))
			data := make([]byte, 100)
			require.NoError(t, out.Read(0, data))
			for i := range 50 {
				require.Equal(t, uint16(3*i), uint16(data[2*i])|uint16(data[2*i+1])<<8)
			}
		}},
		{"grids/many threadgroups", func(t T, d mtl.Device) {
			k := kit{t, d}
			const n = 70001 // beyond 16 bits, and ragged
			out := k.empty("out", 4*n)
			k.run(line("fill", k.pipeline("basic.metal", "fill", nil), n, 2, whole(0, out, mtl.Output), inline(1, 9)))
			require.Equal(t, times(n, 9), k.read(out))
		}},
		{"grids/every thread runs once", func(t T, d mtl.Device) {
			k := kit{t, d}
			total := k.words("total", 0)
			k.run(mtl.Dispatch{
				Label: "count", Pipeline: k.pipeline("basic.metal", "count", nil), Bindings: []mtl.Binding{whole(0, total, mtl.ReadWrite)},
				Threads: mtl.Size{X: 33, Y: 5, Z: 7}, ThreadsPerThreadgroup: mtl.Size{X: 10, Y: 3, Z: 2},
			})
			require.Equal(t, []uint32{33 * 5 * 7}, k.read(total))
		}},
	}
	for _, s := range shapes {
		name := fmt.Sprintf("grids/%v threadgroups of %v", s.grid, s.per)
		if s.ragged {
			name = fmt.Sprintf("grids/%v threads by %v", s.grid, s.per)
		}
		checks = append(checks, Check{name, func(t T, d mtl.Device) { checkAttributes(kit{t, d}, s.ragged, s.grid, s.per) }})
	}
	return checks
}

func checkAttributes(k kit, ragged bool, grid, per mtl.Size) {
	launch := mtl.Dispatch{Label: "attributes", Pipeline: k.pipeline("grid.metal", "attributes", nil), ThreadsPerThreadgroup: per}
	threads := grid
	if ragged {
		launch.Threads = grid
	} else {
		launch.Threadgroups = grid
		threads = mtl.Size{X: grid.X * per.X, Y: grid.Y * per.Y, Z: grid.Z * per.Z}
	}
	out := k.empty("out", 4*attributeWords*threads.Count())
	launch.Bindings = []mtl.Binding{whole(0, out, mtl.Output)}
	k.run(launch)
	got := k.read(out)
	for z := range threads.Z {
		for y := range threads.Y {
			for x := range threads.X {
				at := x + threads.X*(y+threads.Y*z)
				want := attributesOf([3]int{x, y, z}, [3]int{threads.X, threads.Y, threads.Z}, [3]int{per.X, per.Y, per.Z})
				require.Equal(k, want, got[at*attributeWords:(at+1)*attributeWords], "thread %d, %d, %d of %v by %v", x, y, z, threads, per)
			}
		}
	}
}

// attributesOf says what the thread at p of a grid of n threads must see.
func attributesOf(p, n, per [3]int) []uint32 {
	var inGroup, group, size, groups [3]int
	for i := range 3 {
		group[i] = p[i] / per[i]
		inGroup[i] = p[i] % per[i]
		size[i] = min(per[i], n[i]-group[i]*per[i])
		groups[i] = (n[i] + per[i] - 1) / per[i]
	}
	var words []uint32
	for _, v := range [][3]int{p, inGroup, group, n, size, per, groups} {
		words = append(words, uint32(v[0]), uint32(v[1]), uint32(v[2]))
	}
	total := size[0] * size[1] * size[2]
	index := inGroup[0] + size[0]*(inGroup[1]+size[1]*inGroup[2])
	simdgroups := func(threads int) int { return (threads + 31) / 32 }
	for _, v := range []int{index, index % 32, index / 32, simdgroups(total), simdgroups(per[0] * per[1] * per[2]), 32, min(32, total-index/32*32)} {
		words = append(words, uint32(v))
	}
	return words
}

// ThreadgroupMemory checks both kinds of threadgroup memory.
func ThreadgroupMemory() []Check {
	// reversed turns each part of n values around.
	reversed := func(values []uint32, n int) []uint32 {
		out := make([]uint32, len(values))
		for i, v := range values {
			out[i/n*n+n-1-i%n] = v
		}
		return out
	}
	groups := func(label string, p mtl.Pipeline, n, per int, memory []int, bindings ...mtl.Binding) mtl.Dispatch {
		return mtl.Dispatch{Label: label, Pipeline: p, Bindings: bindings, ThreadgroupMemory: memory,
			Threadgroups: mtl.Size{X: n, Y: 1, Z: 1}, ThreadsPerThreadgroup: mtl.Size{X: per, Y: 1, Z: 1}}
	}
	return []Check{
		{"threadgroup memory/sized by the host", func(t T, d mtl.Device) {
			k := kit{t, d}
			p := k.pipeline("threadgroup.metal", "reverse", nil)
			for _, n := range []int{4, 32, 36, 64, 256} {
				src, dst := k.words("src", count(0, 5*n)...), k.empty("dst", 4*5*n)
				k.run(groups("reverse", p, 5, n, []int{4 * n}, whole(0, src, mtl.Read), whole(1, dst, mtl.Output)))
				require.Equal(t, reversed(count(0, 5*n), n), k.read(dst))
			}
		}},
		{"threadgroup memory/two arguments and a variable", func(t T, d mtl.Device) {
			k := kit{t, d}
			src, dst := k.words("src", count(0, 3*64)...), k.empty("dst", 4*3*64)
			k.run(groups("thrice", k.pipeline("threadgroup.metal", "reverse_thrice", nil), 3, 64, []int{256, 256}, whole(0, src, mtl.Read), whole(1, dst, mtl.Output)))
			require.Equal(t, reversed(count(0, 3*64), 64), k.read(dst), "three times is once")
		}},
		{"threadgroup memory/all of it in a variable", func(t T, d mtl.Device) {
			k := kit{t, d}
			dst := k.empty("dst", 128)
			p := k.pipeline("threadgroup.metal", "whole_memory", nil)
			require.Equal(t, 32768, p.StaticThreadgroupMemory())
			k.run(groups("whole", p, 1, 32, nil, whole(0, dst, mtl.Output)))
			want := make([]uint32, 32)
			for i := range want {
				first := uint32((i + 1) % 32 * 256)
				want[i] = 256*first + 255*256/2
			}
			require.Equal(t, want, k.read(dst))
		}},
		{"threadgroup memory/variables and arguments share the limit", func(t T, d mtl.Device) {
			k := kit{t, d}
			dst := k.empty("dst", 128)
			p := k.pipeline("threadgroup.metal", "part_memory", nil)
			rest := d.Limits().MaxThreadgroupMemory - p.StaticThreadgroupMemory()
			k.run(groups("all", p, 1, 32, []int{rest}, whole(0, dst, mtl.Output)))
			want := make([]uint32, 32)
			for i := range want {
				want[i] = uint32(101 * (31 - i))
			}
			require.Equal(t, want, k.read(dst))
			cb := k.commands("more")
			require.Equal(t, mtl.InvalidLaunch, k.refused(cb, groups("more", p, 1, 32, []int{rest + 16}, whole(0, dst, mtl.Output))).Kind)
			cb.Discard()
		}},
		{"threadgroup memory/threadgroups have their own", func(t T, d mtl.Device) {
			k := kit{t, d}
			const n = 300
			src, dst := k.words("src", count(7, n*32)...), k.empty("dst", 4*n*32)
			k.run(groups("many", k.pipeline("threadgroup.metal", "reverse", nil), n, 32, []int{128}, whole(0, src, mtl.Read), whole(1, dst, mtl.Output)))
			require.Equal(t, reversed(count(7, n*32), 32), k.read(dst))
		}},
	}
}
