// y = W x + bias for one token. W is [out_dim][in_dim].
//
// A threadgroup has one or more simdgroups and the same few rows for all: they take
// the columns in turn, and the first joins their sums, in order. In a simdgroup
// each lane has some columns of each row, so that it reads x once for all rows.
// The rows of the last threadgroup begin before out_dim - rows where they would end
// past the end: of those that the one before it has too, the last one stores nothing.
// Where out_dim is less than the rows of a threadgroup, each has one.
//
// Quants become floats four at a time: seven bits of a byte are put into the mantissa of
// 0.5, as 0.5 + byte / 256, and the products' sum starts at what the halves and the
// type's offset add to it.
#include "common.h"

struct MatMulParams {
    uint in_dim;
    uint out_dim;
    uint tokens;
    uint has_bias; // 0: bias is bound to something else and not read
};

// The rows of a threadgroup.
struct Rows {
    uint first;
    uint from;  // that stores
    uint count; // from first on
};

inline void rows_of(uint rows, uint group, constant MatMulParams &p, thread Rows &at) {
    const bool few = p.out_dim < rows;
    at.from = few ? group : group * rows;
    at.first = few ? group : min(at.from, p.out_dim - rows);
    at.count = few ? 1 : rows;
}

// Joins the sums of N rows, of which LANES lanes have a part each: 16 where the two
// halves of a simdgroup have different rows. In each step a lane gives half of its
// rows to another and takes that one's part of the other half. sums has N * 32 / LANES
// values of each simdgroup.
template <uint N, uint LANES>
inline void store_rows(thread float *s, device const float *bias, device float *y, constant MatMulParams &p, threadgroup float *sums,
                       thread const Rows &at, uint sg, uint sgs, uint lane) {
    uint bit = LANES / 2;
#pragma unroll
    for (uint n = N / 2; n > 0; n /= 2) {
        const bool upper = (lane & bit) != 0;
#pragma unroll
        for (uint r = 0; r < n; r++) {
            const float keep = upper ? s[r + n] : s[r], give = upper ? s[r] : s[r + n];
            s[r] = keep + simd_shuffle_xor(give, ushort(bit));
        }
        bit /= 2;
    }
    float sum = s[0];
#pragma unroll
    for (uint k = LANES / N / 2; k > 0; k /= 2) {
        sum += simd_shuffle_xor(sum, ushort(k));
    }
    const uint each = LANES / N, rows = 32 / each, r = lane / each;
    bool stores = lane % each == 0;
    if (sgs > 1) {
        if (stores) {
            sums[sg * rows + r] = sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        stores = stores && sg == 0;
        if (stores) {
            for (uint i = 1; i < sgs; i++) {
                sum += sums[i * rows + r];
            }
        }
    }
    const uint row = at.first + r;
    if (stores && r < at.count && row >= at.from) {
        y[row] = p.has_bias != 0 ? sum + bias[row] : sum;
    }
}

inline void put4(float4 a, thread float *v) {
    v[0] = a.x;
    v[1] = a.y;
    v[2] = a.z;
    v[3] = a.w;
}

inline float sum4(thread const float *v) { return (v[0] + v[1]) + (v[2] + v[3]); }

// t + (0.5 + b0 / 256) * v[0] + ..., where b0 to b3 are the bytes of w, below 128.
inline float sevens(float t, uint w, thread const float *v) {
    t = fma(as_type<float>(((w << 16) & 0x00ff0000) | 0x3f000000), v[0], t);
    t = fma(as_type<float>(((w << 8) & 0x00ff0000) | 0x3f000000), v[1], t);
    t = fma(as_type<float>((w & 0x00ff0000) | 0x3f000000), v[2], t);
    return fma(as_type<float>(((w >> 8) & 0x00ff0000) | 0x3f000000), v[3], t);
}

// Blocks of 32 of 4 or 5 bits. fields takes the quants of the elements 4j to 4j + 3 and
// 16 + 4j to 16 + 4j + 3, shifted to the top of seven bits.

inline void fours(uint q, thread uint *w) {
    w[0] = (q << 3) & 0x78787878;
    w[1] = (q >> 1) & 0x78787878;
}

// Bit i of lo is the fifth bit of byte i of w[0]: the factor puts it there.
inline void fives(uint q, uint lo, uint hi, thread uint *w) {
    w[0] = ((q << 2) & 0x3c3c3c3c) | (((lo & 15) * 0x08102040) & 0x40404040);
    w[1] = ((q >> 2) & 0x3c3c3c3c) | (((hi & 15) * 0x08102040) & 0x40404040);
}

inline uint two(device const ushort *p) { return uint(p[0]) | uint(p[1]) << 16; }

inline void fields(device const block_q4_1 &b, uint j, thread uint *w) { fours(*(device const uint *)(b.qs + 2 * j), w); }

inline void fields(device const block_q5_0 &b, uint j, thread uint *w) {
    fives(two(b.qs + 2 * j), uint(b.qh[0]) >> (4 * j), uint(b.qh[1]) >> (4 * j), w);
}

inline void fields(device const block_q5_1 &b, uint j, thread uint *w) {
    const uint h = *(device const uint *)b.qh;
    fives(*(device const uint *)(b.qs + 2 * j), h >> (4 * j), h >> (4 * j + 16), w);
}

inline float minimum(device const block_q4_1 &b) { return float(b.m); }
inline float minimum(device const block_q5_0 &b) { return 0.0f; }
inline float minimum(device const block_q5_1 &b) { return float(b.m); }

// Four rows; F is what a field's scale of 1 / F takes back. A type with MINIMUM has it
// for its offset, the others half of their range.
template <typename B, uint U, uint F, bool MINIMUM>
inline void blocks_step(device const B *b, ulong stride, device const float *x, uint j, thread float *sum) {
    float v[8 * U], start[U], low[U];
#pragma unroll
    for (uint u = 0; u < U; u++) {
        put4(load4(x + 256 * u), v + 8 * u);
        put4(load4(x + 256 * u + 16), v + 8 * u + 4);
        const float s = sum4(v + 8 * u) + sum4(v + 8 * u + 4);
        start[u] = s * (MINIMUM ? -0.5f : -0.75f);
        low[u] = s * (1.0f / float(F));
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
#pragma unroll
        for (uint u = 0; u < U; u++) {
            device const B &at = b[8 * u];
            uint w[2];
            fields(at, j, w);
            float t = sevens(start[u], w[0], v + 8 * u);
            t = sevens(t, w[1], v + 8 * u + 4);
            sum[r] += float(at.d) * t;
            if (MINIMUM) {
                sum[r] += minimum(at) * low[u];
            }
        }
        b += stride;
    }
}

template <typename B, uint F, bool MINIMUM>
inline void blocks_single(device const B *w, device const float *x, device const float *bias, device float *y, constant MatMulParams &p,
                          threadgroup float *sums, uint group, uint sg, uint sgs, uint lane) {
    Rows at;
    rows_of(4, group, p, at);
    const uint blocks = p.in_dim / 32, pairs = blocks / 16, mine = lane / 4, j = lane % 4;
    const ulong stride = at.count > 1 ? blocks : 0;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    w += ulong(at.first) * blocks + mine;
    x += mine * 32 + 4 * j;
    for (uint c = sg; c < pairs; c += sgs) {
        blocks_step<B, 2, F, MINIMUM>(w + c * 16, stride, x + c * 512, j, sum);
    }
    for (uint c = 2 * pairs + sg; c < (blocks + 7) / 8; c += sgs) {
        if (c * 8 + mine < blocks) {
            blocks_step<B, 1, F, MINIMUM>(w + c * 8, stride, x + c * 256, j, sum);
        }
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        sum[r] *= float(F);
    }
    store_rows<4, 32>(sum, bias, y, p, sums, at, sg, sgs, lane);
}

inline void put22(float2 a, float2 b, thread float *v) {
    v[0] = a.x;
    v[1] = a.y;
    v[2] = b.x;
    v[3] = b.y;
}

inline float nibbles(float t, uint q, thread const float *v) {
    uint w[2];
    fours(q, w);
    return sevens(sevens(t, w[0], v), w[1], v + 4);
}

// q4_0 of an even number of blocks: two of them are 36 bytes and aligned to 4. Four lanes
// share such a pair. Lane j of them has word j of the second block's quants, and of the
// first block's, which begin in the middle of a word, the bytes 2 + 4j to 5 + 4j; the
// last lane has the four that are left, 0, 1, 14 and 15. So a word takes one load, and
// the two words that have the scales serve for the last lane too.
template <uint R>
inline void nibble_pairs(device const block_q4_0 *w, device const float *x, device const float *bias, device float *y, constant MatMulParams &p,
                         threadgroup float *sums, uint group, uint sg, uint sgs, uint lane) {
    Rows at;
    rows_of(R, group, p, at);
    const uint pairs = p.in_dim / 64, mine = lane / 4, j = lane % 4;
    const ulong stride = at.count > 1 ? pairs * 9 : 0;
    const bool last = j == 3;
    const uint from = last ? 0 : 2 + 4 * j, next = 4 + 4 * j - (last ? 2 : 0);
    float sum[R];
#pragma unroll
    for (uint r = 0; r < R; r++) {
        sum[r] = 0.0f;
    }
    device const uint *b = (device const uint *)w + (at.first * ulong(pairs * 9) + (sg * 8 + mine) * 9);
    x += (sg * 8 + mine) * 64;
    for (uint c = sg; c < (pairs + 7) / 8; c += sgs) {
        if (c * 8 + mine < pairs) {
            float v[8], u[8];
            put22(load2(x + from), load2(x + next), v);
            put22(load2(x + from + 16), load2(x + next + 16), v + 4);
            put4(load4(x + 32 + 4 * j), u);
            put4(load4(x + 48 + 4 * j), u + 4);
            const float startv = -0.75f * (sum4(v) + sum4(v + 4)), startu = -0.75f * (sum4(u) + sum4(u + 4));
            device const uint *row = b;
#pragma unroll
            for (uint r = 0; r < R; r++) {
                const uint first = row[0], middle = row[4], own = row[1 + j], second = row[5 + j];
                const uint q = last ? (first >> 16) | (own << 16) : own;
                sum[r] += float(as_type<half2>(first).x) * nibbles(startv, q, v);
                sum[r] += float(as_type<half2>(middle).y) * nibbles(startu, second, u);
                row += stride;
            }
        }
        b += sgs * 72;
        x += sgs * 512;
    }
#pragma unroll
    for (uint r = 0; r < R; r++) {
        sum[r] *= 32.0f;
    }
    store_rows<R, 32>(sum, bias, y, p, sums, at, sg, sgs, lane);
}

// q8_0: four elements a lane of each of U groups of four blocks, four rows. A byte
// past 128 in the mantissa of 2^23 is that power and 128 too much, without a rounding.
template <uint U>
inline void bytes_step(device const block_q8_0 *b, ulong stride, device const float *x, uint j, thread float *sum) {
    float v[4 * U];
#pragma unroll
    for (uint u = 0; u < U; u++) {
        put4(load4(x + 128 * u), v + 4 * u);
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
#pragma unroll
        for (uint u = 0; u < U; u++) {
            device const block_q8_0 &at = b[4 * u];
            const uint q = two((device const ushort *)(at.qs + 4 * j)) ^ 0x80808080;
            float t = (as_type<float>((q & 255) | 0x4b000000) - (0x1p23f + 128.0f)) * v[4 * u];
            t = fma(as_type<float>(((q >> 8) & 255) | 0x4b000000) - (0x1p23f + 128.0f), v[4 * u + 1], t);
            t = fma(as_type<float>(((q >> 16) & 255) | 0x4b000000) - (0x1p23f + 128.0f), v[4 * u + 2], t);
            t = fma(as_type<float>(((q >> 24) & 255) | 0x4b000000) - (0x1p23f + 128.0f), v[4 * u + 3], t);
            sum[r] += float(at.d) * t;
        }
        b += stride;
    }
}

inline void bytes_single(device const block_q8_0 *w, device const float *x, device const float *bias, device float *y, constant MatMulParams &p,
                         threadgroup float *sums, uint group, uint sg, uint sgs, uint lane) {
    Rows at;
    rows_of(4, group, p, at);
    const uint blocks = p.in_dim / 32, pairs = blocks / 8, mine = lane / 8, j = lane % 8;
    const ulong stride = at.count > 1 ? blocks : 0;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    w += ulong(at.first) * blocks + mine;
    x += mine * 32 + 4 * j;
    for (uint c = sg; c < pairs; c += sgs) {
        bytes_step<2>(w + c * 8, stride, x + c * 256, j, sum);
    }
    for (uint c = 2 * pairs + sg; c < (blocks + 3) / 4; c += sgs) {
        if (c * 4 + mine < blocks) {
            bytes_step<1>(w + c * 4, stride, x + c * 128, j, sum);
        }
    }
    store_rows<4, 32>(sum, bias, y, p, sums, at, sg, sgs, lane);
}

// q4_K and q5_K: 8 lanes to a block. Of two PARTS the upper 16 lanes have the second half
// of the rows, which are 2N, and two blocks are taken at a time; of one, N rows and four
// blocks. A lane has half of the 32 bytes of a pair of groups, in an order by its pair: so
// lanes that read x together read different banks.

inline void fields(device const block_q4_K &b, uint pair, uint at, thread uint *w) {
    fours(*(device const uint *)((device const uchar *)b.qs + 32 * pair + at), w);
}

inline void fields(device const block_q5_K &b, uint pair, uint at, thread uint *w) {
    const uint q = *(device const uint *)((device const uchar *)b.qs + 32 * pair + at);
    const uint h = *(device const uint *)((device const uchar *)b.qh + at) >> (2 * pair);
    w[0] = ((q << 2) & 0x3c3c3c3c) | ((h << 6) & 0x40404040);
    w[1] = ((q >> 2) & 0x3c3c3c3c) | ((h << 5) & 0x40404040);
}

template <typename B, uint N, uint PARTS, uint F>
inline void pairs_single(device const B *w, device const float *x, device const float *bias, device float *y, constant MatMulParams &p,
                         threadgroup float *sums, uint group, uint sg, uint sgs, uint lane) {
    Rows at;
    rows_of(PARTS * N, group, p, at);
    constexpr uint LANES = 32 / PARTS, STEP = LANES / 8;
    const uint blocks = p.in_dim / 256, mine = lane % LANES / 8, pair = lane % 8 / 2, h = lane % 2;
    const ulong stride = at.count > 1 ? blocks : 0;
    // Scales are those of the low 6 bits of bytes for the first two pairs, else of parts.
    const bool parts = pair >= 2;
    const uint shift = pair % 2 * 16, whole = parts ? 0x0f0f0f0f : 0x3f3f3f3f, top = parts ? 0x30303030 : 0;
    uint order[4];
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        order[i] = 16 * h + 4 * ((i + pair) % 4);
    }
    float sum[N];
#pragma unroll
    for (uint r = 0; r < N; r++) {
        sum[r] = 0.0f;
    }
    w += (at.first * ulong(blocks) + lane / LANES * N * stride) + mine;
    x += mine * 256 + pair * 64;
    for (uint c = sg; c < (blocks + STEP - 1) / STEP; c += sgs) {
        if (c * STEP + mine < blocks) {
            device const B *b = w + c * STEP;
            float v[16], u[16], sv = 0.0f, su = 0.0f;
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                put4(load4(x + c * STEP * 256 + order[i]), v + 4 * i);
                put4(load4(x + c * STEP * 256 + order[i] + 32), u + 4 * i);
                sv += sum4(v + 4 * i);
                su += sum4(u + 4 * i);
            }
            const float startv = -0.5f * sv, startu = -0.5f * su, lowv = sv * (1.0f / float(F)), lowu = su * (1.0f / float(F));
#pragma unroll
            for (uint r = 0; r < N; r++) {
                const uint4 head = *(device const uint4 *)b;
                const uint sc = (((parts ? head.w : head.y) & whole) | ((head.y >> 2) & top)) >> shift;
                const uint mn = (((parts ? head.w >> 4 : head.z) & whole) | ((head.z >> 2) & top)) >> shift;
                float tv = startv, tu = startu;
#pragma unroll
                for (uint i = 0; i < 4; i++) {
                    uint q[2];
                    fields(b[0], pair, order[i], q);
                    tv = sevens(tv, q[0], v + 4 * i);
                    tu = sevens(tu, q[1], u + 4 * i);
                }
                const half2 d = as_type<half2>(head.x);
                sum[r] += float(d.x) * (float(sc & 255) * tv + float((sc >> 8) & 255) * tu);
                sum[r] -= float(d.y) * (float(mn & 255) * lowv + float((mn >> 8) & 255) * lowu);
                b += stride;
            }
        }
    }
