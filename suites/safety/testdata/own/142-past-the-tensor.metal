// Sum of a vector, four elements at a time.
#include <metal_stdlib>
using namespace metal;

kernel void quad_sum(device const float *x [[buffer(0)]],
                     device float *y [[buffer(1)]],
                     constant uint &n [[buffer(2)]],
                     uint lane [[thread_index_in_simdgroup]]) {
    float s = 0.0f;
    for (uint i = lane * 4; i < n; i += 128) {
        for (uint j = 0; j < 4; ++j) {
            s += x[i + j];
        }
    }
    s = simd_sum(s);
    if (lane == 0) {
        y[0] = s;
    }
}
