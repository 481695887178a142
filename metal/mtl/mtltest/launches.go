package mtltest

import (
	"math"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// Launches checks that launches which Metal refuses are errors when they are
// recorded, and harm nothing.
func Launches() []Check {
	type scene struct {
		kit
		d   mtl.Dispatch // legal
		dst mtl.Buffer
	}
	refusals := []struct {
		name   string
		kind   mtl.LaunchKind
		breaks func(s *scene)
	}{
		{"no grid", mtl.InvalidLaunch, func(s *scene) { s.d.Threads = mtl.Size{} }},
		{"two grids", mtl.InvalidLaunch, func(s *scene) { s.d.Threadgroups = mtl.Size{X: 1, Y: 1, Z: 1} }},
		{"empty grid", mtl.InvalidLaunch, func(s *scene) { s.d.Threads.Y = 0 }},
		{"negative grid", mtl.InvalidLaunch, func(s *scene) { s.d.Threads.X = -4 }},
		{"grid of 2^32 threads", mtl.InvalidLaunch, func(s *scene) {
			s.d.Threads, s.d.Threadgroups = mtl.Size{}, mtl.Size{X: 1 << 31, Y: 1, Z: 1}
		}},
		{"empty threadgroup", mtl.InvalidLaunch, func(s *scene) { s.d.ThreadsPerThreadgroup.Z = 0 }},
		{"more threads than the device has", mtl.InvalidLaunch, func(s *scene) {
			s.d.ThreadsPerThreadgroup = mtl.Size{X: s.kit.d.Limits().MaxThreadsPerThreadgroup, Y: 2, Z: 1}
		}},
		{"more threads than the kernel allows", mtl.InvalidLaunch, func(s *scene) {
			s.d.Pipeline = s.pipeline("limited.metal", "limited", nil)
			s.d.ThreadsPerThreadgroup = mtl.Size{X: 65, Y: 1, Z: 1}
		}},
		{"buffer index 31", mtl.InvalidLaunch, func(s *scene) {
			s.d.Bindings = append(s.d.Bindings, whole(s.kit.d.Limits().MaxBuffers, s.dst, mtl.Read))
		}},
		{"buffer index -1", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings = append(s.d.Bindings, whole(-1, s.dst, mtl.Read)) }},
		{"buffer index twice", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings = append(s.d.Bindings, whole(0, s.dst, mtl.Read)) }},
		{"missing argument", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings = s.d.Bindings[1:] }},
		{"missing inline argument", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings = s.d.Bindings[:2] }},
		{"nothing in a binding", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[0] = mtl.Binding{} }},
		{"buffer and bytes", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[0].Bytes = []byte{1, 2, 3, 4} }},
		{"4100 inline bytes", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[2].Bytes = make([]byte, 4100) }},
		{"offset negative", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[1].Offset = -4 }},
		{"offset past the end", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[1].Offset = s.dst.Size() + 4 }},
		{"offset between elements", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[1].Offset, s.d.Bindings[1].Length = 2, 4 }},
		{"length past the end", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[1].Offset = 4 }},
		{"length that overflows", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[1].Offset, s.d.Bindings[1].Length = 4, math.MaxInt }},
		{"no length", mtl.InvalidLaunch, func(s *scene) { s.d.Bindings[1].Length = 0 }},
		{"less than an element", mtl.TypeMismatch, func(s *scene) { s.d.Bindings[1].Length = 3 }},
		{"8 inline bytes for 4", mtl.TypeMismatch, func(s *scene) { s.d.Bindings[2] = inline(2, 1, 2) }},
		{"2 inline bytes for 4", mtl.TypeMismatch, func(s *scene) { s.d.Bindings[2].Bytes = []byte{1, 2} }},
		{"float elements for integers", mtl.TypeMismatch, func(s *scene) { s.d.Bindings[0].Type = mtl.Float32 }},
		{"16-bit elements for 32-bit ones", mtl.TypeMismatch, func(s *scene) { s.d.Bindings[0].Type = mtl.Uint16 }},
		{"threadgroup memory not of 16 bytes", mtl.InvalidLaunch, func(s *scene) { s.d.ThreadgroupMemory = []int{24} }},
		{"threadgroup memory negative", mtl.InvalidLaunch, func(s *scene) { s.d.ThreadgroupMemory = []int{-16} }},
		{"threadgroup memory beyond the limit", mtl.InvalidLaunch, func(s *scene) {
			s.d.ThreadgroupMemory = []int{s.kit.d.Limits().MaxThreadgroupMemory + 16}
		}},
		{"threadgroup memory missing", mtl.InvalidLaunch, func(s *scene) { s.d.Pipeline = s.pipeline("threadgroup.metal", "reverse", nil) }},
	}
	checks := []Check{
		{"launches/no pipeline", func(t T, d mtl.Device) {
			k := kit{t, d}
			cb := k.commands("none")
			require.Error(t, cb.Dispatch(line("none", nil, 1, 1)))
			k.submit(cb)
		}},
		{"launches/largest threadgroup", func(t T, d mtl.Device) {
			k := kit{t, d}
			fill := k.pipeline("basic.metal", "fill", nil)
			n := fill.MaxThreadsPerThreadgroup()
			x := k.empty("x", 4*n)
			k.run(line("fill", fill, n, n, whole(0, x, mtl.Output), inline(1, 7)))
			require.Equal(t, times(n, 7), k.read(x))
			limited := k.pipeline("limited.metal", "limited", nil)
			k.run(line("limited", limited, 64, 64, whole(0, x, mtl.Write)))
			require.Equal(t, count(0, 64), k.read(x)[:64])
		}},
	}
	for _, r := range refusals {
		checks = append(checks, Check{"launches/refused: " + r.name, func(t T, d mtl.Device) {
			k := kit{t, d}
			src, dst, after := k.words("src", 5, 6), k.words("dst", 0, 0), k.words("after", 0, 0)
			legal := func(label string, dst mtl.Buffer) mtl.Dispatch {
				return line(label, k.pipeline("basic.metal", "add", nil), 2, 2, whole(0, src, mtl.Read), whole(1, dst, mtl.Output), inline(2, 1))
			}
			s := &scene{kit: k, d: legal("broken", dst), dst: dst}
			r.breaks(s)
			cb := k.commands("mixed")
			require.Equal(t, r.kind, k.refused(cb, s.d).Kind)
			k.dispatch(cb, legal("legal", after))
			k.submit(cb)
			require.Equal(t, []uint32{0, 0}, k.read(dst), "the refused launch does not run")
			require.Equal(t, []uint32{6, 7}, k.read(after), "the others do")
		}})
	}
	return checks
}

