// Sums of halves, then of squares as floats, in one block of threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void two_views(device const half *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      threadgroup uchar *block [[threadgroup(0)]],
                      uint tid [[thread_position_in_threadgroup]],
                      uint nt [[threads_per_threadgroup]]) {
    threadgroup half *h = (threadgroup half *) block;
    threadgroup float *f = (threadgroup float *) block;
    h[tid] = x[tid];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float a = float(h[tid ^ 1]) + float(h[nt - 1 - tid]);
    f[tid] = a * a;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[tid] = f[nt - 1 - tid];
}
