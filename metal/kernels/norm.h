// Sums of squares, for the norms and for the fused epilogue: the same bits in both.
#ifndef MINFER_NORM_H
#define MINFER_NORM_H

#include "common.h"

// The squares that one of stride lanes adds up: four sums, so that they do not wait
// for each other. P is a pointer to floats.
template <typename P>
inline float squares(P x, uint cols, uint first, uint stride) {
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint i = first;
    for (; i + 3 * stride < cols; i += 4 * stride) {
#pragma unroll
        for (uint j = 0; j < 4; j++) {
            const float v = x[i + j * stride];
            sum[j] += v * v;
        }
    }
    for (; i < cols; i += stride) {
        sum[0] += x[i] * x[i];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

#endif
