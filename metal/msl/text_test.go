package msl

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestCompileText(t *testing.T) {
	include := fstest.MapFS{
		"dir/n.h":     {Data: []byte("#define N 3\n")},
		"dir/k.metal": {Data: []byte("not what is compiled\n")},
	}
	text := "#include \"n.h\"\nkernel void k(device float (*x)[N * M] [[buffer(0)]]) { x[0][0] = EMPTY 1; }\n"
	defines := map[string]string{"M": "2", "EMPTY": ""}
	lib, err := CompileText("/dir/k.metal", text, include, defines, Options{})
	require.NoError(t, err)
	require.Len(t, lib.Kernels(), 1)
	require.Equal(t, 24, lib.Kernels()[0].Params[0].ElemSize)
	require.Equal(t, `#include "n.h"`, lib.Source().FileLine("dir/k.metal", 1))

	_, err = CompileText("dir/k.metal", text, nil, defines, Options{})
	require.ErrorContains(t, err, "dir/k.metal does not compile:\ndir/k.metal:1:10: ")
	for _, name := range []string{"", "/", "../k.metal", "."} {
		_, err = CompileText(name, "kernel void k(device float *x [[buffer(0)]]) { x[0] = y; }\n", nil, nil, Options{})
		require.ErrorContains(t, err, "source.metal does not compile:\nsource.metal:1:", name)
	}
}

// The caller's macros stay as they are and in their order, also where their slice has
// room behind them.
func TestCompileTextDefines(t *testing.T) {
	own := append(make([]string, 0, 8), "Z=2", "A=Z")
	text := "kernel void k(device float (*x)[A * M * L] [[buffer(0)]]) { x[0][0] = 1; }\n"
	for range 2 {
		lib, err := CompileText("k.metal", text, nil, map[string]string{"M": "3", "L": "5"}, Options{Defines: own})
		require.NoError(t, err)
		require.Equal(t, 4*2*3*5, lib.Kernels()[0].Params[0].ElemSize)
		require.Equal(t, []string{"Z=2", "A=Z"}, own)
		require.Equal(t, []string{"", ""}, own[2:4])
	}
}

func TestTextFS(t *testing.T) {
	f := textFS{"dir/a.metal", "abc", nil}
	data, err := fs.ReadFile(f, "dir/a.metal")
	require.NoError(t, err)
	require.Equal(t, "abc", string(data))
	info, err := fs.Stat(f, "dir/a.metal")
	require.NoError(t, err)
	require.Equal(t, "a.metal", info.Name())
	require.EqualValues(t, 3, info.Size())
	require.True(t, info.Mode().IsRegular())
	_, err = fs.Stat(f, "dir/b.metal")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
