// Attention of a prompt in three passes, for heads of any size: scores, masked
// softmax, output. Every simdgroup works alone, so there is no threadgroup_barrier.
//
// The query heads that read one KV head are stacked: row r of a KV head is token
// r / heads, query head r % heads of its group. Scores are float32 [cell][row][KV
// head] in device memory, with rows padded to ROWS and cells to CELLS, so that tiles
// are loaded and stored whole. The row tile is what the passes share: 16 rows, and
// the end of the cells that one of them sees. No pass reads a cell behind that end:
// the last one before it stands in for those that fill up a tile, whose scores are
// masked and whose weights are 0.
#include <metal_stdlib>

using namespace metal;

#define ROWS 16
#define CELLS 32
#define CHANNELS 32
#define SIMDGROUPS 4
// Rows of threadgroup memory: 4 floats longer than their data, which spreads a
// column over the banks and keeps float4 aligned.
#define STRIDE (CHANNELS + 4)
// Below every score, and far enough from the end of the range to subtract from.
#define LOWEST (-FLT_MAX / 4)

struct Params {
    uint n_tokens;
    uint n_head;
    uint n_head_kv;
    uint head_dim;
    uint n_kv;
    float scale;
};

static inline float4 load4(device const float *p) { return *(device const float4 *)p; }
static inline float4 load4(device const half *p) { return float4(*(device const half4 *)p); }

// Four channels of a head, zeros for those past its end.
template <typename T>
float4 channels4(device const T *head, uint channel, uint head_dim) {
    if (head_dim % 4 == 0) {
        const float4 x = load4(head + min(channel, head_dim - 4));
        return channel < head_dim ? x : float4(0.0f);
    }
    float4 x;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const float y = float(head[min(channel + i, head_dim - 1)]);
        x[i] = channel + i < head_dim ? y : 0.0f;
    }
    return x;
}

static inline uint heads_of(constant Params &p) { return (p.n_head + p.n_head_kv - 1) / p.n_head_kv; }

// The cells that a row sees: 0 for a row of the padding.
static inline int visible_to(uint row, device const int *pos, constant Params &p) {
    const uint heads = heads_of(p);
    const uint rows = p.n_tokens * heads;
    const int at = pos[min(row, rows - 1) / heads];
    return row < rows ? clamp(at, -1, int(p.n_kv) - 1) + 1 : 0;
}

// Where the cells that one of a tile's rows sees end.
static inline uint end_of(uint first_row, device const int *pos, constant Params &p, uint lane) {
    return uint(simd_max(visible_to(first_row + lane % ROWS, pos, p)));
}

static inline uint padded_rows(constant Params &p) { return (p.n_tokens * heads_of(p) + ROWS - 1) / ROWS * ROWS; }
static inline uint padded_cells(constant Params &p) { return (p.n_kv + CELLS - 1) / CELLS * CELLS; }

// Scores of 16 rows and 32 cells a simdgroup, before they are scaled.
template <typename T>
void parallel_scores(device const float *q, device const T *k, device const int *pos, device float *scores,
                     constant Params &p, threadgroup float *rows_of_q, threadgroup float *cells_of_k, uint first_cell,
                     uint first_row, uint kv_head, uint lane) {
    const uint heads = heads_of(p);
    const uint rows = p.n_tokens * heads;
    const uint end = end_of(first_row, pos, p, lane);
    if (first_cell >= end) {
        return;
    }
    // A lane stages four channels of every fourth row and cell.
    const uint my_row = lane / 8;
    const uint my_channel = lane % 8 * 4;
    uint from_q[ROWS / 4];
#pragma unroll
    for (uint i = 0; i < ROWS / 4; i++) {
        const uint row = first_row + i * 4 + my_row;
        const uint head = kv_head * heads + row % heads;
        from_q[i] = row < rows && head < p.n_head ? (row / heads * p.n_head + head) * p.head_dim : ~0u;
    }
    const uint kv_width = p.n_head_kv * p.head_dim;
    k += kv_head * p.head_dim;

    simdgroup_float8x8 score[ROWS / 8][CELLS / 8];
#pragma unroll
    for (uint r = 0; r < ROWS / 8; r++) {
#pragma unroll
        for (uint c = 0; c < CELLS / 8; c++) {
            score[r][c] = make_filled_simdgroup_matrix<float, 8>(0.0f);
        }
    }
    for (uint channel = 0; channel < p.head_dim; channel += CHANNELS) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < ROWS / 4; i++) {
            const bool is = from_q[i] != ~0u;
            const float4 x = channels4(q + (is ? from_q[i] : 0), channel + my_channel, p.head_dim);
            *(threadgroup float4 *)(rows_of_q + (i * 4 + my_row) * STRIDE + my_channel) = is ? x : float4(0.0f);
        }
