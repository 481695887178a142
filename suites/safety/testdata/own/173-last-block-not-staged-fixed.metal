// Counts the elements of a row that exceed their mirror image.
#include <metal_stdlib>
using namespace metal;

kernel void exceeds(device const float *x [[buffer(0)]],
                    device uint *y [[buffer(1)]],
                    constant uint &n [[buffer(2)]],
                    uint tid [[thread_position_in_threadgroup]],
                    uint nt [[threads_per_threadgroup]]) {
    threadgroup float tile[64];
    tile[tid] = tid < n ? x[tid] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint more = 0;
    if (tile[tid] > tile[nt - 1 - tid]) {
        more = 1;
    }
    y[tid] = more;
}
