// A tree sum whose shape the host chooses.
#include <metal_stdlib>
using namespace metal;

kernel void chosen(device const float *x [[buffer(0)]],
                   device float *y [[buffer(1)]],
                   constant uint &shape [[buffer(2)]],
                   uint group [[threadgroup_position_in_grid]],
                   uint tid [[thread_position_in_threadgroup]],
                   uint nt [[threads_per_threadgroup]]) {
    threadgroup float part[64];
    part[tid] = x[group * nt + tid];
    if (group % 2 == 0) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint h = nt / 2; h > 0; h /= 2) {
            if (tid < h) {
                part[tid] += part[tid + h];
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
    switch (shape) {
    case 1:
        threadgroup_barrier(mem_flags::mem_threadgroup);
        break;
    default:
        threadgroup_barrier(mem_flags::mem_none);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        break;
    }
    y[group * nt + tid] = part[nt - 1 - tid];
}
