package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Tiles (vnni.go) of the 256-element types. The sums T_l of a block's sixteen
// outputs live in registers: VPMADDUBSW gives a group's products of pairs, VPDPWSSD
// multiplies them by the group's scale and adds. The float lanes are touched once a
// block and live in memory. Layout of a panel's block: for each group and row the
// quants with every lane twice, then the parts that kPanel names. Layout of a packed
// block: for each group and pair the quants, lanes in turn, then the parts that
// kPacked names.

const (
	kQuants = 8 * tileRows * 64 // of both

	// A panel, Q4_K and Q5_K: for each row, eight scales as pairs of words; eight
	// minimums as words; d; dmin.
	kPanelScales = kQuants
	kPanelMins   = kPanelScales + tileRows*32
	kPanelD      = kPanelMins + tileRows*16
	kPanelDMin   = kPanelD + 16
	kPanelBlock  = kPanelDMin + 16 + 32

	// A panel, Q6_K: for each group and row, the scales of a vector's words; for each
	// row, -32 times the scales that multiply the sums; d.
	k6PanelScales = kQuants
	k6PanelSums   = k6PanelScales + 8*tileRows*64
	k6PanelD      = k6PanelSums + tileRows*64
	k6PanelBlock  = k6PanelD + 64

	// Packed, Q4_K: sums of 32 of each token, in four pairs; d of the tokens, four
	// times each; d once each. Q5_K: for each pair, the sums of all tokens. Q6_K: for
	// each pair of tokens the sums of 16, in pairs, in turn.
	kPackedSums  = kQuants
	kPackedD4    = kPackedSums + 128
	kPackedD     = kPackedD4 + 128
	kPackedBlock = kPackedD + 64
	k6PackedD    = kPackedSums + 256
	k6Packed     = k6PackedD + 64

	// The accumulators behind the 16 vectors of lanes: Q4_K's minimums, two vectors a
	// row, or Q5_K's, eight floats a row; products of scales.
	kTileMins     = 16 * 64
	kTileProducts = kTileMins + 8*64
)

func (t kType) packedD() int {
	if t.name == "Q6_K" {
		return k6PackedD
	}
	return kPackedD
}

func (t kType) packedBlock() int {
	if t.name == "Q6_K" {
		return k6Packed
	}
	return kPackedBlock
}

func (t kType) panelBlock() int {
	if t.name == "Q6_K" {
		return k6PanelBlock
	}
	return kPanelBlock
}

func (t kType) panelD() int {
	if t.name == "Q6_K" {
		return k6PanelD
	}
	return kPanelD
}

func vnniKFamily() {
	for _, t := range kTypes {
		t.matVecVNNI()
		t.packTile()
		t.panel()
		t.tile()
		t.finishTile()
	}
}

// packTile writes the part of one pair of tokens.
func (t kType) packTile() {
	name := "pack" + t.name + "VNNI"
	function(name, "func(dst, act0, act1 *byte, pair, blocks int)")
	Doc(name + fmt.Sprintf(" writes the part of a pair of Q8_K rows of %d*blocks bytes of packed rows.", t.packedBlock()))
	dst, a0, a1, pair, n := param("dst"), param("act0"), param("act1"), param("pair"), param("blocks")
	order := loadConstant(interleaved(), 64)
	quants := GP64()
	MOVQ(pair, quants)
	SHLQ(U8(6), quants)
	ADDQ(dst, quants)
	eachVector(n, 0, func() {
		for g := range 8 {
			y, y1 := ZMM(), YMM()
			VMOVDQU(at(a0, q8kQs+32*g), y.AsY())
			VMOVDQU(at(a1, q8kQs+32*g), y1)
			VPERMT2D(y1.AsZ(), order, y)
			VMOVDQU32(y, at(quants, 256*g))
		}
		if t.name == "Q6_K" {
			y, y1 := ZMM(), YMM()
			VMOVDQU(at(a0, q8kSums), y.AsY())
			VMOVDQU(at(a1, q8kSums), y1)
			VPERMT2D(y1.AsZ(), order, y)
			VMOVDQU32(y, at(quants, kPackedSums))
		} else {
			for i, a := range []Register{a0, a1} {
				s, hi := YMM(), XMM()
				VMOVDQU(at(a, q8kSums), s)
				VPMADDWD(words16("ones16", 1), s, s) // sums of 32
				VEXTRACTI128(U8(1), s, hi)
				VPACKSSDW(hi, s.AsX(), s.AsX())
				if t.name == "Q4_K" {
					p := GP64()
					MOVQ(pair, p)
					SHLQ(U8(5), p)
					ADDQ(dst, p)
					VMOVDQU(s.AsX(), at(p, kPackedSums+16*i))
					d := XMM()
					VBROADCASTSS(at(a, 0), d)
					VMOVUPS(d, at(p, kPackedD4+16*i))
				} else {
					for j := range 4 {
						VPEXTRD(U8(j), s.AsX(), Mem{Base: dst, Index: pair, Scale: 8, Disp: kPackedSums + 32*j + 4*i})
					}
				}
			}
		}
		for i, a := range []Register{a0, a1} {
			x := XMM()
			VMOVSS(at(a, 0), x)
			VMOVSS(x, Mem{Base: dst, Index: pair, Scale: 8, Disp: t.packedD() + 4*i})
		}
		ADDQ(U32(q8kSize), a0)
		ADDQ(U32(q8kSize), a1)
		ADDQ(U32(t.packedBlock()), dst)
		ADDQ(U32(t.packedBlock()), quants)
	})
	finish()
}

