package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Dots of the 32-element block types (section 5). One ymm holds the eight lanes
// of one output: acc_l = fma(d, float(L_l), acc_l), block after block. Outputs
// are independent, so several weight rows, or four activation rows, advance side
// by side and hide the latency of the chain.
//
// The integers: VPMADDUBSW multiplies unsigned by signed bytes and adds pairs to
// 16 bits, VPMADDWD by ones adds pairs of those: lane l is L_l. No step saturates:
// a pair is at most 2*31*128.

// A q32 describes one weight type.
type q32 struct {
	name   string
	size   int // bytes of a weight block
	qs     int // where its quants start
	qh     int // where the fifth bits start, or 0
	sub    byte
	min    bool // d, m and d, s instead of one scale
	signed bool // int8 quants
}

var q32Types = []q32{
	{name: "Q4_0", size: 18, qs: 2, sub: 8},
	{name: "Q4_1", size: 20, qs: 4, min: true},
	{name: "Q5_0", size: 22, qs: 6, qh: 2, sub: 16},
	{name: "Q5_1", size: 24, qs: 8, qh: 4, min: true},
	{name: "Q8_0", size: 34, qs: 2, signed: true},
}

// act is the size of an activation block and where its quants start: Q8_0, or
// Q8_1 for types with a minimum.
func (t q32) act() (size, qs int) {
	if t.min {
		return 36, 4
	}
	return 34, 2
}

func q32Family() {
	for _, t := range q32Types {
		t.matVec()
		t.matVec4()
	}
}

func ones16() Mem { return words16("ones16", 1) }

// unpack loads 32 unsigned quants: byte i is element i.
func (t q32) unpack(w Register) VecVirtual {
	q := YMM()
	VBROADCASTI128(at(w, t.qs), q)
	VPSRLVD(dwords("nibbleShift", 0, 0, 0, 0, 4, 4, 4, 4), q, q)
	VPAND(bytes32("low4", 15), q, q)
	if t.qh != 0 {
		h := YMM()
		VPBROADCASTD(at(w, t.qh), h)
		VPSHUFB(constant("spreadBits", []byte{
			0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
			2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3}), h, h)
		bits := dwords("eachBit", 0x08040201, 0x80402010, 0x08040201, 0x80402010,
			0x08040201, 0x80402010, 0x08040201, 0x80402010)
		VPAND(bits, h, h)
		VPCMPEQB(bits, h, h)
		VPAND(bytes32("bit4", 16), h, h)
		VPOR(h, q, q)
	}
	return q
}

// split sign-extends the even and the odd bytes of v to words. VPMADDWD of both
// halves and their sum give L_l for any int8 values, -128 included.
func split(v VecVirtual) (even VecVirtual) {
	even = YMM()
	VMOVDQU(words16("ones16", 1), even) // bytes 1, 0: even byte * 1 + odd byte * 0
	VPMADDUBSW(v, even, even)
	VPSRAW(U8(8), v, v)
	return even
}

