#include <metal_stdlib>
using namespace metal;

// Lanes that leave loops and blocks at different times while the others go on
// with simdgroup functions.
kernel void divergence(device const uint *in [[buffer(0)]], device uint *out [[buffer(1)]],
                       uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const uint x = in[i];
  uint acc = 1;
  out[i] = 0xdead;
  if ((x & 0xf0000000) == 0x50000000) {
    return;
  }
  for (uint k = 0; k < 12; k++) {
    if ((x >> k) & 1) {
      if (k > 6 && ((x >> 20) & 1)) {
        break;
      }
      if (k > 8 && ((x >> 21) & 7) == 3) {
        out[i] = acc;
        return;
      }
      acc += simd_sum(x ^ k);
      continue;
    }
    acc = acc * 31 + simd_sum(k + lane);
    for (uint j = 0;; j++) {
      acc += simd_max((x >> j) & 15) + simd_or(1u << (j & 31));
      if (((x >> (12 + j)) & 3) == 0 || j > 4) {
        break;
      }
      if (((x >> (13 + j)) & 3) == 2) {
        continue;
      }
      acc ^= simd_sum(j);
    }
    if (simd_all(((x >> k) & 3) != 3)) {
      acc += 7;
      if (acc > 0x10000000) {
        break;
      }
    }
  }
  acc += simd_sum(acc);
  switch (x & 3) {
    case 0:
      acc += simd_min(acc);
      break;
    case 1:
      acc -= simd_sum(1u);
    case 2:
      acc ^= simd_sum(2u) + simd_prefix_exclusive_sum(lane);
      break;
    default:
      acc += simd_shuffle_xor(acc, 0);
  }
  out[i] = acc;
}

// Positions on a ragged three-dimensional grid.
kernel void positions(device uint *out [[buffer(0)]], uint3 at [[thread_position_in_grid]],
                      uint3 n [[threads_per_grid]], uint3 in_tg [[thread_position_in_threadgroup]],
                      uint3 tg [[threadgroup_position_in_grid]], uint3 size [[threads_per_threadgroup]],
                      uint3 full [[dispatch_threads_per_threadgroup]], uint3 groups [[threadgroups_per_grid]],
                      uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                      uint sg [[simdgroup_index_in_threadgroup]], uint n_sg [[simdgroups_per_threadgroup]]) {
  device uint *p = out + 16 * (at.x + n.x * (at.y + n.y * at.z));
  p[0] = in_tg.x | in_tg.y << 8 | in_tg.z << 16;
  p[1] = tg.x | tg.y << 8 | tg.z << 16;
  p[2] = size.x | size.y << 8 | size.z << 16;
  p[3] = full.x | full.y << 8 | full.z << 16;
  p[4] = groups.x | groups.y << 8 | groups.z << 16;
  p[5] = index;
  p[6] = lane;
  p[7] = sg;
  p[8] = n_sg;
  p[9] = simd_sum(1u);
  p[10] = simd_sum(index);
  p[11] = quad_sum(index);
  p[12] = simd_prefix_inclusive_sum(lane * 3);
  p[13] = simd_shuffle_down(index, 3);
  p[14] = simd_shuffle_rotate_up(index, 1);
  p[15] = simd_is_first() ? 1 : 0;
}

// Matrices in all element types, through threadgroup memory.
kernel void matrices(device const half *a [[buffer(0)]], device const half *b [[buffer(1)]],
                     device float *out [[buffer(2)]], threadgroup float *tile [[threadgroup(0)]],
                     uint tg [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_half8x8 ma, mb;
  simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8>(0.25f);
  for (uint k = 0; k < 4; k++) {
    simdgroup_load(ma, a + tg * 256 + k * 8, 32);
    simdgroup_load(mb, b + k * 64, 8, ulong2(0, 0), k & 1);
    simdgroup_multiply_accumulate(acc, ma, mb, acc);
  }
  simdgroup_half8x8 half_acc;
  simdgroup_multiply(half_acc, ma, mb);
  simdgroup_store(acc, tile, 8);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tg * 128 + lane] = tile[lane] + 1.0f;
  out[tg * 128 + 32 + lane] = tile[63 - lane];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_store(half_acc, (threadgroup half *)tile, 8);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tg * 128 + 64 + lane] = float(((threadgroup half *)tile)[lane * 2]);
  out[tg * 128 + 96 + lane] = float(((threadgroup half *)tile)[lane * 2 + 1]);
}

// Ends when x[0] is 1, which nobody makes it while it runs.
kernel void forever(device volatile uint *x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup uint seen;
  while (true) {
    if (tid == 0) {
      seen = x[0];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (seen == 1) {
      break;
    }
    x[1] = simd_sum(tid);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
