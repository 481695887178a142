// Weight types: their blocks, and how lanes take values out of them. The layouts
// are in docs/numerics.md, section 3.
//
// A matrix's blocks follow each other without gaps from a multiple of 16 bytes on. Types of
// 18, 22, 34 and 210 bytes a block are therefore aligned to 2 bytes and read as ushort,
// whose low byte comes first in memory, and two of 18 as uint where rows have an even
// number; those of 20 and 24 may be read as uint, and those of 144 and 176 as uint4.
#ifndef MINFER_COMMON_H
#define MINFER_COMMON_H

#include <metal_stdlib>

using namespace metal;

struct block_q4_0 {
    half d;
    ushort qs[8];
};

struct block_q4_1 {
    half d;
    half m;
    ushort qs[8];
};

struct block_q5_0 {
    half d;
    ushort qh[2];
    ushort qs[8];
};

struct block_q5_1 {
    half d;
    half m;
    ushort qh[2];
    ushort qs[8];
};

struct block_q8_0 {
    half d;
    char qs[32];
};

struct block_q4_K {
    half d;
    half dmin;
    ushort scales[6];
    ushort qs[64];
};

struct block_q5_K {
    half d;
    half dmin;
    ushort scales[6];
    ushort qh[16];
    ushort qs[64];
};

struct block_q6_K {
    ushort ql[64];
    ushort qh[32];
    char scales[16];
    half d;
};

// A ushort is a bf16: the upper half of a float.
inline float to_float(float x) { return x; }
inline float to_float(half x) { return float(x); }
inline float to_float(ushort x) { return as_type<float>(uint(x) << 16); }

// Four values from a pointer that is aligned to four of them.
inline float4 load4(device const float *x) { return *(device const float4 *)x; }
inline float4 load4(device const half *x) { return float4(*(device const half4 *)x); }
inline float4 load4(device const ushort *x) {
    const ushort4 v = *(device const ushort4 *)x;
    return float4(to_float(v.x), to_float(v.y), to_float(v.z), to_float(v.w));
}

// Two values from a pointer that is aligned to two of them.
inline float2 load2(device const float *x) { return *(device const float2 *)x; }

// The 6-bit scales and minima of the groups 2*pair and 2*pair + 1 of a q4_K or q5_K
// block, the even group's in the low byte.
inline void pair_scales(device const ushort *s, uint pair, thread uint &sc, thread uint &mn) {
    const uint i = pair & 1;
    const uint a = s[i], b = s[2 + i], c = s[4 + i];
    sc = pair < 2 ? (a & 0x3f3f) : ((c & 0x0f0f) | ((a & 0xc0c0) >> 2));
    mn = pair < 2 ? (b & 0x3f3f) : (((c >> 4) & 0x0f0f) | ((b & 0xc0c0) >> 2));
}

// load16 takes the quants of two runs of eight elements out of a block: q[0..7] and
// q[8..15]. An element of run r is fma(d[r], q, m[r]). Runs that share bytes come
// together, so that no byte is read twice: with D elements from the first run to
// the second,
//
//     first run of part = part / (D/8) * 2*D + part % (D/8) * 8
//
// where D is 16 for q4_0, q4_1, q5_0 and q5_1, 8 for q8_0, 32 for q4_K and q5_K, 64
// for q6_K. There are 2 parts to a block of 32 and 16 to one of 256.

inline void nibbles16(device const ushort *qs, thread float *q) {
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = qs[i];
        q[2 * i] = float(v & 15);
        q[2 * i + 1] = float((v >> 8) & 15);
        q[2 * i + 8] = float((v >> 4) & 15);
        q[2 * i + 9] = float(v >> 12);
    }
}

// Fifth bits: bit j of lo belongs to q[j], bit j of hi to q[8 + j].
inline void fives16(device const ushort *qs, int lo, int hi, thread float *q) {
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = qs[i];
        q[2 * i] = float((v & 15) | (((lo << 4) >> (2 * i)) & 16));
        q[2 * i + 1] = float(((v >> 8) & 15) | (((lo << 4) >> (2 * i + 1)) & 16));
        q[2 * i + 8] = float(((v >> 4) & 15) | (((hi << 4) >> (2 * i)) & 16));
        q[2 * i + 9] = float((v >> 12) | (((hi << 4) >> (2 * i + 1)) & 16));
    }
}

