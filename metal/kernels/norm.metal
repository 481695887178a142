// Root mean square norms of rows: y = x / sqrt(mean(x^2) + eps) [* weight]. By 32 or
// 256 threads a row, and by one simdgroup for each head's row.
#include "norm.h"

struct NormParams {
    uint cols;     // values of a row
    uint rows;
    uint weighted; // 0: weight is bound to something else and not read
    float eps;
};

inline void scale_row(device const float *x, device const float *weight, device float *y, float scale,
                      constant NormParams &p, uint first, uint stride) {
    if (p.weighted != 0) {
        for (uint i = first; i < p.cols; i += stride) {
            y[i] = x[i] * scale * weight[i];
        }
    } else {
        for (uint i = first; i < p.cols; i += stride) {
            y[i] = x[i] * scale;
        }
    }
}

kernel void kernel_rms_norm_32(device const float *weight [[buffer(0)]], device const float *x [[buffer(1)]],
                               device float *y [[buffer(2)]], constant NormParams &p [[buffer(3)]],
                               uint row [[threadgroup_position_in_grid]],
                               uint lane [[thread_index_in_simdgroup]]) {
    device const float *from = x + row * p.cols;
    const float sum = simd_sum(squares(from, p.cols, lane, 32));
    scale_row(from, weight, y + row * p.cols, rsqrt(sum / float(p.cols) + p.eps), p, lane, 32);
}

kernel void kernel_rms_norm_256(device const float *weight [[buffer(0)]], device const float *x [[buffer(1)]],
                                device float *y [[buffer(2)]], constant NormParams &p [[buffer(3)]],
                                uint row [[threadgroup_position_in_grid]],
                                uint tid [[thread_index_in_threadgroup]],
                                uint lane [[thread_index_in_simdgroup]],
                                uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup float part[8];
    device const float *from = x + row * p.cols;
    float sum = simd_sum(squares(from, p.cols, tid, 256));
    if (lane == 0) {
        part[sg] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    scale_row(from, weight, y + row * p.cols, rsqrt(sum / float(p.cols) + p.eps), p, tid, 256);
}

// The rows are the heads; four simdgroups to a threadgroup.
kernel void kernel_qk_norm(device const float *weight [[buffer(0)]], device const float *x [[buffer(1)]],
                           device float *y [[buffer(2)]], constant NormParams &p [[buffer(3)]],
                           uint group [[threadgroup_position_in_grid]],
                           uint sg [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
    const uint row = group * 4 + sg;
    if (row < p.rows) {
        device const float *from = x + row * p.cols;
        const float sum = simd_sum(squares(from, p.cols, lane, 32));
        scale_row(from, weight, y + row * p.cols, rsqrt(sum / float(p.cols) + p.eps), p, lane, 32);
    }
}
