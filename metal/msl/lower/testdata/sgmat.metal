#include <metal_stdlib>
using namespace metal;

kernel void sgmat(device const half *a, device const half *b, device float *c, constant int &n,
                  ushort sg [[simdgroup_index_in_threadgroup]]) {
    simdgroup_half8x8 ma;
    simdgroup_half8x8 mb[2];
    simdgroup_float8x8 mc[2];
    for (int i = 0; i < 2; i++) mc[i] = make_filled_simdgroup_matrix<float, 8>(0.f);
    for (int k = 0; k < n; k += 8) {
        simdgroup_load(ma, a + sg * 64 + k, 32);
        for (int i = 0; i < 2; i++) simdgroup_load(mb[i], b + k + 8 * i, 64, 0, true);
        for (int i = 0; i < 2; i++) simdgroup_multiply_accumulate(mc[i], ma, mb[i], mc[i]);
    }
    for (int i = 0; i < 2; i++) simdgroup_store(mc[i], c + 8 * i, 16);
}
