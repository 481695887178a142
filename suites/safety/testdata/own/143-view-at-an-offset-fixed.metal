// Copies n elements.
#include <metal_stdlib>
using namespace metal;

kernel void copy(device const float *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 constant uint &n [[buffer(2)]],
                 uint i [[thread_position_in_grid]],
                 uint total [[threads_per_grid]]) {
    for (uint k = i; k < n; k += total) {
        y[k] = x[k];
    }
}
