// Histogram of signs in threadgroup memory, added up in device memory.
#include <metal_stdlib>
using namespace metal;

kernel void histogram(device const float *x [[buffer(0)]],
                      device atomic_uint *bins [[buffer(1)]],
                      uint i [[thread_position_in_grid]],
                      uint tid [[thread_position_in_threadgroup]]) {
    threadgroup atomic_uint local[2];
    if (tid < 2) {
        atomic_store_explicit(&local[tid], 0u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint b = x[i] < 0.0f ? 0u : 1u;
    atomic_fetch_add_explicit(&local[b], 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid < 2) {
        const uint n = atomic_load_explicit(&local[tid], memory_order_relaxed);
        atomic_fetch_add_explicit(&bins[tid], n, memory_order_relaxed);
    }
}
