// Transposes a matrix of 2 x 4.
#include <metal_stdlib>
using namespace metal;

kernel void turn(device const float *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 constant uint &rows [[buffer(2)]],
                 constant uint &cols [[buffer(3)]],
                 uint2 at [[thread_position_in_grid]]) {
    y[at.x * rows + at.y] = x[at.y * cols + at.x];
}
