// Packs one value a threadgroup.
#include <metal_stdlib>
using namespace metal;

kernel void pack(device atomic_uint *next [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 uint group [[threadgroup_position_in_grid]]) {
    const uint place = atomic_fetch_add_explicit(next, 1u, memory_order_relaxed);
    y[group] = float(group);
}
