package sema_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

func TestImplicitBinding(t *testing.T) {
	p := good(t, `
constant bool opt [[function_constant(3)]];
struct Args { int n; };
kernel void k(constant Args &args, device const float *a, threadgroup float *s, device float *b [[buffer(2)]], uint3 g [[threadgroup_position_in_grid]],
  device int *c, threadgroup half *t, device half *m [[buffer(5), function_constant(opt)]], device half *n [[function_constant(opt)]],
  ushort lane [[thread_index_in_simdgroup]], uint3 tp [[thread_position_in_threadgroup]]) {}`)
	k := kernel(t, p, "k")
	type row struct {
		name  string
		kind  sema.ParamKind
		index int
		gated bool
	}
	var rows []row
	for _, q := range k.Params {
		if q.Kind != sema.GridParam {
			rows = append(rows, row{q.Var.Name, q.Kind, q.Index, q.Gate != nil})
		}
	}
	// 2 and 5 are taken; each kind of resource counts its own lowest free index.
	require.Equal(t, []row{
		{"args", sema.BufferParam, 0, false}, {"a", sema.BufferParam, 1, false}, {"s", sema.ThreadgroupParam, 0, false}, {"b", sema.BufferParam, 2, false},
		{"c", sema.BufferParam, 3, false}, {"t", sema.ThreadgroupParam, 1, false}, {"m", sema.BufferParam, 5, true}, {"n", sema.BufferParam, 4, true},
	}, rows)
	require.Equal(t, ir.ThreadgroupPositionInGrid, k.Params[4].Grid)
	require.Equal(t, ir.ThreadIndexInSimdgroup, k.Params[9].Grid)
	require.Len(t, p.Constants, 1)
	require.Equal(t, 3, p.Constants[0].FuncConst)
	require.Same(t, p.Constants[0], k.Params[7].Gate)
}

func TestInstances(t *testing.T) {
	p := good(t, `
typedef void (disp_t)(device float *, int);
template <typename T, short N> void d1(device T *a, int i) { a[i] = T(N); }
template <disp_t fn> void through(device float *a, int i, int j) { fn(a, i + j); }
template <typename T, typename V, void (*deq)(device const T *, short, thread V &), short nl = 2>
[[max_total_threads_per_threadgroup(nl * 16)]]
kernel void k(device const T *a, device V *b, uint i [[thread_position_in_grid]]) { V v; deq(a, nl, v); b[i] = v; }
struct B4 { half d; };
struct B8 { half d; };
template <typename V> void dq(device const B4 *b, short il, thread V &v) { v = V(b->d * il); }
template <typename V> void dq(device const B8 *b, short il, thread V &v) { v = V(b->d); }
typedef decltype(k<B4, float4, dq>) k_t;
template [[host_name("k_b4")]] kernel k_t k<B4, float4, dq>;
template [[host_name("k_b4h")]] kernel void k<B4, half4, dq, 4>(device const B4 *, device half4 *, uint);
template [[host_name("k_b8")]] [[kernel]] decltype(k<B8, float4, dq, 8>) k<B8, float4, dq, 8>;
template <typename F> kernel void plain(device F *a) { through<d1<float, 7>>(a, 1, 2); }
template kernel void plain<float>(device float *);`)
	require.Len(t, p.Kernels, 4)
	require.Equal(t, 32, kernel(t, p, "k_b4").MaxThreads)
	require.Equal(t, 64, kernel(t, p, "k_b4h").MaxThreads)
	require.Equal(t, 128, kernel(t, p, "k_b8").MaxThreads)
	for host, want := range map[string]string{"k_b4": "device const B4 *", "k_b4h": "device const B4 *", "k_b8": "device const B8 *"} {
		calls := []*sema.Call{}
		walk(kernel(t, p, host).Func.Body, func(e sema.Expr) {
			if c, ok := e.(*sema.Call); ok {
				calls = append(calls, c)
			}
		})
		require.Len(t, calls, 1)
		require.Equal(t, want, calls[0].Func.Params[0].Type.String(), host)
	}
	require.Equal(t, "half4 &", kernel(t, p, "k_b4h").Func.Params[1].Type.T.Of.Bare().String()+" &")
	require.Equal(t, []string{"through<d1<float, 7>>"}, callees(kernel(t, p, "plain")), "no host name: the template's own")
}

