#include <metal_stdlib>
using namespace metal;

kernel void halves(device const half *x, device half *y, device bfloat *z, device uchar *u, device int *n, device float *f) {
    half h = x[0] * x[1] + x[2];
    y[0] = h * 1.5f;
    half4 v = half4(x[3]);
    v *= 0.1f;
    y[1] = v.x;
    z[0] = bfloat(float(z[1]) + f[0]);
    u[0] = ~u[1] >> 1;
    uchar2 w = uchar2(u[2], u[3]);
    w += w;
    u[4] = w.y;
    n[0] = int(f[1]) + (u[5] << 9);
    n[1] = as_type<int>(f[2]) % 8;
    f[3] = exp(f[4]) + precise::sqrt(f[5]) + pow(f[6], 2.0f) + fma(f[7], f[8], f[9]) + f[10] * f[11] - f[12];
}
