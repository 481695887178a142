package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

var zs = []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15}

// z32 and z64 write op for the 2 or 4 vectors of a value: x, then y from memory,
// the result in a register.
func zBinary(name string, n int, op func(y, x, d Op)) {
	handler(name, func() {
		for i := range n {
			VMOVDQU32(a.Offset(64*i), zs[i])
		}
		for i := range n {
			op(b.Offset(64*i), zs[i], zs[i])
		}
		for i := range n {
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
}

func zUnary(name string, n int, op func(x, d Op)) {
	handler(name, func() {
		for i := range n {
			op(a.Offset(64*i), zs[i])
		}
		for i := range n {
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
}

// broadcast puts a 32-bit constant in all lanes of z.
func zConst(bits uint32, z VecPhysical) {
	MOVL(U32(bits), EAX)
	VPBROADCASTD(EAX, z)
}

func zConst64(bits uint32, z VecPhysical) {
	MOVL(U32(bits), EAX)
	VPBROADCASTQ(RAX, z)
}

// zMask stores the masks in k as one word of bits lanes each.
func zMask(ks []OpmaskPhysical, lanes int) {
	KMOVW(ks[0], EAX)
	for i, k := range ks[1:] {
		KMOVW(k, EBX)
		SHLL(U8(lanes*(i+1)), EBX)
		ORL(EBX, EAX)
	}
	MOVQ(RAX, d)
}

// zLoadMask puts the mask at m into one mask register for each vector of so many
// lanes.
func zLoadMask(m Mem, ks []OpmaskPhysical, lanes int) {
	MOVL(m, EAX)
	KMOVW(EAX, ks[0])
	for _, k := range ks[1:] {
		SHRL(U8(lanes), EAX)
		KMOVW(EAX, k)
	}
}

var ks = []OpmaskPhysical{K1, K2, K3, K4}

func avx512Family() {
	type bin = func(y, x, d Op)
	for _, o := range []struct {
		name string
		n    int
		op   bin
	}{
		{"Add32", 2, func(y, x, d Op) { VPADDD(y, x, d) }},
		{"Sub32", 2, func(y, x, d Op) { VPSUBD(y, x, d) }},
		{"Mul32", 2, func(y, x, d Op) { VPMULLD(y, x, d) }},
		{"And32", 2, func(y, x, d Op) { VPANDD(y, x, d) }},
		{"Or32", 2, func(y, x, d Op) { VPORD(y, x, d) }},
		{"Xor32", 2, func(y, x, d Op) { VPXORD(y, x, d) }},
		{"SMin32", 2, func(y, x, d Op) { VPMINSD(y, x, d) }},
		{"SMax32", 2, func(y, x, d Op) { VPMAXSD(y, x, d) }},
		{"UMin32", 2, func(y, x, d Op) { VPMINUD(y, x, d) }},
		{"UMax32", 2, func(y, x, d Op) { VPMAXUD(y, x, d) }},
		{"Add64", 4, func(y, x, d Op) { VPADDQ(y, x, d) }},
		{"Sub64", 4, func(y, x, d Op) { VPSUBQ(y, x, d) }},
		{"Mul64", 4, func(y, x, d Op) { VPMULLQ(y, x, d) }},
		{"And64", 4, func(y, x, d Op) { VPANDD(y, x, d) }},
		{"Or64", 4, func(y, x, d Op) { VPORD(y, x, d) }},
		{"Xor64", 4, func(y, x, d Op) { VPXORD(y, x, d) }},
		{"SMin64", 4, func(y, x, d Op) { VPMINSQ(y, x, d) }},
		{"SMax64", 4, func(y, x, d Op) { VPMAXSQ(y, x, d) }},
		{"UMin64", 4, func(y, x, d Op) { VPMINUQ(y, x, d) }},
		{"UMax64", 4, func(y, x, d Op) { VPMAXUQ(y, x, d) }},
		{"FAdd", 2, func(y, x, d Op) { VADDPS(y, x, d) }},
		{"FSub", 2, func(y, x, d Op) { VSUBPS(y, x, d) }},
		{"FMul", 2, func(y, x, d Op) { VMULPS(y, x, d) }},
		{"FDiv", 2, func(y, x, d Op) { VDIVPS(y, x, d) }},
	} {
		zBinary(o.name, o.n, o.op)
	}
	// Shift counts modulo the width.
	for _, o := range []struct {
		name string
		n    int
		op   bin
	}{
		{"Shl32", 2, func(y, x, d Op) { VPSLLVD(y, x, d) }},
		{"LShr32", 2, func(y, x, d Op) { VPSRLVD(y, x, d) }},
		{"AShr32", 2, func(y, x, d Op) { VPSRAVD(y, x, d) }},
		{"Shl64", 4, func(y, x, d Op) { VPSLLVQ(y, x, d) }},
		{"LShr64", 4, func(y, x, d Op) { VPSRLVQ(y, x, d) }},
		{"AShr64", 4, func(y, x, d Op) { VPSRAVQ(y, x, d) }},
	} {
		handler(o.name, func() {
			if o.n == 2 {
				zConst(31, Z15)
			} else {
				zConst64(63, Z15)
			}
			for i := range o.n {
				VPANDD(b.Offset(64*i), Z15, zs[8+i])
				VMOVDQU32(a.Offset(64*i), zs[i])
				o.op(zs[8+i], zs[i], zs[i])
			}
			for i := range o.n {
				VMOVDQU32(zs[i], d.Offset(64*i))
			}
		})
	}
	avx512Fused()
	// The non-NaN operand: MINPS gives its second source for a NaN, so only a NaN
	// in y is left to put right.
	for _, o := range []struct {
		name string
		op   bin
	}{
		{"FMin", func(y, x, d Op) { VMINPS(y, x, d) }},
		{"FMax", func(y, x, d Op) { VMAXPS(y, x, d) }},
	} {
		handler(o.name, func() {
			for i := range 2 {
				x, y, r := zs[i], zs[2+i], zs[4+i]
				VMOVUPS(a.Offset(64*i), x)
				VMOVUPS(b.Offset(64*i), y)
				o.op(y, x, r)
				VCMPPS(U8(3), y, y, ks[i])
				VMOVAPS(x, ks[i], r)
				VMOVUPS(r, d.Offset(64*i))
			}
		})
	}
	handler("FMA", func() {
		for i := range 2 {
			VMOVUPS(c.Offset(64*i), zs[i])
			VMOVUPS(a.Offset(64*i), zs[2+i])
		}
		for i := range 2 {
			VFMADD231PS(b.Offset(64*i), zs[2+i], zs[i])
			VMOVUPS(zs[i], d.Offset(64*i))
		}
	})
	for _, o := range []struct {
		name string
		n    int
		op   func(x, d Op)
	}{
		{"Copy32", 2, func(x, d Op) { VMOVDQU32(x, d) }},
		{"Copy64", 4, func(x, d Op) { VMOVDQU32(x, d) }},
		{"Sqrt", 2, func(x, d Op) { VSQRTPS(x, d) }},
		{"Floor", 2, func(x, d Op) { VRNDSCALEPS(U8(9), x, d) }},
		{"Ceil", 2, func(x, d Op) { VRNDSCALEPS(U8(10), x, d) }},
		{"Trunc", 2, func(x, d Op) { VRNDSCALEPS(U8(11), x, d) }},
		{"Rint", 2, func(x, d Op) { VRNDSCALEPS(U8(8), x, d) }},
		{"S32ToF", 2, func(x, d Op) { VCVTDQ2PS(x, d) }},
		{"U32ToF", 2, func(x, d Op) { VCVTUDQ2PS(x, d) }},
		{"Clz32", 2, func(x, d Op) { VPLZCNTD(x, d) }},
		{"BF16ToF", 2, func(x, d Op) { VPSLLD(U8(16), x, d) }},
		{"SExt8", 2, func(x, d Op) { VPSLLD(U8(24), x, d); VPSRAD(U8(24), d, d) }},
		{"SExt16", 2, func(x, d Op) { VPSLLD(U8(16), x, d); VPSRAD(U8(16), d, d) }},
	} {
		zUnary(o.name, o.n, o.op)
	}
	handler("Copysign", func() {
		zConst(0x80000000, Z15)
		for i := range 2 {
			VMOVDQU32(a.Offset(64*i), zs[i])
			VMOVDQU32(b.Offset(64*i), zs[2+i])
			// sign ? y : x, bit by bit
			VMOVDQA32(Z15, zs[4+i])
			VPTERNLOGD(U8(0xca), zs[i], zs[2+i], zs[4+i])
			VMOVDQU32(zs[4+i], d.Offset(64*i))
		}
	})
	// Comparisons.
	for i, name := range []string{"Eq", "SLt", "SLe", "", "Ne"} {
		if name == "" {
			continue
		}
		zCompare(name+"32", 2, func(x Op, y Mem, k Op) { VPCMPD(U8(i), y, x, k) })
		zCompare(name+"64", 4, func(x Op, y Mem, k Op) { VPCMPQ(U8(i), y, x, k) })
	}
	for i, name := range []string{"", "ULt", "ULe"} {
		if name == "" {
			continue
		}
		zCompare(name+"32", 2, func(x Op, y Mem, k Op) { VPCMPUD(U8(i), y, x, k) })
		zCompare(name+"64", 4, func(x Op, y Mem, k Op) { VPCMPUQ(U8(i), y, x, k) })
	}
	for _, o := range []struct {
		name string
		imm  U8
	}{{"FEq", 0}, {"FNe", 4}, {"FLt", 0x11}, {"FLe", 0x12}} {
		zCompare(o.name, 2, func(x Op, y Mem, k Op) { VCMPPS(o.imm, y, x, k) })
	}
	handler("Select32", func() {
		zLoadMask(a, ks[:2], 16)
		for i := range 2 {
			VMOVDQU32(c.Offset(64*i), zs[i])
			VMOVDQU32(b.Offset(64*i), ks[i], zs[i])
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
	handler("Select64", func() {
		zLoadMask(a, ks, 8)
		for i := range 4 {
			VMOVDQU64(c.Offset(64*i), zs[i])
			VMOVDQU64(b.Offset(64*i), ks[i], zs[i])
			VMOVDQU64(zs[i], d.Offset(64*i))
		}
	})
	handler("Bool32", func() {
		zLoadMask(a, ks[:2], 16)
		zConst(1, Z15)
		for i := range 2 {
			VMOVDQU32_Z(Z15, ks[i], zs[i])
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
	handler("Bool64", func() {
		zLoadMask(a, ks, 8)
		zConst64(1, Z15)
		for i := range 4 {
			VMOVDQU64_Z(Z15, ks[i], zs[i])
			VMOVDQU64(zs[i], d.Offset(64*i))
		}
	})
	zUnary4 := func(name string, op func(x, d Op)) {
		handler(name, func() {
			for i := range 4 {
				op(a.Offset(32*i), zs[i])
			}
			for i := range 4 {
				VMOVDQU32(zs[i], d.Offset(64*i))
			}
		})
	}
	zUnary4("ZExt64", func(x, d Op) { VPMOVZXDQ(x, d) })
	zUnary4("SExt64", func(x, d Op) { VPMOVSXDQ(x, d) })
	handler("Trunc64", func() {
		for i := range 4 {
			VMOVDQU32(a.Offset(64*i), zs[i])
		}
		for i := range 4 {
			VPMOVQD(zs[i], d.Offset(32*i))
		}
	})
	// Out of range gives 0x80000000: right below, to be put right above and for NaN.
	handler("FToS32", func() {
		zConst(0x4f000000, Z15) // 2^31
		zConst(0x7fffffff, Z14)
		VPXORD(Z13, Z13, Z13)
		for i := range 2 {
			VMOVUPS(a.Offset(64*i), zs[i])
			VCVTTPS2DQ(zs[i], zs[4+i])
			VCMPPS(U8(0x1d), Z15, zs[i], K1) // x >= 2^31
			VMOVDQA32(Z14, K1, zs[4+i])
			VCMPPS(U8(3), zs[i], zs[i], K1)
			VMOVDQA32(Z13, K1, zs[4+i])
			VMOVDQU32(zs[4+i], d.Offset(64*i))
		}
	})
	// MAXPS with 0 second makes NaN and negatives 0; above the range all ones come.
	handler("FToU32", func() {
		VPXORD(Z13, Z13, Z13)
		for i := range 2 {
			VMOVUPS(a.Offset(64*i), zs[i])
			VMAXPS(Z13, zs[i], zs[i])
			VCVTTPS2UDQ(zs[i], zs[i])
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
	handler("F16ToF", func() {
		for i, y := range []VecPhysical{Y0, Y1} {
			VMOVDQU32(a.Offset(64*i), zs[4+i])
			VPMOVDW(zs[4+i], y)
			VCVTPH2PS(y, zs[i])
			VMOVUPS(zs[i], d.Offset(64*i))
		}
	})
	handler("FToF16", func() {
		for i, y := range []VecPhysical{Y0, Y1} {
			VMOVUPS(a.Offset(64*i), zs[4+i])
			VCVTPS2PH(U8(0), zs[4+i], y)
			VPMOVZXWD(y, zs[i])
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
	handler("FToBF16", func() {
		zConst(0x7fff, Z15)
		zConst(1, Z14)
		zConst(0x40, Z13)
		for i := range 2 {
			x, t, r := zs[i], zs[2+i], zs[4+i]
			VMOVDQU32(a.Offset(64*i), x)
			VPSRLD(U8(16), x, t)
			VPANDD(Z14, t, r)
			VPADDD(Z15, r, r)
			VPADDD(x, r, r)
			VPSRLD(U8(16), r, r)
			VPORD(Z13, t, t)
			VCMPPS(U8(3), x, x, K1)
			VMOVDQA32(t, K1, r)
			VMOVDQU32(r, d.Offset(64*i))
		}
	})
	handler("Bcast32", func() {
		VPBROADCASTD(a, Z0)
		VMOVDQU32(Z0, d)
		VMOVDQU32(Z0, d.Offset(64))
	})
	handler("Bcast64", func() {
		VPBROADCASTQ(a, Z0)
		for i := range 4 {
			VMOVDQU32(Z0, d.Offset(64*i))
		}
	})
	avx512Math()
	avx512Memory()
	avx512Loads()
}

func zCompare(name string, n int, op func(x Op, y Mem, k Op)) {
	handler(name, func() {
		for i := range n {
			VMOVDQU32(a.Offset(64*i), zs[i])
			op(zs[i], b.Offset(64*i), ks[i])
		}
		zMask(ks[:n], 32/n)
	})
}
