#include <metal_stdlib>
using namespace metal;

#ifndef AMOUNT
#define AMOUNT 1
#endif

template <typename T>
kernel void raise(device T *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    x[i] += AMOUNT;
}

template [[host_name("raise_u32")]] kernel void raise<uint>(device uint *, uint);
template [[host_name("raise_f32")]] kernel void raise<float>(device float *, uint);

kernel void lone(device uint *x [[buffer(0)]]) {
    x[0] = 5;
}
