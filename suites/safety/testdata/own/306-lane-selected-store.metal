// Arg max by simdgroup.
#include <metal_stdlib>
using namespace metal;

kernel void arg_max(device const float *x [[buffer(0)]],
                    device uint *at [[buffer(1)]],
                    device float *peak [[buffer(2)]],
                    uint tid [[thread_position_in_grid]],
                    uint lane [[thread_index_in_simdgroup]]) {
    const float v = x[tid];
    const float m = simd_max(v);
    const uint first = simd_min(v == m ? lane : 32u);
    if (lane == first) {
        at[tid / 32] = tid;
    }
    peak[tid / 32] = m;
}
