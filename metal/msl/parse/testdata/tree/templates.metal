template <typename T, int N = 4, void (*load)(device const T *, thread float4x4 &), class... Rest>
[[kernel]] void mul(device const T * x, uint i [[thread_position_in_grid]]) {
    float4x4 m;
    load(x, m);
    x[i] = a < N && N > (2) ? vec<T, 4>(1)[0] : T{};
}
template <typename T> void helper(device const T * p, thread float4x4 & m);
typedef decltype(mul<float, 4, helper<float>>) mul_t;
template [[host_name("mul_" "f32")]] kernel mul_t mul<float, 4, helper>;
template [[host_name("mul_f16")]] kernel decltype(mul<half, (8 > 4), helper<half>>) mul<half, (8 > 4), helper<half>>;
template [[host_name("mul_i8")]] [[kernel]] void mul<char, 2>(device const char * x, uint);
template <> float elu<float>(float x) { return x; }
template <typename U, template <typename, int> class V, typename = enable_if_t<is_same_v<U, half>>> struct Box {
    using type = typename remove_cv<U>::type;
    static constexpr constant int size = sizeof(U) / 2;
    type v[size];
};
template <typename U> struct Box<U *> : Base<U>, public Other { enum { value = 1 << 2 }; };
template struct Box<int>;
template <typename T> using Ptr = device T *;
template <typename T> constant constexpr bool is_small = sizeof(T) < 4;
static_assert(is_small<half> && sizeof(Box<half>) == (4 >> 1), "small");
