// Row sums of 50.
#include <metal_stdlib>
using namespace metal;

kernel void fifty(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  uint row [[threadgroup_position_in_grid]],
                  uint tid [[thread_position_in_threadgroup]],
                  uint nt [[threads_per_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]],
                  uint sg [[simdgroup_index_in_threadgroup]],
                  uint groups [[simdgroups_per_threadgroup]]) {
    threadgroup float slot[2];
    const float s = simd_sum(x[row * nt + tid]);
    if (lane == 0) {
        slot[sg] = s;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid < groups) {
        y[row * groups + tid] = slot[groups - 1 - tid];
    }
}
