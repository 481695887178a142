// y = x scaled by a diagonal matrix whose entries the lanes put into threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void scale_rows(device const float *x [[buffer(0)]],
                       device const float *scale [[buffer(1)]],
                       device float *y [[buffer(2)]],
                       uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float d[64];
    d[lane] = 0.0f;
    d[lane + 32] = 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane < 8) {
        d[lane * 9] = scale[lane];
    }
    simdgroup_float8x8 a, b;
    simdgroup_load(a, d, 8);
    simdgroup_load(b, x, 8);
    simdgroup_multiply(b, a, b);
    simdgroup_store(b, y, 8);
}
