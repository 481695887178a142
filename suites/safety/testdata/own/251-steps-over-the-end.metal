// Sums every second element.
#include <metal_stdlib>
using namespace metal;

kernel void evens(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  constant uint &n [[buffer(2)]]) {
    float s = 0.0f;
    for (uint i = 0; i != n; i += 2) {
        s += x[i % n];
    }
    y[0] = s;
}
