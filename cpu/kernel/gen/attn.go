package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Attention's sum of values (sections 5 and 9.4). The dot's order is by cell:
// cell j belongs to accumulator (j/8)%4, lane j%8, which is residue j%32. Channels
// are the vector here, and each residue has its own row of accumulators in
// memory, so a residue's cells are added in order and everything is vertical.

func attnFamily() {
	for _, t := range floatTypes[:2] {
		attnCells(t, 1)
		attnCells(t, 4)
	}
	attnCombine()
}

// attnCells adds consecutive cells to consecutive rows of acc; with groups = 4
// also the cells 32, 64 and 96 further on, so that an accumulator is loaded and
// stored once for four cells of its residue.
func attnCells(t floatType, groups int) {
	name := fmt.Sprintf("attnCells%d%sAVX2", groups, t.name)
	function(name, "func(acc *float32, d int, v *byte, stride int, p *float32, cells, vectors int)")
	Doc(name+" adds p[j]*v[j] to row j of acc (rows of d floats) for j < cells, over 8*vectors channels,",
		fmt.Sprintf("for cells j, j+32 and so on up to %d of a residue.", groups))
	acc, d, v, stride := param("acc"), param("d"), param("v"), param("stride")
	p, cells := param("p"), param("cells")
	SHLQ(U8(2), d)
	far := GP64()
	if groups > 1 {
		MOVQ(stride, far)
		SHLQ(U8(5), far)
	}
	eachVector(cells, 4, func() {
		pj := ymms(groups)
		for g := range pj {
			if t.name == "F16" {
				h := XMM()
				VMOVSS(at(p, 128*g), h)
				VCVTPS2PH(U8(0), h, h)
				VCVTPH2PS(h, h)
				VBROADCASTSS(h, pj[g])
			} else {
				VBROADCASTSS(at(p, 128*g), pj[g])
			}
		}
		cell := rowPointers(groups, v, far)
		row, left, loop := GP64(), Load(Param("vectors"), GP64()), label("channels")
		MOVQ(acc, row)
		Label(loop)
		sum := YMM()
		VMOVUPS(at(row, 0), sum)
		for g := range pj {
			if t.name == "F32" {
				VFMADD231PS(at(cell[g], 0), pj[g], sum)
			} else {
				VFMADD231PS(t.load(at(cell[g], 0)), pj[g], sum)
			}
			ADDQ(U8(8*t.size), cell[g])
		}
		VMOVUPS(sum, at(row, 0))
		ADDQ(U8(32), row)
		DECQ(left)
		JNZ(LabelRef(loop))
		ADDQ(stride, v)
		ADDQ(d, acc)
	}, p)
	finish()
}

// attnCombine does for eight channels at once what ends a dot: (A0+A2) + (A1+A3)
// per lane, then HA8. pad is +0 where llama.cpp's window has cells beyond the
// used ones, which turn a sum of -0 into +0, and -0, which changes nothing, where
// it has none.
func attnCombine() {
	function("attnCombineAVX2", "func(dst, acc *float32, d int, pad float32, vectors int)")
	Doc("attnCombineAVX2 sums the 32 rows of acc (rows of d floats) into 8*vectors elements of dst.")
	dst, acc, d, n, pad := param("dst"), param("acc"), param("d"), param("vectors"), broadcastParam("pad")
	SHLQ(U8(2), d)
	eachVector(n, 32, func() {
		p := GP64()
		MOVQ(acc, p)
		row8 := GP64()
		MOVQ(d, row8)
		SHLQ(U8(3), row8)
		lanes := ymms(8)
		for l := range lanes {
			b, q := YMM(), rowPointers(4, p, row8)
			VMOVUPS(at(q[0], 0), lanes[l])
			VADDPS(at(q[2], 0), lanes[l], lanes[l])
			VMOVUPS(at(q[1], 0), b)
			VADDPS(at(q[3], 0), b, b)
			VADDPS(b, lanes[l], lanes[l])
			ADDQ(d, p)
		}
		for i := range 4 {
			VADDPS(lanes[i+4], lanes[i], lanes[i])
		}
		VADDPS(lanes[1], lanes[0], lanes[0])
		VADDPS(lanes[3], lanes[2], lanes[2])
		VADDPS(lanes[2], lanes[0], lanes[0])
		VADDPS(pad, lanes[0], lanes[0])
		VMOVUPS(lanes[0], at(dst, 0))
	}, dst, acc)
	finish()
}
