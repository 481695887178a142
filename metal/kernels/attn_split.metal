// Decode attention in two passes: each threadgroup computes the scores of a part of
// at most 128 cells, their softmax within the part and the weighted sum of values;
// attn_combine (attn_flash_decode.metal) joins the parts.
#include "attn.h"

#define PART 128
#define SIMDGROUPS 4

// A threadgroup has SIMDGROUPS simdgroups, each with a quarter of the part's cells. All
// threads run through the same barriers, whether the part has cells or not.
template <typename KV, uint BLOCKS>
inline void split(device const float *q, device const KV *k, device const KV *v, device const int *pos,
                  device float *partial, device float *state, constant AttnParams &p,
                  threadgroup float *scores, threadgroup float *weights, threadgroup float *accs,
                  uint head, uint part, uint tid, uint sg, uint lane) {
    const uint hd = BLOCKS * 32;
    const uint width = p.n_head_kv * hd;
    const uint kv_head = attn_kv_head(head, p.n_head, p.n_head_kv);
    const uint n = kv_head < p.n_head_kv ? attn_cells(pos[0], p.n_kv) : 0u;
    const uint size = min(attn_chunk(n, p.chunks), uint(PART));
    const uint first = part * size;
    const uint count = first < n ? min(size, n - first) : 0u;
    const uint begin = sg * (PART / SIMDGROUPS);
    const uint end = min(begin + PART / SIMDGROUPS, count);
    const uint base = kv_head * hd;
    const uint step = kv_step(k, width);

    float query[BLOCKS];
#pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        query[b] = q[head * hd + b * 32 + lane];
    }
    device const KV *keys = kv_row(k, first * width + base);
    for (uint c = begin; c < end; c++) {
        const float dot = kv_dot<KV, BLOCKS>(query, keys + c * step, lane);
        if (lane == 0) {
            scores[c] = dot * p.scale;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Every simdgroup finds the part's maximum for itself; each thread then has the
    // weight of one cell.
    float m = ATTN_LOWEST;
    for (uint c = 0; c < count; c += 32) {
        if (c + lane < count) {
            m = max(m, scores[c + lane]);
        }
    }
    m = simd_max(m);
    weights[tid] = tid < count ? exp(scores[tid] - m) : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);

    float acc[BLOCKS];
#pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        acc[b] = 0.0f;
    }
    device const KV *values = kv_row(v, first * width + base);
    for (uint c = begin; c < end; c++) {
        kv_add<KV, BLOCKS>(acc, weights[c], values + c * step, lane);
    }
#pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        accs[sg * hd + b * 32 + lane] = acc[b];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const uint slot = head * p.chunks + part;
    if (count > 0 && tid < hd) {
        float total = accs[tid];
#pragma unroll
        for (uint s = 1; s < SIMDGROUPS; s++) {
            total += accs[s * hd + tid];
        }
        partial[slot * hd + tid] = total;
    }
    if (count > 0 && sg == 0) {
        float sum = 0.0f;
#pragma unroll
        for (uint c = 0; c < PART; c += 32) {
            sum += weights[c + lane];
        }
        sum = simd_sum(sum);
        if (lane == 0) {
            state[slot * 2] = m;
            state[slot * 2 + 1] = sum;
        }
    }
}

#define SPLIT(name, KV, HD)                                                                            \
    kernel void name(device const float *q [[buffer(0)]], device const KV *k [[buffer(1)]],            \
                     device const KV *v [[buffer(2)]], device const int *pos [[buffer(3)]],            \
                     device float *partial [[buffer(4)]], device float *state [[buffer(5)]],           \
                     constant AttnParams &p [[buffer(6)]],                                             \
                     uint2 group [[threadgroup_position_in_grid]],                                     \
                     uint tid [[thread_index_in_threadgroup]],                                         \
                     uint sg [[simdgroup_index_in_threadgroup]],                                       \
                     uint lane [[thread_index_in_simdgroup]]) {                                        \
        threadgroup float scores[PART];                                                                \
        threadgroup float weights[PART];                                                               \
        threadgroup float accs[SIMDGROUPS * HD];                                                       \
        split<KV, HD / 32>(q, k, v, pos, partial, state, p, scores, weights, accs,                     \
                           group.x, group.y, tid, sg, lane);                                           \
    }

SPLIT(kernel_attn_split_f32_64, float, 64)
SPLIT(kernel_attn_split_f32_128, float, 128)
SPLIT(kernel_attn_split_f16_64, half, 64)
SPLIT(kernel_attn_split_f16_128, half, 128)