#pragma unroll
    for (uint r = 0; r < N; r++) {
        sum[r] *= float(F);
    }
    store_rows<N, LANES>(sum, bias, y, p, sums, at, sg, sgs, lane);
}

// q6_K: 16 lanes to a block, two blocks and four rows at a time. A lane has the elements 4j
// to 4j + 3 of each of the four 32 of its half of the block.
inline void sixes_single(device const block_q6_K *w, device const float *x, device const float *bias, device float *y, constant MatMulParams &p,
                         threadgroup float *sums, uint group, uint sg, uint sgs, uint lane) {
    Rows at;
    rows_of(4, group, p, at);
    const uint blocks = p.in_dim / 256, mine = lane / 16, part = lane % 16 / 8, j = lane % 8;
    const ulong stride = at.count > 1 ? blocks : 0;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    w += ulong(at.first) * blocks + mine;
    x += mine * 256 + part * 128 + 4 * j;
    for (uint c = sg; c < (blocks + 1) / 2; c += sgs) {
        if (c * 2 + mine < blocks) {
            device const block_q6_K *b = w + c * 2;
            float v[16], start[4];
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                put4(load4(x + c * 512 + 32 * i), v + 4 * i);
                start[i] = -0.75f * sum4(v + 4 * i);
            }
#pragma unroll
            for (uint r = 0; r < 4; r++) {
                device const char *scales = b->scales + 8 * part + j / 4;
                const uint lo = two(b->ql + 32 * part + 2 * j), hi = two(b->ql + 32 * part + 16 + 2 * j), h = two(b->qh + 16 * part + 2 * j);
                float t = float(scales[0]) * sevens(start[0], ((lo << 1) & 0x1e1e1e1e) | ((h << 5) & 0x60606060), v);
                t += float(scales[2]) * sevens(start[1], ((hi << 1) & 0x1e1e1e1e) | ((h << 3) & 0x60606060), v + 4);
                t += float(scales[4]) * sevens(start[2], ((lo >> 3) & 0x1e1e1e1e) | ((h << 1) & 0x60606060), v + 8);
                t += float(scales[6]) * sevens(start[3], ((hi >> 3) & 0x1e1e1e1e) | ((h >> 1) & 0x60606060), v + 12);
                sum[r] += float(b->d) * t;
                b += stride;
            }
        }
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
        sum[r] *= 128.0f;
    }
    store_rows<4, 32>(sum, bias, y, p, sums, at, sg, sgs, lane);
}

