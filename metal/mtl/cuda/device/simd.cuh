// Simdgroup functions. m is the mask of the active lanes that the emitter keeps;
// each of them calls.

FN u32 lane_id() { return threadIdx.x & 31; }
FN bool in_mask(u32 m, u32 l) { return (m >> (l & 31) & 1) != 0; }

FN u32 shfl(u32 m, u32 v, u32 l) { return __shfl_sync(m, v, (int)l); }
FN u64 shfl(u32 m, u64 v, u32 l) { return __shfl_sync(m, v, (int)l); }
FN float shfl(u32 m, float v, u32 l) { return __shfl_sync(m, v, (int)l); }
FN u16 shfl(u32 m, u16 v, u32 l) { return (u16)__shfl_sync(m, (u32)v, (int)l); }
FN u8 shfl(u32 m, u8 v, u32 l) { return (u8)__shfl_sync(m, (u32)v, (int)l); }
FN bool shfl(u32 m, bool v, u32 l) { return __shfl_sync(m, (u32)v, (int)l) != 0; }

// The reduction tree: lane i with i^16, i^8, i^4, i^2, i^1; where the order of
// operands decides the sign of a zero the lower lane's comes first. With
// inactive lanes each lane walks the tree of all 32 itself, depth first, since
// partial results would sit in lanes that are not there: leaf c is lane
// c backwards, and s[k] waits for its sibling of 2^k leaves.
template <class O, class T> SLOW T reduce_part(u32 m, T v) {
  T s[5];
#pragma unroll
  for (u32 c = 0; c < 32; c++) {
    u32 l = __brev(c) >> 27;
    T x = shfl(m, v, l);
    if (!in_mask(m, l)) x = O::id();
#pragma unroll
    for (u32 k = 0; k < 5; k++) {
      if ((c >> k & 1) == 0) {
        s[k] = x;
        break;
      }
      x = O::op(s[k], x);
    }
    if (c == 31) return x;
  }
  return v;
}
template <class O, class T> FN T reduce(u32 m, T v) {
  if (m != 0xffffffffu) return reduce_part<O, T>(m, v);
#pragma unroll
  for (u32 s = 16; s > 0; s /= 2) {
    T p = shfl(m, v, lane_id() ^ s);
    bool upper = !O::commutes && (lane_id() & s) != 0;
    v = O::op(upper ? p : v, upper ? v : p);
  }
  return v;
}
// Within quads each lane puts its own operand first.
template <class O, class T> FN T reduce_quad(u32 m, T v) {
  T x[4];
#pragma unroll
  for (u32 k = 0; k < 4; k++) {
    u32 l = lane_id() ^ k;
    T y = shfl(m, v, l);
    x[k] = in_mask(m, l) ? y : O::id();
  }
  return O::op(O::op(x[0], x[2]), O::op(x[1], x[3]));
}
// Scans combine the active lanes in ascending order.
template <class O, class T> SLOW T scan(u32 m, T v, u32 group, bool exclusive, T start) {
  T acc = start, own = start;
  bool started = false;
  for (u32 l = 0; l < 32; l++) {
    T x = shfl(m, v, l);
    if (l % group == 0) started = false, acc = start;
    if (!in_mask(m, l)) continue;
    T next = started ? O::op(acc, x) : x;
    if (l == lane_id()) own = exclusive ? (started ? acc : start) : next;
    acc = next, started = true;
  }
  return own;
}

#define REDUCTION(name, type, yes, ident, expr)                              \
  struct name {                                                              \
    static __device__ __forceinline__ type id() { return (type)(ident); }    \
    static __device__ __forceinline__ type op(type x, type y) { return (type)(expr); } \
    static constexpr bool commutes = yes;                                    \
  };
