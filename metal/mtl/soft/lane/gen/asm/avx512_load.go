package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// avx512Loads writes the loads and the sum as steps.
func avx512Loads() {
	iota := GLOBL("loadIota", RODATA|NOPTR)
	for i := range 32 {
		DATA(8*i, U64(i))
	}
	// address leaves the active lanes' offsets in Z0 to Z3 and their masks in K1 to
	// K4, the object's address in RBX, the mask in R13. It jumps to bail where one of them is
	// outside.
	address := func() {
		MOVQ(objSize, RAX)
		MOVL(accBytes, EBX)
		SUBQ(RBX, RAX)
		JLT(LabelRef("bail"))
		VPBROADCASTQ(RAX, Z15)
		MOVLQSX(accDisp, R12)
		ADDQ(b, R12)
		VPBROADCASTQ(R12, Z14)
		MOVQ(objPtr, RBX)
		MOVL(activeMask, EAX)
		MOVL(EAX, R13L)
		KMOVW(EAX, ks[0])
		for _, k := range ks[1:] {
			SHRL(U8(8), EAX)
			KMOVW(EAX, k)
		}
		out := []OpmaskPhysical{K5, K6, K7, K5}
		for i := range 4 {
			VPADDQ(a.Offset(64*i), Z14, zs[i])
			VPCMPUQ(U8(6), Z15, zs[i], ks[i], out[i])
			if i == 2 {
				KORW(K6, K5, K6)
				KORW(K7, K6, K6)
			}
		}
		KORTESTW(K5, K6)
		JNE(LabelRef("bail"))
	}
	// row jumps to label row, with its first address in RBX, where all lanes read
	// one element after the other.
	row := func(shift uint8) {
		CMPL(R13L, I8(-1))
		JNE(LabelRef("gather"))
		VPBROADCASTQ(X0, Z14)
		for i := range 4 {
			VMOVDQU64(iota.Offset(64*i), zs[4+i])
			if shift > 0 {
				VPSLLQ(U8(shift), zs[4+i], zs[4+i])
			}
			VPADDQ(Z14, zs[4+i], zs[4+i])
		}
		VPCMPQ(U8(4), zs[4], zs[0], K5)
		VPCMPQ(U8(4), zs[5], zs[1], K6)
		KORW(K5, K6, K6)
		VPCMPQ(U8(4), zs[6], zs[2], K5)
		KORW(K5, K6, K6)
		VPCMPQ(U8(4), zs[7], zs[3], K5)
		KORTESTW(K5, K6)
		JNE(LabelRef("gather"))
		VMOVQ(X0, RAX)
		ADDQ(RAX, RBX)
	}
	delta := func() {
		MOVL(accDelta, R12L)
		ADDQ(R12, RBX)
	}
	at := Mem{Base: RBX}
	for _, o := range []struct {
		name  string
		bits  int
		shift uint8
		widen func(i int)
	}{
		{"Read8", 8, 0, func(i int) { VPMOVZXBD(at.Offset(16*i), zs[i]) }},
		{"Read16", 16, 1, func(i int) { VPMOVZXWD(at.Offset(32*i), zs[i]) }},
		{"Read32", 32, 2, func(i int) { VMOVDQU32(at.Offset(64*i), zs[i]) }},
	} {
		loadHandler(o.name, func() {
			address()
			delta()
			row(o.shift)
			for i := range 2 {
				o.widen(i)
				VMOVDQU32(zs[i], d.Offset(64*i))
			}
			JMP(LabelRef("next"))
			Label("gather")
			ys := []VecPhysical{Y4, Y5, Y6, Y7}
			if o.bits < 32 {
				MOVL(U32(1<<o.bits-1), EAX)
				VPBROADCASTD(EAX, Y8)
			}
			for i := range 4 {
				VPXORD(ys[i], ys[i], ys[i])
				VPGATHERQD(Mem{Base: RBX, Index: zs[i], Scale: 1}, ks[i], ys[i])
			}
			for i := range 4 {
				if o.bits < 32 {
					VPANDD(Y8, ys[i], ys[i])
				}
				VMOVDQU32(ys[i], d.Offset(32*i))
			}
			Label("next")
		})
	}
	// gather64 reads 64 bits of each active lane into Z4 to Z7, as a copy of K1 to K4
	// says, which it spends.
	gather64 := func(disp int) {
		for i := range 4 {
			VPXORD(zs[4+i], zs[4+i], zs[4+i])
			KMOVW(ks[i], K5)
			VPGATHERQQ(Mem{Base: RBX, Disp: disp, Index: zs[i], Scale: 1}, K5, zs[4+i])
		}
	}
	loadHandler("Read64", func() {
		address()
		delta()
		gather64(0)
		for i := range 4 {
			VMOVDQU64(zs[4+i], d.Offset(64*i))
		}
	})
	// reg puts the address of the k-th result in r.
	reg := func(k int, r, r32 Register) Mem {
		MOVL(accReg(k), r32)
		ADDQ(R8, r)
		return Mem{Base: r}
	}
	// split32 writes the halves of Z4 to Z7.
	split32 := func(lo, hi Mem) {
		for i := range 4 {
			VPMOVQD(zs[4+i], lo.Offset(32*i))
			VPSRLQ(U8(32), zs[4+i], zs[4+i])
			VPMOVQD(zs[4+i], hi.Offset(32*i))
		}
	}
	loadHandler("Read32x2", func() {
		address()
		gather64(0)
		split32(d, reg(1, R12, R12L))
	})
	loadHandler("Read32x4", func() {
		address()
		gather64(0)
		split32(d, reg(1, R12, R12L))
		gather64(8)
		split32(reg(2, R12, R12L), reg(3, R13, R13L))
	})
	loadHandler("Read16x4", func() {
		address()
		row(3)
		for i := range 4 {
			VMOVDQU64(at.Offset(64*i), zs[4+i])
		}
		JMP(LabelRef("split"))
		Label("gather")
		gather64(0)
		Label("split")
		to := []Mem{d, reg(1, R12, R12L), reg(2, R13, R13L), reg(3, RBX, EBX)}
		MOVL(U32(0xffff), EAX)
		VPBROADCASTQ(RAX, Z14)
		for i := range 4 {
			for k := range 4 {
				x := zs[4+i]
				if k > 0 {
					VPSRLQ(U8(16*k), zs[4+i], zs[8+k])
					x = zs[8+k]
				}
				if k < 3 {
					VPANDQ(Z14, x, zs[8+k])
					x = zs[8+k]
				}
				VPMOVQD(x, to[k].Offset(32*i))
			}
		}
	})
	// The sum in the fixed order: see reduceFAdd.
	memoryHandler("SumF", func() {
		MOVL(activeMask, EAX)
		KMOVW(EAX, K1)
		SHRL(U8(16), EAX)
		KMOVW(EAX, K2)
		sumLanes()
		VMOVD(X0, EAX)
		MOVQ(RAX, d)
	})
}

// sumLanes adds the lanes at RSI whose bits in K1 and K2 are set.
func sumLanes() {
	zConst(0x80000000, Z0)
	VMOVDQA32(Z0, Z1)
	VMOVDQU32(a, K1, Z0)
	VMOVDQU32(a.Offset(64), K2, Z1)
	VADDPS(Z1, Z0, Z0)
	VEXTRACTI64X4(U8(1), Z0, Y1)
	VADDPS(Y1, Y0, Y0)
	VEXTRACTI128(U8(1), Y0, X1)
	VADDPS(X1, X0, X0)
	VPSHUFD(U8(0x4e), X0, X1)
	VADDPS(X1, X0, X0)
	VPSHUFD(U8(0xb1), X0, X1)
	VADDPS(X1, X0, X0)
}
