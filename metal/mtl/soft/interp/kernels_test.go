package interp

import (
	"minfer/metal/msl/ir"
)

// The kernels of the benchmarks, built by hand.

func (k *kb) pos(line int) { k.SetPos(k.Position(ir.Position{File: "hand.metal", Line: line, Col: 1})) }

// kb is a Builder with shorthands.
type kb struct{ *ir.Builder }

func newKernel(name string) *kb { return &kb{ir.NewBuilder(name)} }

func (k *kb) buffer(name string, index int, elem string, size int, scalar ir.Type, readOnly bool) ir.Value {
	n := k.Param(ir.Param{Name: name, Kind: ir.BufferParam, Index: index, Space: ir.Device, Elem: elem, ElemSize: size, Scalar: scalar, ReadOnly: readOnly})
	return k.Op(ir.PtrParam, ir.Ptr, uint64(n))
}

func (k *kb) zext(v ir.Value) ir.Value { return k.Conv(ir.ZExt, ir.I64, v) }
func (k *kb) mul64(v ir.Value, c int64) ir.Value {
	return k.Bin(ir.Mul, v, k.I64(c))
}

// at is p + i*size for an I32 index.
func (k *kb) at(p, i ir.Value, size int64) ir.Value { return k.PtrAdd(p, k.mul64(k.zext(i), size)) }

func (k *kb) load1(p ir.Value, t ir.Type, s ir.Space) ir.Value {
	return k.Load(p, ir.Mem{Elem: t, Count: 1, Align: t.Size(), Space: s})[0]
}

func (k *kb) store1(p, v ir.Value, s ir.Space) {
	t := k.TypeOf(v)
	k.Store(p, ir.Mem{Elem: t, Count: 1, Align: t.Size(), Space: s}, v)
}

