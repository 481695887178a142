package sema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// accepted are programs that must check; what they compute is held against values and types
// worked out by hand, in static_assert.
var accepted = []struct{ name, src string }{
	{"arithmetic types", `
template <typename A, typename B> constexpr bool same = false;
void f(char c, uchar uc, short s, ushort us, int i, uint u, long l, ulong ul, half h, bfloat b, float x, half4 h4, float4 x4, uchar4 uc4, ushort4 us4, bool p) {
  static_assert(is_same_v<decltype(c + c), int>);
  static_assert(is_same_v<decltype(uc + us), int>);
  static_assert(is_same_v<decltype(~uc), int>);
  static_assert(is_same_v<decltype(us << 8), int>);
  static_assert(is_same_v<decltype(i + u), uint>);
  static_assert(is_same_v<decltype(u + l), long>);
  static_assert(is_same_v<decltype(l + ul), ulong>);
  static_assert(is_same_v<decltype(i * sizeof(int)), ulong>);
  static_assert(is_same_v<decltype(i + h), half>);
  static_assert(is_same_v<decltype(h * x), float>);
  static_assert(is_same_v<decltype(b * x), float>);
  static_assert(is_same_v<decltype(b * i), bfloat>);
  static_assert(is_same_v<decltype(h4 * x), half4>);
  static_assert(is_same_v<decltype(x * h4), half4>);
  static_assert(is_same_v<decltype(uc4 + uc4), uchar4>);
  static_assert(is_same_v<decltype(us4 << 3), ushort4>);
  static_assert(is_same_v<decltype(x4 < x4), bool4>);
  static_assert(is_same_v<decltype(!p), bool>);
  static_assert(is_same_v<decltype(-uc4), uchar4>);
  static_assert(is_same_v<decltype(p ? b : x), float>);
  static_assert(is_same_v<decltype(p ? i : u), uint>);
  static_assert(is_same_v<decltype(p ? 1 : h4), half4>);
  static_assert(is_same_v<decltype(1.0), float>);
  static_assert(is_same_v<decltype(1.0h), half>);
  static_assert(is_same_v<decltype(1.0bf), bfloat>);
  static_assert(is_same_v<decltype(16.h), half>);
  static_assert(is_same_v<decltype(1.e6), float>);
  static_assert(is_same_v<decltype(0xffffffff), uint>);
  static_assert(is_same_v<decltype(2147483648), long>);
  static_assert(is_same_v<decltype(1u), uint>);
  static_assert(is_same_v<decltype(1ul), ulong>);
  static_assert(is_same_v<decltype(x4.xy), thread float2 &> || is_same_v<decltype(x4.xy), float2>);
}`},
	{"integer constants", `
static_assert(7 / -2 == -3 && 7 % -2 == 1 && -7 / 2 == -3);
static_assert((uchar)300 == 44 && (char)200 == -56 && (ushort)-1 == 65535);
static_assert(~0u == 4294967295u && -1 > 0u);
static_assert((1 << 31) == -2147483647 - 1 && (1u << 31) == 2147483648u && 1 << 33 == 2);
static_assert((-8 >> 1) == -4 && (0x80000000u >> 31) == 1);
static_assert((int)3.99f == 3 && (int)-3.99f == -3 && (uchar)3.9f == 3);
static_assert((0xff ^ 0x0f | 0x100 & 0x300) == 0x1f0);
static_assert(true ? 3 > 2 : false);
static_assert('a' == 97 && '\n' == 10);
static_assert(sizeof(int) * 8 == 32 && sizeof(long) == 8 && sizeof(size_t) == 8);
static_assert(9223372036854775807l + 1 < 0);
static_assert(18446744073709551615ul / 3 == 6148914691236517205ul);`},
	{"float constants", `
static_assert(0.1f + 0.2f == 0.3f);            // in float, unlike in double
static_assert(16777216.0f + 1.0f == 16777216.0f);
static_assert(2048.0h + 1.0h == 2048.0h && 2049.0h == 2048.0h);
static_assert((half)65520.0f > 65504.0h && (half)65519.0f == 65504.0h);
static_assert((bfloat)257.0f == 256.0bf && (float)(bfloat)1.0078125f == 1.0078125f);
static_assert((float)16777217 == 16777216.0f);
static_assert(1.0f / 3.0f == 0x1.555556p-2f);
static_assert((half)(1.0f / 3.0f) == 0x1.554p-2h);
static_assert(INFINITY > FLT_MAX && !(NAN == NAN) && -0.0f == 0.0f);
static_assert(FLT_MAX == 0x1.fffffep127f && HALF_MAX == 65504.0h);`},
	{"sizes", `
struct A { char c; half h; uint3 v; uchar b; };
struct B { packed_float3 p; float q; };
struct C { half2x4 m; char x; };
union U { struct { half d; half m; }; half2 dm; };
struct D { union { struct { half d; half dmin; }; half2 dm; }; uchar s[12]; };
static_assert(sizeof(A) == 48 && alignof(A) == 16);
static_assert(sizeof(B) == 16 && alignof(B) == 4);
static_assert(sizeof(C) == 24 && alignof(C) == 8);
static_assert(sizeof(U) == 4 && sizeof(D) == 16);
static_assert(sizeof(float3) == 16 && sizeof(packed_half3) == 6 && sizeof(float3x3) == 48);
static_assert(sizeof(array<half, 5>) == 10 && sizeof(vec<uchar, 3>) == 4);
struct alignas(16) E { float x; };
static_assert(sizeof(E) == 16);
void f(D d) { static_assert(is_same_v<decltype(d.dmin), half>); d.dm = half2(d.d, d.dmin); }`},
	{"constexpr functions", `
constexpr int fact(int n) { return n <= 1 ? 1 : n * fact(n - 1); }
constexpr int sum(int n) { int s = 0; for (int i = 1; i <= n; i++) { if (i == 3) continue; if (i > 10) break; s += i; } return s; }
constexpr int digits(uint n) { int d = 0; do { n /= 10; ++d; } while (n); return d; }
constexpr int pick(int n) { switch (n) { case 0: return 10; case 1: case 2: n += 100; default: return n; } }
struct P { int x, y; constexpr P(int a, int b) : x(a), y(b) {} constexpr int area() const { return x * y; } constexpr P operator+(P o) const { return P(x + o.x, y + o.y); } };
constexpr int swapped(int a, int b) { int t[2] = {a, b}; int k = t[0]; t[0] = t[1]; t[1] = k; return t[0] * 10 + t[1]; }
static_assert(fact(5) == 120 && sum(100) == 52 && digits(12345) == 5);
static_assert(pick(0) == 10 && pick(1) == 101 && pick(7) == 7);
static_assert((P(2, 3) + P(4, 5)).area() == 48 && swapped(3, 4) == 43);
constant int table[] = {1, 2, fact(4), [5] = 9, [6 ... 8] = 7};
static_assert(sizeof(table) == 36 && table[2] == 24 && table[3] == 0 && table[5] == 9 && table[8] == 7);
constant float4 v = float4(1, 2, 3, 4) * 2;
static_assert(v.z == 6.0f);
constexpr int max3of(int a, int b, int c) { return max(a, max(b, c)); }
static_assert(max3of(3, 9, 4) == 9 && min(3u, 2u) == 2u && clamp(7, 1, 5) == 5);`},
	{"templates", `
template <typename T, int N> struct Arr { T v[N]; static constexpr constant int size = N; T get(int i) const { return v[i]; } };
template <typename T> struct Traits { static constexpr constant int kind = 0; };
template <typename T> struct Traits<T *> { static constexpr constant int kind = 1; typedef T elem; };
template <typename T> struct Traits<const T> { static constexpr constant int kind = 2; };
template <typename T, int N> struct Traits<vec<T, N>> { static constexpr constant int kind = 10 + N; typedef T elem; };
template <> struct Traits<half> { static constexpr constant int kind = 3; };
template <typename T, int N> struct Traits<Arr<T, N>> { static constexpr constant int kind = 100 + N; };
static_assert(Traits<int>::kind == 0 && Traits<device int *>::kind == 1 && Traits<const int>::kind == 2);
static_assert(Traits<half>::kind == 3 && Traits<float3>::kind == 13 && Traits<Arr<int, 7>>::kind == 107);
static_assert(is_same_v<Traits<float3>::elem, float> && Arr<char, 3>::size == 3 && sizeof(Arr<short, 3>) == 6);
template <int N> struct Fib { static constexpr constant int v = Fib<N - 1>::v + Fib<N - 2>::v; };
template <> struct Fib<0> { static constexpr constant int v = 0; };
template <> struct Fib<1> { static constexpr constant int v = 1; };
static_assert(Fib<20>::v == 6765);
template <typename T, typename U = T, int N = sizeof(U)> constexpr int deflt() { return N; }
static_assert(deflt<int>() == 4 && deflt<int, half>() == 2 && deflt<int, half, 9>() == 9);
template <typename T> using Pair = Arr<T, 2>;
static_assert(is_same_v<Pair<float>, Arr<float, 2>>);
template <typename T> constexpr constant int width = sizeof(T) * 8;
template <typename T, int N> constexpr constant int width<vec<T, N>> = N;
static_assert(width<half> == 16 && width<float4> == 4);
template <bool B> constexpr int sel() { if constexpr (B) { return 1; } else { return undeclared_in_dead_branch<B>(); } }
template <bool B> constexpr int undeclared_in_dead_branch();
static_assert(sel<true>() == 1);
template <typename T> constexpr enable_if_t<is_integral_v<T>, int> cls(T) { return 1; }
template <typename T> constexpr enable_if_t<!is_integral_v<T>, int> cls(T) { return 2; }
static_assert(cls(3) == 1 && cls(3.0f) == 2 && cls(half(1)) == 2);
template <template <typename, int> class X, typename T> constexpr int tt() { return sizeof(X<T, 4>); }
static_assert(tt<Arr, half>() == 8);
template <typename... T> constexpr int count(T... a) { return sizeof...(T); }
static_assert(count() == 0 && count(1, 2.0f, 'c') == 3);
template <typename... T> constexpr int total(T... a) { return (0 + ... + a); }
static_assert(total(1, 2, 3, 4) == 10);`},
	{"deduction", `
template <typename T> constexpr int ptr(device const T *p) { return sizeof(T); }
template <typename T> constexpr int any(T p) { return 1; }
template <typename T> constexpr int any(device T *p) { return 2; }
template <typename T> constexpr int any(device const T *p) { return 3; }
template <typename T, int N> constexpr int len(thread const vec<T, N> &v) { return N; }
template <typename T, int N> constexpr int arr(thread const T (&v)[N]) { return N; }
template <typename T> constexpr bool isf(T) { return false; }
template <> constexpr bool isf<float>(float) { return true; }
constexpr int over(int) { return 1; }
constexpr int over(float) { return 2; }
constexpr int over(half) { return 3; }
template <typename T> constexpr int over(T) { return 4; }
kernel void k(device half *a, device const half *b, constant half *c) {
  float3 v = 0;
  int w[5] = {};
  static_assert(sizeof(ptr(a)) == 4);
  constexpr int x = isf(1.0f) * 10 + isf(1);
  static_assert(x == 10);
  static_assert(over(1) == 1 && over(1.0f) == 2 && over(1.0h) == 3 && over(1u) == 4 && over('c') == 4);
  static_assert(is_same_v<decltype(len(v)), int>);
  int y = any(a) + any(b) + any(c) + len(v) + arr(w) + ptr(b);
}`},
	{"conversions", `
struct V { float x; V(float a) : x(a) {} operator float() const { return x; } };
struct W { float x; explicit operator bool() const { return x != 0; } };
enum Plain { p0, p1 = 5, p2 };
enum class Scoped : uchar { a = 3, b };
static_assert(p2 == 6 && int(Scoped::b) == 4 && sizeof(Scoped) == 1);
float take(V v) { return v.x; }
kernel void k(device float4 *f, device half4 *h, device float *s, device bool *b, constant int &n, device bfloat *bf, device half4x4 *m) {
  float4 a = 1;                      // splat
  a = n;
  a = float4(h[0]);
  h[0] = (half4)a;
  h[0] *= s[0];
  half x = s[0];
  int i = x;
  uchar c = 300 * i;
  s[0] = bf[0];
  bf[0] = bfloat(s[0]);
  bf[0] = static_cast<bfloat>(x);
  float4x4 g = float4x4(m[0]);
  m[0] = (half4x4)(g * 2.0f);
  float y = take(2.0f) + V(3);
  W w = {1};
  if (w) { y += 1; }
  if (s) { y += 1; }
  Plain p = p1;
  int q = p + 1;
  device const float *r = s;
  device void *vp = s;
  device char *bytes = (device char *)vp + 4;
  auto z = reinterpret_cast<device float4 *>(bytes);
  uint u = as_type<uint>(s[0]);
  float3 v3 = as_type<float3>(a);
  packed_float3 pk = v3;
  v3 = pk;
  b[0] = s != nullptr && s == 0;
  bool4 bb = a < 2 && !(a > 3);
  b[0] = all(bb) || any(bb);
  a = select(a, float4(0), bb);
  s[0] = b[0] ? 1 : s[1];
  ulong bits = (ulong)s;
}`},
	{"references and pointers", `
void add(thread float &x, device const float &y, constant float &z, threadgroup float *t) { x += y + z + t[0]; }
thread float &pick(thread float &a, thread float &b, bool c) { return c ? a : b; }
struct Block { half d; uchar qs[16]; };
float scale(const device Block &b) { return b.d; }
void old(float x[4], int n) { x[n] = 1; }
kernel void k(device const float *a, constant float &z, threadgroup float *t [[threadgroup(0)]], device Block *bl, device float *out) {
  float x = 0, y = 1;
  add(x, a[3], z, t);
  pick(x, y, true) = 5;
  device const Block *p = bl + 1;
  const device Block &q = p[2];
  x += scale(q) + scale(*p) + q.qs[3];
  device const float *rows[4];
  for (int i = 0; i < 4; ++i) { rows[i] = a + i * 8; }
  float acc[4] = {0};
  old(acc, 2);
  threadgroup float4 *t4 = (threadgroup float4 *)t;
  thread float (&view)[4] = acc;
  auto &last = acc[3];
  last = rows[1][2] + t4[0].x + view[1];
  out[0] = x + last + (rows[1] - a) + *(a + 2) + (a + 1)[1];
}`},
	{"methods and operators", `
struct M {
  float v[2];
  static constexpr constant int n = 2;
  thread float &operator[](int i) { return v[i]; }
  float operator[](int i) const { return v[i]; }
  M operator+(const thread M &o) const { M r; r.v[0] = v[0] + o.v[0]; r.v[1] = v[1] + o.v[1]; return r; }
  thread M &operator+=(float s) { v[0] += s; v[1] += s; return *this; }
  bool operator==(M o) const { return v[0] == o.v[0]; }
  float first() const device { return v[0]; }
  float first() const thread { return this->v[0]; }
  template <typename T> T as() const { return T(v[0]); }
  static int twice(int x) { return 2 * x + n; }
};
M operator*(float s, M m) { M r = {s * m[0], s * m[1]}; return r; }
struct Fn { template <typename T> T operator()(T a, T b) const { return a < b ? b : a; } };
struct Base { int b; int get() const { return b; } };
struct Derived : public Base { int d; int sum() const { return get() + d; } };
struct Counter { int n; Counter() : n(7) {} Counter(int a, int b = 3) : n(a * b) {} thread Counter &operator++() { ++n; return *this; } Counter operator++(int) { Counter c = *this; ++n; return c; } };
struct Init { int a = 4; float b = 2; };
kernel void k(device M *dm, device float *out) {
  M a = {{1, 2}}, b{};
  b[1] = 3;
  M c = a + b;
  c += 4;
  c = 2 * c;
  Derived d;
  d.b = 1; d.d = 2;
  Counter q, w(2), e(2, 5);
  ++q; w++;
  Init in;
  Init in2 = {9};
  out[0] = c[0] + dm[0].first() + a.first() + c.as<float>() + M::twice(3) + Fn()(1.0f, 2.0f) + Fn{}(3, 4) + d.sum() + (c == a) + q.n + e.n + in.a + in2.b + dm->first();
}`},
	{"namespaces", `
namespace a { namespace b { constant int x = 3; struct S { int v; }; int f(S s) { return 1; } } using namespace b; }
namespace c = a::b;
namespace { constant int hidden = 4; }
using a::b::S;
static_assert(a::x + c::x + hidden == 10);
int g() { S s = {1}; return f(s); }
inline namespace d { constant int y = 5; }
static_assert(y == 5 && metal::max(1, 2) == 2);
void h(float x) { float y = metal::fast::exp(x) + precise::sqrt(x) + metal::precise::tanh(x); }`},
	{"statements", `
constant bool flag [[function_constant(0)]];
constant int n [[function_constant(1)]];
constant bool has_n = is_function_constant_defined(n);
constant int m = has_n ? n : 4;
kernel void k(device int *a, uint i [[thread_position_in_grid]]) {
  if (int x = a[0]; x > 0) a[1] = x;
  if (int y = a[2]) { a[3] = y; }
  while (int z = a[4]) { a[4] = z - 1; if (z == 3) continue; if (z > 9) break; }
  do { a[5]--; } while (a[5] > 0);
  #pragma unroll(4)
  for (int j = 0; j < m; j++) a[j] += j;
  #pragma clang loop unroll(full)
  for (ushort j = 0, l = 3; j < l; ++j) { a[j] *= 2; }
  int arr[3] = {1, 2, 3};
  for (int v : arr) { a[6] += v; }
  switch (a[7]) { case 1: case 2: a[8] = 1; break; case 3: { int q = 2; a[8] = q; } default: a[8] = 0; }
  if (flag) { threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device); }
  simdgroup_barrier(mem_flags::mem_none);
  { using T = int; typedef T U; struct L { U v; }; L l = {3}; a[9] = l.v; enum { E = 4 }; a[10] = E; }
  constexpr int N = 2 * 3;
  int b[N], c = sizeof(b);
  a[11] = (a[0], c);
  return;
}`},
	{"library", `
kernel void k(device float *x, device float4 *v, device half *h, device int *i, device uint *u, device bfloat *b) {
  x[0] = exp(x[1]) + pow(x[1], x[2]) + fma(x[0], x[1], x[2]) + rsqrt(x[0]) + sin(x[0]) + fract(x[0]) + sign(x[0]) + mix(x[0], x[1], 0.5f);
  x[1] = length(v[0].xyz) + dot(v[0], v[1]) + cross(v[0].xyz, v[1].xyz).x + distance(v[0], v[1]) + normalize(v[0]).x;
  h[0] = max(h[0], h[1]) + exp(h[0]) + clamp(h[0], 0.0h, 1.0h);
  i[0] = min(i[0], i[1]) + abs(i[0]) + clz(i[0]) + popcount(i[0]) + max3(i[0], i[1], i[2]) + mulhi(i[0], i[1]);
  u[0] = rotate(u[0], 3u) + extract_bits(u[0], 3u, 4u) + reverse_bits(u[0]) + pack_float_to_unorm4x8(v[0]);
  x[2] = simd_sum(x[0]) + simd_max(x[1]) + simd_shuffle_down(x[0], 16) + simd_shuffle_xor(x[0], 1) + simd_broadcast_first(x[0]) + quad_sum(x[0]);
  u[1] = simd_ballot(true).any() + simd_any(true) + simd_prefix_exclusive_sum(u[0]) + uint(ulong(simd_active_threads_mask()));
  x[3] = numeric_limits<float>::max() + numeric_limits<half>::infinity() + isnan(x[0]) + isinf(x[1]) + exp(b[0]);
  v[0] = select(v[0], v[1], isnan(v[2])) + smoothstep(v[0], v[1], v[2]) + saturate(v[1]);
  float c; x[4] = sincos(x[0], c) + c + ldexp(x[1], 3);
  int e; x[5] = frexp(x[0], e) + e;
}
static_assert(numeric_limits<int>::max() == 2147483647 && numeric_limits<uchar>::max() == 255 && numeric_limits<char>::lowest() == -128);
static_assert(numeric_limits<half>::max() == 65504.0h && numeric_limits<float>::epsilon() == 0x1p-23f);
static_assert(is_same_v<conditional_t<(sizeof(int) > 2), half, float>, half> && is_same<remove_cv_t<const int>, int>::value);
static_assert(is_same_v<make_unsigned_t<short>, ushort> && is_floating_point_v<bfloat> && !is_signed<uint>::value);
static_assert(is_same_v<remove_addrspace_t<device int>, int>);`},
	{"simdgroup matrices and atomics", `
kernel void k(device half *a, device float *b, threadgroup half *t, device atomic_int *n, threadgroup atomic_uint *m, device atomic<float> *f, device float *out) {
  simdgroup_half8x8 x, y;
  simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8>(0.f);
  simdgroup_matrix<float, 8, 8> z(0);
  simdgroup_load(x, a, 16);
  simdgroup_load(y, t, 8, 0, true);
  simdgroup_load(x, a, 16, ulong2(0, 8), false);
  simdgroup_multiply_accumulate(acc, x, y, acc);
  simdgroup_multiply_accumulate(acc, acc, y, z);
  simdgroup_multiply(z, x, y);
  simdgroup_store(acc, b, 32);
  acc = z * z;
  acc.thread_elements()[0] = 2;
  float2 e = acc.thread_elements();
  thread auto &ref = reinterpret_cast<thread float2 &>(acc.thread_elements());
  ref.x = 1;
  int old = atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
  atomic_store_explicit(m, 3u, memory_order_relaxed);
  uint expected = 3;
  bool ok = atomic_compare_exchange_weak_explicit(m, &expected, 4u, memory_order_relaxed, memory_order_relaxed);
  out[0] = atomic_exchange_explicit(f, 1.0f, memory_order_relaxed) + e.x + old + ok + atomic_load_explicit(m, memory_order_relaxed);
}`},
}

func TestAccepted(t *testing.T) {
	for _, c := range accepted {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) { good(t, c.src) })
	}
}

// A failing static_assert in a program of the table above must be seen: the table proves
// nothing otherwise.
func TestAssertsAreEvaluated(t *testing.T) {
	for _, c := range accepted {
		if strings.Contains(c.src, "static_assert(") {
			_, errs := run(t, strings.Replace(c.src, "static_assert(", "static_assert(false && ", 1))
			require.NotEmpty(t, errs, c.name)
		}
	}
}
