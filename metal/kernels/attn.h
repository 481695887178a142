// What the attention and KV kernels share: parameters, cache cells, and how far a
// row sees.
#ifndef MINFER_ATTN_H
#define MINFER_ATTN_H

#include "common.h"

struct AttnParams {
    uint n_head;
    uint n_head_kv;
    uint head_dim;
    uint n_kv;   // cells in the window
    uint chunks; // of the window, for the kernels that split it
    float scale;
};

// Below every score. Finite, so that differences of it are numbers under fast
// math: exp(ATTN_LOWEST - m) is 0, exp(ATTN_LOWEST - ATTN_LOWEST) is 1.
#define ATTN_LOWEST (-1.0e+38f)

// The cells that a row at this position sees. A position outside of the window
// reads nothing outside of it.
inline uint attn_cells(int pos, uint n_kv) {
    return pos < 0 ? 0u : min(uint(pos) + 1u, n_kv);
}

// The KV head of a query head; not below n_head_kv where the KV heads do not
// divide the query heads and none is left.
inline uint attn_kv_head(uint head, uint n_head, uint n_head_kv) {
    return head / max(n_head / max(n_head_kv, 1u), 1u);
}

// The cells of one chunk where n are split among chunks: whole tiles of 32.
inline uint attn_chunk(uint n, uint chunks) {
    return ((n + chunks - 1) / chunks + 31) / 32 * 32;
}

// kv_row is where value first of a cache begins, kv_at the value 32*block + lane
// behind it, and kv_step what a pointer moves over n values. first and n are
// multiples of 32 for packed rows.
inline uint kv_step(device const float *, uint n) { return n; }
inline uint kv_step(device const half *, uint n) { return n; }
inline uint kv_step(device const block_q8_0 *, uint n) { return n / 32; }

template <typename KV> inline device const KV *kv_row(device const KV *cache, uint first) { return cache + kv_step(cache, first); }

inline float kv_at(device const float *row, uint block, uint lane) { return row[block * 32 + lane]; }
inline float kv_at(device const half *row, uint block, uint lane) { return float(row[block * 32 + lane]); }
inline float kv_at(device const block_q8_0 *row, uint block, uint lane) { return float(row[block].qs[lane]) * float(row[block].d); }

// A simdgroup stores a block of 32, value lane from each lane: scale max|x|/127 as a
// half, values x*127/max|x| to the nearest integer, halves to even.
inline void kv_put(device block_q8_0 *to, float value, uint lane) {
    const float largest = simd_max(fabs(value));
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    // A block of tiny values has an infinite inverse.
    to->qs[lane] = char(int(clamp(rint(value * inverse), -127.0f, 127.0f)));
    if (lane == 0) {
        to->d = half(largest / 127.0f);
    }
}

// The product of a query row, whose value 32*b + lane is query[b], and a key.
template <typename KV, uint BLOCKS>
inline float kv_dot(thread const float *query, device const KV *row, uint lane) {
    float dot = query[0] * kv_at(row, 0, lane);
#pragma unroll
    for (uint b = 1; b < BLOCKS; b++) {
        dot += query[b] * kv_at(row, b, lane);
    }
    return simd_sum(dot);
}

// acc += weight * row, lanes as in kv_dot.
template <typename KV, uint BLOCKS>
inline void kv_add(thread float *acc, float weight, device const KV *row, uint lane) {
#pragma unroll
    for (uint b = 0; b < BLOCKS; b++) {
        acc[b] += weight * kv_at(row, b, lane);
    }
}

#endif
