#include <metal_stdlib>
using namespace metal;

kernel void vectors(device const float4 *x, device float4 *y, device packed_float3 *z, uint i [[thread_position_in_grid]]) {
    float4 v = x[i];
    v.w = v.x;
    v.xy = v.yx;
    float2 d = float2(v.z) + v.xy * 2;
    y[i].y = d.x;
    y[i + 1].zw = d;
    z[i] = packed_float3(v.xyz);
    bool4 c = v < float4(1, 2, 3, 4);
    y[i + 2] = select(v, float4(0), c);
    float s = 0;
    for (int k = 0; k < 4; k++) s += v[k];
    y[i + 3] = s;
}
