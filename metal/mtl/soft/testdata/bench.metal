// The three kernels that the device's speed is stated for.
#include <metal_stdlib>
using namespace metal;

struct block_q4_0 {
    half d;
    uchar qs[16];
};

// y = W x: two simdgroups of four rows each in a threadgroup. A lane takes half a
// block: 8 low and 8 high nibbles.
kernel void mul_mv_q4_0(device const block_q4_0 *w [[buffer(0)]],
                        device const float *x [[buffer(1)]],
                        device float *y [[buffer(2)]],
                        constant uint &cols [[buffer(3)]],
                        constant uint &rows [[buffer(4)]],
                        uint group [[threadgroup_position_in_grid]],
                        uint sg [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    const uint blocks = cols / 32;
    const uint first = (group * 2 + sg) * 4;
    float sum[4] = {0, 0, 0, 0};
    const uint part = lane % 2;
    for (uint b = lane / 2; b < blocks; b += 16) {
        device const float *xb = x + b * 32 + part * 8;
        float lo[8], hi[8];
        float all = 0;
#pragma unroll
        for (uint i = 0; i < 8; i++) {
            lo[i] = xb[i];
            hi[i] = xb[i + 16];
            all += lo[i] + hi[i];
        }
#pragma unroll
        for (uint r = 0; r < 4; r++) {
            device const block_q4_0 &q = w[(first + r) * blocks + b];
            float acc = 0;
#pragma unroll
            for (uint i = 0; i < 8; i++) {
                uint v = q.qs[part * 8 + i];
                acc += lo[i] * float(v & 15) + hi[i] * float(v >> 4);
            }
            sum[r] += float(q.d) * (acc - 8 * all);
        }
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        float s = simd_sum(sum[r]);
        if (lane == 0 && first + r < rows) {
            y[first + r] = s;
        }
    }
}

kernel void rms_norm(device const float *x [[buffer(0)]],
                     device const float *weight [[buffer(1)]],
                     device float *y [[buffer(2)]],
                     constant uint &cols [[buffer(3)]],
                     constant float &eps [[buffer(4)]],
                     uint row [[threadgroup_position_in_grid]],
                     uint tid [[thread_position_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]],
                     uint sgs [[simdgroups_per_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float part[32];
    device const float *xr = x + row * cols;
    float sum = 0;
    for (uint i = tid; i < cols; i += threads) {
        sum += xr[i] * xr[i];
    }
    sum = simd_sum(sum);
    if (lane == 0) {
        part[sg] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(lane < sgs ? part[lane] : 0.0f);
    const float scale = 1.0f / sqrt(sum / float(cols) + eps);
    for (uint i = tid; i < cols; i += threads) {
        y[row * cols + i] = xr[i] * scale * weight[i];
    }
}

// C = A B, one 64x32 tile a threadgroup of four simdgroups, each a 32x16 part, through
// 8 KB of threadgroup memory for the tiles of A and B.
kernel void mul_mm(device const float *a [[buffer(0)]],
                   device const float *b [[buffer(1)]],
                   device float *c [[buffer(2)]],
                   constant uint &n [[buffer(3)]],
                   constant uint &k [[buffer(4)]],
                   uint2 tile [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]],
                   uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup float ta[64 * 16];
    threadgroup float tb[16 * 32];
    const uint row = tile.y * 64, col = tile.x * 32;
    const uint sr = sg / 2 * 32, sc = sg % 2 * 16;
    simdgroup_float8x8 acc[4][2];
#pragma unroll
    for (uint i = 0; i < 4; i++) {
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            acc[i][j] = make_filled_simdgroup_matrix<float, 8>(0.0f);
        }
    }
    for (uint k0 = 0; k0 < k; k0 += 16) {
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            uint e = (tid + i * 128) * 4;
            *(threadgroup float4 *)(ta + e) = *(device const float4 *)(a + (row + e / 16) * k + k0 + e % 16);
        }
        *(threadgroup float4 *)(tb + tid * 4) = *(device const float4 *)(b + (k0 + tid * 4 / 32) * n + col + tid * 4 % 32);
        threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint kk = 0; kk < 16; kk += 8) {
            simdgroup_float8x8 ma[4], mb[2];
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                simdgroup_load(ma[i], ta + (sr + 8 * i) * 16 + kk, 16);
            }
#pragma unroll
            for (uint j = 0; j < 2; j++) {
                simdgroup_load(mb[j], tb + kk * 32 + sc + 8 * j, 32);
            }
#pragma unroll
            for (uint i = 0; i < 4; i++) {
#pragma unroll
                for (uint j = 0; j < 2; j++) {
                    simdgroup_multiply_accumulate(acc[i][j], ma[i], mb[j], acc[i][j]);
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
#pragma unroll
        for (uint j = 0; j < 2; j++) {
            simdgroup_store(acc[i][j], c + (row + sr + 8 * i) * n + col + sc + 8 * j, n);
        }
    }
}
