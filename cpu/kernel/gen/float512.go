package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Dots of plain types with 512-bit vectors, at both levels (sections 1 and 5). At
// level H two of the four accumulators of eight lanes share a vector: elements
// 0..15 of every 32 go to A0 and A1, elements 16..31 to A2 and A3, so the sum of
// the two vectors is A0+A2 beside A1+A3, and its halves are added next. At level Z
// each accumulator is a vector of 16 lanes.

// A floatLevel is one level's order.
type floatLevel struct {
	suffix  string
	vectors int // accumulators of 16 lanes; a step is 16 elements for each
}

var (
	levelH      = floatLevel{"H512", 2}
	levelZ      = floatLevel{"Z512", 4}
	floatLevels = []floatLevel{levelH, levelZ}
)

func (l floatLevel) step() int { return 16 * l.vectors }

// load16 widens 16 elements of type t.
func (t floatType) load16(m Mem) VecVirtual {
	v := ZMM()
	switch t.name {
	case "F32":
		VMOVUPS(m, v)
	case "F16":
		VCVTPH2PS(m, v)
	case "BF16":
		VPMOVZXWD(m, v)
		VPSLLD(U8(16), v, v)
	}
	return v
}

// lanes4 combines an output's accumulators and folds the lanes to four: what HA8,
// HS8 or R16 add up last.
func (l floatLevel) lanes4(acc []VecVirtual) Register {
	if l.vectors == 4 {
		VADDPS(acc[2], acc[0], acc[0])
		VADDPS(acc[3], acc[1], acc[1])
	}
	VADDPS(acc[1], acc[0], acc[0])
	hi := YMM()
	VEXTRACTF64X4(U8(1), acc[0], hi)
	VADDPS(hi, acc[0].AsY(), hi)
	return fold(hi)
}

// sum adds the four lanes of up to four outputs; bf16's goes on from +0.
func (l floatLevel) sum(t floatType, lanes []Register) Register {
	if l.vectors == 4 {
		return hs(lanes)
	}
	return t.result(lanes)
}

func float512Family() {
	matVec512(levelH, floatTypes[0])
	matVec512(levelZ, floatTypes[0])
	matVec512(levelZ, floatTypes[1])
	matVecBF16Z()
	widenRows()
	for _, t := range floatTypes {
		panelFloat(t)
		packFloat(t)
	}
	for _, l := range floatLevels {
		tileFloat(l)
		finishFloat(l, floatTypes[0])
	}
	finishFloat(levelH, floatTypes[2])
}

// matVec512: four weight rows, then one by one.
func matVec512(l floatLevel, t floatType) {
	name := "matVec" + t.name + l.suffix
	function(name, "func(dst *float32, w *byte, stride, rows int, act *byte, steps int)")
	Doc(fmt.Sprintf("%s computes dst[i] = dot(row i of w, act) for i < rows over %d*steps elements.", name, l.step()))
	dst, w, stride, rows, act, steps := param("dst"), param("w"), param("stride"), param("rows"), param("act"), param("steps")
	eachRow(4, rows, w, stride, dst, func(n int) {
		acc := make([][]VecVirtual, n)
		for r := range acc {
			acc[r] = zmms(l.vectors)
			zeroZ(acc[r]...)
		}
		p := rowPointers(n, w, stride)
		a, left := GP64(), GP64()
		MOVQ(act, a)
		MOVQ(steps, left)
		eachVector(left, 0, func() {
			for i := range l.vectors {
				y := t.load16(at(a, 16*t.size*i))
				for r := range n {
					if t.name == "F32" {
						VFMADD231PS(at(p[r], 64*i), y, acc[r][i])
					} else {
						VFMADD231PS(t.load16(at(p[r], 16*t.size*i)), y, acc[r][i])
					}
				}
			}
			for r := range n {
				ADDQ(U32(l.step()*t.size), p[r])
			}
			ADDQ(U32(l.step()*t.size), a)
		})
		var lanes []Register
		for r := range n {
			lanes = append(lanes, l.lanes4(acc[r]))
		}
		storeLanes(l.sum(t, lanes), n, at(dst, 0))
	})
}

