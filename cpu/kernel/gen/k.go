package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Dots of the 256-element types with Q8_K (section 5). T_l, the integers of one
// block, is exact in whatever order; the floats are acc_l = fma(d, float(T_l),
// acc_l) in eight lanes and the minimums, which Q4_K sums in four lanes and Q5_K
// in one. A block is long enough to hide the latency of its one fma, so rows go
// one by one; four activation rows share a block's unpacking.
//
// VPMADDUBSW gives pairs of a group's products in 16 bits (at most 2*63*128),
// VPMADDWD multiplies both pairs of a lane by the group's scale and adds them.

// A kType describes one weight type. Activation blocks are Q8_K: d at 0, quants
// at 4, sums of 16 at 260.
type kType struct {
	name string
	size int
	// quants returns a function that unpacks group g to 32 unsigned bytes; it is
	// called for g = 0..7 in order.
	quants func(w Register) func(g int) VecVirtual
}

const (
	q8kSize = 292
	q8kQs   = 4
	q8kSums = 260
)

var kTypes = []kType{
	{"Q4_K", 144, func(w Register) func(int) VecVirtual { return nibbleGroups(w, 16) }},
	{"Q5_K", 176, q5kGroups},
	{"Q6_K", 210, q6kGroups},
}

func kFamily() {
	for _, t := range kTypes {
		t.matVec()
		t.matVec4()
	}
}

// nibbleGroups: low nibbles of 32 bytes for even g, high ones for odd g.
func nibbleGroups(w Register, qs int) func(g int) VecVirtual {
	low := func() Mem { return bytes32("low4", 15) }
	var both VecVirtual
	return func(g int) VecVirtual {
		if g%2 == 1 {
			VPSRLW(U8(4), both, both)
			VPAND(low(), both, both)
			return both
		}
		both = YMM()
		q := YMM()
		VMOVDQU(at(w, qs+32*(g/2)), both)
		VPAND(low(), both, q)
		return q
	}
}

// bitsTo moves bits of every byte of v up by n (down if negative) and masks them.
func bitsTo(v VecVirtual, n int, mask Mem) VecVirtual {
	h := YMM()
	switch {
	case n > 0:
		VPSLLW(U8(n), v, h)
		VPAND(mask, h, h)
	case n < 0:
		VPSRLW(U8(-n), v, h)
		VPAND(mask, h, h)
	default:
		VPAND(mask, v, h)
	}
	return h
}

func q5kGroups(w Register) func(int) VecVirtual {
	nibble := nibbleGroups(w, 48)
	high := YMM()
	VMOVDQU(at(w, 16), high)
	return func(g int) VecVirtual {
		q := nibble(g)
		VPOR(bitsTo(high, 4-g, bytes32("bit4", 0x10)), q, q)
		return q
	}
}

func q6kGroups(w Register) func(int) VecVirtual {
	var ql [2]VecVirtual
	var high VecVirtual
	return func(g int) VecVirtual {
		h, r := g/4, g%4
		if r == 0 {
			for i := range ql {
				ql[i] = YMM()
				VMOVDQU(at(w, 64*h+32*i), ql[i])
			}
			high = YMM()
			VMOVDQU(at(w, 128+32*h), high)
		}
		q := bitsTo(ql[r%2], -4*(r/2), bytes32("low4", 15))
		VPOR(bitsTo(high, 4-2*r, bytes32("bits45", 0x30)), q, q)
		return q
	}
}

// kScales holds a block's integer factors: by group, the words that multiply
// lanes 0..3 and 4..7, and the words that multiply the activation's sums.
type kScales struct{ groups, sums VecVirtual }

