void f(int n) {
    #pragma unroll(
    for (;;) {}
    #pragma unroll(4) x
    for (;;) {}
    #pragma clang loop unroll(maybe)
    for (;;) {}
    #pragma unroll
    n = 1;
    #pragma unknown stuff
    f(
    #pragma unroll
    n);
}
#pragma unroll
int x;
