package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Level Z's vector exponential and what uses it (section 8).

func exp512Family() {
	expSumZ()
	siluZ("silu", false)
	siluZ("swiglu", true)
}

// broadcast is a constant of one float in every lane, in a register.
func broadcast(name string, v float32) VecVirtual {
	r := ZMM()
	VBROADCASTSS(floats8(name, v), r)
	return r
}

// An expZ holds the constants of vexp.
type expZ map[string]VecVirtual

func newExpZ() expZ {
	e := expZ{}
	for _, c := range []struct {
		name string
		v    float32
	}{
		{"expMagic", 0x1.8p23}, {"log2e", 0x1.715476p+0}, {"ln2Hi", 0x1.62e4p-1}, {"ln2Lo", 0x1.7f7d1cp-20}, {"exp5", 0x1.0e4020p-7},
		{"exp4", 0x1.573e2ep-5}, {"exp3", 0x1.555e66p-3}, {"exp2", 0x1.fffdb6p-2}, {"exp1", 0x1.ffffecp-1}, {"one", 1}, {"exp192", 192},
	} {
		e[c.name] = broadcast(c.name, c.v)
	}
	return e
}

// vexp is exp of 16 elements; x is left alone.
func (e expZ) vexp(x VecVirtual) VecVirtual {
	z, n, b, u := ZMM(), ZMM(), ZMM(), ZMM()
	VMOVAPS(e["expMagic"], z)
	VFMADD231PS(e["log2e"], x, z)
	VSUBPS(e["expMagic"], z, n)
	VMOVAPS(x, b)
	VFNMADD231PS(e["ln2Hi"], n, b)
	VFNMADD231PS(e["ln2Lo"], n, b)
	VMULPS(b, b, u)
	p, q, j := ZMM(), ZMM(), ZMM()
	VMOVAPS(e["exp4"], p)
	VFMADD231PS(e["exp5"], b, p)
	VMOVAPS(e["exp2"], q)
	VFMADD231PS(e["exp3"], b, q)
	VFMADD213PS(q, u, p)
	VMOVAPS(e["one"], j)
	VFMADD231PS(e["exp1"], b, j)
	VFMADD231PS(u, p, j)
	VSCALEFPS(n, j, j)
	a, far, down, done := ZMM(), K(), K(), label("near")
	VPANDD_BCST(dwords8("absMask", 0x7fffffff), n, a)
	VCMPPS(U8(0x1e), e["exp192"], a, far) // greater, false for NaN
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

// expSumZ adds R16 of each vector to a float64.
func expSumZ() {
	function("expSumZ512", "func(x *float32, top float32, vectors int) float64")
	Doc("expSumZ512 replaces 16*vectors elements by exp(x - top) and returns their sum.")
	x, n, sum, top := param("x"), param("vectors"), XMM(), ZMM()
	t := XMM()
	Load(Param("top"), t)
	VBROADCASTSS(t, top)
	zero(sum)
	e := newExpZ()
	eachVector(n, 64, func() {
		v := ZMM()
		VMOVUPS(at(x, 0), v)
		VSUBPS(top, v, v)
		y := e.vexp(v)
		VMOVUPS(y, at(x, 0))
		hi, d := YMM(), XMM()
		VEXTRACTF64X4(U8(1), y, hi)
		VADDPS(hi, y.AsY(), hi)
		s := hs([]Register{fold(hi)})
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

func siluZ(name string, gated bool) {
	if gated {
		function(name+"Z512", "func(dst, x, up *float32, vectors int)")
		Doc(name + "Z512: dst[i] = silu(x[i]) * up[i] for i < 16*vectors.")
	} else {
		function(name+"Z512", "func(dst, x *float32, vectors int)")
		Doc(name + "Z512: dst[i] = silu(x[i]) for i < 16*vectors.")
	}
	dst, x, n := param("dst"), param("x"), param("vectors")
	pointers := []Register{dst, x}
	if gated {
		pointers = append(pointers, param("up"))
	}
	e := newExpZ()
	eachVector(n, 64, func() {
		v, minus := ZMM(), ZMM()
		VMOVUPS(at(x, 0), v)
		zeroZ(minus)
		VSUBPS(v, minus, minus)
		y := e.vexp(minus)
		VADDPS(e["one"], y, y)
		VDIVPS(y, v, y)
		if gated {
			VMULPS(at(pointers[2], 0), y, y)
		}
		VMOVUPS(y, at(dst, 0))
	}, pointers...)
	finish()
}
