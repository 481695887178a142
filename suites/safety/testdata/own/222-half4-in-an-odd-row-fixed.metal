// Sums the first four of each row.
#include <metal_stdlib>
using namespace metal;

kernel void row_heads(device const half *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      constant uint &pitch [[buffer(2)]],
                      uint row [[thread_position_in_grid]]) {
    const half4 v = *(device const half4 *) (x + row * pitch);
    y[row] = float(v.x) + float(v.y) + float(v.z) + float(v.w);
}
