package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The vector exponential of both levels and what uses it (section 8), 16 elements
// at a time.

func exp512Family() {
	for _, l := range floatLevels {
		expSum512(l)
		silu512(l, "silu", false)
		silu512(l, "swiglu", true)
	}
}

// broadcast is a constant of one float in every lane, in a register.
func broadcast(name string, v float32) VecVirtual {
	r := ZMM()
	VBROADCASTSS(floats8(name, v), r)
	return r
}

// An exp512 holds constants of one level's vexp.
type exp512 struct {
	floatLevel
	c map[string]VecVirtual
}

func newExp512(l floatLevel) exp512 {
	e := exp512{l, map[string]VecVirtual{}}
	for _, c := range []struct {
		name string
		v    float32
	}{{"expMagic", 0x1.8p23}, {"exp4", 0x1.573e2ep-5}, {"exp2", 0x1.fffdb6p-2}, {"one", 1}} {
		e.c[c.name] = broadcast(c.name, c.v)
	}
	return e
}

// vexp is exp of 16 elements; x is left alone.
func (e exp512) vexp(x VecVirtual) VecVirtual {
	z, n, b, u := ZMM(), ZMM(), ZMM(), ZMM()
	VMOVAPS(e.c["expMagic"], z)
	VFMADD231PS_BCST(floats8("log2e", 0x1.715476p+0), x, z)
	VSUBPS(e.c["expMagic"], z, n)
	VMOVAPS(x, b)
	VFNMADD231PS_BCST(floats8("ln2Hi", 0x1.62e4p-1), n, b)
	VFNMADD231PS_BCST(floats8("ln2Lo", 0x1.7f7d1cp-20), n, b)
	VMULPS(b, b, u)
	p, q, j := ZMM(), ZMM(), ZMM()
	VMOVAPS(e.c["exp4"], p)
	VFMADD231PS_BCST(floats8("exp5", 0x1.0e4020p-7), b, p)
	VMOVAPS(e.c["exp2"], q)
	VFMADD231PS_BCST(floats8("exp3", 0x1.555e66p-3), b, q)
	VFMADD213PS(q, u, p)
	a := ZMM()
	VPANDD_BCST(dwords8("absMask", 0x7fffffff), n, a)
	if e.vectors == 4 {
		VMOVAPS(e.c["one"], j)
		VFMADD231PS_BCST(floats8("exp1", 0x1.ffffecp-1), b, j)
		VFMADD231PS(u, p, j)
		return e.scaleZ(n, a, j)
	}
	VMULPS_BCST(floats8("exp1", 0x1.ffffecp-1), b, j)
	VFMADD231PS(u, p, j)
	return e.scaleH(z, n, a, j)
}

// scaleZ is j * 2^n, one rounding; beyond 192 it is 0 or infinite whatever j is. a is
// |n|.
func (e exp512) scaleZ(n, a, j VecVirtual) VecVirtual {
	VSCALEFPS(n, j, j)
	far, down, done := K(), K(), label("near")
	VCMPPS_BCST(U8(0x1e), floats8("exp192", 192), a, far) // greater, false for NaN
	KORTESTW(far, far)
	JZ(LabelRef(done))
	inf, none := ZMM(), ZMM()
	VBROADCASTSS(dwords8("infinity", 0x7f800000), inf)
	zeroZ(none)
	VMOVAPS(inf, far, j)
	VCMPPS(U8(0x12), none, n, far, down) // n <= 0
	VMOVAPS(none, down, j)
	Label(done)
	return j
}

// scaleH is fma(j, k, k) with k = 2^n; beyond 126 there are two factors, beyond 192
// none.
func (e exp512) scaleH(z, n, a, j VecVirtual) VecVirtual {
	exponent, y := ZMM(), ZMM()
	VPSLLD(U8(23), z, exponent)
	VPADDD(e.c["one"], exponent, y)
	VFMADD213PS(y, j, y)
	big, down, done := K(), K(), label("small")
	VCMPPS_BCST(U8(0x1e), floats8("exp126", 126), a, big) // greater, false for NaN
	KORTESTW(big, big)
	JZ(LabelRef(done))
	g, s1, s2 := ZMM(), ZMM(), ZMM()
	zeroZ(g)
	VCMPPS(U8(0x12), g, n, down) // n <= 0
	VPBROADCASTD(dwords8("expDown", 0x82000000), s1)
	VMOVDQA32(s1, down, g)
	VPBROADCASTD(dwords8("expUp", 0x7f000000), s1)
	VPADDD(s1, g, s1)
	VPSUBD(g, exponent, s2)
	VFMADD213PS(s2, s2, j) // fma(s2, j, s2)
	VMULPS(s1, j, j)
	VMOVAPS(j, big, y)
	VMULPS(s1, s1, s1)
	VCMPPS_BCST(U8(0x1e), floats8("exp192", 192), a, big)
	VMOVAPS(s1, big, y)
	Label(done)
	return y
}

// expSum512 adds R16 of each vector, or HS8 of its lower and then of its upper half, to
// a float64.
func expSum512(l floatLevel) {
	function("expSum"+l.suffix, "func(x *float32, top float32, vectors int) float64")
	Doc("expSum" + l.suffix + " replaces 16*vectors elements by exp(x - top) and returns their sum.")
	x, n, sum, top := param("x"), param("vectors"), XMM(), ZMM()
	t := XMM()
	Load(Param("top"), t)
	VBROADCASTSS(t, top)
	zero(sum)
	e := newExp512(l)
	eachVector(n, 64, func() {
		v := ZMM()
		VMOVUPS(at(x, 0), v)
		VSUBPS(top, v, v)
		y := e.vexp(v)
		VMOVUPS(y, at(x, 0))
		hi, d := YMM(), XMM()
		VEXTRACTF64X4(U8(1), y, hi)
		if l.vectors == 4 {
			VADDPS(hi, y.AsY(), hi)
			s := hs([]Register{fold(hi)})
			VCVTSS2SD(s, s, d)
			VADDSD(d, sum, sum)
			return
		}
		lower := YMM()
		VMOVAPS(y.AsY(), lower)
		s := hs([]Register{fold(lower), fold(hi)})
		VCVTPS2PD(s, d)
		VADDSD(d, sum, sum)
		VPERMILPD(U8(1), d, d)
		VADDSD(d, sum, sum)
	}, x)
	ret, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSD(sum, ret.Addr)
	finish()
}

func silu512(l floatLevel, name string, gated bool) {
	if gated {
		function(name+l.suffix, "func(dst, x, up *float32, vectors int)")
		Doc(name + l.suffix + ": dst[i] = silu(x[i]) * up[i] for i < 16*vectors.")
	} else {
		function(name+l.suffix, "func(dst, x *float32, vectors int)")
		Doc(name + l.suffix + ": dst[i] = silu(x[i]) for i < 16*vectors.")
	}
	dst, x, n := param("dst"), param("x"), param("vectors")
	pointers := []Register{dst, x}
	if gated {
		pointers = append(pointers, param("up"))
	}
	e := newExp512(l)
	eachVector(n, 64, func() {
		v, minus := ZMM(), ZMM()
		VMOVUPS(at(x, 0), v)
		zeroZ(minus)
		VSUBPS(v, minus, minus)
		y := e.vexp(minus)
		VADDPS(e.c["one"], y, y)
		VDIVPS(y, v, y)
		if gated {
			VMULPS(at(pointers[2], 0), y, y)
		}
		VMOVUPS(y, at(dst, 0))
	}, pointers...)
	finish()
}
