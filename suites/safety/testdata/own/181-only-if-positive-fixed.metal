// Rectifier.
#include <metal_stdlib>
using namespace metal;

kernel void rectify(device const float *x [[buffer(0)]],
                    device float *y [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
    const float v = x[i];
    y[i] = max(v, 0.0f);
}