// Types without blocks: U float4 a lane, two rows.
template <typename T, uint U>
inline void plain_step(device const T *row, ulong stride, device const float *x, thread float *sum) {
    float4 v[U];
#pragma unroll
    for (uint u = 0; u < U; u++) {
        v[u] = load4(x + 128 * u);
    }
#pragma unroll
    for (uint r = 0; r < 2; r++) {
#pragma unroll
        for (uint u = 0; u < U; u++) {
            sum[r] += dot(load4(row + 128 * u), v[u]);
        }
        row += stride;
    }
}

template <typename T>
inline void plain_single(device const T *w, device const float *x, device const float *bias, device float *y, constant MatMulParams &p,
                         threadgroup float *sums, uint group, uint sg, uint sgs, uint lane) {
    Rows at;
    rows_of(2, group, p, at);
    const ulong stride = at.count > 1 ? p.in_dim : 0;
    float sum[2] = {0.0f, 0.0f};
    w += ulong(at.first) * p.in_dim;
    uint done = 0;
    if (p.in_dim % 4 == 0) {
        const uint pairs = p.in_dim / 256, vectors = p.in_dim / 128;
        for (uint c = sg; c < pairs; c += sgs) {
            plain_step<T, 2>(w + c * 256 + lane * 4, stride, x + c * 256 + lane * 4, sum);
        }
        for (uint c = 2 * pairs + sg; c < vectors; c += sgs) {
            plain_step<T, 1>(w + c * 128 + lane * 4, stride, x + c * 128 + lane * 4, sum);
        }
        done = vectors * 128;
    }
    for (uint i = done + sg * 32 + lane; i < p.in_dim; i += 32 * sgs) {
        const float v = x[i];
        sum[0] += to_float(w[i]) * v;
        sum[1] += to_float(w[i + stride]) * v;
    }
    store_rows<2, 32>(sum, bias, y, p, sums, at, sg, sgs, lane);
}

