package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Element-wise kernels, the sums of rms_norm (section 6) and rope (section 7).

func opsFamily() {
	elementwise("add", "a, b", "dst[i] = a[i] + b[i]", VADDPS)
	elementwise("mul", "a, b", "dst[i] = a[i] * b[i]", VMULPS)
	scaleKernel()
	scaleMulKernel()
	sumSquares1()
	sumSquares4()
	ropeNeox()
	ropeNorm()
	prefetch()
}

// prefetch asks for lines of memory, for the second-level cache.
func prefetch() {
	function("prefetchLines", "func(p *byte, lines int)")
	Doc("prefetchLines asks for lines of 64 bytes from p on. It never faults.")
	p, n := param("p"), param("lines")
	eachVector(n, 64, func() { PREFETCHT1(at(p, 0)) }, p)
	finish()
}

// eachVector writes a loop over n vectors (n may be zero) with pointers that
// advance by step bytes, and the end of the function.
func eachVector(n Register, step int, body func(), pointers ...Register) {
	loop, end := label("vector"), label("end")
	TESTQ(n, n)
	JZ(LabelRef(end))
	Label(loop)
	body()
	for _, p := range pointers {
		ADDQ(U8(step), p)
	}
	DECQ(n)
	JNZ(LabelRef(loop))
	Label(end)
}

func finish() {
	VZEROUPPER()
	RET()
}

func param(name string) Register { return Load(Param(name), GP64()) }

// broadcastParam is a float32 argument in every lane.
func broadcastParam(name string) VecVirtual {
	x, v := XMM(), YMM()
	Load(Param(name), x)
	VBROADCASTSS(x, v)
	return v
}

func elementwise(name, args, doc string, op func(...Op)) {
	function(name+"AVX2", "func(dst, "+args+" *float32, vectors int)")
	Doc(name + "AVX2: " + doc + " for i < 8*vectors.")
	dst, a, b, n := param("dst"), param("a"), param("b"), param("vectors")
	eachVector(n, 32, func() {
		v := YMM()
		VMOVUPS(at(a, 0), v)
		op(at(b, 0), v, v)
		VMOVUPS(v, at(dst, 0))
	}, dst, a, b)
	finish()
}

func scaleKernel() {
	function("scaleAVX2", "func(dst, x *float32, s float32, vectors int)")
	Doc("scaleAVX2: dst[i] = x[i] * s for i < 8*vectors.")
	dst, x, n, s := param("dst"), param("x"), param("vectors"), broadcastParam("s")
	eachVector(n, 32, func() {
		v := YMM()
		VMULPS(at(x, 0), s, v)
		VMOVUPS(v, at(dst, 0))
	}, dst, x)
	finish()
}

func scaleMulKernel() {
	function("scaleMulAVX2", "func(dst, x, w *float32, s float32, vectors int)")
	Doc("scaleMulAVX2: dst[i] = x[i] * s * w[i], two roundings, for i < 8*vectors.")
	dst, x, w, n, s := param("dst"), param("x"), param("w"), param("vectors"), broadcastParam("s")
	eachVector(n, 32, func() {
		v := YMM()
		VMULPS(at(x, 0), s, v)
		VMULPS(at(w, 0), v, v)
		VMOVUPS(v, at(dst, 0))
	}, dst, x, w)
	finish()
}

// sumSquares1 adds one square after the other: the order is the contract, so
// one row is as slow as eight chained float64 additions a vector.
func sumSquares1() {
	function("sumSquares1AVX2", "func(x *float32, vectors int) float64")
	Doc("sumSquares1AVX2 adds the squares, rounded to float32, of 8*vectors elements in order in float64.")
	x, n, sum := param("x"), param("vectors"), XMM()
	zero(sum)
	eachVector(n, 32, func() {
		v, hi, d := YMM(), XMM(), ymms(2)
		VMOVUPS(at(x, 0), v)
		VMULPS(v, v, v)
		VEXTRACTF128(U8(1), v, hi)
		VCVTPS2PD(v.AsX(), d[0])
		VCVTPS2PD(hi, d[1])
		for _, q := range d {
			high := XMM()
			VEXTRACTF128(U8(1), q, high)
			for _, half := range []Register{q.AsX(), high} {
				odd := XMM()
				VUNPCKHPD(half, half, odd)
				VADDSD(half, sum, sum)
				VADDSD(odd, sum, sum)
			}
		}
	}, x)
	ret, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSD(sum, ret.Addr)
	finish()
}

