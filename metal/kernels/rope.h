// Rotations of pairs of channels, for rope and for the fused epilogue.
#ifndef MINFER_ROPE_H
#define MINFER_ROPE_H

#include "common.h"

// A pair's angle grows by a constant with each position. The host gives it as a
// fraction of a turn in units of 2^-64: whole turns fall away in integer arithmetic,
// and no position is too far for a float.
struct RopeFrequency {
    uint hi, lo;
};

struct RopeParams {
    uint head_dim;
    uint n_dims; // rotated channels of a head
    uint heads;  // of a row
    uint neox;   // pairs (k, k + n_dims/2) instead of (2k, 2k + 1)
    float magnitude;
};

// Cosine and sine of pair k at a position, times the magnitude. The angle is brought
// to an eighth of a turn around the nearest quarter; the power series that is left is
// exact to 2^-29. Positions are 0 or more. A negative one is out of contract: it counts
// as the position 2^32 further on, which gives a finite rotation and no backward one.
inline void rope_rotation(constant RopeFrequency &f, uint pos, float magnitude, thread float &c, thread float &s) {
    const uint turn = pos * f.hi + mulhi(pos, f.lo); // in units of 2^-32
    const uint quarter = (turn + 0x20000000u) >> 30;
    const float r = float(int(turn - (quarter << 30))) * 1.4629180792671596e-9f; // 2*pi * 2^-32
    const float z = r * r;
    float even = -2.7557319e-7f;
    even = fma(even, z, 2.4801587e-5f);
    even = fma(even, z, -1.3888889e-3f);
    even = fma(even, z, 4.1666667e-2f);
    even = fma(even, z, -0.5f);
    even = fma(even, z, 1.0f);
    float odd = 2.7557319e-6f;
    odd = fma(odd, z, -1.9841270e-4f);
    odd = fma(odd, z, 8.3333333e-3f);
    odd = fma(odd, z, -1.6666667e-1f);
    odd = fma(odd * z, r, r);
    const float a = (quarter & 1) != 0 ? odd : even;
    const float b = (quarter & 1) != 0 ? even : odd;
    c = ((quarter + 1) & 2) != 0 ? -a : a;
    s = (quarter & 2) != 0 ? -b : b;
    c *= magnitude;
    s *= magnitude;
}

// The channels of pair k in a head.
inline uint rope_first(constant RopeParams &p, uint k) { return p.neox != 0 ? k : 2 * k; }
inline uint rope_second(constant RopeParams &p, uint k) { return p.neox != 0 ? k + p.n_dims / 2 : 2 * k + 1; }

#endif
