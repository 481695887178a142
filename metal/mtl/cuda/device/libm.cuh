// The functions of metal/msl/libm, operation by operation: each float64 operation
// rounds on its own. Comments and bounds are there.

struct f64 {
  double v;
  __device__ __forceinline__ f64() {}
  __device__ __forceinline__ f64(double d) : v(d) {}
  __device__ __forceinline__ f64 operator-() const { return f64(__longlong_as_double(__double_as_longlong(v) ^ (s64)0x8000000000000000ull)); }
};
FN f64 operator+(f64 a, f64 b) { return __dadd_rn(a.v, b.v); }
FN f64 operator-(f64 a, f64 b) { return __dsub_rn(a.v, b.v); }
FN f64 operator*(f64 a, f64 b) { return __dmul_rn(a.v, b.v); }
FN f64 operator/(f64 a, f64 b) { return __ddiv_rn(a.v, b.v); }
FN bool operator<(f64 a, f64 b) { return a.v < b.v; }
FN bool operator<=(f64 a, f64 b) { return a.v <= b.v; }
FN bool operator>(f64 a, f64 b) { return a.v > b.v; }
FN bool operator>=(f64 a, f64 b) { return a.v >= b.v; }
FN bool operator==(f64 a, f64 b) { return a.v == b.v; }
FN f64 root(f64 a) { return __dsqrt_rn(a.v); }
FN f64 absolute(f64 a) { return __longlong_as_double(__double_as_longlong(a.v) & 0x7fffffffffffffffll); }
FN float narrow(f64 a) { return __double2float_rn(a.v); }
FN s64 whole(f64 a) { return __double2ll_rz(a.v); }
FN f64 of(s64 x) { return __ll2double_rn(x); }
FN f64 from_bits(u64 b) { return __longlong_as_double((s64)b); }
FN u64 to_bits(f64 a) { return (u64)__double_as_longlong(a.v); }

#define LN2 0.693147180559945309417232121458176568
#define LN10 2.302585092994045684017991454684364208
#define LOG2E 1.442695040888963407359924681001892137
#define LOG10E 0.434294481903251827651128918916605082
#define LOG10_2 0.301029995663981195213738894724493027
#define LOG2_10 3.321928094887362347870319429489390176
#define PI 3.141592653589793238462643383279502884
#define INF bits(0x7f800000u)
#define QNAN bits(0x7fc00000u)

