package sema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rejected are programs that Apple's compiler refuses, each with the place (@) and a part of
// the diagnostic. A program that differs only in what the rule is about is in accepted.
var rejected = []struct{ name, src, msg string }{
	// 2.1 Address spaces.
	{"space/implicit", "kernel void k(device float *a) { threadgroup float *p = @a; }", "address spaces differ"},
	{"space/cast", "kernel void k(device float *a) { auto p = @(constant float *)a; }", "address spaces differ"},
	{"space/reinterpret_cast", "kernel void k(device float *a) { auto p = @reinterpret_cast<thread int *>(a); }", "address spaces differ"},
	{"space/argument", "void f(thread float *p) {}\nkernel void k(device float *a) { @f(a); }", "address spaces differ"},
	{"space/reference argument", "void f(thread float &p) {}\nkernel void k(device float *a) { @f(a[0]); }", "address spaces differ"},
	{"space/compare", "kernel void k(device float *a, constant float *b) { bool c = @a == b; }", "address spaces differ"},
	{"space/kernel thread pointer", "kernel void k(@thread float *a) {}", "expected device, constant or threadgroup"},
	{"space/kernel no space", "kernel void k(@float *a) {}", "no address space, expected device, constant or threadgroup"},
	{"kernel/result", "kernel int @k(device float *a) { return 1; }", "returns 'int', expected void"},
	{"kernel/overload", "kernel void k(device float *a) {}\nkernel void @k(device int *a) {}", "used twice"},
	{"kernel/called", "kernel void k(device float *a) {}\nkernel void l(device float *a) { @k(a); }", "can't be called"},
	{"kernel/scalar parameter", "kernel void k(@int n, device float *a) {}", "has no grid attribute"},
	{"space/threadgroup initialiser", "kernel void k() { @threadgroup float x = 1; }", "can't have an initialiser"},
	{"space/device local", "kernel void k() { @device float x; }", "expected thread or threadgroup"},
	{"space/program scope", "@int x = 3;", "must be in address space 'constant', found no address space"},
	{"space/program scope device", "@device int x = 3;", "must be in address space 'constant', found 'device'"},
	{"space/no initialiser", "@constant int x;", "needs an initialiser"},
	{"space/run-time initialiser", "int f() { return 1; }\nconstant int x = @f();", "not a constant expression: it calls 'f', which is not constexpr"},
	{"space/constant store", "kernel void k(constant float *a) { @a[0] = 1; }", "read-only"},
	{"space/constant increment", "constant int x = 1;\nkernel void k() { @x++; }", "read-only"},
	{"space/method", "struct S { int v; int get() { return v; } };\nkernel void k(device S *s) { int i = @s->get(); }", "the object is 'device S', expected 'thread S'"},
	{"const/store", "kernel void k(device const float *a) { @a[0] = 1; }", "read-only"},
	{"const/drop", "kernel void k(device const float *a) { device float *p = @a; }", "drops const"},
	{"const/local", "kernel void k() { const int x = 1; @x = 2; }", "read-only"},
	{"const/method", "struct S { int v; void set() { v = 1; } };\nkernel void k() { const S s = {1}; @s.set(); }", "the object is 'thread const S'"},
	{"static local", "kernel void k() { @static int x = 1; }", "static local variable 'x' is not supported"},
	{"function/recursion", "int @f(int n) { return n > 0 ? f(n - 1) : 0; }\nkernel void k(device int *a) { a[0] = f(3); }", "calls itself"},
	{"function/mutual recursion", "int g(int n);\nint f(int n) { return g(n); }\nint g(int n) { return f(n); }\nkernel void k(device int *a) { a[0] = f(3); }", "calls itself"},
	{"function/no body", "int @g(int n);\nkernel void k(device int *a) { a[0] = g(3); }", "has no body"},
	{"virtual", "struct S { @virtual void f() {} };", "virtual functions are not supported"},
	{"bit-field", "struct S { @uint a : 3; };", "bit-field"},
	{"double", "kernel void k() { @double x = 1; }", "'double' is not supported"},
	{"double/cast", "kernel void k(device float *a) { a[0] = (@double)a[1]; }", "'double' is not supported"},

	// 2.2 Conversions.
	{"convert/vector to scalar", "kernel void k(device float4 *a) { float x = @a[0]; }", "vectors convert only explicitly"},
	{"convert/scalar from vector cast", "kernel void k(device float4 *a) { float x = @(float)a[0]; }", "pick a component"},
	{"convert/vector to vector", "kernel void k(device half4 *a) { float4 x = @a[0]; }", "vectors convert only explicitly"},
	{"convert/vector width", "kernel void k(device float4 *a) { float3 x = @(float3)a[0]; }", "widths differ"},
	{"convert/vector operator", "kernel void k(device half4 *h, device float4 *f) { f[0] = @h[0] + f[0]; }", "vectors of different types"},
	{"convert/matrix", "kernel void k(device float4x4 *a) { half4x4 x = @a[0]; }", "no implicit conversion"},
	{"convert/scalar to matrix", "kernel void k() { float4x4 x = @1.0f; }", "no implicit conversion"},
	{"convert/matrix shape", "kernel void k(device float4x4 *a) { float2x2 x = @(float2x2)a[0]; }", "shapes differ"},
	{"convert/float to bfloat", "kernel void k(device bfloat *a) { a[0] = @1.0f; }", "a float becomes bfloat only explicitly"},
	{"convert/half with bfloat", "kernel void k(device bfloat *a, device half *b) { float x = @a[0] + b[0]; }", "half and bfloat don't mix"},
	{"convert/half to bfloat", "kernel void k(device bfloat *a, device half *b) { a[0] = @b[0]; }", "never mix"},
	{"convert/narrowing", "kernel void k() { uchar x = {@300}; }", "narrowed to 'uchar'"},
	{"convert/condition vector", "kernel void k(device bool4 *a) { if (@a[0]) {} }", "use any() or all()"},
	{"convert/?: vector", "kernel void k(device float4 *a, device bool4 *c) { a[0] = @c[0] ? a[1] : a[2]; }", "use select()"},
	{"convert/as_type size", "kernel void k(device float *a) { half x = @as_type<half>(a[0]); }", "expected equal sizes"},
	{"convert/as_type vector size", "kernel void k(device float4 *a) { auto x = @as_type<half4>(a[0]); }", "expected equal sizes"},
	{"convert/pointer types", "kernel void k(device float *a) { device int *p = @a; }", "no implicit conversion"},
	{"convert/static_cast pointer", "kernel void k(device float *a) { auto p = @static_cast<device int *>(a); }", "use reinterpret_cast"},
	{"convert/int to pointer", "kernel void k(int n [[thread_index_in_simdgroup]]) {}\nvoid f(int n) { thread int *p = @n; }", ""},
	{"convert/scoped enum", "enum class E { a };\nvoid f() { int x = @E::a; }", "no implicit conversion"},
	{"convert/temporary to reference", "void f(thread float &x) {}\nvoid g() { @f(1.0f); }", "a temporary can't bind"},
	{"convert/explicit constructor", "struct S { int v; explicit S(int x) : v(x) {} };\nvoid f() { S s = @1; }", "no implicit conversion"},

	// 2.4 Integers, operators.
	{"operator/% on float", "kernel void k(device float *a) { a[0] = @a[1] % 2; }", "use fmod"},
	{"operator/& on float", "kernel void k(device float *a) { a[0] = @a[1] & 2; }", "expected integers"},
	{"operator/shift of float", "void f(float x) { int y = @x << 1; }", "expected integers"},
	{"operator/~ on float", "void f(float x) { auto y = @~x; }", "expected an integer"},
	{"operator/deref", "void f(int x) { int y = @*x; }", "expected a pointer"},
	{"operator/index by float", "kernel void k(device float *a) { a[@1.5f] = 1; }", "expected an integer"},
	{"operator/index of scalar", "void f(int x) { int y = @x[0]; }", "can't be indexed"},
	{"operator/struct", "struct S { int v; };\nvoid f(S a, S b) { S c = @a + b; }", "no such operator"},
	{"operator/not an lvalue", "void f(int x) { @(x + 1) = 2; }", "not an lvalue"},
	{"operator/array assignment", "void f() { int a[2]; int b[2]; @a = b; }", "arrays are not assignable"},

	// 2.5 Vectors and matrices.
	{"vector/mixed swizzle", "void f(float4 v) { auto x = @v.xg; }", "xyzw and rgba don't mix"},
	{"vector/past the end", "void f(float2 v) { auto x = @v.z; }", "past the end of 'float2'"},
	{"vector/repeated assignment", "void f(float4 v) { @v.xx = float2(1); }", "repeats a component"},
	{"vector/swizzle width", "void f(float4 v) { v.xy = @float3(1); }", "no implicit conversion"},
	{"vector/address", "void f(float4 v) { thread float *p = @&v.x; }", "address of a vector component"},
	{"vector/unknown component", "void f(float4 v) { auto x = @v.q; }", "no component 'q'"},
	{"vector/too few components", "void f() { auto v = @float4(1, 2, 3); }", "from 3 components, expected 4"},
	{"vector/too many components", "void f(float2 a) { auto v = @float3(a, a); }", "from 4 components, expected 3"},
	{"vector/index", "void f(float4 v) { auto x = v[@4]; }", "outside of 'float4'"},
	{"matrix/column", "void f(float2x4 m) { auto x = m[@2]; }", "outside of 'float2x4'"},
	{"matrix/product", "void f(float2x3 a, float2x3 b) { auto m = @a * b; }", "operator * on 'float2x3' and 'float2x3'"},
	{"matrix/constructor", "void f(float2 a) { auto m = @float2x2(a, a, a); }", "needs 2 columns"},
	{"vector/no type", "void f() { @vec<float, 5> v; }", "there is no type vec<float, 5>"},

	// 2.7, 2.8, 2.9: library functions.
	{"simd/bool", "kernel void k(device bool *a) { a[0] = @simd_sum(a[1]); }", "bool has no simdgroup functions"},
	{"simd/64 bit", "kernel void k(device long *a) { a[0] = @simd_sum(a[1]); }", "64-bit integers have no simdgroup functions"},
	{"simd/float and", "kernel void k(device float *a) { a[0] = @simd_and(a[1]); }", "expected an integer"},
	{"simd/arguments", "kernel void k(device float *a) { a[0] = @simd_shuffle(a[1]); }", "found 1 arguments, expected 2"},
	{"sgmat/space", "kernel void k(constant float *a, device float *b) { simdgroup_float8x8 m; @simdgroup_store(m, a, 8); }", "expected device or threadgroup memory"},
	{"sgmat/element", "kernel void k(device half *a) { simdgroup_float8x8 m; @simdgroup_load(m, a, 8); }", "expected a pointer to float"},
	{"sgmat/read-only", "kernel void k(device const float *a) { simdgroup_float8x8 m; @simdgroup_store(m, a, 8); }", "read-only"},
	{"sgmat/mixture", "void f() { simdgroup_half8x8 a; simdgroup_bfloat8x8 b; simdgroup_float8x8 c; @simdgroup_multiply_accumulate(c, a, b, c); }", "'simdgroup_half8x8' times 'simdgroup_bfloat8x8'"},
	{"atomic/plain pointer", "kernel void k(device int *a) { @atomic_fetch_add_explicit(a, 1, memory_order_relaxed); }", "expected a pointer to an atomic"},
	{"atomic/order", "kernel void k(device atomic_int *a) { @atomic_fetch_add_explicit(a, 1, memory_order_seq_cst); }", "must be memory_order_relaxed"},
	{"atomic/float in threadgroup", "kernel void k(threadgroup atomic_float *a) { @atomic_fetch_add_explicit(a, 1.0f, memory_order_relaxed); }", "atomic_float is for device memory"},
	{"atomic/float or", "kernel void k(device atomic_float *a) { @atomic_fetch_or_explicit(a, 1.0f, memory_order_relaxed); }", "no such operation"},
	{"atomic/ulong add", "kernel void k(device atomic_ulong *a) { @atomic_fetch_add_explicit(a, 1, memory_order_relaxed); }", "only atomic_min_explicit"},
	{"atomic/plain arithmetic", "kernel void k(device atomic_int *a) { int x = @a[0] + 1; }", "expected numbers"},
	{"atomic/element type", "void f(device @atomic<half> *a) {}", "there is no type _atomic<half>"},
	{"call/ambiguous", "void f(float x, int y) { auto z = @max(x, y); }", "ambiguous"},
	{"call/arguments", "void f(float x) { auto z = @exp(x, x); }", "no matching function for call to 'exp'"},
	{"call/undeclared", "void f(float x) { auto z = @nope(x); }", "undeclared name 'nope'"},
	{"call/too few", "void g(int a, int b) {}\nvoid f() { @g(1); }", "found 1 arguments, expected 2"},

	// 2.12 Function constants.
	{"fc/initialiser", "constant int n [[function_constant(0)]] = @3;", "can't have an initialiser"},
	{"fc/type", "struct S { int a; };\n@constant S n [[function_constant(0)]];", "expected a scalar or vector"},
	{"fc/index", "constant int n [[@function_constant(65536)]];", "expected 0 to 65535"},
	{"fc/same index", "constant int n [[function_constant(1)]];\nconstant int @m [[function_constant(1)]];", "is taken"},
	{"fc/array size", "constant int n [[function_constant(0)]];\nvoid f() { int a[@n]; }", "known only when the pipeline is made"},
	{"fc/template argument", "constant int n [[function_constant(0)]];\ntemplate <int N> void g() {}\nvoid f() { @g<n>(); }", "known only when the pipeline is made"},
	{"fc/static_assert", "constant int n [[function_constant(0)]];\nstatic_assert(@n > 0);", "known only when the pipeline is made"},
	{"fc/if constexpr", "constant bool n [[function_constant(0)]];\nvoid f() { if constexpr (@n) {} }", "known only when the pipeline is made"},
	{"fc/parameter", "constant int n [[function_constant(0)]];\nkernel void k(device int *a [[@function_constant(n)]]) {}", "expected bool"},
	{"fc/defined of another", "constant int n = 3;\nconstant bool d = @is_function_constant_defined(n);", "needs a function constant"},

	// 2.14 Grid attributes.
	{"grid/type", "kernel void k(int i [[@thread_position_in_grid]]) {}", "expected ushort, ushort2"},
	{"grid/four components", "kernel void k(uint4 i [[@thread_position_in_grid]]) {}", "expected ushort, ushort2"},
	{"grid/index vector", "kernel void k(uint2 i [[@thread_index_in_simdgroup]]) {}", "expected ushort or uint"},
	{"grid/64 bit", "kernel void k(ulong i [[@thread_position_in_grid]]) {}", "expected ushort, ushort2"},
	{"grid/components", "kernel void k(uint2 i [[thread_position_in_grid]], uint3 @j [[threadgroup_position_in_grid]]) {}", "differ in components"},
	{"grid/position and size", "kernel void k(uint2 i [[thread_position_in_grid]], ushort2 @n [[threads_per_grid]]) {}", "expected the type of 'i'"},
	{"grid/threadgroup types", "kernel void k(uint2 i [[thread_position_in_threadgroup]], ushort2 @n [[threads_per_threadgroup]]) {}", "expected the type of 'i'"},
	{"grid/simd types", "kernel void k(uint i [[thread_index_in_simdgroup]], ushort @n [[simdgroup_index_in_threadgroup]]) {}", "expected the type of 'i'"},
	{"grid/uint position, ushort index", "kernel void k(uint i [[thread_position_in_threadgroup]], ushort @n [[thread_index_in_threadgroup]]) {}", "expected uint"},
	{"grid/vertex attribute", "kernel void k(uint i [[@vertex_id]]) {}", "not allowed in a kernel"},

	// 2.15 Limits, bindings.
	{"limit/buffer index", "kernel void k(device int *a [[@buffer(31)]]) {}", "expected 0 to 30"},
	{"limit/threadgroup index", "kernel void k(threadgroup int *a [[@threadgroup(31)]]) {}", "expected 0 to 30"},
	{"limit/taken index", "kernel void k(device int *a [[buffer(1)]], device int *@b [[buffer(1)]]) {}", "is taken"},
	{"limit/threads", "[[@max_total_threads_per_threadgroup(2048)]] kernel void k() {}", "expected 1 to 1024"},
	{"limit/other kind", "kernel void k(@threadgroup int *a [[buffer(0)]]) {}", "the other kind's attribute"},
	{"limit/host name", "template <typename T> kernel void k(device T *a) {}\ntemplate [[host_name(\"x\")]] kernel void k<int>(device int *);\n@template [[host_name(\"x\")]] kernel void k<float>(device float *);", ""},

	// Templates.
	{"template/static_assert", "template <typename T> void g(T x) { @static_assert(sizeof(T) == 4, \"four bytes\"); }\nvoid f() { g(half(1)); }", "static assertion failed: four bytes"},
	{"template/deduction", "template <typename T> void g(T a, T b) {}\nvoid f() { @g(1, 2.0f); }", "can't deduce"},
	{"template/no argument", "template <typename T> T g() { return T(0); }\nvoid f() { @g(); }", "no argument for template parameter 'T'"},
	{"template/too many", "template <typename T> void g(T a) {}\nvoid f() { @g<int, int>(1); }", "too many template arguments"},
	{"template/kind", "template <int N> void g() {}\nvoid f() { @g<float>(); }", "expected a value"},
	{"template/enable_if", "template <typename T, typename = enable_if_t<is_integral_v<T>>> void g(T a) {}\nvoid f() { @g(1.0f); }", "no member named 'type'"},
	{"template/function argument", "void h(int x) {}\ntemplate <void (*F)(float)> void g() { F(1); }\nvoid f() { @g<h>(); }", "no function matches type"},
	{"template/instance type", "template <typename T> kernel void k(device T *a) {}\ntemplate [[host_name(\"x\")]] kernel void @k<int>(device float *);", "no instance of 'k' has type"},
	{"template/not a template", "kernel void k(device int *a) {}\ntemplate [[host_name(\"x\")]] kernel void @k<int>(device int *);", "not a template"},
	{"template/depth", "template <int N> struct S { static constexpr constant int v = S<N + 1>::v; };\nvoid f() { int x = S<0>::v; }", ""},
	{"template/depth of an enumerator", "template <int N> struct S { enum { v = @S<N + 1>::v }; };\nvoid f() { int x = S<0>::v; }", "nest deeper than 512"},
	{"template/error of an enumerator", "template <int N> struct S { enum { v = @nope + N }; };\nvoid f() { int x = S<0>::v; }", "use of undeclared name 'nope'"},
	{"template/incomplete", "struct S;\nvoid f() { @S s; }", "incomplete type"},
	{"template/error inside", "template <typename T> void g(T a) { auto x = @a.nope; }\nvoid f() { g(1); }", "'int' has no member 'nope'"},

	// Declarations and statements.
	{"decl/undeclared", "void f() { int x = @y; }", "use of undeclared name 'y'"},
	{"decl/undeclared type", "void f() { @foo x; }", ""},
	{"decl/redefinition", "void f() { int x; float @x; }", "redefinition of 'x'"},
	{"decl/function twice", "void f() {}\nvoid @f() {}", "redefinition of 'f'"},
	{"decl/reference", "void f() { @thread int &r; }", "needs an initialiser"},
	{"decl/const", "void f() { @const int x; }", "needs an initialiser"},
	{"decl/array length", "void f(int n) { int a[@n]; }", "not a constant expression"},
	{"decl/negative length", "void f() { int a[@-1]; }", "negative"},
	{"decl/too many initialisers", "void f() { int a[2] = {1, 2, @3}; }", "too many initialisers"},
	{"decl/constexpr", "void f(int n) { @constexpr int x = n; }", "not a constant expression"},
	{"decl/member space", "struct S { @device int x; };", "a member lives where its object does"},
	{"decl/base", "struct A {}; struct B {};\nstruct C : A, @B {};", "more than one base"},
	{"decl/void variable", "void f() { @void x; }", "type 'void'"},
	{"stmt/break", "void f() { @break; }", "outside of a loop"},
	{"stmt/continue", "void f() { switch (1) { case 1: @continue; } }", "outside of a loop"},
	{"stmt/return value", "void f() { return @1; }", "returns void"},
	{"stmt/return nothing", "int f() { @return; }", "return without a value"},
	{"stmt/return type", "float4 f(float2 x) { return @x; }", "no implicit conversion"},
	{"stmt/duplicate case", "void f(int x) { switch (x) { case 1: break; @case 1: break; } }", "duplicate case value 1"},
	{"stmt/switch on float", "void f(float x) { switch (@x) { default: break; } }", "expected an integer"},
	{"expr/this", "void f() { auto p = @this; }", "outside of a method"},
	{"expr/member", "struct S { int a; };\nvoid f(S s) { int x = @s.b; }", "no member named 'b' in 'S'"},
	{"expr/arrow", "struct S { int a; };\nvoid f(S s) { int x = @s->a; }", ""},
	{"expr/dot on pointer", "struct S { int a; };\nvoid f(thread S *s) { int x = @s->a; int y = (*s).a; }", "-"},
	{"static_assert", "@static_assert(1 > 2, \"no\");", "static assertion failed: no"},
	{"constexpr/no end", "constexpr int g(int n) { while (true) { n += 1; } return n; }\nconstant int x = @g(1);", "more steps than the limit"},
	{"lambda", "void f() { auto g = @[](int x) { return x; }; }", "lambda expressions are not supported"},
}

func TestRejected(t *testing.T) {
	for _, c := range rejected {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			src, at := place(c.src)
			_, errs := run(t, src)
			if c.msg == "-" { // the twin that must be accepted
				require.Empty(t, errs)
				return
			}
			require.NotEmpty(t, errs, "accepted")
			if c.msg == "" {
				return
			}
			for _, e := range errs {
				if strings.HasPrefix(e, at) && strings.Contains(e, c.msg) {
					return
				}
			}
			require.Failf(t, "no such error", "expected %s...%s\nfound %s", at, c.msg, strings.Join(errs, "\n"))
		})
	}
}