// sumSquares4 has a row in each float64 lane, so four sums cost as much as one.
func sumSquares4() {
	function("sumSquares4AVX2", "func(sums *[4]float64, x *float32, rowLength, steps int)")
	Doc("sumSquares4AVX2 does for four rows, rowLength elements apart, what sumSquares1AVX2 does for one, over 4*steps elements.")
	sums, x, length, n, sum := param("sums"), param("x"), param("rowLength"), param("steps"), YMM()
	SHLQ(U8(2), length)
	p := rowPointers(4, x, length)
	zero(sum)
	eachVector(n, 16, func() {
		v, t, c := xmms(4), xmms(4), xmms(4)
		for r := range v {
			VMOVUPS(at(p[r], 0), v[r])
			VMULPS(v[r], v[r], v[r])
		}
		VUNPCKLPS(v[1], v[0], t[0]) // columns 0 and 1 of rows 0 and 1
		VUNPCKLPS(v[3], v[2], t[1])
		VUNPCKHPS(v[1], v[0], t[2])
		VUNPCKHPS(v[3], v[2], t[3])
		VUNPCKLPD(t[1], t[0], c[0])
		VUNPCKHPD(t[1], t[0], c[1])
		VUNPCKLPD(t[3], t[2], c[2])
		VUNPCKHPD(t[3], t[2], c[3])
		for _, column := range c {
			d := YMM()
			VCVTPS2PD(column, d)
			VADDPD(d, sum, sum)
		}
	}, p...)
	VMOVUPD(sum, at(sums, 0))
	finish()
}

// ropeNeox: y0 = fma(x0, c, -(x1*s)), y1 = fma(x0, s, x1*c), the inner product
// rounded. Eight pairs' angles serve all heads.
func ropeNeox() {
	function("ropeNeoxAVX2", "func(dst, x *float32, headDim, heads int, cs *float32, half int)")
	Doc("ropeNeoxAVX2 rotates channels k and k+half of each head by the angle of pair k, k < half, a multiple of 8.")
	dst, x, headDim, heads := param("dst"), param("x"), param("headDim"), param("heads")
	cs, half := param("cs"), param("half")
	SHLQ(U8(2), headDim)
	n := GP64()
	MOVQ(half, n)
	SHRQ(U8(3), n)
	eachVector(n, 32, func() {
		a, b, c, s := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at(cs, 0), a)
		VMOVUPS(at(cs, 32), b)
		VSHUFPS(U8(0x88), b, a, c) // pairs 0 1 4 5, 2 3 6 7
		VSHUFPS(U8(0xdd), b, a, s)
		VPERMPD(U8(0xd8), c, c)
		VPERMPD(U8(0xd8), s, s)
		ADDQ(U8(64), cs)
		in, out, left := GP64(), GP64(), GP64()
		MOVQ(x, in)
		MOVQ(dst, out)
		MOVQ(heads, left)
		upper := func(p Register) Mem { return Mem{Base: p, Index: half, Scale: 4} }
		loop := label("head")
		Label(loop)
		x0, x1, y0, y1 := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at(in, 0), x0)
		VMOVUPS(upper(in), x1)
		VMULPS(s, x1, y0)
		VFMSUB231PS(c, x0, y0)
		VMULPS(c, x1, y1)
		VFMADD231PS(s, x0, y1)
		VMOVUPS(y0, at(out, 0))
		VMOVUPS(y1, upper(out))
		ADDQ(headDim, in)
		ADDQ(headDim, out)
		DECQ(left)
		JNZ(LabelRef(loop))
	}, dst, x)
	finish()
}

func ropeNorm() {
	function("ropeNormAVX2", "func(dst, x *float32, headDim, heads int, cs *float32, vectors int)")
	Doc("ropeNormAVX2 rotates channels 2k and 2k+1 of each head by the angle of pair k, k < 4*vectors.")
	dst, x, headDim, heads := param("dst"), param("x"), param("headDim"), param("heads")
	cs, n := param("cs"), param("vectors")
	SHLQ(U8(2), headDim)
	eachVector(n, 32, func() {
		a, swapped := YMM(), YMM() // c, s and s, c
		VMOVUPS(at(cs, 0), a)
		VPERMILPS(U8(0xb1), a, swapped)
		in, out, left := GP64(), GP64(), GP64()
		MOVQ(x, in)
		MOVQ(dst, out)
		MOVQ(heads, left)
		loop := label("head")
		Label(loop)
		x0, y := YMM(), YMM()
		VMOVSLDUP(at(in, 0), x0)
		VMOVSHDUP(at(in, 0), y)
		VMULPS(swapped, y, y)    // x1*s, x1*c
		VFMADDSUB231PS(a, x0, y) // x0*c - x1*s, x0*s + x1*c
		VMOVUPS(y, at(out, 0))
		ADDQ(headDim, in)
		ADDQ(headDim, out)
		DECQ(left)
		JNZ(LabelRef(loop))
	}, dst, x, cs)
	finish()
}
