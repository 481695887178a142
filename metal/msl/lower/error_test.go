package lower_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"

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
		"tree of calls": {`template <int N> int f() { return f<N - 1>() + f<N - 2>(); } template <> int f<0>() { return 1; } template <> int f<1>() { return 1; }
kernel void k(device int *x) { x[0] = f<60>(); }`, "instructions after inlining"},
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

// Positions say where an instruction comes from and through which calls.
func TestPositions(t *testing.T) {
	f := specialize(t, `static void put(device int *x, int i) {
	x[i] = i;
}
static void twice(device int *x) {
	put(x, 1); put(x, 2);
}
kernel void k(device int *x) {
	twice(x);
	x[0] = 7;
}`, "k", nil)
	// Two lines of prologue come before the text.
	var got []string
	for _, i := range f.Body.Instrs {
		if i.Op != ir.Store {
			continue
		}
		s := ""
		for p := i.Pos; p != 0; p = f.Positions[p].InlinedAt {
			q := f.Positions[p]
			require.Equal(t, "t.metal", q.File)
			s += fmt.Sprintf("%d:%d ", q.Line, q.Col)
		}
		got = append(got, s)
	}
	require.Equal(t, []string{"4:2 7:2 10:2 ", "4:2 7:13 10:2 ", "11:2 "}, got)
}

// Barriers and collectives have a site of their own in every inlined copy, and so
// have the iterations of an unrolled loop; a threadgroup variable is one object.
func TestSites(t *testing.T) {
	f := specialize(t, `static void sync(threadgroup int *p) { threadgroup_barrier(mem_flags::mem_threadgroup); p[0] = simd_sum(p[1]); }
kernel void k(device int *x, ushort i [[thread_index_in_threadgroup]]) {
	threadgroup int sh[64];
	sync(sh);
	sync(sh + 1);
	#pragma unroll
	for (int n = 0; n < 3; n++) { simdgroup_barrier(mem_flags::mem_none); sh[i + n] = n; }
	x[i] = sh[i];
}`, "k", nil)
	require.Len(t, f.Statics, 1)
	sites := map[int32]ir.Op{}
	for _, i := range f.Body.Instrs {
		if i.Op.Collective() {
			require.NotContains(t, sites, i.Site)
			sites[i.Site] = i.Op
		}
	}
	require.Equal(t, map[int32]ir.Op{1: ir.TgBarrier, 2: ir.SimdReduce, 3: ir.TgBarrier, 4: ir.SimdReduce, 5: ir.SgBarrier, 6: ir.SgBarrier, 7: ir.SgBarrier}, sites)
}

// Pragmas and options decide which products and sums are fused.
func TestContraction(t *testing.T) {
	text := `kernel void k(device float *x) {
	float p = x[0] * x[1];
	x[2] = p + x[3];
	x[4] = x[5] * x[6] + x[7];
	{
		#pragma METAL fp contract(off)
		x[8] = x[9] * x[10] + x[11];
	}
	{
		#pragma METAL fp math_mode(safe)
		float q = x[12] * x[13];
		x[14] = q + x[15];
		x[16] = x[17] * x[18] + x[19];
	}
}`
	count := func(o msl.Options) map[ir.Op]int {
		lib, err := msl.Compile(fstest.MapFS{"t.metal": {Data: []byte(prologue + text)}}, "t.metal", o)
		require.NoError(t, err)
		f, err := lib.Specialize("k", nil)
		require.NoError(t, err)
		n := map[ir.Op]int{}
		for _, i := range f.Body.Instrs {
			if i.Op.String()[0] == 'f' {
				n[i.Op]++
			}
		}
		return n
	}
	require.Equal(t, map[ir.Op]int{ir.FMA: 3, ir.FMul: 2, ir.FAdd: 2}, count(msl.Options{}))
	require.Equal(t, map[ir.Op]int{ir.FMA: 2, ir.FMul: 3, ir.FAdd: 3}, count(msl.Options{Safe: true}))
}
