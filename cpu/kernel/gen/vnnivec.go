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
// start values of 32*n bytes and d of 8*n bytes, once for each of the rows; or, for
// types with a minimum, d and 1.0 of 16*n bytes, once for each, and s of 4*n bytes.

// vecRows is how many rows are computed at a time. Four would be faster from a cache,
// but their accesses are too far from one stream for the hardware to follow.
const vecRows = 2

// rows is vecRows, or 1 for the type whose quants need no unpacking: one row at a
// time, one stream, is fast enough.
func (t vnni32) rows() int {
	if t.signed {
		return 1
	}
	return vecRows
}

// scaled says that the upper lanes are 16 times too large.
func (t vnni32) scaled() bool { return !t.signed && t.qh == 0 }

// rowBytes is the size of a prepared block.
func rowBytes(min bool) int {
	if min {
		return 32 + 8*vecRows + 4
	}
	return 64 + 4*vecRows
}

// parts are where the second and third part of a prepared row of n blocks start.
func parts(row, n Register, min bool) (second, third Register) {
	second, third = GP64(), GP64()
	MOVQ(n, second)
	SHLQ(U8(5), second)
	ADDQ(row, second)
	MOVQ(n, third)
	if min {
		SHLQ(U8(4), third)
	} else {
		SHLQ(U8(5), third)
	}
	ADDQ(second, third)
	return second, third
}

// row32 prepares one activation row for matVec.
func row32(act string, min bool) {
	name := "row" + act + "VNNI"
	function(name, "func(dst, act *byte, low, high uint32, blocks int)")
	Doc(name+fmt.Sprintf(" writes the %d*blocks bytes that matVec reads of a %s row.", rowBytes(min), act),
		"low and high, four bytes each, are what weight quants of the lower and upper lanes are too large by.")
	dst, a, n := param("dst"), param("act"), param("blocks")
	yBytes, yQs := vnni32{q32{min: min}}.act()
	second, third := parts(dst, n, min)
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
			VBROADCASTSS(d, d)
			VBLENDPS(U8(0xaa), upper.AsX(), d, d)
			VMOVUPS(d, at(second, 0))
			ADDQ(U8(4), third)
			ADDQ(U8(8*vecRows), second)
		} else {
			s := YMM()
			negativeSums(y, offsets, s)
			VMOVDQU(s, at(second, 0))
			VBROADCASTSS(d, d)
			VMOVLPS(d, at(third, 0))
			ADDQ(U8(4*vecRows), third)
			ADDQ(U8(32), second)
		}
		ADDQ(U8(32), dst)
	}, a)
	finish()
}

// vec is the state of a matVec while it is written.
type vec struct {
	vnni32
	act, second, third Register // parts of the prepared row
	i                  Register // four times the block
	p, ahead, buf      Register // block of the first row; where in the stream of rows; converted scales
	stride             Register
	mask, shift, fifth VecVirtual // for quants
	acc                []VecVirtual
	ms                 VecVirtual // m*s of row r in lane 2r+1
}

func (v *vec) row(r, disp int) Mem {
	if r == 0 {
		return at(v.p, disp)
	}
	return Mem{Base: v.p, Index: v.stride, Scale: 1, Disp: disp}
}

// constants loads what quants needs into registers.
func (v *vec) constants() {
	load := func(m Mem) VecVirtual { return loadConstant(m, 32) }
	switch {
	case v.signed:
		v.mask = load(bytes32("bit7", 0x80))
	case v.scaled():
		v.mask = load(dwords("nibbles", 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0xf0f0f0f0, 0xf0f0f0f0, 0xf0f0f0f0, 0xf0f0f0f0))
	default:
		v.mask, v.shift, v.fifth = load(bytes32("low4", 15)), load(dwords("nibbleShift", 0, 0, 0, 0, 4, 4, 4, 4)), load(bytes32("bit4", 16))
	}
}

// quants loads 32 quants of a row, as bytes without a sign.
func (v *vec) quants(r, disp int) VecVirtual {
	q := YMM()
	if v.signed {
		VPXOR(v.row(r, disp+v.qs), v.mask, q)
		return q
	}
	VBROADCASTI128(v.row(r, disp+v.qs), q)
	if !v.scaled() {
		VPSRLVD(v.shift, q, q)
	}
	VPAND(v.mask, q, q)
	if v.qh != 0 {
		k := K()
		KMOVD(v.row(r, disp+v.qh), k)
		VPADDB(v.fifth, q, k, q)
	}
	return q
}

