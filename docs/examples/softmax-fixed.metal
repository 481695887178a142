#include <metal_stdlib>
using namespace metal;

// Softmax of each row; one threadgroup for a row.
kernel void softmax_rows(device const float *src [[buffer(0)]],
                         device float *dst [[buffer(1)]],
                         constant int &cols [[buffer(2)]],
                         threadgroup float *scratch [[threadgroup(0)]],
                         uint row [[threadgroup_position_in_grid]],
                         uint tid [[thread_position_in_threadgroup]],
                         uint nt [[threads_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint sg [[simdgroup_index_in_threadgroup]]) {
    device const float *x = src + row * cols;
    const uint groups = nt / 32;
    float top = -INFINITY;
    for (int i = tid; i < cols; i += nt) {
        top = max(top, x[i]);
    }
    top = simd_max(top);
    if (lane == 0) {
        scratch[sg] = top;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint g = 0; g < groups; ++g) {
        top = max(top, scratch[g]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float sum = 0.0f;
    for (int i = tid; i < cols; i += nt) {
        sum += exp(x[i] - top);
    }
    sum = simd_sum(sum);
    if (lane == 0) {
        scratch[sg] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = 0.0f;
    for (uint g = 0; g < groups; ++g) {
        sum += scratch[g];
    }
    for (int i = tid; i < cols; i += nt) {
        dst[row * cols + i] = exp(x[i] - top) / sum;
    }
}
