// An 8 x 8 product through threadgroup memory.
#include <metal_stdlib>
using namespace metal;

kernel void product(device const float *a [[buffer(0)]],
                    device const float *b [[buffer(1)]],
                    device float *y [[buffer(2)]],
                    uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float tile[128];
    for (uint i = lane; i < 64; i += 32) {
        tile[i] = a[i];
        tile[64 + i] = b[i];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 ma, mb;
    simdgroup_float8x8 mc = make_filled_simdgroup_matrix<float, 8>(0.0f);
    simdgroup_load(ma, tile, 8);
    simdgroup_load(mb, tile + 64, 8);
    simdgroup_multiply_accumulate(mc, ma, mb, mc);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_store(mc, tile, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = lane; i < 64; i += 32) {
        y[i] = tile[i];
    }
}
