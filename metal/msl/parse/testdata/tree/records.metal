#define QK 32
typedef struct {
    union {
        struct { half d; half m; };
        half2 dm;
    };
    uint8_t qs[QK / 2];
} block_q4_1;
struct alignas(16) Complex {
    float re, im = 0;
    Complex() thread = default;
    constexpr Complex(float r, float i = 0) : re(r), im{i} {}
    ~Complex();
    operator float() const constant { return re; }
    Complex operator+(Complex o) const thread { return helper(o); }
    float operator()(int i) const { return i < count ? re : im; }
    template <typename U> U as() const;
    static constexpr int count = 2;
    Complex helper(Complex o) const { return Complex(re + o.re); }
private:
    unsigned bits : 3, : 0;
};
template <typename U> U Complex::as() const { return static_cast<U>(re); }
thread Complex & operator+=(thread Complex & a, device const Complex & b);
enum class Op : ushort { add, mul = 1 << 3 };
enum { first, second = first + 1, };
namespace a::b { inline namespace v1 { typedef int T; } }
namespace c = a::b;
a::b::T * pointer(a::b::T x);
