// Two-pass sum.
#include <metal_stdlib>
using namespace metal;

kernel void first_pass(device const float *x [[buffer(0)]],
                       device float *part [[buffer(1)]],
                       uint i [[thread_position_in_grid]],
                       uint group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
    const float s = simd_sum(x[i]);
    if (lane == 0) {
        part[group] = s;
    }
}

kernel void second_pass(device const float *part [[buffer(0)]],
                        device float *y [[buffer(1)]],
                        constant uint &count [[buffer(2)]]) {
    float s = 0.0f;
    for (uint i = 0; i < count; ++i) {
        s += part[i];
    }
    y[0] = s;
}
