package mtltest

import (
	"context"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
)

// Devices checks what a device says of itself.
func Devices() []Check {
	return []Check{
		{"device/limits", func(t T, d mtl.Device) {
			require.NotEmpty(t, d.Name())
			l := d.Limits()
			require.GreaterOrEqual(t, l.MaxThreadsPerThreadgroup, 512)
			require.GreaterOrEqual(t, l.MaxThreadgroupMemory, 32<<10)
			require.GreaterOrEqual(t, l.MaxBufferLength, 256<<20)
			require.GreaterOrEqual(t, l.MaxBuffers, 31)
			require.Equal(t, 32, l.SIMDWidth)
			require.GreaterOrEqual(t, l.PageSize, 4096)
			require.Zero(t, l.PageSize&(l.PageSize-1), "page size %d: want a power of two", l.PageSize)
			require.Equal(t, l, d.Limits())
		}},
	}
}

// Libraries checks compilation and the list of kernels.
func Libraries() []Check {
	return []Check{
		{"library/kernels by host name", func(t T, d mtl.Device) {
			k := kit{t, d}
			lib := k.library("names.metal")
			defer lib.Release()
			require.Equal(t, []string{"lone", "raise_f32", "raise_u32"}, lib.Kernels())
		}},
		{"library/instances differ", func(t T, d mtl.Device) {
			k := kit{t, d}
			u := k.words("u", 7, 8)
			f := k.words("f", bitsOf([]float32{7, 8})...)
			k.run(line("u", k.pipeline("names.metal", "raise_u32", nil), 2, 2, whole(0, u, mtl.ReadWrite)),
				line("f", k.pipeline("names.metal", "raise_f32", nil), 2, 2, whole(0, f, mtl.ReadWrite)))
			require.Equal(t, []uint32{8, 9}, k.read(u))
			require.Equal(t, []float32{8, 9}, floatsOf(k.read(f)))
		}},
		{"library/defines", func(t T, d mtl.Device) {
			k := kit{t, d}
			source := k.source("names.metal")
			source.Defines = map[string]string{"AMOUNT": "(2 * 21)"}
			lib, err := d.Compile(context.Background(), source)
			require.NoError(t, err)
			p, err := lib.Pipeline("raise_u32", nil)
			require.NoError(t, err)
			x := k.words("x", 1)
			k.run(line("x", p, 1, 1, whole(0, x, mtl.ReadWrite)))
			require.Equal(t, []uint32{43}, k.read(x))
		}},
		{"library/includes", func(t T, d mtl.Device) {
			k := kit{t, d}
			lib, err := d.Compile(context.Background(), mtl.Source{
				Name:    "main.metal",
				Text:    "#include <metal_stdlib>\n#include \"part/value.h\"\nkernel void k(device uint *x [[buffer(0)]]) { x[0] = value; }\n",
				Include: fstest.MapFS{"part/value.h": {Data: []byte("constant uint value = 77;\n")}},
			})
			require.NoError(t, err)
			p, err := lib.Pipeline("k", nil)
			require.NoError(t, err)
			x := k.words("x", 1)
			k.run(line("x", p, 1, 1, whole(0, x, mtl.Output)))
			require.Equal(t, []uint32{77}, k.read(x))
		}},
		{"library/pipelines in parallel", func(t T, d mtl.Device) {
			k := kit{t, d}
			lib := k.library("constants.metal")
			const n = 8
			pipelines, errs := make([]mtl.Pipeline, n), make([]error, n)
			var wait sync.WaitGroup
			for i := range n {
				wait.Go(func() { pipelines[i], errs[i] = lib.Pipeline("with_default", map[string]any{"maybe": i}) })
			}
			wait.Wait()
			for i, p := range pipelines {
				require.NoError(t, errs[i])
				x := k.words("x", 99)
				k.run(line("x", p, 1, 1, whole(0, x, mtl.Output)))
				require.Equal(t, []uint32{uint32(i)}, k.read(x))
			}
		}},
		{"library/error says where", func(t T, d mtl.Device) {
			_, err := d.Compile(context.Background(), mtl.Source{
				Name: "broken.metal",
				Text: "#include <metal_stdlib>\nusing namespace metal;\nkernel void k(device uint *x [[buffer(0)]]) {\n    x[0] = undeclared_name;\n}\n",
			})
			require.Error(t, err)
			require.Contains(t, err.Error(), "broken.metal:4:")
			require.Contains(t, err.Error(), "undeclared_name")
		}},
		{"library/cancelled", func(t T, d mtl.Device) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := d.Compile(ctx, kit{t, d}.source("basic.metal"))
			require.ErrorIs(t, err, context.Canceled)
		}},
		{"library/no such kernel", func(t T, d mtl.Device) {
			lib := kit{t, d}.library("names.metal")
			for _, name := range []string{"absent", "", "raise"} {
				_, err := lib.Pipeline(name, nil)
				require.Error(t, err)
				require.Contains(t, err.Error(), "\""+name+"\"")
			}
		}},
		{"library/arguments", func(t T, d mtl.Device) {
			k := kit{t, d}
			args := k.pipeline("threadgroup.metal", "reverse", nil).Arguments()
			find := func(threadgroup bool, index int) mtl.Argument {
				for _, a := range args {
					if a.Threadgroup == threadgroup && a.Index == index {
						return a
					}
				}
				require.Fail(t, "no such argument", "threadgroup %v index %d in %v", threadgroup, index, args)
				return mtl.Argument{}
			}
			require.Len(t, args, 3, "grid attributes are no arguments")
			src, dst, stage := find(false, 0), find(false, 1), find(true, 0)
			require.Equal(t, []string{"src", "dst", "stage"}, []string{src.Name, dst.Name, stage.Name})
			require.True(t, src.ReadOnly)
			require.False(t, dst.ReadOnly)
			for _, a := range args {
				require.Equal(t, 4, a.ElemSize, a.Name)
				require.Equal(t, mtl.Uint32, a.Scalar, a.Name)
				require.True(t, strings.Contains(a.Elem, "uint"), a.Elem)
				require.False(t, a.Ref, a.Name)
			}
		}},
		{"library/threadgroup limits of a kernel", func(t T, d mtl.Device) {
			k := kit{t, d}
			require.Equal(t, 64, k.pipeline("limited.metal", "limited", nil).MaxThreadsPerThreadgroup())
			p := k.pipeline("threadgroup.metal", "part_memory", nil)
			require.LessOrEqual(t, p.MaxThreadsPerThreadgroup(), d.Limits().MaxThreadsPerThreadgroup)
			require.GreaterOrEqual(t, p.MaxThreadsPerThreadgroup(), 32)
			require.Equal(t, 128, p.StaticThreadgroupMemory())
			require.Equal(t, 0, k.pipeline("threadgroup.metal", "reverse", nil).StaticThreadgroupMemory())
		}},
		{"library/too much threadgroup memory", func(t T, d mtl.Device) {
			lib, err := d.Compile(context.Background(), mtl.Source{
				Name: "large.metal",
				Text: "#include <metal_stdlib>\nkernel void large(device uint *x [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {\n" +
					"    threadgroup uint a[1 << 20];\n    a[i] = i;\n    x[i] = a[i];\n}\n",
			})
			if err == nil {
				_, err = lib.Pipeline("large", nil)
			}
			require.Error(t, err)
		}},
	}
}

