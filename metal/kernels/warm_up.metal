// Reads a weight once after it was registered, so that its pages are resident
// before the first token needs them.
#include "common.h"

struct WarmUpParams {
    uint n;      // words of the weight
    uint stride; // words from one that is read to the next
};

// Each thread reads one word of every 32 strides; their sum, modulo 2^32, is the
// output, so that no compiler leaves the reads out. One simdgroup.
kernel void kernel_warm_up(device const uint *w [[buffer(0)]],
                           device uint *sum [[buffer(1)]],
                           constant WarmUpParams &p [[buffer(2)]],
                           uint lane [[thread_index_in_simdgroup]]) {
    uint s = 0;
    for (uint i = lane * p.stride; i < p.n; i += 32 * p.stride) {
        s += w[i];
    }
    s = simd_sum(s);
    if (lane == 0) {
        sum[0] = s;
    }
}
