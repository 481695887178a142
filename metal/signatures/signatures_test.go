package signatures_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/signatures"
)

func TestOf(t *testing.T) {
	got, err := signatures.Of(mtl.Source{Name: "dir/k.metal", Defines: map[string]string{"N": "4"},
		Include: fstest.MapFS{"dir/params.h": {Data: []byte("struct Params { uint n; float eps; };\n")}},
		Text: `#include <metal_stdlib>
#include "params.h"
using namespace metal;
constant bool has_bias [[function_constant(0)]];
kernel void one(device const half4 *x [[buffer(0)]], device packed_float3 *y [[buffer(N - 1)]], constant Params &p [[buffer(1)]],
    device const float *bias [[buffer(2), function_constant(has_bias)]], threadgroup float2 *stage [[threadgroup(1)]],
    uint i [[thread_position_in_grid]]) { y[i][0] = float(x[i].x) + p.eps; }
template <typename T> kernel void many(device T *x [[buffer(0)]]) { x[0] = 1; }
template [[host_name("many_short")]] kernel void many<short>(device short *);
`})
	require.NoError(t, err)
	require.Equal(t, map[string][]mtl.Argument{
		"one": {
			{Name: "x", Index: 0, Elem: "half4", ElemSize: 8, Scalar: mtl.Float16, ReadOnly: true},
			{Name: "y", Index: 3, Elem: "packed_float3", ElemSize: 12, Scalar: mtl.Float32},
			{Name: "p", Index: 1, Elem: "Params", ElemSize: 8, Scalar: mtl.AnyType, ReadOnly: true, Ref: true},
			{Name: "bias", Index: 2, Elem: "float", ElemSize: 4, Scalar: mtl.Float32, ReadOnly: true},
			{Name: "stage", Threadgroup: true, Index: 1, Elem: "float2", ElemSize: 8, Scalar: mtl.Float32},
		},
		"many_short": {{Name: "x", Index: 0, Elem: "short", ElemSize: 2, Scalar: mtl.Int16}},
	}, got)
	_, err = signatures.Of(mtl.Source{Name: "k.metal", Text: "kernel void k(device nonsense *x [[buffer(0)]]) {}\n"})
	require.ErrorContains(t, err, "k.metal does not compile:\nk.metal:1:22: error: ")
}

// Of the project's kernels it has what a specialised pipeline of the software
// device has, but for the signs of integers.
func TestOfOwnKernels(t *testing.T) {
	dev, err := soft.New(soft.Options{Threads: 1})
	require.NoError(t, err)
	files, err := fs.Glob(kernels.FS, "*.metal")
	require.NoError(t, err)
	compared := 0
	for _, file := range files {
		text, err := fs.ReadFile(kernels.FS, file)
		require.NoError(t, err)
		source := mtl.Source{Name: file, Text: string(text), Include: kernels.FS, FastMath: true}
		all, err := signatures.Of(source)
		require.NoError(t, err)
		lib, err := dev.Compile(t.Context(), source)
		require.NoError(t, err)
		names := []string{}
		for name := range all {
			names = append(names, name)
		}
		require.ElementsMatch(t, lib.Kernels(), names, file)
		for _, name := range lib.Kernels()[:1] {
			p, err := lib.Pipeline(name, nil)
			if err != nil {
				continue // it wants function constants
			}
			want := p.Arguments()
			require.Len(t, all[name], len(want), name)
			for i, a := range all[name] {
				require.Equal(t, a.Scalar.Size(), want[i].Scalar.Size(), "%s %s", name, a.Name)
				a.Scalar = want[i].Scalar
				require.Equal(t, want[i], a, "%s", name)
				compared++
			}
		}
	}
	require.Greater(t, compared, 20)
	require.NoError(t, dev.Close())
}
