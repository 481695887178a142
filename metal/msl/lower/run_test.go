package lower_test

import (
	"encoding/binary"
	"math"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/irtest"

	"github.com/stretchr/testify/require"
)

func ints(xs ...int32) []byte {
	var b []byte
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func toInts(b []byte) []int32 {
	var xs []int32
	for k := 0; k+4 <= len(b); k += 4 {
		xs = append(xs, int32(binary.LittleEndian.Uint32(b[k:])))
	}
	return xs
}

func floats(xs ...float32) []byte {
	var b []byte
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func toFloats(b []byte) []float32 {
	var xs []float32
	for _, x := range toInts(b) {
		xs = append(xs, math.Float32frombits(uint32(x)))
	}
	return xs
}

// lane runs one lane of a kernel and leaves the results in the buffers.
func lane(t *testing.T, f *ir.Func, index uint32, buffers ...[]byte) {
	t.Helper()
	l := irtest.Lane{Buffers: buffers, Grid: func(ir.GridKind, int) uint32 { return index }}
	require.NoError(t, l.Run(f))
}

// Results of integer kernels, worked out by hand from the language's rules.
func TestIntegerResults(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		in   []int32
		want []int32
	}{
		"promotion": {`uchar a = 200, b = 100; x[0] = a + b; uchar c = a + b; x[1] = c; ushort s = 0x8000; x[2] = s << 1; x[3] = ~a;`,
			[]int32{0, 0, 0, 0}, []int32{300, 44, 0x10000, -201}},
		"vectors do not promote": {`uchar4 a = uchar4(200), b = uchar4(100); uchar4 c = a + b; x[0] = c.x; ushort4 s = ushort4(1); s <<= ushort4(17); x[1] = s.y;`,
			[]int32{0, 0}, []int32{44, 2}},
		"shift counts wrap": {`x[0] = 1 << x[1]; x[2] = int(0x80000000u >> 33u); x[3] = -8 >> 1;`,
			[]int32{0, 35, 0, 0}, []int32{8, 35, 0x40000000, -4}},
		"division": {`x[0] = x[0] / x[1]; x[2] = -7 / 2; x[3] = -7 % 3; x[4] = int(uint(-7) / 2u); x[5] = x[5] / 8; x[6] = x[6] % 8;`,
			[]int32{5, 0, 0, 0, 0, -9, -9}, []int32{0, 0, -3, -1, 0x7ffffffc, -1, -1}},
		"mixed width": {`long l = x[0]; ulong u = x[0]; x[0] = int(l >> 32); x[1] = int(u >> 63); x[2] = int((long(1) << 40) >> 38); size_t z = 3; x[3] = int(x[3] * z);`,
			[]int32{-1, 0, 0, 5}, []int32{-1, 1, 4, 15}},
		"swizzles": {`int4 v = int4(1, 2, 3, 4); v.xz = v.zx; v.w += 10; int2 w = v.yx; x[0] = v.x; x[1] = v.z; x[2] = v.w; x[3] = w.x * 10 + w.y; v[x[4]] = 7; x[4] = v.y;`,
			[]int32{0, 0, 0, 0, 1}, []int32{3, 1, 14, 23, 7}},
		"chosen swizzles": {`int4 v = int4(1, 2, 3, 4), w = int4(5); int2 a = x[0] > 0 ? v.xy : v.wz, b = x[1] > 0 ? v.xy : w.zw; x[0] = a.x; x[1] = a.y; x[2] = b.y; (x[3] > 0 ? v.x : w.y) = 9; x[3] = v.x; x[4] = w.y; x[5] = x[5] > 0 ? v[1] : w[2];`,
			[]int32{0, 0, 0, 0, 0, 3}, []int32{4, 3, 5, 1, 9, 2}},
		"switch falls through": {`int r = 0; switch (x[0]) { case 1: r += 1; case 2: r += 2; break; default: r = 100; case 5: r += 5; break; case 7: r = 7; } x[0] = r;
			r = 0; switch (x[1]) { case 1: r += 1; case 2: r += 2; break; default: r = 100; case 5: r += 5; break; case 7: r = 7; } x[1] = r;
			r = 0; switch (x[2]) { case 1: r += 1; case 2: r += 2; break; default: r = 100; case 5: r += 5; break; case 7: r = 7; } x[2] = r;
			r = 0; switch (x[3]) { case 1: r += 1; case 2: r += 2; break; default: r = 100; case 5: r += 5; break; case 7: r = 7; } x[3] = r;`,
			[]int32{1, 5, 6, 7}, []int32{3, 5, 105, 7}},
		"loops": {`int s = 0; for (int i = 0; i < x[0]; i++) { if (i == 2) continue; if (i > 5) break; s += i; } x[1] = s;
			int k = 0; do { k += 3; } while (k < 10); x[2] = k; while (true) { if (--k < 4) break; } x[3] = k;
			s = 0; for (int i = 0; i < 3; i++) for (int j = i; j < 3; j++) { if (j == 1) continue; s += 10 * i + j; } x[4] = s;`,
			[]int32{100, 0, 0, 0, 0}, []int32{100, 13, 12, 3, 36}},
		"short circuit": {`int n = 0; if (x[0] > 5 && ++n > 0) x[1] = 1; if (x[0] > 5 || ++n > 0) x[2] = n; x[3] = (x[0] ? n : x[100000]);`,
			[]int32{1, 0, 0, 0}, []int32{1, 0, 1, 1}},
		"pointers": {`int a[4] = {1, 2, 3}; thread int *p = a + 1; *p++ = 20; p[1] += 5; x[0] = a[1]; x[1] = a[2] + a[3]; x[2] = int(p - a); device int *q = x + 4; q[-1] = 9; x[4] = (q - x) == 4 ? *p : 0;`,
			[]int32{0, 0, 0, 0, 0}, []int32{20, 8, 2, 9, 3}},
		"dynamic index": {`int a[5]; for (int i = 0; i < 5; i++) a[i] = i * i; x[0] = a[x[1]]; a[x[1]] = -1; int s = 0; for (int i = 0; i < 5; i++) s += a[i]; x[2] = s;`,
			[]int32{0, 3, 0}, []int32{9, 3, 20}},
		"compound order": {`int i = 1; x[i++] = i; x[0] = i; i += i++ * 0 + 5; x[2] = i; x[3] = (i = 4, i + 1);`,
			[]int32{0, 0, 0, 0}, []int32{2, 1, 8, 5}},
		"bits": {`x[0] = popcount(x[0]); x[1] = clz(x[1]); x[2] = as_type<int>(2.0f); uint2 u = as_type<uint2>(0x100000002ul); x[3] = int(u.x * 10 + u.y); x[4] = int(as_type<uint>(uchar4(1, 2, 3, 4)));`,
			[]int32{255, 1, 0, 0, 0}, []int32{8, 31, 0x40000000, 21, 0x04030201}},
		"narrow bits": {`x[0] = rotate(uchar(0x81), uchar(1)); x[1] = rotate(short2(1), short2(-1)).y; x[2] = addsat(char(100), char(100)); x[3] = subsat(short4(-32768), short4(1)).w; x[4] = subsat(uchar(3), uchar(5)); x[5] = extract_bits(char(0x70), 4u, 3u);
			x[6] = insert_bits(ushort(0xffff), ushort(0), 4u, 8u); x[7] = int(addsat(ulong(-1l), 1ul) >> 60); x[8] = int(rotate(1l, 33l) >> 32);`,
			make([]int32, 9), []int32{3, -32768, 127, -32768, 0, -1, 0xf00f, 15, 2}},
		"min max": {`x[0] = min(x[0], x[1]); x[1] = int(max(uint(x[1]), 5u)); x[2] = clamp(x[2], 0, 10); x[3] = abs(x[3]);`,
			[]int32{3, -1, 99, -4}, []int32{-1, -1, 10, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f := specialize(t, "kernel void k(device int *x) {"+c.body+"}", "k", nil)
			b := ints(c.in...)
			lane(t, f, 0, b)
			require.Equal(t, c.want, toInts(b))
		})
	}
}

// Results of float kernels; all numbers are exact, so the order of sums does not
// matter.
func TestFloatResults(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		in   []float32
		want []float32
	}{
		"half rounds after each operation": {`half a = 2048.h, b = 1.h; x[0] = a + b; x[1] = float(a) + b; half4 v = half4(1.h); v *= 0.1f; x[2] = v.x; x[3] = half(65520.0f) > 65504.h ? 1 : 0;`,
			[]float32{0, 0, 0, 0}, []float32{2048, 2049, 0.0999755859375, 1}},
		"bfloat": {`bfloat b = bfloat(1.0078125f); x[0] = b; x[1] = float(bfloat(257.0f)); x[2] = float(bfloat(float(b) * 3));`,
			[]float32{0, 0, 0}, []float32{1.0078125, 256, 3.03125}},
		"conversions": {`x[0] = float(int(-2.75f)); x[1] = float(uint(3.9f)); x[2] = float(uchar(x[2])); x[3] = float(int(x[3])); x[4] = float(16777217);`,
			[]float32{0, 0, 300, float32(math.NaN()), 0}, []float32{-2, 3, 255, 0, 16777216}},
		"matrices": {`float2x2 a = float2x2(float2(1, 2), float2(3, 4)); float2 v = a * float2(1, 10); x[0] = v.x; x[1] = v.y; v = float2(1, 10) * a; x[2] = v.x; float2x2 b = a * a; x[3] = b[1][0]; b = transpose(a); x[4] = b[0][1]; a[1].x = 9; x[5] = a[1][0] + (a * 2.0f)[0][1];`,
			make([]float32, 6), []float32{31, 42, 21, 15, 3, 13}},
		"select and compare": {`float4 v = float4(x[0], 2, 3, 4); float4 w = select(v, float4(-1), v > 2.5f); x[0] = w.x + w.y; x[1] = w.z; x[2] = all(v == v) ? 1 : 0; x[3] = any(v < 0) ? 1 : 0; x[4] = dot(v, v);`,
			[]float32{1, 0, 0, 0, 0}, []float32{3, -1, 1, 0, 30}},
		"functions": {`x[0] = sqrt(x[0]); x[1] = fmin(x[1], 3.0f); x[2] = floor(-2.5f) + ceil(2.5f) + rint(2.5f) + trunc(-2.5f) + round(2.5f); x[3] = fma(2.0f, 3.0f, 4.0f) + abs(-1.5f); x[4] = fmod(7.5f, 2.0f); x[5] = exp2(3.0f);`,
			[]float32{16, float32(math.NaN()), 0, 0, 0, 0}, []float32{4, 3, 3, 11.5, 1.5, 8}},
		"three vectors": {`float3 v = float3(1, 2, 3); packed_float3 p = packed_float3(v * 2); x[0] = p.z; float3 a[2]; a[1] = v.zyx; x[1] = a[1].x; x[2] = float(sizeof(float3) + sizeof(packed_float3)); v = float3(p); x[3] = v.y;`,
			make([]float32, 4), []float32{6, 3, 28, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f := specialize(t, "kernel void k(device float *x) {"+c.body+"}", "k", nil)
			b := floats(c.in...)
			lane(t, f, 0, b)
			require.Equal(t, c.want, toFloats(b))
		})
	}
}

