// Decode attention with an online softmax: one query row over the cache, a
// threadgroup for each head and KV chunk, then one for each head that combines
// the chunks. Lanes are channels, so that a simdgroup reads whole cache rows.
#include "attn.h"

// Simdgroups that share a chunk at most: more only shorten long chunks.
#define SIMDGROUPS 4

// Each simdgroup takes tiles of 32 cells in turn: it computes their scores, one a
// lane in the end, then weighs the values. weights is its own 32 floats, merge is
// for all of the threadgroup. partial gets the weighted sum of each (head, chunk),
// state its running maximum and sum of weights. A chunk without cells is left
// alone: attn_combine knows which those are.
template <typename KV, uint BLOCKS>
inline void flash_decode(device const float *q, device const KV *k, device const KV *v, device const int *pos,
                         device float *partial, device float *state, constant AttnParams &p,
                         threadgroup float *weights, threadgroup float *merge,
                         uint head, uint chunk, uint sg, uint sgs, uint lane) {
    const uint hd = BLOCKS * 32;
    const uint width = p.n_head_kv * hd;
    const uint kv_head = attn_kv_head(head, p.n_head, p.n_head_kv);
    const uint n = kv_head < p.n_head_kv ? attn_cells(pos[0], p.n_kv) : 0u;
    const uint size = attn_chunk(n, p.chunks);
    const uint first = chunk * size;
    const uint last = min(first + size, n);
    const uint base = kv_head * hd;
    const uint step = kv_step(k, width);

    float query[BLOCKS], acc[BLOCKS];
#pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        query[b] = q[head * hd + b * 32 + lane];
        acc[b] = 0.0f;
    }
    float m = ATTN_LOWEST, sum = 0.0f;
    for (uint tile = first + sg * 32; tile < last; tile += sgs * 32) {
        const uint count = min(last - tile, 32u);
        device const KV *keys = kv_row(k, tile * width + base);
        device const KV *values = kv_row(v, tile * width + base);
        float score = 0.0f;
        uint c = 0;
        for (; c + 4 <= count; c += 4) {
            float dots[4];
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                dots[i] = kv_dot<KV, BLOCKS>(query, keys + c * step + i * step, lane);
            }
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                score = select(score, dots[i], lane == c + i);
            }
        }
        for (; c < count; c++) {
            score = select(score, kv_dot<KV, BLOCKS>(query, keys + c * step, lane), lane == c);
        }
        score = lane < count ? score * p.scale : ATTN_LOWEST;
        const float top = max(m, simd_max(score));
        const float keep = exp(m - top);
        const float weight = exp(score - top); // 0 past the end
        m = top;
        sum = sum * keep + simd_sum(weight);
        weights[lane] = weight;
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            acc[b] *= keep;
        }
        for (c = 0; c + 4 <= count; c += 4) {
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                kv_add<KV, BLOCKS>(acc, weights[c + i], values + c * step + i * step, lane);
            }
        }
        for (; c < count; c++) {
            kv_add<KV, BLOCKS>(acc, weights[c], values + c * step, lane);
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }

    if (first < last && sgs > 1) {
        // A simdgroup that had no tile has weight 0 here.
        threadgroup float *tops = merge, *sums = merge + SIMDGROUPS, *accs = merge + 2 * SIMDGROUPS;
        if (lane == 0) {
            tops[sg] = m;
            sums[sg] = sum;
        }
#pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            accs[sg * hd + b * 32 + lane] = acc[b];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (sg == 0) {
            for (uint other = 1; other < sgs; other++) {
                m = max(m, tops[other]);
            }
            const float own = exp(tops[0] - m);
            sum *= own;
#pragma unroll
            for (uint b = 0; b < BLOCKS; b++) {
                acc[b] *= own;
            }
            for (uint other = 1; other < sgs; other++) {
                const float w = exp(tops[other] - m);
                sum += w * sums[other];
#pragma unroll
                for (uint b = 0; b < BLOCKS; b++) {
                    acc[b] += w * accs[other * hd + b * 32 + lane];
                }
            }
        }
    }
    if (first < last && sg == 0) {
        const uint slot = head * p.chunks + chunk;
#pragma unroll
        for (uint b = 0; b < BLOCKS; b++) {
            partial[slot * hd + b * 32 + lane] = acc[b];
        }
        if (lane == 0) {
            state[slot * 2] = m;
            state[slot * 2 + 1] = sum;
        }
    }
}