// matVec: four weight rows at a time with one activation row.
func (t q32) matVec() {
	function("matVec"+t.name+"AVX2", "func(dst *float32, w *byte, stride, rows int, act *byte, blocks int)")
	Doc(fmt.Sprintf("matVec%sAVX2 computes dst[i] = dot(row i of w, act) for i < rows.", t.name))
	dst := Load(Param("dst"), GP64())
	w := Load(Param("w"), GP64())
	stride := Load(Param("stride"), GP64())
	rows := Load(Param("rows"), GP64())
	act := Load(Param("act"), GP64())
	blocks := Load(Param("blocks"), GP64())
	yBytes, yQs := t.act()

	eachRow(4, rows, w, stride, dst, func(n int) {
		acc := ymms(n)
		zero(acc...)
		var ms []VecVirtual
		if t.min {
			ms = xmms(n)
			zero(ms...)
		}
		p := rowPointers(n, w, stride)
		a, left := GP64(), GP64()
		MOVQ(act, a)
		MOVQ(blocks, left)
		loop, end := label("block"), label("end")
		TESTQ(left, left)
		JZ(LabelRef(end))
		Label(loop)
		y, yEven, yd, s := YMM(), YMM(), XMM(), YMM()
		VMOVDQU(at(a, yQs), y)
		if t.signed {
			yEven = split(y)
		}
		VCVTPH2PS(at(a, 0), yd)
		if t.sub != 0 {
			Comment("sub times the pairs of y: what the unsigned quants are too large by")
			VMOVDQU(bytes32(fmt.Sprintf("sub%d", t.sub), t.sub), s)
			VPMADDUBSW(y, s, s)
		}
		for r := range n {
			sum := YMM()
			if t.signed {
				q := YMM()
				VMOVDQU(at(p[r], t.qs), q)
				VPMADDWD(yEven, split(q), sum)
				VPMADDWD(y, q, q)
				VPADDD(q, sum, sum)
			} else {
				VPMADDUBSW(y, t.unpack(p[r]), sum)
				if t.sub != 0 {
					VPSUBW(s, sum, sum)
				}
				VPMADDWD(ones16(), sum, sum)
			}
			VCVTDQ2PS(sum, sum)
			x, d := XMM(), YMM()
			VCVTPH2PS(at(p[r], 0), x)
			if t.min {
				VFMADD231PS(x, yd, ms[r]) // lane 1: m*s; the other lanes are unused
			}
			VMULSS(yd, x, x)
			VBROADCASTSS(x, d)
			VFMADD231PS(sum, d, acc[r])
		}
		for r := range n {
			ADDQ(U8(t.size), p[r])
		}
		ADDQ(U8(yBytes), a)
		DECQ(left)
		JNZ(LabelRef(loop))
		Label(end)
		res := hs(folds(acc))
		if t.min {
			m := XMM()
			if n == 1 {
				VMOVSHDUP(ms[0], m)
			} else {
				m2 := XMM()
				VUNPCKLPS(ms[1], ms[0], m)
				VUNPCKLPS(ms[3], ms[2], m2)
				VUNPCKHPD(m2, m, m) // lane 1 of each
			}
			VADDPS(m, res, res)
		}
		storeLanes(res, n, at(dst, 0))
	})
}