// The most simdgroups of a threadgroup: singleSimdgroups of metal/matmul.go.
#define SINGLE_SIMDGROUPS 8

#define MUL_MV_OF(attributes, name, tier, type, rows, call)                              \
    attributes kernel void kernel_mul_mat_##name##_##tier(device const type *w [[buffer(0)]],    \
                                                          device const float *x [[buffer(1)]],   \
                                                          device const float *bias [[buffer(2)]], \
                                                          device float *y [[buffer(3)]],         \
                                                          constant MatMulParams &p [[buffer(4)]], \
                                                          uint group [[threadgroup_position_in_grid]], \
                                                          uint sg [[simdgroup_index_in_threadgroup]],  \
                                                          uint sgs [[simdgroups_per_threadgroup]],     \
                                                          uint lane [[thread_index_in_simdgroup]]) {   \
        threadgroup float sums[SINGLE_SIMDGROUPS * rows];                                \
        call(w, x, bias, y, p, sums, group, sg, sgs, lane);                              \
    }
#define MUL_MV(name, tier, type, rows, call) MUL_MV_OF(, name, tier, type, rows, call)
// The limit of threads is for a device whose register file is shared by as many threads as
// it has room for: it says how many simdgroups should be under way at once.
#define MUL_MV_LIMIT(threads, name, tier, type, rows, call) MUL_MV_OF([[max_total_threads_per_threadgroup(threads)]], name, tier, type, rows, call)

