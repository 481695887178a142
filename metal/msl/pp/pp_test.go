package pp

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// TestDiagnostics compares messages, places and carets.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/diag/*.metal")
	require.NoError(t, err)
	results, _ := filepath.Glob("testdata/diag/*.txt")
	require.NotEmpty(t, files)
	for _, r := range results {
		require.FileExists(t, strings.TrimSuffix(r, ".txt")+".metal", "a golden file without its input")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, m, ds := process(string(text), Options{})
		got := m.RenderAll(ds)
		name := strings.TrimSuffix(file, ".metal") + ".txt"
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err, "go test -update writes the golden files")
		require.Equal(t, string(want), got, name)
	}
}

// process preprocesses a text as t.metal among other files.
func process(text string, opts Options, files ...string) ([]lex.Token, *source.Map, []source.Diag) {
	fsys := fstest.MapFS{"t.metal": {Data: []byte(text)}}
	for i := 0; i+1 < len(files); i += 2 {
		fsys[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return Process(fsys, "t.metal", opts)
}

// spell joins tokens by one blank; pragmas stand in brackets.
func spell(toks []lex.Token) string {
	var words []string
	for _, t := range toks {
		switch t.Kind {
		case lex.EOF:
		case lex.Pragma:
			words = append(words, "[")
		case lex.PragmaEnd:
			words = append(words, "]")
		default:
			words = append(words, t.Text)
		}
	}
	return strings.Join(words, " ")
}

// expand gives the tokens of a text that has no errors.
func expand(t *testing.T, text string, files ...string) string {
	t.Helper()
	toks, m, ds := process(text, Options{}, files...)
	require.Empty(t, m.RenderAll(ds), "%s", text)
	return spell(toks)
}

func TestMacros(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"object", "#define A 1 + 2\nA*A", "1 + 2 * 1 + 2"},
		{"empty", "#define A\n[A]", "[ ]"},
		{"object with parenthesis", "#define A (x)\nA", "( x )"},
		{"function", "#define F(a, b) b a\nF(1, (2, 3))", "( 2 , 3 ) 1"},
		{"function without call", "#define F(a) a\nF + F\n(2)", "F + 2"},
		{"no parameters", "#define F() x\nF() F( )", "x x"},
		{"one empty argument", "#define F(a) [a]\nF()", "[ ]"},
		{"two empty arguments", "#define F(a, b) [a|b]\nF(,)", "[ | ]"},
		{"nested call", "#define F(a) <a>\nF(F(F(1)))", "< < < 1 > > >"},
		{"argument expands before", "#define A 1\n#define F(a) G(a)\n#define G(a) a a\nF(A)", "1 1"},
		{"body makes a call", "#define CALL(f, x) f(x)\n#define SQ(x) x*x\nCALL(SQ, 3)", "3 * 3"},
		{"name from body, parenthesis from text", "#define F(x) [x]\n#define G F\nG(1) G (2)", "[ 1 ] [ 2 ]"},
		{"self", "#define A A + 1\nA", "A + 1"},
		{"mutual", "#define A B\n#define B A\nA B", "A B"},
		{"self in a call", "#define F(x) F(x + 1)\nF(F(2))", "F ( F ( 2 + 1 ) + 1 )"},
		{"undef", "#define A 1\n#undef A\n#undef NEVER\nA", "A"},
		{"same definition twice", "#define A 1 +  2\n#define A 1 + 2\nA", "1 + 2"},
		{"over lines", "#define F(a, \\\n b) a \\\n b\nF(1,\n\n2)", "1 2"},
		{"stringify", "#define S(x) #x\nS( a  +\n\"b\\n\" 'c' )", `"a + \"b\\n\" 'c'"`},
		{"stringify empty", "#define S(x) #x\nS()", `""`},
		{"stringify does not expand", "#define S(x) #x\n#define X(x) S(x)\n#define A 1\nS(A) X(A)", `"A" "1"`},
		{"# of an object-like macro", "#define H # x\nH", "# x"},
		{"paste", "#define P(a, b) a ## b\nP(x, 1) P(1, .5) P(<, <=) P(, y) P(z, ) [P(,)]", "x1 1.5 <<= y z [ ]"},
		{"paste does not expand", "#define A 1\n#define P(a, b) a##b\nP(A, B)", "AB"},
		{"pasted name expands", "#define AB 7\n#define P(a, b) a##b\nP(A, B)", "7"},
		{"paste of long arguments", "#define P(a, b) a##b\nP(1 x, y 2)", "1 xy 2"},
		{"paste chain", "#define P(a, b, c) a##b##c\nP(x, , y) P(, , z) P(a,b,c)", "xy z abc"},
		{"paste of an empty side keeps what is before", "#define P(a) x a##y\nP()", "x y"},
		{"paste in an object-like macro", "#define P x ## y\nP", "xy"},
		{"variadic", "#define V(...) f(__VA_ARGS__)\nV() V(1) V(1, 2)", "f ( ) f ( 1 ) f ( 1 , 2 )"},
		{"variadic with names", "#define V(a, ...) a(__VA_ARGS__)\nV(f) V(f, 1, (2, 3))", "f ( ) f ( 1 , ( 2 , 3 ) )"},
		{"named rest", "#define V(a...) [a]\nV(1, 2)", "[ 1 , 2 ]"},
		{"gnu comma", "#define V(a, ...) f(a, ## __VA_ARGS__)\nV(1) V(1, 2)", "f ( 1 ) f ( 1 , 2 )"},
		{"va_opt", "#define V(a, ...) f(a __VA_OPT__(, __VA_ARGS__))\nV(1) V(1, 2)", "f ( 1 ) f ( 1 , 2 )"},
		{"stringify rest", "#define V(...) #__VA_ARGS__\nV(a, b)", `"a, b"`},
		{"counter", "__COUNTER__ __COUNTER__", "0 1"},
		{"line and file", "__LINE__\n__LINE__ __FILE__", `1 2 "t.metal"`},
		{"line in a macro", "#define L __LINE__\n\nL", "3"},
		{"include level", "__INCLUDE_LEVEL__\n#include \"a.h\"\n", "0 1"},
		{"keyword as macro", "#define constant const\nconstant int", "const int"},
		{"directive among arguments", "#define F(x) [x]\nF(1\n#if 1\n+ 2\n#else\n+ 3\n#endif\n)", "[ 1 + 2 ]"},
		{"nothing to expand", "a\\\nb \"A\" 'A'", `ab "A" 'A'`},
	} {
		require.Equal(t, c.want, expand(t, c.text, "a.h", "__INCLUDE_LEVEL__"), c.name)
	}
}

