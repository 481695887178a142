kernel void a(device float * x, float) {}
kernel a2(device float * x) {}
float 3;
constant device int both = 1;
kernel void b(device float * x {
    x[0] = 1;
}
int c;
}
template <typename T, 3> void d();
template <typename T void e();
struct S { int x int y; float z; } ;
struct { int q; }
enum E { p, q r };
using namespace;
static_assert(1, two);
int n
kernel void last() { }
unsigned float u;
long long long l;
while (1) {}
void nested() { void inner() { } }
template void inst<int>() { }
[[buffer(]] int v;
int w, ;