// panel unpacks one weight row into its place in a panel.
func (t kType) panel() {
	name := "panel" + t.name + "VNNI"
	function(name, "func(dst, w *byte, row, blocks int)")
	Doc(name + fmt.Sprintf(" unpacks a weight row to row `row` of a panel of %d*blocks bytes.", t.panelBlock()))
	dst, w, row, n := param("dst"), param("w"), param("row"), param("blocks")
	order := loadConstant(doubled(), 64)
	quants, sums, floats := GP64(), GP64(), GP64()
	MOVQ(row, quants)
	SHLQ(U8(6), quants)
	ADDQ(dst, quants)
	MOVQ(row, sums)
	SHLQ(U8(4), sums)
	ADDQ(dst, sums)
	LEAQ(Mem{Base: dst, Index: row, Scale: 4}, floats)
	SHLQ(U8(5), row)
	ADDQ(row, dst)
	eachVector(n, 0, func() {
		s := t.scales(w)
		q := t.quants(w)
		double := func(v VecVirtual, m Mem) {
			z := ZMM()
			VPERMD(v.AsZ(), order, z)
			VMOVDQU32(z, m)
		}
		for g := range 8 {
			double(q(g), at(quants, 256*g))
			if t.name == "Q6_K" {
				double(s.group(g), at(quants, k6PanelScales+256*g))
			}
		}
		xd := t.loadScales(w)
		VMOVSS(xd, at(floats, t.panelD()))
		if t.name == "Q6_K" {
			v, z := YMM(), YMM()
			VPSLLW(U8(5), s.sums, v)
			VPXOR(z, z, z)
			VPSUBW(v, z, v)
			double(v, at(quants, k6PanelSums))
		} else {
			VEXTRACTPS(U8(1), xd, at(floats, kPanelDMin))
			v, hi := YMM(), YMM()
			VPMOVZXWD(s.groups.AsX(), v)
			VPSLLD(U8(16), v, hi)
			VPOR(hi, v, v)
			VMOVDQU(v, at(dst, kPanelScales))
			// Every minimum is there twice: words 0, 2, ..
			lo, hi2 := XMM(), XMM()
			VEXTRACTI128(U8(1), s.sums, hi2)
			VPSHUFB(constant("evenWords", []byte{0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13}), s.sums.AsX(), lo)
			VPSHUFB(constant("evenWords", nil), hi2, hi2)
			VPUNPCKLQDQ(hi2, lo, lo)
			VMOVDQU(lo, at(sums, kPanelMins))
		}
		ADDQ(U32(t.size), w)
		for _, p := range []Register{dst, quants, sums, floats} {
			ADDQ(U32(t.panelBlock()), p)
		}
	})
	finish()
}

