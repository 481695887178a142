// A chain of three steps.
#include <metal_stdlib>
using namespace metal;

kernel void step(device const float *from [[buffer(0)]],
                 device float *to [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
    to[i] = from[i] + 1.0f;
}
