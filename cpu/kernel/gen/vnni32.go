package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Dots of the 32-element block types with AVX-512 VNNI (section 5). VPDPBUSD gives
// L_l of unsigned weight quants in one instruction. The types whose quants have an
// offset start from minus the offset times the lane's sum of the activation, which
// is exact; int8 quants become unsigned by adding 128. The floats are as in the
// AVX2 kernels: acc_l = fma(d, float(L_l), acc_l), block after block.
//
// The product with a single activation row is in vnnivec.go.
//
// A batch goes in tiles (vnni.go). Weights are unpacked into panels of four rows
// once for all tokens; a panel's block holds, for each row, its quants with every
// lane twice, then d of the four rows, then m. A packed block of 8 tokens holds,
// for each pair, the quants and then for each pair the start values, lanes in
// turn, then d of the tokens, then s.

type vnni32 struct{ q32 }

// offset is what the unpacked quants are too large by.
func (t vnni32) offset() int {
	if t.signed {
		return 128
	}
	return int(t.sub)
}

const (
	panelScales = 256 // of a panel's block
	panelMins   = 272
	panelBlock  = 320
)

// packed is where a packed block has its start values, its scales, and its size.
func packed(min bool) (starts, scales, size int) {
	if min {
		return 0, 256, 320
	}
	return 256, 512, 576
}

func vnni32Family() {
	pack32("Q8_0", false)
	pack32("Q8_1", true)
	row32("Q8_0", false)
	row32("Q8_1", true)
	for _, pairs := range []int{tilePairs, tilePairs / 2} {
		tile32("Q8_0", false, pairs)
		tile32("Q8_1", true, pairs)
	}
	finishTile32("Q8_0", false)
	finishTile32("Q8_1", true)
	for _, q := range q32Types {
		t := vnni32{q}
		t.matVec()
		t.panel()
	}
}

// unpack loads 32 quants as unsigned bytes, byte i element i.
func (t vnni32) unpack(w Register) VecVirtual {
	q := YMM()
	if t.signed {
		VMOVDQU(at(w, t.qs), q)
		VPXOR(bytes32("bit7", 0x80), q, q)
		return q
	}
	VBROADCASTI128(at(w, t.qs), q)
	VPSRLVD(dwords("nibbleShift", 0, 0, 0, 0, 4, 4, 4, 4), q, q)
	VPAND(bytes32("low4", 15), q, q)
	if t.qh != 0 {
		k := K()
		KMOVD(at(w, t.qh), k)
		VPADDB(bytes32("bit4", 16), q, k, q)
	}
	return q
}

// negativeSums is minus offset times the sums of four bytes of y in each lane.
func negativeSums(y, offsets, s VecVirtual) {
	t := ZMM()
	if s.Size() == 32 {
		t = YMM()
	}
	zeroZ(s, t)
	vpdpbusd(y, offsets, s)
	VPSUBD(s, t, s)
}

// pack32 writes one pair of tokens of packed blocks.
func pack32(act string, min bool) {
	name := "pack" + act + "VNNI"
	starts, scales, size := packed(min)
	function(name, "func(dst, act0, act1 *byte, pair int, offset uint32, blocks int)")
	Doc(name+fmt.Sprintf(" writes the part of a pair of %s rows of %d*blocks bytes of packed rows.", act, size),
		"offset, four bytes of it, is what weight quants are too large by.")
	dst, a0, a1, pair, n := param("dst"), param("act0"), param("act1"), param("pair"), param("blocks")
	yBytes, yQs := vnni32{q32{min: min}}.act()
	offset := Load(Param("offset"), GP32())
	offsets, order := ZMM(), ZMM()
	VPBROADCASTD(offset, offsets)
	VMOVDQU32(interleaved(), order)
	d := GP64()
	LEAQ(Mem{Base: dst, Index: pair, Scale: 8, Disp: scales}, d)
	SHLQ(U8(6), pair)
	ADDQ(pair, dst)
	eachVector(n, yBytes, func() {
		y0, y1 := YMM(), YMM()
		VMOVDQU(at(a0, yQs), y0)
		VMOVDQU(at(a1, yQs), y1)
		y := y0.AsZ().(VecVirtual)
		VPERMT2D(y1.AsZ(), order, y)
		VMOVDQU32(y, at(dst, 0))
		if !min {
			s := ZMM()
			negativeSums(y, offsets, s)
			VMOVDQU32(s, at(dst, starts))
		}
		x := XMM()
		VMOVD(at(a0, 0), x)
		VPINSRD(U8(1), at(a1, 0), x, x) // d, s (or quants) of each
		VPSHUFLW(U8(0xd8), x, x)        // d of both, s of both
		VCVTPH2PS(x, x)
		VMOVLPS(x, at(d, 0))
		if min {
			VMOVHPS(x, at(d, 32))
		}
		advance(dst, size)
		advance(d, size)
	}, a0, a1)
	finish()
}

