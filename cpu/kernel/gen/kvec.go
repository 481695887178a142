package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The product of a matrix of 256-element blocks with one activation row, as matVec of
// k.go has it, with instructions that do two things at once: VPDPWSSD multiplies a
// group's products with its scale and adds them, and takes Q4_K's and Q5_K's scale
// from memory for all words; VPTERNLOGD masks high bits and puts them to the low ones.
//
// For Q4_K and Q5_K a row is prepared: in the place of its sums of 16 are sums of 32,
// which are what the minimums multiply.

func (t kType) vecName() string { return "matVec" + t.name + "VNNI" }

// vecMasks are constants of vecQuants in registers.
type vecMasks struct{ low, high VecVirtual }

func (t kType) vecMasks() vecMasks {
	m := vecMasks{low: loadConstant(bytes32("low4", 15), 32)}
	switch t.name {
	case "Q5_K":
		m.high = loadConstant(bytes32("bit4", 0x10), 32)
	case "Q6_K":
		m.high = loadConstant(bytes32("bits45", 0x30), 32)
	}
	return m
}

// vecQuants is like quants.
func (t kType) vecQuants(w Register, masks vecMasks) func(g int) VecVirtual {
	// shifted is v, its words shifted up, in a register of its own.
	shifted := func(v VecVirtual, up int) VecVirtual {
		h := YMM()
		switch {
		case up > 0:
			VPSLLW(U8(up), v, h)
		case up < 0:
			VPSRLW(U8(-up), v, h)
		default:
			return v
		}
		return h
	}
	merge := func(q, v VecVirtual, up int) VecVirtual {
		VPTERNLOGD(U8(0xf8), masks.high, shifted(v, up), q) // q | v&high
		return q
	}
	nibbles := func(v VecVirtual, upper bool) VecVirtual {
		q := YMM()
		if upper {
			VPSRLW(U8(4), v, q)
			VPAND(masks.low, q, q)
		} else {
			VPAND(masks.low, v, q)
		}
		return q
	}
	load := func(off int) VecVirtual {
		v := YMM()
		VMOVDQU(at(w, off), v)
		return v
	}
	var low [2]VecVirtual
	var high VecVirtual
	return func(g int) VecVirtual {
		if t.name == "Q6_K" {
			h, r := g/4, g%4
			if r == 0 {
				low[0], low[1], high = load(64*h), load(64*h+32), load(128+32*h)
			}
			return merge(nibbles(low[r%2], r >= 2), high, 4-2*r)
		}
		qs := 16
		if t.name == "Q5_K" {
			qs = 48
		}
		if g == 0 && t.name == "Q5_K" {
			high = load(16)
		}
		if g%2 == 0 {
			low[0] = load(qs + 16*g)
		}
		q := nibbles(low[0], g%2 == 1)
		if t.name == "Q5_K" {
			q = merge(q, high, 4-g)
		}
		return q
	}
}

// vecScales writes a block's eight scales, each as two words, and gives the eight
// minimums as words.
func vecScales(w, scales Register) VecVirtual {
	v, low, high, mins, words := XMM(), XMM(), XMM(), XMM(), YMM()
	VMOVDQU(at(w, 0), v) // d, dmin, s[0..11]
	VPSHUFB(constant("lowParts", []byte{4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15}), v, low)
	VPSHUFB(constant("highParts", []byte{128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11}), v, high)
	VPSRLVD(dwords("lowShift", 0, 0, 0, 4), low, low)
	VPAND(dwords("lowMask", 0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f), low, low)
	VPSRLW(U8(2), high, high)
	// low | high&mask: scales in bytes 0..7, minimums in bytes 8..15.
	VPTERNLOGD(U8(0xf8), dwords("highMask", 0, 0x30303030, 0, 0x30303030), high, low)
	twice := make([]byte, 32)
	for i := range twice {
		twice[i] = byte(i / 4)
		if i%2 == 1 {
			twice[i] = 0x80
		}
	}
	VPBROADCASTQ(low, words)
	VPSHUFB(constant("twice", twice), words, words)
	VMOVDQU(words, at(scales, 0))
	VPSHUFB(constant("upperBytes", []byte{8, 0x80, 9, 0x80, 10, 0x80, 11, 0x80, 12, 0x80, 13, 0x80, 14, 0x80, 15, 0x80}), low, mins)
	return mins
}

func (t kType) matVecVNNI() {
	function(t.vecName(), "func(dst *float32, w *byte, stride, rows int, act *byte, blocks int)")
	Doc(fmt.Sprintf("%s computes dst[i] = dot(row i of w, act) for i < rows, act a prepared row.", t.vecName()))
	dst, w, stride, rows, act, blocks := param("dst"), param("w"), param("stride"), param("rows"), param("act"), param("blocks")
	scales := GP64()
	LEAQ(AllocLocal(32), scales)
	masks := t.vecMasks()
	eachRow(1, rows, w, stride, dst, func(int) {
		acc, am := YMM(), XMM()
		zero(acc, am)
		p, a, left := GP64(), GP64(), GP64()
		MOVQ(w, p)
		MOVQ(act, a)
		MOVQ(blocks, left)
		loop, end := label("block"), label("end")
		TESTQ(left, left)
		JZ(LabelRef(end))
		Label(loop)
		prefetchStream(p, t.size)
		var s kScales
		var mins VecVirtual
		if t.name == "Q6_K" {
			s = t.scales(p)
		} else {
			mins = vecScales(p, scales)
		}
		quants := t.vecQuants(p, masks)
		total := YMM()
		VPXOR(total, total, total)
		for g := range 8 {
			q := quants(g)
			VPMADDUBSW(at(a, q8kQs+32*g), q, q)
			if t.name == "Q6_K" {
				vpdpwssd(s.group(g), q, total)
			} else {
				vpdpwssdBroadcast(at(scales, 4*g), q, total)
			}
		}
		if t.name == "Q6_K" {
			t.finish(total, s, a, t.loadScales(p), acc, am)
		} else {
			t.vecFinish(total, mins, a, t.loadScales(p), acc, am)
		}
		ADDQ(U32(t.size), p)
		ADDQ(U32(q8kSize), a)
		DECQ(left)
		JNZ(LabelRef(loop))
		Label(end)
		VMOVSS(t.result(acc, am), at(dst, 0))
	})
}

// vecFinish is like finish, with sums of 32.
func (t kType) vecFinish(total, mins VecVirtual, a Register, xd, acc, am VecVirtual) {
	yd, d, p := XMM(), YMM(), XMM()
	VPMADDWD(at(a, q8kSums), mins, p) // lane l: groups 2l and 2l+1
	VBROADCASTSS(at(a, 0), yd)
	VMULPS(yd, xd, yd)
	VBROADCASTSS(yd, d)
	if t.name == "Q5_K" {
		VPHADDD(p, p, p)
		VPHADDD(p, p, p)
	}
	VCVTDQ2PS(p, p)
	VPERMILPS(U8(0x55), yd, yd)
	VFNMADD231PS(p, yd, am) // fma(-dm, P, am)
	VCVTDQ2PS(total, total)
	VFMADD231PS(total, d, acc)
}
