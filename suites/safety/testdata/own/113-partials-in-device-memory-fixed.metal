// Row sums with partials in a device scratch buffer.
#include <metal_stdlib>
using namespace metal;

kernel void row_sums(device const float *x [[buffer(0)]],
                     device float *scratch [[buffer(1)]],
                     device float *y [[buffer(2)]],
                     uint row [[threadgroup_position_in_grid]],
                     uint tid [[thread_position_in_threadgroup]],
                     uint nt [[threads_per_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]]) {
    const float s = simd_sum(x[row * nt + tid]);
    if (lane == 0) {
        scratch[row * 4 + sg] = s;
    }
    threadgroup_barrier(mem_flags::mem_device);
    if (tid == 0) {
        float all = 0.0f;
        for (uint i = 0; i < 4; ++i) {
            all += scratch[row * 4 + i];
        }
        y[row] = all;
    }
}
