// Standard deviation of a row of 32.
#include <metal_stdlib>
using namespace metal;

kernel void deviation(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      uint lane [[thread_index_in_simdgroup]]) {
    const float v = x[lane];
    const float mean = simd_sum(v) / 32.0f;
    const float var = simd_sum((v - mean) * (v - mean)) / 32.0f;
    if (lane == 0) {
        y[0] = sqrt(var);
    }
}
