package pass_test

import (
	"math"
	"strings"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"

	"github.com/stretchr/testify/require"
)

const head = `func "f" {
  param buffer 0 device "float" size 4 f32 name "x"
  param buffer 1 constant readonly "int" size 4 i32 name "c"
  static "s" size 64 align 4
  alloca "a" size 16 align 4
  alloca "p" size 8 align 8
  table "t" 0100000002000000ff
  body
`

func parse(t *testing.T, body string) *ir.Func {
	f, err := ir.Parse(head + body + "\n}")
	require.NoError(t, err)
	require.NoError(t, ir.Verify(f))
	return f
}

// body gives the instructions' text without indentation.
func body(f *ir.Func) string {
	var sb strings.Builder
	_ = f.Print(&sb, ir.PrintOptions{Bare: true})
	_, s, _ := strings.Cut(sb.String(), "  body\n")
	var out []string
	for _, l := range strings.Split(strings.TrimSuffix(s, "}\n"), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func runs(t *testing.T, in, want string) {
	t.Helper()
	f := parse(t, in)
	require.NoError(t, pass.Run(f))
	require.NoError(t, ir.Verify(f))
	require.Equal(t, strings.TrimSpace(want), body(f))
}

func TestRun(t *testing.T) {
	for name, c := range map[string][2]string{
		"a variable becomes a value, its address arithmetic folds": {`
%1:ptr = ptralloca 0
%2:f32 = const 2.0
%3:i64 = const 8
%4:ptr = ptradd %1, %3
store f32x1 thread align 4 %4, %2
%5:f32 = load f32x1 thread align 4 %4
%6:ptr = ptrparam 0
%7:i64 = const 4
%8:ptr = ptradd %6, %7
%9:ptr = ptradd %8, %7
store f32x1 device align 4 %9, %5
return`, `
%1:f32 = const 2.0
%2:i64 = const 8
%3:ptr = ptrparam 0
%4:ptr = ptradd %3, %2
store f32x1 device align 4 %4, %1
return`},
		"a pointer in a variable": {`
%1:ptr = ptralloca 0
%2:ptr = ptralloca 1
store ptrx1 thread align 8 %2, %1
%3:ptr = load ptrx1 thread align 8 %2
%4:i32 = const 7
store i32x1 thread align 4 %3, %4
%5:i32 = load i32x1 thread align 4 %1
%6:ptr = ptrstatic 0
store i32x1 threadgroup align 4 %6, %5
return`, `
%1:i32 = const 7
%2:ptr = ptrstatic 0
store i32x1 threadgroup align 4 %2, %1
return`},
		"bytes of a word": {`
%1:ptr = ptralloca 0
%2:ptr = ptrparam 1
%3:i32 = load i32x1 constant align 4 %2
store i32x1 thread align 4 %1, %3
%4:i64 = const 1
%5:ptr = ptradd %1, %4
%6:i8 = load i8x1 thread align 1 %5
%7:ptr = ptrparam 0
store i8x1 device align 1 %7, %6
return`, `
%1:ptr = ptrparam 1
%2:i32 = const 8
%3:ptr = ptrparam 0
%4:i32 = load i32x1 constant align 4 %1
%5:i32 = lshr %4, %2
%6:i8 = inttrunc %5
store i8x1 device align 1 %3, %6
return`},
		"a word written by bytes is a value for each byte": {`
%1:ptr = ptralloca 0
%2:ptr = ptrparam 1
%3:i8, %4:i8, %5:i8, %6:i8 = load i8x4 constant align 4 %2
store i8x4 thread align 1 %1, %3, %4, %5, %6
%7:i64 = const 2
%8:ptr = ptradd %1, %7
store i8x1 thread align 1 %8, %3
%9:i16 = load i16x1 thread align 2 %8
%10:ptr = ptrparam 0
store i16x1 device align 2 %10, %9
return`, `
%1:ptr = ptrparam 1
%2:i16 = const 8
%3:ptr = ptrparam 0
%4:i8, %5:i8, %6:i8, %7:i8 = load i8x4 constant align 4 %1
%8:i16 = zext %4
%9:i16 = zext %7
%10:i16 = shl %9, %2
%11:i16 = or %8, %10
store i16x1 device align 2 %3, %11
return`},
		"what the left side of && guards stays a select": {`
%1:ptr = ptrparam 1
%2:i32, %3:i32 = load i32x2 constant align 4 %1
%4:i32 = const 0
%5:i1 = icmp eq %2, %4
%6:i1 = const false
%7:i1 = if %5 {
%8:i1 = icmp eq %3, %4
yield %8
} else {
yield %6
}
%9:ptr = ptrstatic 0
store i1x1 threadgroup align 1 %9, %7
return`, `
%1:ptr = ptrparam 1
%2:i32 = const 0
%3:i1 = const false
%4:ptr = ptrstatic 0
%5:i32, %6:i32 = load i32x2 constant align 4 %1
%7:i1 = icmp eq %5, %2
%8:i1 = icmp eq %6, %2
%9:i1 = select %7, %8, %3
store i1x1 threadgroup align 1 %4, %9
return`},
		"a loop over a private array unrolls, a table is read now": {`
%1:ptr = ptralloca 0
%2:ptr = ptrtable 0
%3:i64 = const 0
%4:i64 = const 1
%5:i64 = const 2
%6:i64 = const 4
loop #1 (%7:i64 = %3) {
%8:i1 = icmp slt %7, %5
if %8 {
yield
} else {
break #1
}
%9:i64 = mul %7, %6
%10:ptr = ptradd %2, %9
%11:i32 = load i32x1 constant align 4 %10
%12:ptr = ptradd %1, %9
store i32x1 thread align 4 %12, %11
%13:i64 = add %7, %4
continue #1 %13
}
%14:ptr = ptradd %1, %6
%15:i32 = load i32x1 thread align 4 %14
%16:ptr = ptrstatic 0
store i32x1 threadgroup align 4 %16, %15
return`, `
%1:ptr = ptrstatic 0
%2:i32 = const 2
store i32x1 threadgroup align 4 %1, %2
return`},
		"a loop without a constant trip count carries its variable; the invariant moves out": {`
%1:ptr = ptralloca 0
declare %1
%2:ptr = ptrparam 1
%3:i32 = load i32x1 constant align 4 %2
%4:i32 = const 0
store i32x1 thread align 4 %1, %4
%5:i32 = const 1
loop #1 () {
%6:i32 = load i32x1 thread align 4 %1
%7:i1 = icmp slt %6, %3
if %7 {
yield
} else {
break #1
}
%8:i32 = mul %3, %3
%9:i32 = add %6, %8
store i32x1 thread align 4 %1, %9
continue #1
}
%10:ptr = ptrstatic 0
%11:i32 = load i32x1 thread align 4 %1
store i32x1 threadgroup align 4 %10, %11
return`, `
%1:ptr = ptrparam 1
%2:i32 = const 0
%3:ptr = ptrstatic 0
%4:i32 = load i32x1 constant align 4 %1
%5:i32 = mul %4, %4
%9:i32 = loop #1 (%6:i32 = %2) {
%7:i1 = icmp slt %6, %4
if %7 {
yield
} else {
break #1 %6
}
%8:i32 = add %5, %6
continue #1 %8
}
store i32x1 threadgroup align 4 %3, %9
return`},
		"a conditional becomes a select, a dynamic index stays in memory": {`
%1:ptr = ptralloca 0
%2:ptr = ptrparam 1
%3:i32 = load i32x1 constant align 4 %2
%4:i32 = const 0
%5:i1 = icmp slt %3, %4
%6:i32 = if %5 {
%7:i32 = sub %4, %3
yield %7
} else {
yield %3
}
store i32x1 thread align 4 %1, %4
%8:i64 = zext %6
%9:ptr = ptradd %1, %8
%10:i32 = load i32x1 thread align 4 %9
%11:ptr = ptrstatic 0
store i32x1 threadgroup align 4 %11, %10
return`, `
%1:ptr = ptralloca 0
%2:ptr = ptrparam 1
%3:i32 = const 0
%4:ptr = ptrstatic 0
%5:i32 = load i32x1 constant align 4 %2
%6:i1 = icmp slt %5, %3
%7:i32 = sub %3, %5
%8:i32 = select %6, %7, %5
store i32x1 thread align 4 %1, %3
%9:i64 = zext %8
%10:ptr = ptradd %1, %9
%11:i32 = load i32x1 thread align 4 %10
store i32x1 threadgroup align 4 %4, %11
return`},
		"one address is loaded once between writes and barriers": {`
%1:ptr = ptrstatic 0
%2:ptr = ptrparam 0
%3:i32 = load i32x1 threadgroup align 4 %1
%4:i32 = load i32x1 device align 4 %2
%5:i32 = load i32x1 threadgroup align 4 %1
%6:i32 = add %3, %5
store i32x1 device align 4 %2, %6
%7:i32 = load i32x1 device align 4 %2
%8:i32 = load i32x1 threadgroup align 4 %1
tgbarrier threadgroup
%9:i32 = load i32x1 threadgroup align 4 %1
%10:i32 = add %7, %8
%11:i32 = add %10, %9
%12:i32 = add %11, %4
store i32x1 device align 4 %2, %12
return`, `
%1:ptr = ptrstatic 0
%2:ptr = ptrparam 0
%3:i32 = load i32x1 threadgroup align 4 %1
%4:i32 = load i32x1 device align 4 %2
%5:i32 = add %3, %3
store i32x1 device align 4 %2, %5
%6:i32 = load i32x1 device align 4 %2
tgbarrier threadgroup
%7:i32 = load i32x1 threadgroup align 4 %1
%8:i32 = add %3, %6
%9:i32 = add %7, %8
%10:i32 = add %4, %9
store i32x1 device align 4 %2, %10
return`},
		"a block with its only break at the end, and code behind a way out": {`
%1:ptr = ptrstatic 0
%2:i32 = const 3
%3:i32 = block #1 {
break #1 %2
}
%4:i1 = const true
if %4 {
store i32x1 threadgroup align 4 %1, %3
return
} else {
yield
}
store i32x1 threadgroup align 4 %1, %1x
return`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			in := strings.Replace(c[0], "%1x", "%2", 1)
			want := c[1]
			if want == "" {
				want = "%1:ptr = ptrstatic 0\n%2:i32 = const 3\nstore i32x1 threadgroup align 4 %1, %2\nreturn"
			}
			runs(t, in, want)
		})
	}
}

func TestContract(t *testing.T) {
	// %2, %3, %4 are loaded; product has one use; the second product two.
	f := parse(t, `
%1:ptr = ptrparam 0
%2:f32, %3:f32, %4:f32 = load f32x3 device align 4 %1
%5:f32 = fmul %2, %3
%6:f32 = fadd %4, %5
%7:f32 = fmul %3, %4
%8:f32 = fsub %7, %6
%9:f32 = fmul %2, %2
%10:f32 = fsub %8, %9
%11:f32 = fmul %3, %3
%12:f32 = fadd %11, %10
%13:f32 = fadd %12, %11
%14:f32 = fmul 0x1 %2, %4
%15:f32 = fadd %13, %14
%16:f32 = fmul 0x2 %2, %4
%17:f32 = fadd 0x3 %15, %16
%18:f32 = fmul 0x3 %2, %17
%19:f32 = fadd 0x3 %18, %4
store f32x1 device align 4 %1, %19
return`)
	pass.Contract(f)
	require.NoError(t, ir.Verify(f))
	require.Equal(t, strings.TrimSpace(`
%1:ptr = ptrparam 0
%2:f32, %3:f32, %4:f32 = load f32x3 device align 4 %1
%5:f32 = fmul %2, %3
%6:f32 = fma %2, %3, %4
%7:f32 = fmul %3, %4
%20:f32 = fneg %6
%8:f32 = fma %3, %4, %20
%9:f32 = fmul %2, %2
%21:f32 = fneg %2
%10:f32 = fma %21, %2, %8
%11:f32 = fmul %3, %3
%12:f32 = fadd %11, %10
%13:f32 = fadd %12, %11
%14:f32 = fmul 0x1 %2, %4
%15:f32 = fadd %13, %14
%16:f32 = fmul 0x2 %2, %4
%17:f32 = fadd 0x3 %15, %16
%18:f32 = fmul 0x3 %2, %17
%19:f32 = fma %2, %17, %4
store f32x1 device align 4 %1, %19
return`), body(f))
}

func TestUniformity(t *testing.T) {
	f := parse(t, `
%1:ptr = ptrparam 0
%2:ptr = ptrparam 1
%3:i32 = load i32x1 constant align 4 %2
%4:i32 = grid threadgroup_position_in_grid.x
%5:i32 = grid simdgroup_index_in_threadgroup.x
%6:i32 = grid thread_index_in_simdgroup.x
%7:i32 = const 1
%8:i32 = add %3, %7
%9:i32 = add %4, %8
%10:i32 = add %5, %9
%11:i32 = add %6, %7
%12:f32 = load f32x1 device align 4 %1
%13:i64 = zext %6
%14:ptr = ptradd %1, %13
%15:f32 = load f32x1 device align 4 %14
%16:f32 = simdreduce add %15
%17:f32 = simdreduce add quad %15
%18:i1 = icmp slt %6, %7
%19:i1 = icmp slt %4, %7
%20:i32 = if %18 {
yield %7
} else {
yield %3
}
%21:i32 = if %19 {
yield %7
} else {
yield %3
}
%22:i32 = loop #1 (%23:i32 = %7) {
%24:i1 = icmp slt %23, %6
if %24 {
yield
} else {
break #1 %23
}
%25:i32 = add %23, %7
continue #1 %25
}
%26:i32 = loop #2 (%27:i32 = %7) {
%28:i1 = icmp slt %27, %3
if %28 {
yield
} else {
break #2 %27
}
%29:i32 = add %27, %7
continue #2 %29
}
%30:i32 = block #3 {
if %18 {
break #3 %7
} else {
yield
}
break #3 %3
}
return`)
	u := pass.Analyze(f)
	for v, want := range map[ir.Value]pass.Level{
		3: pass.Dispatch, 7: pass.Uniform, 8: pass.Dispatch, 9: pass.Threadgroup, 10: pass.Simdgroup, 11: pass.Varying,
		12: pass.Simdgroup, 15: pass.Varying, 16: pass.Simdgroup, 17: pass.Varying, 20: pass.Varying, 21: pass.Threadgroup,
		22: pass.Varying, 23: pass.Simdgroup, 26: pass.Dispatch, 27: pass.Dispatch, 30: pass.Varying,
	} {
		require.Equal(t, want.String(), u.Of(v).String(), "%%%d", v)
	}
}

func TestEval(t *testing.T) {
	f32 := func(f float32) uint64 { return uint64(math.Float32bits(f)) }
	for _, c := range []struct {
		op    ir.Op
		t, at ir.Type
		imm   uint64
		a     []uint64
		want  uint64
	}{
		{ir.Add, ir.I8, ir.I8, 0, []uint64{200, 100}, 44},
		{ir.SDiv, ir.I32, ir.I32, 0, []uint64{0x80000000, 0xffffffff}, 0x80000000},
		{ir.SDiv, ir.I32, ir.I32, 0, []uint64{7, 0}, 0},
		{ir.SRem, ir.I32, ir.I32, 0, []uint64{0xfffffff9, 3}, 0xffffffff},
		{ir.Shl, ir.I16, ir.I16, 0, []uint64{1, 17}, 2},
		{ir.AShr, ir.I8, ir.I8, 0, []uint64{0x80, 1}, 0xc0},
		{ir.SMulHi, ir.I32, ir.I32, 0, []uint64{0xffffffff, 2}, 0xffffffff},
		{ir.UMulHi, ir.I64, ir.I64, 0, []uint64{1 << 63, 4}, 2},
		{ir.SMulHi, ir.I64, ir.I64, 0, []uint64{math.MaxUint64, math.MaxUint64}, 0},
		{ir.Clz, ir.I16, ir.I16, 0, []uint64{1}, 15},
		{ir.Ctz, ir.I32, ir.I32, 0, []uint64{0}, 32},
		{ir.ReverseBits, ir.I8, ir.I8, 0, []uint64{1}, 128},
		{ir.FToS, ir.I8, ir.F32, 0, []uint64{f32(300)}, 127},
		{ir.FToS, ir.I32, ir.F32, 0, []uint64{f32(-1e20)}, 0x80000000},
		{ir.FToS, ir.I32, ir.F32, 0, []uint64{f32(-2.75)}, 0xfffffffe},
		{ir.FToU, ir.I8, ir.F32, 0, []uint64{f32(-3)}, 0},
		{ir.FToU, ir.I32, ir.F32, 0, []uint64{0x7fc00000}, 0},
		{ir.FToU, ir.I64, ir.F32, 0, []uint64{f32(1e30)}, math.MaxUint64},
		// 2^24+1 is halfway: to even, with a bit far below upwards.
		{ir.UToF, ir.F32, ir.I64, 0, []uint64{1<<60 + 1<<36}, f32(1 << 60)},
		{ir.UToF, ir.F32, ir.I64, 0, []uint64{1<<60 + 1<<36 + 1}, f32(1<<60 + 1<<37)},
		{ir.SToF, ir.F16, ir.I32, 0, []uint64{0xfffff7ff}, 0xe800}, // -2049 is halfway between -2048 and -2050
		{ir.FAdd, ir.F16, ir.F16, 0, []uint64{0x3c00, 0x1000}, 0x3c00},
		{ir.FMul, ir.F16, ir.F16, 0, []uint64{0x0001, 0x3800}, 0}, // half the smallest: to even
		{ir.FMul, ir.F16, ir.F16, 0, []uint64{0x0001, 0x3801}, 1},
		{ir.FMin, ir.F32, ir.F32, 0, []uint64{0x7fc00000, f32(2)}, f32(2)},
		{ir.FMax, ir.F32, ir.F32, 0, []uint64{f32(2), 0x7fc00000}, f32(2)},
		{ir.FCmp, ir.I1, ir.F32, uint64(ir.Ne), []uint64{0x7fc00000, 0x7fc00000}, 1},
		{ir.FCmp, ir.I1, ir.F32, uint64(ir.FGe), []uint64{0x7fc00000, f32(1)}, 0},
		{ir.Rint, ir.F32, ir.F32, 0, []uint64{f32(2.5)}, f32(2)},
		{ir.Round, ir.F32, ir.F32, 0, []uint64{f32(-2.5)}, f32(-3)},
		{ir.ICmp, ir.I1, ir.I8, uint64(ir.SLt), []uint64{0x80, 1}, 1},
		{ir.SExt, ir.I32, ir.I1, 0, []uint64{1}, 0xffffffff},
	} {
		got, ok := pass.Eval(c.op, c.t, c.at, c.imm, c.a)
		require.True(t, ok)
		require.Equal(t, c.want, got, "%s %s %#x", c.op, c.t, c.a)
	}
	for _, op := range []ir.Op{ir.Exp, ir.FMA, ir.FRem, ir.Load} {
		_, ok := pass.Eval(op, ir.F32, ir.F32, 0, []uint64{0, 0, 0})
		require.False(t, ok)
	}
}

func TestSgmatInMemory(t *testing.T) {
	b := ir.NewBuilder("f")
	b.Alloca(ir.Alloca{Name: "m", Size: 64, Align: 8})
	b.Param(ir.Param{Name: "n", Space: ir.Constant})
	i := b.Load(b.Op(ir.PtrParam, ir.Ptr, 0), mem(ir.I64, ir.Constant))[0]
	p := b.PtrAdd(b.Op(ir.PtrAlloca, ir.Ptr, 0), i)
	v := b.Op(ir.SgFill, ir.SgF32, 0, b.F32(1))
	b.Store(p, ir.Mem{Elem: ir.SgF32, Align: 8, Space: ir.Thread}, v)
	b.Return()
	require.ErrorContains(t, pass.Run(b.Func()), "a simdgroup matrix is indexed by a value that is known only at run time")
}
