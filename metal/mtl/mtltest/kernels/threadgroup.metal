#include <metal_stdlib>
using namespace metal;

// Each threadgroup reverses its part through memory that the host sizes.
kernel void reverse(device const uint *src [[buffer(0)]],
                    device uint *dst [[buffer(1)]],
                    threadgroup uint *stage [[threadgroup(0)]],
                    uint group [[threadgroup_position_in_grid]],
                    uint i [[thread_position_in_threadgroup]],
                    uint n [[threads_per_threadgroup]]) {
    stage[i] = src[group * n + i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    dst[group * n + i] = stage[n - 1 - i];
}

// The same through two arguments and a variable.
kernel void reverse_thrice(device const uint *src [[buffer(0)]],
                           device uint *dst [[buffer(1)]],
                           threadgroup uint *a [[threadgroup(0)]],
                           threadgroup uint *b [[threadgroup(1)]],
                           uint group [[threadgroup_position_in_grid]],
                           uint i [[thread_position_in_threadgroup]],
                           uint n [[threads_per_threadgroup]]) {
    threadgroup uint c[64];
    a[i] = src[group * n + i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    b[i] = a[n - 1 - i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    c[i] = b[n - 1 - i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    dst[group * n + i] = c[n - 1 - i];
}

// All the threadgroup memory that there is.
kernel void whole_memory(device uint *dst [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
    threadgroup uint all[8192];
    for (uint k = i; k < 8192; k += 32) {
        all[k] = k;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint sum = 0;
    for (uint k = 0; k < 256; k++) {
        sum += all[(i + 1) % 32 * 256 + k];
    }
    dst[i] = sum;
}

// A little of it, and an argument for the rest.
kernel void part_memory(device uint *dst [[buffer(0)]],
                        threadgroup uint *more [[threadgroup(0)]],
                        uint i [[thread_position_in_threadgroup]]) {
    threadgroup uint some[32];
    some[i] = i;
    more[i] = 100 * i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    dst[i] = some[31 - i] + more[31 - i];
}
