// What the shim declares, each used once in the way that the kernels use it.
#include <metal_stdlib>
using namespace metal;

struct Params {
    int a;
    float b;
    uint n;
};

struct block {
    half d;
    uchar qs[16];
};

struct pair {
    float m, s;
};

constant bool has_bias [[function_constant(0)]];
constant int width [[function_constant(1)]];
constant float table[4] = {1, 2, 3, 4};

// Structs are passed by reference, in the address space that they are in.
inline void combine(thread pair &r, thread const pair &b) {
    r.m = max(r.m, b.m);
    r.s = r.s * exp(r.m - b.m) + b.s;
}

inline void dequantize(device const block &b, thread float (&y)[16]) {
    for (uint i = 0; i < 16; i++) {
        y[i] = float(b.d) * float(int(b.qs[i] & 15) - 8);
    }
}

inline void fill(device const block *b, thread float *y) {
    y[0] = float(b->d);
}

// Overloads by address space and by element type.
inline float get(device const float *x, uint i) { return x[i]; }
inline float get(device const half *x, uint i) { return float(x[i]); }
inline float get(threadgroup const float *x, uint i) { return x[i]; }
inline float get(constant float *x, uint i) { return x[i]; }

template <typename T> inline T twice(T x) { return x + x; }

// Instances through one macro; FUNCTION is a function's name.
#define INSTANCE(NAME, T, FUNCTION) \
    kernel void kernel_##NAME(device const T *x [[buffer(0)]], \
                              device T *y [[buffer(1)]], \
                              constant Params &p [[buffer(2)]], \
                              uint i [[thread_position_in_grid]]) { \
        y[i] = T(FUNCTION(float(x[i])) + p.b); \
    }

INSTANCE(twice_f32, float, twice)
INSTANCE(exp_f16, half, exp)

[[max_total_threads_per_threadgroup(256)]]
kernel void kernel_scalars(device const block *w [[buffer(0)]],
                           device const float *x [[buffer(1)]],
                           device const float *bias [[buffer(2), function_constant(has_bias)]],
                           device float *y [[buffer(3)]],
                           device half *h [[buffer(4)]],
                           constant Params &p [[buffer(5)]],
                           threadgroup float *shared [[threadgroup(0)]],
                           uint t [[thread_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]],
                           uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup float part[64];
    threadgroup uint count[1];
    device const block &b = w[t];
    float e[16];
    dequantize(b, e);
    fill(w + t, e);
    pair r = {1, 2};
    pair q = r;
    combine(r, q);
    q = r;
    part[t % 64] = get(x, t) + get(h, t) + get(table, t & 3) + q.m;
    shared[t] = 0;
    count[0] = sg;
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    float s = simd_sum(e[0]) + simd_shuffle_xor(e[1], 1) + simd_max(e[2]) + simd_min(e[3]) + get(part, t % 64);
    s += simd_shuffle(s, lane ^ 1) + simd_broadcast_first(s) + simd_shuffle_down(s, 16);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    device const ushort *u = (device const ushort *)b.qs;
    s += as_type<float>(uint(u[0]) << 16) + float(as_type<half>(u[1]));
    s += max(s, 0.0f) + min(s, 1.0f) + fabs(s) + 1e-3 + rsqrt(s) + sqrt(s) + pow(s, 2.0f) + fma(s, s, s);
    float c;
    s += sincos(s, c) + cos(s) + sin(s) + floor(s) + round(s) + rint(s) + trunc(s) + precise::exp(s) + fast::exp(s);
    s = clamp(s, -FLT_MAX, FLT_MAX) + select(s, c, s < c) + float(popcount(t)) + float(clz(count[0]));
    if (has_bias) {
        s += bias[t] + float(width) + float(half(s) * 1.5h);
    }
    h[t] = half(s);
    device const float *start = has_bias ? bias : x;
    device const float *both[2] = {x, x + 1};
    const uint n = min(p.n, 3u);
#pragma unroll
    for (uint i = 0; i < n; i++) {
        s += start[i] + both[i & 1][0];
    }
    switch (p.a) {
    case 0: y[t] = s; break;
    case 1: y[t] = c; break;
    default: break;
    }
}

kernel void kernel_vectors(device const uchar *x [[buffer(0)]],
                           device float4 *y [[buffer(1)]],
                           device half4 *h [[buffer(2)]],
                           threadgroup float *shared [[threadgroup(0)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           ushort3 thread_at [[thread_position_in_threadgroup]]) {
    const uint t = thread_at.x + 32 * thread_at.y;
    float4 a = float4(1, 2.0, 3, table[2]);
    a *= 2;
    a = a * 3.0f + float4(2) + y[group.x];
    uchar4 q = *(device const uchar4 *)(x + 4 * t);
    a += float4(q & uchar4(15)) + float4(q >> 4) + (t > 0 ? a : float4(0));
    half4 b = half4(a);
    a = float4(b) + float4(float2(1, 2), a.zw) + float4(a.xyz, 1);
    a = select(a, float4(1), a < float4(0.5f));
    if (any(a > float4(2)) && t < group.y) {
        a = exp(a) + max(a, float4(0)) + min(a, 1.0f) + simd_sum(a);
    }
    *(threadgroup float4 *)(shared + 4 * t) = a;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    a.x = dot(a, *(threadgroup const float4 *)(shared + 4 * (t ^ 1)));
    a[t & 3] = float(uint2(1, 2).y) + float(int3(1, 2, 3).z) + float(q[t & 3]);
    y[t] = a;
    h[t] = b * 2.0h;
}

kernel void kernel_matrices(device float *x [[buffer(0)]],
                            device half *h [[buffer(1)]],
                            threadgroup float *shared [[threadgroup(0)]]) {
    simdgroup_float8x8 acc[2][2];
    for (uint i = 0; i < 2; i++) {
        acc[i][0] = make_filled_simdgroup_matrix<float, 8>(0.0f);
        acc[i][1] = simdgroup_float8x8(0);
    }
    simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8>(1.0f);
    simdgroup_half8x8 b;
    simdgroup_load(b, h, 8);
    simdgroup_load(a, x, 8, ulong2(0, 0), true);
    simdgroup_multiply_accumulate(acc[0][0], a, a, acc[0][0]);
    simdgroup_multiply_accumulate(acc[0][1], b, a, acc[0][1]);
    simdgroup_multiply(acc[1][0], a, a);
    acc[1][1] = acc[1][0];
    simdgroup_store(acc[1][1], shared, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_load(a, shared, 8);
    simdgroup_store(a, x, 8);
    simdgroup_store(b, h, 8);
}
