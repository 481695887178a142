// Adds a bias.
#include <metal_stdlib>
using namespace metal;

kernel void add_bias(device const float *x [[buffer(0)]],
                     device float *y [[buffer(1)]],
                     device const float *bias [[buffer(2)]],
                     uint i [[thread_position_in_grid]]) {
    y[i] = x[i] + bias[i];
}
