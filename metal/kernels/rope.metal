// Rotary position embedding of every head of every row. y may be the memory of x: a
// pair is read and written by the same thread.
#include "rope.h"

// Heads that one thread rotates by the same angle.
#define ROPE_HEADS 8

// The grid is (pairs and channels that are not rotated, heads / ROPE_HEADS, rows): a
// thread takes pair k, or copies channel k + n_dims/2 where k is past the pairs.
kernel void kernel_rope(device const float *x [[buffer(0)]], device const int *pos [[buffer(1)]],
                        device float *y [[buffer(2)]], constant RopeParams &p [[buffer(3)]],
                        constant RopeFrequency *frequencies [[buffer(4)]],
                        uint3 at [[thread_position_in_grid]]) {
    const uint k = at.x, pairs = p.n_dims / 2;
    const uint first = at.y * ROPE_HEADS, last = min(first + ROPE_HEADS, p.heads);
    const uint row = at.z * p.heads;
    if (k < pairs) {
        float c, s;
        rope_rotation(frequencies[k], uint(pos[at.z]), p.magnitude, c, s);
        const uint i = rope_first(p, k), j = rope_second(p, k);
        for (uint h = first; h < last; h++) {
            const uint head = (row + h) * p.head_dim;
            const float a = x[head + i], b = x[head + j];
            y[head + i] = a * c - b * s;
            y[head + j] = a * s + b * c;
        }
    } else if (k + pairs < p.head_dim) {
        for (uint h = first; h < last; h++) {
            const uint head = (row + h) * p.head_dim + pairs;
            y[head + k] = x[head + k];
        }
    }
}