// The examples of the C standard's section on rescanning.
func TestStandardExamples(t *testing.T) {
	require.Equal(t,
		"f ( 2 * ( y + 1 ) ) + f ( 2 * ( f ( 2 * ( z [ 0 ] ) ) ) ) % f ( 2 * ( 0 ) ) + t ( 1 ) ; "+
			"f ( 2 * ( 2 + ( 3 , 4 ) - 0 , 1 ) ) | f ( 2 * ( ~ 5 ) ) & f ( 2 * ( 0 , 1 ) ) ^ m ( 0 , 1 ) ; "+
			"int i [ ] = { 1 , 23 , 4 , 5 , } ; char c [ 2 ] [ 6 ] = { \"hello\" , \"\" } ;",
		expand(t, `#define x 3
#define f(a) f(x * (a))
#undef x
#define x 2
#define g f
#define z z[0]
#define h g(~
#define m(a) a(w)
#define w 0,1
#define t(a) a
#define p() int
#define q(x) x
#define r(x,y) x ## y
#define str(x) # x
f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);
g(x+(3,4)-w) | h 5) & m
(f)^m(m);
p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };
char c[2][6] = { str(hello), str() };
`))
	require.Equal(t, `"x ## y" , " hello" "b"`, expand(t, `#define hash_hash # ## #
#define mkstr(a) # a
#define in_between(a) mkstr(a)
#define join(c, d) in_between(c hash_hash d)
join(x, y), " hello" mkstr(b)
`))
}

func TestConditionals(t *testing.T) {
	for text, want := range map[string]string{
		"#if 1\na\n#else\nb\n#endif\nc":                                                                   "a c",
		"#if 0\na\n#else\nb\n#endif\nc":                                                                   "b c",
		"#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif":                                              "b",
		"#ifdef A\na\n#endif\n#ifndef A\nb\n#endif":                                                       "b",
		"#define A\n#ifdef A\na\n#endif\n#ifndef A\nb\n#endif":                                            "a",
		"#ifdef A\n#elifdef __METAL__\nb\n#endif":                                                         "b",
		"#ifdef A\n#elifndef B\nb\n#else\nc\n#endif":                                                      "b",
		"#if 0\n#if 1\na\n#else\nb\n#endif\n#else\nc\n#endif":                                             "c",
		"#if 0\n#garbage ' \"\n it's\n#endif\na":                                                          "a",
		"#if 1\n#elif 1/0\n#endif\na":                                                                     "a",
		"#if defined(A) || defined B\na\n#else\nb\n#endif":                                                "b",
		"#define A 0\n#if defined A && !A\na\n#endif":                                                     "a",
		"#define D defined(A)\n#if D\na\n#else\nb\n#endif":                                                "b",
		"# /* c */ if 1 // x\na\n#\n# endif":                                                              "a",
		"#if __METAL_VERSION__ >= 310 && __HAVE_BFLOAT__\na\n#endif":                                      "a",
		"#if __has_include(\"a.h\") && !__has_include(<b.h>) && __has_include(<metal_stdlib>)\na\n#endif": "a",
		"#ifdef __has_include\na\n#endif":                                                                 "a",
		"#if __has_builtin(__builtin_x)\na\n#else\nb\n#endif":                                             "b",
	} {
		require.Equal(t, want, expand(t, text, "a.h", ""), "%s", text)
	}
}

