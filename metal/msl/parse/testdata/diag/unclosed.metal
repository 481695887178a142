kernel void f(device float * a) {
    if (a[0] > 1) {
        a[0] = 2;
