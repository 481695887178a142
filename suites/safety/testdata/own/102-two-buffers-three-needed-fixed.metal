// Sum of differences of neighbouring rows; tiles rotate through threadgroup memory.
#include <metal_stdlib>
using namespace metal;

constant uint tiles = 3;

kernel void row_steps(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      constant uint &rows [[buffer(2)]],
                      uint tid [[thread_position_in_threadgroup]],
                      uint nt [[threads_per_threadgroup]]) {
    threadgroup float tile[3 * 64];
    float acc = 0.0f;
    for (uint r = 0; r < rows; ++r) {
        tile[r % tiles * 64 + tid] = x[r * nt + tid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (r > 0) {
            const uint mirror = nt - 1 - tid;
            acc += tile[r % tiles * 64 + mirror];
            acc -= tile[(r - 1) % tiles * 64 + mirror];
        }
    }
    y[tid] = acc;
}
