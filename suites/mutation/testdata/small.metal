#include <metal_stdlib>
#include "small.h"

using namespace metal;

#define TILE 32

struct Params {
    uint n;
    uint n_head, n_head_kv;
};

inline float scaled(device const block &b, uint i) { return fma(float(b.d), float(b.qs[i]), float(b.m)); }

template <typename T>
inline void body(device const T *k, device const T *v, device const block *w, device float *y, constant Params &p,
                 threadgroup float *part, uint head, uint lane, uint sg) {
    const uint kv_head = head / (p.n_head / p.n_head_kv);
    float sum = 0.0f;
    uint i = lane;
    for (; i + TILE < p.n; i += TILE) {
        sum += float(k[kv_head * p.n + i]) * float(v[i]) - scaled(w[i / 4], i % 4);
    }
    for (; i < min(p.n, 64u); i += TILE) {
        sum *= 2.0f;
    }
    const float all = simd_sum(sum);
    if (lane == 0 && sg < 2) {
        part[sg] = all;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[head] = p.n > 1 ? part[0] + part[1] : -part[0];
}

#define KERNEL(name, T)                                                                       \
    kernel void name(device const T *k [[buffer(0)]], device const T *v [[buffer(1)]],        \
                     device const block *w [[buffer(2)]], device float *y [[buffer(3)]],      \
                     constant Params &p [[buffer(4)]], uint head [[threadgroup_position_in_grid]], \
                     uint lane [[thread_index_in_simdgroup]],                                 \
                     uint sg [[simdgroup_index_in_threadgroup]]) {                            \
        threadgroup float part[2];                                                            \
        body(k, v, w, y, p, part, head, lane, sg);                                            \
    }

KERNEL(small_f32, float)
KERNEL(small_f16, half)
