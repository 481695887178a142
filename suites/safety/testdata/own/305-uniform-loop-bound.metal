// Sums as many tiles as each threadgroup is told.
#include <metal_stdlib>
using namespace metal;

kernel void told(device const float *x [[buffer(0)]],
                 device const uint *count [[buffer(1)]],
                 device float *y [[buffer(2)]],
                 uint group [[threadgroup_position_in_grid]],
                 uint tid [[thread_position_in_threadgroup]],
                 uint nt [[threads_per_threadgroup]]) {
    threadgroup float tile[64];
    float acc = 0.0f;
    for (uint t = 0; t < count[group]; ++t) {
        tile[tid] = x[t * nt + tid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        acc += tile[nt - 1 - tid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    y[group * nt + tid] = acc;
}
