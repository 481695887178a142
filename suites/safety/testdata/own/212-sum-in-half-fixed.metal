// Counts the ones of a row.
#include <metal_stdlib>
using namespace metal;

kernel void ones(device const half *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 constant uint &n [[buffer(2)]],
                 uint row [[thread_position_in_grid]]) {
    float s = 0.0f;
    for (uint i = 0; i < n; ++i) {
        s += float(x[row * n + i]);
    }
    y[row] = s;
}
