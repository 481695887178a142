#include <metal_stdlib>
using namespace metal;

kernel void matrix_(device const half2x4 *m, device float4 *y, device half4x4 *h, constant float4x4 &k) {
    half2x4 a = m[0];
    a[1] = a[0] * 2.h;
    a[0][3] = 1;
    y[0] = float4(a[1]) * k[2][1];
    float4x4 f = float4x4(1.0f);
    f[3] = y[0];
    y[1] = k * f[3];
    h[0] = (half4x4) f;
    y[2] = dot(k[0], k[1]);
}
