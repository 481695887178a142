// Shifts an array by one element.
#include <metal_stdlib>
using namespace metal;

kernel void shift_left(device const float *from [[buffer(0)]],
                       device float *to [[buffer(1)]],
                       constant uint &n [[buffer(2)]],
                       uint i [[thread_position_in_grid]]) {
    const float v = from[min(i + 1, n - 1)];
    threadgroup_barrier(mem_flags::mem_device);
    to[i] = v;
}
