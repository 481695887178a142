// Sum of n <= 32 elements.
#include <metal_stdlib>
using namespace metal;

kernel void short_sum(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      constant uint &n [[buffer(2)]],
                      uint lane [[thread_index_in_simdgroup]]) {
    float s = 0.0f;
    if (lane < n) {
        s = simd_sum(x[lane]);
    }
    if (lane == 0) {
        y[0] = s;
    }
}
