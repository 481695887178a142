// Negates in place.
#include <metal_stdlib>
using namespace metal;

kernel void negate(device const float *x [[buffer(0)]],
                   uint i [[thread_position_in_grid]]) {
    x[i] = -x[i];
}
