// Each simdgroup scales its row by the greatest value; the scale goes through threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void scale_to_peak(device const float *x [[buffer(0)]],
                          device float *y [[buffer(1)]],
                          uint tid [[thread_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]],
                          uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup float peak[4];
    const float v = x[tid];
    const float s = simd_sum(fabs(v));
    if (lane == 0) {
        peak[sg] = s;
    }
    const float m = simd_max(v);
    const float p = peak[sg];
    y[tid] = v * m / p;
}
