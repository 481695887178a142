package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// avx512Fused writes the operations that are several in one.
func avx512Fused() {
	toF := func(z Op) { VCVTUDQ2PS(z, z) }
	store := func() {
		for i := range 2 {
			VMOVDQU32(zs[i], d.Offset(64*i))
		}
	}
	for _, o := range []struct {
		name string
		op   func(y, x, d Op)
	}{{"AndToF", func(y, x, d Op) { VPANDD(y, x, d) }}, {"OrToF", func(y, x, d Op) { VPORD(y, x, d) }}} {
		handler(o.name, func() {
			for i := range 2 {
				VMOVDQU32(a.Offset(64*i), zs[i])
				o.op(b.Offset(64*i), zs[i], zs[i])
				toF(zs[i])
			}
			store()
		})
	}
	for _, o := range []struct {
		name string
		op   func(y, x, d Op)
		conv bool
	}{
		{"ShlAnd", func(y, x, d Op) { VPSLLVD(y, x, d) }, false},
		{"LShrAnd", func(y, x, d Op) { VPSRLVD(y, x, d) }, false},
		{"AShrAnd", func(y, x, d Op) { VPSRAVD(y, x, d) }, false},
		{"LShrAndToF", func(y, x, d Op) { VPSRLVD(y, x, d) }, true},
		{"AShrAndToF", func(y, x, d Op) { VPSRAVD(y, x, d) }, true},
	} {
		handler(o.name, func() {
			zConst(31, Z15)
			for i := range 2 {
				VPANDD(b.Offset(64*i), Z15, zs[8+i])
				VMOVDQU32(a.Offset(64*i), zs[i])
				o.op(zs[8+i], zs[i], zs[i])
				VPANDD(c.Offset(64*i), zs[i], zs[i])
				if o.conv {
					toF(zs[i])
				}
			}
			store()
		})
	}
	handler("AndOr", func() {
		for i := range 2 {
			VMOVDQU32(a.Offset(64*i), zs[i])
			VPANDD(b.Offset(64*i), zs[i], zs[i])
			VPORD(c.Offset(64*i), zs[i], zs[i])
		}
		store()
	})
	handler("S8ToF", func() {
		for i := range 2 {
			VPSLLD(U8(24), a.Offset(64*i), zs[i])
			VPSRAD(U8(24), zs[i], zs[i])
			VCVTDQ2PS(zs[i], zs[i])
		}
		store()
	})
	handler("FMAHalf", func() {
		for i, y := range ys[8:10] {
			VMOVDQU32(b.Offset(64*i), zs[4+i])
			VPMOVDW(zs[4+i], y)
			VCVTPH2PS(y, zs[2+i])
			VMOVUPS(c.Offset(64*i), zs[i])
			VFMADD231PS(a.Offset(64*i), zs[2+i], zs[i])
		}
		store()
	})
}
