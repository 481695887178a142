kernel void f(device float * a, uint i) {
    float x = a[i]
    float y = 1;
    a[i = 2;
    if (x > 1 { y = 2; }
    for (int k = 0; k < 4 k++) { y = 3; }
    y = x + ;
    y = (x + 1;
    foo(x, );
    return y
}
float after(float z) { return z; }
int g() { goto done; done: return 1; else x; }
kernel void h() {
    double d = new float;
    float16 m = 1.0q + 08 + 'abcde';
    x = float;
    const y;
    T @ z;
}