// vdpbf16ps is VDPBF16PS, which neither avo nor Go's assembler has: acc += pairs of
// a times pairs of b. The registers are numbers below 8.
func vdpbf16ps(acc, a, b int) {
	for _, v := range []int{0x62, 0xf2, (^a&15)<<3 | 6, 0x48, 0x52, 0xc0 | acc<<3 | b} {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(v)}})
	}
}

// matVecBF16Z: two accumulators; each is summed by itself, in float64 (section 16
// and package exact). The sums go to dst in pairs.
func matVecBF16Z() {
	function("matVecBF16Z512", "func(sums *float32, w *byte, stride, rows int, act *byte, steps int)")
	Doc("matVecBF16Z512 computes the sums of both accumulators of dot(row i of w, act), sums[2*i] and sums[2*i+1], for i < rows",
		"over 64*steps elements. It needs AVX512_BF16.")
	dst, w, stride, rows, act, steps := param("sums"), param("w"), param("stride"), param("rows"), param("act"), param("steps")
	eachVector(rows, 8, func() {
		VPXORD(Z0, Z0, Z0)
		VPXORD(Z1, Z1, Z1)
		p, a, left := GP64(), GP64(), GP64()
		MOVQ(w, p)
		MOVQ(act, a)
		MOVQ(steps, left)
		eachVector(left, 0, func() {
			VMOVDQU32(at(p, 0), Z2)
			VMOVDQU32(at(a, 0), Z3)
			VMOVDQU32(at(p, 64), Z4)
			VMOVDQU32(at(a, 64), Z5)
			vdpbf16ps(0, 2, 3)
			vdpbf16ps(1, 4, 5)
			ADDQ(U32(128), p)
			ADDQ(U32(128), a)
		})
		for i, z := range []VecPhysical{Z0, Z1} {
			VEXTRACTF64X4(U8(1), z, Y6)
			VADDPS(Y6, z.AsY(), Y6)
			VEXTRACTF128(U8(1), Y6, X7)
			VADDPS(X7, X6, X6)
			VPERMILPD(U8(1), X6, X7)
			VADDPS(X7, X6, X6)
			VMOVSHDUP(X6, X7)
			VADDSS(X7, X6, X6)
			VMOVSS(X6, at(dst, 4*i))
		}
		ADDQ(stride, w)
	}, dst)
	finish()
}

// widenRows widens rows of halves next to each other.
func widenRows() {
	function("widenRowsF16Z512", "func(dst *float32, src *byte, stride, rows, vectors int)")
	Doc("widenRowsF16Z512 widens 16*vectors elements of each of rows rows, stride bytes apart, to rows without gaps.")
	dst, src, stride, rows, n := param("dst"), param("src"), param("stride"), param("rows"), param("vectors")
	eachVector(rows, 0, func() {
		p, left := GP64(), GP64()
		MOVQ(src, p)
		MOVQ(n, left)
		eachVector(left, 32, func() {
			VMOVUPS(floatTypes[1].load16(at(p, 0)), at(dst, 0))
			ADDQ(U8(64), dst)
		}, p)
		ADDQ(stride, src)
	})
	finish()
}

// Batches: tiles of 4 weight rows and 8 tokens. A panel has, for each vector of 16
// elements, that of each row; a packed tile that of each token. The accumulators of
// 32 outputs are more than the registers: one accumulator of four tokens at a time
// passes the part's vectors. acc[i][t][r], i the accumulator's number.

const floatTokens = 8

// panelFloat widens one weight row into its place in a panel.
func panelFloat(t floatType) {
	name := "panel" + t.name + "Z512"
	function(name, "func(dst, w *byte, row, vectors int)")
	Doc(name + " widens 16*vectors elements of a weight row to row `row` of a panel of 4 rows.")
	dst, w, row, n := param("dst"), param("w"), param("row"), param("vectors")
	SHLQ(U8(6), row)
	ADDQ(row, dst)
	eachVector(n, 16*t.size, func() {
		VMOVUPS(t.load16(at(w, 0)), at(dst, 0))
		ADDQ(U32(64*tileRows), dst)
	}, w)
	finish()
}