// matVec4: two weight rows with four activation rows. Here the signed operand of
// VPMADDUBSW is the weight, q-sub, and the unsigned one the activation plus 128;
// 128 times the weights' pairs is subtracted, once computed for four products.
// The products of the scales go through memory: a broadcast from there costs no
// arithmetic port.
func (t q32) matVec4() {
	function("matVec4"+t.name+"AVX2", "func(dst *float32, dstStride int, w *byte, stride, rows int, act *byte, actStride, blocks int)")
	Doc(fmt.Sprintf("matVec4%sAVX2 computes dst[t*dstStride+i] = dot(row i of w, row t of act) for i < rows, t < 4.", t.name))
	dst := Load(Param("dst"), GP64())
	dstStride := Load(Param("dstStride"), GP64())
	SHLQ(U8(2), dstStride)
	w := Load(Param("w"), GP64())
	stride := Load(Param("stride"), GP64())
	rows := Load(Param("rows"), GP64())
	scales := AllocLocal(64)
	yBytes, yQs := t.act()

	eachRow(2, rows, w, stride, dst, func(n int) {
		acc := make([][]VecVirtual, n)
		var ms []VecVirtual
		for r := range acc {
			acc[r] = ymms(4)
			zero(acc[r]...)
		}
		if t.min {
			ms = ymms(n)
			zero(ms...)
		}
		p := rowPointers(n, w, stride)
		act := Load(Param("act"), GP64())
		actStride := Load(Param("actStride"), GP64())
		a := rowPointers(4, act, actStride)
		left := Load(Param("blocks"), GP64())
		loop, end := label("block"), label("end")
		TESTQ(left, left)
		JZ(LabelRef(end))
		Label(loop)
		Comment("d of row t in lane 2t, s in lane 2t+1")
		yx, yd := XMM(), YMM()
		VMOVD(at(a[0], 0), yx)
		for i := 1; i < 4; i++ {
			VPINSRD(U8(i), at(a[i], 0), yx, yx)
		}
		VCVTPH2PS(yx, yd)
		q, fix := make([]VecVirtual, n), make([]VecVirtual, n)
		for r := range n {
			x, d := XMM(), YMM()
			VCVTPH2PS(at(p[r], 0), x)
			if t.min {
				VBROADCASTSD(x, d)
				VFMADD231PS(d, yd, ms[r])
			} else {
				VBROADCASTSS(x, d)
			}
			VMULPS(yd, d, d)
			VMOVUPS(d, scales.Offset(32*r))
			if t.signed {
				q[r] = YMM()
				VMOVDQU(at(p[r], t.qs), q[r])
				fix[r] = split(q[r])
				continue
			}
			q[r] = t.unpack(p[r])
			if t.sub != 0 {
				VPSUBB(bytes32(fmt.Sprintf("sub%d", t.sub), t.sub), q[r], q[r])
				fix[r] = YMM()
				VMOVDQU(bytes32("bytes128", 128), fix[r])
				VPMADDUBSW(q[r], fix[r], fix[r])
			}
		}
		for i := range 4 {
			y, yEven := YMM(), YMM()
			if !t.min {
				VMOVDQU(at(a[i], yQs), y)
			}
			if t.signed {
				yEven = split(y)
			} else if t.sub != 0 {
				VPXOR(bytes32("bytes128", 128), y, y)
			}
			for r := range n {
				sum, d := YMM(), YMM()
				switch {
				case t.signed:
					VPMADDWD(yEven, fix[r], sum)
					VPMADDWD(y, q[r], d)
					VPADDD(d, sum, sum)
				case t.min:
					VPMADDUBSW(at(a[i], yQs), q[r], sum)
					VPMADDWD(ones16(), sum, sum)
				default:
					VPMADDUBSW(q[r], y, sum)
					VPSUBW(fix[r], sum, sum)
					VPMADDWD(ones16(), sum, sum)
				}
				VCVTDQ2PS(sum, sum)
				VBROADCASTSS(scales.Offset(32*r+8*i), d)
				VFMADD231PS(sum, d, acc[r][i])
			}
		}
		for r := range n {
			ADDQ(U8(t.size), p[r])
		}
		for i := range 4 {
			ADDQ(U8(yBytes), a[i])
		}
		DECQ(left)
		JNZ(LabelRef(loop))
		Label(end)
		storeTokens(acc, ms, hs, dst, dstStride)
	})
}

// storeTokens sums the lanes of acc[row][token] horizontally, adds the odd lanes of ms[row]
// (lane 2t+1 for token t) where there are any, and stores.
func storeTokens(acc [][]VecVirtual, ms []VecVirtual, sum func([]Register) Register, dst, dstStride Register) {
	out := rowPointers(4, dst, dstStride)
	if len(acc) == 1 {
		s := sum(folds(acc[0]))
		if ms != nil {
			hi := XMM()
			VEXTRACTF128(U8(1), ms[0], hi)
			VSHUFPS(U8(0xdd), hi, ms[0].AsX(), hi)
			VADDPS(hi, s, s)
		}
		for i := range 4 {
			VEXTRACTPS(U8(i), s, at(out[i], 0))
		}
		return
	}
	for i := 0; i < 4; i += 2 {
		s := sum(folds([]VecVirtual{acc[0][i], acc[1][i], acc[0][i+1], acc[1][i+1]}))
		if ms != nil {
			if i == 0 {
				VMOVSHDUP(ms[0], ms[0])
				VBLENDPS(U8(0xaa), ms[1], ms[0], ms[0]) // row 0, row 1 of each token
				VADDPS(ms[0].AsX(), s, s)
			} else {
				m := XMM()
				VEXTRACTF128(U8(1), ms[0], m)
				VADDPS(m, s, s)
			}
		}
		VMOVLPS(s, at(out[i], 0))
		VMOVHPS(s, at(out[i+1], 0))
	}
}