// A call goes to the overload that C++ and the language's conversions choose.
func TestResolvedCallee(t *testing.T) {
	p := good(t, `
int f(int) { return 0; }
int f(float) { return 0; }
int f(float4) { return 0; }
int f(device float *) { return 0; }
int f(constant float *) { return 0; }
template <typename T> int f(thread T *) { return 0; }
int g(thread const int &) { return 0; }
int g(device const int &) { return 0; }
kernel void k(device float *d, constant float *c, device int *i, device float4 *v, device uchar *u) {
  int x = 0;
  f(u[0]); f(d[0]); f(v[0]); f(d); f(c); f(&x); f(true); f(i[0] * 1.0f); g(x); g(i[0]); g(3);
}`)
	var got []string
	walk(kernel(t, p, "k").Func.Body, func(e sema.Expr) {
		if c, ok := e.(*sema.Call); ok {
			got = append(got, c.Func.Params[0].Type.String())
		}
	})
	require.Equal(t, []string{"int", "float", "float4", "device float *", "constant float *", "thread int *", "int", "float", "thread const int &", "device const int &", "thread const int &"}, got)
}

// Conversions are explicit in the tree: each operand has the type that its user expects.
func TestTreeIsTyped(t *testing.T) {
	p := good(t, `
kernel void k(device half4 *h, device float *f, device uchar *u, constant int &n) {
  h[0] *= f[0];
  f[1] = u[0] + n;
  u[1] += 300;
  f[2] = f[1] > 0 ? u[0] : n;
}`)
	kernelBody := kernel(t, p, "k").Func.Body
	var ops []string
	walk(kernelBody, func(e sema.Expr) {
		switch e := e.(type) {
		case *sema.Binary:
			require.Equal(t, e.L.Type().T, e.R.Type().T)
			require.False(t, e.L.Lvalue() || e.R.Lvalue())
			ops = append(ops, e.Op.String()+" "+e.L.Type().T.String())
		case *sema.Assign:
			if e.Compound {
				ops = append(ops, e.Op.String()+"= "+e.OpType.String())
				require.Equal(t, e.OpType, e.R.Type().T)
			} else {
				require.Equal(t, e.L.Type().T, e.R.Type().T)
			}
			require.True(t, e.L.Lvalue())
		case *sema.Cond:
			require.Equal(t, types.BoolType, e.C.Type().T)
			require.Equal(t, types.IntType, e.A.Type().T)
		}
	})
	// The half vector multiplies as half4, a uchar adds as int.
	require.Equal(t, []string{"*= half4", "+ int", "+= int", "> float"}, ops)
}

func TestConstantsAndTables(t *testing.T) {
	p := good(t, `
constant short tab[4] = {1, -2, 3};
constant half2 hv[2] = {half2(0.5h, 2.0h), 1};
struct S { uchar a; float b; union { int i; float f; }; };
constant S s = {3, 1.5f, {-1}};
kernel void k(device int *o) { constant S *p = &s; o[0] = p->i + int(hv[o[1]].x); o[1] = tab[o[2]]; }`)
	vars := map[string]*sema.Var{}
	walk(kernel(t, p, "k").Func.Body, func(e sema.Expr) {
		if v, ok := e.(*sema.VarRef); ok {
			vars[v.Var.Name] = v.Var
		}
	})
	enc := func(name string) []byte {
		v := vars[name]
		require.NotNil(t, v.Value, name)
		b := make([]byte, v.Type.T.Size())
		require.NoError(t, v.Value.Encode(v.Type.T, b))
		return b
	}
	require.Equal(t, []byte{1, 0, 0xfe, 0xff, 3, 0, 0, 0}, enc("tab"))
	require.Equal(t, []byte{0x00, 0x38, 0x00, 0x40, 0x00, 0x3c, 0x00, 0x3c}, enc("hv"))
	require.Equal(t, []byte{3, 0, 0, 0, 0, 0, 0xc0, 0x3f, 0xff, 0xff, 0xff, 0xff}, enc("s"))
}