// packFloat widens a pair of tokens.
func packFloat(t floatType) {
	name := "pack" + t.name + "Z512"
	function(name, "func(dst, act0, act1 *byte, pair, vectors int)")
	Doc(name + " widens 16*vectors elements of two activation rows to the places of a pair in a tile of 8.")
	dst, a0, a1, pair, n := param("dst"), param("act0"), param("act1"), param("pair"), param("vectors")
	SHLQ(U8(7), pair)
	ADDQ(pair, dst)
	eachVector(n, 16*t.size, func() {
		VMOVUPS(t.load16(at(a0, 0)), at(dst, 0))
		VMOVUPS(t.load16(at(a1, 0)), at(dst, 64))
		ADDQ(U32(64*floatTokens), dst)
	}, a0, a1)
	finish()
}

func tileFloat(l floatLevel) {
	name := "tileFloat" + l.suffix
	tileFunction(name, fmt.Sprintf("adds the products of %d*blocks elements of a panel and a packed tile to a tile's accumulators,", l.step()))
	m, panel, packed, first := param("acc"), param("panel"), param("packed"), param("first")
	passes := GP64()
	MOVQ(U32(uint32(2*l.vectors)), passes)
	// The passes go over the accumulators of tokens 0..3, then of 4..7; a step of the
	// tile is 512 bytes for each accumulator.
	eachVector(passes, 0, func() {
		acc := zmms(16)
		load, start := label("load"), label("start")
		TESTQ(first, first)
		JZ(LabelRef(load))
		zeroZ(acc...)
		JMP(LabelRef(start))
		Label(load)
		for i := range acc {
			VMOVUPS(at(m, 64*i), acc[i])
		}
		Label(start)
		w, a, left := GP64(), GP64(), param("blocks")
		MOVQ(panel, w)
		MOVQ(packed, a)
		eachVector(left, 0, func() {
			x := zmms(tileRows)
			for r := range x {
				VMOVUPS(at(w, 64*r), x[r])
			}
			for t := range 4 {
				y := ZMM()
				VMOVUPS(at(a, 64*t), y)
				for r := range x {
					VFMADD231PS(y, x[r], acc[4*t+r])
				}
			}
			ADDQ(U32(uint32(64*tileRows*l.vectors)), w)
			ADDQ(U32(uint32(64*floatTokens*l.vectors)), a)
		})
		for i := range acc {
			VMOVUPS(acc[i], at(m, 64*i))
		}
		ADDQ(U32(1024), m)
		Comment("The next accumulator, or after the last one the next four tokens' first")
		ADDQ(U32(64*tileRows), panel)
		ADDQ(U32(64*floatTokens), packed)
		next := label("next")
		CMPQ(passes, U8(l.vectors+1))
		JNE(LabelRef(next))
		SUBQ(U32(uint32(64*tileRows*l.vectors)), panel)
		SUBQ(U32(uint32(64*floatTokens*l.vectors-256)), packed)
		Label(next)
	})
	finish()
}

func finishFloat(l floatLevel, t floatType) {
	name := "finish" + t.name + l.suffix
	function(name, "func(dst *float32, dstStride int, acc *float32)")
	Doc(name + " writes the sums of a tile's accumulators to dst[t*dstStride+r].")
	dst, dstStride, m, tokens := param("dst"), param("dstStride"), param("acc"), GP64()
	SHLQ(U8(2), dstStride)
	MOVQ(U32(floatTokens), tokens)
	eachVector(tokens, 0, func() {
		var lanes []Register
		for r := range tileRows {
			acc := zmms(l.vectors)
			for i := range acc {
				VMOVUPS(at(m, 1024*i+64*r), acc[i])
			}
			lanes = append(lanes, l.lanes4(acc))
		}
		VMOVUPS(l.sum(t, lanes), at(dst, 0))
		ADDQ(dstStride, dst)
		ADDQ(U32(256), m)
		next := label("next")
		CMPQ(tokens, U8(floatTokens/2+1))
		JNE(LabelRef(next))
		ADDQ(U32(uint32(1024*(l.vectors-1))), m)
		Label(next)
	})
	finish()
}
