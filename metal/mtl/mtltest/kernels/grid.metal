#include <metal_stdlib>
using namespace metal;

struct Attributes {
    uint in_grid[3];
    uint in_group[3];
    uint group[3];
    uint grid_size[3];
    uint group_size[3];
    uint full_group_size[3];
    uint groups[3];
    uint index;
    uint lane;
    uint simdgroup;
    uint simdgroups;
    uint full_simdgroups;
    uint width;
    uint active;
};

// Every thread writes what it knows of its place.
kernel void attributes(device Attributes *out [[buffer(0)]],
                       uint3 in_grid [[thread_position_in_grid]],
                       uint3 in_group [[thread_position_in_threadgroup]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint3 grid_size [[threads_per_grid]],
                       uint3 group_size [[threads_per_threadgroup]],
                       uint3 full_group_size [[dispatch_threads_per_threadgroup]],
                       uint3 groups [[threadgroups_per_grid]],
                       uint index [[thread_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]],
                       uint simdgroups [[simdgroups_per_threadgroup]],
                       uint full_simdgroups [[dispatch_simdgroups_per_threadgroup]],
                       uint width [[threads_per_simdgroup]]) {
    device Attributes &a = out[in_grid.x + grid_size.x * (in_grid.y + grid_size.y * in_grid.z)];
    for (uint i = 0; i < 3; i++) {
        a.in_grid[i] = in_grid[i];
        a.in_group[i] = in_group[i];
        a.group[i] = group[i];
        a.grid_size[i] = grid_size[i];
        a.group_size[i] = group_size[i];
        a.full_group_size[i] = full_group_size[i];
        a.groups[i] = groups[i];
    }
    a.index = index;
    a.lane = lane;
    a.simdgroup = simdgroup;
    a.simdgroups = simdgroups;
    a.full_simdgroups = full_simdgroups;
    a.width = width;
    a.active = simd_sum(1u);
}

// The same of two-component and one-component attributes.
kernel void plane(device uint *out [[buffer(0)]],
                  uint2 p [[thread_position_in_grid]],
                  uint2 n [[threads_per_grid]]) {
    out[p.x + n.x * p.y] = p.x | p.y << 16;
}

kernel void line(device ushort *out [[buffer(0)]], ushort i [[thread_position_in_grid]]) {
    out[i] = ushort(i * 3);
}
