// Each simdgroup counts in its own slot.
#include <metal_stdlib>
using namespace metal;

kernel void own_slots(device const float *x [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      uint tid [[thread_position_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]],
                      uint sg [[simdgroup_index_in_threadgroup]]) {
    threadgroup half pair[4];
    threadgroup uchar bytes[4];
    if (lane == 0) {
        pair[sg] = 0.0h;
        bytes[sg] = 0;
        for (uint k = 0; k < 32; ++k) {
            pair[sg] += half(x[sg * 32 + k]);
            bytes[sg] = uchar(bytes[sg] + 1);
        }
        y[sg] = float(pair[sg]) + float(bytes[sg]);
    }
}