// q4Matvec is a q4_0 matrix-vector product of the usual GPU shape: two
// simdgroups of 32 a threadgroup, four rows each, half a block for each lane.
func q4Matvec(rows, cols int) *ir.Func {
	k := newKernel("q4_0_matvec")
	k.pos(1)
	x := k.buffer("x", 0, "block_q4_0", 18, ir.Void, true)
	y := k.buffer("y", 1, "float", 4, ir.F32, true)
	dst := k.buffer("dst", 2, "float", 4, ir.F32, false)
	lane := k.Grid(ir.ThreadIndexInSimdgroup, 0)
	group := k.Grid(ir.ThreadgroupPositionInGrid, 0)
	simd := k.Grid(ir.SimdgroupIndexInThreadgroup, 0)
	nb := int64(cols / 32)
	first := k.Bin(ir.Mul, k.Bin(ir.Add, k.Bin(ir.Mul, group, k.I32(2)), simd), k.I32(4))
	ix := k.Bin(ir.LShr, lane, k.I32(1))
	il := k.Bin(ir.Mul, k.Bin(ir.And, lane, k.I32(1)), k.I32(8))
	x0 := k.PtrAdd(x, k.mul64(k.zext(first), nb*18))
	xl := k.PtrAdd(x0, k.zext(il)) // bytes: il weights lie in il/2 16-bit words
	yl0 := k.at(y, k.Bin(ir.Add, k.Bin(ir.Mul, ix, k.I32(32)), il), 4)

	zero := k.F32(0)
	types := []ir.Type{ir.F32, ir.F32, ir.F32, ir.F32}
	sums := k.Loop([]ir.Value{ix, yl0, zero, zero, zero, zero}, types, func(loop *ir.Instr, c []ir.Value) {
		ib, yb, acc := c[0], c[1], c[2:]
		k.pos(10)
		done := k.Cmp(ir.UGe, ib, k.I32(int32(nb)))
		k.If(done, nil, func() []ir.Value { k.Break(loop, acc...); return nil }, nil)
		var yl [16]ir.Value
		sumy := zero
		k.pos(12)
		for i := 0; i < 8; i += 2 {
			for j, off := range []int{0, 1, 16, 17} {
				v := k.load1(k.PtrConst(yb, (i+off)*4), ir.F32, ir.Device)
				sumy = k.Bin(ir.FAdd, sumy, v)
				switch j {
				case 0:
					yl[i] = v
				case 1:
					yl[i+1] = k.Bin(ir.FMul, v, k.F32(1.0/256))
				case 2:
					yl[i+8] = k.Bin(ir.FMul, v, k.F32(1.0/16))
				case 3:
					yl[i+9] = k.Bin(ir.FMul, v, k.F32(1.0/4096))
				}
			}
		}
		next := make([]ir.Value, 4)
		block := k.PtrAdd(xl, k.mul64(k.zext(ib), 18))
		head := k.PtrAdd(x0, k.mul64(k.zext(ib), 18))
		for row := range 4 {
			k.pos(20)
			b := int64(row) * nb * 18
			d := k.Conv(ir.FConv, ir.F32, k.load1(k.PtrConst(head, int(b)), ir.F16, ir.Device))
			var a [4]ir.Value
			for j := range a {
				a[j] = zero
			}
			k.pos(22)
			for i := 0; i < 8; i += 2 {
				q := k.Conv(ir.ZExt, ir.I32, k.Load(k.PtrConst(block, int(b)+2+i), ir.Mem{Elem: ir.I16, Count: 1, Align: 2, Space: ir.Device})[0])
				for j, m := range []struct {
					mask int32
					y    ir.Value
				}{{0x000f, yl[i]}, {0x0f00, yl[i+1]}, {0x00f0, yl[i+8]}, {0xf000, yl[i+9]}} {
					w := k.Conv(ir.UToF, ir.F32, k.Bin(ir.And, q, k.I32(m.mask)))
					a[j] = k.Bin(ir.FMA, m.y, w, a[j])
				}
			}
			sum := k.Bin(ir.FMA, sumy, k.F32(-8), k.Bin(ir.FAdd, k.Bin(ir.FAdd, a[0], a[1]), k.Bin(ir.FAdd, a[2], a[3])))
			next[row] = k.Bin(ir.FMA, d, sum, acc[row])
		}
		ib2 := k.Bin(ir.Add, ib, k.I32(16))
		yb2 := k.PtrConst(yb, 16*32*4)
		k.Continue(loop, append([]ir.Value{ib2, yb2}, next...)...)
	})
	for row := range 4 {
		k.pos(30)
		tot := k.Op(ir.SimdReduce, ir.F32, uint64(ir.ReduceAdd), sums[row])
		r := k.Bin(ir.Add, first, k.I32(int32(row)))
		ok := k.Bin(ir.And, k.Cmp(ir.Eq, lane, k.I32(0)), k.Cmp(ir.ULt, r, k.I32(int32(rows))))
		k.If(ok, nil, func() []ir.Value { k.store1(k.at(dst, r, 4), tot, ir.Device); return nil }, nil)
	}
	k.Return()
	return k.Func()
}

