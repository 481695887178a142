package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var ys = []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// yBinary writes op for the 4 or 8 vectors of a value.
func yBinary(name string, n int, op func(y, x, d Op)) {
	handler(name, func() {
		for i := range n {
			VMOVDQU(a.Offset(32*i), ys[i])
		}
		for i := range n {
			op(b.Offset(32*i), ys[i], ys[i])
		}
		for i := range n {
			VMOVDQU(ys[i], d.Offset(32*i))
		}
	})
}

func yUnary(name string, n int, op func(x, d Op)) {
	handler(name, func() {
		for i := range n {
			op(a.Offset(32*i), ys[i])
			VMOVDQU(ys[i], d.Offset(32*i))
		}
	})
}

func yConst(bits uint32, y VecPhysical) {
	MOVL(U32(bits), EAX)
	x := y.AsX()
	VMOVD(EAX, x)
	VPBROADCASTD(x, y)
}

func yConst64(bits uint64, y VecPhysical) {
	MOVQ(U64(bits), RAX)
	x := y.AsX()
	VMOVQ(RAX, x)
	VPBROADCASTQ(x, y)
}

// yCompare stores the sign bits of each vector's lanes as a mask.
func yCompare(name string, wide bool, op func(x VecPhysical, y Mem, d VecPhysical), not bool) {
	n, lanes := 4, 8
	if wide {
		n, lanes = 8, 4
	}
	handler(name, func() {
		XORL(EBX, EBX)
		for i := range n {
			VMOVDQU(a.Offset(32*i), Y0)
			op(Y0, b.Offset(32*i), Y1)
			if wide {
				VMOVMSKPD(Y1, EAX)
			} else {
				VMOVMSKPS(Y1, EAX)
			}
			if i > 0 {
				SHLL(U8(lanes*i), EAX)
			}
			ORL(EAX, EBX)
		}
		if not {
			NOTL(EBX)
		}
		MOVQ(RBX, d)
	})
}

// yMaskShifts puts the mask in all lanes of Y13, and in Y14 the shift counts that
// bring each lane's bit to its sign.
func yMaskShifts(wide bool) {
	if wide {
		VMOVDQU(constants("maskShift64", true), Y14)
		VPBROADCASTQ(a, Y13)
	} else {
		VMOVDQU(constants("maskShift32", false), Y14)
		VPBROADCASTD(a, Y13)
	}
}

var made = map[string]Mem{}

// constants gives the shift counts that bring bit l of a word to the sign of
// lane l.
func constants(name string, wide bool) Mem {
	if m, ok := made[name]; ok {
		return m
	}
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	if wide {
		for i := range 4 {
			DATA(8*i, U64(63-i))
		}
	} else {
		for i := range 8 {
			DATA(4*i, U32(31-i))
		}
	}
	made[name] = m
	return m
}