func (t kType) scales(w Register) kScales {
	s := kScales{YMM(), YMM()}
	if t.name == "Q6_K" {
		Comment("Scales of even halves of a group for the low lanes, of odd ones for the high lanes")
		pattern := make([]byte, 32)
		for i := range 8 {
			pattern[2*i], pattern[2*i+1] = 0x80, byte(2*i)
			pattern[16+2*i], pattern[16+2*i+1] = 0x80, byte(2*i+1)
		}
		VBROADCASTI128(at(w, 192), s.groups)
		VPSHUFB(constant("evenOdd", pattern), s.groups, s.groups)
		VPSRAW(U8(8), s.groups, s.groups)
		VPMOVSXBW(at(w, 192), s.sums)
		return s
	}
	Comment("6-bit scales to bytes 0..7, minimums to bytes 8..15")
	v, low, high := XMM(), XMM(), XMM()
	VMOVDQU(at(w, 0), v) // d, dmin, s[0..11]
	VPSHUFB(constant("lowParts", []byte{4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15}), v, low)
	VPSHUFB(constant("highParts", []byte{128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11}), v, high)
	VPSRLVD(dwords("lowShift", 0, 0, 0, 4), low, low)
	VPAND(dwords("lowMask", 0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f), low, low)
	VPSRLW(U8(2), high, high)
	VPAND(dwords("highMask", 0, 0x30303030, 0, 0x30303030), high, high)
	VPOR(high, low, low)
	VPUNPCKLQDQ(low, low, v)
	VPMOVZXBW(v, s.groups)
	VPUNPCKHBW(low, low, v) // every minimum twice: it covers two sums of 16
	VPMOVZXBW(v, s.sums)
	return s
}

// group is the factor of group g in every word.
func (s kScales) group(g int) VecVirtual {
	pattern := make([]byte, 32)
	for i := range pattern {
		pattern[i] = byte(2*g + i%2)
	}
	f := YMM()
	VPSHUFB(constant(fmt.Sprintf("word%d", g), pattern), s.groups, f)
	return f
}

// finish ends a block: total is T before Q6_K's correction, acc the eight lanes,
// am the minimums' lanes, xd the weight's float scales (lane 0 d, lane 1 dmin).
func (t kType) finish(total VecVirtual, s kScales, a Register, xd VecVirtual, acc, am VecVirtual) {
	sums, yd, d := YMM(), XMM(), YMM()
	VPMADDWD(at(a, q8kSums), s.sums, sums)
	VBROADCASTSS(at(a, 0), yd)
	VMULPS(yd, xd, yd)
	VBROADCASTSS(yd, d)
	if t.name == "Q6_K" {
		VPSLLD(U8(5), sums, sums)
		VPSUBD(sums, total, total)
	} else {
		p := XMM()
		VEXTRACTI128(U8(1), sums, p)
		VPHADDD(p, sums.AsX(), p) // lane l: groups 2l and 2l+1
		if t.name == "Q5_K" {
			VPHADDD(p, p, p)
			VPHADDD(p, p, p)
		}
		VCVTDQ2PS(p, p)
		VPERMILPS(U8(0x55), yd, yd)
		VFNMADD231PS(p, yd, am) // fma(-dm, P, am)
	}
	VCVTDQ2PS(total, total)
	VFMADD231PS(total, d, acc)
}

// result is HS8(acc) plus the minimums, in lane 0.
func (t kType) result(acc, am VecVirtual) Register {
	s := hs([]Register{fold(acc)})
	switch t.name {
	case "Q4_K":
		m := hs([]Register{am})
		VADDPS(m, s, s)
	case "Q5_K":
		VADDPS(am, s, s)
	}
	return s
}

// loadScales widens d to lane 0 and dmin, where there is one, to lane 1. Q6_K's d
// ends the block: the load starts six bytes before it.
func (t kType) loadScales(w Register) VecVirtual {
	xd := XMM()
	if t.name == "Q6_K" {
		VCVTPH2PS(at(w, t.size-8), xd)
		VPERMILPS(U8(0xff), xd, xd)
	} else {
		VCVTPH2PS(at(w, 0), xd)
	}
	return xd
}