#pragma unroll
        for (uint i = 0; i < CELLS / 4; i++) {
            const uint cell = min(first_cell + i * 4 + my_row, end - 1);
            *(threadgroup float4 *)(cells_of_k + (i * 4 + my_row) * STRIDE + my_channel) =
                channels4(k + cell * kv_width, channel + my_channel, p.head_dim);
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < CHANNELS; i += 8) {
            simdgroup_float8x8 query[ROWS / 8];
#pragma unroll
            for (uint r = 0; r < ROWS / 8; r++) {
                simdgroup_load(query[r], rows_of_q + r * 8 * STRIDE + i, STRIDE);
            }
#pragma unroll
            for (uint c = 0; c < CELLS / 8; c++) {
                simdgroup_float8x8 key;
                simdgroup_load(key, cells_of_k + c * 8 * STRIDE + i, STRIDE, ulong2(0, 0), true);
#pragma unroll
                for (uint r = 0; r < ROWS / 8; r++) {
                    simdgroup_multiply_accumulate(score[r][c], query[r], key, score[r][c]);
                }
            }
        }
    }
    const uint stride = padded_cells(p);
    scores += (kv_head * padded_rows(p) + first_row) * stride + first_cell;
#pragma unroll
    for (uint r = 0; r < ROWS / 8; r++) {
#pragma unroll
        for (uint c = 0; c < CELLS / 8; c++) {
            simdgroup_store(score[r][c], scores + r * 8 * stride + c * 8, stride);
        }
    }
}

// Softmax of one row a simdgroup, in place: weights that add up to 1 over the cells
// that the row sees, 0 up to the end of its tile.
kernel void kernel_attn_parallel_softmax(device const int *pos [[buffer(0)]], device float *scores [[buffer(1)]],
                                         constant Params &p [[buffer(2)]],
                                         uint2 group [[threadgroup_position_in_grid]],
                                         uint sg [[simdgroup_index_in_threadgroup]],
                                         uint lane [[thread_index_in_simdgroup]]) {
    const uint row = group.x * SIMDGROUPS + sg;
    const uint first_row = row / ROWS * ROWS;
    const int visible = visible_to(row, pos, p);
    const uint end = end_of(first_row, pos, p, lane);
    device float *s = scores + (group.y * padded_rows(p) + row) * padded_cells(p) + lane;

    float top = LOWEST;
    for (int first = 0; first < visible; first += CELLS) {
        const float x = s[first] * p.scale;
        top = max(top, first + int(lane) < visible ? x : LOWEST);
    }
    top = simd_max(top);
    float sum = 0.0f;
    for (int first = 0; first < int(end); first += CELLS) {
        const float x = s[first] * p.scale;
        const float e = first + int(lane) < visible ? exp(x - top) : 0.0f;
        sum += e;
        s[first] = e;
    }
    sum = simd_sum(sum);
    const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
    for (int first = 0; first < visible; first += CELLS) {
        s[first] *= scale;
    }
}

