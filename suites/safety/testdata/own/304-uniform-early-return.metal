// Reverses rows; the launch has spare threadgroups.
#include <metal_stdlib>
using namespace metal;

kernel void reverse_rows(device const float *x [[buffer(0)]],
                         device float *y [[buffer(1)]],
                         constant uint &rows [[buffer(2)]],
                         uint row [[threadgroup_position_in_grid]],
                         uint tid [[thread_position_in_threadgroup]],
                         uint nt [[threads_per_threadgroup]]) {
    threadgroup float line[64];
    if (row >= rows) {
        return;
    }
    line[tid] = x[row * nt + tid];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[row * nt + tid] = line[nt - 1 - tid];
}
