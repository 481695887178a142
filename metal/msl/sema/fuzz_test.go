package sema_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/sema"
)

// FuzzCheck runs arbitrary text through all phases of the front end: no panic, no hang,
// and a kernel that is reported without errors has what lowering needs.
func FuzzCheck(f *testing.F) {
	for _, c := range rejected {
		src, _ := place(c.src)
		f.Add(head + src)
	}
	for _, c := range accepted {
		f.Add(head + c.src)
	}
	for _, s := range nasty {
		f.Add(head + s)
	}
	opt := sema.Options{MaxInstances: 2000, MaxDepth: 300, MaxSteps: 20000, MaxErrors: 50}
	f.Fuzz(func(t *testing.T, src string) {
		// A hang must leave its input behind.
		watch := time.AfterFunc(30*time.Second, func() { panic("no end after 30 seconds") })
		defer watch.Stop()
		toks, _, _ := pp.Process(fstest.MapFS{"t.metal": {Data: []byte(src)}}, "t.metal", pp.Options{})
		if len(toks) > 20000 {
			return
		}
		file, _ := parse.File(toks, parse.Options{})
		prog, diags := sema.Check(file, opt)
		for _, d := range diags {
			if strings.HasPrefix(d.Msg, "internal error") {
				t.Fatal(d.Msg)
			}
		}
		for _, k := range prog.Kernels {
			if len(k.Errors) > 0 {
				continue
			}
			if k.Func == nil || k.Func.Body == nil {
				t.Fatalf("kernel %s has no errors and no body", k.HostName)
			}
			for _, p := range k.Params {
				if p.Var == nil || p.Kind != sema.GridParam && p.Index < 0 {
					t.Fatalf("kernel %s has parameter %+v", k.HostName, p)
				}
			}
		}
	})
}

// nasty are programs that try to exhaust or confuse the checker.
var nasty = []string{
	"template <int N> struct S { static constexpr constant int v = S<N + 1>::v; };\nconstant int x = S<0>::v;",
	"template <typename T> void f(T x) { f(&x); }\nkernel void k() { int i; f(i); }",
	"template <int N> void f() { f<N + 1>(); }\nkernel void k() { f<0>(); }",
	"template <typename T> struct A { A<A<T>> *p; };\nA<int> a; kernel void k() { A<int> a; }",
	"template <typename T> struct A { A<A<T>> p; };\nkernel void k() { A<int> a; }",
	"struct A { A a; }; kernel void k() { A a; }",
	"struct A { A a[2]; struct B { A a; } b; };",
	"template <typename T> using X = typename T::type; struct A { typedef X<A> type; }; X<A> f();",
	"constexpr int f(int n) { return f(n) + f(n); } constant int x = f(1);",
	"constexpr int f(int n) { int a[1000000] = {}; for (;;) a[n++] = n; } constant int x = f(1);",
	"constant int x = x; constant int y[y] = {};",
	"constant int a[1 << 30] = {}; constant int b[100000][100000][100000];",
	"auto f() { return f(); } kernel void k() { f(); }",
	"auto f(int n) { if (n) return 1; return f(n - 1); } kernel void k() { f(1); }",
	"struct S : S {}; struct T : T2 {}; struct T2 : T {};",
	"template <typename... T> struct P : P<T..., int> {}; P<> p; kernel void k() { P<> q; }",
	"template <typename T, T v> struct C {}; C<C<int, 1>, 1> c; template <template <typename> class X> void f(); kernel void k() { f<C>(); }",
	"enum E { a = a, b = E::c }; enum class F : F {}; enum G : float {};",
	"union U { U u; int x; }; kernel void k() { U u = {.u = {.x = 1}}; }",
	"struct S { operator S() const { return *this; } S(S s) {} }; kernel void k() { S s = S(S()); int x = s; }",
	"struct A { operator struct B() const; }; struct B { B(A a); operator A() const; }; kernel void k() { A a; B b = a; a = b; }",
	"kernel void k(device int (*a)[3], device int *device *b, constant struct Q &q) {}",
	"void operator+(int, int); int operator[](int); struct S { S operator()(S); S operator[](S); }; kernel void k() { S s; s(s)[s](s); }",
	"template <> void f<int>(int); template <> struct X<int> {}; template <typename T> struct X<T *>; template void g<int>(int);",
	"#define R(x) x x x x x x x x\nkernel void k() { R(R(R(R({ ;)))) R(R(R(R(}))))) }",
	"kernel void k(int a [[thread_position_in_grid]], uint a [[thread_position_in_grid]], device int *a) { a = a; }",
	"template <typename T> kernel void k(T x) {} template [[host_name(\"\")]] kernel void k<int>(int); template [[host_name(1)]] [[kernel]] decltype(k<float>) k<float>;",
	"struct S { int x = y; int y = x; S s = {}; }; kernel void k() { S s{}; }",
	"void f(int x = f2()); kernel void k() { f(); } constexpr int g(int n = g()) { return n; } constant int z = g();",
	"kernel void k() { switch (1) { case 1 ... 1000000000: break; case 0x7fffffffffffffff ... 0x7fffffffffffffff: ; } }",
	"using namespace metal; namespace metal { using namespace metal; float exp(float x) { return exp(x); } }",
	"namespace a { using namespace a; using a::a; } namespace b = b; using namespace b;",
	"kernel void k() { thread int *p = nullptr; p[p[0]] = *p++ + *--p; (*p)(); p->x; p(); }",
	"constant auto x = {1, 2}; constant auto y = x; auto z; decltype(auto) w = 1; decltype(decltype(1)) v;",
	"template <int N> struct A { int a[N]; }; kernel void k() { A<-1> a; A<1000000000> b; A<0> c; c.a[0] = 1; }",
	"kernel void k() { float4x4 m = {{1,2},{3}}; m[0][1] += m * m; m *= m; m = -m; half2x2 h(1); h = h * 2; float x = m; }",
	"kernel void k() { for (;;) { for (auto &x : x) {} while (int i = i) break; } }",
	"template <typename A, typename B> struct P { A a; B b; }; template <typename T> struct D { static constexpr constant int v = D<P<T, T>>::v; }; constant int x = D<int>::v;",
	"template <typename T> void f() { f<void (*)(T, T)>(); } kernel void k() { f<int>(); }",
	"template <typename A, typename B> void g(A a, B b) { g(g<A, B>, g<B, A>); } kernel void k() { g(1, 2); }",
	"typedef void (*F0)(int, int); typedef void (*F1)(F0, F0); typedef void (*F2)(F1, F1); typedef void (*F3)(F2, F2); typedef void (*F4)(F3, F3); typedef void (*F5)(F4, F4); typedef void (*F6)(F5, F5); typedef void (*F7)(F6, F6); typedef void (*F8)(F7, F7); typedef void (*F9)(F8, F8); typedef void (*Fa)(F9, F9); typedef void (*Fb)(Fa, Fa); typedef void (*Fc)(Fb, Fb); void h(Fc f) {}",
	"struct A { int v[1 << 26]; }; struct B { A a[1], b[1], c[1]; }; struct C { B a, b, c, d; }; kernel void k(device C *c) { c[1 << 30].a = c->b; }",
	"template <typename... T> struct Q {}; template <typename... T> void v(T... t) { v(Q<T...>(), Q<T...>(), t...); } kernel void k() { v(1); }",
	"template <typename T> struct A; template <typename T> struct B : A<T> {}; template <typename T> struct A : B<T> {}; kernel void k() { A<int> a; }",
}

func TestNasty(t *testing.T) {
	for _, s := range nasty {
		run(t, s) // must end, without a panic
	}
}
