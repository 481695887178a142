// The four greatest of a row, by insertion.
#include <metal_stdlib>
using namespace metal;

kernel void best_four(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      constant int &n [[buffer(2)]],
                      constant int &keep [[buffer(3)]],
                      uint row [[thread_position_in_grid]]) {
    float best[4];
    for (int k = 0; k < keep; ++k) {
        best[k] = -INFINITY;
    }
    for (int i = 0; i < n; ++i) {
        const float v = x[int(row) * n + i];
        int at = 0;
        while (at < keep && best[at] >= v) {
            ++at;
        }
        if (at < keep) {
            for (int k = keep; k > at; --k) {
                best[k] = best[k - 1];
            }
            best[at] = v;
        }
    }
    for (int k = 0; k < keep; ++k) {
        y[int(row) * keep + k] = best[k];
    }
}
