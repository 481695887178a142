// Rotates each row of 32 vectors and adds its own result again.
#include <metal_stdlib>
using namespace metal;

kernel void rotate(device const float4 *x [[buffer(0)]],
                   device float4 *y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
    const float4 v = x[i];
    float4 w;
    w.x = simd_shuffle_xor(v.x, ushort(1));
    w.y = simd_shuffle_xor(v.y, ushort(2));
    w.z = simd_shuffle_xor(v.z, ushort(4));
    w.w = simd_shuffle_xor(v.w, ushort(8));
    y[i] = w;
    y[i] = y[i] + v;
}
