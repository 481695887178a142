// The KV cache: stores of rows at their positions, and the float copy of a packed
// window.
#include "attn.h"

struct KVParams {
    uint width;    // values of a row
    uint capacity; // rows of the region
};

// Row r of x goes to cell pos[r]; a position outside of the region is left out. A
// thread for each value, the grid is (width, rows).
template <typename KV>
inline void store(device const float *x, device const int *pos, device KV *cache, constant KVParams &p, uint2 at) {
    const int cell = pos[at.y];
    if (at.x < p.width && cell >= 0 && uint(cell) < p.capacity) {
        cache[uint(cell) * p.width + at.x] = KV(x[at.y * p.width + at.x]);
    }
}

#define KV_STORE(name, KV)                                                                             \
    kernel void name(device const float *x [[buffer(0)]], device const int *pos [[buffer(1)]],         \
                     device KV *cache [[buffer(2)]], constant KVParams &p [[buffer(3)]],               \
                     uint2 at [[thread_position_in_grid]]) {                                           \
        store<KV>(x, pos, cache, p, at);                                                               \
    }

KV_STORE(kernel_kv_store_f32, float)
KV_STORE(kernel_kv_store_f16, half)

// A simdgroup for each block of 32.
kernel void kernel_kv_store_q8_0(device const float *x [[buffer(0)]], device const int *pos [[buffer(1)]],
                                 device block_q8_0 *cache [[buffer(2)]], constant KVParams &p [[buffer(3)]],
                                 uint2 group [[threadgroup_position_in_grid]],
                                 uint sg [[simdgroup_index_in_threadgroup]],
                                 uint sgs [[simdgroups_per_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]]) {
    const uint blocks = p.width / 32;
    const uint block = group.x * sgs + sg;
    const int cell = pos[group.y];
    if (block < blocks && cell >= 0 && uint(cell) < p.capacity) {
        kv_put(cache + uint(cell) * blocks + block, x[group.y * p.width + block * 32 + lane], lane);
    }
}

// A thread for each value of the window.
kernel void kernel_kv_dequantize_q8_0(device const block_q8_0 *packed [[buffer(0)]], device float *stage [[buffer(1)]],
                                      uint i [[thread_position_in_grid]]) {
    stage[i] = float(packed[i / 32].qs[i % 32]) * float(packed[i / 32].d);
}
