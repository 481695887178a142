package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

// metalFiles writes files and makes their folder the current one.
func metalFiles(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Chdir(dir)
}

const good = `#include <metal_stdlib>
#include "part.h"
using namespace metal;

constant bool has_bias [[function_constant(0)]];

struct args { uint n; half4 scale; };

template <typename T>
kernel void twice(device const T *x [[buffer(0)]],
                  device T *y [[buffer(1)]],
                  constant args &a [[buffer(2)]],
                  device const T *bias [[buffer(3), function_constant(has_bias)]],
                  threadgroup T *stage [[threadgroup(0)]],
                  uint i [[thread_position_in_grid]],
                  uint t [[thread_position_in_threadgroup]]) {
    stage[t] = x[i];
    y[i] = stage[t] * TWO;
    if (has_bias) { y[i] += bias[i]; }
}
template [[host_name("twice_f32")]] kernel void twice<float>(device const float *, device float *, constant args &, device const float *, threadgroup float *, uint, uint);
template [[host_name("twice_f16")]] kernel void twice<half>(device const half *, device half *, constant args &, device const half *, threadgroup half *, uint, uint);

kernel void zero(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = 0; }
`

func TestCompileLists(t *testing.T) {
	metalFiles(t, map[string]string{"k.metal": good, "inc/part.h": "#define TWO (2 * ONE)\n"})
	code, out, errs := mverify(t, "compile", "k.metal", "-I", "inc", "-D", "ONE=1")
	require.Equal(t, harness.ExitHeld, code, out+errs)
	require.Empty(t, errs)
	require.Equal(t, `kernel twice_f32
    buffer(0)  device const float *x
    buffer(1)  device float *y
    buffer(2)  constant args &a
    buffer(3)  device const float *bias  where has_bias
    threadgroup(0)  threadgroup float *stage
kernel twice_f16
    buffer(0)  device const half *x
    buffer(1)  device half *y
    buffer(2)  constant args &a
    buffer(3)  device const half *bias  where has_bias
    threadgroup(0)  threadgroup half *stage
kernel zero
    buffer(0)  device float *y
k.metal: 3 of 3 entry points compiled (100.0 %)
`, out)
	code, out, _ = mverify(t, "compile", "-q", "k.metal", "-I", "inc", "-D", "ONE=1")
	require.Equal(t, harness.ExitHeld, code)
	require.Equal(t, "k.metal: 3 of 3 entry points compiled (100.0 %)\n", out)
}

func TestCompileShare(t *testing.T) {
	const half = `kernel void sound(device int *x [[buffer(0)]]) { x[0] = 1; }
kernel void broken(device int *x [[buffer(0)]]) {
    x[0] = missing;
}
`
	metalFiles(t, map[string]string{"half.metal": half, "none.metal": "constant int x = 1;\n"})
	code, out, errs := mverify(t, "compile", "half.metal")
	require.Equal(t, harness.ExitFailed, code)
	require.Empty(t, errs)
	lines := strings.Split(out, "\n")
	require.True(t, strings.HasPrefix(lines[0], "half.metal:3:12: error: "), lines[0])
	require.Contains(t, lines[0], "missing")
	require.Equal(t, []string{"      x[0] = missing;", "             ^~~~~~~"}, lines[1:3])
	require.Contains(t, out, "kernel sound\n    buffer(0)  device int *x\nkernel broken does not compile\n")
	require.Contains(t, out, "half.metal: 1 of 2 entry points compiled (50.0 %)\n     1  ")

	code, _, _ = mverify(t, "compile", "--min-share", "50", "half.metal")
	require.Equal(t, harness.ExitHeld, code)
	code, _, _ = mverify(t, "compile", "--min-share", "50.1", "half.metal")
	require.Equal(t, harness.ExitFailed, code)
	code, out, _ = mverify(t, "compile", "-q", "half.metal", "none.metal")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "none.metal: no entry points\n2 files: 1 of 2 entry points compiled (50.0 %)\n")
	code, out, errs = mverify(t, "compile", "none.metal")
	require.Equal(t, harness.ExitNothing, code)
	require.Equal(t, "none.metal: no entry points\n", out)
	require.Equal(t, "mverify: no kernel in the text: nothing was compiled\n", errs)
}

// A file that does not parse still has its entry points counted.
func TestCompileUnparsable(t *testing.T) {
	metalFiles(t, map[string]string{"bad.metal": "kernel void a(device int *x [[buffer(0)]]) { x[0] = ; }\nkernel void b(device int *x [[buffer(0)]]) { x[0] = 2; }\n", "lost.metal": "#include \"nowhere.h\"\nkernel void a() {}\n"})
	code, out, _ := mverify(t, "compile", "bad.metal")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "bad.metal:1:53: error: ")
	require.Contains(t, out, " of 2 entry points compiled")
	code, out, _ = mverify(t, "compile", "lost.metal")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "lost.metal:1:")
	require.Contains(t, out, "lost.metal: 0 of 1 entry points compiled (0.0 %)\n")
}

// Files outside of the current folder are shown by their full paths.
func TestCompileElsewhere(t *testing.T) {
	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "far.h"), []byte("int broken() { return nothing; }\n"), 0o644))
	metalFiles(t, map[string]string{"k.metal": "#include \"far.h\"\nkernel void k(device int *x [[buffer(0)]]) { x[0] = broken(); }\n"})
	code, out, _ := mverify(t, "compile", "k.metal", "-I", other)
	require.Equal(t, harness.ExitFailed, code)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Contains(t, out, "in file included from "+here+"/k.metal:1:\n"+other+"/far.h:1:23: error: ")
	require.Contains(t, out, here+"/k.metal: 0 of 1 entry points compiled")
}

func TestCompileUsage(t *testing.T) {
	metalFiles(t, map[string]string{"k.metal": "kernel void k() {}\n", "d/x": ""})
	for _, c := range []struct{ args, want string }{
		{"compile", "0 arguments, want "},
		{"compile none.metal", "stat none.metal: no such file or directory"},
		{"compile d", "d is a folder: want a .metal file"},
		{"compile k.metal -I k.metal", "-I k.metal is a file: want a folder"},
		{"compile k.metal -I nowhere", "stat nowhere: no such file or directory"},
		{"compile k.metal --min-share 101", "--min-share 101: want 0 to 100"},
		{"compile k.metal --min-share x", `invalid argument "x" for "--min-share" flag`},
	} {
		code, out, errs := mverify(t, strings.Fields(c.args)...)
		require.Equal(t, harness.ExitBadInput, code, c.args)
		require.Empty(t, out)
		require.True(t, strings.HasPrefix(errs, "mverify: "+c.want), errs)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}
}
