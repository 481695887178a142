package cuda

import (
	"flag"
	"strings"
	"testing"

	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

var nvrtcPath = flag.String("nvrtc", "", "path of the run-time compiler's library; by its usual names if empty")

// allFuncs are the kernels of the tests.
func allFuncs(t *testing.T) []*ir.Func {
	var fs []*ir.Func
	for _, k := range []string{"scale_add", "rms_norm", "mul_mv_q4_0"} {
		fs = append(fs, specialize(t, "kernels.metal", k))
	}
	for _, k := range []string{"divergence", "positions", "matrices", "forever"} {
		fs = append(fs, specialize(t, "lanes.metal", k))
	}
	for _, k := range []string{"layouts", "privates", "atomics", "elements"} {
		fs = append(fs, specialize(t, "memory.metal", k))
	}
	for seed := range uint64(12) {
		fs = append(fs, randomKernel(seed+1))
	}
	for _, o := range append(arithmetic(), simdgroups()...) {
		require.NoError(t, ir.Verify(o.f))
		fs = append(fs, o.f)
	}
	return fs
}

// Every kernel of the tests prints, and the run-time compiler takes the text,
// where there is one.
func TestCompiles(t *testing.T) {
	c, cerr := OpenCompiler(*nvrtcPath)
	if *nvrtcPath != "" {
		require.NoError(t, cerr)
	}
	for _, f := range allFuncs(t) {
		s, err := Emit(f, Options{Poll: f.Name == "forever"})
		require.NoError(t, err, f.Name)
		if cerr == nil {
			cubin, err := c.Compile(s, 9, 0)
			require.NoError(t, err, f.Name)
			require.Equal(t, "\x7fELF", string(cubin[:4]), f.Name)
		}
	}
	if cerr != nil {
		t.Skipf("SKIPPED the compilation of the emitted text: no run-time compiler here (%v); -nvrtc names one", cerr)
	}
}

// body is the emitted text of a function behind the common parts.
func body(t *testing.T, f *ir.Func) string {
	t.Helper()
	s, err := Emit(f, Options{})
	require.NoError(t, err)
	return s.Text[strings.Index(s.Text, "extern \"C\" __global__"):]
}

func TestElementwiseText(t *testing.T) {
	text := body(t, specialize(t, "kernels.metal", "scale_add"))
	require.Contains(t, text, "k_scale_add(const launch_t g, char* const arg0 /* x */")
	require.Contains(t, text, "// kernels.metal:8\n")
	require.Equal(t, 1, strings.Count(text, "fma1("), text)
	require.NotContains(t, text, "__fmul_rn") // fused by the IR, so here too
	require.NotContains(t, text, "_sync")
}

func parse(t *testing.T, params, code string) *ir.Func {
	t.Helper()
	f, err := ir.Parse("func \"f\" {\n" + params + "pos 1 \"a.metal\" 7 3 at 0\nbody\n" + code + "\n}")
	require.NoError(t, err)
	require.NoError(t, ir.Verify(f))
	return f
}

const outParam = "param buffer 0 device \"float\" size 4 f32 name \"out\"\n"

func TestMasks(t *testing.T) {
	const head = "%1:i32 = grid thread_index_in_simdgroup.x\n%2:i32 = const 7\n%3:i1 = icmp ult %1, %2\n"
	// A varying condition votes before its arms; a uniform one does not.
	text := body(t, parse(t, outParam, head+"if %3 {\n%4:i32 = simdreduce add %1 site 1\nyield\n} else {\nyield\n}\nreturn"))
	require.Contains(t, text, "const u32 m1 = __ballot_sync(m0, v3);\n  if (v3) {\n    u32 const v4 = reduce<add_u32>(m1, v1);")
	text = body(t, parse(t, outParam, "%1:i32 = grid threadgroup_position_in_grid.x\n%3:i1 = icmp eq %1, %1\nif %3 {\n%4:i32 = simdreduce add %1 site 1\nyield\n} else {\nyield\n}\nreturn"))
	require.Contains(t, text, "reduce<add_u32>(m0, v1)")
	require.NotContains(t, text, "__ballot_sync")
	// Behind a return of some lanes the others vote; without simdgroup functions
	// nobody does.
	leave := head + "if %3 {\nreturn\n} else {\nyield\n}\n"
	text = body(t, parse(t, outParam, leave+"%4:i32 = simdreduce add %1 site 1\nreturn"))
	require.Contains(t, text, "const u32 m1 = __ballot_sync(m0, true);\n  u32 const v4 = reduce<add_u32>(m1, v1);")
	require.NotContains(t, body(t, parse(t, outParam, leave+"return")), "sync")
	// A break of some lanes out of a loop with simdgroup functions carries a code.
	text = body(t, parse(t, outParam, head+"%9:i32 = loop #1 (%4:i32 = %1) {\nif %3 {\nbreak #1 %4\n} else {\nyield\n}\n%5:i32 = simdreduce add %4 site 1\ncontinue #1 %5\n}\nreturn"))
	require.Contains(t, text, "q = 4;")
	require.Contains(t, text, "if (q != 0) break;")
	require.NotContains(t, text, "goto end2")
}

// Lanes that continue a loop early wait at the end of the iteration, so those that
// break out of it together have to go there as well.
func TestUniformBreakPassesTheVote(t *testing.T) {
	text := body(t, parse(t, outParam, `%1:i32 = grid thread_index_in_simdgroup.x
%2:i32 = const 7
%3:i1 = icmp ult %1, %2
%4:i32 = grid threadgroup_position_in_grid.x
%5:i1 = icmp ult %4, %2
loop #1 () {
if %3 {
continue #1
} else {
yield
}
%6:i32 = simdreduce add %1 site 1
if %5 {
break #1
} else {
yield
}
continue #1
}
return`))
	require.Contains(t, text, "if (v5) {\n        q = 6;\n        goto next3;\n      }")
	require.NotContains(t, strings.ReplaceAll(text, "if (q != 0) break;", ""), "break;")
}

// Inside of what sees no lanes nobody votes: lanes that left it earlier would not.
func TestNoVotesWithoutCollectives(t *testing.T) {
	text := body(t, parse(t, outParam, `%1:i32 = grid thread_index_in_simdgroup.x
%2:i32 = const 7
%3:i1 = icmp ult %1, %2
%4:i1 = icmp eq %1, %2
loop #1 () {
if %3 {
break #1
} else {
yield
}
if %4 {
return
} else {
yield
}
continue #1
}
%6:i32 = simdreduce add %1 site 1
return`))
	require.Equal(t, 1, strings.Count(text, "__ballot_sync"), text)
	require.Contains(t, text, "  }\n  const u32 m1 = __ballot_sync(m0, true);\n  u32 const v6 = reduce<add_u32>(m1, v1);")
}

func TestPolls(t *testing.T) {
	f := parse(t, outParam, "loop #1 () {\ncontinue #1\n}\nreturn")
	require.NotContains(t, body(t, f), "polls")
	s, err := Emit(f, Options{Poll: true})
	require.NoError(t, err)
	require.Contains(t, s.Text, "for (;;) {\n    if ((++polls & 1023) == 0 && stopped(g)) return;\n")
}

func TestParallelAssignment(t *testing.T) {
	text := body(t, parse(t, outParam, "%1:i32 = const 1\n%2:i32 = const 2\nloop #1 (%3:i32 = %1, %4:i32 = %2) {\n%5:i1 = icmp eq %3, %1\nif %5 {\nbreak #1\n} else {\nyield\n}\ncontinue #1 %4, %3\n}\nreturn"))
	require.Regexp(t, `u32 const (t\d+) = v4;\s+u32 const (t\d+) = v3;\s+v3 = t\d+;\s+v4 = t\d+;`, text)
}

func TestPieces(t *testing.T) {
	require.Equal(t, []piece{{0, 16}}, pieces(16, 16, 16))
	require.Equal(t, []piece{{0, 8}, {8, 4}}, pieces(12, 8, 16))
	require.Equal(t, []piece{{0, 2}, {2, 2}, {4, 2}}, pieces(6, 2, 16))
	require.Equal(t, []piece{{0, 16}, {16, 4}}, pieces(20, 64, 16))
	text := body(t, parse(t, outParam, "%1:ptr = ptrparam 0\n%2:i32, %3:i32 = load i32x2 device align 2 %1\nstore i32x2 device align 8 %1, %3, %2\nreturn"))
	require.Contains(t, text, "u32 const v3 = (u32)l3 << 0 | (u32)l4 << 16;")
	require.Contains(t, text, "*(uint2*)arg0 = make_uint2(v3, v2);")
}

func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		t    ir.Type
		bits uint64
		want string
	}{
		{ir.F32, 0x3f800000, "1.0f"}, {ir.F32, 0x80000000, "(-0.0f)"}, {ir.F32, 0x7f800000, "bits(0x7f800000u)"}, {ir.F32, 1, "1e-45f"},
		{ir.F32, 0xc0490fdb, "(-3.1415927f)"}, {ir.I32, 0xffffffff, "4294967295u"}, {ir.I64, 1 << 63, "9223372036854775808ull"},
		{ir.I8, 200, "(u8)200"}, {ir.F16, 0x3c00, "(u16)15360"}, {ir.I1, 1, "true"},
	} {
		require.Equal(t, c.want, literal(c.t, c.bits))
	}
}

