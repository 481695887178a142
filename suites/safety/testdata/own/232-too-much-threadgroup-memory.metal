// Stages through static and host-sized threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void stage(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  threadgroup float *extra [[threadgroup(0)]],
                  uint i [[thread_position_in_threadgroup]]) {
    threadgroup float tile[6144];
    tile[i] = x[i];
    extra[i] = tile[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = extra[31 - i] + tile[31 - i];
}
