#include <metal_stdlib>
using namespace metal;

template <typename T> T twice(T x) { return x + x; }
static int clampTo(int x, int hi) {
    if (x < 0) return 0;
    if (x > hi) return hi;
    return x;
}
static void bump(thread int &x, thread int *y) { x += *y; *y = twice(x); }
static void each(device const int *p, thread int (&acc)[2]) {
    for (short k = 0; k < 2; ++k) acc[k] += p[k];
}

kernel void inlined(device int *x, uint i [[thread_position_in_grid]]) {
    int a = x[i], b = 3;
    bump(a, &b);
    int acc[2] = {a, b};
    each(x + 4 * i, acc);
    x[i] = clampTo(acc[0], 100) + acc[1];
}
