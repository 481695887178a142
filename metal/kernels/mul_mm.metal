// y = W x + bias on simdgroup matrices, for many tokens. W is [out_dim][in_dim], x
// [tokens][in_dim], y [tokens][out_dim].
//
// A threadgroup of four simdgroups makes a tile of 64 outputs by 64 tokens, each
// simdgroup 32 by 32 of it, from steps of 32 along in_dim. Weights are dequantised
// to float in threadgroup memory, [output][step], activations lie there as
// [token][step]. A step is two runs of 16 elements, D apart where load16 takes
// elements out of a block that are further apart. Rows and tokens past the end repeat the last one and are not stored, and
// simdgroups that have only such tokens sit out; elements past in_dim are zeros.
#include "common.h"

struct MatMulParams {
    uint in_dim;
    uint out_dim;
    uint tokens;
    uint has_bias; // 0: bias is bound to something else and not read
};

constant constexpr uint ROWS = 64;
constant constexpr uint TOKENS = 64;
constant constexpr uint STEP = 32;
constant constexpr uint SIDE = 32; // outputs and tokens of a simdgroup
constant constexpr uint THREADS = 128;
// Rows of threadgroup memory are 8 floats longer than their data: what the lanes of a
// simdgroup take of a matrix is then spread over the banks.
constant constexpr uint STRIDE = STEP + 8;
constant constexpr uint TILE = (ROWS + TOKENS) * STRIDE;

// Where the first run of the step at k starts.
template <uint D>
inline uint run_start(uint k) {
    return D <= 16 ? k : k / (2 * D) * (2 * D) + k % (2 * D) / 2;
}

// The thread's weights of the step at k: 16 of one row.
template <typename B, uint E, uint D>
inline void stage_quantized(device const B *w, threadgroup float *tw, constant MatMulParams &p, uint row0, uint k, uint tid) {
    constexpr uint APART = D < 16 ? D : 16; // in the tile
#pragma unroll
    for (uint e = 0; e < ROWS * 2; e += THREADS) {
        const uint r = (tid + e) / 2, half_step = tid % 2;
        const uint row = min(row0 + r, p.out_dim - 1);
        float q[16], d[2], m[2];
        load16(w[ulong(row) * (p.in_dim / E) + k / E], k % E / 16 + half_step, q, d, m);
        float v[16];
#pragma unroll
        for (uint i = 0; i < 16; i++) {
            v[i] = fma(d[i / 8], q[i], m[i / 8]);
        }
        threadgroup float *to = tw + r * STRIDE + half_step * (24 - APART);
#pragma unroll
        for (uint i = 0; i < 16; i += 4) {
            *(threadgroup float4 *)(to + i / 8 * APART + i % 8) = float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
        }
    }
}

// The thread's elements of the step at k of n rows of plain values, four at a time.
// Rows from end on are the one before it.
template <typename T, uint N, uint D, bool WHOLE>
inline void stage_rows(device const T *from, threadgroup float *to, uint in_dim, uint row0, uint end, uint k, uint tid) {
    const bool whole = WHOLE || (in_dim % 4 == 0 && k + STEP <= in_dim);
#pragma unroll
    for (uint e = 0; e < N * STEP / 4; e += THREADS) {
        const uint r = (tid + e) / (STEP / 4), part = tid % (STEP / 4);
        const uint first = run_start<D>(k) + part / 4 * (D < 16 ? 16 : D) + part % 4 * 4;
        device const T *row = from + ulong(min(row0 + r, end - 1)) * in_dim;
        threadgroup float4 *at = (threadgroup float4 *)(to + r * STRIDE + part * 4);
        if (whole) {
            *at = load4(row + first);
        } else {
            float v[4];
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                v[i] = first + i < in_dim ? to_float(row[min(first + i, in_dim - 1)]) : 0.0f;
            }
            *at = float4(v[0], v[1], v[2], v[3]);
        }
    }
}

template <typename T, uint E, uint D>
inline void stage_plain(device const T *w, threadgroup float *tw, constant MatMulParams &p, uint row0, uint k, uint tid) {
    stage_rows<T, ROWS, D, false>(w, tw, p.in_dim, row0, p.out_dim, k, tid);
}

inline void multiply_step(threadgroup const float *tw, threadgroup const float *tx, thread simdgroup_float8x8 *acc) {
#pragma unroll
    for (uint k = 0; k < STEP; k += 8) {
        simdgroup_float8x8 a[SIDE / 8], b[SIDE / 8];
#pragma unroll
        for (uint i = 0; i < SIDE / 8; i++) {
            simdgroup_load(a[i], tx + 8 * i * STRIDE + k, STRIDE);
            simdgroup_load(b[i], tw + 8 * i * STRIDE + k, STRIDE, ulong2(0, 0), true);
        }
#pragma unroll
        for (uint i = 0; i < SIDE / 8; i++) {
#pragma unroll
            for (uint j = 0; j < SIDE / 8; j++) {
                simdgroup_multiply_accumulate(acc[i * (SIDE / 8) + j], a[i], b[j], acc[i * (SIDE / 8) + j]);
            }
        }
    }
}

