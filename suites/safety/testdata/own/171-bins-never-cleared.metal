// Private histogram of a row's signs.
#include <metal_stdlib>
using namespace metal;

kernel void signs(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  constant int &n [[buffer(2)]],
                  constant int &bins [[buffer(3)]],
                  uint row [[thread_position_in_grid]]) {
    float count[4];
    for (int b = 0; b < 0; ++b) {
        count[b] = 0.0f;
    }
    for (int i = 0; i < n; ++i) {
        const int b = x[int(row) * n + i] < 0.0f ? 0 : bins - 1;
        count[b] += 1.0f;
    }
    for (int b = 0; b < bins; ++b) {
        y[int(row) * bins + b] = count[b];
    }
}