func avx2Family() {
	type bin = func(y, x, d Op)
	for _, o := range []struct {
		name string
		n    int
		op   bin
	}{
		{"Add32", 4, func(y, x, d Op) { VPADDD(y, x, d) }},
		{"Sub32", 4, func(y, x, d Op) { VPSUBD(y, x, d) }},
		{"Mul32", 4, func(y, x, d Op) { VPMULLD(y, x, d) }},
		{"And32", 4, func(y, x, d Op) { VPAND(y, x, d) }},
		{"Or32", 4, func(y, x, d Op) { VPOR(y, x, d) }},
		{"Xor32", 4, func(y, x, d Op) { VPXOR(y, x, d) }},
		{"SMin32", 4, func(y, x, d Op) { VPMINSD(y, x, d) }},
		{"SMax32", 4, func(y, x, d Op) { VPMAXSD(y, x, d) }},
		{"UMin32", 4, func(y, x, d Op) { VPMINUD(y, x, d) }},
		{"UMax32", 4, func(y, x, d Op) { VPMAXUD(y, x, d) }},
		{"Add64", 8, func(y, x, d Op) { VPADDQ(y, x, d) }},
		{"Sub64", 8, func(y, x, d Op) { VPSUBQ(y, x, d) }},
		{"And64", 8, func(y, x, d Op) { VPAND(y, x, d) }},
		{"Or64", 8, func(y, x, d Op) { VPOR(y, x, d) }},
		{"Xor64", 8, func(y, x, d Op) { VPXOR(y, x, d) }},
		{"FAdd", 4, func(y, x, d Op) { VADDPS(y, x, d) }},
		{"FSub", 4, func(y, x, d Op) { VSUBPS(y, x, d) }},
		{"FMul", 4, func(y, x, d Op) { VMULPS(y, x, d) }},
		{"FDiv", 4, func(y, x, d Op) { VDIVPS(y, x, d) }},
	} {
		yBinary(o.name, o.n, o.op)
	}
	for _, o := range []struct {
		name string
		n    int
		op   bin
	}{
		{"Shl32", 4, func(y, x, d Op) { VPSLLVD(y, x, d) }},
		{"LShr32", 4, func(y, x, d Op) { VPSRLVD(y, x, d) }},
		{"AShr32", 4, func(y, x, d Op) { VPSRAVD(y, x, d) }},
		{"Shl64", 8, func(y, x, d Op) { VPSLLVQ(y, x, d) }},
		{"LShr64", 8, func(y, x, d Op) { VPSRLVQ(y, x, d) }},
	} {
		handler(o.name, func() {
			if o.n == 4 {
				yConst(31, Y15)
			} else {
				yConst64(63, Y15)
			}
			for i := range o.n {
				VPAND(b.Offset(32*i), Y15, Y1)
				VMOVDQU(a.Offset(32*i), Y0)
				o.op(Y1, Y0, Y0)
				VMOVDQU(Y0, d.Offset(32*i))
			}
		})
	}
	// Low halves' product plus the cross products above.
	handler("Mul64", func() {
		for i := range 8 {
			x, y, t, u := Y0, Y1, Y2, Y3
			VMOVDQU(a.Offset(32*i), x)
			VMOVDQU(b.Offset(32*i), y)
			VPSRLQ(U8(32), x, t)
			VPMULUDQ(y, t, t)
			VPSRLQ(U8(32), y, u)
			VPMULUDQ(x, u, u)
			VPADDQ(t, u, u)
			VPSLLQ(U8(32), u, u)
			VPMULUDQ(x, y, x)
			VPADDQ(u, x, x)
			VMOVDQU(x, d.Offset(32*i))
		}
	})
	for _, o := range []struct {
		name string
		op   bin
	}{
		{"FMin", func(y, x, d Op) { VMINPS(y, x, d) }},
		{"FMax", func(y, x, d Op) { VMAXPS(y, x, d) }},
	} {
		handler(o.name, func() {
			for i := range 4 {
				VMOVUPS(a.Offset(32*i), Y0)
				VMOVUPS(b.Offset(32*i), Y1)
				o.op(Y1, Y0, Y2)
				VCMPPS(U8(3), Y1, Y1, Y3)
				VBLENDVPS(Y3, Y0, Y2, Y2)
				VMOVUPS(Y2, d.Offset(32*i))
			}
		})
	}
	handler("FMA", func() {
		for i := range 4 {
			VMOVUPS(c.Offset(32*i), ys[i])
			VMOVUPS(a.Offset(32*i), ys[4+i])
		}
		for i := range 4 {
			VFMADD231PS(b.Offset(32*i), ys[4+i], ys[i])
			VMOVUPS(ys[i], d.Offset(32*i))
		}
	})
	for _, o := range []struct {
		name string
		n    int
		op   func(x Op, d Op)
	}{
		{"Copy32", 4, func(x, d Op) { VMOVDQU(x, d) }},
		{"Copy64", 8, func(x, d Op) { VMOVDQU(x, d) }},
		{"Sqrt", 4, func(x, d Op) { VSQRTPS(x, d) }},
		{"Floor", 4, func(x, d Op) { VROUNDPS(U8(9), x, d) }},
		{"Ceil", 4, func(x, d Op) { VROUNDPS(U8(10), x, d) }},
		{"Trunc", 4, func(x, d Op) { VROUNDPS(U8(11), x, d) }},
		{"Rint", 4, func(x, d Op) { VROUNDPS(U8(8), x, d) }},
		{"S32ToF", 4, func(x, d Op) { VCVTDQ2PS(x, d) }},
		{"BF16ToF", 4, func(x, d Op) { VMOVDQU(x, d); VPSLLD(U8(16), d, d) }},
		{"SExt8", 4, func(x, d Op) { VMOVDQU(x, d); VPSLLD(U8(24), d, d); VPSRAD(U8(24), d, d) }},
		{"SExt16", 4, func(x, d Op) { VMOVDQU(x, d); VPSLLD(U8(16), d, d); VPSRAD(U8(16), d, d) }},
	} {
		yUnary(o.name, o.n, o.op)
	}
	// The halves of a word are exact floats; their sum is rounded once.
	handler("U32ToF", func() {
		yConst(0xffff, Y15)
		yConst(0x47800000, Y14) // 2^16
		for i := range 4 {
			VMOVDQU(a.Offset(32*i), Y0)
			VPSRLD(U8(16), Y0, Y1)
			VPAND(Y15, Y0, Y0)
			VCVTDQ2PS(Y0, Y0)
			VCVTDQ2PS(Y1, Y1)
			VMULPS(Y14, Y1, Y1)
			VADDPS(Y1, Y0, Y0)
			VMOVUPS(Y0, d.Offset(32*i))
		}
	})
	handler("Copysign", func() {
		yConst(0x80000000, Y15)
		for i := range 4 {
			VPAND(b.Offset(32*i), Y15, Y1)
			VPANDN(a.Offset(32*i), Y15, Y0)
			VPOR(Y1, Y0, Y0)
			VMOVDQU(Y0, d.Offset(32*i))
		}
	})
	for _, w := range []string{"32", "64"} {
		wide := w == "64"
		eq := func(x VecPhysical, y Mem, d VecPhysical) {
			if wide {
				VPCMPEQQ(y, x, d)
			} else {
				VPCMPEQD(y, x, d)
			}
		}
		gt := func(y, x, d VecPhysical) { // x > y
			if wide {
				VPCMPGTQ(y, x, d)
			} else {
				VPCMPGTD(y, x, d)
			}
		}
		// flip makes unsigned order signed.
		flip := func(x VecPhysical, y Mem) {
			yConst64(0x8000000080000000, Y5)
			if wide {
				VPSRLQ(U8(32), Y5, Y5)
				VPSLLQ(U8(32), Y5, Y5)
			}
			VPXOR(y, Y5, Y4)
			VPXOR(x, Y5, x)
		}
		yCompare("Eq"+w, wide, eq, false)
		yCompare("Ne"+w, wide, eq, true)
		yCompare("SLt"+w, wide, func(x VecPhysical, y Mem, d VecPhysical) { VMOVDQU(y, Y4); gt(x, Y4, d) }, false)
		yCompare("SLe"+w, wide, func(x VecPhysical, y Mem, d VecPhysical) { VMOVDQU(y, Y4); gt(Y4, x, d) }, true)
		yCompare("ULt"+w, wide, func(x VecPhysical, y Mem, d VecPhysical) { flip(x, y); gt(x, Y4, d) }, false)
		yCompare("ULe"+w, wide, func(x VecPhysical, y Mem, d VecPhysical) { flip(x, y); gt(Y4, x, d) }, true)
	}
	for _, o := range []struct {
		name string
		imm  U8
	}{{"FEq", 0}, {"FNe", 4}, {"FLt", 0x11}, {"FLe", 0x12}} {
		yCompare(o.name, false, func(x VecPhysical, y Mem, d VecPhysical) { VCMPPS(o.imm, y, x, d) }, false)
	}
	// The mask's bits go to the lanes' signs, from where blends read them.
	handler("Select32", func() {
		yMaskShifts(false)
		for i := range 4 {
			VPSRLD(U8(8*i), Y13, Y12)
			VPSLLVD(Y14, Y12, Y12)
			VMOVDQU(c.Offset(32*i), Y0)
			VBLENDVPS(Y12, b.Offset(32*i), Y0, Y0)
			VMOVUPS(Y0, d.Offset(32*i))
		}
	})
	handler("Select64", func() {
		yMaskShifts(true)
		for i := range 8 {
			VPSRLQ(U8(4*i), Y13, Y12)
			VPSLLVQ(Y14, Y12, Y12)
			VMOVDQU(c.Offset(32*i), Y0)
			VBLENDVPD(Y12, b.Offset(32*i), Y0, Y0)
			VMOVUPD(Y0, d.Offset(32*i))
		}
	})
	handler("Bool32", func() {
		yMaskShifts(false)
		for i := range 4 {
			VPSRLD(U8(8*i), Y13, Y12)
			VPSLLVD(Y14, Y12, Y12)
			VPSRLD(U8(31), Y12, Y12)
			VMOVDQU(Y12, d.Offset(32*i))
		}
	})
	handler("Bool64", func() {
		yMaskShifts(true)
		for i := range 8 {
			VPSRLQ(U8(4*i), Y13, Y12)
			VPSLLVQ(Y14, Y12, Y12)
			VPSRLQ(U8(63), Y12, Y12)
			VMOVDQU(Y12, d.Offset(32*i))
		}
	})
	for _, o := range []struct {
		name string
		op   func(x, d Op)
	}{
		{"ZExt64", func(x, d Op) { VPMOVZXDQ(x, d) }},
		{"SExt64", func(x, d Op) { VPMOVSXDQ(x, d) }},
	} {
		handler(o.name, func() {
			for i := range 8 {
				o.op(a.Offset(16*i), ys[i])
			}
			for i := range 8 {
				VMOVDQU(ys[i], d.Offset(32*i))
			}
		})
	}
	handler("Trunc64", func() {
		for i := range 4 {
			VMOVDQU(a.Offset(64*i), Y0)
			VSHUFPS(U8(0x88), a.Offset(64*i+32), Y0, Y0)
			VPERMQ(U8(0xd8), Y0, Y0)
			VMOVDQU(Y0, d.Offset(32*i))
		}
	})
	handler("FToS32", func() {
		yConst(0x4f000000, Y15) // 2^31
		yConst(0x7fffffff, Y14)
		VPXOR(Y13, Y13, Y13)
		for i := range 4 {
			VMOVUPS(a.Offset(32*i), Y0)
			VCVTTPS2DQ(Y0, Y1)
			VCMPPS(U8(0x1d), Y15, Y0, Y2)
			VBLENDVPS(Y2, Y14, Y1, Y1)
			VCMPPS(U8(3), Y0, Y0, Y2)
			VBLENDVPS(Y2, Y13, Y1, Y1)
			VMOVDQU(Y1, d.Offset(32*i))
		}
	})
	handler("F16ToF", func() {
		for i := range 4 {
			VMOVDQU(a.Offset(32*i), X0)
			VPACKUSDW(a.Offset(32*i+16), X0, X0)
			VCVTPH2PS(X0, Y1)
			VMOVUPS(Y1, d.Offset(32*i))
		}
	})
	handler("FToF16", func() {
		for i := range 4 {
			VMOVUPS(a.Offset(32*i), Y0)
			VCVTPS2PH(U8(0), Y0, X0)
			VPMOVZXWD(X0, Y0)
			VMOVDQU(Y0, d.Offset(32*i))
		}
	})
	handler("FToBF16", func() {
		yConst(0x7fff, Y15)
		yConst(1, Y14)
		yConst(0x40, Y13)
		for i := range 4 {
			VMOVDQU(a.Offset(32*i), Y0)
			VPSRLD(U8(16), Y0, Y1)
			VPAND(Y14, Y1, Y2)
			VPADDD(Y15, Y2, Y2)
			VPADDD(Y0, Y2, Y2)
			VPSRLD(U8(16), Y2, Y2)
			VPOR(Y13, Y1, Y1)
			VCMPPS(U8(3), Y0, Y0, Y3)
			VBLENDVPS(Y3, Y1, Y2, Y2)
			VMOVDQU(Y2, d.Offset(32*i))
		}
	})
	handler("Bcast32", func() {
		VPBROADCASTD(a, Y0)
		for i := range 4 {
			VMOVDQU(Y0, d.Offset(32*i))
		}
	})
	handler("Bcast64", func() {
		VPBROADCASTQ(a, Y0)
		for i := range 8 {
			VMOVDQU(Y0, d.Offset(32*i))
		}
	})
	avx2Memory()
}

