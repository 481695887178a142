#include <metal_stdlib>
using namespace metal;

static float total(float x, threadgroup float *sh, ushort lane, ushort sg) {
    x = simd_sum(x);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) sh[sg] = x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_max(sh[lane]);
}

kernel void threads(device float *x, threadgroup float *host [[threadgroup(0)]],
                    uint3 tg [[threadgroup_position_in_grid]], ushort tid [[thread_index_in_threadgroup]],
                    ushort lane [[thread_index_in_simdgroup]], ushort sg [[simdgroup_index_in_threadgroup]],
                    uint3 n [[threads_per_threadgroup]]) {
    threadgroup float sh[32];
    float a = total(x[tid], sh, lane, sg);
    a = total(a, sh, lane, sg);
    host[tid] = simd_shuffle_xor(a, 1) + simd_shuffle_down(a, 2) + simd_broadcast(a, 3);
    simdgroup_barrier(mem_flags::mem_none);
    threadgroup_barrier(mem_flags::mem_device);
    x[tg.y * n.x + tid] = host[tid ^ 1] + simd_prefix_exclusive_sum(a) + (simd_any(a > 0) ? 1 : 0);
}
