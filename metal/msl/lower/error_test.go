package lower_test

import (
	"testing"
	"testing/fstest"

	"minfer/metal/msl"

	"github.com/stretchr/testify/require"
)

// What the language allows and the IR has no form for, and what only
// specialisation finds out. The kernel beside the broken one is unharmed.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"recursion": {`static int f(int n); static int g(int n) { return n > 0 ? f(n - 1) : 0; } static int f(int n) { return g(n); }
kernel void k(device int *x) { x[0] = f(x[1]); }`, "calls itself"},
		"undefined function constant": {`constant int n [[function_constant(2)]]; kernel void k(device int *x) { x[0] = n; }`,
			"function constant n (index 2) is used and has no value"},
		"matrix by run-time index": {`kernel void k(device half *x, constant int &n) { simdgroup_half8x8 m[2]; simdgroup_load(m[n], x, 8); simdgroup_store(m[1], x, 8); }`,
			"a simdgroup matrix is indexed by a value that is known only at run time"},
		"call stack": {`constant int n [[function_constant(2)]]; static int f() { return n; } static int g() { return f(); }
kernel void k(device int *x) { x[0] = g(); }`, "in the call of g inlined here"},
	} {
		t.Run(name, func(t *testing.T) {
			text := prologue + c.text + "\nkernel void other(device int *x) { x[0] = 1; }\n"
			lib, err := msl.Compile(fstest.MapFS{"t.metal": {Data: []byte(text)}}, "t.metal", msl.Options{})
			if err != nil {
				require.ErrorContains(t, err, c.want)
				return
			}
			_, err = lib.Specialize("k", nil)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "t.metal:")
			_, err = lib.Specialize("other", nil)
			require.NoError(t, err)
		})
	}
}

// Code behind a function constant that is false is never looked at: it may use
// constants without a value and parameters that are gone.
func TestConstantBranches(t *testing.T) {
	text := `constant bool on [[function_constant(0)]]; constant int n [[function_constant(1)]];
kernel void k(device int *x, device const int *m [[function_constant(on)]]) {
	if (on) { x[0] = n + m[0]; return; }
	if (on && n > 3) x[1] = 1;
	x[0] = on ? n : 7;
	switch (int(on)) { case 1: x[0] = n; break; case 0: x[1] = 5; }
}`
	f := specialize(t, text, "k", map[string]any{"on": false})
	require.Len(t, f.Params, 1)
	b := ints(0, 0)
	lane(t, f, 0, b)
	require.Equal(t, []int32{7, 5}, toInts(b))
	f = specialize(t, text, "k", map[string]any{"on": true, "n": 4})
	require.Len(t, f.Params, 2)
	lane(t, f, 0, b, ints(30))
	require.Equal(t, []int32{34, 5}, toInts(b))
}
