// Which simdgroup saw a value above the threshold.
#include <metal_stdlib>
using namespace metal;

kernel void witness(device const float *x [[buffer(0)]],
                    device atomic_uint *who [[buffer(1)]],
                    uint tid [[thread_position_in_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]],
                    uint sg [[simdgroup_index_in_threadgroup]]) {
    const float m = simd_max(x[tid]);
    if (lane == 0 && m > 0.0f) {
        atomic_fetch_max_explicit(who, sg, memory_order_relaxed);
    }
}
