// Scales by a function constant.
#include <metal_stdlib>
using namespace metal;

constant float factor [[function_constant(3)]];
constant bool negate [[function_constant(4)]];

kernel void scaled(device const float *x [[buffer(0)]],
                   device float *y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
    y[i] = negate ? -factor * x[i] : factor * x[i];
}
