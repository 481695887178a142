// Adds a bias where there is one.
#include <metal_stdlib>
using namespace metal;

constant bool has_bias [[function_constant(0)]];
constant uint width [[function_constant(1)]];

kernel void maybe_bias(device const float *x [[buffer(0)]],
                       device float *y [[buffer(1)]],
                       device const float *bias [[buffer(2), function_constant(has_bias)]],
                       uint i [[thread_position_in_grid]]) {
    float v = x[i];
    if (has_bias) {
        v += bias[i % width];
    }
    y[i] = v;
}