// Functions, references, templates and structs.
func TestCalls(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		in, want []int32
	}{
		"return from loops": {`static int find(device const int *x, int n, int v) { for (int i = 0; i < n; i++) { if (x[i] == v) return i; if (x[i] < 0) return -2; } return -1; }
			kernel void k(device int *x) { int a = find(x, 4, 7), b = find(x, 4, 8); x[0] = a; x[1] = b; x[2] = find(x, 2, 99); }`,
			[]int32{1, 5, 7, 9}, []int32{2, -1, -2, 9}},
		"references": {`static void swap(thread int &a, thread int &b) { int t = a; a = b; b = t; } static thread int &pick(thread int *p, int i) { return p[i]; }
			kernel void k(device int *x) { int a = x[0], b = x[1]; swap(a, b); int c[3] = {a, b, 0}; pick(c, 2) = 42; pick(c, x[2]) += 1; x[0] = c[0]; x[1] = c[1]; x[2] = c[2]; }`,
			[]int32{1, 2, 1}, []int32{2, 2, 42}},
		"references to device": {`static void inc(device int &a, constant int &by) { a += by; } kernel void k(device int *x, constant int &by) { inc(x[1], by); device int &r = x[0]; r = 7; }`,
			[]int32{1, 2}, []int32{7, 12}},
		"template functions as arguments": {`template <typename T> void one(device const int *p, thread T &r) { r = p[0] + 1; } template <typename T> void two(device const int *p, thread T &r) { r = p[1] * 2; }
			template <typename T, void (*f)(device const int *, thread T &)> void apply(device int *x, int at) { T r; f(x, r); x[at] = r; }
			kernel void k(device int *x) { apply<int, one>(x, 2); apply<int, two>(x, 3); }`,
			[]int32{10, 20, 0, 0}, []int32{10, 20, 11, 40}},
		"unions and byte views": {`struct s { union { struct { uchar lo, hi; }; ushort both; }; int n; }; kernel void k(device int *x) { s v; v.both = 0x1234; v.n = 5; s w = v; w.hi = 1; x[0] = v.hi; x[1] = w.both; x[2] = w.n; uint a[2] = {0x01020304, 0x05060708}; thread const uchar *b = (thread const uchar *)a; x[3] = b[5] + b[0]; ((thread ushort *)a)[1] = 0xffff; x[4] = int(a[0] >> 8); }`,
			make([]int32, 5), []int32{0x12, 0x134, 5, 11, 0xffff03}},
		"structs by value": {`struct p { int a; int2 b; int c[2]; }; static p make(int a) { p r = {a, int2(a + 1, a + 2), {7, 8}}; return r; } static int sum(p v) { v.c[0] = 0; return v.a + v.b.x + v.b.y + v.c[0] + v.c[1]; }
			kernel void k(device int *x) { p v = make(x[0]); x[0] = sum(v); x[1] = v.c[0]; x[2] = make(3).b.y; x[3] = int(sizeof(p)); }`,
			[]int32{1, 0, 0, 0}, []int32{14, 7, 5, 24}},
		"constant tables": {`constant uchar t[4] = {9, 8, 7, 6}; constant int2 u[2] = {int2(1, 2), int2(3, 4)}; kernel void k(device int *x) { x[0] = t[x[0]] + t[1]; x[1] = u[x[1]].y; constant uchar *p = t + 2; x[2] = *p; }`,
			[]int32{3, 1, 0}, []int32{14, 4, 7}},
		"enums": {`enum kind { a = 3, b }; kernel void k(device int *x) { kind z = b; x[0] = z; if (z == b) x[1] = a; }`, []int32{0, 0}, []int32{4, 3}},
		"atomics": {`kernel void k(device atomic_int *x) { int old = atomic_fetch_add_explicit(x, 5, memory_order_relaxed); atomic_store_explicit(x + 1, old, memory_order_relaxed); int e = 9; bool ok = atomic_compare_exchange_weak_explicit(x + 2, &e, 1, memory_order_relaxed, memory_order_relaxed); atomic_fetch_max_explicit(x + 3, ok ? 100 : e, memory_order_relaxed); }`,
			[]int32{1, 0, 4, -7}, []int32{6, 1, 4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			f := specialize(t, c.text, "k", nil)
			b := ints(c.in...)
			lane(t, f, 0, b, ints(10))
			require.Equal(t, c.want, toInts(b))
		})
	}
}

