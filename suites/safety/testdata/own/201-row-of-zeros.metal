// Scales rows to unit length.
#include <metal_stdlib>
using namespace metal;

kernel void unit_rows(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      uint row [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]]) {
    const float v = x[row * 32 + lane];
    const float length = sqrt(simd_sum(v * v));
    y[row * 32 + lane] = v / length;
}
