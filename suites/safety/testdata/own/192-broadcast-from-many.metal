// The first value of each half, to all lanes of the half.
#include <metal_stdlib>
using namespace metal;

kernel void half_heads(device const float *x [[buffer(0)]],
                       device float *y [[buffer(1)]],
                       uint lane [[thread_index_in_simdgroup]]) {
    const ushort source = ushort(lane / 16 * 16);
    y[lane] = simd_broadcast(x[lane], source);
}
