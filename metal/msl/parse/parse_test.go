package parse

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/source"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// parseText preprocesses and parses a text as t.metal.
func parseText(text string) (*ast.File, *source.Map, []source.Diag) {
	toks, m, ds := pp.Process(fstest.MapFS{"t.metal": {Data: []byte(text)}}, "t.metal", pp.Options{})
	f, more := File(toks, Options{})
	return f, m, append(ds, more...)
}

// golden compares a result with testdata/dir/name.txt.
func golden(t *testing.T, file, got string) {
	t.Helper()
	name := strings.TrimSuffix(file, ".metal") + ".txt"
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err, "go test -update writes the golden files")
	require.Equal(t, string(want), got, "%s", name)
}

func goldenInputs(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/" + dir + "/*.metal")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	results, _ := filepath.Glob("testdata/" + dir + "/*.txt")
	for _, r := range results {
		require.FileExists(t, strings.TrimSuffix(r, ".txt")+".metal", "a golden file without its input")
	}
	return files
}

// TestTrees compares whole trees. The golden files were read by a person against
// the grammar; the tests below check single rules by themselves.
func TestTrees(t *testing.T) {
	for _, file := range goldenInputs(t, "tree") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		f, m, ds := parseText(string(text))
		require.Empty(t, m.RenderAll(ds), file)
		golden(t, file, ast.Dump(f)+"\n")
		checkRanges(t, m, f)
	}
}

// TestDiagnostics compares messages, places and carets, and that reading goes on
// behind an error.
func TestDiagnostics(t *testing.T) {
	for _, file := range goldenInputs(t, "diag") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, m, ds := parseText(string(text))
		require.NotEmpty(t, ds, file)
		golden(t, file, m.RenderAll(ds))
	}
}

// checkRanges checks that every node covers text and lies in its parent.
func checkRanges(t *testing.T, m *source.Map, n ast.Node) {
	t.Helper()
	walk(reflect.ValueOf(n), n, func(parent, child ast.Node) {
		p, c := parent.Span(), child.Span()
		require.True(t, c.Start.IsValid() && c.End.IsValid(), "%T without a range in %T %s", child, parent, m.Position(p.Start))
		text, ok := m.Text(c)
		if m.InMacro(c.Start) || m.InMacro(c.End) {
			return
		}
		require.True(t, ok, "%T at %s", child, m.Position(c.Start))
		require.Equal(t, strings.TrimSpace(text), text, "%T at %s", child, m.Position(c.Start))
		if m.InMacro(p.Start) || m.InMacro(p.End) {
			return
		}
		require.True(t, p.Start <= c.Start && c.End <= p.End || declarators(parent, child), "%T %q of %T at %s is not in it", child, text, parent, m.Position(c.Start))
	})
}

// declarators are nodes that do not nest in the text: the type of `a[2], *b` goes
// around the name.
func declarators(parent, child ast.Node) bool {
	switch parent.(type) {
	case *ast.VarDecl, *ast.FuncDecl, *ast.TypedefDecl, *ast.ParamDecl, *ast.TemplateParam, *ast.FuncType, *ast.PointerType, *ast.ArrayType,
		*ast.ReferenceType, *ast.QualifiedType, *ast.TemplateDecl, *ast.InstanceDecl:
		_, isType := child.(ast.Type)
		return isType
	}
	if _, ok := child.(*ast.Unroll); ok {
		return true // the pragma stands before its loop
	}
	return false
}

// walk calls f for every node below n with the nearest node above it.
func walk(v reflect.Value, parent ast.Node, f func(parent, child ast.Node)) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), parent, f)
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if n, ok := v.Interface().(ast.Node); ok {
			if n != parent {
				f(parent, n)
			}
			parent = n
		}
		walk(v.Elem(), parent, f)
	case reflect.Slice:
		for i := 0; i < v.Len(); i++ {
			walk(v.Index(i), parent, f)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			walk(v.Field(i), parent, f)
		}
	}
}

// expression parses text as the initialiser of a variable behind some
// declarations.
func expression(t *testing.T, text string) string {
	t.Helper()
	f, m, ds := parseText("typedef int T; template <int N> struct S { int x; }; template <typename U> U tmpl(U u); int a, b, c, d;\n" +
		"template <typename D> void f(D p) { auto v = " + text + "; }")
	require.Empty(t, m.RenderAll(ds), text)
	body := f.Decls[len(f.Decls)-1].(*ast.TemplateDecl).Decl.(*ast.FuncDecl).Body
	return ast.Dump(body.Stmts[0].(*ast.DeclStmt).Decls[0].(*ast.VarDecl).Init)
}

// show writes an expression with every operation in parentheses.
func show(e ast.Expr) string {
	list := func(es []ast.Expr) string {
		var s []string
		for _, e := range es {
			s = append(s, show(e))
		}
		return strings.Join(s, ", ")
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return show(e.X)
	case *ast.UnaryExpr:
		return "(" + e.Op + show(e.X) + ")"
	case *ast.PostfixExpr:
		return "(" + show(e.X) + e.Op + ")"
	case *ast.BinaryExpr:
		return "(" + show(e.X) + " " + e.Op + " " + show(e.Y) + ")"
	case *ast.AssignExpr:
		return "(" + show(e.X) + " " + e.Op + " " + show(e.Y) + ")"
	case *ast.CondExpr:
		return "(" + show(e.Cond) + " ? " + show(e.Then) + " : " + show(e.Else) + ")"
	case *ast.CastExpr:
		return "cast(" + ast.Dump(e.Type) + ", " + show(e.X) + ")"
	case *ast.ConstructExpr:
		return "new(" + ast.Dump(e.Type) + "; " + list(e.Args) + ")"
	case *ast.CallExpr:
		return "call(" + show(e.Fn) + "; " + list(e.Args) + ")"
	case *ast.IndexExpr:
		return show(e.X) + "[" + show(e.Index) + "]"
	case *ast.MemberExpr:
		return show(e.X) + "." + ast.Dump(e.Name)
	case *ast.InitList:
		return "{" + list(e.Elems) + "}"
	default:
		return ast.Dump(e)
	}
}

func TestExpressions(t *testing.T) {
	for text, want := range map[string]string{
		// Precedence and associativity.
		"a + b * c":               "(a + (b * c))",
		"a - b - c":               "((a - b) - c)",
		"a = b = c":               "(a = (b = c))",
		"a ? b : c ? d : a":       "(a ? b : (c ? d : a))",
		"a || b && c | d ^ a & b": "(a || (b && (c | (d ^ (a & b)))))",
		"a == b < c << d + a":     "(a == (b < (c << (d + a))))",
		"-a * !b + ~c":            "(((-a) * (!b)) + (~c))",
		"*p++ = -- a":             "((*(p++)) = (--a))",
		"&a[b].x.y":               "(&a[b].x.y)",
		"p->x(a)(b)[c]++":         "(call(call(p.x; a); b)[c]++)",
		"a += b ? c : d":          "(a += (b ? c : d))",
		"a and not b or c":        "((a && (!b)) || c)",
		// Casts against parentheses.
		"(T)a":                "cast(T, a)",
		"(T)-a":               "cast(T, (-a))",
		"(a)-b":               "(a - b)",
		"(a)(b)":              "call(a; b)",
		"(T)(a)":              "cast(T, a)",
		"(T)a + b":            "(cast(T, a) + b)",
		"(device const T *)a": "cast((PointerType Elem=(QualifiedType Quals=const Space=device Elem=T)), a)",
		"(half4x4)a":          "cast(half4x4, a)",
		"(thread D (&)[2])a":  "cast((ReferenceType Elem=(ArrayType Elem=(QualifiedType Space=thread Elem=D) Len=2)), a)",
		"(T(a) + b)":          "(new(T; a) + b)",
		"(unknown)a":          "cast(unknown, a)",
		"(unknown)-a":         "(unknown - a)",
		"(unknown *)a":        "cast((PointerType Elem=unknown), a)",
		"(unknown * a)":       "(unknown * a)",
		"(typename D::type)a": "cast(typename D::type, a)",
		"(T){1, 2}":           "cast(T, {1, 2})",
		// Template arguments against comparisons.
		"a < b":                         "(a < b)",
		"a < b > (c)":                   "((a < b) > c)",
		"tmpl<int>(a)":                  "call(tmpl<int>; a)",
		"tmpl<S<3>>(a)":                 "call(tmpl<S<3>>; a)",
		"tmpl<S<(3 > 2)>>(a)":           "call(tmpl<S<(ParenExpr X=(BinaryExpr Op=\">\" X=3 Y=2))>>; a)",
		"S<a<b>::x":                     "S<(BinaryExpr Op=\"<\" X=a Y=b)>::x",
		"S<3>{a}.x":                     "new(S<3>; a).x",
		"as_type<half2>(a).x":           "call(as_type<half2>; a).x",
		"unknown<int>(a)":               "call(unknown<int>; a)",
		"unknown < a && b > (c)":        "((unknown < a) && (b > c))",
		"p.x < a":                       "(p.x < a)",
		"p.x < a > (b)":                 "((p.x < a) > b)",
		"p.x<int>(b)":                   "call(p.x<int>; b)",
		"p.template x<a>(b)":            "call(p.x<a>; b)",
		"vec<T, 4>(a)":                  "new(vec<T, 4>; a)",
		"metal::vec<D, 2>{a, b}":        "new(metal::vec<D, 2>; a, b)",
		"metal::max(a, b)":              "call(metal::max; a, b)",
		"D::value < a":                  "(D::value < a)",
		"is_same<T, D>::value && a < b": "(is_same<T, D>::value && (a < b))",
		"is_same_v<T, D> == b":          "(is_same_v<T, D> == b)",
		"decltype(a)::n + 1":            "((DecltypeType X=a)::n + 1)",
		"a < b && c > d":                "((a < b) && (c > d))",
		"a >> b > c":                    "((a >> b) > c)",
		// Constructions.
		"float4(a, b)":        "new(float4; a, b)",
		"float(a)":            "new(float; a)",
		"unsigned(a)":         "new(unsigned int; a)",
		"T()":                 "new(T; )",
		"D(a)":                "new(D; a)",
		"typename D::type(a)": "new(typename D::type; a)",
		// Literals.
		"1.5h + 0x10u":   "(1.5h + 16u)",
		"\"a\" \"b\\n\"": "(StringLit Value=\"ab\\n\")",
	} {
		f, m, ds := parseText("typedef int T; template <int N> struct S { int x; }; template <typename U> U tmpl(U u); int a, b, c, d;\n" +
			"template <typename D> void f(D p) { auto v = " + text + "; }")
		require.Empty(t, m.RenderAll(ds), text)
		body := f.Decls[len(f.Decls)-1].(*ast.TemplateDecl).Decl.(*ast.FuncDecl).Body
		got := show(body.Stmts[0].(*ast.DeclStmt).Decls[0].(*ast.VarDecl).Init)
		require.Equal(t, want, got, text)
		checkRanges(t, m, f)
	}
	require.Equal(t, `(FoldExpr Op="+" X=p)`, expression(t, "(p + ...)"))
	require.Equal(t, `(FoldExpr Op="," Left X=p)`, expression(t, "(... , p)"))
	require.Equal(t, `(FoldExpr Op="+" X=p Init=a)`, expression(t, "(p + ... + a)"))
	require.Equal(t, `(SizeofPackExpr Name=p)`, expression(t, "sizeof...(p)"))
	require.Equal(t, `(SizeofExpr Type=T)`, expression(t, "sizeof(T)"))
	require.Equal(t, `(SizeofExpr X=(ParenExpr X=a))`, expression(t, "sizeof(a)"))
	require.Equal(t, `(SizeofExpr Align Type=(PointerType Elem=(QualifiedType Space=device Elem=T)))`, expression(t, "alignof(device T *)"))
	require.Equal(t, `(NamedCastExpr Kind=reinterpret_cast Type=(PointerType Elem=(QualifiedType Space=device Elem=S<3>)) X=a)`, expression(t, "reinterpret_cast<device S<3>*>(a)"))
}

func TestTypes(t *testing.T) {
	for text, want := range map[string]string{
		"unsigned long int x": "unsigned long", "long unsigned x": "unsigned long", "signed char x": "signed char", "char unsigned x": "unsigned char",
		"short x": "short", "long long x": "long long", "unsigned x": "unsigned int", "signed x": "int",
		"const device float *x":                 "(PointerType Elem=(QualifiedType Quals=const Space=device Elem=float))",
		"float device const *x":                 "(PointerType Elem=(QualifiedType Quals=const Space=device Elem=float))",
		"device float * const x":                "(QualifiedType Quals=const Elem=(PointerType Elem=(QualifiedType Space=device Elem=float)))",
		"thread float * device * x":             "(PointerType Elem=(QualifiedType Space=device Elem=(PointerType Elem=(QualifiedType Space=thread Elem=float))))",
		"device float * restrict x":             "(QualifiedType Quals=restrict Elem=(PointerType Elem=(QualifiedType Space=device Elem=float)))",
		"volatile coherent device int *x":       "(PointerType Elem=(QualifiedType Quals=volatile|coherent Space=device Elem=int))",
		"coherent(system) device int *x":        "(PointerType Elem=(QualifiedType Quals=coherent Space=device Elem=int))",
		"threadgroup float x[2][3]":             "(ArrayType Elem=(ArrayType Elem=(QualifiedType Space=threadgroup Elem=float) Len=3) Len=2)",
		"float *x[3]":                           "(ArrayType Elem=(PointerType Elem=float) Len=3)",
		"float (*x)[3]":                         "(PointerType Elem=(ArrayType Elem=float Len=3))",
		"float (&x)[]":                          "(ReferenceType Elem=(ArrayType Elem=float))",
		"void (*x)(int, device float *)":        "(PointerType Elem=(FuncType Result=void Params=[(ParamDecl Type=int) (ParamDecl Type=(PointerType Elem=(QualifiedType Space=device Elem=float)))]))",
		"float (*(*x)(int))[2]":                 "(PointerType Elem=(FuncType Result=(PointerType Elem=(ArrayType Elem=float Len=2)) Params=[(ParamDecl Type=int)]))",
		"vec<float, 3> x":                       "vec<float, 3>",
		"array<array<float, 3>, 2> x":           "array<array<float, 3>, 2>",
		"metal::simdgroup_matrix<half, 8, 8> x": "metal::simdgroup_matrix<half, 8, 8>",
		"unknown_t x":                           "unknown_t",
		"struct S x":                            "(RecordType Decl=(RecordDecl Name=S))",
		"decltype(1 + 2) x":                     "(DecltypeType X=(BinaryExpr Op=\"+\" X=1 Y=2))",
		"auto && x":                             "(ReferenceType Elem=(AutoType) RValue)",
		"int S::* x":                            "(MemberPointerType Class=S Elem=int)",
	} {
		f, m, ds := parseText("extern " + text + ";")
		require.Empty(t, m.RenderAll(ds), text)
		require.Equal(t, want, ast.Dump(f.Decls[0].(*ast.VarDecl).Type), text)
		require.Equal(t, "x", f.Decls[0].(*ast.VarDecl).Name.Last().Ident)
	}
}

// TestStatementsOrDeclarations: what is a declaration depends on what is known.
func TestStatementsOrDeclarations(t *testing.T) {
	for text, decl := range map[string]bool{
		"T * x;": true, "v * x;": false, "unknown * x;": true, "unknown x;": true, "unknown<int> x;": true, "T(x);": true, "T(v) + 1;": false,
		"T{v};": false, "float4(v);": true, "float4(v, v);": false, "T (*x)(int);": true, "v(x);": false, "unknown(x);": false, "N::T x;": true,
		"N::v = 1;": false, "::T x;": true, "device float * x = v;": true, "const auto & x = v;": true, "v < x;": false, "T::count;": false,
		"N::f<int>(v);": false, "typename Q::T x;": true, "decltype(v) x = 1;": true, "static_assert(1);": true, "struct L { int a; } l;": true,
		"unsigned x;": true, "unsigned(x) + 1;": false, "using U = int;": true, "vec<int, 2> x;": true, "vec<int, 2>(v, v);": false, "v[0] = 1;": false,
		"(T)v;": false, "T v = v;": true, "half v(1.0h);": true, "simdgroup_half8x8 m[2];": true, "*v = 1;": false, "threadgroup int x[4];": true,
	} {
		f, m, ds := parseText("typedef int T; int v; namespace N { typedef int T; int v; template <typename U> void f(U); } void g() { " + text + " }")
		require.Empty(t, m.RenderAll(ds), text)
		body := f.Decls[len(f.Decls)-1].(*ast.FuncDecl).Body
		require.Len(t, body.Stmts, 1, text)
		_, isDecl := body.Stmts[0].(*ast.DeclStmt)
		require.Equal(t, decl, isDecl, text)
	}
}

// TestScopes: names end with their scope, and what they hide comes back.
func TestScopes(t *testing.T) {
	for _, text := range []string{
		"typedef int T; void f() { int T = 1; int x = (T) - 1; { int y = T * 2; } }",
		"int T; void f() { typedef int T; T * x; } int y = T * 2;",
		"template <typename T> void f(T t) { T u = (T) t; } int T; int y = (T) - 1;",
		"template <int N> void f() { bool b = N < 3 && N > (1); } ",
		"void f(int half) { int x = half < 2 && half > (1); }",
		"namespace metal { template <typename T> T mine(T); } using namespace metal; float x = mine<float>(1);",
		"struct A { template <typename U> struct B {}; struct C; }; A::B<int> x; A::C * y;",
		"namespace n { struct S {}; } using n::S; S s; namespace m = n; m::S t; using namespace n; S u;",
		"enum E { one }; E e = one; enum class F { two }; F g = F::two; int x = one < 2;",
		"struct S { void f() { T t; U<int> u; int y = z < 3; } typedef int T; template <typename X> using U = X; int z; };",
		"template <typename T> struct S { S(T t) {} S<T>(int i) {} S() = default; void m(); }; template <typename T> void S<T>::m() { S s; }",
		"struct S { typedef int T; S(); T m(T); }; S::S() {} S::T S::m(T t) { return (T) t; }",
		"template <typename T> requires is_same_v<T, int> && (1 < 2) void f(T t) {} _Atomic int x;",
		"struct S { int a : 3; unsigned : 2; int b : 4 = 1; }; int f(decltype(auto) x, int (&y)(int) = g); void g() noexcept(true); void h() throw();",
		"struct S { void m() & noexcept; void n() const && override; ~S() = default; S(const thread S &) = delete; static void s(); friend void f(S); };",
		"void f() { for (; int x = g();) {} for (int x : {1, 2}) {} if (g(); 1) {} switch (int y = 1) { case 1: ; } while (1 > 2) break; auto l = [x = 1, &y, this]() mutable {}; [](){}(); }",
		"void f() { float4 a = {1, {2}}; f({1, 2}, a...); g<float4, (1 > 2)>({}); int q[] = {[0] = 1, [2][1] = 3, [1].x = 2}; }",
		"template <typename... A> void f(A... a) { g(a...); g<A...>(sizeof...(A)); int x[] = {a...}; bool b = (a && ...) || (... + a); } template <int... N> struct I : B<N>... {};",
		"for_each x; void f() { for (int i = 0; i < 2; i++) {} for (int i = 0; i < 2; i++) {} }",
		"template <typename T, typename U> void f(T a, U b) { vec<T, 2> x = vec<T, 2>(a); }",
		"template <template <typename> class V, typename T> V<T> f(V<T> v) { V<T> w = v; return w; }",
		"constant int a = 1, b = 2; constant int * constant p = &a; int x = a < b;",
		"kernel void f(device atomic_uint * a, device atomic<int> * b, texture2d<float, access::read> t, sampler s) {}",
		"extern \"C\" { void f(); } extern \"C\" void g();",
		"__attribute__((always_inline)) inline void f() __attribute__((x(1, \"s\"))); [[clang::opt]] void g();",
		"int f() asm(\"symbol\"); auto g() -> int; void h(int, ...); void k(void); void l(int a[], int (&b)[2], int = 3);",
	} {
		_, m, ds := parseText(text)
		require.Empty(t, m.RenderAll(ds), text)
	}
}

func TestErrorsDoNotCascade(t *testing.T) {
	// One broken statement of many is one error, and the rest is read.
	var b strings.Builder
	b.WriteString("kernel void f(device float * a) {\n")
	for i := 0; i < 20; i++ {
		b.WriteString("  a[0] = 1;\n")
	}
	lines := strings.Count(b.String(), "\n")
	for _, broken := range []string{
		"a[0] = ;", "a[0 = 1;", "a[0] = (1;", "if (a[0] a[1] = 2;", "for (int i = 0 i < 3; i++) { a[i] = 1; }", "float x = 1 2;", "float 3x = 1;",
		"a[0] = foo(1,);", "while { a[0] = 1; }", "do { } until (1);", "switch (1) { case: ; }", "device float * = a;", "int x[;", "return return;",
		"float4 v = float4(1, 2;", "a[0] = a[1] ? 2;", "@", "a->;", "a.;", "int y = sizeof;", "int z = static_cast(1);", "auto l = [&;", "case 1",
	} {
		f, m, ds := parseText(b.String() + "  " + broken + "\n  a[0] = 2;\n}\nkernel void g() {}\n")
		require.Len(t, ds, 1, "%s\n%s", broken, m.RenderAll(ds))
		require.GreaterOrEqual(t, m.Position(ds[0].Span.Start).Line, lines+1, broken)
		require.LessOrEqual(t, m.Position(ds[0].Span.Start).Line, lines+2, broken)
		require.Len(t, f.Decls, 2, broken)
		require.Equal(t, "g", f.Decls[1].(*ast.FuncDecl).Name.Last().Ident, broken)
	}
}

// TestHostile: any input ends in time and without a panic.
func TestHostile(t *testing.T) {
	n := 20000
	rep := strings.Repeat
	for _, text := range []string{
		rep("(", n), rep("{", n), rep("[", n), rep("<", n), rep("a<", n), rep("((T)", n), rep("f(", n), rep("-", n), rep("*", n), rep("a?", n),
		"int x = " + rep("(", n) + rep(")", n) + ";", "int x = " + rep("a<", n) + "1" + rep(">", n) + ";", "int x = " + rep("1+", n) + "1;",
		"int x = " + rep("(a<b>", n), "int " + rep("*", n) + "x;", "int " + rep("(*", n) + "x" + rep(")(int)", n) + ";", rep("struct S {", n), rep("namespace a {", n),
		rep("namespace a::", n), rep("template <typename T> ", n), rep("template <", n), "void f() { " + rep("if (1) ", n) + ";}", "void f() { " + rep("if (1) ; else ", n) + ";}",
		"void f() { " + rep("{", n) + rep("}", n) + "}", "void f() { " + rep("for (;;) ", n) + "; }", "int x = " + rep("[]{ return ", n), "int x = " + rep("{", n), "int x " + rep("[1]", n) + ";",
		"a" + rep("::a", n) + " x;", "int x = a" + rep(".b", n) + ";", "int x = a" + rep("(b)", n) + ";", rep("typedef ", n), rep("const ", n) + "int x;", rep("unsigned ", n), rep("[[", n),
		rep("[[a]]", n) + "int x;", rep("}", n), rep(";", n), rep("X<X<", n), "void f(" + rep("int (", n), rep("decltype(", n), "S<" + rep("T(", n), rep("int x = 1 2;\n", n),
		"void f() { " + rep("T(x(", n) + "}", "enum E {" + rep("a,", n) + "}; ", "int x = a" + rep(",b", n) + ";", "#pragma unroll " + rep("(", n) + "\n", rep("#pragma unroll\n", n),
		rep("template struct ", n), "struct S { " + rep("void f() {", n), "struct S : " + rep("A,", n), "int x = " + rep("sizeof ", n), "int x = " + rep("sizeof(", n), rep("operator ", n), rep("~", n), rep("a::~", n),
		"using x = " + rep("a<(", n), "int x = " + rep("a < b > (", n), "void f() { " + rep("u<(u<", n), rep("\"a\"", n), rep("'", n), "int x = " + rep("p.f<T(", n),
	} {
		start := time.Now()
		f, m, ds := parseText(text)
		require.NotNil(t, f)
		require.LessOrEqual(t, len(ds), 2*(defaultMaxErrors+1))
		_ = m.RenderAll(ds)
		head := text
		if len(head) > 40 {
			head = head[:40]
		}
		require.Less(t, time.Since(start), time.Minute, head) // milliseconds on an idle machine
	}
}

func TestTokensWithoutEnd(t *testing.T) {
	f, ds := File(nil, Options{})
	require.Empty(t, ds)
	require.Empty(t, f.Decls)
	f, ds = File([]lex.Token{{Kind: lex.Ident, Text: "int"}, {Kind: lex.Ident, Text: "x"}, {Kind: lex.Punct, Text: ";"}}, Options{})
	require.Empty(t, ds)
	require.Len(t, f.Decls, 1)
}
