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
		t.pack()
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
		y, yd := YMM(), XMM()
		var yEven, s VecVirtual
		VMOVDQU(at(a, yQs), y)
		if t.signed {
			yEven = split(y)
		}
		VCVTPH2PS(at(a, 0), yd)
		if t.sub != 0 {
			s = t.subPairs(y)
		}
		for r := range n {
			if n == 4 {
				prefetchRow(p[r], stride, 0)
			}
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

// packedBlock is the layout of one block of four activation rows as matVec4 reads
// it: for each row its quants, and behind the rows the scales. Q8_0's
// quants are split to words; those of Q4_0 and Q5_0 are followed by sub times
// their pairs. The scales are d of the four rows, twice; or d, s of the four rows.
func (t q32) packedBlock() (row, scales, size int) {
	row = 64
	if t.min {
		row = 32
	}
	return row, 4 * row, 4*row + 32
}

// pack converts four activation rows once for all weight rows.
func (t q32) pack() {
	function("pack"+t.name+"AVX2", "func(dst *float32, act *byte, actStride, blocks int)")
	row, scales, size := t.packedBlock()
	Doc(fmt.Sprintf("pack%sAVX2 writes the %d*blocks floats that matVec4%sAVX2 reads.", t.name, size/4, t.name))
	dst, act, actStride, n := param("dst"), param("act"), param("actStride"), param("blocks")
	yBytes, yQs := t.act()
	a := rowPointers(4, act, actStride)
	eachVector(n, yBytes, func() {
		for i := range a {
			y := YMM()
			VMOVDQU(at(a[i], yQs), y)
			switch {
			case t.signed:
				even := split(y)
				VMOVDQU(even, at(dst, row*i))
				VMOVDQU(y, at(dst, row*i+32))
			case t.min:
				VMOVDQU(y, at(dst, row*i))
			default:
				VMOVDQU(y, at(dst, row*i))
				VMOVDQU(t.subPairs(y), at(dst, row*i+32))
			}
		}
		x, d := XMM(), YMM()
		VMOVD(at(a[0], 0), x)
		for i := 1; i < 4; i++ {
			VPINSRD(U8(i), at(a[i], 0), x, x)
		}
		if !t.min {
			VPSHUFB(constant("firstWords", []byte{0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13}), x, x)
		}
		VCVTPH2PS(x, d)
		VMOVUPS(d, at(dst, scales))
		ADDQ(U32(size), dst)
	}, a...)
	finish()
}

// subPairs is sub times the pairs of y: what sums of unsigned quants are too
// large by.
func (t q32) subPairs(y VecVirtual) VecVirtual {
	s := YMM()
	VMOVDQU(bytes32(fmt.Sprintf("sub%d", t.sub), t.sub), s)
	VPMADDUBSW(y, s, s)
	return s
}

// matVec4: two weight rows with four packed activation rows. The products of the
// scales go through memory: a broadcast from there costs no arithmetic port.
func (t q32) matVec4() {
	function("matVec4"+t.name+"AVX2", "func(dst *float32, dstStride int, w *byte, stride, rows int, packed *float32, blocks int)")
	Doc(fmt.Sprintf("matVec4%sAVX2 computes dst[t*dstStride+i] = dot(row i of w, packed row t) for i < rows, t < 4.", t.name))
	dst, dstStride, w, stride, rows := param("dst"), param("dstStride"), param("w"), param("stride"), param("rows")
	SHLQ(U8(2), dstStride)
	products := AllocLocal(64)
	product := func(r, i int) Mem {
		if t.min {
			return products.Offset(32*r + 8*i)
		}
		return products.Offset(16*r + 4*i)
	}
	row, scales, size := t.packedBlock()

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
		p, y := rowPointers(n, w, stride), param("packed")
		eachVector(param("blocks"), t.size, func() {
			if t.min {
				for r := range n {
					x, d := XMM(), YMM()
					VCVTPH2PS(at(p[r], 0), x)
					VBROADCASTSD(x, d)
					VFMADD231PS(at(y, scales), d, ms[r]) // odd lanes: m*s of each token
					VMULPS(at(y, scales), d, d)
					VMOVUPS(d, products.Offset(32*r))
				}
			} else {
				Comment("d of row 0 in the low lanes, of row 1 in the high ones")
				x, x1, d := XMM(), XMM(), YMM()
				VPBROADCASTW(at(p[0], 0), x)
				if n == 2 {
					VPBROADCASTW(at(p[1], 0), x1)
					VPUNPCKLQDQ(x1, x, x)
				}
				VCVTPH2PS(x, d)
				VMULPS(at(y, scales), d, d)
				VMOVUPS(d, products)
			}
			q, even := make([]VecVirtual, n), make([]VecVirtual, n)
			for r := range n {
				if !t.signed {
					q[r] = t.unpack(p[r])
					continue
				}
				q[r] = YMM()
				VMOVDQU(at(p[r], t.qs), q[r])
				even[r] = split(q[r])
			}
			for i := range 4 {
				quants, extra := at(y, row*i), at(y, row*i+32)
				for r := range n {
					sum, d := YMM(), YMM()
					if t.signed {
						VPMADDWD(quants, even[r], sum)
						VPMADDWD(extra, q[r], d)
						VPADDD(d, sum, sum)
					} else {
						VPMADDUBSW(quants, q[r], sum)
						if t.sub != 0 {
							VPSUBW(extra, sum, sum)
						}
						VPMADDWD(ones16(), sum, sum)
					}
					VCVTDQ2PS(sum, sum)
					VBROADCASTSS(product(r, i), d)
					VFMADD231PS(sum, d, acc[r][i])
				}
			}
			ADDQ(U32(size), y)
		}, p...)
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