// rmsNorm normalises rows of cols floats: one threadgroup of 256 threads a row,
// a sum over simdgroups through threadgroup memory.
func rmsNorm(cols int) *ir.Func {
	k := newKernel("rms_norm")
	k.pos(1)
	x := k.buffer("x", 0, "float", 4, ir.F32, true)
	w := k.buffer("w", 1, "float", 4, ir.F32, true)
	dst := k.buffer("dst", 2, "float", 4, ir.F32, false)
	st := k.Static(ir.Static{Name: "part", Size: 32 * 4, Align: 4})
	part := k.Op(ir.PtrStatic, ir.Ptr, uint64(st))
	t := k.Grid(ir.ThreadIndexInThreadgroup, 0)
	lane := k.Grid(ir.ThreadIndexInSimdgroup, 0)
	simd := k.Grid(ir.SimdgroupIndexInThreadgroup, 0)
	row := k.Grid(ir.ThreadgroupPositionInGrid, 0)
	base := k.mul64(k.zext(row), int64(cols)*4)
	px, pd := k.PtrAdd(x, base), k.PtrAdd(dst, base)
	zero := k.F32(0)
	each := func(init []ir.Value, types []ir.Type, body func(i ir.Value, c []ir.Value) []ir.Value) []ir.Value {
		return k.Loop(append([]ir.Value{t}, init...), types, func(loop *ir.Instr, c []ir.Value) {
			done := k.Cmp(ir.UGe, c[0], k.I32(int32(cols)))
			k.If(done, nil, func() []ir.Value { k.Break(loop, c[1:]...); return nil }, nil)
			next := body(c[0], c[1:])
			k.Continue(loop, append([]ir.Value{k.Bin(ir.Add, c[0], k.I32(256))}, next...)...)
		})
	}
	k.pos(10)
	sum := each([]ir.Value{zero}, []ir.Type{ir.F32}, func(i ir.Value, c []ir.Value) []ir.Value {
		v := k.load1(k.at(px, i, 4), ir.F32, ir.Device)
		return []ir.Value{k.Bin(ir.FMA, v, v, c[0])}
	})[0]
	s1 := k.Op(ir.SimdReduce, ir.F32, uint64(ir.ReduceAdd), sum)
	k.pos(12)
	k.If(k.Cmp(ir.Eq, lane, k.I32(0)), nil, func() []ir.Value {
		k.store1(k.at(part, simd, 4), s1, ir.Threadgroup)
		return nil
	}, nil)
	k.pos(13)
	k.Barrier(ir.TgBarrier, ir.MemThreadgroup)
	k.pos(14)
	p := k.If(k.Cmp(ir.ULt, lane, k.I32(8)), []ir.Type{ir.F32}, func() []ir.Value {
		return []ir.Value{k.load1(k.at(part, lane, 4), ir.F32, ir.Threadgroup)}
	}, func() []ir.Value { return []ir.Value{zero} })[0]
	tot := k.Op(ir.SimdReduce, ir.F32, uint64(ir.ReduceAdd), p)
	scale := k.Bin(ir.Rsqrt, k.Bin(ir.FMA, tot, k.F32(1/float32(cols)), k.F32(1e-6)))
	k.pos(18)
	each(nil, nil, func(i ir.Value, c []ir.Value) []ir.Value {
		v := k.load1(k.at(px, i, 4), ir.F32, ir.Device)
		g := k.load1(k.at(w, i, 4), ir.F32, ir.Device)
		k.store1(k.at(pd, i, 4), k.Bin(ir.FMul, k.Bin(ir.FMul, v, scale), g), ir.Device)
		return nil
	})
	k.Return()
	return k.Func()
}

