// What the kernels share.
#ifndef MINFER_COMMON_H
#define MINFER_COMMON_H

#include <metal_stdlib>
using namespace metal;

#endif
