#include <metal_stdlib>
using namespace metal;

kernel void control(device int *x, constant int &n, uint i [[thread_position_in_grid]]) {
    if (i >= uint(n)) return;
    int a = 0;
    for (int k = 0; k < n; k++) {
        if (x[k] < 0) continue;
        if (x[k] == 7) break;
        a += x[k];
    }
    int w = n;
    while (w > 1) w >>= 1;
    do { a++; } while (a < w);
    switch (x[i]) {
    case 0: a += 1;
    case 1: a += 2; break;
    case 2: case 3: a = -a; break;
    default: a = 9;
    }
    x[i] = (a > 3 && x[a] > 1) || a == -1 ? a : n / a;
}