MUL_MV(f32, single, float, 2, plain_single<float>)
MUL_MV(f16, single, half, 2, plain_single<half>)
MUL_MV(bf16, single, ushort, 2, plain_single<ushort>)
MUL_MV(q4_0, single, block_q4_0, 8, nibble_pairs<8>)
MUL_MV(q4_0, few, block_q4_0, 4, nibble_pairs<4>)
MUL_MV(q4_1, single, block_q4_1, 4, (blocks_single<block_q4_1, 32, true>))
MUL_MV(q5_0, single, block_q5_0, 4, (blocks_single<block_q5_0, 64, false>))
MUL_MV(q5_1, single, block_q5_1, 4, (blocks_single<block_q5_1, 64, true>))
MUL_MV(q8_0, single, block_q8_0, 4, bytes_single)
MUL_MV_LIMIT(576, q4_k, single, block_q4_K, 8, (pairs_single<block_q4_K, 4, 2, 32>))
MUL_MV_LIMIT(576, q4_k, few, block_q4_K, 4, (pairs_single<block_q4_K, 4, 1, 32>))
MUL_MV_LIMIT(576, q5_k, single, block_q5_K, 8, (pairs_single<block_q5_K, 4, 2, 64>))
MUL_MV_LIMIT(576, q6_k, single, block_q6_K, 4, sixes_single)
