// A producer and a consumer in one grid.
#include <metal_stdlib>
using namespace metal;

kernel void hand_over(device atomic_uint *flag [[buffer(0)]],
                      device float *y [[buffer(1)]],
                      uint group [[threadgroup_position_in_grid]]) {
    if (group == 1) {
        atomic_store_explicit(flag, 1u, memory_order_relaxed);
    } else {
        while (atomic_load_explicit(flag, memory_order_relaxed) == 0u) {
        }
    }
    y[group] = 1.0f;
}