func (t kType) matVec() {
	function("matVec"+t.name+"AVX2", "func(dst *float32, w *byte, stride, rows int, act *byte, blocks int)")
	Doc(fmt.Sprintf("matVec%sAVX2 computes dst[i] = dot(row i of w, act) for i < rows.", t.name))
	dst := Load(Param("dst"), GP64())
	w := Load(Param("w"), GP64())
	stride := Load(Param("stride"), GP64())
	rows := Load(Param("rows"), GP64())
	act := Load(Param("act"), GP64())
	blocks := Load(Param("blocks"), GP64())
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
		Comment("Prefetch half a page ahead")
		for line := 0; line < t.size; line += 64 {
			PREFETCHT0(at(p, 2048+line))
		}
		s := t.scales(p)
		quants := t.quants(p)
		total := YMM()
		for g := range 8 {
			q := quants(g)
			VPMADDUBSW(at(a, q8kQs+32*g), q, q)
			f := s.group(g)
			if g == 0 {
				VPMADDWD(f, q, total)
			} else {
				VPMADDWD(f, q, q)
				VPADDD(q, total, total)
			}
		}
		t.finish(total, s, a, t.loadScales(p), acc, am)
		ADDQ(U32(t.size), p)
		ADDQ(U32(q8kSize), a)
		DECQ(left)
		JNZ(LabelRef(loop))
		Label(end)
		VMOVSS(t.result(acc, am), at(dst, 0))
	})
}

// matVec4 keeps the float lanes, touched once a block, in memory.
func (t kType) matVec4() {
	function("matVec4"+t.name+"AVX2", "func(dst *float32, dstStride int, w *byte, stride, rows int, act *byte, actStride, blocks int)")
	Doc(fmt.Sprintf("matVec4%sAVX2 computes dst[t*dstStride+i] = dot(row i of w, row t of act) for i < rows, t < 4.", t.name))
	dst := Load(Param("dst"), GP64())
	dstStride := Load(Param("dstStride"), GP64())
	SHLQ(U8(2), dstStride)
	w := Load(Param("w"), GP64())
	stride := Load(Param("stride"), GP64())
	rows := Load(Param("rows"), GP64())
	lanes := AllocLocal(4 * 48)
	acc := func(i int) Mem { return lanes.Offset(32 * i) }
	am := func(i int) Mem { return lanes.Offset(128 + 16*i) }
	eachRow(1, rows, w, stride, dst, func(int) {
		z := YMM()
		zero(z)
		for i := range 6 {
			VMOVUPS(z, lanes.Offset(32*i))
		}
		p := rowPointers(1, w, stride)[0]
		act := Load(Param("act"), GP64())
		actStride := Load(Param("actStride"), GP64())
		a := rowPointers(4, act, actStride)
		left := Load(Param("blocks"), GP64())
		loop, end := label("block"), label("end")
		TESTQ(left, left)
		JZ(LabelRef(end))
		Label(loop)
		s := t.scales(p)
		quants := t.quants(p)
		total := ymms(4)
		for g := range 8 {
			q, f := quants(g), s.group(g)
			for i := range 4 {
				prod := YMM()
				VPMADDUBSW(at(a[i], q8kQs+32*g), q, prod)
				if g == 0 {
					VPMADDWD(f, prod, total[i])
				} else {
					VPMADDWD(f, prod, prod)
					VPADDD(prod, total[i], total[i])
				}
			}
		}
		xd := t.loadScales(p)
		for i := range 4 {
			la, lm := YMM(), XMM()
			VMOVUPS(acc(i), la)
			if t.name != "Q6_K" {
				VMOVUPS(am(i), lm)
			}
			t.finish(total[i], s, a[i], xd, la, lm)
			VMOVUPS(la, acc(i))
			if t.name != "Q6_K" {
				VMOVUPS(lm, am(i))
			}
		}
		ADDQ(U32(t.size), p)
		for i := range 4 {
			ADDQ(U32(q8kSize), a[i])
		}
		DECQ(left)
		JNZ(LabelRef(loop))
		Label(end)
		out := rowPointers(4, dst, dstStride)
		for i := range 4 {
			la, lm := YMM(), XMM()
			VMOVUPS(acc(i), la)
			if t.name != "Q6_K" {
				VMOVUPS(am(i), lm)
			}
			VMOVSS(t.result(la, lm), at(out[i], 0))
		}
	})
}
