#include <metal_stdlib>
using namespace metal;

constant float table[4] = {1.0f, -2.0f, 0.5f, 8.0f};

kernel void arrays(device const float *x, device float *y, constant uint &stride, uint i [[thread_position_in_grid]]) {
    device const float *rows[2];
    float acc[2] = {0.f};
    for (short r = 0; r < 2; ++r) rows[r] = x + r * stride;
    for (uint k = 0; k < stride; k += 4) {
        for (short r = 0; r < 2; ++r) {
            acc[r] += rows[r][k + 1] * table[r + 1];
        }
    }
    for (short r = 0; r < 2; ++r) y[2 * i + r] = acc[r];
    uint w = as_type<uint>(acc[0]);
    thread const uchar *b = (thread const uchar *)&w;
    y[2 * i + 8] = b[1] + b[3];
    float dyn[3] = {1, 2, 3};
    y[2 * i + 9] = dyn[i % 3] + table[i & 3];
}
