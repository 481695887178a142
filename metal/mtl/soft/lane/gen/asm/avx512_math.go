package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The functions of package libm in float64, 32 lanes as four vectors of 8, each
// operation rounded on its own as there: never fused.

const (
	shifter = 0x1.8p52
	ln2     = 0.693147180559945309417232121458176568
	log2E   = 1.442695040888963407359924681001892137
)

// double is a constant for a broadcast operand.
func double(bits uint64) Mem {
	name := fmt.Sprintf("double%016x", bits)
	if m, ok := made[name]; ok {
		return m
	}
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	DATA(0, U64(bits))
	made[name] = m
	return m
}

func float(x float64) Mem { return double(math.Float64bits(x)) }

// four does something to each of four vectors: instructions of one kind lie
// together, so that their latencies overlap.
func four(f func(i int)) {
	for i := range 4 {
		f(i)
	}
}

// zExpTail has r in Z0 to Z3 and the shifted integer k in Z8 to Z11: the
// polynomial of expPoly times 2^k, rounded to float32, in Z4 and Z5.
func zExpTail() {
	coefficients := []float64{1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1}
	four(func(i int) { VBROADCASTSD(float(1.0/362880), zs[4+i]) })
	for _, c := range coefficients {
		four(func(i int) { VMULPD(zs[i], zs[4+i], zs[4+i]) })
		four(func(i int) { VADDPD_BCST(float(c), zs[4+i], zs[4+i]) })
	}
	// The integer is in the low bits of the shifted number.
	four(func(i int) { VPSUBQ_BCST(double(math.Float64bits(shifter)-1023), zs[8+i], zs[8+i]) })
	four(func(i int) { VPSLLQ(U8(52), zs[8+i], zs[8+i]) })
	four(func(i int) { VMULPD(zs[8+i], zs[4+i], zs[4+i]) })
	y := []VecPhysical{Y4, Y5, Y6, Y7}
	four(func(i int) { VCVTPD2PS(zs[4+i], y[i]) })
	VINSERTF64X4(U8(1), Y5, Z4, Z4)
	VINSERTF64X4(U8(1), Y7, Z6, Z5)
}

// zExpEnds puts in infinity above high, 0 below low, and NaN for NaN, and stores.
func zExpEnds(high, low float32) {
	zConst(math.Float32bits(high), Z15)
	zConst(math.Float32bits(low), Z14)
	zConst(0x7f800000, Z13)
	VPXORD(Z12, Z12, Z12)
	for i := range 2 {
		x, r := zs[i], zs[4+i]
		VMOVUPS(a.Offset(64*i), x)
		VCMPPS(U8(0x1e), Z15, x, K1) // x > high
		VMOVAPS(Z13, K1, r)
		VCMPPS(U8(0x11), Z14, x, K1) // x < low
		VMOVAPS(Z12, K1, r)
		VCMPPS(U8(3), x, x, K1)
		VMOVAPS(x, K1, r)
	}
	for i := range 2 {
		VMOVUPS(zs[4+i], d.Offset(64*i))
	}
}

func avx512Math() {
	handler("Exp", func() {
		four(func(i int) { VCVTPS2PD(a.Offset(32*i), zs[i]) })
		four(func(i int) { VMULPD_BCST(float(log2E), zs[i], zs[8+i]) })
		four(func(i int) { VADDPD_BCST(float(shifter), zs[8+i], zs[8+i]) })
		four(func(i int) { VSUBPD_BCST(float(shifter), zs[8+i], zs[4+i]) })
		four(func(i int) { VMULPD_BCST(float(ln2), zs[4+i], zs[4+i]) })
		four(func(i int) { VSUBPD(zs[4+i], zs[i], zs[i]) })
		zExpTail()
		zExpEnds(89, -104)
	})
	handler("Exp2", func() {
		four(func(i int) { VCVTPS2PD(a.Offset(32*i), zs[i]) })
		four(func(i int) { VADDPD_BCST(float(shifter), zs[i], zs[8+i]) })
		four(func(i int) { VSUBPD_BCST(float(shifter), zs[8+i], zs[4+i]) })
		four(func(i int) { VSUBPD(zs[4+i], zs[i], zs[i]) })
		four(func(i int) { VMULPD_BCST(float(ln2), zs[i], zs[i]) })
		zExpTail()
		zExpEnds(128, -151)
	})
	handler("Rsqrt", func() {
		VBROADCASTSD(float(1), Z8)
		y := []VecPhysical{Y0, Y1, Y2, Y3}
		four(func(i int) { VCVTPS2PD(a.Offset(32*i), zs[i]) })
		four(func(i int) { VSQRTPD(zs[i], zs[i]) })
		four(func(i int) { VDIVPD(zs[i], Z8, zs[i]) })
		four(func(i int) { VCVTPD2PS(zs[i], y[i]) })
		four(func(i int) { VMOVUPS(y[i], d.Offset(32*i)) })
	})
}