#define REDUCTIONS(t, st, mx)                                         \
  REDUCTION(add_##t, t, true, 0, x + y)                               \
  REDUCTION(mul_##t, t, true, 1, (u64)x * (u64)y)                     \
  REDUCTION(smin_##t, t, true, (t)~(t)0 >> 1, (st)x < (st)y ? x : y)  \
  REDUCTION(smax_##t, t, true, (t)1 << mx, (st)x > (st)y ? x : y)     \
  REDUCTION(umin_##t, t, true, ~(t)0, x < y ? x : y)                  \
  REDUCTION(umax_##t, t, true, 0, x > y ? x : y)                      \
  REDUCTION(and_##t, t, true, ~(t)0, x & y)                           \
  REDUCTION(or_##t, t, true, 0, x | y)                                \
  REDUCTION(xor_##t, t, true, 0, x ^ y)
REDUCTIONS(u8, s8, 7)
REDUCTIONS(u16, s16, 15)
REDUCTIONS(u32, s32, 31)
REDUCTIONS(u64, s64, 63)
REDUCTION(add_float, float, true, -0.0f, __fadd_rn(x, y))
REDUCTION(mul_float, float, true, 1.0f, __fmul_rn(x, y))
REDUCTION(fmin_float, float, false, bits(0x7f800000u), fmin1(x, y))
REDUCTION(fmax_float, float, false, bits(0xff800000u), fmax1(x, y))
REDUCTION(add_half, u16, true, 0x8000, f2h(__fadd_rn(h2f(x), h2f(y))))
REDUCTION(mul_half, u16, true, 0x3c00, f2h(__fmul_rn(h2f(x), h2f(y))))
REDUCTION(fmin_half, u16, false, 0x7c00, f2h(fmin1(h2f(x), h2f(y))))
REDUCTION(fmax_half, u16, false, 0xfc00, f2h(fmax1(h2f(x), h2f(y))))
REDUCTION(add_bfloat, u16, true, 0x8000, f2b(__fadd_rn(b2f(x), b2f(y))))
REDUCTION(mul_bfloat, u16, true, 0x3f80, f2b(__fmul_rn(b2f(x), b2f(y))))
REDUCTION(fmin_bfloat, u16, false, 0x7f80, f2b(fmin1(b2f(x), b2f(y))))
REDUCTION(fmax_bfloat, u16, false, 0xff80, f2b(fmax1(b2f(x), b2f(y))))

// Shuffles within groups of 4 or 32. A source outside the group or inactive gives
// 0. src is relative to the group.
template <class T> FN T shuffle(u32 m, T v, s32 src, u32 group) {
  u32 l = (lane_id() & ~(group - 1)) + (u32)src;
  T x = shfl(m, v, l & 31);
  return (u32)src < group && in_mask(m, l) ? x : (T)0;
}
template <class T> FN T shuffle_up(u32 m, T v, s32 d, u32 group) {
  s32 i = (s32)(lane_id() & (group - 1));
  return shuffle(m, v, i - d < 0 ? i : i - d, group);
}
template <class T> FN T shuffle_down(u32 m, T v, s32 d, u32 group) {
  s32 i = (s32)(lane_id() & (group - 1));
  return shuffle(m, v, i + d >= (s32)group ? i : i + d, group);
}
template <class T> FN T shuffle_xor(u32 m, T v, s32 d, u32 group) { return shuffle(m, v, (s32)(lane_id() & (group - 1)) ^ d, group); }
template <class T> FN T shuffle_rotate(u32 m, T v, s32 d, u32 group) { return shuffle(m, v, (s32)((lane_id() + (u32)d) & (group - 1)), group); }
template <class T> FN T shuffle_first(u32 m, T v, u32 group) {
  u32 base = lane_id() & ~(group - 1);
  return shuffle(m, v, (s32)((u32)(__ffs((s32)(m >> base)) - 1) & (group - 1)), group);
}
// up: lanes whose source lies below their block of modulo lanes take fill.
template <class T> FN T shuffle_fill(u32 m, T v, T fill, s32 d, s32 modulo, bool up, u32 group) {
  if (modulo <= 0 || modulo > (s32)group) modulo = (s32)group;
  s32 i = (s32)(lane_id() & (group - 1)), base = i / modulo * modulo;
  s32 src = up ? i - d : i + d;
  bool from_fill = up ? src < base : src >= base + modulo;
  s32 f = base + (src - base) % modulo;
  if (up) {
    f += modulo;
    if (f >= base + modulo) f -= modulo;
  }
  T a = shuffle(m, v, src, group), b = shuffle(m, fill, f, group);
  return from_fill ? b : a;
}

FN u32 quad_bits(u32 x) { return x >> (lane_id() & ~3u) & 15; }

// An 8x8 matrix: each lane has two neighbours of a row, half and bfloat as the
// floats that they are. Row 4*(L>>4&1) + (L>>1&3), column 4*(L>>3&1) + 2*(L&1).
struct sgmat {
  float x, y;
};
FN u32 sg_row() { return 4 * (lane_id() >> 4 & 1) + (lane_id() >> 1 & 3); }
FN u32 sg_col() { return 4 * (lane_id() >> 3 & 1) + 2 * (lane_id() & 1); }
FN sgmat sg_fill(float f) { return sgmat{f, f}; }
FN sgmat sg_diag(float f) { return sgmat{sg_row() == sg_col() ? f : 0.0f, sg_row() == sg_col() + 1 ? f : 0.0f}; }
FN char* sg_at(char* p, s64 stride, s64 col, s64 row, bool transpose, u32 e, s64 size) {
  s64 r = transpose ? sg_col() + e : sg_row(), c = transpose ? sg_row() : sg_col() + e;
  return p + ((row + r) * stride + col + c) * size;
}
// a*b + c: for each element one fma after another, k = 0 to 7, on top of c. Row r
// of a lies in the lanes of its own row, row k of b in those of its column.
FN sgmat sg_mma(u32 m, sgmat a, sgmat b, sgmat c) {
  u32 row = lane_id() & 0x16, col = lane_id() & 0x09;
#pragma unroll
  for (u32 k = 0; k < 8; k++) {
    float ak = shfl(m, k & 1 ? a.y : a.x, row | (k >> 2 & 1) << 3 | (k >> 1 & 1));
    u32 l = col | (k >> 2 & 1) << 4 | (k & 3) << 1;
    c.x = __fmaf_rn(ak, shfl(m, b.x, l), c.x);
    c.y = __fmaf_rn(ak, shfl(m, b.y, l), c.y);
  }
  return c;
}
FN sgmat sg_h(sgmat a) { return sgmat{h2f(f2h(a.x)), h2f(f2h(a.y))}; }
FN sgmat sg_b(sgmat a) { return sgmat{b2f(f2b(a.x)), b2f(f2b(a.y))}; }
