package ir_test

import (
	"strings"
	"testing"

	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

// sample has an instruction of every shape of operand and immediate.
func sample() *ir.Func {
	b := ir.NewBuilder(`odd "name"`)
	b.Param(ir.Param{Name: "x", Kind: ir.BufferParam, Index: 3, Space: ir.Device, Elem: "const float *", ElemSize: 4, Scalar: ir.F32, ReadOnly: true})
	b.Param(ir.Param{Name: "sh", Kind: ir.ThreadgroupParam, Index: 1, Space: ir.Threadgroup, Elem: "half", ElemSize: 2, Scalar: ir.F16})
	b.Param(ir.Param{Name: "args", Kind: ir.BufferParam, Index: 0, Space: ir.Constant, Elem: "args_t", ElemSize: 24, Ref: true, ReadOnly: true})
	b.Static(ir.Static{Name: "tile", Size: 256, Align: 16})
	b.Alloca(ir.Alloca{Name: "acc", Size: 16, Align: 4})
	b.Table(ir.Table{Name: "values", Data: []byte{1, 0xff}})
	b.Table(ir.Table{Name: "none"})
	call := b.Position(ir.Position{File: "k.metal", Line: 9, Col: 3})
	b.SetPos(b.Position(ir.Position{File: "h.h", Line: 1, Col: 2, InlinedAt: call}))
	x := b.Op(ir.PtrParam, ir.Ptr, 0)
	sh := b.Op(ir.PtrParam, ir.Ptr, 1)
	acc := b.Op(ir.PtrAlloca, ir.Ptr, 0)
	tid := b.Grid(ir.ThreadPositionInGrid, 1)
	off := b.Bin(ir.Shl, b.Conv(ir.ZExt, ir.I64, tid), b.I64(2))
	p := b.PtrAdd(x, off)
	v := b.Load(p, ir.Mem{Elem: ir.F32, Count: 4, Align: 16, Space: ir.Device, Coherent: true})
	b.Store(acc, ir.Mem{Elem: ir.F32, Align: 4, Space: ir.Thread, Vector: 16, VectorOff: 8}, v[0], v[1])
	n := b.I32(-7)
	inf := b.Const(ir.F32, 0x7f800000)
	h := b.Const(ir.F16, 0x3c00)
	c := b.Cmp(ir.SLt, tid, n)
	d := b.Cmp(ir.FLt, v[0], inf)
	r := b.If(b.Bin(ir.And, c, d), []ir.Type{ir.F32}, func() []ir.Value {
		return []ir.Value{b.Op(ir.SimdReduce, ir.F32, uint64(ir.ReduceFMax)|ir.QuadScope, v[2])}
	}, func() []ir.Value { return []ir.Value{b.F32(0.5)} })
	out := b.Loop([]ir.Value{n, r[0]}, []ir.Type{ir.F32}, func(l *ir.Instr, a []ir.Value) {
		b.Block(nil, func(blk *ir.Instr) []ir.Value {
			b.If(b.Cmp(ir.Eq, a[0], n), nil, func() []ir.Value { b.Break(blk); return nil }, nil)
			b.If(b.Cmp(ir.UGt, a[0], n), nil, func() []ir.Value { b.Break(l, a[1]); return nil }, nil)
			return nil
		})
		b.Continue(l, b.Bin(ir.Add, a[0], b.I32(1)), b.Bin(ir.FMA, a[1], a[1], a[1]))
	})
	b.Barrier(ir.TgBarrier, ir.MemDevice|ir.MemThreadgroup)
	b.Barrier(ir.SgBarrier, 0)
	z := b.I64(0)
	m := b.NewValue(ir.SgF16)
	b.Add(&ir.Instr{Op: ir.SgLoad, Res: []ir.Value{m}, Args: []ir.Value{sh, b.I64(8), z, z, b.Const(ir.I1, 0)}, Mem: &ir.Mem{Elem: ir.F16, Count: 1, Align: 2, Space: ir.Threadgroup}})
	acc8 := b.Op(ir.SgFill, ir.SgF32, 0, out[0])
	mm := b.Op(ir.SgMMA, ir.SgF32, 0, m, m, acc8)
	b.Op(ir.SgElem, ir.F32, 1, mm)
	b.Op(ir.SgWith, ir.SgF16, 1, m, h)
	b.Op(ir.SimdShuffle, ir.F32, uint64(ir.ShuffleXor), v[1], n)
	b.Op(ir.SimdVote, ir.I64, uint64(ir.VoteBallot), c)
	b.Op(ir.SimdScan, ir.I32, uint64(ir.ReduceAdd)|ir.ScanExclusive, tid)
	b.Op(ir.Undef, ir.F32, 0)
	b.Return()
	return b.Func()
}

func TestRoundTrip(t *testing.T) {
	f := sample()
	require.NoError(t, ir.Verify(f))
	text := f.String()
	g, err := ir.Parse(text)
	require.NoError(t, err)
	require.Equal(t, f.Params, g.Params)
	require.Equal(t, f.Positions, g.Positions)
	require.Equal(t, f.Types, g.Types)
	require.Equal(t, text, g.String())
	require.NoError(t, ir.Verify(g))
	for _, part := range []string{
		`param buffer 0 constant readonly ref "args_t" size 24 void name "args"`,
		`load f32x4 device align 16 coherent`, `store f32x2 thread align 4 vector 16+8`,
		`grid thread_position_in_grid.y`, `const -7`, `const 0x7f800000`, `simdreduce fmax quad`, `tgbarrier device|threadgroup`,
		`sgload f16x1 threadgroup align 2`, `simdscan add exclusive`, `simdvote ballot`, `break #1`, "} else {",
	} {
		require.Contains(t, text, part)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":           "line 1: no function",
		"func \"f\"": `"" where "{" is expected`,
		"func \"f\" {\nbody\n%1:i32 = const x\n}":              `line 3: "x" is not a constant of type i32`,
		"func \"f\" {\nbody\n%1:i8 = const 300\n}":             `line 3: "300" is not a constant of type i8`,
		"func \"f\" {\nbody\nbreak #1\n}":                      "line 3: no enclosing loop or block has the label #1",
		"func \"f\" {\nbody\n%1:i32 = const 1":                 "the text ends inside a region",
		"func \"f\" {\nbody\n%1:i32 = frob %1\n}":              `line 3: "frob" is not an operation`,
		"func \"f\" {\nbody\n%1:i32 = const 1 2\n}":            `line 3: "2" after the end of the line's content`,
		"func \"f\" {\npos 7 \"a\" 1 1 at 0\nbody\n}":          "line 2: position 7 where 1 is expected",
		"func \"f\" {\nbody\n%1:i32 = const 1\n%1:i32 = undef": "%1 is defined twice",
		"func \"f\" {\nbody\n%99999999:i32 = undef\n}":         "where a value such as %7 is expected",
	} {
		_, err := ir.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestVerifyRejects(t *testing.T) {
	head := "func \"f\" {\nparam buffer 0 constant \"float\" size 4 f32 name \"x\"\nstatic \"s\" size 4 align 4\nbody\n"
	for body, want := range map[string]string{
		"%1:i32 = const 1":                              "a region ends without a terminator",
		"return\nreturn":                                "a terminator before the end",
		"%2:i32 = add %7, %7\nreturn":                   "%7 does not exist",
		"%2:i32 = add %1, %1\n%1:i32 = const 1\nreturn": "%1 is used before its definition",
		"%1:i1 = const true\nif %1 {\n%2:i32 = const 1\nyield\n} else {\n%3:i32 = add %2, %2\nyield\n}\nreturn": "%2 is used outside the region",
		"%1:i1 = const true\n%2:i32 = if %1 {\nyield\n} else {\nyield\n}\nreturn":                               "0 values, expected 1",
		"%1:i1 = const true\n%2:f32 = if %1 {\n%3:i32 = const 1\nyield %3\n} else {\nreturn\n}\nreturn":         "value 0 has type i32, expected f32",
		"%1:i32 = const 1\n%2:f32 = fadd %1, %1\nreturn":                                                        "operand 0 has type i32, expected f32",
		"%1:f32 = const 1.0\n%2:f32 = add %1, %1\nreturn":                                                       "is not there for type f32",
		"%1:i32 = const 1\n%2:i64 = inttrunc %1\nreturn":                                                        "converts i32 to i64",
		"%1:i32 = const 1\n%2:i1 = icmp flt %1, %1\nreturn":                                                     "has predicate flt",
		"%1:ptr = ptrparam 1\nreturn":                                                                           "object 1 of 1",
		"%1:ptr = ptrparam 0\n%2:f32 = load f32x1 constant align 3 %1\nreturn":                                  "alignment 3, expected a power of two",
		"%1:ptr = ptrparam 0\n%2:f32 = load f32x2 constant align 4 %1\nreturn":                                  "1 results, expected 2",
		"%1:ptr = ptrparam 0\n%2:f32 = const 1.0\nstore f32x1 constant align 4 %1, %2\nreturn":                  "writes constant memory",
		"%1:ptr = ptrstatic 0\n%2:f32 = const 1.0\nstore f32x1 threadgroup align 4 vector 16+14 %1, %2\nreturn": "4 bytes at 14 of a vector of 16",
		"%1:ptr = ptrstatic 0\nstore ptrx1 threadgroup align 8 %1, %1\nreturn":                                  "a pointer in threadgroup memory",
		"%1:ptr = const 0x10\nreturn":                                                                           "is not there for type ptr",
		"tgbarrier none site 1\ntgbarrier none site 1\nreturn":                                                  "site 1 is there twice",
		"%1:i32 = const 1\nloop #1 (%2:i32 = %1) {\ncontinue #1\n}\nreturn":                                     "0 values, expected 1",
		"%1:f32 = const 1.0\n%2:f32 = loop #1 () {\nbreak #1\n}\nreturn":                                        "0 values, expected 1",
		"block #1 {\ncontinue #1\n}\nreturn":                                                                    "continues a block",
		"%1:f32 = const 1.0\n%2:f32 = simdreduce smax %1\nreturn":                                               "reduces f32 with",
		"%1:f32 = const 1.0\n%2:sgf16 = sgfill %1\nreturn":                                                      "operand 0 has type f32, expected f16",
		"yield":                     "yield outside of an if",
		"%1:i32 = undef !5\nreturn": "position 5 does not exist",
	} {
		f, err := ir.Parse(head + body + "\n}")
		require.NoError(t, err, body)
		require.ErrorContains(t, ir.Verify(f), want, body)
	}
	f, err := ir.Parse(head + "%1:i1 = const true\nif %1 {\nreturn\n} else {\nyield\n}\nreturn\n}")
	require.NoError(t, err)
	require.NoError(t, ir.Verify(f))
	// A break out of a loop that is not around it.
	b := ir.NewBuilder("f")
	var loop *ir.Instr
	b.Loop(nil, nil, func(l *ir.Instr, _ []ir.Value) { loop = l; b.Break(l) })
	b.Block(nil, func(*ir.Instr) []ir.Value { b.Break(loop); return nil })
	b.Return()
	require.ErrorContains(t, ir.Verify(b.Func()), "the target does not enclose it")
}

// Results that one instruction passes on to another stay its own.
func TestBuilderCopies(t *testing.T) {
	b := ir.NewBuilder("f")
	c := b.Const(ir.I1, 1)
	var inner []ir.Value
	b.If(c, []ir.Type{ir.I1}, func() []ir.Value {
		inner = b.If(c, []ir.Type{ir.I1}, func() []ir.Value { return []ir.Value{c} }, func() []ir.Value { return []ir.Value{c} })
		return inner
	}, func() []ir.Value { return []ir.Value{c} })
	b.Return()
	outer := b.Func().Body.Instrs[1]
	arm := outer.Body[0].Instrs
	arm[1].Args[0] = 0
	inner[0] = 0
	require.NotZero(t, arm[0].Res[0])
}

func FuzzParse(f *testing.F) {
	f.Add(sample().String())
	f.Add("func \"f\" {\n body\n %1:f32 = const 1.5\n block #1 {\n break #1\n }\n return\n}")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			return
		}
		fn, err := ir.Parse(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "ir: line ") {
				t.Fatalf("error without a line: %v", err)
			}
			return
		}
		if ir.Verify(fn) != nil {
			return
		}
		again, err := ir.Parse(fn.String())
		require.NoError(t, err)
		require.Equal(t, fn.String(), again.String())
		require.NoError(t, ir.Verify(again))
	})
}
