#include <metal_stdlib>
using namespace metal;

constant bool has_mask [[function_constant(0)]];
constant int width [[function_constant(1)]];
constant bool wide = width > 8;
constant float scale [[function_constant(2)]];
constant float scale_or = is_function_constant_defined(scale) ? scale : 2.0f;

kernel void constants(device float *x, device const float *mask [[function_constant(has_mask)]], constant int &n,
                      uint i [[thread_position_in_grid]]) {
    float v = x[i] * scale_or;
    if (has_mask) v += mask[i];
    float acc[4] = {0};
    #pragma unroll
    for (int k = 0; k < width; k++) acc[k & 3] += v;
    switch (width) {
    case 2: v = acc[0]; break;
    case 4: v = acc[3]; break;
    default: v = wide ? 1 : acc[1];
    }
    x[i] = v;
}
