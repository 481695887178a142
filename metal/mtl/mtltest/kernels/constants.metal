#include <metal_stdlib>
using namespace metal;

constant bool has_bias [[function_constant(0)]];
constant int shift [[function_constant(1)]];
constant uint scale [[function_constant(2)]];
constant float factor [[function_constant(3)]];
constant half small [[function_constant(4)]];
constant short narrow [[function_constant(5)]];
constant uint2 pair [[function_constant(6)]];
constant uint maybe [[function_constant(70)]];

constant uint scaled = scale * 3;
constant uint chosen = is_function_constant_defined(maybe) ? maybe : 9;

kernel void scalars(device float *out [[buffer(0)]]) {
    out[0] = shift;
    out[1] = scaled;
    out[2] = factor;
    out[3] = small;
    out[4] = narrow;
    out[5] = pair.x;
    out[6] = pair.y;
}

// The bias exists only where has_bias says so.
kernel void optional_bias(device const float *x [[buffer(0)]],
                          device const float *bias [[buffer(1), function_constant(has_bias)]],
                          device float *y [[buffer(2)]],
                          uint i [[thread_position_in_grid]]) {
    if (has_bias) {
        y[i] = x[i] + bias[i];
    } else {
        y[i] = x[i];
    }
}

kernel void with_default(device uint *out [[buffer(0)]]) {
    out[0] = chosen;
}

kernel void without(device uint *out [[buffer(0)]]) {
    out[0] = 1;
}
