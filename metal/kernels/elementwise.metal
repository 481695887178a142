// Element by element: sums, products, and the gated activation. y may be the memory
// of an input: an element is read and written by the same thread.
#include "common.h"

struct ElementParams {
    uint n;   // elements of the output
    uint off; // of the second half, for swiglu_off
};

// exp stays finite; below -87 the result is less than 2e-36.
inline float silu(float x) {
    const float y = x / (1.0f + exp(min(-x, 87.0f)));
    return x < -87.0f ? 0.0f : y;
}

inline float add(float a, float b) { return a + b; }
inline float mul(float a, float b) { return a * b; }
inline float swiglu(float gate, float up) { return silu(gate) * up; }

// A threadgroup of 256 threads takes 1024 elements, a lane four of them, 256 apart.
#define BINARY(name)                                                                                   \
    kernel void kernel_##name(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], \
                              device float *y [[buffer(2)]], constant ElementParams &p [[buffer(3)]],  \
                              uint group [[threadgroup_position_in_grid]],                             \
                              uint tid [[thread_index_in_threadgroup]]) {                              \
        const uint first = group * 1024 + tid;                                                         \
        for (uint i = first; i < min(group * 1024 + 1024, p.n); i += 256) {                            \
            y[i] = name(a[i], b[i]);                                                                   \
        }                                                                                              \
    }

BINARY(add)
BINARY(mul)
BINARY(swiglu)

kernel void kernel_silu(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                        constant ElementParams &p [[buffer(2)]],
                        uint group [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]]) {
    for (uint i = group * 1024 + tid; i < min(group * 1024 + 1024, p.n); i += 256) {
        y[i] = silu(x[i]);
    }
}

// x is the gates and, from off on, their factors.
kernel void kernel_swiglu_off(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                              constant ElementParams &p [[buffer(2)]],
                              uint group [[threadgroup_position_in_grid]],
                              uint tid [[thread_index_in_threadgroup]]) {
    for (uint i = group * 1024 + tid; i < min(group * 1024 + 1024, p.n); i += 256) {
        y[i] = swiglu(x[i], x[p.off + i]);
    }
}

struct PermuteParams {
    uint n;
    uint size[4]; // of the output
    uint step[4]; // in the input, of each dimension of the output
};

// Copies of up to four dimensions in another order, a thread for each element of the
// output.
kernel void kernel_permute(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                           constant PermuteParams &p [[buffer(2)]],
                           uint i [[thread_position_in_grid]]) {
    if (i < p.n) {
        const uint r1 = i / p.size[0], r2 = r1 / p.size[1], r3 = r2 / p.size[2];
        y[i] = x[i % p.size[0] * p.step[0] + r1 % p.size[1] * p.step[1] + r2 % p.size[2] * p.step[2] + r3 * p.step[3]];
    }
}
