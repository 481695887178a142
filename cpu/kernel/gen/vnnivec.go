package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The product of a matrix of 32-element blocks with one activation row, when a token
// is decoded: it must be faster than memory. Some weight rows at a time hide the
// latency of their chains of FMAs and share what is loaded of the activation. Four
// blocks at a time have their scales converted and multiplied in vectors, which
// wait in memory for FMAs that take one float for all lanes. The matrix is prefetched
// in the order of its addresses.
//
// Where a byte's nibbles need no fifth bit, the upper one is not shifted down:
// lanes 4..7, which have the upper nibbles, are integers, and then sums, that are 16
// times too large. That is exact, since halves bound the scales (nothing overflows or
// is denormal), and ends with the row.
//
// A prepared activation row of n blocks has three parts: 32*n bytes of quants; then
// start values of 32*n bytes and d of 16*n bytes, four times each; or, for types with
// a minimum, d and 1.0 of 32*n bytes, four times each, and s of 4*n bytes.

// vecRows is how many rows are computed at a time. Four would be faster from a cache,
// but their accesses are too far from one stream for the hardware to follow.
const vecRows = 2

// vecAhead is how far beyond the next row is prefetched.
const vecAhead = 1536

// scaled says that the upper lanes are 16 times too large.
func (t vnni32) scaled() bool { return !t.signed && t.qh == 0 }

// rowBytes is the size of a prepared block.
func rowBytes(min bool) int {
	if min {
		return 68
	}
	return 80
}

// row32 prepares one activation row for matVec.
func row32(act string, min bool) {
	name := "row" + act + "VNNI"
	function(name, "func(dst, act *byte, low, high uint32, blocks int)")
	Doc(name+fmt.Sprintf(" writes the %d*blocks bytes that matVec reads of a %s row.", rowBytes(min), act),
		"low and high, four bytes each, are what weight quants of the lower and upper lanes are too large by.")
	dst, a, n := param("dst"), param("act"), param("blocks")
	yBytes, yQs := vnni32{q32{min: min}}.act()
	second, third := GP64(), GP64()
	MOVQ(n, second)
	SHLQ(U8(5), second)
	LEAQ(Mem{Base: dst, Index: second, Scale: 2}, third)
	ADDQ(dst, second)
	offsets, upper := YMM(), YMM()
	if min {
		VMOVUPS(floats8("one", 1), upper)
	} else {
		low, high := Load(Param("low"), GP32()), Load(Param("high"), GP32())
		VPBROADCASTD(low, offsets)
		VPBROADCASTD(high, upper)
		VINSERTI128(U8(1), upper.AsX(), offsets, offsets)
	}
	eachVector(n, yBytes, func() {
		y, d := YMM(), XMM()
		VMOVDQU(at(a, yQs), y)
		VMOVDQU(y, at(dst, 0))
		VCVTPH2PS(at(a, 0), d)
		if min {
			VMOVSHDUP(d, y.AsX())
			VMOVSS(y.AsX(), at(third, 0))
			both := YMM()
			VBROADCASTSS(d, both)
			VBLENDPS(U8(0xaa), upper, both, both)
			VMOVUPS(both, at(second, 0))
			ADDQ(U8(4), third)
		} else {
			s := YMM()
			negativeSums(y, offsets, s)
			VMOVDQU(s, at(second, 0))
			VBROADCASTSS(d, d)
			VMOVUPS(d, at(third, 0))
			ADDQ(U8(16), third)
		}
		ADDQ(U8(32), dst)
		ADDQ(U8(32), second)
	}, a)
	finish()
}

// vec is the state of a matVec while it is written.
type vec struct {
	vnni32
	act, second, third Register // parts of the prepared row
	i                  Register // four times the block
	p, ahead, buf      Register // block of the first row; what to prefetch; converted scales
	stride, stride3    Register
	acc                []VecVirtual
	ms                 VecVirtual // m*s of row r in lane 2r+1
}

