// Library declarations that are written in the language itself. Names that begin
// with two underscores are helpers.
namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4, mem_threadgroup_imageblock = 8, mem_object_data = 16 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }
enum memory_order { memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 3, memory_order_acq_rel = 4, memory_order_seq_cst = 5 };
enum thread_scope { thread_scope_thread = 0, thread_scope_simdgroup = 1, thread_scope_threadgroup = 2, thread_scope_device = 3 };
enum class access { sample = 0, read = 1, write = 2, read_write = 3 };

struct simd_vote {
  typedef ulong vote_t;
  ulong __bits;
  simd_vote(ulong v) : __bits(v) {}
  bool all() const { return __bits == 0xffffffffUL; }
  bool any() const { return __bits != 0; }
  explicit operator ulong() const { return __bits; }
};
struct quad_vote {
  typedef ushort vote_t;
  ushort __bits;
  quad_vote(ushort v) : __bits(v) {}
  bool all() const { return __bits == 0xf; }
  bool any() const { return __bits != 0; }
  explicit operator ushort() const { return __bits; }
};

// Type traits.
template <typename T, T v> struct integral_constant {
  static constexpr constant T value = v;
  using value_type = T;
  using type = integral_constant<T, v>;
  constexpr operator T() const { return v; }
  constexpr T operator()() const { return v; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <bool B, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { typedef T type; };
template <bool B, typename T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, typename T, typename F> struct conditional { typedef T type; };
template <typename T, typename F> struct conditional<false, T, F> { typedef F type; };
template <bool B, typename T, typename F> using conditional_t = typename conditional<B, T, F>::type;
template <typename T> struct remove_const { typedef T type; };
template <typename T> struct remove_const<const T> { typedef T type; };
template <typename T> using remove_const_t = typename remove_const<T>::type;
template <typename T> struct remove_volatile { typedef T type; };
template <typename T> struct remove_volatile<volatile T> { typedef T type; };
template <typename T> using remove_volatile_t = typename remove_volatile<T>::type;
template <typename T> struct remove_cv { typedef typename remove_volatile<typename remove_const<T>::type>::type type; };
template <typename T> using remove_cv_t = typename remove_cv<T>::type;
template <typename T> struct remove_reference { typedef T type; };
template <typename T> struct remove_reference<T &> { typedef T type; };
template <typename T> using remove_reference_t = typename remove_reference<T>::type;
template <typename T> struct remove_pointer { typedef T type; };
template <typename T> struct remove_pointer<T *> { typedef T type; };
template <typename T> using remove_pointer_t = typename remove_pointer<T>::type;
template <typename T> struct remove_addrspace { typedef T type; };
template <typename T> struct remove_addrspace<device T> { typedef T type; };
template <typename T> struct remove_addrspace<constant T> { typedef T type; };
template <typename T> struct remove_addrspace<threadgroup T> { typedef T type; };
template <typename T> using remove_addrspace_t = typename remove_addrspace<T>::type;
template <typename T> struct add_const { typedef const T type; };
template <typename T> using add_const_t = typename add_const<T>::type;
template <typename T> struct decay { typedef typename remove_cv<typename remove_addrspace<typename remove_reference<T>::type>::type>::type type; };
template <typename T> using decay_t = typename decay<T>::type;
template <typename T> struct make_unsigned { typedef T type; };
template <> struct make_unsigned<char> { typedef uchar type; };
template <> struct make_unsigned<short> { typedef ushort type; };
template <> struct make_unsigned<int> { typedef uint type; };
template <> struct make_unsigned<long> { typedef ulong type; };
template <typename T> using make_unsigned_t = typename make_unsigned<T>::type;
template <typename T> struct make_signed { typedef T type; };
template <> struct make_signed<uchar> { typedef char type; };
template <> struct make_signed<ushort> { typedef short type; };
template <> struct make_signed<uint> { typedef int type; };
template <> struct make_signed<ulong> { typedef long type; };
template <typename T> using make_signed_t = typename make_signed<T>::type;
template <typename T> struct underlying_type { typedef __underlying_type(T) type; };
template <typename T> using underlying_type_t = typename underlying_type<T>::type;
template <typename T> struct make_scalar { typedef T type; };
template <typename T, int n> struct make_scalar<vec<T, n>> { typedef T type; };
template <typename T> using make_scalar_t = typename make_scalar<T>::type;
template <typename T> struct vec_elements { static constexpr constant int value = 1; };
template <typename T, int n> struct vec_elements<vec<T, n>> { static constexpr constant int value = n; };
template <typename... T> using void_t = void;

#define TRAIT(name) \
  template <typename T> struct name : public bool_constant<__##name(T)> {}; \
  template <typename T> constexpr constant bool name##_v = __##name(T);
TRAIT(is_floating_point)
TRAIT(is_integral)
TRAIT(is_arithmetic)
TRAIT(is_signed)
TRAIT(is_unsigned)
TRAIT(is_enum)
TRAIT(is_class)
TRAIT(is_union)
TRAIT(is_void)
TRAIT(is_const)
TRAIT(is_pointer)
TRAIT(is_reference)
TRAIT(is_array)
TRAIT(is_vector)
TRAIT(is_empty)
TRAIT(is_trivial)
TRAIT(is_trivially_copyable)
template <typename T> struct is_scalar : public bool_constant<__is_arithmetic(T) || __is_pointer(T) || __is_enum(T)> {};
template <typename T> constexpr constant bool is_scalar_v = is_scalar<T>::value;
template <typename T, typename U> struct is_same : public bool_constant<__is_same(T, U)> {};
template <typename T, typename U> constexpr constant bool is_same_v = __is_same(T, U);
template <typename T, typename U> struct is_base_of : public bool_constant<__is_base_of(T, U)> {};
template <typename T, typename U> constexpr constant bool is_base_of_v = __is_base_of(T, U);
template <typename T, typename U> struct is_convertible : public bool_constant<__is_convertible(T, U)> {};
template <typename T, typename U> constexpr constant bool is_convertible_v = __is_convertible(T, U);
template <typename B> struct negation : public bool_constant<!bool(B::value)> {};
template <typename B> constexpr constant bool negation_v = !bool(B::value);
template <typename... B> struct conjunction : public bool_constant<(true && ... && bool(B::value))> {};
template <typename... B> struct disjunction : public bool_constant<(false || ... || bool(B::value))> {};
template <typename... B> constexpr constant bool conjunction_v = (true && ... && bool(B::value));
template <typename... B> constexpr constant bool disjunction_v = (false || ... || bool(B::value));
template <typename T> struct __is_valid_simdgroup_type { static constexpr constant bool value = __is_arithmetic(T) && sizeof(T) <= 4 && !__is_same(T, bool) && !__is_same(T, bfloat); };
template <typename T, int n> struct __is_valid_simdgroup_type<vec<T, n>> { static constexpr constant bool value = __is_valid_simdgroup_type<T>::value; };

// Numeric limits.
template <typename T> struct _numeric_limits_impl { static constexpr constant bool is_specialized = false; };
template <typename T> struct numeric_limits : public _numeric_limits_impl<T> {};
#define INT_LIMITS(T, lo, hi, sgn, dig) \
  template <> struct _numeric_limits_impl<T> { \
    static constexpr constant bool is_specialized = true; \
    static constexpr constant bool is_signed = sgn; \
    static constexpr constant bool is_integer = true; \
    static constexpr constant bool is_exact = true; \
    static constexpr constant bool has_infinity = false; \
    static constexpr constant bool has_quiet_NaN = false; \
    static constexpr constant int digits = dig; \
    static constexpr constant int radix = 2; \
    static constexpr T min() { return T(lo); } \
    static constexpr T max() { return T(hi); } \
    static constexpr T lowest() { return T(lo); } \
    static constexpr T epsilon() { return T(0); } \
    static constexpr T infinity() { return T(0); } \
    static constexpr T quiet_NaN() { return T(0); } \
  };
INT_LIMITS(bool, 0, 1, false, 1)
INT_LIMITS(char, -128, 127, true, 7)
INT_LIMITS(uchar, 0, 255, false, 8)
INT_LIMITS(short, -32768, 32767, true, 15)
INT_LIMITS(ushort, 0, 65535, false, 16)
INT_LIMITS(int, -2147483647 - 1, 2147483647, true, 31)
INT_LIMITS(uint, 0, 4294967295u, false, 32)
INT_LIMITS(long, -9223372036854775807l - 1, 9223372036854775807l, true, 63)
INT_LIMITS(ulong, 0, 18446744073709551615ul, false, 64)
#define FLOAT_LIMITS(T, lo, hi, eps, den, dig) \
  template <> struct _numeric_limits_impl<T> { \
    static constexpr constant bool is_specialized = true; \
    static constexpr constant bool is_signed = true; \
    static constexpr constant bool is_integer = false; \
    static constexpr constant bool is_exact = false; \
    static constexpr constant bool has_infinity = true; \
    static constexpr constant bool has_quiet_NaN = true; \
    static constexpr constant int digits = dig; \
    static constexpr constant int radix = 2; \
    static constexpr T min() { return lo; } \
    static constexpr T max() { return hi; } \
    static constexpr T lowest() { return -hi; } \
    static constexpr T epsilon() { return eps; } \
    static constexpr T denorm_min() { return den; } \
    static constexpr T round_error() { return T(0.5f); } \
    static constexpr T infinity() { return T(__builtin_inff()); } \
    static constexpr T quiet_NaN() { return T(__builtin_nanf("")); } \
    static constexpr T signaling_NaN() { return T(__builtin_nanf("")); } \
  };
FLOAT_LIMITS(float, 0x1.0p-126f, 0x1.fffffep127f, 0x1.0p-23f, 0x1.0p-149f, 24)
FLOAT_LIMITS(half, 0x1.0p-14h, 0x1.ffcp15h, 0x1.0p-10h, 0x1.0p-24h, 11)
FLOAT_LIMITS(bfloat, 0x1.0p-126bf, 0x1.fep127bf, 0x1.0p-7bf, 0x1.0p-133bf, 8)

// array.
template <typename T, size_t N> struct array {
  T __elems[N];
  constexpr size_t size() const { return N; }
  constexpr size_t size() const constant { return N; }
  constexpr size_t size() const device { return N; }
  constexpr size_t size() const threadgroup { return N; }
  constexpr bool empty() const { return N == 0; }
  constexpr thread T &operator[](size_t i) { return __elems[i]; }
  constexpr const thread T &operator[](size_t i) const { return __elems[i]; }
  device T &operator[](size_t i) device { return __elems[i]; }
  const device T &operator[](size_t i) const device { return __elems[i]; }
  constant T &operator[](size_t i) const constant { return __elems[i]; }
  threadgroup T &operator[](size_t i) threadgroup { return __elems[i]; }
  const threadgroup T &operator[](size_t i) const threadgroup { return __elems[i]; }
  thread T *data() { return __elems; }
  device T *data() device { return __elems; }
  threadgroup T *data() threadgroup { return __elems; }
};

template <typename T, typename U> struct pair { T first; U second; };

// Math, relational, geometric and integer functions that are made of others.
#define EACH_WIDTH(M, T) M(T, T, bool) M(T##2, T, bool2) M(T##3, T, bool3) M(T##4, T, bool4)
#define EACH_FLOAT(M) EACH_WIDTH(M, half) EACH_WIDTH(M, float)
#define EACH_INT(M) EACH_WIDTH(M, char) EACH_WIDTH(M, uchar) EACH_WIDTH(M, short) EACH_WIDTH(M, ushort) EACH_WIDTH(M, int) EACH_WIDTH(M, uint) EACH_WIDTH(M, long) EACH_WIDTH(M, ulong)
#define EACH_NUM(M) EACH_FLOAT(M) EACH_INT(M)
#define EACH_VEC(M, T) M(T##2, T, bool2) M(T##3, T, bool3) M(T##4, T, bool4)

#define FLOAT_FUNCS(T, E, B) \
  inline T fract(T x) { return min(x - floor(x), T(E(1) - E(0.5f) * numeric_limits<E>::epsilon())); } \
  inline T sign(T x) { return select(select(select(T(0), T(E(-1)), x < T(0)), T(E(1)), x > T(0)), x, x == T(0)); } \
  inline T saturate(T x) { return min(max(x, T(0)), T(E(1))); } \
  inline T mix(T x, T y, T a) { return x + (y - x) * a; } \
  inline T step(T edge, T x) { return select(T(E(1)), T(0), x < edge); } \
  inline T smoothstep(T lo, T hi, T x) { T t = saturate((x - lo) / (hi - lo)); return t * t * (T(E(3)) - T(E(2)) * t); } \
  inline T fdim(T x, T y) { return select(T(0), x - y, x > y); } \
  inline T asinh(T x) { return copysign(log(fabs(x) + sqrt(x * x + T(E(1)))), x); } \
  inline T acosh(T x) { return log(x + sqrt(x * x - T(E(1)))); } \
  inline T atanh(T x) { return T(E(0.5f)) * log((T(E(1)) + x) / (T(E(1)) - x)); } \
  inline T sinpi(T x) { return sin(x * T(E(3.14159265358979f))); } \
  inline T cospi(T x) { return cos(x * T(E(3.14159265358979f))); } \
  inline T tanpi(T x) { return tan(x * T(E(3.14159265358979f))); } \
  inline T divide(T x, T y) { return x / y; } \
  inline T sincos(T x, thread T &c) { c = cos(x); return sin(x); } \
  inline T modf(T x, thread T &i) { i = trunc(x); return copysign(x - i, x); } \
  inline T fmax3(T x, T y, T z) { return fmax(x, fmax(y, z)); } \
  inline T fmin3(T x, T y, T z) { return fmin(x, fmin(y, z)); } \
  inline T fmedian3(T x, T y, T z) { return fmax(fmin(x, y), fmin(fmax(x, y), z)); } \
  inline B isnan(T x) { return x != x; } \
  inline B isinf(T x) { return fabs(x) == T(E(__builtin_inff())); } \
  inline B isfinite(T x) { return fabs(x) < T(E(__builtin_inff())); } \
  inline B isnormal(T x) { return (fabs(x) >= T(numeric_limits<E>::min())) & (fabs(x) < T(E(__builtin_inff()))); } \
  inline B isordered(T x, T y) { return (x == x) & (y == y); } \
  inline B isunordered(T x, T y) { return (x != x) | (y != y); } \
  inline B isequal(T x, T y) { return x == y; } \
  inline B isnotequal(T x, T y) { return x != y; } \
  inline B isgreater(T x, T y) { return x > y; } \
  inline B isgreaterequal(T x, T y) { return x >= y; } \
  inline B isless(T x, T y) { return x < y; } \
  inline B islessequal(T x, T y) { return x <= y; }
EACH_FLOAT(FLOAT_FUNCS)

inline bool signbit(float x) { return as_type<int>(x) < 0; }
inline bool2 signbit(float2 x) { return as_type<int2>(x) < int2(0); }
inline bool3 signbit(float3 x) { return as_type<int3>(x) < int3(0); }
inline bool4 signbit(float4 x) { return as_type<int4>(x) < int4(0); }
inline bool signbit(half x) { return as_type<short>(x) < 0; }
inline bool2 signbit(half2 x) { return as_type<short2>(x) < short2(0); }
inline bool4 signbit(half4 x) { return as_type<short4>(x) < short4(0); }

inline float ldexp(float x, int k) {
  int a = clamp(k, -126, 127), b = clamp(k - a, -126, 127), c = clamp(k - a - b, -126, 127);
  return x * as_type<float>((a + 127) << 23) * as_type<float>((b + 127) << 23) * as_type<float>((c + 127) << 23);
}
inline half ldexp(half x, int k) { return half(ldexp(float(x), k)); }
inline float frexp(float x, thread int &e) {
  if (x == 0.0f || !(fabs(x) < __builtin_inff())) { e = 0; return x; }
  float y = x;
  int k = 0;
  if (fabs(y) < 0x1.0p-126f) { y *= 0x1.0p+24f; k = -24; }
  uint u = as_type<uint>(y);
  e = k + int((u >> 23) & 255u) - 126;
  return as_type<float>((u & 0x807fffffu) | 0x3f000000u);
}
inline int ilogb(float x) { int e; frexp(x, e); return e - 1; }
inline float nextafter(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0.0f) return copysign(0x1.0p-149f, y);
  int i = as_type<int>(x);
  return as_type<float>(((x < y) == (x > 0.0f)) ? i + 1 : i - 1);
}

#define NUM_FUNCS(T, E, B) \
  constexpr T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); } \
  constexpr T max3(T x, T y, T z) { return max(x, max(y, z)); } \
  constexpr T min3(T x, T y, T z) { return min(x, min(y, z)); } \
  constexpr T median3(T x, T y, T z) { return max(min(x, y), min(max(x, y), z)); }
