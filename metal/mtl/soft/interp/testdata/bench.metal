#include <metal_stdlib>
using namespace metal;

// The kernels that the benchmarks run, in the usual GPU shape.

struct block_q4_0 {
    half  d;
    uchar qs[16];
};

constant constexpr uint NR = 4;

// Two simdgroups of 32, four rows each; half a block for each lane.
kernel void q4_0_matvec(device const block_q4_0 *x [[buffer(0)]],
                        device const float      *y [[buffer(1)]],
                        device float            *dst [[buffer(2)]],
                        constant uint           &cols [[buffer(3)]],
                        constant uint           &rows [[buffer(4)]],
                        uint tg [[threadgroup_position_in_grid]],
                        uint sg [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    const uint nb = cols / 32;
    const uint first = (tg * 2 + sg) * NR;
    const uint ix = lane / 2, il = (lane % 2) * 8;
    float yl[16];
    float sum[NR] = {0.f};
    device const float *yb = y + ix * 32 + il;
    for (uint ib = ix; ib < nb; ib += 16) {
        float sumy = 0.f;
        for (uint i = 0; i < 8; i += 2) {
            sumy += yb[i] + yb[i + 1] + yb[i + 16] + yb[i + 17];
            yl[i] = yb[i];
            yl[i + 1] = yb[i + 1] / 256.f;
            yl[i + 8] = yb[i + 16] / 16.f;
            yl[i + 9] = yb[i + 17] / 4096.f;
        }
        for (uint row = 0; row < NR; row++) {
            device const block_q4_0 *b = x + (first + row) * nb + ib;
            device const ushort *qs = (device const ushort *)(b->qs) + il / 2;
            float4 a = 0.f;
            for (uint i = 0; i < 8; i += 2) {
                a[0] += yl[i] * (qs[i / 2] & 0x000F);
                a[1] += yl[i + 1] * (qs[i / 2] & 0x0F00);
                a[2] += yl[i + 8] * (qs[i / 2] & 0x00F0);
                a[3] += yl[i + 9] * (qs[i / 2] & 0xF000);
            }
            sum[row] += float(b->d) * (sumy * -8.f + a[0] + a[1] + a[2] + a[3]);
        }
        yb += 16 * 32;
    }
    for (uint row = 0; row < NR; row++) {
        const float total = simd_sum(sum[row]);
        if (lane == 0 && first + row < rows) {
            dst[first + row] = total;
        }
    }
}

// One threadgroup of 256 threads a row.
kernel void rms_norm(device const float *x [[buffer(0)]],
                     device const float *w [[buffer(1)]],
                     device float       *dst [[buffer(2)]],
                     constant uint      &cols [[buffer(3)]],
                     uint row [[threadgroup_position_in_grid]],
                     uint t [[thread_index_in_threadgroup]],
                     uint n [[threads_per_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float part[32];
    device const float *px = x + row * cols;
    float s = 0.f;
    for (uint i = t; i < cols; i += n) {
        s += px[i] * px[i];
    }
    s = simd_sum(s);
    if (lane == 0) {
        part[sg] = s;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    s = simd_sum(lane < n / 32 ? part[lane] : 0.f);
    const float scale = rsqrt(s / float(cols) + 1e-6f);
    for (uint i = t; i < cols; i += n) {
        dst[row * cols + i] = px[i] * scale * w[i];
    }
}

// C (m x n) = A (m x k) B (k x n): tiles of 64x32 by four simdgroups.
kernel void gemm(device const float *a [[buffer(0)]],
                 device const float *b [[buffer(1)]],
                 device float       *c [[buffer(2)]],
                 constant uint      &n [[buffer(3)]],
                 constant uint      &k [[buffer(4)]],
                 uint2 tg [[threadgroup_position_in_grid]],
                 uint t [[thread_index_in_threadgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup float sa[64 * 32];
    threadgroup float sb[32 * 32];
    simdgroup_float8x8 acc[8];
    for (uint i = 0; i < 8; i++) {
        acc[i] = make_filled_simdgroup_matrix<float, 8>(0.f);
    }
    const uint tm = tg.y * 64, tn = tg.x * 32;
    const uint sm = (sg / 2) * 32, sn = (sg % 2) * 16;
    const uint row = t / 8, quad = (t % 8) * 4;
    for (uint k0 = 0; k0 < k; k0 += 32) {
        for (uint r = row; r < 64; r += 16) {
            *(threadgroup float4 *)(sa + r * 32 + quad) = *(device const float4 *)(a + (tm + r) * k + k0 + quad);
        }
        for (uint r = row; r < 32; r += 16) {
            *(threadgroup float4 *)(sb + r * 32 + quad) = *(device const float4 *)(b + (k0 + r) * n + tn + quad);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint ks = 0; ks < 32; ks += 8) {
            simdgroup_float8x8 ma[4], mb[2];
#pragma unroll
            for (uint i = 0; i < 4; i++) {
                simdgroup_load(ma[i], sa + (sm + i * 8) * 32 + ks, 32);
            }
#pragma unroll
            for (uint j = 0; j < 2; j++) {
                simdgroup_load(mb[j], sb + ks * 32 + sn + j * 8, 32);
            }
#pragma unroll
            for (uint i = 0; i < 8; i++) {
                simdgroup_multiply_accumulate(acc[i], ma[i / 2], mb[i % 2], acc[i]);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
#pragma unroll
    for (uint i = 0; i < 8; i++) {
        simdgroup_store(acc[i], c + (tm + sm + i / 2 * 8) * n + tn + sn + i % 2 * 8, n);
    }
}
