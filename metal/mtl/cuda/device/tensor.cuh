// Matrices on tensor cores. A lane has two neighbours of a row, as the m16n8
// instructions want their first operand and their sums; the second operand lies
// transposed, so that the lane has two neighbours of a column.
FN u32 tc_row() { return lane_id() >> 2; }
FN u32 tc_col() { return 2 * (lane_id() & 3); }
FN sgmat tc_diag(float f) { return sgmat{tc_row() == tc_col() ? f : 0.0f, tc_row() == tc_col() + 1 ? f : 0.0f}; }
// Where element e of the lane lies; turned is for a transposed matrix in memory or
// in the lanes, and not for both.
FN char* tc_at(char* p, s64 stride, s64 col, s64 row, bool turned, u32 e, s64 size) {
  s64 r = turned ? tc_col() + e : tc_row(), c = turned ? tc_row() : tc_col() + e;
  return p + ((row + r) * stride + col + c) * size;
}
FN sgmat tc_turn(u32 m, sgmat a) {
  u32 from = 8 * (lane_id() & 3) + (lane_id() >> 3);
  float x0 = shfl(m, a.x, from), y0 = shfl(m, a.y, from), x1 = shfl(m, a.x, from + 4), y1 = shfl(m, a.y, from + 4);
  bool odd = (lane_id() & 4) != 0;
  return sgmat{odd ? y0 : x0, odd ? y1 : x1};
}
FN sgmat tc_add(sgmat a, sgmat b) { return sgmat{__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y)}; }

// Factors. A pair of halves or bfloats is one register. A float is the upper 11 of
// its 24 bits and what that leaves (tc32), or the bfloat next to it and what that
// leaves as another bfloat (tcb2).
struct tc16 {
  u32 hi;
};
struct tcb2 {
  u32 hi, lo;
};
struct tc32 {
  float x, y, lx, ly;
};
FN tc16 tc_half(sgmat a) { return tc16{(u32)f2h(a.x) | (u32)f2h(a.y) << 16}; }
FN tc16 tc_bfloat(sgmat a) { return tc16{bits(a.x) >> 16 | (bits(a.y) & 0xffff0000u)}; }
FN tcb2 tc_pairs(sgmat a) {
  tcb2 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r.hi) : "f"(a.y), "f"(a.x));
  float x = __fsub_rn(a.x, bits(r.hi << 16)), y = __fsub_rn(a.y, bits(r.hi & 0xffff0000u));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r.lo) : "f"(y), "f"(x));
  return r;
}
FN tc32 tc_float(sgmat a) {
  float x = bits(bits(a.x) & 0xffffe000u), y = bits(bits(a.y) & 0xffffe000u);
  return tc32{x, y, __fsub_rn(a.x, x), __fsub_rn(a.y, y)};
}

// s += a b for one or two matrices a (rows 0 to 7 and 8 to 15) and one b, or for two
// of each that follow each other in the sum.
#define TC_MMA(name, type)                                                                                                 \
  FN void name(sgmat& s0, sgmat& s1, u32 a00, u32 a10, u32 b0) {                                                           \
    asm("mma.sync.aligned.m16n8k8.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"   \
        : "+f"(s0.x), "+f"(s0.y), "+f"(s1.x), "+f"(s1.y) : "r"(a00), "r"(a10), "r"(b0));                                   \
  }                                                                                                                        \
  FN void name(sgmat& s0, sgmat& s1, u32 a00, u32 a10, u32 b0, u32 a01, u32 a11, u32 b1) {                                 \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "       \
        "{%0, %1, %2, %3};"                                                                                                \
        : "+f"(s0.x), "+f"(s0.y), "+f"(s1.x), "+f"(s1.y) : "r"(a00), "r"(a10), "r"(a01), "r"(a11), "r"(b0), "r"(b1));      \
  }
TC_MMA(tc_mma_half, "f16")
TC_MMA(tc_mma_bfloat, "bf16")
// The product of the two lower parts is below what they leave of the factors.
FN void tc_mma_pairs(sgmat& s0, sgmat& s1, tcb2 a00, tcb2 a10, tcb2 b0) {
  tc_mma_bfloat(s0, s1, a00.lo, a10.lo, b0.hi);
  tc_mma_bfloat(s0, s1, a00.hi, a10.hi, b0.lo);
  tc_mma_bfloat(s0, s1, a00.hi, a10.hi, b0.hi);
}
FN void tc_mma_pairs(sgmat& s0, sgmat& s1, tcb2 a00, tcb2 a10, tcb2 b0, tcb2 a01, tcb2 a11, tcb2 b1) {
  tc_mma_bfloat(s0, s1, a00.lo, a10.lo, b0.hi, a01.lo, a11.lo, b1.hi);
  tc_mma_bfloat(s0, s1, a00.hi, a10.hi, b0.lo, a01.hi, a11.hi, b1.lo);
  tc_mma_bfloat(s0, s1, a00.hi, a10.hi, b0.hi, a01.hi, a11.hi, b1.hi);
}
// Lane l's two elements are k = l % 4 and k + 4 of the instruction: which is which
// does not matter for a sum.
FN void tc_mma_tf32(sgmat& s0, sgmat& s1, float a0x, float a1x, float a0y, float a1y, float bx, float by) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(s0.x), "+f"(s0.y), "+f"(s1.x), "+f"(s1.y)
      : "r"(bits(a0x)), "r"(bits(a1x)), "r"(bits(a0y)), "r"(bits(a1y)), "r"(bits(bx)), "r"(bits(by)));
}
FN void tc_mma_float(sgmat& s0, sgmat& s1, tc32 a0, tc32 a1, tc32 b) {
  tc_mma_tf32(s0, s1, a0.lx, a1.lx, a0.ly, a1.ly, b.x, b.y);
  tc_mma_tf32(s0, s1, a0.x, a1.x, a0.y, a1.y, b.lx, b.ly);
  tc_mma_tf32(s0, s1, a0.x, a1.x, a0.y, a1.y, b.x, b.y);
}
FN void tc_mma_float(sgmat& s0, sgmat& s1, tc32 a00, tc32 a10, tc32 b0, tc32 a01, tc32 a11, tc32 b1) {
  tc_mma_float(s0, s1, a00, a10, b0);
  tc_mma_float(s0, s1, a01, a11, b1);
}
FN void tc_mma_half(sgmat& s0, sgmat& s1, tc16 a00, tc16 a10, tc16 b0) { tc_mma_half(s0, s1, a00.hi, a10.hi, b0.hi); }
FN void tc_mma_half(sgmat& s0, sgmat& s1, tc16 a00, tc16 a10, tc16 b0, tc16 a01, tc16 a11, tc16 b1) {
  tc_mma_half(s0, s1, a00.hi, a10.hi, b0.hi, a01.hi, a11.hi, b1.hi);
}
FN void tc_mma_bfloat(sgmat& s0, sgmat& s1, tc16 a00, tc16 a10, tc16 b0) { tc_mma_bfloat(s0, s1, a00.hi, a10.hi, b0.hi); }
FN void tc_mma_bfloat(sgmat& s0, sgmat& s1, tc16 a00, tc16 a10, tc16 b0, tc16 a01, tc16 a11, tc16 b1) {
  tc_mma_bfloat(s0, s1, a00.hi, a10.hi, b0.hi, a01.hi, a11.hi, b1.hi);
}