// scales brings the scales of some blocks of all rows to memory: d*d of row r and
// block b at 4*(2*b+r), or d*d and m at 8*(2*b+r).
func (v *vec) scales(blocks int) {
	rows := len(v.acc)
	words, factors := 1, Mem{Base: v.third, Index: v.i, Scale: 2}
	if v.min {
		words, factors = 2, Mem{Base: v.second, Index: v.i, Scale: 4}
	}
	perVector := 4 / words
	for b := 0; b < blocks; b += perVector {
		x := XMM()
		for i := range min(perVector, blocks-b) {
			for r := range rows {
				word, m := (vecRows*i+r)*words, v.row(r, (b+i)*v.size)
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
		if off := 4 * vecRows * words * b; blocks == 1 && !v.min {
			VCVTPH2PS(x, x)
			y := XMM()
			VMOVSD(factors, y)
			VMULPS(y, x, x)
			VMOVLPS(x, at(v.buf, off))
		} else if blocks == 1 {
			VCVTPH2PS(x, x)
			VMULPS(factors, x, x)
			VMOVUPS(x, at(v.buf, off))
		} else {
			y := YMM()
			VCVTPH2PS(x, y)
			VMULPS(factors.Offset(off), y, y)
			VMOVUPS(y, at(v.buf, off))
		}
	}
}

// step adds some blocks.
func (v *vec) step(blocks int) {
	rows := len(v.acc)
	bytes := blocks * rows * v.size
	prefetchStream(v.ahead, bytes)
	advance(v.ahead, bytes)
	v.scales(blocks)
	for b := range blocks {
		y, s := YMM(), YMM()
		VMOVDQU(Mem{Base: v.act, Index: v.i, Scale: 8, Disp: 32 * b}, y)
		if v.min {
			VBROADCASTSS(Mem{Base: v.third, Index: v.i, Scale: 1, Disp: 4 * b}, s.AsX())
		} else {
			VMOVDQU(Mem{Base: v.second, Index: v.i, Scale: 8, Disp: 32 * b}, s)
		}
		for r := range rows {
			q, sum := v.quants(r, b*v.size), YMM()
			switch {
			case v.min:
				VPXOR(sum, sum, sum)
			case r == rows-1:
				sum = s
			default:
				VMOVDQA(s, sum)
			}
			vpdpbusd(y, q, sum)
			VCVTDQ2PS(sum, sum)
			scale := at(v.buf, 4*(vecRows*b+r))
			if v.min {
				scale = at(v.buf, 8*(vecRows*b+r))
			}
			VFMADD231PS_BCST(scale, sum, v.acc[r])
		}
		if v.min {
			VFMADD231PS(at(v.buf, 16*b), s.AsX(), v.ms)
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
	VPERMILPS(U8(0x0d), v.ms, v.ms) // lanes 1, 3
	VADDPS(v.ms, res, res)
	return res
}

func (t vnni32) matVec() {
	name := "matVec" + t.name + "VNNI"
	function(name, "func(dst *float32, w *byte, stride, rows int, act *byte, blocks int)")
	Doc(name + " computes dst[i] = dot(row i of w, act) for i < rows, act a prepared row.")
	dst, w, stride, rows := param("dst"), param("w"), param("stride"), param("rows")
	v := &vec{vnni32: t, act: param("act"), stride: stride, buf: GP64()}
	v.second, v.third = parts(v.act, Load(Param("blocks"), GP64()), t.min)
	LEAQ(AllocLocal(64+24), v.buf)
	ADDQ(U8(24), v.buf)
	ANDQ(I8(-32), v.buf)
	v.constants()
	eachRow(t.rows(), rows, w, stride, dst, func(n int) {
		v.acc, v.p, v.ahead, v.i = ymms(n), GP64(), GP64(), GP64()
		zero(v.acc...)
		if t.min {
			v.ms = XMM()
			zero(v.ms)
		}
		MOVQ(w, v.p)
		if n == 1 {
			MOVQ(w, v.ahead)
		} else {
			LEAQ(Mem{Base: w, Index: stride, Scale: 1}, v.ahead)
		}
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