// Eight signed bytes, in pairs.
inline void bytes(device const char *qs, thread float *q) {
    device const ushort *pairs = (device const ushort *)qs;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = short(pairs[i]);
        q[2 * i] = float(char(v));
        q[2 * i + 1] = float(v >> 8);
    }
}

inline void load16(device const block_q4_0 &b, uint part, thread float *q, thread float *d, thread float *m) {
    nibbles16(b.qs + 4 * part, q);
    d[0] = d[1] = float(b.d);
    m[0] = m[1] = -8.0f * d[0];
}

inline void load16(device const block_q4_1 &b, uint part, thread float *q, thread float *d, thread float *m) {
    nibbles16(b.qs + 4 * part, q);
    d[0] = d[1] = float(b.d);
    m[0] = m[1] = float(b.m);
}

inline void load16(device const block_q5_0 &b, uint part, thread float *q, thread float *d, thread float *m) {
    fives16(b.qs + 4 * part, b.qh[0] >> (8 * part), b.qh[1] >> (8 * part), q);
    d[0] = d[1] = float(b.d);
    m[0] = m[1] = -16.0f * d[0];
}

inline void load16(device const block_q5_1 &b, uint part, thread float *q, thread float *d, thread float *m) {
    fives16(b.qs + 4 * part, b.qh[0] >> (8 * part), b.qh[1] >> (8 * part), q);
    d[0] = d[1] = float(b.d);
    m[0] = m[1] = float(b.m);
}

inline void load16(device const block_q8_0 &b, uint part, thread float *q, thread float *d, thread float *m) {
    bytes(b.qs + 16 * part, q);
    bytes(b.qs + 16 * part + 8, q + 8);
    d[0] = d[1] = float(b.d);
    m[0] = m[1] = 0.0f;
}

inline void load16(device const block_q4_K &b, uint part, thread float *q, thread float *d, thread float *m) {
    nibbles16(b.qs + 4 * part, q);
    uint sc, mn;
    pair_scales(b.scales, part / 4, sc, mn);
    const float scale = float(b.d), low = -float(b.dmin);
    d[0] = scale * float(sc & 63);
    d[1] = scale * float(sc >> 8);
    m[0] = low * float(mn & 63);
    m[1] = low * float(mn >> 8);
}

inline void load16(device const block_q5_K &b, uint part, thread float *q, thread float *d, thread float *m) {
    const uint pair = part / 4;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = b.qs[4 * part + i];
        const int h = b.qh[part % 4 * 4 + i] >> (2 * pair);
        q[2 * i] = float((v & 15) | ((h << 4) & 16));
        q[2 * i + 1] = float(((v >> 8) & 15) | ((h >> 4) & 16));
        q[2 * i + 8] = float(((v >> 4) & 15) | ((h << 3) & 16));
        q[2 * i + 9] = float((v >> 12) | ((h >> 5) & 16));
    }
    uint sc, mn;
    pair_scales(b.scales, pair, sc, mn);
    const float scale = float(b.d), low = -float(b.dmin);
    d[0] = scale * float(sc & 63);
    d[1] = scale * float(sc >> 8);
    m[0] = low * float(mn & 63);
    m[1] = low * float(mn >> 8);
}

inline void load16(device const block_q6_K &b, uint part, thread float *q, thread float *d, thread float *m) {
    const uint odd = part / 4 % 2; // 32 elements further on: the next two bits of qh
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = b.ql[4 * part + i];
        const int h = b.qh[part / 8 * 16 + part % 4 * 4 + i] >> (2 * odd);
        q[2 * i] = float((v & 15) | ((h << 4) & 48));
        q[2 * i + 1] = float(((v >> 8) & 15) | ((h >> 4) & 48));
        q[2 * i + 8] = float(((v >> 4) & 15) | (h & 48));
        q[2 * i + 9] = float((v >> 12) | ((h >> 8) & 48));
    }
    const float scale = float(b.d);
    const uint group = part / 8 * 8 + part % 8 / 2;
    d[0] = scale * float(b.scales[group]);
    d[1] = scale * float(b.scales[group + 4]);
    m[0] = -32.0f * d[0];
    m[1] = -32.0f * d[1];
}

