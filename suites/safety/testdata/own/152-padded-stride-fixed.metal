// Transposes a 32 x 32 tile, with padded rows.
#include <metal_stdlib>
using namespace metal;

kernel void transpose(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      uint2 at [[thread_position_in_threadgroup]]) {
    threadgroup float tile[32 * 33];
    for (uint r = at.y; r < 32; r += 4) {
        tile[r * 33 + at.x] = x[r * 32 + at.x];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint r = at.y; r < 32; r += 4) {
        y[r * 32 + at.x] = tile[at.x * 33 + r];
    }
}
