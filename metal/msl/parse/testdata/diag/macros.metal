#define LOAD(p, i) (p)[i
#define TWICE(x) LOAD(x, 0) + LOAD(x, 1)
#define OK(x) (x)
kernel void f(device float * a) {
    float x = TWICE(a);
    float y = OK(a[0] +);
    float z = OK(OK(1 2));
}
