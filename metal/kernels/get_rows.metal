// Rows of a table by id, as float. An id outside the table gives a row of zeros: the
// backend refuses none on the host, which never reads ids.
#include "common.h"

struct GetRowsParams {
    uint cols;
    uint rows; // of the table
};

// One thread an element.
template <typename T>
inline void get_rows_plain(device const T *table, device const int *ids, device float *y, constant GetRowsParams &p, uint2 at) {
    const uint id = uint(ids[at.y]);
    float v = 0.0f;
    if (id < p.rows) {
        v = to_float(table[ulong(id) * p.cols + at.x]);
    }
    y[at.y * p.cols + at.x] = v;
}

// One thread eight elements, of a block of E.
template <typename B, uint E>
inline void get_rows_quantized(device const B *table, device const int *ids, device float *y, constant GetRowsParams &p, uint2 at) {
    const uint id = uint(ids[at.y]);
    float q[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    float d = 0.0f, m = 0.0f;
    if (id < p.rows) {
        load8(table[ulong(id) * (p.cols / E) + at.x / (E / 8)], at.x % (E / 8), q, d, m);
    }
    device float *out = y + at.y * p.cols + at.x * 8;
#pragma unroll
    for (uint i = 0; i < 8; i++) {
        out[i] = fma(d, q[i], m);
    }
}

#define GET_ROWS(name, type, call)                                        \
    kernel void kernel_get_rows_##name(device const type *table [[buffer(0)]],  \
                                       device const int *ids [[buffer(1)]],     \
                                       device float *y [[buffer(2)]],           \
                                       constant GetRowsParams &p [[buffer(3)]], \
                                       uint2 at [[thread_position_in_grid]]) {  \
        call(table, ids, y, p, at);                                             \
    }

GET_ROWS(f32, float, get_rows_plain<float>)
GET_ROWS(f16, half, get_rows_plain<half>)
GET_ROWS(bf16, ushort, get_rows_plain<ushort>)
GET_ROWS(q4_0, block_q4_0, (get_rows_quantized<block_q4_0, 32>))
GET_ROWS(q4_1, block_q4_1, (get_rows_quantized<block_q4_1, 32>))
GET_ROWS(q5_0, block_q5_0, (get_rows_quantized<block_q5_0, 32>))
GET_ROWS(q5_1, block_q5_1, (get_rows_quantized<block_q5_1, 32>))
GET_ROWS(q8_0, block_q8_0, (get_rows_quantized<block_q8_0, 32>))
GET_ROWS(q4_k, block_q4_K, (get_rows_quantized<block_q4_K, 256>))
GET_ROWS(q5_k, block_q5_K, (get_rows_quantized<block_q5_K, 256>))
GET_ROWS(q6_k, block_q6_K, (get_rows_quantized<block_q6_K, 256>))