func TestExpressions(t *testing.T) {
	for expr, want := range map[string]bool{
		"1 + 2 * 3 == 7": true, "(1 + 2) * 3 == 9": true, "10 - 4 - 3 == 3": true, "2 << 3 >> 1 == 8": true, "7 / 2 == 3 && 7 % 2 == 1": true,
		"-7 / 2 == -3": true, "-1 > 0": false, "-1 > 0u": true, "-1 < 1": true, "1 ? 2 : 3/0": true, "0 ? 1/0 : 0": false, "1 || 1/0": true, "0 && 1/0": false,
		"~0 == -1": true, "!0": true, "+1": true, "'a' == 97": true, "'\\n' == 10": true, "0x10 == 16 && 010 == 8 && 0b11 == 3": true,
		"unknown": false, "true": true, "false": false, "5 & 3 | 4 ^ 1": true, "(5 & 6) == 4": true, "1 == 1 == 1": true, "3 > 2 > 1": false,
		"9223372036854775807 + 1 < 0": true, "18446744073709551615u == -1": true, "(-9223372036854775807 - 1) / -1 < 0": true,
		"(-9223372036854775807 - 1) % -1": false, "1 ? 0 : 1": false, "0u - 1 > 100": true, "1 << 63 < 0": true, "-8 >> 1 == -4": true,
		"0 ? 1 : 0 ? 2 : 3": true, "1L + 1ULL == 2": true,
	} {
		toks, m, ds := process("#if "+expr+"\nyes\n#endif", Options{})
		require.Empty(t, m.RenderAll(ds), expr)
		require.Equal(t, want, spell(toks) == "yes", expr)
	}
}

func TestIncludes(t *testing.T) {
	files := []string{
		"a.h", "a", "once.h", "#pragma once\nonce", "guard.h", "#ifndef G\n#define G\ng\n#endif\n",
		"inc/a.h", "inc_a", "inc/b.h", "#include \"c.h\"\n", "inc/c.h", "inc_c", "sub/d.h", "#include \"../a.h\"\n#include \"inc/b.h\"",
	}
	for text, want := range map[string]string{
		"#include \"a.h\"\nx":                                 "a x",
		"#include <a.h>":                                      "inc_a",
		"#include \"b.h\"":                                    "inc_c",
		"#include \"once.h\"\n#include \"./once.h\"":          "once",
		"#import \"a.h\"\n#import \"a.h\"":                    "a",
		"#include \"guard.h\"\n#include \"guard.h\"":          "g",
		"#include \"sub/d.h\"":                                "a inc_c",
		"#define H \"a.h\"\n#include H":                       "a",
		"#define L <a.h>\n#include L":                         "inc_a",
		"#include <metal_stdlib>\n#include <metal_math>\nx":   "x",
		"#include <metal_stdlib>\nMETAL_FUNC CHAR_BIT M_PI_F": "inline __attribute__ ( ( __always_inline__ ) ) 8 3.14159265358979323846264338327950288f",
		"#include \"a.h\"":                                    "a",
		"#include \"sub/no/../d.h\"":                          "a inc_c",
		"#include \"a.h\" // comment":                         "a",
		"#define X(f) #f\n#define Y(f) X(f)\n#include Y(a.h)": "a",
	} {
		toks, m, ds := process(text, Options{IncludeDirs: []string{"inc", "."}}, files...)
		require.Empty(t, m.RenderAll(ds), text)
		require.Equal(t, want, spell(toks), text)
	}
}

