// Sums of pairs.
#include <metal_stdlib>
using namespace metal;

static float both(threadgroup const float *p) {
    return p[0] + p[1];
}

kernel void pairs(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
    y[i] = both(x + 2 * i);
}