func (v *vec) row(r, disp int) Mem {
	switch r {
	case 0:
		return at(v.p, disp)
	case 3:
		return Mem{Base: v.p, Index: v.stride3, Scale: 1, Disp: disp}
	}
	return Mem{Base: v.p, Index: v.stride, Scale: uint8(r), Disp: disp}
}

// quants loads 32 quants of a row, as bytes without a sign.
func (v *vec) quants(r, disp int) VecVirtual {
	q := YMM()
	switch {
	case v.signed:
		VMOVDQU(v.row(r, disp+v.qs), q)
		VPXOR(bytes32("bit7", 0x80), q, q)
	case v.scaled():
		VBROADCASTI128(v.row(r, disp+v.qs), q)
		VPAND(dwords("nibbles", 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0xf0f0f0f0, 0xf0f0f0f0, 0xf0f0f0f0, 0xf0f0f0f0), q, q)
	default:
		VBROADCASTI128(v.row(r, disp+v.qs), q)
		VPSRLVD(dwords("nibbleShift", 0, 0, 0, 0, 4, 4, 4, 4), q, q)
		VPAND(bytes32("low4", 15), q, q)
		k := K()
		KMOVD(v.row(r, disp+v.qh), k)
		VPADDB(bytes32("bit4", 16), q, k, q)
	}
	return q
}

// scales brings the scales of some blocks of all rows to memory: d*d of row r and
// block b at 4*(4*b+r), or d*d and m at 8*(4*b+r).
func (v *vec) scales(blocks int) {
	rows, vector := len(v.acc), XMM()
	half := func(part int) VecVirtual { // eight 16-bit numbers
		x := XMM()
		perBlock, blocksOf := 1, 2
		if v.min {
			perBlock, blocksOf = 2, 1
		}
		for b := part * blocksOf; b < min((part+1)*blocksOf, blocks); b++ {
			for r := range rows {
				word := (b%blocksOf*4 + r) * perBlock
				m := v.row(r, b*v.size)
				switch {
				case word == 0:
					VMOVD(m, x)
				case v.min:
					VPINSRD(U8(word/2), m, x, x)
				default:
					VPINSRW(U8(word), m, x, x)
				}
			}
		}
		return x
	}
	parts := 2 // halves
	if v.min {
		parts = 4
	}
	if blocks == 1 {
		vector = half(0)
		if v.min {
			y := YMM()
			VCVTPH2PS(vector, y)
			VMULPS(Mem{Base: v.second, Index: v.i, Scale: 8}, y, y)
			VMOVUPS(y, at(v.buf, 0))
		} else {
			VCVTPH2PS(vector, vector)
			VMULPS(Mem{Base: v.third, Index: v.i, Scale: 4}, vector, vector)
			VMOVUPS(vector, at(v.buf, 0))
		}
		return
	}
	// Not two halves in one vector of 512 bits: that shuts a port to all the others.
	for i := range parts {
		y := YMM()
		VCVTPH2PS(half(i), y)
		if v.min {
			VMULPS(Mem{Base: v.second, Index: v.i, Scale: 8, Disp: 32 * i}, y, y)
		} else {
			VMULPS(Mem{Base: v.third, Index: v.i, Scale: 4, Disp: 32 * i}, y, y)
		}
		VMOVUPS(y, at(v.buf, 32*i))
	}
}