func TestPragmas(t *testing.T) {
	for text, want := range map[string]string{
		"a\n#pragma unroll\nb":                                      "a [ unroll ] b",
		"#define N 4\n#pragma unroll(N)\n":                          "[ unroll ( 4 ) ]",
		"#define N 4\n#pragma unroll N * 2\n":                       "[ unroll 4 * 2 ]",
		"#define N 4\n#pragma clang loop unroll_count(N)":           "[ clang loop unroll_count ( 4 ) ]",
		"#define U _Pragma(\"unroll\") for\nU":                      "[ unroll ] for",
		"#define full 1\n#pragma clang loop unroll(full)":           "[ clang loop unroll ( 1 ) ]",
		"#define U(n) _Pragma(#n) for\nU(unroll(3))":                "[ unroll ( 3 ) ] for",
		"#define F(x) x\nF(_Pragma(\"unroll\") for)":                "[ unroll ] for",
		"#define safe 1\n#pragma METAL fp math_mode(safe)":          "[ METAL fp math_mode ( safe ) ]",
		"#pragma clang diagnostic push\n#pragma mark x\n#pragma\na": "a",
		"_Pragma(\"nounroll\")":                                     "[ nounroll ]",
		"#pragma once\na":                                           "a",
	} {
		require.Equal(t, want, expand(t, text), text)
	}
}

func TestDefines(t *testing.T) {
	toks, m, ds := process("A B C(1) __METAL_VERSION__ EMPTY", Options{Defines: []string{"A", "B=2 + 2", "C(x)=[x]", "__METAL_VERSION__=310", "EMPTY="}})
	require.Empty(t, m.RenderAll(ds))
	require.Equal(t, "1 2 + 2 [ 1 ] 310", spell(toks))
	toks, _, ds = process("A", Options{Defines: []string{"1x=2", "A=b\n#error c"}})
	require.Len(t, ds, 1, "a line's end in a value starts no directive")
	require.Contains(t, ds[0].Msg, "expected the name of a macro")
	require.Equal(t, "b # error c", spell(toks))
	toks, _, _ = process("#ifdef __HAVE_BFLOAT__\na\n#endif\n__METAL_VERSION__ __cplusplus", Options{Version: 300})
	require.Equal(t, "300 201402L", spell(toks))
	toks, _, _ = process("__METAL_VERSION__ __cplusplus", Options{Version: 400})
	require.Equal(t, "400 201703L", spell(toks))
}

func TestPlaces(t *testing.T) {
	toks, m, _ := process("#define ADD(a) a +\\\n  b\nx ADD( y\n);\n", Options{})
	var got []string
	for _, tok := range toks {
		got = append(got, tok.Text+"@"+m.Position(tok.Pos).String()+"-"+m.Position(tok.End).String())
	}
	require.Equal(t, []string{
		"x@t.metal:3:1-t.metal:3:2",
		"y@t.metal:3:8-t.metal:3:9", // an argument is where it is written
		"+@t.metal:3:3-t.metal:4:2", // the body is at the call
		"b@t.metal:3:3-t.metal:4:2",
		";@t.metal:4:2-t.metal:4:3",
		"@t.metal:5:1-t.metal:5:1",
	}, got)
}

func TestMissingMain(t *testing.T) {
	toks, m, ds := Process(fstest.MapFS{}, "none.metal", Options{})
	require.Equal(t, "error: cannot read none.metal: file does not exist\n", m.RenderAll(ds))
	require.Len(t, toks, 1)
	_, m, ds = Process(nil, "x", Options{})
	require.Equal(t, "error: cannot read x: file does not exist\n", m.RenderAll(ds))
	_, m, ds = Process(fstest.MapFS{"d/x": {}}, "d", Options{})
	require.Equal(t, "error: cannot read d: it is a folder\n", m.RenderAll(ds))
}

