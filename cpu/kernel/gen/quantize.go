package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Activation conversions (section 4). Blocks are independent.

func quantizeFamily() {
	quantize8("Q8_0", 34, 2, false)
	quantize8("Q8_1", 36, 4, true)
	quantizeQ8K()
	narrow("F16", func(src, dst Register) { VCVTPS2PH(U8(0), loadFloats(src), at(dst, 0)) })
	narrow("BF16", narrowBF16)
	for _, t := range floatTypes[1:] {
		widen(t)
	}
}

func loadFloats(p Register) VecVirtual {
	v := YMM()
	VMOVUPS(at(p, 0), v)
	return v
}

// packOrder undoes the lane order of two levels of pack instructions.
func packOrder() Mem { return dwords("packOrder", 0, 4, 1, 5, 2, 6, 3, 7) }

// quantize8: d = amax/127 and id = 127/amax are true divisions, q = RNE(x*id)
// saturates.
func quantize8(name string, size, qs int, sum bool) {
	function("quantize"+name+"AVX2", "func(dst *byte, src *float32, blocks int)")
	Doc(fmt.Sprintf("quantize%sAVX2 quantises blocks of 32.", name))
	dst, src, n := param("dst"), param("src"), param("blocks")
	order := YMM()
	VMOVDQU(packOrder(), order)
	eachVector(n, size, func() {
		v, abs := ymms(4), ymms(4)
		for i := range v {
			VMOVUPS(at(src, 32*i), v[i])
			VANDPS(dwords8("absMask", 0x7fffffff), v[i], abs[i])
		}
		ADDQ(U32(128), src)
		VMAXPS(abs[1], abs[0], abs[0])
		VMAXPS(abs[3], abs[2], abs[2])
		VMAXPS(abs[2], abs[0], abs[0])
		amax := maxLane(abs[0])
		d, c, id, nonzero, h := XMM(), XMM(), XMM(), XMM(), XMM()
		VMOVSS(floats8("max127", 127), c)
		VDIVSS(c, amax, d)
		VDIVSS(amax, c, id)
		VXORPS(nonzero, nonzero, nonzero)
		VCMPSS(U8(4), nonzero, amax, nonzero) // not equal
		VANDPS(nonzero, id, id)
		VCVTPS2PH(U8(0), d, h)
		VPEXTRW(U8(0), h, at(dst, 0))
		scale := YMM()
		VBROADCASTSS(id, scale)
		for i := range v {
			VMULPS(scale, v[i], v[i])
			VCVTPS2DQ(v[i], v[i])
		}
		if sum {
			s, t := ymms(2), XMM()
			VPADDD(v[1], v[0], s[0])
			VPADDD(v[3], v[2], s[1])
			VPADDD(s[1], s[0], s[0])
			VEXTRACTI128(U8(1), s[0], t)
			VPADDD(t, s[0].AsX(), t)
			VPHADDD(t, t, t)
			VPHADDD(t, t, t)
			VCVTDQ2PS(t, t)
			VMULSS(d, t, t) // d before its rounding to half
			VCVTPS2PH(U8(0), t, t)
			VPEXTRW(U8(0), t, at(dst, 2))
		}
		VPACKSSDW(v[1], v[0], v[0])
		VPACKSSDW(v[3], v[2], v[2])
		VPACKSSWB(v[2], v[0], v[0])
		VPERMD(v[0], order, v[0])
		VMOVDQU(v[0], at(dst, qs))
	}, dst)
	finish()
}

