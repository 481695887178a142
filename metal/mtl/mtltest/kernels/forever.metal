#include <metal_stdlib>
using namespace metal;

// Ends when x[0] is 1, which nobody makes it.
kernel void forever(device volatile uint *x [[buffer(0)]]) {
    while (x[0] != 1) {
        x[1] += 1;
    }
}
