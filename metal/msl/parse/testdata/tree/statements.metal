typedef int T;
void f(device int * p, int n, thread T & r) {
    #pragma unroll
    for (int i = 0, j = n; i < j; ++i, j--) continue;
    #pragma unroll(4)
    for (;;) { break; }
    #pragma clang loop unroll(full)
    while (int k = n--) n -= k;
    #pragma clang loop unroll_count(2) vectorize(enable)
    do { n >>= 1; } while (n);
    #pragma nounroll
    for (auto x : {1, 2}) n += x;
    #pragma METAL fp contract(off)
    switch (n) {
        case 1: n = 2; break;
        case 2 ... 4: { n = 3; }
        default: ;
    }
    if constexpr (sizeof(T) == 4) n = 1; else if (int m = n; m > 2) n = 2; else n = 3;
    T a(3), b{4}, *c = nullptr, d[2] = {1, 2}, (*e)[2] = &d;
    T (*g)(int, T) = 0;
    int h(T(n));
    T(n);
    a * b;
    T * q;
    r = (T) -n + (T)(n) - (n) - 1;
    p[0] = p[1] = n ? 1, 2 : 3 ? 4 : 5;
    auto l = [&, n = 3](auto x) -> int { return x < n; };
    r = sizeof(T) + sizeof n + sizeof(n) + alignof(T) + __is_same(T, int);
    q->x.y(1, {2, 3})->template z<T>(as_type<uint>(1.0f))++;
    return;
}