// Constants checks function constants.
func Constants() []Check {
	scalars := map[string]any{"shift": -7, "scale": uint32(5), "factor": float32(0.5), "small": 1.5, "narrow": int16(-300), "pair": []uint32{11, 12}}
	with := func(name string, value any) map[string]any {
		m := map[string]any{}
		for n, v := range scalars {
			m[n] = v
		}
		if value == nil {
			delete(m, name)
		} else {
			m[name] = value
		}
		return m
	}
	return []Check{
		{"constants/listed", func(t T, d mtl.Device) {
			lib := kit{t, d}.library("constants.metal")
			require.Equal(t, []mtl.Constant{
				{Name: "has_bias", Index: 0, Type: mtl.Bool, Count: 1},
				{Name: "shift", Index: 1, Type: mtl.Int32, Count: 1},
				{Name: "scale", Index: 2, Type: mtl.Uint32, Count: 1},
				{Name: "factor", Index: 3, Type: mtl.Float32, Count: 1},
				{Name: "small", Index: 4, Type: mtl.Float16, Count: 1},
				{Name: "narrow", Index: 5, Type: mtl.Int16, Count: 1},
				{Name: "pair", Index: 6, Type: mtl.Uint32, Count: 2},
				{Name: "maybe", Index: 70, Type: mtl.Uint32, Count: 1},
			}, lib.Constants())
		}},
		{"constants/values of every type", func(t T, d mtl.Device) {
			k := kit{t, d}
			out := k.words("out", times(7, 0)...)
			k.run(line("s", k.pipeline("constants.metal", "scalars", scalars), 1, 1, whole(0, out, mtl.Output)))
			require.Equal(t, []float32{-7, 15, 0.5, 1.5, -300, 11, 12}, floatsOf(k.read(out)))
		}},
		{"constants/by index", func(t T, d mtl.Device) {
			k := kit{t, d}
			out := k.words("out", 0)
			p := k.pipeline("constants.metal", "with_default", map[string]any{"70": 4})
			k.run(line("s", p, 1, 1, whole(0, out, mtl.Output)))
			require.Equal(t, []uint32{4}, k.read(out))
		}},
		{"constants/undefined with a default", func(t T, d mtl.Device) {
			k := kit{t, d}
			out := k.words("out", 0)
			k.run(line("s", k.pipeline("constants.metal", "with_default", nil), 1, 1, whole(0, out, mtl.Output)))
			require.Equal(t, []uint32{9}, k.read(out))
		}},
		{"constants/two specialisations of one kernel", func(t T, d mtl.Device) {
			k := kit{t, d}
			lib := k.library("constants.metal")
			a, err := lib.Pipeline("with_default", map[string]any{"maybe": 1})
			require.NoError(t, err)
			b, err := lib.Pipeline("with_default", map[string]any{"maybe": 2})
			require.NoError(t, err)
			x, y := k.words("x", 0), k.words("y", 0)
			k.run(line("a", a, 1, 1, whole(0, x, mtl.Output)), line("b", b, 1, 1, whole(0, y, mtl.Output)))
			require.Equal(t, []uint32{1}, k.read(x))
			require.Equal(t, []uint32{2}, k.read(y))
		}},
		{"constants/optional argument", func(t T, d mtl.Device) {
			k := kit{t, d}
			x, bias, y := k.words("x", bitsOf([]float32{1, 2})...), k.words("bias", bitsOf([]float32{10, 20})...), k.words("y", 0, 0)
			on := k.pipeline("constants.metal", "optional_bias", map[string]any{"has_bias": true})
			off := k.pipeline("constants.metal", "optional_bias", map[string]any{"has_bias": false})
			require.Len(t, on.Arguments(), 3)
			require.Len(t, off.Arguments(), 2)
			k.run(line("on", on, 2, 2, whole(0, x, mtl.Read), whole(1, bias, mtl.Read), whole(2, y, mtl.Output)))
			require.Equal(t, []float32{11, 22}, floatsOf(k.read(y)))
			k.run(line("off", off, 2, 2, whole(0, x, mtl.Read), whole(2, y, mtl.Output)))
			require.Equal(t, []float32{1, 2}, floatsOf(k.read(y)))
			cb := k.commands("missing")
			k.refused(cb, line("on without bias", on, 2, 2, whole(0, x, mtl.Read), whole(2, y, mtl.Output)))
			cb.Discard()
		}},
		{"constants/refused", func(t T, d mtl.Device) {
			lib := kit{t, d}.library("constants.metal")
			for _, c := range []struct {
				name      string // must be in the error
				constants map[string]any
			}{
				{"shift", with("shift", nil)},
				{"factor", with("factor", nil)},
				{"pair", with("pair", nil)},
				{"shift", with("shift", true)},
				{"shift", with("shift", 0.5)},
				{"shift", with("shift", int64(1)<<31)},
				{"scale", with("scale", -1)},
				{"narrow", with("narrow", 32768)},
				{"factor", with("factor", "1")},
				{"pair", with("pair", []uint32{1})},
				{"pair", with("pair", uint32(1))},
				{"unheard_of", with("unheard_of", 1)},
				{"69", with("69", 1)},
				{"has_bias", with("has_bias", 1)},
			} {
				_, err := lib.Pipeline("scalars", c.constants)
				require.Error(t, err, "constants %v", c.constants)
				require.Contains(t, err.Error(), c.name)
			}
			_, err := lib.Pipeline("scalars", scalars)
			require.NoError(t, err, "what the checks above break in one place each")
		}},
		{"constants/not needed by the kernel", func(t T, d mtl.Device) {
			k := kit{t, d}
			out := k.words("out", 0)
			k.run(line("s", k.pipeline("constants.metal", "without", nil), 1, 1, whole(0, out, mtl.Output)))
			require.Equal(t, []uint32{1}, k.read(out))
			k.pipeline("constants.metal", "without", scalars)
		}},
	}
}