func avx2Memory() {
	wide := func(name, doc, sig string, body func()) {
		TEXT(name+"AVX2", attr.NOSPLIT, sig)
		Doc(name + "AVX2 " + doc)
		Pragma("noescape")
		body()
		VZEROUPPER()
		RET()
	}
	wide("load8", "widens 32 bytes.", "func(d *[32]uint32, p *byte)", func() {
		Load(Param("d"), RDI)
		Load(Param("p"), RSI)
		for i := range 4 {
			VPMOVZXBD(a.Offset(8*i), ys[i])
			VMOVDQU(ys[i], d.Offset(32*i))
		}
	})
	wide("load16", "widens 32 halfwords.", "func(d *[32]uint32, p *byte)", func() {
		Load(Param("d"), RDI)
		Load(Param("p"), RSI)
		for i := range 4 {
			VPMOVZXWD(a.Offset(16*i), ys[i])
			VMOVDQU(ys[i], d.Offset(32*i))
		}
	})
	wide("store16", "writes the low halfwords of 32 lanes.", "func(p *byte, s *[32]uint32)", func() {
		Load(Param("p"), RDI)
		Load(Param("s"), RSI)
		yConst(0xffff, Y15)
		for i := range 2 {
			VPAND(a.Offset(64*i), Y15, Y0)
			VPAND(a.Offset(64*i+32), Y15, Y1)
			VPACKUSDW(Y1, Y0, Y0)
			VPERMQ(U8(0xd8), Y0, Y0)
			VMOVDQU(Y0, d.Offset(32*i))
		}
	})
	// A row of the result at a time, all of b in registers: d may be a, b or c.
	wide("mma", "is d = a*b + c of 8x8 matrices, k ascending.", "func(d, a, b, c *[64]float32)", func() {
		Load(Param("d"), RDI)
		Load(Param("a"), RSI)
		Load(Param("b"), RDX)
		Load(Param("c"), RCX)
		for k := range 8 {
			VMOVUPS(b.Offset(32*k), ys[8+k])
		}
		for i := range 8 {
			VMOVUPS(c.Offset(32*i), Y0)
			for k := range 8 {
				VBROADCASTSS(a.Offset(32*i+4*k), Y1)
				VFMADD231PS(ys[8+k], Y1, Y0)
			}
			VMOVUPS(Y0, d.Offset(32*i))
		}
	})
	reduce := func(name, doc string, identity uint32, op func(y, x, d VecPhysical)) {
		wide(name, doc, "func(v *[32]uint32, m uint32) float32", func() {
			Load(Param("v"), RSI)
			Load(Param("m"), EBX)
			VMOVD(EBX, X13)
			VPBROADCASTD(X13, Y13)
			VMOVDQU(constants("maskShift32", false), Y14)
			yConst(identity, Y15)
			for i := range 4 {
				VPSRLD(U8(8*i), Y13, Y12)
				VPSLLVD(Y14, Y12, Y12)
				VBLENDVPS(Y12, a.Offset(32*i), Y15, ys[i])
			}
			op(Y2, Y0, Y0)
			op(Y3, Y1, Y1)
			op(Y1, Y0, Y0)
			VEXTRACTI128(U8(1), Y0, X1)
			op(X1, X0, X0)
			VPSHUFD(U8(0x4e), X0, X1)
			op(X1, X0, X0)
			VPSHUFD(U8(0xb1), X0, X1)
			op(X1, X0, X0)
			Store(X0, ReturnIndex(0))
		})
	}
	reduce("reduceFAdd", "sums the active lanes in the fixed order.", 0x80000000, func(y, x, d VecPhysical) { VADDPS(y, x, d) })
	reduce("reduceFMax", "gives the largest of the active lanes.", 0xff800000, func(y, x, d VecPhysical) {
		t, u := Y4, Y5
		if d == X0 {
			t, u = X4, X5
		}
		VMAXPS(y, x, t)
		VCMPPS(U8(3), y, y, u)
		VBLENDVPS(u, x, t, d)
	})
}