func TestFunctionConstants(t *testing.T) {
	p := good(t, `
constant int n [[function_constant(7)]];
constant int m = is_function_constant_defined(n) ? n : 4;
constant int twice = 2 * m;
kernel void k(device int *a) { for (int i = 0; i < twice; ++i) a[i] = n; }`)
	var twice *sema.Var
	walk(kernel(t, p, "k").Func.Body, func(e sema.Expr) {
		if v, ok := e.(*sema.VarRef); ok && v.Var.Name == "twice" {
			twice = v.Var
		}
	})
	require.NotNil(t, twice)
	require.Nil(t, twice.Value, "not a constant before the pipeline is made")
	require.NotNil(t, twice.Init)
}

func TestLoops(t *testing.T) {
	p := good(t, `
template <int N> void body(device int *a) {
  _Pragma("clang loop unroll(full)")
  for (int i = 0; i < N; ++i) a[i] = i;
  #pragma unroll(N + 1)
  for (;;) { if (a[0]) break; }
  #pragma unroll
  do { a[1]++; } while (a[1] < 3);
  #pragma nounroll
  while (a[2]) a[2]--;
  for (int i = 0; i < 2; ++i) {}
}
kernel void k(device int *a) { body<3>(a); }`)
	var f *sema.Func
	walk(kernel(t, p, "k").Func.Body, func(e sema.Expr) {
		if c, ok := e.(*sema.Call); ok {
			f = c.Func
		}
	})
	var got []sema.Unroll
	for _, s := range f.Body.Stmts {
		got = append(got, s.(*sema.Loop).Unroll)
	}
	require.Equal(t, []sema.Unroll{{Set: true}, {Set: true, Count: 4}, {Set: true}, {Set: true, Disable: true}, {}}, got)
	require.Nil(t, f.Body.Stmts[1].(*sema.Loop).C)
	require.Equal(t, sema.TestAfter, f.Body.Stmts[2].(*sema.Loop).TestAt)
}

// A pragma acts from where it stands to the end of its block; at program scope on the
// functions behind it.
func TestMathMode(t *testing.T) {
	p := good(t, `
kernel void a(device float *x) {}
#pragma METAL fp math_mode(safe)
kernel void b(device float *x) { { 
#pragma METAL fp contract(off)
  x[0] = 1; } }`)
	require.Equal(t, sema.FPMode{}, kernel(t, p, "a").Func.Body.Math)
	body := kernel(t, p, "b").Func.Body
	require.Equal(t, "safe", body.Math.MathMode)
	require.Equal(t, sema.FPMode{Contract: "off"}, body.Stmts[0].(*sema.Block).Math)
}

func TestSwitch(t *testing.T) {
	p := good(t, `kernel void k(device int *a) { switch (a[0]) { case 1: case 2 ... 4: a[1] = 0; case -1: break; default: a[2] = 0; } }`)
	sw := kernel(t, p, "k").Func.Body.Stmts[0].(*sema.Switch)
	require.Len(t, sw.Cases, 3)
	require.Equal(t, []int64{1, 2, 3, 4}, sw.Cases[0].Values)
	require.Equal(t, []int64{-1}, sw.Cases[1].Values)
	require.True(t, sw.Cases[2].Default)
	require.Len(t, sw.Cases[0].Body, 1, "falls through")
}

func TestBuiltins(t *testing.T) {
	p := good(t, `
kernel void k(device float *x, device half *h, threadgroup half *t) {
  x[0] = precise::exp(x[0]) + fast::exp(x[1]) + exp(x[2]);
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  simdgroup_half8x8 m;
  simdgroup_load(m, t);
  simdgroup_load(m, h, 16, 0, true);
  x[1] = simd_shuffle_and_fill_down(x[0], 1.0f, 3);
}`)
	bs := builtins(kernel(t, p, "k"))
	require.Len(t, bs, 7)
	require.Equal(t, []sema.MathMode{sema.MathPrecise, sema.MathFast, sema.MathDefault}, []sema.MathMode{bs[0].Math, bs[1].Math, bs[2].Math})
	require.Equal(t, sema.IThreadgroupBarrier, bs[3].Op)
	require.EqualValues(t, 3, bs[3].Args[0].Const().I)
	for _, b := range bs[4:6] {
		require.Equal(t, sema.ISgLoad, b.Op)
		require.Len(t, b.Args, 5)
		require.True(t, b.Args[0].Lvalue())
		require.Equal(t, "ulong2", b.Args[3].Type().T.String())
	}
	require.EqualValues(t, 8, bs[4].Args[2].Const().I)
	require.EqualValues(t, 16, bs[5].Args[2].Const().I)
	require.EqualValues(t, 32, bs[6].Args[3].Const().I, "the modulo is the simdgroup's width")
}

