// Mean and mean square of a row through one helper.
#include <metal_stdlib>
using namespace metal;

static float total(threadgroup float *scratch, float v, uint tid, uint nt) {
    scratch[tid] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint h = nt / 2; h > 0; h /= 2) {
        if (tid < h) {
            scratch[tid] += scratch[tid + h];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const float result = scratch[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return result;
}

kernel void moments(device const float *x [[buffer(0)]],
                    device float2 *y [[buffer(1)]],
                    uint row [[threadgroup_position_in_grid]],
                    uint tid [[thread_position_in_threadgroup]],
                    uint nt [[threads_per_threadgroup]]) {
    threadgroup float scratch[64];
    const float v = x[row * nt + tid];
    const float s = total(scratch, v, tid, nt);
    const float q = total(scratch, v * v, tid, nt);
    if (tid == 0) {
        y[row] = float2(s, q);
    }
}
