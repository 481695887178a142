// One step that reads a buffer, and one that recycles it.
#include <metal_stdlib>
using namespace metal;

kernel void take(device const float *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
    y[i] = x[i] * 2.0f;
}

kernel void recycle(device float *x [[buffer(0)]],
                    uint i [[thread_position_in_grid]]) {
    x[i] = float(i);
}