#define FLASH_DECODE(name, KV, HD)                                                                     \
    kernel void name(device const float *q [[buffer(0)]], device const KV *k [[buffer(1)]],            \
                     device const KV *v [[buffer(2)]], device const int *pos [[buffer(3)]],            \
                     device float *partial [[buffer(4)]], device float *state [[buffer(5)]],           \
                     constant AttnParams &p [[buffer(6)]],                                             \
                     uint2 group [[threadgroup_position_in_grid]],                                     \
                     uint sg [[simdgroup_index_in_threadgroup]],                                       \
                     uint sgs [[simdgroups_per_threadgroup]],                                          \
                     uint lane [[thread_index_in_simdgroup]]) {                                        \
        threadgroup float weights[SIMDGROUPS * 32];                                                    \
        threadgroup float merge[SIMDGROUPS * (2 + HD)];                                                \
        flash_decode<KV, HD / 32>(q, k, v, pos, partial, state, p, weights + sg * 32, merge,           \
                                  group.x, group.y, sg, sgs, lane);                                    \
    }

FLASH_DECODE(kernel_attn_flash_decode_f32_64, float, 64)
FLASH_DECODE(kernel_attn_flash_decode_f32_128, float, 128)
FLASH_DECODE(kernel_attn_flash_decode_f16_64, half, 64)
FLASH_DECODE(kernel_attn_flash_decode_f16_128, half, 128)
FLASH_DECODE(kernel_attn_flash_decode_q8_0_64, block_q8_0, 64)
FLASH_DECODE(kernel_attn_flash_decode_q8_0_128, block_q8_0, 128)

// Joins the chunks of a head, of flash decode and of split attention alike. A
// threadgroup has head_dim threads, one for each channel; its simdgroups compute
// the weights of the chunks each for itself.
kernel void kernel_attn_combine(device const float *partial [[buffer(0)]], device const float *state [[buffer(1)]],
                                device const int *pos [[buffer(2)]], device float *out [[buffer(3)]],
                                constant AttnParams &p [[buffer(4)]],
                                uint head [[threadgroup_position_in_grid]],
                                uint tid [[thread_position_in_threadgroup]],
                                uint sg [[simdgroup_index_in_threadgroup]],
                                uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float shared[4 * 32];
    threadgroup float *weights = shared + sg * 32;
    const uint hd = p.head_dim;
    const bool valid = attn_kv_head(head, p.n_head, p.n_head_kv) < p.n_head_kv;
    const uint n = valid ? attn_cells(pos[0], p.n_kv) : 0u;
    const uint size = max(attn_chunk(n, p.chunks), 1u);
    const uint live = (n + size - 1) / size;
    device const float *states = state + head * p.chunks * 2;
    device const float *partials = partial + head * p.chunks * hd + tid;

    float m = ATTN_LOWEST;
    for (uint c = 0; c < live; c += 32) {
        if (c + lane < live) {
            m = max(m, states[(c + lane) * 2]);
        }
    }
    m = simd_max(m);
    float sum = 0.0f, acc = 0.0f;
    for (uint c = 0; c < live; c += 32) {
        float weight = 0.0f, part = 0.0f;
        if (c + lane < live) {
            weight = exp(states[(c + lane) * 2] - m);
            part = weight * states[(c + lane) * 2 + 1];
        }
        sum += simd_sum(part);
        weights[lane] = weight;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        const uint count = min(live - c, 32u);
        for (uint i = 0; i < count; i++) {
            acc += weights[i] * partials[(c + i) * hd];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[head * hd + tid] = sum > 0.0f ? acc / sum : 0.0f;
}
