#include <metal_stdlib>
using namespace metal;

constant uint squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
constant char signs[4] = {-1, 2, -3, 4};

struct odd {
  uchar tag;
  packed_float3 v;
  half h;
  bool flag;
  ushort3 w;
};

// Widths and alignments: vectors, packed vectors, structs, bytes, bools.
kernel void layouts(device const uchar *in [[buffer(0)]], device odd *odds [[buffer(1)]],
                    device uint4 *out [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  device const uchar *p = in + i * 64;
  const float4 f4 = *(device const float4 *)p;
  const half4 h4 = *(device const half4 *)(p + 8);
  const uchar4 u4 = *(device const uchar4 *)(p + 20);
  const packed_float3 p3 = *(device const packed_float3 *)(p + 28);
  const short3 s3 = *(device const short3 *)(p + 40);
  const ulong l = *(device const ulong *)(p + 48);
  const char3 c3 = *(device const char3 *)(p + 60);
  odd o = odds[i];
  o.tag += u4.x;
  o.v = packed_float3(float(o.v.x), float(p3.y), float(o.v.z));
  o.h = half(o.w.y);
  o.flag = !o.flag;
  o.w.zx = o.w.xz;
  odds[i] = o;
  uint4 r;
  r.x = as_type<uint>(f4.x) ^ as_type<uint>(f4.w) ^ uint(as_type<ushort>(h4.y));
  r.y = uint(u4.y) << 8 | uint(u4.w) | uint(s3.z) << 16;
  r.z = as_type<uint>(float(p3.z)) + uint(l >> 32) * 3 + uint(l);
  r.w = uint(c3.x + c3.y * c3.z) + signs[i & 3] + squares[(i + u4.z) & 7];
  out[i] = r;
}

// Private arrays with dynamic indices, pointers that may be of two objects.
kernel void privates(device const uint *in [[buffer(0)]], device const uint *more [[buffer(1)]],
                     device uint *out [[buffer(2)]], threadgroup uchar *shared [[threadgroup(1)]],
                     uint i [[thread_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                     uint n [[threads_per_threadgroup]]) {
  uint a[16];
  for (uint k = 0; k < 16; k++) {
    a[k] = in[(i + k) & 255];
  }
  for (uint k = 0; k < (in[i & 255] & 31); k++) {
    const uint from = a[k & 15] & 15, to = (a[(k + 1) & 15] >> 4) & 15;
    a[to] = a[from] * 5 + k;
  }
  thread uchar *bytes = (thread uchar *)a;
  uint h = 0;
  for (uint k = 0; k < 64; k++) {
    h = h * 31 + bytes[(k * 7 + tid) & 63];
  }
  device const uint *p = (h & 1) ? in : more;
  h ^= p[h >> 1 & 255];
  threadgroup ushort words[128];
  words[tid] = ushort(h);
  shared[tid] = uchar(h >> 16);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint other = (tid * 5 + 3) % n;
  h += words[other] * 3 + shared[other];
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = h + uint((device const uint *)(in + (h & 7)) - in);
}

// Atomics whose results do not depend on the order.
kernel void atomics(device const uint *in [[buffer(0)]], device atomic_uint *u [[buffer(1)]],
                    device atomic_int *s [[buffer(2)]], device atomic_float *f [[buffer(3)]],
                    device uint *out [[buffer(4)]], uint i [[thread_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]], uint tg [[threadgroup_position_in_grid]]) {
  threadgroup atomic_uint local[2];
  if (tid < 2) {
    atomic_store_explicit(&local[tid], tid * 100, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint x = in[i];
  atomic_fetch_add_explicit(&local[x & 1], x & 15, memory_order_relaxed);
  atomic_fetch_add_explicit(&u[0], x, memory_order_relaxed);
  atomic_fetch_sub_explicit(&u[1], x, memory_order_relaxed);
  atomic_fetch_and_explicit(&u[2], x | 0xff, memory_order_relaxed);
  atomic_fetch_or_explicit(&u[3], x & 0xf0, memory_order_relaxed);
  atomic_fetch_xor_explicit(&u[4], x, memory_order_relaxed);
  atomic_fetch_min_explicit(&u[5], x, memory_order_relaxed);
  atomic_fetch_max_explicit(&u[6], x, memory_order_relaxed);
  atomic_fetch_min_explicit(&s[0], int(x), memory_order_relaxed);
  atomic_fetch_max_explicit(&s[1], int(x), memory_order_relaxed);
  atomic_fetch_add_explicit(&f[0], float(x & 7), memory_order_relaxed);
  atomic_fetch_sub_explicit(&f[1], float(x & 3), memory_order_relaxed);
  uint expected = 0;
  if (atomic_compare_exchange_weak_explicit(&u[16 + i], &expected, x, memory_order_relaxed, memory_order_relaxed)) {
    expected = atomic_exchange_explicit(&u[16 + i], x ^ 1, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid < 2) {
    out[64 + tg * 2 + tid] = atomic_load_explicit(&local[tid], memory_order_relaxed);
  }
  if (i == 0) {
    out[0] = atomic_load_explicit(&u[16], memory_order_relaxed) + expected;
  }
}

// Matrices of the other types, elements by lane, diagonals.
kernel void elements(device const float *a [[buffer(0)]], device const bfloat *b [[buffer(1)]],
                     device float *out [[buffer(2)]], uint lane [[thread_index_in_simdgroup]],
                     uint tg [[threadgroup_position_in_grid]]) {
  simdgroup_float8x8 ma;
  simdgroup_matrix<bfloat, 8, 8> mb;
  simdgroup_load(ma, a + tg * 64, 8);
  simdgroup_load(mb, b + tg * 64, 8, ulong2(0, 0), true);
  simdgroup_float8x8 d = simdgroup_float8x8(1.5f);
  simdgroup_float8x8 acc;
  simdgroup_multiply(acc, ma, d);
  simdgroup_multiply_accumulate(acc, ma, mb, acc);
  acc.thread_elements()[0] = acc.thread_elements()[0] * 3.0f + float(lane);
  acc.thread_elements()[1] = simd_sum(acc.thread_elements()[1]);
  simdgroup_store(acc, out + tg * 64, 8, ulong2(0, 0), true);
}
