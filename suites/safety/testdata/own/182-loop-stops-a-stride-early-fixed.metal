// Doubles n elements with a grid-stride loop.
#include <metal_stdlib>
using namespace metal;

kernel void doubled(device const float *x [[buffer(0)]],
                    device float *y [[buffer(1)]],
                    constant uint &n [[buffer(2)]],
                    uint i [[thread_position_in_grid]],
                    uint total [[threads_per_grid]]) {
    for (uint base = 0; base < n; base += total) {
        const uint k = base + i;
        if (k < n) {
            y[k] = 2.0f * x[k];
        }
    }
}
