package msl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

const text = `#include <metal_stdlib>
#include "args.h"
using namespace metal;

constant bool masked [[function_constant(3)]];
constant short2 shape [[function_constant(4)]];
constant float eps [[function_constant(5)]];

// The second kernel is broken; the others must not care.
kernel void good(device const half4 *x, constant args &a, device float *y [[buffer(7)]],
                 device const float *mask [[buffer(2), function_constant(masked)]], threadgroup float2 *sh [[threadgroup(1)]],
                 uint3 tg [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
    float v = float(x[tg.x].x) * a.scale + eps;
    if (masked) v += mask[lane];
    sh[lane] = v * shape.y;
    y[a.n] = sh[lane].x;
}

kernel void bad(device float *x) { x[0] = undeclared; }

template <typename T, int N>
[[max_total_threads_per_threadgroup(N * 32)]] kernel void fill(device T *x, uint i [[thread_position_in_grid]]) {
    threadgroup T tile[N];
    tile[i] = T(N);
    x[i] = tile[i];
}
typedef decltype(fill<float, 4>) fill_t;
template [[host_name("fill_f32_4")]] kernel fill_t fill<float, 4>;
template [[host_name("fill_i32_8")]] kernel decltype(fill<int, 8>) fill<int, 8>;
`

func library(t *testing.T) *msl.Library {
	fsys := fstest.MapFS{
		"k.metal":    {Data: []byte(text)},
		"inc/args.h": {Data: []byte("struct args { float scale; int n; };\n")},
	}
	lib, err := msl.Compile(fsys, "k.metal", msl.Options{IncludeDirs: []string{"inc"}})
	require.NoError(t, err)
	return lib
}

func TestKernels(t *testing.T) {
	lib := library(t)
	var names []string
	for _, k := range lib.Kernels() {
		names = append(names, k.Name)
	}
	require.Equal(t, []string{"good", "bad", "fill_f32_4", "fill_i32_8"}, names)
	require.Len(t, lib.EntryPoints(), 4)
	require.Equal(t, []msl.Constant{{"masked", 3, "bool"}, {"shape", 4, "short2"}, {"eps", 5, "float"}}, lib.Constants())

	k, ok := lib.Kernel("good")
	require.True(t, ok)
	require.NoError(t, k.Err)
	require.Equal(t, 10, k.Pos.Line)
	for i := range k.Params {
		require.NotNil(t, k.Params[i].Element)
		k.Params[i].Element = nil
	}
	require.Equal(t, []msl.Param{
		{Name: "x", Index: 0, Type: "device const half4 *", Elem: "half4", ElemSize: 8, Scalar: "half", Space: ir.Device, ReadOnly: true},
		{Name: "a", Index: 1, Type: "constant args &", Elem: "args", ElemSize: 8, Space: ir.Constant, ReadOnly: true, Ref: true},
		{Name: "y", Index: 7, Type: "device float *", Elem: "float", ElemSize: 4, Scalar: "float", Space: ir.Device},
		{Name: "mask", Index: 2, Type: "device const float *", Elem: "float", ElemSize: 4, Scalar: "float", Space: ir.Device, ReadOnly: true, Gate: "masked"},
		{Name: "sh", Kind: ir.ThreadgroupParam, Index: 1, Type: "threadgroup float2 *", Elem: "float2", ElemSize: 8, Scalar: "float", Space: ir.Threadgroup},
	}, k.Params)
	require.Equal(t, []msl.Attribute{{"tg", ir.ThreadgroupPositionInGrid, "uint3"}, {"lane", ir.ThreadIndexInSimdgroup, "ushort"}}, k.Attributes)
	require.Equal(t, lib.Constants(), k.Constants)
	require.Zero(t, k.ThreadgroupMemory)
	k, _ = lib.Kernel("fill_i32_8")
	require.Equal(t, 32, k.ThreadgroupMemory)
	require.Empty(t, k.Constants)
	require.Equal(t, 256, k.MaxThreads)

	k, _ = lib.Kernel("bad")
	require.ErrorContains(t, k.Err, "k.metal:19:43: error:")
	require.ErrorContains(t, k.Err, "undeclared")
	_, err := lib.Specialize("bad", nil)
	require.Equal(t, k.Err, err)
}

func TestSpecialize(t *testing.T) {
	lib := library(t)
	f, err := lib.Specialize("good", map[string]any{"masked": false, "4": []int{2, 3}, "eps": 0.5})
	require.NoError(t, err)
	require.Len(t, f.Params, 4, "the gated parameter is gone")
	f, err = lib.Specialize("good", map[string]any{"masked": true, "shape": []int16{2, 3}, "eps": float32(0.5)})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 7, 2, 1}, []int{f.Params[0].Index, f.Params[1].Index, f.Params[2].Index, f.Params[3].Index, f.Params[4].Index})
	f, err = lib.Specialize("fill_i32_8", nil)
	require.NoError(t, err)
	require.Equal(t, 256, f.MaxThreads)
	require.Equal(t, 32, f.Statics[0].Size)

	for want, c := range map[string]map[string]any{
		"function constant eps (index 5) is used and has no value":                      {"masked": false, "shape": []int{1, 1}},
		`the library has no function constant "nope"`:                                   {"nope": 1},
		"function constant masked: 2 (int) is no value of type bool":                    {"masked": 2},
		"function constant shape: [1] is no value of type short2, expected a list of 2": {"shape": []int{1}},
		"is no value of type short":                                                     {"shape": []int{1, 40000}},
		"(string) is no value of type float":                                            {"eps": "x"},
	} {
		_, err := lib.Specialize("good", c)
		require.ErrorContains(t, err, want)
	}
	_, err = lib.Specialize("missing", nil)
	require.ErrorContains(t, err, `no kernel "missing"`)
	errs := lib.Check(nil)
	require.Len(t, errs, 1)
	require.Contains(t, errs, "bad")
}

func TestBrokenText(t *testing.T) {
	for name, c := range map[string][2]string{
		"no file": {"", ""},
		"syntax":  {"kernel void k(device float *x) { x[0] = ; }", "k.metal:1:41: error:"},
		"include": {"#include \"missing.h\"\n", "missing.h"},
	} {
		fsys := fstest.MapFS{}
		if c[0] != "" {
			fsys["k.metal"] = &fstest.MapFile{Data: []byte(c[0])}
		}
		lib, err := msl.Compile(fsys, "k.metal", msl.Options{})
		require.Error(t, err, name)
		require.ErrorContains(t, err, c[1])
		require.NotNil(t, lib)
	}
}

// FuzzCompile takes any text through the whole front end: no panic, and bounded
// time.
func FuzzCompile(f *testing.F) {
	f.Add(text)
	files, _ := filepath.Glob("lower/testdata/*.metal")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("kernel void k(device int *x) { for (;;) x[0]++; }")
	f.Add("template <int N> int f() { return f<N - 1>(); } kernel void k(device int *x) { x[0] = f<9>(); }")
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1<<14 || strings.Count(src, "unroll") > 50 {
			return
		}
		start := time.Now()
		lib, err := msl.Compile(fstest.MapFS{"k.metal": {Data: []byte(src)}}, "k.metal", msl.Options{})
		if err != nil && err.Error() == "" {
			t.Fatal("an error without text")
		}
		lib.Check(nil)
		if d := time.Since(start); d > 20*time.Second {
			t.Fatalf("took %v", d)
		}
	})
}
