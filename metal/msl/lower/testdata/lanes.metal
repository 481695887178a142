#include <metal_stdlib>
using namespace metal;

kernel void lanes(device float *x, ushort lane [[thread_index_in_simdgroup]]) {
    simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8>(1.0f);
    m.thread_elements()[1] = x[lane];
    float2 v = reinterpret_cast<thread float2 &>(m.thread_elements());
    reinterpret_cast<thread float2 &>(m.thread_elements()) = v * 2;
    thread auto &r = m.thread_elements();
    r[0] += 1;
    simdgroup_store(m, x, 8, ulong2(0, 8));
}
