// Two tiles in host-sized threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void two_tiles(device const float *a [[buffer(0)]],
                      device const float *b [[buffer(1)]],
                      device float *y [[buffer(2)]],
                      threadgroup float *tiles [[threadgroup(0)]],
                      uint tid [[thread_position_in_threadgroup]],
                      uint nt [[threads_per_threadgroup]]) {
    tiles[tid] = a[tid];
    tiles[nt + tid] = b[tid];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[tid] = tiles[nt - 1 - tid] * tiles[2 * nt - 1 - tid];
}
