#include <metal_stdlib>
using namespace metal;

// A kernel with its own limit of threads.
[[max_total_threads_per_threadgroup(64)]]
kernel void limited(device uint *dst [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    dst[i] = i;
}