// quantizeQ8K: the scale's sign is that of the first element with the largest
// magnitude; integers are rounded by adding 1.5*2^23 and cut to a byte; an
// all-zero block is all zero bytes.
func quantizeQ8K() {
	function("quantizeQ8_KAVX2", "func(dst *byte, src *float32, blocks int)")
	Doc("quantizeQ8_KAVX2 quantises blocks of 256.")
	dst, src, n := param("dst"), param("src"), param("blocks")
	abs := func() Mem { return dwords8("absMask", 0x7fffffff) }
	eachVector(n, 0, func() {
		top, p, left := YMM(), GP64(), GP64()
		zero(top)
		MOVQ(src, p)
		MOVQ(U32(8), left)
		loop := label("amax")
		Label(loop)
		for i := range 4 {
			v := YMM()
			VMOVUPS(at(p, 32*i), v)
			VANDPS(abs(), v, v)
			VMAXPS(v, top, top)
		}
		ADDQ(U32(128), p)
		DECQ(left)
		JNZ(LabelRef(loop))
		amax, bits, next, nonzero := YMM(), GP32(), label("next"), label("nonzero")
		VBROADCASTSS(maxLane(top), amax)
		VMOVD(amax.AsX(), bits)
		TESTL(bits, bits)
		JNZ(LabelRef(nonzero))
		z := YMM()
		zero(z)
		for i := range 9 {
			VMOVUPS(z, at(dst, 32*i))
		}
		VMOVD(z.AsX(), at(dst, 288))
		JMP(LabelRef(next))

		Label(nonzero)
		Comment("The first element of that magnitude")
		find := label("find")
		MOVQ(src, p)
		Label(find)
		v := YMM()
		VMOVUPS(at(p, 0), v)
		VANDPS(abs(), v, v)
		VCMPPS(U8(0), amax, v, v)
		VMOVMSKPS(v, bits)
		ADDQ(U8(32), p)
		TESTL(bits, bits)
		JZ(LabelRef(find))
		index := GP32()
		BSFL(bits, index)
		x, iscale, scale := XMM(), XMM(), YMM()
		VMOVSS(Mem{Base: p, Index: index.As64(), Scale: 4, Disp: -32}, x)
		VMOVSS(floats8("minus127", -127), iscale)
		VDIVSS(x, iscale, iscale)
		VMOVSS(floats8("one", 1), x)
		VDIVSS(iscale, x, x)
		VMOVSS(x, at(dst, 0))
		VBROADCASTSS(iscale, scale)

		q, sums := GP64(), GP64()
		MOVQ(src, p)
		LEAQ(at(dst, q8kQs), q)
		LEAQ(at(dst, q8kSums), sums)
		MOVQ(U32(8), left)
		group := label("group")
		Label(group)
		w := ymms(4)
		for i := range w {
			VMULPS(at(p, 32*i), scale, w[i])
			VADDPS(floats8("roundMagic", 0x1.8p23), w[i], w[i])
			VPAND(dwords8("mantissa", 0x7fffff), w[i], w[i])
			VPSUBD(dwords8("bias", 0x400000), w[i], w[i])
			VPMINSD(dwords8("int127", 127), w[i], w[i])
			VPAND(dwords8("byteMask", 255), w[i], w[i])
		}
		VPACKUSDW(w[1], w[0], w[0])
		VPACKUSDW(w[3], w[2], w[2])
		VPACKUSWB(w[2], w[0], w[0])
		order, s, hi := YMM(), YMM(), XMM()
		VMOVDQU(packOrder(), order)
		VPERMD(w[0], order, w[0])
		VMOVDQU(w[0], at(q, 0))
		Comment("Sums of 16: of pairs, of fours, of the four of a half")
		VMOVDQU(bytes32("ones8", 1), s)
		VPMADDUBSW(w[0], s, s)
		VPMADDWD(words16("ones16", 1), s, s)
		VPHADDD(s, s, s)
		VPHADDD(s, s, s)
		VEXTRACTI128(U8(1), s, hi)
		VPEXTRW(U8(0), s.AsX(), at(sums, 0))
		VPEXTRW(U8(0), hi, at(sums, 2))
		ADDQ(U32(128), p)
		ADDQ(U8(32), q)
		ADDQ(U8(4), sums)
		DECQ(left)
		JNZ(LabelRef(group))
		Label(next)
		ADDQ(U32(1024), src)
		ADDQ(U32(q8kSize), dst)
	})
	finish()
}

func narrow(name string, body func(src, dst Register)) {
	function("quantize"+name+"AVX2", "func(dst *byte, src *float32, vectors int)")
	Doc(fmt.Sprintf("quantize%sAVX2 rounds 8*vectors elements to nearest even.", name))
	dst, src, n := param("dst"), param("src"), param("vectors")
	eachVector(n, 32, func() {
		body(src, dst)
		ADDQ(U8(16), dst)
	}, src)
	finish()
}

// narrowBF16 adds just below half, or half where the last bit kept is odd; a NaN
// is quietened instead.
func narrowBF16(src, dst Register) {
	v := loadFloats(src)
	h, r, nan := YMM(), YMM(), YMM()
	VPSRLD(U8(16), v, h)
	VPAND(dwords8("int1", 1), h, r)
	VPADDD(dwords8("belowHalf", 0x7fff), r, r)
	VPADDD(v, r, r)
	VPSRLD(U8(16), r, r)
	VPAND(dwords8("absMask", 0x7fffffff), v, nan)
	VPCMPGTD(dwords8("infinity", 0x7f800000), nan, nan)
	VPOR(dwords8("quiet", 64), h, h)
	VPBLENDVB(nan, h, r, r)
	VPACKUSDW(r, r, r)
	VPERMQ(U8(8), r, r)
	VMOVDQU(r.AsX(), at(dst, 0))
}

func widen(t floatType) {
	function("widen"+t.name+"AVX2", "func(dst *float32, src *byte, vectors int)")
	Doc(fmt.Sprintf("widen%sAVX2 widens 8*vectors elements.", t.name))
	dst, src, n := param("dst"), param("src"), param("vectors")
	eachVector(n, 32, func() {
		VMOVUPS(t.load(at(src, 0)), at(dst, 0))
		ADDQ(U8(16), src)
	}, dst)
	finish()
}