// load8 takes the quants of the elements 8*j to 8*j + 7 out of a block; the values
// are fma(d, q, m).

inline void nibbles8(device const ushort *qs, uint shift, thread float *q) {
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = qs[i] >> shift;
        q[2 * i] = float(v & 15);
        q[2 * i + 1] = float((v >> 8) & 15);
    }
}

inline void fives8(device const ushort *qs, uint shift, int bits, thread float *q) {
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = qs[i] >> shift;
        q[2 * i] = float((v & 15) | (((bits << 4) >> (2 * i)) & 16));
        q[2 * i + 1] = float(((v >> 8) & 15) | (((bits << 4) >> (2 * i + 1)) & 16));
    }
}

inline void load8(device const block_q4_0 &b, uint j, thread float *q, thread float &d, thread float &m) {
    nibbles8(b.qs + j % 2 * 4, j / 2 * 4, q);
    d = float(b.d);
    m = -8.0f * d;
}

inline void load8(device const block_q4_1 &b, uint j, thread float *q, thread float &d, thread float &m) {
    nibbles8(b.qs + j % 2 * 4, j / 2 * 4, q);
    d = float(b.d);
    m = float(b.m);
}

inline void load8(device const block_q5_0 &b, uint j, thread float *q, thread float &d, thread float &m) {
    fives8(b.qs + j % 2 * 4, j / 2 * 4, b.qh[j / 2] >> (j % 2 * 8), q);
    d = float(b.d);
    m = -16.0f * d;
}

inline void load8(device const block_q5_1 &b, uint j, thread float *q, thread float &d, thread float &m) {
    fives8(b.qs + j % 2 * 4, j / 2 * 4, b.qh[j / 2] >> (j % 2 * 8), q);
    d = float(b.d);
    m = float(b.m);
}

inline void load8(device const block_q8_0 &b, uint j, thread float *q, thread float &d, thread float &m) {
    bytes(b.qs + 8 * j, q);
    d = float(b.d);
    m = 0.0f;
}

inline void load8(device const block_q4_K &b, uint j, thread float *q, thread float &d, thread float &m) {
    const uint group = j / 4, odd = group % 2;
    nibbles8(b.qs + group / 2 * 16 + j % 4 * 4, 4 * odd, q);
    uint sc, mn;
    pair_scales(b.scales, group / 2, sc, mn);
    d = float(b.d) * float((sc >> (8 * odd)) & 63);
    m = -float(b.dmin) * float((mn >> (8 * odd)) & 63);
}

inline void load8(device const block_q5_K &b, uint j, thread float *q, thread float &d, thread float &m) {
    const uint group = j / 4, odd = group % 2;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = b.qs[group / 2 * 16 + j % 4 * 4 + i] >> (4 * odd);
        const int h = b.qh[j % 4 * 4 + i] >> group;
        q[2 * i] = float((v & 15) | ((h << 4) & 16));
        q[2 * i + 1] = float(((v >> 8) & 15) | ((h >> 4) & 16));
    }
    uint sc, mn;
    pair_scales(b.scales, group / 2, sc, mn);
    d = float(b.d) * float((sc >> (8 * odd)) & 63);
    m = -float(b.dmin) * float((mn >> (8 * odd)) & 63);
}

inline void load8(device const block_q6_K &b, uint j, thread float *q, thread float &d, thread float &m) {
    const uint r = j / 4 % 4; // which 32 of the half's 128 elements
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const int v = b.ql[j / 16 * 32 + r % 2 * 16 + j % 4 * 4 + i] >> (r / 2 * 4);
        const int h = b.qh[j / 16 * 16 + j % 4 * 4 + i] >> (2 * r);
        q[2 * i] = float((v & 15) | ((h << 4) & 48));
        q[2 * i + 1] = float(((v >> 8) & 15) | ((h >> 4) & 48));
    }
    d = float(b.d) * float(b.scales[j / 2]);
    m = -32.0f * d;
}

#endif