// gemm is C (m x n) = A (m x kk) * B (kk x n) in floats with 64x32 tiles: four
// simdgroups of 32x16 each, 8x8 matrices, tiles of 32 columns staged in
// threadgroup memory.
func gemm(m, n, kk int) *ir.Func {
	k := newKernel("gemm")
	k.pos(1)
	a := k.buffer("a", 0, "float", 4, ir.F32, true)
	b := k.buffer("b", 1, "float", 4, ir.F32, true)
	c := k.buffer("c", 2, "float", 4, ir.F32, false)
	sa := k.Op(ir.PtrStatic, ir.Ptr, uint64(k.Static(ir.Static{Name: "sa", Size: 64 * 32 * 4, Align: 16})))
	sb := k.Op(ir.PtrStatic, ir.Ptr, uint64(k.Static(ir.Static{Name: "sb", Size: 32 * 32 * 4, Align: 16})))
	t := k.Grid(ir.ThreadIndexInThreadgroup, 0)
	simd := k.Grid(ir.SimdgroupIndexInThreadgroup, 0)
	tm := k.Bin(ir.Mul, k.Grid(ir.ThreadgroupPositionInGrid, 1), k.I32(64))
	tn := k.Bin(ir.Mul, k.Grid(ir.ThreadgroupPositionInGrid, 0), k.I32(32))
	sm := k.Bin(ir.Mul, k.Bin(ir.LShr, simd, k.I32(1)), k.I32(32))
	sn := k.Bin(ir.Mul, k.Bin(ir.And, simd, k.I32(1)), k.I32(16))
	zero64 := k.I64(0)
	no := k.Const(ir.I1, 0)
	f32 := k.F32(0)
	sg := func(op ir.Op, res ir.Type, mem *ir.Mem, args ...ir.Value) ir.Value {
		i := &ir.Instr{Op: op, Args: args, Mem: mem}
		var v ir.Value
		if res != ir.Void {
			v = k.NewValue(res)
			i.Res = []ir.Value{v}
		}
		k.Add(i)
		return v
	}
	init := []ir.Value{k.I32(0)}
	types := []ir.Type{}
	for range 8 {
		init = append(init, k.Op(ir.SgFill, ir.SgF32, 0, f32))
		types = append(types, ir.SgF32)
	}
	row, quad := k.Bin(ir.LShr, t, k.I32(3)), k.Bin(ir.Mul, k.Bin(ir.And, t, k.I32(7)), k.I32(4))
	res := k.Loop(init, types, func(loop *ir.Instr, cv []ir.Value) {
		k.If(k.Cmp(ir.UGe, cv[0], k.I32(int32(kk))), nil, func() []ir.Value { k.Break(loop, cv[1:]...); return nil }, nil)
		// 128 threads: 16 rows of 8 float4 at a time.
		v4 := ir.Mem{Elem: ir.F32, Count: 4, Align: 16, Space: ir.Device}
		t4 := v4
		t4.Space = ir.Threadgroup
		k.pos(10)
		for r := range 4 {
			rr := k.Bin(ir.Add, row, k.I32(int32(16*r)))
			src := k.at(a, k.Bin(ir.Add, k.Bin(ir.Mul, k.Bin(ir.Add, tm, rr), k.I32(int32(kk))), k.Bin(ir.Add, cv[0], quad)), 4)
			k.Store(k.at(sa, k.Bin(ir.Add, k.Bin(ir.Mul, rr, k.I32(32)), quad), 4), t4, k.Load(src, v4)...)
		}
		for r := range 2 {
			rr := k.Bin(ir.Add, row, k.I32(int32(16*r)))
			src := k.at(b, k.Bin(ir.Add, k.Bin(ir.Mul, k.Bin(ir.Add, cv[0], rr), k.I32(int32(n))), k.Bin(ir.Add, tn, quad)), 4)
			k.Store(k.at(sb, k.Bin(ir.Add, k.Bin(ir.Mul, rr, k.I32(32)), quad), 4), t4, k.Load(src, v4)...)
		}
		k.Barrier(ir.TgBarrier, ir.MemThreadgroup)
		acc := append([]ir.Value{}, cv[1:]...)
		mem := &ir.Mem{Elem: ir.F32, Count: 1, Align: 4, Space: ir.Threadgroup}
		k.pos(20)
		for ks := range 4 {
			var ma [4]ir.Value
			var mb [2]ir.Value
			for i := range ma {
				p := k.at(sa, k.Bin(ir.Add, k.Bin(ir.Mul, sm, k.I32(32)), k.I32(int32(i*8*32+ks*8))), 4)
				ma[i] = sg(ir.SgLoad, ir.SgF32, mem, p, k.I64(32), zero64, zero64, no)
			}
			for j := range mb {
				p := k.at(sb, k.Bin(ir.Add, sn, k.I32(int32(ks*8*32+j*8))), 4)
				mb[j] = sg(ir.SgLoad, ir.SgF32, mem, p, k.I64(32), zero64, zero64, no)
			}
			for i := range ma {
				for j := range mb {
					acc[2*i+j] = sg(ir.SgMMA, ir.SgF32, nil, ma[i], mb[j], acc[2*i+j])
				}
			}
		}
		k.pos(30)
		k.Barrier(ir.TgBarrier, ir.MemThreadgroup)
		k.Continue(loop, append([]ir.Value{k.Bin(ir.Add, cv[0], k.I32(32))}, acc...)...)
	})
	k.pos(40)
	mem := &ir.Mem{Elem: ir.F32, Count: 1, Align: 4, Space: ir.Device}
	for i := range 4 {
		for j := range 2 {
			rr := k.Bin(ir.Add, k.Bin(ir.Add, tm, sm), k.I32(int32(8*i)))
			p := k.at(c, k.Bin(ir.Add, k.Bin(ir.Mul, rr, k.I32(int32(n))), k.Bin(ir.Add, k.Bin(ir.Add, tn, sn), k.I32(int32(8*j)))), 4)
			sg(ir.SgStore, ir.Void, mem, res[2*i+j], p, k.I64(int64(n)), zero64, zero64, no)
		}
	}
	k.Return()
	return k.Func()
}
