// Attention for any head size, any number of rows and any ratio of heads: one
// threadgroup for each head and row, over tiles of cells with an online softmax.
#include "attn.h"

#define TILE 128

// A thread for each channel, in whole simdgroups; the simdgroups share the cells of a
// tile for the scores, the threads then sum up the values of their channel. Two
// barriers a tile are enough since scores and weights have arrays of their own: the
// next scores come after all maxima, the next weights after all sums.
template <typename KV>
inline void classic(device const float *q, device const KV *k, device const KV *v, device const int *pos,
                    device float *out, constant AttnParams &p, threadgroup float *scores, threadgroup float *weights,
                    uint head, uint row, uint tid, uint threads, uint sg, uint sgs, uint lane) {
    const uint hd = p.head_dim;
    const uint width = p.n_head_kv * hd;
    const uint kv_head = attn_kv_head(head, p.n_head, p.n_head_kv);
    const uint n = kv_head < p.n_head_kv ? attn_cells(pos[row], p.n_kv) : 0u;
    const uint base = kv_head * hd;
    const uint at = (row * p.n_head + head) * hd;
    const uint channel = min(tid, hd - 1); // threads behind the head repeat its last channel, and do not write it

    float m = ATTN_LOWEST, sum = 0.0f, acc = 0.0f;
    for (uint tile = 0; tile < n; tile += TILE) {
        const uint count = min(n - tile, uint(TILE));
        for (uint c = sg * 4; c < count; c += sgs * 4) {
            // Four cells for each value of q; past the end the last one again.
            device const KV *keys = k + (tile + c) * width + base;
            const uint rest = count - 1 - c;
            float dots[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            for (uint b = 0; b < hd; b += 32) {
                const uint i = b + lane;
                if (i < hd) {
                    const float x = q[at + i];
#pragma unroll
                    for (uint j = 0; j < 4; j++) {
                        dots[j] += x * float(keys[min(j, rest) * width + i]);
                    }
                }
            }
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const float dot = simd_sum(dots[j]);
                if (lane == 0 && c + j < count) {
                    scores[c + j] = dot * p.scale;
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        float top = m;
        for (uint c = 0; c < count; c += 32) {
            if (c + lane < count) {
                top = max(top, scores[c + lane]);
            }
        }
        top = simd_max(top);
        for (uint c = tid; c < TILE; c += threads) {
            weights[c] = c < count ? exp(scores[c] - top) : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        float part = 0.0f, total = 0.0f;
        for (uint c = 0; c < count; c += 4) {
            device const KV *values = v + (tile + c) * width + base;
            const uint rest = count - 1 - c;
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const float w = weights[c + j]; // 0 past the end
                total += w;
                part += w * float(values[min(j, rest) * width + channel]);
            }
        }
        const float keep = exp(m - top);
        m = top;
        sum = sum * keep + total;
        acc = acc * keep + part;
    }
    if (tid < hd) {
        out[at + tid] = sum > 0.0f ? acc / sum : 0.0f;
    }
}

#define CLASSIC(name, KV)                                                                              \
    kernel void name(device const float *q [[buffer(0)]], device const KV *k [[buffer(1)]],            \
                     device const KV *v [[buffer(2)]], device const int *pos [[buffer(3)]],            \
                     device float *out [[buffer(4)]], constant AttnParams &p [[buffer(5)]],            \
                     uint2 group [[threadgroup_position_in_grid]],                                     \
                     uint tid [[thread_index_in_threadgroup]],                                         \
                     uint2 size [[threads_per_threadgroup]],                                           \
                     uint sg [[simdgroup_index_in_threadgroup]],                                       \
                     uint sgs [[simdgroups_per_threadgroup]],                                          \
                     uint lane [[thread_index_in_simdgroup]]) {                                        \
        threadgroup float scores[TILE];                                                                \
        threadgroup float weights[TILE];                                                               \
        classic<KV>(q, k, v, pos, out, p, scores, weights, group.x, group.y, tid, size.x, sg, sgs, lane); \
    }

CLASSIC(kernel_attn_classic_f32, float)
CLASSIC(kernel_attn_classic_f16, half)
