// Row sums by a tree; the row may be shorter than the threadgroup.
#include <metal_stdlib>
using namespace metal;

kernel void tail_sum(device const float *x [[buffer(0)]],
                     device float *y [[buffer(1)]],
                     constant uint &n [[buffer(2)]],
                     uint tid [[thread_position_in_threadgroup]],
                     uint nt [[threads_per_threadgroup]]) {
    threadgroup float part[64];
    part[tid] = tid < n ? x[tid] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint h = nt / 2; h > 0; h /= 2) {
        if (tid < h) {
            part[tid] += part[tid + h];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (tid == 0) {
        y[0] = part[0];
    }
}