// step adds some blocks.
func (v *vec) step(blocks int) {
	rows := len(v.acc)
	bytes := blocks * rows * v.size
	for line := 0; line < bytes; line += 64 {
		PREFETCHT0(at(v.ahead, line))
	}
	advance(v.ahead, bytes)
	v.scales(blocks)
	for b := range blocks {
		y, s := YMM(), YMM()
		VMOVDQU(Mem{Base: v.act, Index: v.i, Scale: 8, Disp: 32 * b}, y)
		if v.min {
			VBROADCASTSS(Mem{Base: v.third, Index: v.i, Scale: 1, Disp: 4 * b}, s)
		} else {
			VMOVDQU(Mem{Base: v.second, Index: v.i, Scale: 8, Disp: 32 * b}, s)
		}
		for r := range rows {
			q, sum := v.quants(r, b*v.size), YMM()
			if v.min {
				VPXOR(sum, sum, sum)
			} else {
				VMOVDQA(s, sum)
			}
			vpdpbusd(y, q, sum)
			VCVTDQ2PS(sum, sum)
			scale := at(v.buf, 4*(4*b+r))
			if v.min {
				scale = at(v.buf, 8*(4*b+r))
			}
			VFMADD231PS_BCST(scale, sum, v.acc[r])
		}
		if v.min {
			VFMADD231PS(at(v.buf, 32*b), s, v.ms)
		}
	}
	advance(v.p, blocks*v.size)
	ADDQ(U8(4*blocks), v.i)
}

// sums is what the rows' lanes add to, row r in lane r.
func (v *vec) sums() Register {
	var folded []Register
	for _, a := range v.acc {
		if !v.scaled() {
			folded = append(folded, fold(a))
			continue
		}
		high := XMM()
		VEXTRACTF128(U8(1), a, high)
		VFMADD231PS(dwords("sixteenth", 0x3d800000, 0x3d800000, 0x3d800000, 0x3d800000), high, a.AsX())
		folded = append(folded, a.AsX())
	}
	res := hs(folded)
	if !v.min {
		return res
	}
	m := XMM()
	if len(v.acc) == 1 {
		VMOVSHDUP(v.ms.AsX(), m)
	} else {
		VEXTRACTF128(U8(1), v.ms, m)
		VSHUFPS(U8(0xdd), m, v.ms.AsX(), m)
	}
	VADDPS(m, res, res)
	return res
}

func (t vnni32) matVec() {
	name := "matVec" + t.name + "VNNI"
	function(name, "func(dst *float32, w *byte, stride, rows int, act *byte, blocks int)")
	Doc(name + " computes dst[i] = dot(row i of w, act) for i < rows, act a prepared row.")
	dst, w, stride, rows := param("dst"), param("w"), param("stride"), param("rows")
	v := &vec{vnni32: t, act: param("act"), second: GP64(), third: GP64(), stride: stride, stride3: GP64(), buf: GP64()}
	parts := Load(Param("blocks"), GP64())
	SHLQ(U8(5), parts)
	LEAQ(Mem{Base: v.act, Index: parts, Scale: 1}, v.second)
	LEAQ(Mem{Base: v.act, Index: parts, Scale: 2}, v.third)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, v.stride3)
	LEAQ(AllocLocal(128+56), v.buf)
	ADDQ(U8(56), v.buf)
	ANDQ(I8(-64), v.buf)
	eachRow(vecRows, rows, w, stride, dst, func(n int) {
		v.acc, v.p, v.ahead, v.i = ymms(n), GP64(), GP64(), GP64()
		zero(v.acc...)
		if t.min {
			v.ms = YMM()
			zero(v.ms)
		}
		MOVQ(w, v.p)
		LEAQ(Mem{Base: w, Index: stride, Scale: 1, Disp: vecAhead}, v.ahead)
		XORQ(v.i, v.i)
		left := Load(Param("blocks"), GP64())
		four, tail, one, end := label("four"), label("tail"), label("one"), label("end")
		SUBQ(U8(4), left)
		JLT(LabelRef(tail))
		Label(four)
		v.step(4)
		SUBQ(U8(4), left)
		JGE(LabelRef(four))
		Label(tail)
		ADDQ(U8(4), left)
		JZ(LabelRef(end))
		Label(one)
		v.step(1)
		DECQ(left)
		JNZ(LabelRef(one))
		Label(end)
		storeLanes(v.sums(), n, at(dst, 0))
	})
}