// Whole tiles without a bias go straight to y, others through threadgroup memory,
// [token][output], 32 tokens at a time.
inline void store_tile(thread simdgroup_float8x8 *acc, threadgroup float *tile, device const float *bias, device float *y,
                       constant MatMulParams &p, uint row0, uint token0, uint tid, uint out, uint token) {
    if (row0 + ROWS <= p.out_dim && token0 + TOKENS <= p.tokens && p.has_bias == 0) {
        device float *to = y + (token0 + token) * p.out_dim + row0 + out;
#pragma unroll
        for (uint i = 0; i < SIDE / 8; i++) {
#pragma unroll
            for (uint j = 0; j < SIDE / 8; j++) {
                simdgroup_store(acc[i * (SIDE / 8) + j], to + i * 8 * p.out_dim + 8 * j, p.out_dim);
            }
        }
    } else {
        for (uint part = 0; part < min(TOKENS, p.tokens - token0); part += SIDE) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (token == part) {
#pragma unroll
                for (uint i = 0; i < SIDE / 8; i++) {
#pragma unroll
                    for (uint j = 0; j < SIDE / 8; j++) {
                        simdgroup_store(acc[i * (SIDE / 8) + j], tile + 8 * i * ROWS + out + 8 * j, ROWS);
                    }
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            const uint row = row0 + tid % ROWS;
            if (row < p.out_dim) {
                const float add = p.has_bias != 0 ? bias[row] : 0.0f;
                const uint end = min(SIDE, p.tokens - token0 - part);
                for (uint t = tid / ROWS; t < end; t += THREADS / ROWS) {
                    y[(token0 + part + t) * p.out_dim + row] = tile[t * ROWS + tid % ROWS] + add;
                }
            }
        }
    }
}

// E elements make a block.
#define MUL_MM(name, type, stage, E, D)                                                       \
    kernel void kernel_mul_mat_##name##_gemm(device const type *w [[buffer(0)]],              \
                                             device const float *x [[buffer(1)]],             \
                                             device const float *bias [[buffer(2)]],          \
                                             device float *y [[buffer(3)]],                   \
                                             constant MatMulParams &p [[buffer(4)]],          \
                                             uint2 group [[threadgroup_position_in_grid]],    \
                                             uint tid [[thread_index_in_threadgroup]],        \
                                             uint sg [[simdgroup_index_in_threadgroup]]) {    \
        threadgroup float shared[TILE];                                                       \
        threadgroup float *tx = shared + ROWS * STRIDE;                                       \
        const uint row0 = group.x * ROWS, token0 = group.y * TOKENS;                          \
        const uint out = sg % (ROWS / SIDE) * SIDE, token = sg / (ROWS / SIDE) * SIDE;        \
        simdgroup_float8x8 acc[SIDE * SIDE / 64];                                             \
        for (uint i = 0; i < SIDE * SIDE / 64; i++) {                                         \
            acc[i] = make_filled_simdgroup_matrix<float, 8>(0.0f);                            \
        }                                                                                     \
        for (uint k = 0; k < p.in_dim; k += STEP) {                                           \
            stage<type, E, D>(w, shared, p, row0, k, tid);                                    \
            stage_rows<float, TOKENS, D, (E > 1)>(x, tx, p.in_dim, token0, p.tokens, k, tid); \
            threadgroup_barrier(mem_flags::mem_threadgroup);                                  \
            if (token0 + token < p.tokens) {                                                  \
                multiply_step(shared + out * STRIDE, tx + token * STRIDE, acc);               \
            }                                                                                 \
            threadgroup_barrier(mem_flags::mem_threadgroup);                                  \
        }                                                                                     \
        store_tile(acc, shared, bias, y, p, row0, token0, tid, out, token);                   \
    }

MUL_MM(f32, float, stage_plain, 1, 16)
MUL_MM(f16, half, stage_plain, 1, 16)
MUL_MM(bf16, ushort, stage_plain, 1, 16)
MUL_MM(q4_0, block_q4_0, stage_quantized, 32, 16)
MUL_MM(q4_1, block_q4_1, stage_quantized, 32, 16)
MUL_MM(q5_0, block_q5_0, stage_quantized, 32, 16)
MUL_MM(q5_1, block_q5_1, stage_quantized, 32, 16)
MUL_MM(q8_0, block_q8_0, stage_quantized, 32, 8)
MUL_MM(q4_k, block_q4_K, stage_quantized, 256, 32)
MUL_MM(q5_k, block_q5_K, stage_quantized, 256, 32)
MUL_MM(q6_k, block_q6_K, stage_quantized, 256, 64)
