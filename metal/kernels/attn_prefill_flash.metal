// Attention of a prompt in one pass over the cache, scores never leaving the chip.
//
// The query heads that read one KV head are stacked: row r of a KV head is token
// r / heads, query head r % heads of its group. A threadgroup takes 32 rows, 8 a
// simdgroup, and walks the cache in tiles of 32 cells: it stages the tile's K, then
// each simdgroup makes its 8x32 scores by simdgroup matrices and updates each row's
// running maximum and sum, then the tile's V takes K's place and the weighted rows
// of it are added. All tiles are float32. The products are made with rows as columns:
// all of a step then share their second factor, the row's.
//
// A row sees the cells 0..pos. The walk ends where no row of the threadgroup sees
// more, and a simdgroup sits out the tiles that none of its rows sees. A tile that
// one row does not see leaves that row as it is: its maximum stays, its factor is
// exp(0), its weights are 0. No value of a cell that no row sees is read.
#include <metal_stdlib>

using namespace metal;

#define ROWS 32
#define CELLS 32
#define SIMDGROUPS 4
// Rows of threadgroup memory are 4 floats longer than their data, which spreads a
// column over the banks and keeps float4 aligned.
#define PAD 4
#define SCORES (CELLS + PAD)
// Below every score, and far enough from the end of the range to subtract from.
#define LOWEST (-FLT_MAX / 4)

struct Params {
    uint n_tokens;
    uint n_head;
    uint n_head_kv;
    uint n_kv;
    float scale;
};

static inline float4 load4(device const float *p) { return *(device const float4 *)p; }
static inline float4 load4(device const half *p) { return float4(*(device const half4 *)p); }

// Stages the cells first..first+31 of one KV head's channels. For those from end on
// the last one before it stands in, whose scores are masked and whose weights are 0.
template <typename T, int HD>
void stage(device const T *src, uint width, uint first, uint end, threadgroup float *tile, uint tid) {
#pragma unroll
    for (uint i = 0; i < CELLS * HD / 4 / (32 * SIMDGROUPS); i++) {
        const uint e = (tid + i * 32 * SIMDGROUPS) * 4;
        const uint cell = e / HD;
        const uint channel = e % HD;
        *(threadgroup float4 *)(tile + cell * (HD + PAD) + channel) =
            load4(src + min(first + cell, end - 1) * width + channel);
    }
}