// An error in one kernel or instance does not touch the others.
func TestErrorsStayWhereTheyAre(t *testing.T) {
	p, errs := run(t, `
template <typename T> T helper(T x) { return x.y; }
kernel void bad(device float *a) { a[0] = helper(a[1]); }
kernel void fine(device float2 *a) { a[0].x = helper2(a[1]); }
kernel void ok(device float *a) { a[0] = 1; }
template <typename T> kernel void tk(device T *a) { a[0] = a[1] & a[2]; }
template [[host_name("tk_int")]] kernel void tk<int>(device int *);
template [[host_name("tk_float")]] kernel void tk<float>(device float *);`)
	failed := map[string]bool{}
	for _, k := range p.Kernels {
		failed[k.HostName] = len(k.Errors) > 0
	}
	require.Equal(t, map[string]bool{"bad": true, "fine": true, "ok": false, "tk_int": false, "tk_float": true}, failed)
	require.Len(t, errs, 3)
}

func TestLimitsOfWork(t *testing.T) {
	p, errs := run(t, "template <int N> int f() { return f<N + 1>(); }\nkernel void k(device int *a) { a[0] = f<0>(); }")
	require.Len(t, errs, 1)
	require.Contains(t, errs[0], "nest deeper than 512")
	require.NotEmpty(t, kernel(t, p, "k").Errors)
}

func TestWarnings(t *testing.T) {
	for src, want := range map[string]string{
		"void f(@float *p) {}":                                      "'float *' has no address space, thread is assumed",
		"void f(thread float &p) { @float &r = p; }":                "'float &' has no address space, thread is assumed",
		"int @f(int x) { if (x) return 1; }":                        "control may reach the end of 'f'",
		"void f(int x) { int a[3]; a[@4] = x; }":                    "index 4 is outside of an array of 3",
		"void f(int x) { uchar a[2] = {@x, 0}; }":                   "narrowed to 'uchar'",
		"void f(int x) { int y = @x / 0; }":                         "division by zero",
		"kernel void @k() { threadgroup float a[8193]; a[0] = 1; }": "uses 32772 bytes of threadgroup memory, a pipeline can have at most 32768",
	} {
		plain, at := place(src)
		_, errs := run(t, plain)
		require.Empty(t, errs, src)
		_, warns := runFor(t, plain, source.Warning)
		require.Len(t, warns, 1, src)
		require.Contains(t, warns[0], at, src)
		require.Contains(t, warns[0], want, src)
	}
	_, warns := runFor(t, "void f(float x[4], thread float *p, device const int &q) { auto &r = x[0]; thread auto *s = p; }", source.Warning)
	require.Empty(t, warns)
}

func TestValueBits(t *testing.T) {
	for _, c := range []struct {
		k    types.Kind
		v    sema.Value
		bits uint64
	}{
		{types.Half, sema.Value{F: 1}, 0x3c00}, {types.Half, sema.Value{F: -2}, 0xc000}, {types.Half, sema.Value{F: 65504}, 0x7bff},
		{types.Half, sema.Value{F: 0x1p-24}, 1}, {types.Half, sema.Value{F: 0x1p-14}, 0x400}, {types.Half, sema.Value{F: math.Inf(-1)}, 0xfc00},
		{types.BFloat, sema.Value{F: 1}, 0x3f80}, {types.BFloat, sema.Value{F: -0.5}, 0xbf00}, {types.Float, sema.Value{F: 1.5}, 0x3fc00000},
		{types.Char, sema.Value{I: -1}, 0xff}, {types.Long, sema.Value{I: -1}, math.MaxUint64}, {types.Bool, sema.Value{I: 1}, 1},
	} {
		require.Equal(t, c.bits, c.v.Bits(c.k), "%v %v", c.k, c.v)
	}
}
