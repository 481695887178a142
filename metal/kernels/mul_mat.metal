// y = W x + bias for a few tokens, without matrix units. W is [out_dim][in_dim],
// x [tokens][in_dim], y [tokens][out_dim]. One token is mul_mv.metal's.
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