// A choice between variables is one between their values: no variable has to live
// in memory for it. One that is assigned to or whose address is taken still chooses
// an object.
func TestChosenValuesAreNotInMemory(t *testing.T) {
	text := `kernel void k(device float *x, uint i [[thread_position_in_grid]]) {
		float a = x[0], b = x[1], c = x[2];
		const float d = i == 0 ? a : i == 1 ? b : c;
		float4 v = float4(a), w = float4(b), z = i > 1 ? v : w;
		x[3] = d + z.y;
		x[4] = i < 7 ? x[0] : x[100000];
	}`
	f := specialize(t, text, "k", nil)
	require.Empty(t, f.Allocas)
	for i, want := range []float32{1 + 2, 2 + 2, 4 + 1} {
		b := floats(1, 2, 4, 0, 0)
		lane(t, f, uint32(i), b)
		require.Equal(t, []float32{1, 2, 4, want, 1}, toFloats(b))
	}
	f = specialize(t, `kernel void k(device float *x, uint i [[thread_position_in_grid]]) {
		float a = 1, b = 2;
		(i == 0 ? a : b) += 8;
		x[0] = a;
		x[1] = b;
	}`, "k", nil)
	b := floats(0, 0)
	lane(t, f, 1, b)
	require.Equal(t, []float32{1, 10}, toFloats(b))
}
