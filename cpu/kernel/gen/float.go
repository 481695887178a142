package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Dots of plain types (section 5): accumulator a of an output holds elements
// 8a..8a+7 of every 32, one lane each, acc = fma(x, y, acc); the four are combined
// per lane as (A0+A2) + (A1+A3) and then horizontally, HA8 for f32 and f16, HS8
// for bf16. The kernels take whole steps of 32; tails are plain Go.

// A floatType describes one type. load widens eight elements.
type floatType struct {
	name string
	size int
	load func(m Mem) VecVirtual
	sum  func(t []Register) Register
}

var floatTypes = []floatType{
	{"F32", 4, func(m Mem) VecVirtual {
		v := YMM()
		VMOVUPS(m, v)
		return v
	}, ha},
	{"F16", 2, func(m Mem) VecVirtual {
		v := YMM()
		VCVTPH2PS(m, v)
		return v
	}, ha},
	{"BF16", 2, func(m Mem) VecVirtual {
		v := YMM()
		VPMOVZXWD(m, v)
		VPSLLD(U8(16), v, v)
		return v
	}, hs},
}

func floatFamily() {
	for _, t := range floatTypes {
		t.matVec()
		t.pack()
		t.matVec4()
	}
}

// matVec: two weight rows, eight chains.
func (t floatType) matVec() {
	function("matVec"+t.name+"AVX2", "func(dst *float32, w *byte, stride, rows int, act *byte, steps int)")
	Doc(fmt.Sprintf("matVec%sAVX2 computes dst[i] = dot(row i of w, act) for i < rows over 32*steps elements.", t.name))
	dst := Load(Param("dst"), GP64())
	w := Load(Param("w"), GP64())
	stride := Load(Param("stride"), GP64())
	rows := Load(Param("rows"), GP64())
	act := Load(Param("act"), GP64())
	steps := Load(Param("steps"), GP64())
	eachRow(2, rows, w, stride, dst, func(n int) {
		acc := make([][]VecVirtual, n)
		for r := range acc {
			acc[r] = ymms(4)
			zero(acc[r]...)
		}
		p := rowPointers(n, w, stride)
		a, left := GP64(), GP64()
		MOVQ(act, a)
		MOVQ(steps, left)
		loop, end := label("step"), label("end")
		TESTQ(left, left)
		JZ(LabelRef(end))
		Label(loop)
		if n == 2 {
			for r := range n {
				for line := 0; line < 32*t.size; line += 64 {
					prefetchRow(p[r], stride, line)
				}
			}
		}
		for i := range 4 {
			y := t.load(at(a, 8*t.size*i))
			for r := range n {
				if t.name == "F32" {
					VFMADD231PS(at(p[r], 32*i), y, acc[r][i])
				} else {
					VFMADD231PS(t.load(at(p[r], 8*t.size*i)), y, acc[r][i])
				}
			}
		}
		for r := range n {
			ADDQ(U32(32*t.size), p[r])
		}
		ADDQ(U32(32*t.size), a)
		DECQ(left)
		JNZ(LabelRef(loop))
		Label(end)
		var folded []Register
		for _, v := range acc {
			VADDPS(v[2], v[0], v[0])
			VADDPS(v[3], v[1], v[1])
			VADDPS(v[1], v[0], v[0])
			folded = append(folded, fold(v[0]))
		}
		storeLanes(t.result(folded), n, at(dst, 0))
	})
}

// result is the horizontal sum; bf16's goes on in float64 from +0, which turns a
// sum of -0 into +0.
func (t floatType) result(folded []Register) Register {
	s := t.sum(folded)
	if t.name == "BF16" {
		z := XMM()
		VXORPS(z, z, z)
		VADDPS(z, s, s)
	}
	return s
}

// passes is the order in which matVec4 computes the accumulators: A0, A2 and
// their sum, then A1, A3.
var passes = [4]int{0, 2, 1, 3}

// pack widens four activation rows for matVec4 and puts them in the order of its
// reads: all steps of a pass, of a step the eight elements of each row.
func (t floatType) pack() {
	function("pack"+t.name+"AVX2", "func(dst *float32, act *byte, actStride, steps int)")
	Doc(fmt.Sprintf("pack%sAVX2 writes the 4*32*steps floats that matVec4%sAVX2 reads.", t.name, t.name))
	dst := Load(Param("dst"), GP64())
	act := Load(Param("act"), GP64())
	actStride := Load(Param("actStride"), GP64())
	steps := Load(Param("steps"), GP64())
	for _, i := range passes {
		a := rowPointers(4, act, actStride)
		left := GP64()
		MOVQ(steps, left)
		loop := label("step")
		Label(loop)
		for r := range 4 {
			VMOVUPS(t.load(at(a[r], 8*t.size*i)), at(dst, 32*r))
			ADDQ(U32(32*t.size), a[r])
		}
		ADDQ(U32(128), dst)
		DECQ(left)
		JNZ(LabelRef(loop))
	}
	VZEROUPPER()
	RET()
}

// matVec4: two weight rows with four activation rows. Four accumulators of eight
// outputs don't fit in the registers, so the rows are passed four times, once for
// each accumulator, and the sums of the passes wait in memory.
func (t floatType) matVec4() {
	function("matVec4"+t.name+"AVX2", "func(dst *float32, dstStride int, w *byte, stride, rows int, packed *float32, steps int)")
	Doc(fmt.Sprintf("matVec4%sAVX2 computes dst[t*dstStride+i] = dot(row i of w, packed row t) for i < rows, t < 4.", t.name))
	dst := Load(Param("dst"), GP64())
	dstStride := Load(Param("dstStride"), GP64())
	SHLQ(U8(2), dstStride)
	w := Load(Param("w"), GP64())
	stride := Load(Param("stride"), GP64())
	rows := Load(Param("rows"), GP64())
	saved := AllocLocal(2 * 8 * 32)
	eachRow(2, rows, w, stride, dst, func(n int) {
		acc := make([][]VecVirtual, n)
		for r := range acc {
			acc[r] = ymms(4)
		}
		y := Load(Param("packed"), GP64())
		for k, i := range passes {
			for r := range acc {
				zero(acc[r]...)
			}
			p := rowPointers(n, w, stride)
			left := Load(Param("steps"), GP64())
			loop := label("step")
			Label(loop)
			x := make([]VecVirtual, n)
			for r := range n {
				x[r] = t.load(at(p[r], 8*t.size*i))
				ADDQ(U32(32*t.size), p[r])
			}
			for c := range 4 {
				if n == 1 {
					VFMADD231PS(at(y, 32*c), x[0], acc[0][c])
					continue
				}
				v := YMM()
				VMOVUPS(at(y, 32*c), v)
				for r := range n {
					VFMADD231PS(v, x[r], acc[r][c])
				}
			}
			ADDQ(U32(128), y)
			DECQ(left)
			JNZ(LabelRef(loop))
			for r := range n {
				for c := range 4 {
					slot := saved.Offset(32 * (4*r + c + 8*(k/2)))
					if k%2 == 1 {
						VADDPS(slot, acc[r][c], acc[r][c])
					}
					if k == 3 {
						VADDPS(saved.Offset(32*(4*r+c)), acc[r][c], acc[r][c])
					} else {
						VMOVUPS(acc[r][c], slot)
					}
				}
			}
		}
		storeTokens(acc, nil, t.result, dst, dstStride)
	})
}