// Each limit is an error with a place, reached in little time and memory.
func TestLimits(t *testing.T) {
	doubling := "#define D0 x x x x x x x x\n"
	for i := 1; i < 12; i++ {
		doubling += strings.NewReplacer("N", string(rune('a'+i)), "M", string(rune('a'+i-1))).Replace("#define D_N D_M D_M D_M D_M D_M D_M D_M D_M\n")
	}
	doubling = strings.ReplaceAll(doubling, "D_a", "D0")
	paste := "#define P(a) a##a\n"
	str := "#define S(a) #a\n#define X(a) S(a)\n"
	deepIf := strings.Repeat("#if 1\n", 300)
	for _, c := range []struct{ name, text, want string }{
		{"exponential macros", doubling + "D_l", "macro expansions make more than"},
		{"exponential pasting", paste + strings.Repeat("P(", 0) + "#define Q0 P(aaaaaaaaaaaaaaaa)\n" + pasteLadder(20) + "Q19", "makes a token of more than 65536 bytes"},
		{"exponential strings", str + strings.Repeat("X(", 40) + `"\\\""` + strings.Repeat(")", 40), "makes a token of more than 65536 bytes"},
		{"self include", "#include \"t.metal\"\n#include \"t.metal\"", "#include nested more than 200 deep"},
		{"nested arguments", "#define F(x) x\n" + strings.Repeat("F(", 5000) + strings.Repeat(")", 5000), "macro arguments nested more than 200 deep"},
		{"nested conditionals", deepIf, "#if nested more than 200 deep"},
		{"nested parentheses in #if", "#if " + strings.Repeat("(", 5000), "nested more than 200 deep"},
		{"many errors", strings.Repeat("#error x\n", 1000), "too many errors"},
		{"many parameters", "#define F(" + strings.TrimSuffix(strings.Repeat("a,", 300), ","), "twice"},
	} {
		_, m, ds := process(c.text, Options{})
		require.NotEmpty(t, ds, c.name)
		require.LessOrEqual(t, len(ds), maxErrors+1, c.name)
		require.Contains(t, m.RenderAll(ds), c.want, c.name)
	}
	// A wide include tree is bounded by the number of files.
	files := []string{}
	for i := 0; i < 8; i++ {
		files = append(files, string(rune('a'+i))+".h", strings.Repeat("#include \""+string(rune('a'+i+1))+".h\"\n", 8))
	}
	_, m, ds := process("#include \"a.h\"", Options{}, append(files, "i.h", "")...)
	require.Contains(t, m.RenderAll(ds), "more than 10000 files included")
}

// pasteLadder defines Q1..Qn, each pasting the expansion of the one before to
// itself.
func pasteLadder(n int) string {
	var b strings.Builder
	b.WriteString("#define PX(a) P(a)\n")
	for i := 1; i < n; i++ {
		b.WriteString(strings.NewReplacer("N", itoa(i), "M", itoa(i-1)).Replace("#define QN PX(QM)\n"))
	}
	return b.String()
}

func itoa(i int) string {
	return string([]byte{byte('0' + i/10), byte('0' + i%10)}[map[bool]int{true: 0, false: 1}[i >= 10]:])
}

func TestEntryPoints(t *testing.T) {
	text := `
#include <metal_stdlib>
kernel void plain(device float *a [[buffer(0)]], uint i [[thread_position_in_grid]]) { if (a[i] < 0 && i > 3) { a[i] = 1; } }
[[kernel]] void attribute() {}
[[host_name("renamed")]] kernel void original() {}
kernel void declared();
template <typename T> kernel void tmpl(device T *a) { a[0] = T(1); }
template <typename T, int N = (3 > 2)> [[kernel]] void tmpl2() {}
template [[host_name("i" "1")]] kernel void tmpl<float>(device float *);
template [[host_name("i2")]] [[kernel]] decltype(tmpl<half>) tmpl<half>;
typedef decltype(tmpl<int>) t_t;
template [[host_name("i3")]] kernel t_t tmpl<metal::vec<int, 4>>;
template kernel void tmpl<char>(device char *);
template <> kernel void tmpl<short>(device short *a) {}
struct S { void kernel_like() {} };
template struct T<int>;
namespace a { namespace b {
kernel __attribute__((x)) void inside() { S s{}; }
} }
#define INST(n, t) template [[host_name(#n "_k")]] kernel void tmpl<t>(device t *)
INST(m, uchar);
INST(m2, ushort);
int kernel_count = 3;
#pragma METAL fp math_mode(safe)
[[max_total_threads_per_threadgroup(64)]] kernel void limited() {}
static void f() { }
`
	toks, m, ds := process(text, Options{})
	require.Empty(t, m.RenderAll(ds))
	var got []string
	for _, e := range EntryPoints(toks) {
		kind := "plain "
		if e.Instance {
			kind = "instance "
		}
		got = append(got, kind+e.Name)
	}
	require.Equal(t, []string{
		"plain plain", "plain attribute", "plain renamed", "instance i1", "instance i2", "instance i3", "instance tmpl", "plain tmpl",
		"plain inside", "instance m_k", "instance m2_k", "plain limited",
	}, got)
	// Broken text ends too.
	for _, text := range []string{"template", "template <", "namespace", "}}}", "[[", "[[kernel", "template [[host_name(", "<<<<", "a < b"} {
		toks, _, _ := process(text, Options{})
		require.Empty(t, EntryPoints(toks), text)
	}
}
