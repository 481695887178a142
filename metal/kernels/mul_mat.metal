// y = W x + bias, the tiers without matrix units: single for one token, multi for a
// few. W is [out_dim][in_dim], x [tokens][in_dim], y [tokens][out_dim].
//
// A simdgroup's lanes share the row: of quantised types lane l takes the parts l,
// l + 32, ... of 16 elements each (see load16), of the others elements 4l to 4l + 3 of
// every 128 where rows are aligned for that, and single ones of what is left. simd_sum
// joins them. Rows and tokens past the end read those of the last one
// and store nothing.
#include "common.h"

struct MatMulParams {
    uint in_dim;
    uint out_dim;
    uint tokens;
    uint has_bias; // 0: bias is bound to something else and not read
};

// Joins the lanes' sums of four rows; each of four lanes stores one.
inline void store_rows(thread const float *sum, device const float *bias, device float *y, constant MatMulParams &p,
                       uint first, uint lane) {
    const float s0 = simd_sum(sum[0]), s1 = simd_sum(sum[1]), s2 = simd_sum(sum[2]), s3 = simd_sum(sum[3]);
    const uint row = first + lane;
    if (lane < 4 && row < p.out_dim) {
        const float s = lane == 0 ? s0 : lane == 1 ? s1 : lane == 2 ? s2 : s3;
        y[row] = p.has_bias != 0 ? s + bias[row] : s;
    }
}

// Where the first run of a part lies in the row, and the same part's second run is
// D elements further on; E elements to a block.
template <uint E, uint D>
inline uint first_run(uint block, uint part) {
    return block * E + part / (D / 8) * (2 * D) + part % (D / 8) * 8;
}

inline void load_run(device const float *x, thread float *v) {
    const float4 a = load4(x), b = load4(x + 4);
    v[0] = a.x;
    v[1] = a.y;
    v[2] = a.z;
    v[3] = a.w;
    v[4] = b.x;
    v[5] = b.y;
    v[6] = b.z;
    v[7] = b.w;
}

// Two simdgroups to a threadgroup, four rows to a simdgroup.
template <typename B, uint E, uint D>
inline void single_quantized(device const B *w, device const float *x, device const float *bias, device float *y,
                             constant MatMulParams &p, uint group, uint sg, uint lane) {
    const uint first = (group * 2 + sg) * 4;
    if (first >= p.out_dim) {
        return;
    }
    const uint blocks = p.in_dim / E;
    device const B *rows[4];
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        rows[r] = w + ulong(min(first + r, p.out_dim - 1)) * blocks;
    }
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (p.in_dim <= 256) {
        // Parts of 16 would leave half of the lanes without work.
        const uint at = lane * 8;
        if (at < p.in_dim) {
            float v[8];
            load_run(x + at, v);
            float sum0 = 0.0f;
#pragma unroll
            for (uint i = 0; i < 8; i++) {
                sum0 += v[i];
            }
#pragma unroll
            for (uint r = 0; r < 4; r++) {
                float q[8], d, m, dot0 = 0.0f;
                load8(rows[r][at / E], at % E / 8, q, d, m);
#pragma unroll
                for (uint i = 0; i < 8; i++) {
                    dot0 += q[i] * v[i];
                }
                sum[r] = d * dot0 + m * sum0;
            }
        }
    } else {
        for (uint c = lane; c < blocks * (E / 16); c += 32) {
            const uint block = c / (E / 16), part = c % (E / 16);
            device const float *at = x + first_run<E, D>(block, part);
            float v[16];
            load_run(at, v);
            load_run(at + D, v + 8);
            float sum0 = 0.0f, sum1 = 0.0f;
#pragma unroll
            for (uint i = 0; i < 8; i++) {
                sum0 += v[i];
                sum1 += v[i + 8];
            }
#pragma unroll
            for (uint r = 0; r < 4; r++) {
                float q[16], d[2], m[2];
                load16(rows[r][block], part, q, d, m);
                float dot0 = 0.0f, dot1 = 0.0f;
#pragma unroll
                for (uint i = 0; i < 8; i++) {
                    dot0 += q[i] * v[i];
                    dot1 += q[i + 8] * v[i + 8];
                }
                sum[r] += d[0] * dot0 + m[0] * sum0;
                sum[r] += d[1] * dot1 + m[1] * sum1;
            }
        }
    }
    store_rows(sum, bias, y, p, first, lane);
}