EACH_NUM(NUM_FUNCS)

#define INT_FUNCS(T, E, B) \
  inline T absdiff(T x, T y) { return select(x - y, y - x, x < y); } \
  inline T hadd(T x, T y) { return (x & y) + ((x ^ y) >> T(1)); } \
  inline T rhadd(T x, T y) { return (x | y) - ((x ^ y) >> T(1)); } \
  inline T madhi(T a, T b, T c) { return mulhi(a, b) + c; } \
  inline T mul24(T a, T b) { return a * b; } \
  inline T mad24(T a, T b, T c) { return a * b + c; }
EACH_INT(INT_FUNCS)

// In the unsigned type U, so that nothing is shifted in.
#define BIT_FUNCS(T, U, E) \
  inline T rotate(T x, T n) { \
    U u = U(x), m = U(n) & U(sizeof(E) * 8 - 1), k = (U(sizeof(E) * 8) - m) & U(sizeof(E) * 8 - 1); \
    return T(U(u << m) | U(u >> k)); \
  } \
  inline T extract_bits(T x, uint offset, uint bits) { return bits == 0 ? T(0) : T(T(x << T(sizeof(E) * 8 - offset - bits)) >> T(sizeof(E) * 8 - bits)); } \
  inline T insert_bits(T base, T x, uint offset, uint bits) { \
    U mask = bits >= sizeof(E) * 8 ? U(~U(0)) : U((1ul << bits) - 1); \
    mask = U(mask << U(offset)); \
    return T(U(U(base) & U(~mask)) | U(U(U(x) << U(offset)) & mask)); \
  }