// Bindings checks what a kernel sees of its arguments.
func Bindings() []Check {
	return []Check{
		{"bindings/offsets", func(t T, d mtl.Device) {
			k := kit{t, d}
			add := k.pipeline("basic.metal", "add", nil)
			for _, off := range []int{0, 4, 12, 36} {
				src, dst := k.words("src", count(0, 16)...), k.words("dst", times(16, 77)...)
				k.run(line("add", add, 6, 4,
					mtl.Binding{Index: 0, Buffer: src, Offset: off, Length: 24},
					mtl.Binding{Index: 1, Buffer: dst, Offset: 40 - off, Length: 24, Access: mtl.Output}, inline(2, 1000)))
				want := times(16, 77)
				copy(want[10-off/4:], count(1000+uint32(off/4), 6))
				require.Equal(t, want, k.read(dst))
				require.Equal(t, count(0, 16), k.read(src), "inputs keep their values")
			}
		}},
		{"bindings/two windows of one buffer", func(t T, d mtl.Device) {
			k := kit{t, d}
			b := k.words("b", count(0, 8)...)
			k.run(line("add", k.pipeline("basic.metal", "add", nil), 4, 4,
				mtl.Binding{Index: 0, Buffer: b, Length: 16},
				mtl.Binding{Index: 1, Buffer: b, Offset: 16, Length: 16, Access: mtl.Output}, inline(2, 10)))
			require.Equal(t, []uint32{0, 1, 2, 3, 10, 11, 12, 13}, k.read(b))
		}},
		{"bindings/in place", func(t T, d mtl.Device) {
			k := kit{t, d}
			b := k.words("b", count(0, 8)...)
			k.run(line("add", k.pipeline("basic.metal", "add", nil), 8, 8, whole(0, b, mtl.Read), whole(1, b, mtl.Output), inline(2, 1)))
			require.Equal(t, count(1, 8), k.read(b))
		}},
		{"bindings/constants from a buffer", func(t T, d mtl.Device) {
			k := kit{t, d}
			src, dst, by := k.words("src", 1, 2), k.words("dst", 0, 0), k.words("by", 0, 0, 30)
			k.run(line("add", k.pipeline("basic.metal", "add", nil), 2, 2, whole(0, src, mtl.Read), whole(1, dst, mtl.Output),
				mtl.Binding{Index: 2, Buffer: by, Offset: 8, Length: 4}))
			require.Equal(t, []uint32{31, 32}, k.read(dst))
		}},
		{"bindings/index 30 and 4096 inline bytes", func(t T, d mtl.Device) {
			k := kit{t, d}
			dst := k.empty("dst", mtl.MaxInlineBytes)
			k.run(line("last", k.pipeline("basic.metal", "last_buffer", nil), 1024, 256, whole(0, dst, mtl.Output), inline(30, count(5, 1024)...)))
			want := make([]uint32, 1024)
			for i := range want {
				want[i] = uint32(5 + 1023 - i)
			}
			require.Equal(t, want, k.read(dst))
		}},
		{"bindings/what is recorded is copied", func(t T, d mtl.Device) {
			k := kit{t, d}
			fill := k.pipeline("basic.metal", "fill", nil)
			x := k.empty("x", 16)
			launch := line("fill", fill, 4, 4, whole(0, x, mtl.Output), inline(1, 3))
			cb := k.commands("fill")
			k.dispatch(cb, launch)
			launch.Bindings[1].Bytes[0] = 99
			launch.Bindings[0] = mtl.Binding{}
			k.submit(cb)
			require.Equal(t, times(4, 3), k.read(x))
		}},
		{"bindings/more than the kernel takes", func(t T, d mtl.Device) {
			k := kit{t, d}
			x, y := k.empty("x", 16), k.words("y", 1)
			k.run(line("fill", k.pipeline("basic.metal", "fill", nil), 4, 4, whole(0, x, mtl.Output), inline(1, 3), whole(2, y, mtl.Write), inline(9, 1)))
			require.Equal(t, times(4, 3), k.read(x))
			require.Equal(t, []uint32{1}, k.read(y))
		}},
		{"bindings/signedness does not matter", func(t T, d mtl.Device) {
			k := kit{t, d}
			x := k.empty("x", 8)
			value := mtl.Binding{Index: 1, Bytes: bytesOf([]uint32{math.MaxUint32}), Type: mtl.Int32}
			k.run(line("fill", k.pipeline("basic.metal", "fill", nil), 2, 2, whole(0, x, mtl.Output), value))
			require.Equal(t, times(2, math.MaxUint32), k.read(x))
		}},
	}
}
