// Copies elements.
#include <metal_stdlib>
using namespace metal;

kernel void ident(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
    y[i] = x[i];
}
