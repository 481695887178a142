// What every emitted kernel builds on. Values of the IR: i1 is bool, i8 to i64
// are unsigned, half and bfloat are their 16 bits, pointers are char*. A floating
// point operation is an intrinsic that rounds once, so that no compiler option
// fuses two; the definitions are those of package lane of the software device.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
#define FN static __device__ __forceinline__
#define SLOW static __device__ __noinline__

// The launch: threads of the grid and of a full threadgroup. Blocks are linear:
// positions come from the thread's number, as in MSL, whatever the edge.
struct launch_t {
  u32 threads[3];
  u32 tg[3];
  volatile u32* stop; // [0] is not 0 when the host wants loops to end; [1] is the id of the launch that did
  u32 id;             // not 0
  // What a block fetches before it waits: pieces of some bytes, stride apart, from step
  // bytes further on for each block, at most last; none where pieces is 0.
  u32 pieces, bytes, stride;
  const char* ahead;
  u64 step, last;
};

FN bool stopped(const launch_t& g) {
  if (g.stop[0] == 0) return false;
  if (g.stop[1] == 0) g.stop[1] = g.id;
  return true;
}

// A launch may start before the one before it ended (see graph.go): every thread waits
// here for what that wrote, and then lets the next launch start. Meanwhile the memory
// need not rest: what a block will read goes to the second level cache. That is where
// writes meet as well, so it does not matter who writes it.
FN void after(const launch_t& g) {
#if __CUDA_ARCH__ >= 900
  if (g.pieces != 0) {
    const u64 at = blockIdx.x * g.step;
    const char* p = g.ahead + (at < g.last ? at : g.last);
    for (u32 k = 0; k < g.pieces; k++, p += g.stride)
      for (u32 n = threadIdx.x * 128; n < g.bytes; n += blockDim.x * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(p + n) : "memory");
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// An argument by value.
template <int N> struct __align__(16) object {
  unsigned char bytes[N];
};

extern __shared__ __align__(16) unsigned char shared_[];

// Integers: division by zero gives 0, MIN/-1 wraps.
FN s32 sdiv(s32 x, s32 y) { return y == 0 ? 0 : y == -1 ? (s32)(0u - (u32)x) : x / y; }
FN s64 sdiv(s64 x, s64 y) { return y == 0 ? 0 : y == -1 ? (s64)(0ull - (u64)x) : x / y; }
FN s32 srem(s32 x, s32 y) { return y == 0 || y == -1 ? 0 : x % y; }
FN s64 srem(s64 x, s64 y) { return y == 0 || y == -1 ? 0 : x % y; }
FN u32 udiv(u32 x, u32 y) { return y == 0 ? 0 : x / y; }
FN u64 udiv(u64 x, u64 y) { return y == 0 ? 0 : x / y; }
FN u32 urem(u32 x, u32 y) { return y == 0 ? 0 : x % y; }
FN u64 urem(u64 x, u64 y) { return y == 0 ? 0 : x % y; }

// Bits of floats.
FN float bits(u32 x) { return __uint_as_float(x); }
FN u32 bits(float x) { return __float_as_uint(x); }

// Half and bfloat, nearest even. The payload of a NaN is not kept.
FN float h2f(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
FN u16 f2h(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
FN float b2f(u16 b) { return bits((u32)b << 16); }
FN u16 f2b(float f) {
  u32 b = bits(f);
  if ((b & 0x7fffffffu) > 0x7f800000u) return (u16)(b >> 16 | 0x40);
  return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

// One rounding of a*b+c.
FN float fma1(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FN u16 fma_h(u16 a, u16 b, u16 c) {
  u16 d;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));
  return d;
}
FN u16 fma_b(u16 a, u16 b, u16 c) {
  u16 d;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));
  return d;
}

// The non-NaN operand; the second of zeros with different signs.
FN float fmin1(float x, float y) { return x < y || y != y ? x : y; }
FN float fmax1(float x, float y) { return x > y || y != y ? x : y; }
FN float copysign1(float x, float y) { return bits((bits(x) & 0x7fffffffu) | (bits(y) & 0x80000000u)); }

// Float to integer truncates, saturates, and gives 0 for NaN.
FN s32 ftosn(float x, float lo, float hi) { return x != x ? 0 : x <= lo ? (s32)lo : x >= hi ? (s32)hi : (s32)x; }
FN u32 ftoun(float x, float hi) { return !(x > 0) ? 0 : x >= hi ? (u32)hi : (u32)x; }
FN s32 ftos32(float x) { return x != x ? 0 : x < -0x1p31f ? (s32)0x80000000u : x >= 0x1p31f ? 0x7fffffff : (s32)x; }
FN u32 ftou32(float x) { return !(x > 0) ? 0u : x >= 0x1p32f ? 0xffffffffu : (u32)x; }
FN s64 ftos64(float x) { return x != x ? 0 : x < -0x1p63f ? (s64)0x8000000000000000ull : x >= 0x1p63f ? 0x7fffffffffffffffll : (s64)x; }
FN u64 ftou64(float x) { return !(x > 0) ? 0ull : x >= 0x1p64f ? 0xffffffffffffffffull : (u64)x; }

// Integer to bfloat in one rounding: 24 bits, the last one sticky, then round.
FN u16 utob(u64 x) {
  if (x < 1ull << 24) return f2b(__uint2float_rn((u32)x));
  int shift = 40 - __clzll((s64)x);
  bool sticky = (x & ((1ull << shift) - 1)) != 0;
  x >>= shift;
  return f2b(__fmul_rn(__uint2float_rn((u32)x | (sticky ? 1u : 0u)), bits((u32)(127 + shift) << 23)));
}
FN u16 stob(s64 x) { return x < 0 ? (u16)(utob(0ull - (u64)x) | 0x8000) : utob((u64)x); }

// Private memory: no alignment and no type is assumed.
template <class T> FN T ldt(const char* p) {
  T x;
  memcpy(&x, p, sizeof x);
  return x;
}
template <class T> FN void stt(char* p, T x) { memcpy(p, &x, sizeof x); }

// A float atomic by compare and swap: the hardware's flushes subnormals.
FN float atomic_fadd(char* p, float x) {
  u32 old = *(volatile u32*)p;
  for (;;) {
    u32 seen = atomicCAS((u32*)p, old, bits(__fadd_rn(bits(old), x)));
    if (seen == old) return bits(old);
    old = seen;
  }
}