FN f64 nearest(f64 x) { return (x + 0x1.8p52) - 0x1.8p52; }
FN f64 pow2(f64 k) { return from_bits((u64)(whole(k) + 1023) << 52); }
FN f64 exp_poly(f64 r) {
  f64 p = 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p;
}
FN f64 exp64(f64 x) {
  f64 k = nearest(x * LOG2E);
  return exp_poly(x - k * LN2) * pow2(k);
}
FN f64 exp2_64(f64 x) {
  f64 k = nearest(x);
  return exp_poly((x - k) * LN2) * pow2(k);
}
FN float m_exp(float x) {
  if (x != x) return x;
  if (x > 89) return INF;
  if (x < -104) return 0;
  return narrow(exp64(x));
}
FN float m_exp2(float x) {
  if (x != x) return x;
  if (x > 128) return INF;
  if (x < -151) return 0;
  return narrow(exp2_64(x));
}
FN float m_exp10(float x) {
  if (x != x) return x;
  if (x > 39) return INF;
  if (x < -46) return 0;
  f64 d = x;
  f64 k = nearest(d * LOG2_10);
  return narrow(exp_poly((d - k * LOG10_2) * LN10) * pow2(k));
}
FN void split(f64 x, f64& m, f64& k) {
  u64 b = to_bits(x) + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
  k = of((s64)(b >> 52) - 1023);
  m = from_bits((b & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull);
}
FN f64 logm(f64 m) {
  f64 f = m - 1.0;
  f64 s = f / (f64(2.0) + f);
  f64 z = s * s;
  f64 p = 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 0.2;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return f64(2.0) * s * p;
}
FN bool log_special(float x, float& r) {
  if (x != x || x == INF) { r = x; return true; }
  if (x == 0) { r = -INF; return true; }
  if (x < 0) { r = QNAN; return true; }
  return false;
}
FN float m_log(float x) {
  float r;
  if (log_special(x, r)) return r;
  f64 m, k;
  split(x, m, k);
  return narrow(k * LN2 + logm(m));
}
FN float m_log2(float x) {
  float r;
  if (log_special(x, r)) return r;
  f64 m, k;
  split(x, m, k);
  return narrow(k + logm(m) * LOG2E);
}
FN float m_log10(float x) {
  float r;
  if (log_special(x, r)) return r;
  f64 m, k;
  split(x, m, k);
  return narrow(k * LOG10_2 + logm(m) * LOG10E);
}
SLOW float m_pow(float x, float y) {
  bool y_int = false, y_odd = false;
  f64 a = absolute(y);
  if (a >= 16777216.0) {
    y_int = true;
  } else if (a == a) {
    s64 n = whole(a);
    y_int = of(n) == a;
    y_odd = y_int && (n & 1) == 1;
  }
  if (y == 0 || x == 1) return 1;
  if (x != x) return x;
  if (y != y) return y;
  if (y == INF || y == -INF) {
    float b = narrow(absolute(x));
    if (b == 1) return 1;
    return (b > 1) == (y > 0) ? INF : 0.0f;
  }
  if (x == 0 || x == INF || x == -INF) {
    float r = (x == 0) != (y > 0) ? INF : 0.0f;
    if (y_odd && bits(x) >> 31 == 1) r = bits(bits(r) | 0x80000000u);
    return r;
  }
  if (x < 0 && !y_int) return QNAN;
  f64 m, k;
  split(absolute(x), m, k);
  f64 e = f64(y) * (k + logm(m) * LOG2E);
  if (e > 200.0) e = 200.0;
  if (e < -200.0) e = -200.0;
  f64 r = exp2_64(e);
  if (x < 0 && y_odd) r = -r;
  return narrow(r);
}
FN float m_rsqrt(float x) { return narrow(f64(1.0) / root(x)); }

__device__ const u64 two_over_pi[4] = {0x517cc1b727220a94ull, 0xfe13abe8fa9a6ee0ull, 0x6db14acc9e21c820ull, 0xff28b1d5ef5de2b0ull};
SLOW f64 reduce_pi(float x, u64& q) {
  f64 d = x;
  if (absolute(d) < 16777216.0) {
    f64 k = nearest(d * 0.636619772367581343075535053490057448);
    q = (u64)whole(k) & 3;
    return ((d - k * 0x1.921fb54p0) - k * 0x1.10b4611p-30) - k * 0x1.4c4c6628b80dcp-59;
  }
  u32 b = bits(x);
  u64 m = (b & 0x7fffff) | 0x800000;
  u32 j = (b >> 23 & 255) - 151, w = j / 64, s = j % 64;
  u64 hi = two_over_pi[w] << s | two_over_pi[w + 1] >> 1 >> (63 - s);
  u64 lo = two_over_pi[w + 1] << s | two_over_pi[w + 2] >> 1 >> (63 - s);
  hi = m * hi + __umul64hi(m, lo);
  q = (hi + (1ull << 61)) >> 62;
  f64 r = of((s64)(hi - (q << 62))) * (PI / 2 * 0x1p-62);
  if (x < 0) {
    q = (0 - q) & 3;
    return -r;
  }
  q &= 3;
  return r;
}
FN f64 sin_poly(f64 r) {
  f64 z = r * r;
  f64 p = 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  return r + p * z * r;
}
FN f64 cos_poly(f64 r) {
  f64 z = r * r;
  f64 p = -1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600;
  p = p * z - 1.0 / 3628800;
  p = p * z + 1.0 / 40320;
  p = p * z - 1.0 / 720;
  p = p * z + 1.0 / 24;
  p = p * z - 0.5;
  return p * z + 1.0;
}
FN bool finite1(float x) { return __fsub_rn(x, x) == 0; }
FN float m_sin(float x) {
  if (x == 0) return x;
  if (!finite1(x)) return QNAN;
  u64 q;
  f64 r = reduce_pi(x, q);
  f64 y = (q & 1) == 0 ? sin_poly(r) : cos_poly(r);
  return narrow((q & 2) != 0 ? -y : y);
}
FN float m_cos(float x) {
  if (!finite1(x)) return QNAN;
  u64 q;
  f64 r = reduce_pi(x, q);
  f64 y = (q & 1) == 0 ? cos_poly(r) : sin_poly(r);
  return narrow(((q + 1) & 2) != 0 ? -y : y);
}
FN float m_tan(float x) {
  if (x == 0) return x;
  if (!finite1(x)) return QNAN;
  u64 q;
  f64 r = reduce_pi(x, q);
  return narrow((q & 1) == 0 ? sin_poly(r) / cos_poly(r) : -cos_poly(r) / sin_poly(r));
}
FN f64 atan_poly(f64 z) {
  f64 base = 0.0;
  if (z > 0.41421356237309503) {
    base = PI / 4;
    z = (z - 1.0) / (z + 1.0);
  }
  f64 s = z * z;
  f64 p = 1.0 / 33;
  p = p * s - 1.0 / 31;
  p = p * s + 1.0 / 29;
  p = p * s - 1.0 / 27;
  p = p * s + 1.0 / 25;
  p = p * s - 1.0 / 23;
  p = p * s + 1.0 / 21;
  p = p * s - 1.0 / 19;
  p = p * s + 1.0 / 17;
  p = p * s - 1.0 / 15;
  p = p * s + 1.0 / 13;
  p = p * s - 1.0 / 11;
  p = p * s + 1.0 / 9;
  p = p * s - 1.0 / 7;
  p = p * s + 0.2;
  p = p * s - 1.0 / 3;
  return base + (z + p * s * z);
}
SLOW f64 atan64(f64 y, f64 x) {
  f64 ay = absolute(y), ax = absolute(x);
  f64 a = ay <= ax ? atan_poly(ay / ax) : f64(PI / 2) - atan_poly(ax / ay);
  if (x < 0.0) a = f64(PI) - a;
  if (y < 0.0) a = -a;
  return a;
}
FN float m_atan(float x) {
  if (x != x || x == 0) return x;
  if (x == INF) return narrow(PI / 2);
  if (x == -INF) return narrow(-PI / 2);
  return narrow(atan64(x, 1.0));
}
SLOW float m_atan2(float y, float x) {
  bool x_neg = bits(x) >> 31 == 1, y_neg = bits(y) >> 31 == 1;
  f64 a = 0.0;
  if (x != x || y != y) return QNAN;
  if (y == 0) {
    if (x_neg) a = PI;
  } else if (x == 0) {
    a = PI / 2;
  } else if (!finite1(y) && !finite1(x)) {
    a = x_neg ? 2.356194490192344928846982537459627163 : PI / 4;
  } else if (!finite1(y)) {
    a = PI / 2;
  } else if (!finite1(x)) {
    if (x_neg) a = PI;
  } else {
    return narrow(atan64(y, x));
  }
  return narrow(y_neg ? -a : a);
}
FN float m_asin(float x) {
  if (x == 0 || x != x) return x;
  f64 d = x;
  f64 c = (f64(1.0) - d) * (f64(1.0) + d);
  if (c < 0.0) return QNAN;
  return narrow(atan64(d, root(c)));
}
FN float m_acos(float x) {
  f64 d = x;
  f64 c = (f64(1.0) - d) * (f64(1.0) + d);
  if (!(c >= 0.0)) return QNAN;
  if (x == 1) return 0;
  return narrow(atan64(root(c), d));
}

FN float m_sinh(float x) {
  f64 d = x, a = absolute(d);
  if (x == 0 || !finite1(x)) return x;
  if (a < 0x1p-8) {
    f64 z = d * d;
    return narrow(d + (z * (1.0 / 120) + 1.0 / 6) * z * d);
  }
  if (a > 100.0) return x > 0 ? INF : -INF;
  f64 e = exp64(a);
  f64 y = f64(0.5) * (e - f64(1.0) / e);
  return narrow(d < 0.0 ? -y : y);
}
FN float m_cosh(float x) {
  f64 a = absolute(x);
  if (x != x) return x;
  if (a > 100.0) return INF;
  f64 e = exp64(a);
  return narrow(f64(0.5) * (e + f64(1.0) / e));
}
FN float m_tanh(float x) {
  f64 d = x, a = absolute(d);
  if (x == 0 || x != x) return x;
  if (a < 0x1p-8) {
    f64 z = d * d;
    return narrow(d + (z * (2.0 / 15) - 1.0 / 3) * z * d);
  }
  f64 y = 1.0;
  if (a < 20.0) y = f64(1.0) - f64(2.0) / (exp64(f64(2.0) * a) + 1.0);
  return narrow(d < 0.0 ? -y : y);
}
SLOW float m_erf(float x) {
  f64 d = x, a = absolute(d);
  if (x == 0 || x != x) return x;
  f64 z = d * d, y;
  if (a < 2.0) {
    f64 sum = 1.0, term = 1.0;
    for (s32 n = 1; n <= 36; n++) {
      term = term * (f64(2.0) * z) / of(2 * n + 1);
      sum = sum + term;
    }
    y = f64(1.128379167095512573896158903121545172) * exp64(-z) * a * sum;
  } else if (a < 4.0) {
    f64 f = 1.0;
    for (s32 n = 40; n >= 1; n--) f = f64(1.0) + of(n) / (f64(2.0) * z) / f;
    y = f64(1.0) - f64(0.5 * 1.128379167095512573896158903121545172) * exp64(-z) / (a * f);
  } else {
    y = 1.0;
  }
  return narrow(d < 0.0 ? -y : y);
}