// panel unpacks one weight row into its place in a panel.
func (t vnni32) panel() {
	name := "panel" + t.name + "VNNI"
	function(name, "func(dst, w *byte, row, blocks int)")
	Doc(name + fmt.Sprintf(" unpacks a weight row to row `row` of a panel of %d*blocks bytes.", panelBlock))
	dst, w, row, n := param("dst"), param("w"), param("row"), param("blocks")
	scales := GP64()
	LEAQ(Mem{Base: dst, Index: row, Scale: 4, Disp: panelScales}, scales)
	SHLQ(U8(6), row)
	ADDQ(row, dst)
	order := ZMM()
	VMOVDQU32(doubled(), order)
	eachVector(n, t.size, func() {
		q := t.unpack(w).AsZ().(VecVirtual)
		VPERMD(q, order, q)
		VMOVDQU32(q, at(dst, 0))
		x := XMM()
		VMOVD(at(w, 0), x)
		VCVTPH2PS(x, x)
		VMOVSS(x, at(scales, 0))
		if t.min {
			VEXTRACTPS(U8(1), x, at(scales, panelMins-panelScales))
		}
		advance(dst, panelBlock)
		advance(scales, panelBlock)
	}, w)
	finish()
}

// The accumulators of a tile in memory: 16 vectors of lanes, four of eight floats
// for the minimums, and room for the products of scales.
const (
	tileMins     = 16 * 64
	tileProducts = tileMins + 4*32
)

// tile32 adds the blocks of a panel and of a packed tile, or of the first pairs of its
// tokens, to accumulators.
func tile32(act string, min bool, pairs int) {
	name := "tile" + act + "VNNI"
	if pairs < tilePairs {
		name = "half" + act + "VNNI"
	}
	starts, scales, size := packed(min)
	tileFunction(name, "adds the products of blocks of a panel with those of packed "+act+" rows to a tile's accumulators,")
	m, w, a, n := param("acc"), param("panel"), param("packed"), param("blocks")
	acc := startTile(m, tileMins, map[bool]int{true: 4 * 32}[min], pairs)
	eachVector(n, 0, func() {
		d := YMM()
		VMOVUPS(at(a, scales), d)
		for r := range tileRows {
			x := YMM()
			VMULPS_BCST(at(w, panelScales+4*r), d, x)
			VMOVUPS(x, at(m, tileProducts+32*r))
		}
		if min {
			VMOVUPS(at(a, scales+32), d)
			for r := range tileRows {
				ms := YMM()
				VMOVUPS(at(m, tileMins+32*r), ms)
				VFMADD231PS_BCST(at(w, panelMins+4*r), d, ms)
				VMOVUPS(ms, at(m, tileMins+32*r))
			}
		}
		q := zmms(tileRows)
		for r := range q {
			VMOVDQU32(at(w, 64*r), q[r])
		}
		for p := range pairs {
			y, s := ZMM(), ZMM()
			VMOVDQU32(at(a, 64*p), y)
			if !min {
				VMOVDQU32(at(a, starts+64*p), s)
			}
			for r := range tileRows {
				sum, d := ZMM(), ZMM()
				if min {
					zeroZ(sum)
				} else {
					VMOVDQA32(s, sum)
				}
				vpdpbusd(y, q[r], sum)
				VCVTDQ2PS(sum, sum)
				VBROADCASTSD(at(m, tileProducts+32*r+8*p), d)
				VFMADD231PS(sum, d, acc[pairs*r+p])
			}
		}
		advance(w, panelBlock)
		advance(a, size)
	})
	for i := range acc {
		VMOVUPS(acc[i], at(m, accumulator(i, pairs)))
	}
	finish()
}

// finishTile32 sums the lanes.
func finishTile32(act string, min bool) {
	name := "finish" + act + "VNNI"
	function(name, "func(dst *float32, dstStride int, acc *float32)")
	Doc(name + " writes the sums of a tile's accumulators to dst[t*dstStride+r].")
	dst, dstStride, m := param("dst"), param("dstStride"), param("acc")
	SHLQ(U8(2), dstStride)
	sums := tileSum8(m)
	if min {
		addMinimums(sums, m, tileMins)
	}
	storeTile(sums, dst, dstStride)
	finish()
}