func TestEmitError(t *testing.T) {
	f := parse(t, outParam, "%1:i32 = grid thread_position_in_grid.x !1\nreturn")
	f.Body.Instrs[0].Imm = 99 << 2
	_, err := Emit(f, Options{})
	require.EqualError(t, err, "a.metal:7:3: kernel f: cuda: grid attribute grid(99)")
	f.Body.Instrs[0].Op = ir.NumOps
	_, err = Emit(f, Options{})
	require.EqualError(t, err, "a.metal:7:3: kernel f: cuda: operation op("+strings.TrimSuffix(strings.TrimPrefix(ir.NumOps.String(), "op("), ")")+")")
}

func TestEntryName(t *testing.T) {
	require.Equal(t, "k_add_f32", entryName("add_f32"))
	require.Equal(t, "k_a_3c_b_3e_", entryName("a<b>"))
}

// Loops that end by themselves are not watched, others are.
func TestWatchedLoops(t *testing.T) {
	text := func(file, kernel string) string {
		s, err := Emit(specialize(t, file, kernel), Options{Poll: true})
		require.NoError(t, err)
		return s.Text[strings.Index(s.Text, "extern \"C\" __global__"):]
	}
	forever := text("lanes.metal", "forever")
	require.Contains(t, forever, "stopped(g)")
	require.NotContains(t, forever, "#pragma unroll")
	counted := text("kernels.metal", "rms_norm")
	require.NotContains(t, counted, "stopped(g)")
	require.Contains(t, counted, "#pragma unroll")
}

