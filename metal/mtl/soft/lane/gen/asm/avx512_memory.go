package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// avx512Memory writes the routines that Go calls.
func avx512Memory() {
	// addresses: Range of memory.go.
	iota64 := GLOBL("iota64", RODATA|NOPTR)
	for i := range 32 {
		DATA(8*i, U64(i))
	}
	TEXT("addressesAVX512", NOSPLIT, "func(r *byte, v *[32]int64, m uint32, stride int64)")
	Doc("addressesAVX512 is plainAddresses.")
	Pragma("noescape")
	Load(Param("r"), RDI)
	Load(Param("v"), RSI)
	Load(Param("m"), EAX)
	Load(Param("stride"), RDX)
	MOVL(EAX, EBX)
	KMOVW(EAX, K1)
	for _, k := range ks[1:] {
		SHRL(U8(8), EAX)
		KMOVW(EAX, k)
	}
	VPBROADCASTQ(RDX, Z15)
	// The active lanes' v - lane*stride are all the same where it is affine.
	for i := range 4 {
		VMOVDQU64(a.Offset(64*i), zs[i])
		VPMULLQ(iota64.Offset(64*i), Z15, zs[4+i])
		VPSUBQ(zs[4+i], zs[i], zs[4+i])
	}
	// base: the first active lane's.
	TZCNTL(EBX, ECX)
	MOVQ(Mem{Base: RSI, Index: RCX, Scale: 8}, R8)
	MOVQ(RDX, R9)
	IMULQ(RCX, R9)
	SUBQ(R9, R8)
	VPBROADCASTQ(R8, Z14)
	for i := range 4 {
		VPCMPQ(U8(4), zs[4+i], Z14, ks[i], K5)
		if i == 0 {
			KMOVW(K5, K6)
		} else {
			KORW(K5, K6, K6)
		}
	}
	MOVQ(R8, Mem{Base: RDI, Disp: 24})
	KMOVW(K6, EAX)
	TESTL(EAX, EAX)
	SETEQ(Mem{Base: RDI, Disp: 32})
	// Or.
	VMOVDQU64_Z(zs[0], ks[0], Z8)
	for i := 1; i < 4; i++ {
		VPORQ(zs[i], Z8, ks[i], Z8)
	}
	VEXTRACTI64X4(U8(1), Z8, Y9)
	VPORQ(Y9, Y8, Y8)
	VEXTRACTI128(U8(1), Y8, X9)
	VPOR(X9, X8, X8)
	VPSHUFD(U8(0x4e), X8, X9)
	VPOR(X9, X8, X8)
	VMOVQ(X8, R9)
	MOVQ(R9, Mem{Base: RDI, Disp: 16})
	JNZ(LabelRef("scattered"))
	// Affine: the ends are those of the first and last active lane.
	MOVQ(Mem{Base: RSI, Index: RCX, Scale: 8}, RAX)
	BSRL(EBX, ECX)
	MOVQ(Mem{Base: RSI, Index: RCX, Scale: 8}, RBX)
	CMPQ(RAX, RBX)
	MOVQ(RAX, RCX)
	CMOVQGT(RBX, RAX)
	CMOVQGT(RCX, RBX)
	MOVQ(RAX, Mem{Base: RDI, Disp: 0})
	MOVQ(RBX, Mem{Base: RDI, Disp: 8})
	VZEROUPPER()
	RET()
	Label("scattered")
	VPBROADCASTQ(Mem{Base: RSI, Index: RCX, Scale: 8}, Z10)
	VMOVDQA64(Z10, Z11)
	for i := range 4 {
		VPMINSQ(zs[i], Z10, ks[i], Z10)
		VPMAXSQ(zs[i], Z11, ks[i], Z11)
	}
	for _, o := range []struct {
		z, y, x VecPhysical
		disp    int
		op      func(ops ...Op)
	}{{Z10, Y10, X10, 0, VPMINSQ}, {Z11, Y11, X11, 8, VPMAXSQ}} {
		VEXTRACTI64X4(U8(1), o.z, Y9)
		o.op(Y9, o.y, o.y)
		VEXTRACTI128(U8(1), o.y, X9)
		o.op(X9, o.x, o.x)
		VPSHUFD(U8(0x4e), o.x, X9)
		o.op(X9, o.x, o.x)
		VMOVQ(o.x, R9)
		MOVQ(R9, Mem{Base: RDI, Disp: o.disp})
	}
	VZEROUPPER()
	RET()

	// Gathers of words, cut to size; 64-bit ones.
	for _, g := range []struct {
		name string
		bits int
	}{{"gather8", 8}, {"gather16", 16}, {"gather32", 32}} {
		TEXT(g.name+"AVX512", NOSPLIT, "func(d *[32]uint32, p *byte, v *[32]int64, m uint32)")
		Doc(g.name + "AVX512 reads 32 bits for each active lane whatever the element's size, and writes all lanes.")
		Pragma("noescape")
		Load(Param("d"), RDI)
		Load(Param("p"), RSI)
		Load(Param("v"), RDX)
		Load(Param("m"), EAX)
		KMOVW(EAX, K1)
		for _, k := range ks[1:] {
			SHRL(U8(8), EAX)
			KMOVW(EAX, k)
		}
		ys := []VecPhysical{Y4, Y5, Y6, Y7}
		if g.bits < 32 {
			MOVL(U32(1<<g.bits-1), EAX)
			VPBROADCASTD(EAX, Y8)
		}
		for i := range 4 {
			VMOVDQU64(b.Offset(64*i), zs[i])
			VPXORD(ys[i], ys[i], ys[i])
			VPGATHERQD(Mem{Base: RSI, Index: zs[i], Scale: 1}, ks[i], ys[i])
		}
		for i := range 4 {
			if g.bits < 32 {
				VPANDD(Y8, ys[i], ys[i])
			}
			VMOVDQU32(ys[i], d.Offset(32*i))
		}
		VZEROUPPER()
		RET()
	}
	TEXT("gather64AVX512", NOSPLIT, "func(d *[32]uint64, p *byte, v *[32]int64, m uint32)")
	Doc("gather64AVX512 reads 64 bits for each active lane and writes all lanes.")
	Pragma("noescape")
	Load(Param("d"), RDI)
	Load(Param("p"), RSI)
	Load(Param("v"), RDX)
	Load(Param("m"), EAX)
	KMOVW(EAX, K1)
	for _, k := range ks[1:] {
		SHRL(U8(8), EAX)
		KMOVW(EAX, k)
	}
	for i := range 4 {
		VMOVDQU64(b.Offset(64*i), zs[i])
		VPXORD(zs[4+i], zs[4+i], zs[4+i])
		VPGATHERQQ(Mem{Base: RSI, Index: zs[i], Scale: 1}, ks[i], zs[4+i])
	}
	for i := range 4 {
		VMOVDQU64(zs[4+i], d.Offset(64*i))
	}
	VZEROUPPER()
	RET()

	wide := func(name, doc, sig string, body func()) {
		TEXT(name+"AVX512", NOSPLIT, sig)
		Doc(name + "AVX512 " + doc)
		Pragma("noescape")
		body()
		VZEROUPPER()
		RET()
	}
	wide("load8", "widens 32 bytes.", "func(d *[32]uint32, p *byte)", func() {
		Load(Param("d"), RDI)
		Load(Param("p"), RSI)
		for i := range 2 {
			VPMOVZXBD(a.Offset(16*i), zs[i])
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
	wide("load16", "widens 32 halfwords.", "func(d *[32]uint32, p *byte)", func() {
		Load(Param("d"), RDI)
		Load(Param("p"), RSI)
		for i := range 2 {
			VPMOVZXWD(a.Offset(32*i), zs[i])
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	})
	wide("store8", "writes the low bytes of 32 lanes.", "func(p *byte, s *[32]uint32)", func() {
		Load(Param("p"), RDI)
		Load(Param("s"), RSI)
		for i := range 2 {
			VMOVDQU32(a.Offset(64*i), zs[i])
			VPMOVDB(zs[i], d.Offset(16*i))
		}
	})
	wide("store16", "writes the low halfwords of 32 lanes.", "func(p *byte, s *[32]uint32)", func() {
		Load(Param("p"), RDI)
		Load(Param("s"), RSI)
		for i := range 2 {
			VMOVDQU32(a.Offset(64*i), zs[i])
			VPMOVDW(zs[i], d.Offset(32*i))
		}
	})
	// Reductions: lane i with i^16 is one vector with the other, i^8 its halves, and
	// so on.
	reduce := func(name, doc string, identity uint32, op func(y, x, d VecPhysical)) {
		wide(name, doc, "func(v *[32]uint32, m uint32) float32", func() {
			Load(Param("v"), RSI)
			Load(Param("m"), EAX)
			KMOVW(EAX, K1)
			SHRL(U8(16), EAX)
			KMOVW(EAX, K2)
			zConst(identity, Z0)
			VMOVDQA32(Z0, Z1)
			VMOVDQU32(a, K1, Z0)
			VMOVDQU32(a.Offset(64), K2, Z1)
			op(Z1, Z0, Z0)
			VEXTRACTI64X4(U8(1), Z0, Y1)
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
		// As FMax: x where y is NaN.
		VCMPPS(U8(3), y, y, K3)
		switch d {
		case Z0:
			VMAXPS(y, x, Z2)
			VMOVAPS(x, K3, Z2)
			VMOVAPS(Z2, d)
		case Y0:
			VMAXPS(y, x, Y2)
			VMOVAPS(x, K3, Y2)
			VMOVAPS(Y2, d)
		default:
			VMAXPS(y, x, X2)
			VMOVAPS(x, K3, X2)
			VMOVAPS(X2, d)
		}
	})
	// d = a*b + c: two rows of the result to a vector; element (i, k) of a is
	// broadcast to its row's half, row k of b is in both halves.
	wide("mma", "is d = a*b + c of 8x8 matrices, k ascending.", "func(d, a, b, c *[64]float32)", func() {
		Load(Param("d"), RDI)
		Load(Param("a"), RSI)
		Load(Param("b"), RDX)
		Load(Param("c"), RCX)
		acc := []VecPhysical{Z0, Z1, Z2, Z3}
		row := []VecPhysical{Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11}
		src := []VecPhysical{Z12, Z13, Z14, Z15}
		for i := range 4 {
			VMOVUPS(c.Offset(64*i), acc[i])
			VMOVUPS(a.Offset(64*i), src[i])
		}
		for k := range 8 {
			VBROADCASTF64X4(b.Offset(32*k), row[k])
		}
		index := GLOBL("mmaIndex", RODATA|NOPTR)
		for k := range 8 {
			for i := range 16 {
				DATA(64*k+4*i, U32(k+i/8*8))
			}
		}
		for k := range 8 {
			VMOVDQU32(index.Offset(64*k), Z16)
			for i := range 4 {
				t := []VecPhysical{Z17, Z18, Z19, Z20}[i]
				VPERMPS(src[i], Z16, t)
				VFMADD231PS(row[k], t, acc[i])
			}
		}
		for i := range 4 {
			VMOVUPS(acc[i], d.Offset(64*i))
		}
	})
}
