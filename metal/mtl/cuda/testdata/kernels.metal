#include <metal_stdlib>
using namespace metal;

// An elementwise kernel on a ragged grid.
kernel void scale_add(device const float *x [[buffer(0)]], device const float *y [[buffer(1)]],
                      device float *out [[buffer(2)]], constant float &scale [[buffer(3)]],
                      uint i [[thread_position_in_grid]]) {
  out[i] = x[i] * scale + y[i];
}

struct norm_args {
  uint n;
  float eps;
};

// Root mean square norm of a row by one threadgroup, with a second weight pass.
kernel void rms_norm(device const float4 *x [[buffer(0)]], device const float4 *w [[buffer(1)]],
                     device float4 *out [[buffer(2)]], constant norm_args &args [[buffer(3)]],
                     uint row [[threadgroup_position_in_grid]], uint tid [[thread_position_in_threadgroup]],
                     uint sg [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                     uint n_sg [[simdgroups_per_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup float partial[32];
  const uint n4 = args.n / 4;
  device const float4 *xr = x + row * n4;
  float sum = 0.0f;
  for (uint i = tid; i < n4; i += threads) {
    sum += dot(xr[i], xr[i]);
  }
  sum = simd_sum(sum);
  if (sg == 0) {
    partial[lane] = 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) {
    partial[sg] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = simd_sum(partial[lane]);
  const float scale = 1.0f / sqrt(sum / float(args.n) + args.eps);
  device float4 *or_ = out + row * n4;
  for (uint i = tid; i < n4; i += threads) {
    or_[i] = xr[i] * scale * w[i];
  }
}

struct block_q4_0 {
  half d;
  uchar qs[16];
};

struct mv_args {
  uint rows;
  uint blocks; // of a row
};

// q4_0 matrix times vector: a simdgroup computes two rows, its lanes take blocks.
kernel void mul_mv_q4_0(device const block_q4_0 *w [[buffer(0)]], device const float *x [[buffer(1)]],
                        device float *out [[buffer(2)]], constant mv_args &args [[buffer(3)]],
                        uint tg [[threadgroup_position_in_grid]], uint sg [[simdgroup_index_in_threadgroup]],
                        uint n_sg [[simdgroups_per_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  const uint first = (tg * n_sg + sg) * 2;
  if (first >= args.rows) {
    return;
  }
  float acc[2] = {0.0f, 0.0f};
  for (uint b = lane; b < args.blocks; b += 32) {
    device const float *xb = x + b * 32;
    float sum = 0.0f;
    float lo[16], hi[16];
    for (uint i = 0; i < 16; i++) {
      lo[i] = xb[i];
      hi[i] = xb[i + 16];
      sum += lo[i] + hi[i];
    }
    for (uint r = 0; r < 2; r++) {
      if (first + r < args.rows) {
        device const block_q4_0 &q = w[(first + r) * args.blocks + b];
        float dot = 0.0f;
        for (uint i = 0; i < 16; i++) {
          const uchar v = q.qs[i];
          dot += lo[i] * float(v & 0xf) + hi[i] * float(v >> 4);
        }
        acc[r] += float(q.d) * (dot - 8.0f * sum);
      }
    }
  }
  for (uint r = 0; r < 2; r++) {
    const float s = simd_sum(acc[r]);
    if (lane == 0 && first + r < args.rows) {
      out[first + r] = s;
    }
  }
}