// A small integer's conversion is exact arithmetic on its bits; one that may be
// large is a conversion.
func TestSmallIntegersToFloat(t *testing.T) {
	b := ir.NewBuilder("small")
	b.Param(ir.Param{Name: "x", Index: 0, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32, ReadOnly: true})
	b.Param(ir.Param{Name: "y", Index: 1, Space: ir.Device, Elem: "float", ElemSize: 4, Scalar: ir.F32})
	mem := ir.Mem{Elem: ir.I32, Count: 1, Align: 4, Space: ir.Device}
	x := b.Load(b.Op(ir.PtrParam, ir.Ptr, 0), mem)[0]
	var all []ir.Value
	put := func(op ir.Op, v ir.Value) { all = append(all, b.Conv(op, ir.F32, v)) }
	put(ir.UToF, b.Bin(ir.And, x, b.I32(15)))
	put(ir.UToF, b.Bin(ir.And, b.Bin(ir.LShr, x, b.I32(4)), b.I32(0x0f)))
	put(ir.UToF, b.Bin(ir.LShr, x, b.I32(9)))
	put(ir.SToF, b.Conv(ir.IntTrunc, ir.I8, x))
	put(ir.UToF, b.Bin(ir.LShr, x, b.I32(8)))
	put(ir.SToF, x)
	out := ir.Mem{Elem: ir.F32, Count: 1, Align: 4, Space: ir.Device}
	for k, v := range all {
		b.Store(b.PtrAdd(b.Op(ir.PtrParam, ir.Ptr, 1), b.I64(int64(4*k))), out, v)
	}
	b.Return()
	text := body(t, b.Func())
	for _, want := range []string{
		`"r"(0xf0u), "r"(0x49000000u));`, "), 524288.0f)", // the field where it is
		`"r"(0xfu), "r"(0x4b000000u));`, "| 0x4b000000u), 8388608.0f)",
		"+ 0x4b400000u), 12582912.0f)",
		"__uint2float_rn(", "__int2float_rn(",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, 1, strings.Count(text, "__uint2float_rn("), text) // 24 bits
	require.Equal(t, 1, strings.Count(text, "__int2float_rn("), text)
}
