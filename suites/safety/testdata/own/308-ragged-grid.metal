// Mirrors each tile of 16 x 4 within its threadgroup.
#include <metal_stdlib>
using namespace metal;

kernel void mirror(device const float *x [[buffer(0)]],
                   device float *y [[buffer(1)]],
                   uint2 at [[thread_position_in_grid]],
                   uint2 size [[threads_per_grid]],
                   uint2 local [[thread_position_in_threadgroup]],
                   uint2 extent [[threads_per_threadgroup]]) {
    threadgroup float tile[64];
    const uint i = local.y * extent.x + local.x;
    tile[i] = x[at.y * size.x + at.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[at.y * size.x + at.x] = tile[extent.x * extent.y - 1 - i];
}
