// Clears elements from n on.
#include <metal_stdlib>
using namespace metal;

kernel void clear_tail(device const float *x [[buffer(0)]],
                       device float *y [[buffer(1)]],
                       constant long &n [[buffer(2)]],
                       uint i [[thread_position_in_grid]]) {
    y[i] = long(i) < n ? x[i] : 0.0f;
}
