// Stores the difference to the left neighbour.
#include <metal_stdlib>
using namespace metal;

kernel void differences(device const float *x [[buffer(0)]],
                        device float *y [[buffer(1)]],
                        uint i [[thread_position_in_grid]]) {
    const float v = x[i] - x[max(i, 1u) - 1];
    if (i > 0) {
        y[i - 1] = v;
    }
}
