package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Attention's sum of values for the heads that share them (sections 5 and 9.4), 32
// channels at a time. As in attn.go each residue of the cell index has its own
// accumulators, here those of all heads, in registers while the residue's cells of
// a block pass: acc[residue][head][32].

func attn512Family() {
	for _, l := range floatLevels {
		for _, t := range floatTypes[:2] {
			for heads := 1; heads <= 8; heads++ {
				attnHeads(l, t, heads)
			}
		}
	}
	attnCombine512("H512", 8)
	attnCombine512("Z512", 16)
	roundHalf()
}

func attnHeads(l floatLevel, t floatType, heads int) {
	name := fmt.Sprintf("attnHeads%d%s%s", heads, t.name, l.suffix)
	lanes := l.step()
	function(name, "func(acc *float32, v *byte, stride int, p *float32, pStride, cells int)")
	Doc(fmt.Sprintf("%s adds p[h*pStride+j]*v[j] to the accumulators of residue j %% %d for j < cells and each head h,", name, lanes),
		fmt.Sprintf("and asks for the cells %d later.", 8*lanes))
	acc, v, stride, p, s := param("acc"), param("v"), param("stride"), param("p"), param("pStride")
	cells := param("cells")
	SHLQ(U8(2), s)
	// Multiples of s that scaled addresses lack.
	var s3, s5, s7 Register
	times := func(n uint8) Register {
		r := GP64()
		LEAQ(Mem{Base: s, Index: s, Scale: n - 1}, r)
		return r
	}
	if heads > 3 {
		s3 = times(3)
	}
	if heads > 5 {
		s5 = times(5)
	}
	if heads > 7 {
		s7 = GP64()
		LEAQ(Mem{Base: s5, Index: s, Scale: 2}, s7)
	}
	step := GP64() // between cells of a residue
	IMUL3Q(U8(lanes), stride, step)
	residues := GP64()
	MOVQ(U32(uint32(lanes)), residues)
	CMPQ(cells, residues)
	CMOVQLT(cells, residues)
	eachVector(residues, 0, func() {
		a := zmms(2 * heads)
		for i := range a {
			VMOVUPS(at(acc, 64*i), a[i])
		}
		cell, pj, left := GP64(), GP64(), GP64()
		MOVQ(v, cell)
		MOVQ(p, pj)
		MOVQ(cells, left)
		loop := label("cell")
		Label(loop)
		PREFETCHT1(Mem{Base: cell, Index: step, Scale: 8})
		x := []VecVirtual{t.load16(at(cell, 0)), t.load16(at(cell, 16*t.size))}
		for h := range heads {
			m := Mem{Base: pj}
			switch h {
			case 1, 2, 4:
				m = Mem{Base: pj, Index: s, Scale: uint8(h)}
			case 3:
				m = Mem{Base: pj, Index: s3, Scale: 1}
			case 5:
				m = Mem{Base: pj, Index: s5, Scale: 1}
			case 6:
				m = Mem{Base: pj, Index: s3, Scale: 2}
			case 7:
				m = Mem{Base: pj, Index: s7, Scale: 1}
			}
			b := ZMM()
			VBROADCASTSS(m, b)
			VFMADD231PS(b, x[0], a[2*h])
			VFMADD231PS(b, x[1], a[2*h+1])
		}
		ADDQ(step, cell)
		ADDQ(U32(uint32(4*lanes)), pj)
		SUBQ(U8(lanes), left)
		JG(LabelRef(loop))
		for i := range a {
			VMOVUPS(a[i], at(acc, 64*i))
		}
		ADDQ(U32(uint32(128*heads)), acc)
		ADDQ(stride, v)
		ADDQ(U8(4), p)
		DECQ(cells)
	})
	finish()
}

// attnCombine512 is attnCombine for 32 channels of one head: (A0+A2) + (A1+A3) of
// each of width lanes, then HA8 or R16.
func attnCombine512(suffix string, width int) {
	name := "attnCombine" + suffix
	function(name, "func(dst, acc *float32, rowBytes int, pad float32)")
	Doc(fmt.Sprintf("%s sums %d rows of 32 floats, rowBytes apart.", name, 4*width))
	dst, acc, d := param("dst"), param("acc"), param("rowBytes")
	x, pad := XMM(), ZMM()
	Load(Param("pad"), x)
	VBROADCASTSS(x, pad)
	far := GP64() // between accumulators
	MOVQ(d, far)
	IMUL3Q(U8(width), far, far)
	for v := range 2 {
		q := rowPointers(4, acc, far)
		lanes := make([]VecVirtual, width)
		for l := range lanes {
			lanes[l] = ZMM()
			b := ZMM()
			VMOVUPS(at(q[0], 64*v), lanes[l])
			VADDPS(at(q[2], 64*v), lanes[l], lanes[l])
			VMOVUPS(at(q[1], 64*v), b)
			VADDPS(at(q[3], 64*v), b, b)
			VADDPS(b, lanes[l], lanes[l])
			for _, p := range q {
				ADDQ(d, p)
			}
		}
		for n := width / 2; n >= 4; n /= 2 {
			for i := range n {
				VADDPS(lanes[i+n], lanes[i], lanes[i])
			}
		}
		// HA8 adds neighbours first, R16 every other.
		i, j, k, l := 0, 1, 2, 3
		if width == 16 {
			j, k = 2, 1
		}
		VADDPS(lanes[j], lanes[i], lanes[i])
		VADDPS(lanes[l], lanes[k], lanes[k])
		VADDPS(lanes[k], lanes[i], lanes[i])
		VADDPS(pad, lanes[i], lanes[i])
		VMOVUPS(lanes[i], at(dst, 64*v))
	}
	finish()
}

func roundHalf() {
	function("roundHalfZ512", "func(x *float32, vectors int)")
	Doc("roundHalfZ512 rounds 16*vectors elements to the nearest half in place.")
	x, n := param("x"), param("vectors")
	eachVector(n, 64, func() {
		v, h := ZMM(), YMM()
		VMOVUPS(at(x, 0), v)
		VCVTPS2PH(U8(0), v, h)
		VCVTPH2PS(h, v)
		VMOVUPS(v, at(x, 0))
	}, x)
	finish()
}
