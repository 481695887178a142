// First-order recursion over a row, with the history in a private array.
#include <metal_stdlib>
using namespace metal;

kernel void recursion(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      constant int &n [[buffer(2)]],
                      uint row [[thread_position_in_grid]]) {
    float history[16];
    for (int i = 0; i < n; ++i) {
        const float last = i > 0 ? history[i - 1] : 0.0f;
        history[i] = x[int(row) * n + i] + 0.5f * last;
    }
    for (int i = 0; i < n; ++i) {
        y[int(row) * n + i] = history[i];
    }
}
