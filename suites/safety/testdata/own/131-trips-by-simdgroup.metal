// Prefix walk: simdgroup s adds s + 1 tiles.
#include <metal_stdlib>
using namespace metal;

kernel void staircase(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      uint tid [[thread_position_in_threadgroup]],
                      uint sg [[simdgroup_index_in_threadgroup]],
                      uint groups [[simdgroups_per_threadgroup]]) {
    threadgroup float tile[128];
    float acc = 0.0f;
    const uint trips = sg + 1;
    for (uint t = 0; t < trips; ++t) {
        tile[tid] = x[t * 128 + tid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t <= sg) {
            acc += tile[127 - tid];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    y[tid] = acc;
}
