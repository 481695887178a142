// What follows the fused projection of one token: bias, norm of the query and key
// heads, rotation, and the stores to the KV cache.
#include "attn.h"
#include "norm.h"
#include "rope.h"

struct EpilogueParams {
    RopeParams rope; // heads: of the query
    uint heads_kv;
    uint value_dim;  // of a value head
    uint capacity;   // cells of the cache
    uint biased;     // 0: bias is bound to something else and not read
    uint normed;     // 0: so is norm
    float eps;
};

// One head of a cache row: values h*dim to h*dim + dim - 1 of a cell.
template <typename KV>
inline void put_plain(device KV *cache, threadgroup const float *head, uint at, uint dim, uint lane) {
    for (uint i = lane; i < dim; i += 32) {
        cache[at + i] = KV(head[i]);
    }
}

inline void put(device float *cache, threadgroup const float *head, uint at, uint dim, uint lane) {
    put_plain<float>(cache, head, at, dim, lane);
}

inline void put(device half *cache, threadgroup const float *head, uint at, uint dim, uint lane) {
    put_plain<half>(cache, head, at, dim, lane);
}

// dim is a multiple of 32, a lane has a value of each block.
inline void put(device block_q8_0 *cache, threadgroup const float *head, uint at, uint dim, uint lane) {
    for (uint b = 0; b < dim / 32; b++) {
        kv_put(cache + at / 32 + b, head[b * 32 + lane], lane);
    }
}

// One simdgroup for each head: those of the query, then the key's, then the value's,
// in the order of the rows of x. head is its memory.
template <typename KV>
inline void epilogue(device const float *bias, device const float *norm, device const float *x, device const int *pos,
                     device float *y, device KV *keys, device KV *values, constant EpilogueParams &p,
                     constant RopeFrequency *frequencies, threadgroup float *head, uint group, uint lane) {
    const uint heads = p.rope.heads, hd = p.rope.head_dim;
    const bool is_value = group >= heads + p.heads_kv;
    const uint dim = is_value ? p.value_dim : hd;
    const uint first = is_value ? (heads + p.heads_kv) * hd + (group - heads - p.heads_kv) * dim : group * hd;
    const uint cell = uint(pos[0]);
    for (uint i = lane; i < dim; i += 32) {
        head[i] = p.biased != 0 ? x[first + i] + bias[first + i] : x[first + i];
    }
    if (!is_value) {
        if (p.normed != 0) {
            const float sum = simd_sum(squares(head, hd, lane, 32));
            const float scale = rsqrt(sum / float(hd) + p.eps);
            device const float *weight = group < heads ? norm : norm + hd;
            for (uint i = lane; i < hd; i += 32) {
                head[i] = head[i] * scale * weight[i];
            }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = lane; k < p.rope.n_dims / 2; k += 32) {
            float c, s;
            rope_rotation(frequencies[k], cell, p.rope.magnitude, c, s);
            const uint i = rope_first(p.rope, k), j = rope_second(p.rope, k);
            const float a = head[i], b = head[j];
            head[i] = a * c - b * s;
            head[j] = a * s + b * c;
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (group < heads) {
        for (uint i = lane; i < hd; i += 32) {
            y[first + i] = head[i];
        }
    } else if (cell < p.capacity) {
        if (is_value) {
            put(values, head, cell * p.heads_kv * dim + (group - heads - p.heads_kv) * dim, dim, lane);
        } else {
            put(keys, head, cell * p.heads_kv * dim + (group - heads) * dim, dim, lane);
        }
    }
}

#define FUSED_QKV(name, KV)                                                                                \
    kernel void kernel_fused_qkv_##name(device const float *bias [[buffer(0)]],                            \
                                        device const float *norm [[buffer(1)]],                            \
                                        device const float *x [[buffer(2)]],                               \
                                        device const int *pos [[buffer(3)]], device float *y [[buffer(4)]], \
                                        device KV *keys [[buffer(5)]], device KV *values [[buffer(6)]],    \
                                        constant EpilogueParams &p [[buffer(7)]],                          \
                                        constant RopeFrequency *frequencies [[buffer(8)]],                 \
                                        threadgroup float *head [[threadgroup(0)]],                        \
                                        uint group [[threadgroup_position_in_grid]],                       \
                                        uint lane [[thread_index_in_simdgroup]]) {                         \
        epilogue<KV>(bias, norm, x, pos, y, keys, values, p, frequencies, head, group, lane);              \
    }

FUSED_QKV(f32, float)
FUSED_QKV(f16, half)
FUSED_QKV(q8_0, block_q8_0)
