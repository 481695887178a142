#include <metal_stdlib>
using namespace metal;

// dst[i] = src[i] + by, for each thread of the grid.
kernel void add(device const uint *src [[buffer(0)]],
                device uint *dst [[buffer(1)]],
                constant uint &by [[buffer(2)]],
                uint i [[thread_position_in_grid]]) {
    dst[i] = src[i] + by;
}

kernel void fill(device uint *dst [[buffer(0)]],
                 constant uint &value [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
    dst[i] = value;
}

// Steps with different operands do not commute.
kernel void affine(device uint *x [[buffer(0)]],
                   constant uint2 &step [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
    x[i] = x[i] * step.x + step.y;
}

// The highest buffer index, and inline bytes of the largest size.
kernel void last_buffer(device uint *dst [[buffer(0)]],
                        constant uint *table [[buffer(30)]],
                        uint i [[thread_position_in_grid]]) {
    dst[i] = table[1023 - i];
}

// One dot product for each simdgroup: its rounding depends on the order of the
// additions.
kernel void dots(device const float *x [[buffer(0)]],
                 device float *sum [[buffer(1)]],
                 uint group [[threadgroup_position_in_grid]],
                 uint sgs [[simdgroups_per_threadgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]]) {
    uint row = group * sgs + sg;
    float part = 0;
    for (uint i = lane; i < 128; i += 32) {
        part += x[row * 128 + i] * x[i];
    }
    part = simd_sum(part);
    if (lane == 0) {
        sum[row] = part;
    }
}

// Counts threads through an atomic.
kernel void count(device atomic_uint *total [[buffer(0)]]) {
    atomic_fetch_add_explicit(total, 1u, memory_order_relaxed);
}
