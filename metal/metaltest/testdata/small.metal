#include <metal_stdlib>
#include "scale.h"
using namespace metal;

constant bool negate [[function_constant(0)]];

struct Params {
    uint n;
    float factor;
};

kernel void scale(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                  constant Params &p [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    if (i < p.n) {
        y[i] = scaled(x[i], negate ? -p.factor : p.factor);
    }
}

// Changes what it should only read, where told to.
kernel void count(device int *x [[buffer(0)]], device int *total [[buffer(1)]], constant bool &spoil [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) {
    total[i] += x[i];
    if (spoil && i == 2) {
        x[i] = 7;
    }
}

kernel void widen(device const half *x [[buffer(0)]], device float *y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    y[i] = float(x[i]);
}

kernel void widest(device const ulong *x [[buffer(0)]], device ulong *y [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    y[i] = x[i] + 1;
}

kernel void nothing(device float *y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i == 0) {
        y[0] = 0.0f / 0.0f;
    }
}

kernel void endless(device float *y [[buffer(0)]]) {
    for (int i = 0; i >= 0; i = (i + 1) & 0xff) {
        y[0] = float(i);
    }
}