// Output of 16 rows and 32 channels a simdgroup.
template <typename T>
void parallel_output(device const float *scores, device const T *v, device const int *pos, device float *out,
                     constant Params &p, threadgroup float *tile, uint first_row, uint channel, uint kv_head,
                     uint lane) {
    const uint heads = heads_of(p);
    const uint rows = p.n_tokens * heads;
    if (first_row >= rows) {
        return;
    }
    const uint end = end_of(first_row, pos, p, lane);
    const uint my_row = lane / 8;
    const uint my_channel = lane % 8 * 4;
    const uint kv_width = p.n_head_kv * p.head_dim;
    v += kv_head * p.head_dim;
    const uint stride = padded_cells(p);
    scores += (kv_head * padded_rows(p) + first_row) * stride;

    simdgroup_float8x8 sum[ROWS / 8][CHANNELS / 8];
#pragma unroll
    for (uint r = 0; r < ROWS / 8; r++) {
#pragma unroll
        for (uint c = 0; c < CHANNELS / 8; c++) {
            sum[r][c] = make_filled_simdgroup_matrix<float, 8>(0.0f);
        }
    }
    for (uint first = 0; first < end; first += CELLS) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < CELLS / 4; i++) {
            const uint cell = min(first + i * 4 + my_row, end - 1);
            *(threadgroup float4 *)(tile + (i * 4 + my_row) * STRIDE + my_channel) =
                channels4(v + cell * kv_width, channel + my_channel, p.head_dim);
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
        for (uint i = 0; i < CELLS; i += 8) {
            simdgroup_float8x8 weight[ROWS / 8];
#pragma unroll
            for (uint r = 0; r < ROWS / 8; r++) {
                simdgroup_load(weight[r], scores + r * 8 * stride + first + i, stride);
            }
#pragma unroll
            for (uint c = 0; c < CHANNELS / 8; c++) {
                simdgroup_float8x8 value;
                simdgroup_load(value, tile + i * STRIDE + c * 8, STRIDE);
#pragma unroll
                for (uint r = 0; r < ROWS / 8; r++) {
                    simdgroup_multiply_accumulate(sum[r][c], weight[r], value, sum[r][c]);
                }
            }
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint r = 0; r < ROWS / 8; r++) {
#pragma unroll
        for (uint c = 0; c < CHANNELS / 8; c++) {
            simdgroup_store(sum[r][c], tile + r * 8 * STRIDE + c * 8, STRIDE);
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint r = 0; r < ROWS; r++) {
        const uint row = first_row + r;
        const uint head = kv_head * heads + row % heads;
        if (row < rows && head < p.n_head && channel + lane < p.head_dim) {
            out[(row / heads * p.n_head + head) * p.head_dim + channel + lane] = tile[r * STRIDE + lane];
        }
    }
}

#define PARALLEL(NAME, T)                                                                                              \
    kernel void kernel_attn_parallel_scores_##NAME(                                                                    \
        device const float *q [[buffer(0)]], device const T *k [[buffer(1)]], device const int *pos [[buffer(2)]],     \
        device float *scores [[buffer(3)]], constant Params &p [[buffer(4)]],                                          \
        uint3 group [[threadgroup_position_in_grid]], uint sg [[simdgroup_index_in_threadgroup]],                      \
        uint lane [[thread_index_in_simdgroup]]) {                                                                     \
        threadgroup float rows[SIMDGROUPS * ROWS * STRIDE];                                                            \
        threadgroup float cells[SIMDGROUPS * CELLS * STRIDE];                                                          \
        parallel_scores(q, k, pos, scores, p, rows + sg * ROWS * STRIDE, cells + sg * CELLS * STRIDE,                  \
                        (group.x * SIMDGROUPS + sg) * CELLS, group.y * ROWS, group.z, lane);                           \
    }                                                                                                                  \
    kernel void kernel_attn_parallel_output_##NAME(                                                                    \
        device const float *scores [[buffer(0)]], device const T *v [[buffer(1)]], device const int *pos [[buffer(2)]],\
        device float *out [[buffer(3)]], constant Params &p [[buffer(4)]],                                             \
        uint3 group [[threadgroup_position_in_grid]], uint sg [[simdgroup_index_in_threadgroup]],                      \
        uint lane [[thread_index_in_simdgroup]]) {                                                                     \
        threadgroup float tile[SIMDGROUPS * CELLS * STRIDE];                                                           \
        parallel_output(scores, v, pos, out, p, tile + sg * CELLS * STRIDE, (group.x * SIMDGROUPS + sg) * ROWS,        \
                        group.y * CHANNELS, group.z, lane);                                                            \
    }

PARALLEL(f32, float)
PARALLEL(f16, half)