func (t kType) tile() {
	name := "tile" + t.name + "VNNI"
	tileFunction(name, "adds the products of blocks of a panel with those of packed Q8_K rows to a tile's accumulators,")
	m, w, a, n := param("acc"), param("panel"), param("packed"), param("blocks")
	first, start := param("first"), label("start")
	TESTQ(first, first)
	JZ(LabelRef(start))
	z := ZMM()
	zeroZ(z)
	for off := 0; off < kTileProducts; off += 64 {
		VMOVUPS(z, at(m, off))
	}
	Label(start)
	eachVector(n, 0, func() {
		d := YMM()
		VMOVUPS(at(a, t.packedD()), d)
		for r := range tileRows {
			x := YMM()
			VMULPS_BCST(at(w, t.panelD()+4*r), d, x)
			VMOVUPS(x, at(m, kTileProducts+32*r))
		}
		t.minimums(m, w, a)
		total := zmms(tileRows * tilePairs)
		if t.name == "Q6_K" {
			s := zmms(tileRows)
			for r := range s {
				VMOVDQU32(at(w, k6PanelSums+64*r), s[r])
			}
			for p := range tilePairs {
				y := ZMM()
				VMOVDQU32(at(a, kPackedSums+64*p), y)
				for r := range tileRows {
					VPMADDWD(y, s[r], total[tilePairs*r+p])
				}
			}
		}
		for g := range 8 {
			q, s := zmms(tileRows), zmms(tileRows)
			for r := range q {
				VMOVDQU32(at(w, 256*g+64*r), q[r])
				if t.name == "Q6_K" {
					VMOVDQU32(at(w, k6PanelScales+256*g+64*r), s[r])
				} else {
					VPBROADCASTD(at(w, kPanelScales+32*r+4*g), s[r])
				}
			}
			for p := range tilePairs {
				y := ZMM()
				VMOVDQU32(at(a, 256*g+64*p), y)
				for r := range tileRows {
					prod := ZMM()
					VPMADDUBSW(y, q[r], prod)
					if t.name != "Q6_K" && g == 0 {
						VPMADDWD(prod, s[r], total[tilePairs*r+p])
					} else {
						vpdpwssd(prod, s[r], total[tilePairs*r+p])
					}
				}
			}
		}
		for i, v := range total {
			d := ZMM()
			VCVTDQ2PS(v, v)
			VBROADCASTSD(at(m, kTileProducts+32*(i/tilePairs)+8*(i%tilePairs)), d)
			VFMADD213PS(at(m, 64*i), d, v)
			VMOVUPS(v, at(m, 64*i))
		}
		ADDQ(U32(t.panelBlock()), w)
		ADDQ(U32(t.packedBlock()), a)
	})
	finish()
}

// minimums subtracts a block's minimums: fma(-(d*dmin), P, am).
func (t kType) minimums(m, w, a Register) {
	switch t.name {
	case "Q4_K":
		for i := range 2 {
			sums, d := ZMM(), ZMM()
			VMOVDQU32(at(a, kPackedSums+64*i), sums)
			VMOVUPS(at(a, kPackedD4+64*i), d)
			for r := range tileRows {
				p, dm, am := ZMM(), ZMM(), ZMM()
				VBROADCASTI32X4(at(w, kPanelMins+16*r), p)
				VPMADDWD(sums, p, p)
				VCVTDQ2PS(p, p)
				VMULPS_BCST(at(w, kPanelDMin+4*r), d, dm)
				VMOVUPS(at(m, kTileMins+128*r+64*i), am)
				VFNMADD231PS(p, dm, am)
				VMOVUPS(am, at(m, kTileMins+128*r+64*i))
			}
		}
	case "Q5_K":
		d, sums := YMM(), ymms(4)
		VMOVUPS(at(a, kPackedD), d)
		for j := range sums {
			VMOVDQU(at(a, kPackedSums+32*j), sums[j])
		}
		for r := range tileRows {
			p, dm, am := YMM(), YMM(), YMM()
			VPXOR(p, p, p)
			for j := range sums {
				vpdpwssdBroadcast(at(w, kPanelMins+16*r+4*j), sums[j], p)
			}
			VCVTDQ2PS(p, p)
			VMULPS_BCST(at(w, kPanelDMin+4*r), d, dm)
			VMOVUPS(at(m, kTileMins+32*r), am)
			VFNMADD231PS(p, dm, am)
			VMOVUPS(am, at(m, kTileMins+32*r))
		}
	}
}

func (t kType) finishTile() {
	name := "finish" + t.name + "VNNI"
	function(name, "func(dst *float32, dstStride int, acc *float32)")
	Doc(name + " writes the sums of a tile's accumulators to dst[t*dstStride+r].")
	dst, dstStride, m := param("dst"), param("dstStride"), param("acc")
	SHLQ(U8(2), dstStride)
	if t.name == "Q4_K" {
		Comment("(am0+am2) + (am1+am3) of each token, to where Q5_K has its sums")
		first := loadConstant(dwords("firstOfFour", 0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28), 64)
		for r := range tileRows {
			v, x := zmms(2), ZMM()
			for i := range v {
				VMOVUPS(at(m, kTileMins+128*r+64*i), v[i])
				VPERMILPS(U8(0x4e), v[i], x)
				VADDPS(x, v[i], v[i])
				VPERMILPS(U8(0xb1), v[i], x)
				VADDPS(x, v[i], v[i])
			}
			VPERMT2PS(v[1], first, v[0])
			VMOVUPS(v[0].AsY(), at(m, kTileMins+32*r))
		}
	}
	sums := tileSum8(m)
	if t.name != "Q6_K" {
		addMinimums(sums, m, kTileMins)
	}
	storeTile(sums, dst, dstStride)
	finish()
}