#define UNSIGNED_FUNCS(T, E, B) BIT_FUNCS(T, T, E) \
  inline T addsat(T x, T y) { T s = T(x + y); return select(s, T(~E(0)), s < x); } \
  inline T subsat(T x, T y) { return select(T(x - y), T(0), x < y); }
#define SIGNED_FUNCS(T, U, E) BIT_FUNCS(T, U, E) \
  inline T addsat(T x, T y) { \
    T s = T(U(x) + U(y)), limit = T(T(x >> T(sizeof(E) * 8 - 1)) ^ T(numeric_limits<E>::max())); \
    return select(s, limit, T((x ^ s) & (y ^ s)) < T(0)); \
  } \
  inline T subsat(T x, T y) { \
    T s = T(U(x) - U(y)), limit = T(T(x >> T(sizeof(E) * 8 - 1)) ^ T(numeric_limits<E>::max())); \
    return select(s, limit, T((x ^ y) & (x ^ s)) < T(0)); \
  }
#define EACH_SIGNED(T, U) SIGNED_FUNCS(T, U, T) SIGNED_FUNCS(T##2, U##2, T) SIGNED_FUNCS(T##3, U##3, T) SIGNED_FUNCS(T##4, U##4, T)
EACH_WIDTH(UNSIGNED_FUNCS, uchar)
EACH_WIDTH(UNSIGNED_FUNCS, ushort)
EACH_WIDTH(UNSIGNED_FUNCS, uint)
EACH_WIDTH(UNSIGNED_FUNCS, ulong)
EACH_SIGNED(char, uchar)
EACH_SIGNED(short, ushort)
EACH_SIGNED(int, uint)
EACH_SIGNED(long, ulong)