template <typename T>
inline void single_plain(device const T *w, device const float *x, device const float *bias, device float *y,
                         constant MatMulParams &p, uint group, uint sg, uint lane) {
    const uint first = (group * 2 + sg) * 4;
    if (first >= p.out_dim) {
        return;
    }
    device const T *rows[4];
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        rows[r] = w + ulong(min(first + r, p.out_dim - 1)) * p.in_dim;
    }
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint i = 0;
    if (p.in_dim % 4 == 0) {
        for (; i + 128 <= p.in_dim; i += 128) {
            const float4 v = load4(x + i + lane * 4);
#pragma unroll
            for (uint r = 0; r < 4; r++) {
                sum[r] += dot(load4(rows[r] + i + lane * 4), v);
            }
        }
    }
    for (i += lane; i < p.in_dim; i += 32) {
        const float v = x[i];
#pragma unroll
        for (uint r = 0; r < 4; r++) {
            sum[r] += to_float(rows[r][i]) * v;
        }
    }
    store_rows(sum, bias, y, p, first, lane);
}

// Two rows to a threadgroup, of two simdgroups that take four tokens each in turn.
template <typename B, uint E, uint D>
inline void multi_quantized(device const B *w, device const float *x, device const float *bias, device float *y,
                            constant MatMulParams &p, uint group, uint sg, uint lane) {
    const uint blocks = p.in_dim / E;
    device const B *row0 = w + ulong(group * 2) * blocks;
    device const B *row1 = w + ulong(min(group * 2 + 1, p.out_dim - 1)) * blocks;
    for (uint t0 = sg * 4; t0 < p.tokens; t0 += 8) {
        device const float *xt[4];
#pragma unroll
        for (uint t = 0; t < 4; t++) {
            xt[t] = x + min(t0 + t, p.tokens - 1) * p.in_dim;
        }
        float sum0[4] = {0.0f, 0.0f, 0.0f, 0.0f}, sum1[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (uint c = lane; c < blocks * (E / 16); c += 32) {
            const uint block = c / (E / 16), part = c % (E / 16);
            const uint at = first_run<E, D>(block, part);
            float a[16], b[16], d[2], m[2];
            load16(row0[block], part, a, d, m);
#pragma unroll
            for (uint i = 0; i < 16; i++) {
                a[i] = fma(d[i / 8], a[i], m[i / 8]);
            }
            load16(row1[block], part, b, d, m);
#pragma unroll
            for (uint i = 0; i < 16; i++) {
                b[i] = fma(d[i / 8], b[i], m[i / 8]);
            }
#pragma unroll
            for (uint t = 0; t < 4; t++) {
                float v[16];
                load_run(xt[t] + at, v);
                load_run(xt[t] + at + D, v + 8);
                float dot0 = 0.0f, dot1 = 0.0f;
#pragma unroll
                for (uint i = 0; i < 16; i++) {
                    dot0 += a[i] * v[i];
                    dot1 += b[i] * v[i];
                }
                sum0[t] += dot0;
                sum1[t] += dot1;
            }
        }
#pragma unroll
        for (uint t = 0; t < 4; t++) {
            const float s0 = simd_sum(sum0[t]), s1 = simd_sum(sum1[t]);
            const uint row = group * 2 + lane;
            if (lane < 2 && row < p.out_dim && t0 + t < p.tokens) {
                const float s = lane == 0 ? s0 : s1;
                y[(t0 + t) * p.out_dim + row] = p.has_bias != 0 ? s + bias[row] : s;
            }
        }
    }
}

template <typename T>
inline void multi_plain(device const T *w, device const float *x, device const float *bias, device float *y,
                        constant MatMulParams &p, uint group, uint sg, uint lane) {
    device const T *row0 = w + ulong(group * 2) * p.in_dim;
    device const T *row1 = w + ulong(min(group * 2 + 1, p.out_dim - 1)) * p.in_dim;
    for (uint t0 = sg * 4; t0 < p.tokens; t0 += 8) {
        device const float *xt[4];
#pragma unroll
        for (uint t = 0; t < 4; t++) {
            xt[t] = x + min(t0 + t, p.tokens - 1) * p.in_dim;
        }
        float sum0[4] = {0.0f, 0.0f, 0.0f, 0.0f}, sum1[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        uint i = 0;
        if (p.in_dim % 4 == 0) {
            for (; i + 128 <= p.in_dim; i += 128) {
                const uint k = i + lane * 4;
                const float4 a = load4(row0 + k), b = load4(row1 + k);
#pragma unroll
                for (uint t = 0; t < 4; t++) {
                    const float4 v = load4(xt[t] + k);
                    sum0[t] += dot(a, v);
                    sum1[t] += dot(b, v);
                }
            }
        }
        for (i += lane; i < p.in_dim; i += 32) {
            const float a = to_float(row0[i]), b = to_float(row1[i]);
#pragma unroll
            for (uint t = 0; t < 4; t++) {
                const float v = xt[t][i];
                sum0[t] += a * v;
                sum1[t] += b * v;
            }
        }
#pragma unroll
        for (uint t = 0; t < 4; t++) {
            const float s0 = simd_sum(sum0[t]), s1 = simd_sum(sum1[t]);
            const uint row = group * 2 + lane;
            if (lane < 2 && row < p.out_dim && t0 + t < p.tokens) {
                const float s = lane == 0 ? s0 : s1;
                y[(t0 + t) * p.out_dim + row] = p.has_bias != 0 ? s + bias[row] : s;
            }
        }
    }
}

#define MUL_MAT(name, type, tier, call)                                           \
    kernel void kernel_mul_mat_##name##_##tier(device const type *w [[buffer(0)]],      \
                                               device const float *x [[buffer(1)]],     \
                                               device const float *bias [[buffer(2)]],  \
                                               device float *y [[buffer(3)]],           \
                                               constant MatMulParams &p [[buffer(4)]],  \
                                               uint group [[threadgroup_position_in_grid]],     \
                                               uint sg [[simdgroup_index_in_threadgroup]],      \
                                               uint lane [[thread_index_in_simdgroup]]) {       \
        call(w, x, bias, y, p, group, sg, lane);                                        \
    }

MUL_MAT(f32, float, single, single_plain<float>)
MUL_MAT(f16, half, single, single_plain<half>)
MUL_MAT(bf16, ushort, single, single_plain<ushort>)
MUL_MAT(q4_0, block_q4_0, single, (single_quantized<block_q4_0, 32, 16>))
MUL_MAT(q4_1, block_q4_1, single, (single_quantized<block_q4_1, 32, 16>))
MUL_MAT(q5_0, block_q5_0, single, (single_quantized<block_q5_0, 32, 16>))
MUL_MAT(q5_1, block_q5_1, single, (single_quantized<block_q5_1, 32, 16>))
MUL_MAT(q8_0, block_q8_0, single, (single_quantized<block_q8_0, 32, 8>))
MUL_MAT(q4_k, block_q4_K, single, (single_quantized<block_q4_K, 256, 32>))
MUL_MAT(q5_k, block_q5_K, single, (single_quantized<block_q5_K, 256, 32>))
MUL_MAT(q6_k, block_q6_K, single, (single_quantized<block_q6_K, 256, 64>))

MUL_MAT(f32, float, multi, multi_plain<float>)
MUL_MAT(f16, half, multi, multi_plain<half>)
MUL_MAT(bf16, ushort, multi, multi_plain<ushort>)
MUL_MAT(q4_0, block_q4_0, multi, (multi_quantized<block_q4_0, 32, 16>))
MUL_MAT(q4_1, block_q4_1, multi, (multi_quantized<block_q4_1, 32, 16>))
MUL_MAT(q5_0, block_q5_0, multi, (multi_quantized<block_q5_0, 32, 16>))
MUL_MAT(q5_1, block_q5_1, multi, (multi_quantized<block_q5_1, 32, 16>))
MUL_MAT(q8_0, block_q8_0, multi, (multi_quantized<block_q8_0, 32, 8>))
MUL_MAT(q4_k, block_q4_K, multi, (multi_quantized<block_q4_K, 256, 32>))
MUL_MAT(q5_k, block_q5_K, multi, (multi_quantized<block_q5_K, 256, 32>))
MUL_MAT(q6_k, block_q6_K, multi, (multi_quantized<block_q6_K, 256, 64>))
