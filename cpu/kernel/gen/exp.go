package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The vector exponential and what uses it (section 8).

func expFamily() {
	scaleMax()
	expSum()
	silu("silu", false)
	silu("swiglu", true)
}

// vexp is exp of eight elements; x is left alone.
func vexp(x VecVirtual) VecVirtual {
	magic := floats8("expMagic", 0x1.8p23)
	z, n, b, u := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(magic, z)
	VFMADD231PS(floats8("log2e", 0x1.715476p+0), x, z)
	VSUBPS(magic, z, n)
	VMOVAPS(x, b)
	VFNMADD231PS(floats8("ln2Hi", 0x1.62e4p-1), n, b)
	VFNMADD231PS(floats8("ln2Lo", 0x1.7f7d1cp-20), n, b)
	VMULPS(b, b, u)
	p, q, j := YMM(), YMM(), YMM()
	VMOVUPS(floats8("exp4", 0x1.573e2ep-5), p)
	VFMADD231PS(floats8("exp5", 0x1.0e4020p-7), b, p)
	VMOVUPS(floats8("exp2", 0x1.fffdb6p-2), q)
	VFMADD231PS(floats8("exp3", 0x1.555e66p-3), b, q)
	VFMADD213PS(q, u, p) // p*u + q
	VMULPS(floats8("exp1", 0x1.ffffecp-1), b, j)
	VFMADD231PS(u, p, j)
	e, y, a := YMM(), YMM(), YMM()
	VPSLLD(U8(23), z, e)
	VPADDD(floats8("one", 1), e, y)
	VFMADD213PS(y, j, y) // fma(j, k, k)

	Comment("Elements beyond 2^+-126 take two factors, or none beyond 192")
	VANDPS(dwords8("absMask", 0x7fffffff), n, a)
	big, mask, done := YMM(), GP32(), label("small")
	VCMPPS(U8(0x1e), floats8("exp126", 126), a, big) // greater, false for NaN
	VMOVMSKPS(big, mask)
	TESTL(mask, mask)
	JZ(LabelRef(done))
	g, s1, s2 := YMM(), YMM(), YMM()
	VXORPS(g, g, g)
	VCMPPS(U8(0x12), g, n, g) // n <= 0
	VANDPS(dwords8("expDown", 0x82000000), g, g)
	VPADDD(dwords8("expUp", 0x7f000000), g, s1)
	VPSUBD(g, e, s2)
	VFMADD213PS(s2, s2, j) // fma(s2, j, s2)
	VMULPS(s1, j, j)
	VBLENDVPS(big, j, y, y)
	VMULPS(s1, s1, s1)
	VCMPPS(U8(0x1e), floats8("exp192", 192), a, big)
	VBLENDVPS(big, s1, y, y)
	Label(done)
	return y
}

func returnFloat32(x Register) {
	ret, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(x, ret.Addr)
}

func scaleMax() {
	function("scaleMaxAVX2", "func(x *float32, s float32, vectors int) float32")
	Doc("scaleMaxAVX2 multiplies 8*vectors elements by s in place and returns the largest product, -Inf for none.")
	x, n, s, top := param("x"), param("vectors"), broadcastParam("s"), YMM()
	VMOVUPS(dwords8("minusInf", 0xff800000), top)
	eachVector(n, 32, func() {
		v := YMM()
		VMULPS(at(x, 0), s, v)
		VMOVUPS(v, at(x, 0))
		VMAXPS(v, top, top)
	}, x)
	returnFloat32(maxLane(top))
	finish()
}

// maxLane is the largest of the eight lanes, in lane 0.
func maxLane(v VecVirtual) Register {
	m, t := XMM(), XMM()
	VEXTRACTF128(U8(1), v, m)
	VMAXPS(v.AsX(), m, m)
	VPERMILPD(U8(1), m, t)
	VMAXPS(t, m, m)
	VMOVSHDUP(m, t)
	VMAXSS(t, m, m)
	return m
}

// expSum adds HS8 of each vector to a float64: one addition a vector, in order.
func expSum() {
	function("expSumAVX2", "func(x *float32, top float32, vectors int) float64")
	Doc("expSumAVX2 replaces 8*vectors elements by exp(x - top) and returns their sum.")
	x, n, top, sum := param("x"), param("vectors"), broadcastParam("top"), XMM()
	zero(sum)
	eachVector(n, 32, func() {
		v := YMM()
		VMOVUPS(at(x, 0), v)
		VSUBPS(top, v, v)
		y := vexp(v)
		VMOVUPS(y, at(x, 0))
		d := XMM()
		s := hs([]Register{fold(y)})
		VCVTSS2SD(s, s, d)
		VADDSD(d, sum, sum)
	}, x)
	ret, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSD(sum, ret.Addr)
	finish()
}

// silu is x / (1 + exp(0-x)); with a gate the rounded quotient times up.
func silu(name string, gated bool) {
	if gated {
		function(name+"AVX2", "func(dst, x, up *float32, vectors int)")
		Doc(name + "AVX2: dst[i] = silu(x[i]) * up[i] for i < 8*vectors.")
	} else {
		function(name+"AVX2", "func(dst, x *float32, vectors int)")
		Doc(name + "AVX2: dst[i] = silu(x[i]) for i < 8*vectors.")
	}
	dst, x, n := param("dst"), param("x"), param("vectors")
	pointers := []Register{dst, x}
	if gated {
		pointers = append(pointers, param("up"))
	}
	eachVector(n, 32, func() {
		v, minus := YMM(), YMM()
		VMOVUPS(at(x, 0), v)
		VXORPS(minus, minus, minus)
		VSUBPS(v, minus, minus)
		y := vexp(minus)
		VADDPS(floats8("one", 1), y, y)
		VDIVPS(y, v, y)
		if gated {
			VMULPS(at(pointers[2], 0), y, y)
		}
		VMOVUPS(y, at(dst, 0))
	}, pointers...)
	finish()
}