#define VEC_FUNCS(T, E, B) \
  inline E length_squared(T x) { return dot(x, x); } \
  inline E length(T x) { return sqrt(dot(x, x)); } \
  inline E distance_squared(T x, T y) { return dot(x - y, x - y); } \
  inline E distance(T x, T y) { return sqrt(dot(x - y, x - y)); } \
  inline T normalize(T x) { return x * rsqrt(dot(x, x)); } \
  inline T faceforward(T n, T i, T r) { return dot(r, i) < E(0) ? n : -n; } \
  inline T reflect(T i, T n) { return i - E(2) * dot(n, i) * n; }
EACH_VEC(VEC_FUNCS, half)
EACH_VEC(VEC_FUNCS, float)
inline float3 cross(float3 a, float3 b) { return float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }
inline half3 cross(half3 a, half3 b) { return half3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x); }

#define MATRIX_FUNCS(E) \
  inline E determinant(E##2x2 m) { return m[0][0] * m[1][1] - m[1][0] * m[0][1]; } \
  inline E determinant(E##3x3 m) { return dot(m[0], cross(m[1], m[2])); } \
  inline E determinant(E##4x4 m) { \
    return m[0][0] * determinant(E##3x3(m[1].yzw, m[2].yzw, m[3].yzw)) - m[1][0] * determinant(E##3x3(m[0].yzw, m[2].yzw, m[3].yzw)) \
         + m[2][0] * determinant(E##3x3(m[0].yzw, m[1].yzw, m[3].yzw)) - m[3][0] * determinant(E##3x3(m[0].yzw, m[1].yzw, m[2].yzw)); \
  }
MATRIX_FUNCS(half)
MATRIX_FUNCS(float)

template <typename T> simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}

// Packing.
inline uint pack_float_to_unorm4x8(float4 x) { uint4 u = uint4(rint(saturate(x) * 255.0f)); return u.x | u.y << 8 | u.z << 16 | u.w << 24; }
inline uint pack_float_to_snorm4x8(float4 x) { int4 i = int4(rint(clamp(x, float4(-1.0f), float4(1.0f)) * 127.0f)) & int4(255); uint4 u = uint4(i); return u.x | u.y << 8 | u.z << 16 | u.w << 24; }
inline uint pack_float_to_unorm2x16(float2 x) { uint2 u = uint2(rint(saturate(x) * 65535.0f)); return u.x | u.y << 16; }
inline uint pack_float_to_snorm2x16(float2 x) { int2 i = int2(rint(clamp(x, float2(-1.0f), float2(1.0f)) * 32767.0f)) & int2(65535); uint2 u = uint2(i); return u.x | u.y << 16; }
inline float4 unpack_unorm4x8_to_float(uint x) { return float4(float(x & 255u), float(x >> 8 & 255u), float(x >> 16 & 255u), float(x >> 24)) / 255.0f; }
inline float4 unpack_snorm4x8_to_float(uint x) { return max(float4(as_type<char4>(x)) / 127.0f, float4(-1.0f)); }
inline float2 unpack_unorm2x16_to_float(uint x) { return float2(float(x & 65535u), float(x >> 16)) / 65535.0f; }
inline float2 unpack_snorm2x16_to_float(uint x) { return max(float2(as_type<short2>(x)) / 32767.0f, float2(-1.0f)); }
inline half4 unpack_unorm4x8_to_half(uint x) { return half4(unpack_unorm4x8_to_float(x)); }
inline half2 unpack_unorm2x16_to_half(uint x) { return half2(unpack_unorm2x16_to_float(x)); }

#define MODE_FUNCS(T, E, B) \
  inline T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); } \
  inline T max3(T x, T y, T z) { return max(x, max(y, z)); } \
  inline T min3(T x, T y, T z) { return min(x, min(y, z)); } \
  inline T median3(T x, T y, T z) { return max(min(x, y), min(max(x, y), z)); } \
  FLOAT_FUNCS(T, E, B)
#define MODE_VECS EACH_VEC(VEC_FUNCS, half) EACH_VEC(VEC_FUNCS, float)
namespace fast { EACH_FLOAT(MODE_FUNCS) MODE_VECS }
namespace precise { EACH_FLOAT(MODE_FUNCS) MODE_VECS }
}
