// Partial sums, one for each threadgroup.
#include <metal_stdlib>
using namespace metal;

kernel void partial_sums(device const float *x [[buffer(0)]],
                         device float *sum [[buffer(1)]],
                         uint i [[thread_position_in_grid]],
                         uint group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const float s = simd_sum(x[i]);
    if (lane == 0) {
        sum[0] = s;
    }
}
