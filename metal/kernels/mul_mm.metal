// y = W x + bias on simdgroup matrices, for many tokens. W is [out_dim][in_dim], x
// [tokens][in_dim], y [tokens][out_dim].
//
// A threadgroup of four simdgroups makes a tile of 64 outputs by 32 tokens, each
// simdgroup 32 by 16 of it, from steps of 16 along in_dim. Weights are dequantised
// to float in threadgroup memory, [step][output]; activations lie there as
// [token][step]. Rows and tokens past the end repeat the last one and are not
// stored; elements past in_dim are zeros.
#include "common.h"

struct MatMulParams {
    uint in_dim;
    uint out_dim;
    uint tokens;
    uint has_bias; // 0: bias is bound to something else and not read
};

constant constexpr uint ROWS = 64;
constant constexpr uint TOKENS = 32;
constant constexpr uint STEP = 16;

// The thread's eight weights of the step at k: row tid % 64, half tid / 64.
template <typename B, uint E>
inline void stage_quantized(device const B *w, threadgroup float *tw, constant MatMulParams &p, uint row0, uint k, uint tid) {
    const uint r = tid % ROWS, half_step = tid / ROWS;
    const uint row = min(row0 + r, p.out_dim - 1), at = k + half_step * 8;
    float q[8], d, m;
    load8(w[ulong(row) * (p.in_dim / E) + at / E], at % E / 8, q, d, m);
#pragma unroll
    for (uint i = 0; i < 8; i++) {
        tw[(half_step * 8 + i) * ROWS + r] = fma(d, q[i], m);
    }
}

template <typename T>
inline void stage_plain(device const T *w, threadgroup float *tw, constant MatMulParams &p, uint row0, uint k, uint tid) {
    const uint r = tid % ROWS, half_step = tid / ROWS;
    const uint row = min(row0 + r, p.out_dim - 1);
    device const T *from = w + ulong(row) * p.in_dim;
    threadgroup float *to = tw + half_step * 8 * ROWS + r;
    if (p.in_dim % 4 == 0 && k + STEP <= p.in_dim) {
#pragma unroll
        for (uint i = 0; i < 8; i += 4) {
            const float4 v = load4(from + k + half_step * 8 + i);
            to[i * ROWS] = v.x;
            to[(i + 1) * ROWS] = v.y;
            to[(i + 2) * ROWS] = v.z;
            to[(i + 3) * ROWS] = v.w;
        }
    } else {
#pragma unroll
        for (uint i = 0; i < 8; i++) {
            const uint at = k + half_step * 8 + i;
            to[i * ROWS] = at < p.in_dim ? to_float(from[min(at, p.in_dim - 1)]) : 0.0f;
        }
    }
}

// The thread's four activations of the step: token tid / 4.
inline void stage_activations(device const float *x, threadgroup float *tx, constant MatMulParams &p, uint token0, uint k, uint tid) {
    const uint t = tid / 4, part = tid % 4 * 4;
    device const float *from = x + min(token0 + t, p.tokens - 1) * p.in_dim;
    threadgroup float *to = tx + t * STEP + part;
    if (p.in_dim % 4 == 0 && k + STEP <= p.in_dim) {
        *(threadgroup float4 *)to = load4(from + k + part);
    } else {
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            const uint at = k + part + i;
            to[i] = at < p.in_dim ? from[min(at, p.in_dim - 1)] : 0.0f;
        }
    }
}

inline void multiply_step(threadgroup const float *tw, threadgroup const float *tx, thread simdgroup_float8x8 *acc, uint sg) {
    const uint out = sg % 2 * 32, token = sg / 2 * 16;
#pragma unroll
    for (uint k = 0; k < STEP; k += 8) {
        simdgroup_float8x8 a[2], b[4];
#pragma unroll
        for (uint i = 0; i < 2; i++) {
            simdgroup_load(a[i], tx + (token + 8 * i) * STEP + k, STEP);
        }
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            simdgroup_load(b[j], tw + k * ROWS + out + 8 * j, ROWS);
        }
#pragma unroll
        for (uint i = 0; i < 2; i++) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                simdgroup_multiply_accumulate(acc[i * 4 + j], a[i], b[j], acc[i * 4 + j]);
            }
        }
    }
}

