// Even and odd simdgroups stage different rows.
#include <metal_stdlib>
using namespace metal;

kernel void two_arms(device const float *x [[buffer(0)]],
                     device float *y [[buffer(1)]],
                     uint tid [[thread_position_in_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup float tile[64];
    if (sg == 0) {
        tile[tid] = x[tid];
    } else {
        tile[tid] = x[tid] * 2.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[tid] = tile[63 - tid];
}
