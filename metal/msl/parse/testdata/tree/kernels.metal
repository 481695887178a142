#include <metal_stdlib>
using namespace metal;

constant int width [[function_constant(0)]];
constant bool wide = width > 64;
constant float table[4] = { [0 ... 1] = 0.5h, [3] = -1.0f, };

[[max_total_threads_per_threadgroup(256)]]
kernel void add(
    device const float * a [[buffer(0)]],
    device float * b,
    constant uint & n [[buffer(2)]],
    threadgroup half * shared [[threadgroup(0)]],
    device const float * mask [[buffer(3), function_constant(wide)]],
    uint3 tgpig [[threadgroup_position_in_grid]],
    ushort lane[[thread_index_in_simdgroup]])
{
    threadgroup float tile[8][4];
    device const float * rows[2] = { a, a + n };
    if (tgpig.x >= n || n == 0) return;
    b[tgpig.x] = a[tgpig.x] + (float) shared[lane];
    threadgroup_barrier(mem_flags::mem_threadgroup);
}