// Whole tiles without a bias go straight to y, others through threadgroup memory,
// [token][output].
inline void store_tile(thread simdgroup_float8x8 *acc, threadgroup float *tile, device const float *bias, device float *y,
                       constant MatMulParams &p, uint row0, uint token0, uint tid, uint sg) {
    const uint out = sg % 2 * 32, token = sg / 2 * 16;
    if (row0 + ROWS <= p.out_dim && token0 + TOKENS <= p.tokens && p.has_bias == 0) {
        device float *to = y + (token0 + token) * p.out_dim + row0 + out;
#pragma unroll
        for (uint i = 0; i < 2; i++) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                simdgroup_store(acc[i * 4 + j], to + i * 8 * p.out_dim + 8 * j, p.out_dim);
            }
        }
    } else {
#pragma unroll
        for (uint i = 0; i < 2; i++) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                simdgroup_store(acc[i * 4 + j], tile + (token + 8 * i) * ROWS + out + 8 * j, ROWS);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const uint row = row0 + tid % ROWS;
        if (row < p.out_dim) {
            const float add = p.has_bias != 0 ? bias[row] : 0.0f;
            const uint end = min(TOKENS, p.tokens - token0);
            for (uint t = tid / ROWS; t < end; t += 2) {
                y[(token0 + t) * p.out_dim + row] = tile[t * ROWS + tid % ROWS] + add;
            }
        }
    }
}

#define MUL_MM(name, type, stage)                                                       \
    kernel void kernel_mul_mat_##name##_gemm(device const type *w [[buffer(0)]],              \
                                             device const float *x [[buffer(1)]],             \
                                             device const float *bias [[buffer(2)]],          \
                                             device float *y [[buffer(3)]],                   \
                                             constant MatMulParams &p [[buffer(4)]],          \
                                             uint2 group [[threadgroup_position_in_grid]],    \
                                             uint tid [[thread_index_in_threadgroup]],        \
                                             uint sg [[simdgroup_index_in_threadgroup]]) {    \
        threadgroup float shared[ROWS * TOKENS];                                              \
        threadgroup float *tw = shared, *tx = shared + ROWS * STEP;                           \
        const uint row0 = group.x * ROWS, token0 = group.y * TOKENS;                          \
        simdgroup_float8x8 acc[8];                                                            \
        for (uint i = 0; i < 8; i++) {                                                        \
            acc[i] = make_filled_simdgroup_matrix<float, 8>(0.0f);                            \
        }                                                                                     \
        for (uint k = 0; k < p.in_dim; k += STEP) {                                           \
            stage(w, tw, p, row0, k, tid);                                                    \
            stage_activations(x, tx, p, token0, k, tid);                                      \
            threadgroup_barrier(mem_flags::mem_threadgroup);                                  \
            multiply_step(tw, tx, acc, sg);                                                   \
            threadgroup_barrier(mem_flags::mem_threadgroup);                                  \
        }                                                                                     \
        store_tile(acc, shared, bias, y, p, row0, token0, tid, sg);                           \
    }

MUL_MM(f32, float, stage_plain<float>)
MUL_MM(f16, half, stage_plain<half>)
MUL_MM(bf16, ushort, stage_plain<ushort>)
MUL_MM(q4_0, block_q4_0, (stage_quantized<block_q4_0, 32>))
MUL_MM(q4_1, block_q4_1, (stage_quantized<block_q4_1, 32>))
MUL_MM(q5_0, block_q5_0, (stage_quantized<block_q5_0, 32>))
MUL_MM(q5_1, block_q5_1, (stage_quantized<block_q5_1, 32>))
MUL_MM(q8_0, block_q8_0, (stage_quantized<block_q8_0, 32>))
MUL_MM(q4_k, block_q4_K, (stage_quantized<block_q4_K, 256>))
MUL_MM(q5_k, block_q5_K, (stage_quantized<block_q5_K, 256>))
MUL_MM(q6_k, block_q6_K, (stage_quantized<block_q6_K, 256>))
