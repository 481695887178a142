package check_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/kernels/check"
	"minfer/metal/msl"
)

// With -clang the compiler must be there: make check-msl. Without, a machine that
// has none skips.
var clang = flag.String("clang", "", "the clang to use, required to be installed")

func checker(t *testing.T) *check.Checker {
	path, err := check.Find(*clang)
	if err != nil && *clang == "" {
		t.Skipf("NOT RUN: %v", err)
	}
	require.NoError(t, err)
	c, err := check.New(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	version, err := c.Version(t.Context())
	require.NoError(t, err)
	t.Logf("%s: %s", path, version)
	return c
}

// ours compiles text with the project's front end, every kernel of it.
func ours(text string) error {
	l, err := msl.Compile(fstest.MapFS{"kernel.metal": {Data: []byte(text)}}, "kernel.metal", msl.Options{})
	if err != nil {
		return err
	}
	for _, k := range l.Kernels() {
		if k.Err != nil {
			return k.Err
		}
	}
	return nil
}

func TestKernels(t *testing.T) {
	files, err := filepath.Glob("../*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	// The speed kernels of the software device follow the same rules.
	files = append(files, "../../mtl/soft/testdata/bench.metal", "testdata/accepted.metal")
	c := checker(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			require.NoError(t, c.File(t.Context(), file))
		})
	}
}

// TestAccepted holds the file that uses each thing which the shim declares
// against the project's own front end too.
func TestAccepted(t *testing.T) {
	text, err := os.ReadFile("testdata/accepted.metal")
	require.NoError(t, err)
	require.NoError(t, ours(string(text)))
}

const head = `#include <metal_stdlib>
using namespace metal;
struct Params { uint n; float scale; };
inline float first(device const float *x, uint i) { return x[i]; }
inline float part(threadgroup const float *x, uint i) { return x[i]; }
`

// Each fault has a twin that differs in the fault alone. Both front ends refuse
// the one and accept the other.
func TestRefused(t *testing.T) {
	tests := []struct {
		name, bad, good string
		message         string // in clang's diagnostics of bad
	}{
		{"device pointer assigned to a threadgroup pointer",
			`kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { threadgroup float *p = x; p[i] = 0; }`,
			`kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { device float *p = x; p[i] = 0; }`,
			"cannot initialize a variable of type"},
		{"device pointer cast to a threadgroup pointer",
			`kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { *(threadgroup float4 *)(x + 4 * i) = 0; }`,
			`kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { *(device float4 *)(x + 4 * i) = 0; }`,
			"between mismatching address spaces"},
		{"missing address space of a kernel parameter",
			`kernel void k(float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 0; }`,
			`kernel void k(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 0; }`,
			"pointer arguments to kernel functions must reside in"},
		{"missing address space of a function parameter",
			`inline void set(float *x) { x[0] = 0; } kernel void k(device float *x [[buffer(0)]]) { set(x); }`,
			`inline void set(device float *x) { x[0] = 0; } kernel void k(device float *x [[buffer(0)]]) { set(x); }`,
			"no matching function for call to 'set'"},
		{"missing address space of a local pointer",
			`kernel void k(device float *x [[buffer(0)]]) { float *p = x; p[0] = 0; }`,
			`kernel void k(device float *x [[buffer(0)]]) { device float *p = x; p[0] = 0; }`,
			"cannot initialize a variable of type"},
		{"threadgroup argument for a device parameter",
			`kernel void k(device float *x [[buffer(0)]]) { threadgroup float s[4]; s[0] = 1; x[0] = first(s, 0); }`,
			`kernel void k(device float *x [[buffer(0)]]) { threadgroup float s[4]; s[0] = 1; x[0] = part(s, 0); }`,
			"no matching function for call to 'first'"},
		{"wrong argument type",
			`kernel void k(device half *x [[buffer(0)]], device float *y [[buffer(1)]]) { y[0] = first(x, 0); }`,
			`kernel void k(device float *x [[buffer(0)]], device float *y [[buffer(1)]]) { y[0] = first(x, 0); }`,
			"no matching function for call to 'first'"},
		{"wrong argument count",
			`kernel void k(device float *x [[buffer(0)]]) { x[0] = first(x); }`,
			`kernel void k(device float *x [[buffer(0)]]) { x[0] = first(x, 0); }`,
			"no matching function for call to 'first'"},
		{"wrong argument count of a library function",
			`kernel void k(device float *x [[buffer(0)]]) { x[0] = fma(x[1], x[2]); }`,
			`kernel void k(device float *x [[buffer(0)]]) { x[0] = fma(x[1], x[2], x[3]); }`,
			"no matching function for call to 'fma'"},
		{"wrong argument type of a library function",
			`kernel void k(device float *x [[buffer(0)]]) { simdgroup_float8x8 m; simdgroup_load(m, x[0], 8); simdgroup_store(m, x, 8); }`,
			`kernel void k(device float *x [[buffer(0)]]) { simdgroup_float8x8 m; simdgroup_load(m, x, 8); simdgroup_store(m, x, 8); }`,
			"no matching function for call to 'simdgroup_load'"},
		{"write through constant",
			`kernel void k(constant Params &p [[buffer(0)]], device float *x [[buffer(1)]]) { p.scale = 1; x[0] = p.scale; }`,
			`kernel void k(constant Params &p [[buffer(0)]], device float *x [[buffer(1)]]) { x[0] = p.scale; }`,
			"not assignable"},
		{"write through a pointer to const",
			`kernel void k(device const float *x [[buffer(0)]]) { x[0] = 1; }`,
			`kernel void k(device float *x [[buffer(0)]]) { x[0] = 1; }`,
			"not assignable"},
		{"unknown field",
			`kernel void k(constant Params &p [[buffer(0)]], device float *x [[buffer(1)]]) { x[0] = p.size; }`,
			`kernel void k(constant Params &p [[buffer(0)]], device float *x [[buffer(1)]]) { x[0] = p.n; }`,
			"no member named 'size'"},
		{"vectors of different element types",
			`kernel void k(device float4 *x [[buffer(0)]], device half4 *y [[buffer(1)]]) { x[0] = y[0]; }`,
			`kernel void k(device float4 *x [[buffer(0)]], device half4 *y [[buffer(1)]]) { x[0] = float4(y[0]); }`,
			"half4"},
		{"threadgroup variable with an initialiser",
			`kernel void k(device float *x [[buffer(0)]]) { threadgroup float s = 0; x[0] = s; }`,
			`kernel void k(device float *x [[buffer(0)]]) { threadgroup float s; s = 0; x[0] = s; }`,
			"cannot have an initializer"},
	}
	c := checker(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, ours(head+test.good), "the clean twin, our front end")
			require.NoError(t, c.Source(t.Context(), head+test.good), "the clean twin, clang")
			require.Error(t, ours(head+test.bad), "our front end")
			require.ErrorContains(t, c.Source(t.Context(), head+test.bad), test.message)
		})
	}
}

func TestFind(t *testing.T) {
	_, err := check.Find("clang-of-nobody")
	require.EqualError(t, err, "no clang-of-nobody in PATH: install the package clang (version 14 or later)")
}
