#include <metal_stdlib>
using namespace metal;

kernel void atomics(device atomic_uint *n, device atomic_int *m, threadgroup atomic_uint *t, device uint *out) {
    uint old = atomic_fetch_add_explicit(n, 1u, memory_order_relaxed);
    atomic_fetch_min_explicit(m, -3, memory_order_relaxed);
    atomic_store_explicit(t, old, memory_order_relaxed);
    uint e = 5;
    bool ok = atomic_compare_exchange_weak_explicit(n, &e, 6u, memory_order_relaxed, memory_order_relaxed);
    out[0] = ok ? e : atomic_load_explicit(t, memory_order_relaxed);
    out[1] = atomic_exchange_explicit(n, 9u, memory_order_relaxed);
}