template <typename T, int HD>
void prefill_flash(device const float *q, device const T *k, device const T *v, device const int *pos,
                   device float *out, constant Params &p, threadgroup float *tile, threadgroup float *all_scores,
                   threadgroup float *all_diagonals, uint2 group, uint tid, uint sg, uint lane) {
    const uint heads = (p.n_head + p.n_head_kv - 1) / p.n_head_kv;
    const uint rows = p.n_tokens * heads;
    const uint kv_width = p.n_head_kv * HD;
    const uint first_head = group.y * heads;
    k += group.y * HD;
    v += group.y * HD;
    threadgroup float *scores = all_scores + sg * 8 * SCORES;
    threadgroup float *diagonal = all_diagonals + sg * 64;

    // Lane l holds how many cells row l of the threadgroup sees: every simdgroup
    // knows where the walk ends.
    const uint my_row = group.x * ROWS + lane;
    const int at = pos[min(my_row, rows - 1) / heads];
    const int my_visible = my_row < rows ? clamp(at, -1, int(p.n_kv) - 1) + 1 : 0;
    const uint end = uint(simd_max(my_visible));
    int visible[8];
    int own_visible = 0;
#pragma unroll
    for (uint r = 0; r < 8; r++) {
        visible[r] = simd_broadcast(my_visible, ushort(sg * 8 + r));
        own_visible = max(own_visible, visible[r]);
    }
    const uint own_end = uint(own_visible);

    // The simdgroup's rows of q go through the tile into matrices.
#pragma unroll
    for (uint r = 0; r < 8; r++) {
        const uint row = group.x * ROWS + sg * 8 + r;
        const uint head = first_head + row % heads;
        const bool is = row < rows && head < p.n_head;
        const uint from = is ? (row / heads * p.n_head + head) * HD : 0;
#pragma unroll
        for (uint i = 0; i < HD; i += 32) {
            const float x = q[from + i + lane];
            tile[(sg * 8 + r) * (HD + PAD) + i + lane] = is ? x : 0.0f;
        }
    }
    diagonal[lane] = 0.0f;
    diagonal[lane + 32] = 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 query[HD / 8]; // [channel][row]
    simdgroup_float8x8 sum[HD / 8];   // [channel][row]
#pragma unroll
    for (uint i = 0; i < HD / 8; i++) {
        simdgroup_load(query[i], tile + sg * 8 * (HD + PAD) + i * 8, HD + PAD, ulong2(0, 0), true);
        sum[i] = make_filled_simdgroup_matrix<float, 8>(0.0f);
    }

    float largest[8]; // of each row, the same in all lanes
    float weight[8];  // the lane's own cells' part of each row's sum
#pragma unroll
    for (uint r = 0; r < 8; r++) {
        largest[r] = LOWEST;
        weight[r] = 0.0f;
    }

    for (uint first = 0; first < end; first += CELLS) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        stage<T, HD>(k, kv_width, first, end, tile, tid);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (first < own_end) {
            simdgroup_float8x8 score[CELLS / 8]; // [cell][row]
#pragma unroll
            for (uint c = 0; c < CELLS / 8; c++) {
                score[c] = make_filled_simdgroup_matrix<float, 8>(0.0f);
            }
#pragma unroll
            for (uint i = 0; i < HD / 8; i++) {
#pragma unroll
                for (uint c = 0; c < CELLS / 8; c++) {
                    simdgroup_float8x8 key;
                    simdgroup_load(key, tile + c * 8 * (HD + PAD) + i * 8, HD + PAD);
                    simdgroup_multiply_accumulate(score[c], key, query[i], score[c]);
                }
            }
#pragma unroll
            for (uint c = 0; c < CELLS / 8; c++) {
                simdgroup_store(score[c], scores + c * 8, SCORES, ulong2(0, 0), true);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);

            float mine = 1.0f; // lane r < 8: what row r's sum so far is multiplied by
            float least = 1.0f;
#pragma unroll
            for (uint r = 0; r < 8; r++) {
                const bool seen = int(first + lane) < visible[r];
                const float s = seen ? scores[r * SCORES + lane] * p.scale : LOWEST;
                const float top = max(largest[r], simd_max(s));
                const float e = seen ? exp(s - top) : 0.0f;
                const float factor = exp(largest[r] - top);
                scores[r * SCORES + lane] = e;
                weight[r] = weight[r] * factor + e;
                largest[r] = top;
                mine = lane == r ? factor : mine;
                least = min(least, factor);
            }
            // The rows' factors are a diagonal matrix, needed where a maximum moved.
            if (first > 0 && least < 1.0f) {
                if (lane < 8) {
                    diagonal[lane * 9] = mine;
                }
                simdgroup_barrier(mem_flags::mem_threadgroup);
                simdgroup_float8x8 factors;
                simdgroup_load(factors, diagonal, 8);
#pragma unroll
                for (uint i = 0; i < HD / 8; i++) {
                    simdgroup_multiply(sum[i], sum[i], factors);
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        stage<T, HD>(v, kv_width, first, end, tile, tid);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (first < own_end) {
#pragma unroll
            for (uint c = 0; c < CELLS / 8; c++) {
                simdgroup_float8x8 weights;
                simdgroup_load(weights, scores + c * 8, SCORES, ulong2(0, 0), true);
#pragma unroll
                for (uint i = 0; i < HD / 8; i++) {
                    simdgroup_float8x8 value;
                    simdgroup_load(value, tile + c * 8 * (HD + PAD) + i * 8, HD + PAD, ulong2(0, 0), true);
                    simdgroup_multiply_accumulate(sum[i], value, weights, sum[i]);
                }
            }
        }
    }

    // The sums go through the tile to the output, divided by the rows' weights.
    threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint i = 0; i < HD / 8; i++) {
        simdgroup_store(sum[i], tile + sg * 8 * (HD + PAD) + i * 8, HD + PAD, ulong2(0, 0), true);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint r = 0; r < 8; r++) {
        const uint row = group.x * ROWS + sg * 8 + r;
        const uint head = first_head + row % heads;
        const float w = simd_sum(weight[r]);
        if (row < rows && head < p.n_head) {
            const float scale = w > 0.0f ? 1.0f / w : 0.0f;
#pragma unroll
            for (uint i = 0; i < HD; i += 32) {
                out[(row / heads * p.n_head + head) * HD + i + lane] = tile[(sg * 8 + r) * (HD + PAD) + i + lane] * scale;
            }
        }
    }
}

#define PREFILL_FLASH(NAME, T, HD)                                                                                     \
    kernel void NAME(device const float *q [[buffer(0)]], device const T *k [[buffer(1)]],                             \
                     device const T *v [[buffer(2)]], device const int *pos [[buffer(3)]],                             \
                     device float *out [[buffer(4)]], constant Params &p [[buffer(5)]],                                \
                     uint2 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],           \
                     uint sg [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {            \
        threadgroup float tile[CELLS * (HD + PAD)];                                                                    \
        threadgroup float scores[SIMDGROUPS * 8 * SCORES];                                                             \
        threadgroup float diagonals[SIMDGROUPS * 64];                                                                  \
        prefill_flash<T, HD>(q, k, v, pos, out, p, tile, scores, diagonals, group, tid, sg, lane);                     \
    }

PREFILL_FLASH(kernel_attn_prefill_flash_f32_64, float, 64)
PREFILL_FLASH(kernel_attn_prefill_flash_f32_128, float, 128)
PREFILL_FLASH(kernel_attn_prefill_flash_f16_64, half, 64)
PREFILL_FLASH(kernel_attn_prefill_flash_f16_128, half, 128)
