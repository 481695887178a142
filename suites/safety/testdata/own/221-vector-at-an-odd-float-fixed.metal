// Copies vectors of four from the second element on.
#include <metal_stdlib>
using namespace metal;

kernel void from_second(device const float *x [[buffer(0)]],
                        device float4 *y [[buffer(1)]],
                        uint i [[thread_position_in_grid]]) {
    device const float *p = x + 1 + 4 * i;
    y[i] = float4(p[0], p[1], p[2], p[3]);
}
