package interp

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"minfer/metal/msl/ir"
	"minfer/metal/mtl/soft/lane"
	"minfer/metal/mtl/soft/san"

	"github.com/stretchr/testify/require"
)

func (p *probe) rmw(op ir.AtomicOp, ptr, v ir.Value, s ir.Space) ir.Value {
	t := p.TypeOf(v)
	i := &ir.Instr{Op: ir.AtomicRMW, Imm: uint64(op), Args: []ir.Value{ptr, v}, Mem: &ir.Mem{Elem: t, Count: 1, Align: t.Size(), Space: s}}
	i.Res = []ir.Value{p.NewValue(t)}
	p.Add(i)
	return i.Res[0]
}

// TestAtomics lets 70 threads update one word in two threadgroups; the old
// values are those of threads in ascending order.
func TestAtomics(t *testing.T) {
	apply := map[ir.AtomicOp]func(old, x uint32) uint32{
		ir.AtomicAdd:      func(o, x uint32) uint32 { return o + x },
		ir.AtomicSub:      func(o, x uint32) uint32 { return o - x },
		ir.AtomicAnd:      func(o, x uint32) uint32 { return o & x },
		ir.AtomicOr:       func(o, x uint32) uint32 { return o | x },
		ir.AtomicXor:      func(o, x uint32) uint32 { return o ^ x },
		ir.AtomicSMin:     func(o, x uint32) uint32 { return uint32(min(int32(o), int32(x))) },
		ir.AtomicSMax:     func(o, x uint32) uint32 { return uint32(max(int32(o), int32(x))) },
		ir.AtomicUMin:     func(o, x uint32) uint32 { return min(o, x) },
		ir.AtomicUMax:     func(o, x uint32) uint32 { return max(o, x) },
		ir.AtomicExchange: func(o, x uint32) uint32 { return x },
	}
	val := func(i int) uint32 { return uint32(i*0x01234567) ^ 0x80000001 }
	for op, f := range apply {
		p := newProbe()
		v := p.Bin(ir.Xor, p.Bin(ir.Mul, p.id, p.I32(0x01234567)), p.Const(i32, 0x80000001))
		old := p.rmw(op, p.PtrConst(p.out, 4*70), v, ir.Device)
		p.write(p.id, old)
		p.Return()
		for _, threads := range []int{1, 3} {
			got, _ := launch(t, p.Func(), 70, 40, 71, func(l *Launch) { l.Threads = threads })
			x := uint32(0xffffffff)
			for i := range 70 {
				require.Equal(t, x, got[i], "%s thread %d", op, i)
				x = f(x, val(i))
			}
			require.Equal(t, x, got[70], op)
		}
	}
	// Floats, and an unused result, which may run in parallel for integers only.
	p := newProbe()
	p.rmw(ir.AtomicFAdd, p.out, p.F32(0.5), ir.Device)
	p.rmw(ir.AtomicFSub, p.out, p.F32(0.25), ir.Device)
	p.rmw(ir.AtomicAdd, p.PtrConst(p.out, 4), p.id, ir.Device)
	p.Return()
	got, _ := launch(t, p.Func(), 64, 8, 2, func(l *Launch) {
		l.Threads = 2
		clear(l.Windows[0].Buffer.Data)
	})
	require.Equal(t, float32(16), math.Float32frombits(got[0]))
	require.EqualValues(t, 64*63/2, got[1])
	require.True(t, decode(t, p.Func()).ordered)
	p = newProbe()
	p.rmw(ir.AtomicUMax, p.out, p.id, ir.Device)
	p.Return()
	require.False(t, decode(t, p.Func()).ordered)
}

func TestAtomicCompareAndSwapLoadStore(t *testing.T) {
	p := newProbe()
	st := p.Op(ir.PtrStatic, ir.Ptr, uint64(p.Static(ir.Static{Name: "s", Size: 8, Align: 4})))
	m := &ir.Mem{Elem: i32, Count: 1, Align: 4, Space: ir.Threadgroup}
	add := func(op ir.Op, res bool, args ...ir.Value) ir.Value {
		i := &ir.Instr{Op: op, Args: args, Mem: m}
		if res {
			i.Res = []ir.Value{p.NewValue(i32)}
		}
		p.Add(i)
		if res {
			return i.Res[0]
		}
		return 0
	}
	add(ir.AtomicStore, false, st, p.I32(7))
	// Thread n swaps 7+n for 8+n: all succeed in ascending order.
	old := add(ir.AtomicCAS, true, st, p.Bin(ir.Add, p.id, p.I32(7)), p.Bin(ir.Add, p.id, p.I32(8)))
	fail := add(ir.AtomicCAS, true, st, p.I32(0), p.I32(99))
	now := add(ir.AtomicLoad, true, st)
	p.write(p.id, p.Bin(ir.Add, p.Bin(ir.Mul, old, p.I32(10000)), p.Bin(ir.Add, p.Bin(ir.Mul, fail, p.I32(100)), now)))
	p.Return()
	got, _ := launch(t, p.Func(), 32, 32, 32)
	each(t, got, func(i int) uint32 { return uint32((7+i)*10000 + 39*100 + 39) })
}

// TestMatrices loads with strides, origins and transposition, multiplies and
// stores.
func TestMatrices(t *testing.T) {
	val := func(i int) float32 { return float32((i*37)%101) / 8 }
	for _, elem := range []ir.Type{ir.F32, ir.F16, ir.BF16} {
		for _, ta := range []bool{false, true} {
			for _, tc := range []bool{false, true} {
				k := newKernel("mat")
				size := elem.Size()
				in := k.buffer("in", 0, "T", size, elem, true)
				out := k.buffer("out", 1, "T", size, elem, false)
				sg := ir.SgOf(elem)
				mem := &ir.Mem{Elem: elem, Count: 1, Align: size, Space: ir.Device}
				flag := func(b bool) ir.Value {
					if b {
						return k.Const(ir.I1, 1)
					}
					return k.Const(ir.I1, 0)
				}
				op := func(o ir.Op, res ir.Type, m *ir.Mem, args ...ir.Value) ir.Value {
					i := &ir.Instr{Op: o, Args: args, Mem: m}
					var v ir.Value
					if res != void {
						v = k.NewValue(res)
						i.Res = []ir.Value{v}
					}
					k.Add(i)
					return v
				}
				one := k.Const(elem, uint64(fromFloat(1, elem)))
				a := op(ir.SgLoad, sg, mem, in, k.I64(20), k.I64(3), k.I64(2), flag(ta))
				b := op(ir.SgLoad, sg, mem, k.PtrConst(in, 100*size), k.I64(8), k.I64(0), k.I64(0), flag(false))
				c := op(ir.SgDiag, sg, nil, one)
				r := op(ir.SgMMA, sg, nil, a, b, c)
				// Lane 5's second element: row 2, column 3.
				e := op(ir.SgElem, elem, nil, r)
				k.Func().Body.Instrs[len(k.Func().Body.Instrs)-1].Imm = 1
				l5 := k.Cmp(ir.Eq, k.Grid(ir.ThreadIndexInSimdgroup, 0), k.I32(5))
				k.If(l5, nil, func() []ir.Value {
					k.store1(k.PtrConst(out, 400*size), e, ir.Device)
					return nil
				}, nil)
				op(ir.SgStore, void, mem, r, out, k.I64(16), k.I64(1), k.I64(4), flag(tc))
				k.Return()
				ib, ob := floats(200, 1), floats(410, 1)
				bits := func(buf []byte, i int) float32 {
					if elem == ir.F32 {
						return math.Float32frombits(binary.LittleEndian.Uint32(buf[4*i:]))
					}
					return toFloat(uint32(binary.LittleEndian.Uint16(buf[2*i:])), elem)
				}
				for i := range 200 {
					if elem == ir.F32 {
						binary.LittleEndian.PutUint32(ib.Data[4*i:], math.Float32bits(val(i)))
					} else {
						binary.LittleEndian.PutUint16(ib.Data[2*i:], uint16(fromFloat(val(i), elem)))
					}
				}
				b2 := &bench{p: decode(t, k.Func())}
				b2.l = Launch{Grid: [3]int{1, 1, 1}, Threadgroup: [3]int{32, 1, 1}, Windows: all(ib, ob), ThreadgroupBytes: make([]int, 2), Threads: 1}
				b2.run(t, san.Off)
				for i := range 8 {
					for j := range 8 {
						want := float32(0)
						if i == j {
							want = 1
						}
						for x := range 8 {
							// Element (r, c) is at (origin.y+r)*stride + origin.x+c.
							ar, ac := i, x
							if ta {
								ar, ac = x, i
							}
							want = lane.FMA1(bits(ib.Data, (2+ar)*20+3+ac), bits(ib.Data, 100+8*x+j), want)
						}
						want = toFloat(fromFloat(want, elem), elem)
						r, c := i, j
						if tc {
							r, c = j, i
						}
						require.Equal(t, want, bits(ob.Data, (4+r)*16+1+c), "%s %v %v element %d, %d", elem, ta, tc, i, j)
						if i == 2 && j == 3 {
							require.Equal(t, want, bits(ob.Data, 400))
						}
					}
				}
			}
		}
	}
}

func TestMatrixLaneMapping(t *testing.T) {
	seen := map[int]bool{}
	for l := range 32 {
		for e := range 2 {
			i := sgIndex(l) + e
			require.Equal(t, 4*(l>>4&1)+l>>1&3, i/8)
			require.Equal(t, 4*(l>>3&1)+2*(l&1)+e, i%8)
			require.Equal(t, l, sgLane(i))
			seen[i] = true
		}
	}
	require.Len(t, seen, 64)
}

// TestPrivateArrays writes and reads elements of several sizes at uniform and at
// varying offsets, under masks.
func TestPrivateArrays(t *testing.T) {
	p := newProbe()
	a := p.Op(ir.PtrAlloca, ir.Ptr, uint64(p.Alloca(ir.Alloca{Name: "a", Size: 64, Align: 8})))
	p.Loop([]ir.Value{p.I32(0)}, nil, func(l *ir.Instr, c []ir.Value) {
		p.If(p.Cmp(ir.UGe, c[0], p.I32(16)), nil, func() []ir.Value { p.Break(l); return nil }, nil)
		p.store1(p.at(a, c[0], 4), p.Bin(ir.Add, p.Bin(ir.Mul, p.id, p.I32(100)), c[0]), ir.Thread)
		p.Continue(l, p.Bin(ir.Add, c[0], p.I32(1)))
	})
	// A byte, a halfword and a 64-bit word at lanes' own offsets.
	own := p.Bin(ir.And, p.id, p.I32(7))
	p.If(p.Cmp(ir.ULt, p.id, p.I32(20)), nil, func() []ir.Value {
		p.store1(p.at(a, own, 4), p.Const(ir.I8, 0xab), ir.Thread)
		return nil
	}, nil)
	w := p.load1(p.at(a, own, 4), i32, ir.Thread)
	h := p.Conv(ir.ZExt, i32, p.load1(p.PtrConst(p.at(a, own, 4), 2), ir.I16, ir.Thread))
	q := p.load1(p.PtrConst(a, 56), ir.I64, ir.Thread)
	hi := p.Conv(ir.IntTrunc, i32, p.Bin(ir.LShr, q, p.I64(32)))
	p.write(p.id, p.Bin(ir.Add, p.Bin(ir.Xor, w, hi), h))
	p.Return()
	var rep *san.Report
	got, _ := launchSan(t, p.Func(), 50, 50, 50, &rep)
	require.Empty(t, rep.Findings)
	each(t, got, func(i int) uint32 {
		w := uint32(i*100 + i&7)
		if i < 20 {
			w = w&^0xff | 0xab
		}
		return w ^ uint32(i*100+15) + w>>16
	})
}

// TestPointersOfUnknownObject chooses between two buffers by lane.
func TestPointersOfUnknownObject(t *testing.T) {
	for _, uniform := range []bool{false, true} {
		p := newProbe()
		cond := p.Cmp(ir.Eq, p.Bin(ir.And, p.id, p.I32(1)), p.I32(1))
		if uniform {
			cond = p.Cmp(ir.Eq, p.Grid(ir.ThreadgroupPositionInGrid, 0), p.I32(1))
		}
		st := p.Op(ir.PtrStatic, ir.Ptr, uint64(p.Static(ir.Static{Name: "s", Size: 256, Align: 4})))
		me := p.Grid(ir.ThreadIndexInThreadgroup, 0)
		p.store1(p.at(st, me, 4), p.Bin(ir.Add, p.id, p.I32(5000)), ir.Threadgroup)
		ptr := p.If(cond, []ir.Type{ir.Ptr}, func() []ir.Value { return []ir.Value{p.in} }, func() []ir.Value { return []ir.Value{st} })[0]
		sel := p.Select(cond, p.at(ptr, me, 4), p.PtrConst(p.at(st, me, 4), 0))
		v := p.load1(p.PtrConst(sel, 0), i32, ir.Device)
		eq := p.Conv(ir.ZExt, i32, p.Cmp(ir.Eq, ptr, st))
		p.write(p.id, p.Bin(ir.Add, v, p.Bin(ir.Mul, eq, p.I32(1000000))))
		p.Return()
		got, _ := launch(t, p.Func(), 64, 32, 64)
		each(t, got, func(i int) uint32 {
			fromIn := i&1 == 1
			if uniform {
				fromIn = i >= 32
			}
			if fromIn {
				return uint32(3 * (i % 32))
			}
			return uint32(i + 5000 + 1000000)
		})
	}
}

// TestVectorAccess moves 2, 3 and 4 elements of each size at strides of a vector.
func TestVectorAccess(t *testing.T) {
	for _, typ := range []ir.Type{ir.I8, ir.I16, ir.I32, ir.I64, ir.F16} {
		for count := 1; count <= 4; count++ {
			p := newProbe()
			n := int64(count * typ.Size())
			off := p.mul64(p.zext(p.id), n)
			vs := p.Load(p.PtrAdd(p.in, off), ir.Mem{Elem: typ, Count: count, Align: 1, Space: ir.Device})
			p.If(p.Cmp(ir.Ne, p.id, p.I32(3)), nil, func() []ir.Value {
				p.Store(p.PtrAdd(p.out, off), ir.Mem{Elem: typ, Align: 1, Space: ir.Device}, vs...)
				return nil
			}, nil)
			p.Return()
			var in []byte
			var out []byte
			launch(t, p.Func(), 40, 40, 1024, func(l *Launch) { in, out = l.Windows[1].Buffer.Data, l.Windows[0].Buffer.Data })
			for i := range out {
				if k := i / int(n); k < 40 && k != 3 {
					require.Equal(t, in[i], out[i], "%s x%d byte %d", typ, count, i)
				} else {
					require.EqualValues(t, 0xff, out[i])
				}
			}
		}
	}
}

// TestNarrowIntegers compares 8- and 16-bit operations with Go's own.
func TestNarrowIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	ops := []ir.Op{ir.Add, ir.Sub, ir.Mul, ir.SDiv, ir.UDiv, ir.SRem, ir.URem, ir.Shl, ir.LShr, ir.AShr, ir.SMin, ir.SMax, ir.UMin, ir.UMax,
		ir.SMulHi, ir.UMulHi, ir.Clz, ir.Ctz, ir.Popcount, ir.ReverseBits}
	for _, op := range ops {
		for _, uniform := range []bool{false, true} {
			x, y := uint8(r.Uint32()), uint8(r.Uint32()%20)
			p := newProbe()
			arg := func(c uint8) ir.Value {
				if uniform {
					return p.Const(ir.I8, uint64(c))
				}
				return p.Bin(ir.Add, p.Conv(ir.IntTrunc, ir.I8, p.id), p.Const(ir.I8, uint64(c)))
			}
			args := []ir.Value{arg(x)}
			if op < ir.Clz {
				args = append(args, arg(y))
			}
			p.write(p.id, p.Op(op, ir.I8, 0, args...))
			p.Return()
			got, _ := launch(t, p.Func(), 32, 32, 32)
			each(t, got, func(i int) uint32 {
				a, b := x, y
				if !uniform {
					a, b = x+uint8(i), y+uint8(i)
				}
				return uint32(goInt8(op, a, b))
			})
		}
	}
}

func goInt8(op ir.Op, a, b uint8) uint8 {
	sa, sb := int8(a), int8(b)
	switch op {
	case ir.Add:
		return a + b
	case ir.Sub:
		return a - b
	case ir.Mul:
		return a * b
	case ir.SDiv, ir.UDiv, ir.SRem, ir.URem:
		if b == 0 {
			return 0
		}
		switch op {
		case ir.SDiv:
			return uint8(sa / sb)
		case ir.UDiv:
			return a / b
		case ir.SRem:
			return uint8(sa % sb)
		}
		return a % b
	case ir.Shl:
		return a << (b & 7)
	case ir.LShr:
		return a >> (b & 7)
	case ir.AShr:
		return uint8(sa >> (b & 7))
	case ir.SMin:
		return uint8(min(sa, sb))
	case ir.SMax:
		return uint8(max(sa, sb))
	case ir.UMin:
		return min(a, b)
	case ir.UMax:
		return max(a, b)
	case ir.SMulHi:
		return uint8(int(sa) * int(sb) >> 8)
	case ir.UMulHi:
		return uint8(int(a) * int(b) >> 8)
	}
	n := uint8(0)
	switch op {
	case ir.Clz:
		for ; n < 8 && a>>(7-n)&1 == 0; n++ {
		}
	case ir.Ctz:
		for ; n < 8 && a>>n&1 == 0; n++ {
		}
	case ir.Popcount:
		for ; a != 0; a >>= 1 {
			n += a & 1
		}
	default:
		for i := range 8 {
			n |= a >> i & 1 << (7 - i)
		}
	}
	return n
}

// TestHalfArithmetic rounds after each operation, in float64 here.
func TestHalfArithmetic(t *testing.T) {
	round := func(x float64) float32 {
		// The nearest half by search over all of them.
		best, dist := float32(0), math.Inf(1)
		for h := range 0x7c01 {
			for _, f := range []float32{lane.FromF16(uint16(h)), -lane.FromF16(uint16(h))} {
				v := float64(f)
				if h == 0x7c00 {
					v = math.Copysign(65536, v)
				}
				if d := math.Abs(v - x); d < dist || d == dist && h&1 == 0 {
					best, dist = f, d
				}
			}
		}
		return best
	}
	x, y, z := float32(1.2001953), float32(-3.3007812), float32(7.0039062)
	for _, v := range []float32{x, y, z} {
		require.Equal(t, v, lane.FromF16(lane.F16(v)), "a half")
	}
	for op, want := range map[ir.Op]float64{
		ir.FAdd: float64(x) + float64(y), ir.FSub: float64(x) - float64(y), ir.FMul: float64(x) * float64(y), ir.FDiv: float64(x) / float64(y),
		ir.FMA: float64(x)*float64(y) + float64(z), ir.FMin: float64(y), ir.FMax: float64(x), ir.FRem: math.Mod(float64(x), float64(y)),
		ir.Sqrt: math.Sqrt(float64(x)), ir.FNeg: -float64(x), ir.Exp: math.Exp(float64(x)), ir.Floor: 1,
	} {
		p := newProbe()
		// x varies by a zero that the folder can't see.
		zero := p.Conv(ir.FConv, ir.F16, p.Conv(ir.UToF, ir.F32, p.Bin(ir.And, p.id, p.I32(0))))
		c := func(v float32) ir.Value { return p.Const(ir.F16, uint64(lane.F16(v))) }
		args := []ir.Value{p.Bin(ir.FAdd, c(x), zero), c(y), c(z)}
		switch op {
		case ir.FMA:
		case ir.Sqrt, ir.FNeg, ir.Exp, ir.Floor:
			args = args[:1]
		default:
			args = args[:2]
		}
		p.write(p.id, p.Op(op, ir.F16, 0, args...))
		p.Return()
		got, _ := launch(t, p.Func(), 32, 32, 32)
		w := uint32(lane.F16(round(want)))
		each(t, got, func(int) uint32 { return w })
	}
}

// TestPoison follows undefined values to the places where they matter.
func TestPoison(t *testing.T) {
	kinds := func(build func(p *probe)) []string {
		p := newProbe()
		p.SetPos(p.Position(ir.Position{File: "x.metal", Line: 7, Col: 3}))
		build(p)
		p.Return()
		var rep *san.Report
		launchSan(t, p.Func(), 40, 40, 64, &rep)
		var ks []string
		for _, f := range rep.Findings {
			ks = append(ks, f.Kind)
		}
		return ks
	}
	undef := func(p *probe) ir.Value { return p.Op(ir.Undef, i32, 0) }
	uninit := []string{"uninitialized"}
	require.Equal(t, uninit, kinds(func(p *probe) { p.write(p.id, p.Bin(ir.Add, undef(p), p.id)) }), "device store")
	require.Equal(t, uninit, kinds(func(p *probe) {
		p.If(p.Cmp(ir.Eq, undef(p), p.id), nil, func() []ir.Value { p.write(p.id, p.id); return nil }, nil)
	}), "branch")
	require.Equal(t, uninit, kinds(func(p *probe) { p.write(p.id, p.read(p.Bin(ir.And, undef(p), p.I32(0)))) }), "address")
	require.Equal(t, uninit, kinds(func(p *probe) {
		p.write(p.id, p.Op(ir.SimdReduce, i32, uint64(ir.ReduceAdd), p.Bin(ir.Add, undef(p), p.id)))
	}), "collective")
	require.Equal(t, uninit, kinds(func(p *probe) {
		a := p.Op(ir.PtrAlloca, ir.Ptr, uint64(p.Alloca(ir.Alloca{Name: "a", Size: 16, Align: 4})))
		p.store1(a, p.id, ir.Thread)
		p.write(p.id, p.load1(p.PtrConst(a, 4), i32, ir.Thread))
	}), "private array")
	require.Equal(t, uninit, kinds(func(p *probe) {
		st := p.Op(ir.PtrStatic, ir.Ptr, uint64(p.Static(ir.Static{Name: "s", Size: 256, Align: 4})))
		p.write(p.id, p.load1(p.at(st, p.id, 4), i32, ir.Threadgroup))
	}), "threadgroup memory")
	require.Equal(t, uninit, kinds(func(p *probe) { p.write(p.id, p.load1(p.at(p.out, p.id, 4), i32, ir.Device)) }), "device memory")
	// Defined lanes of an undefined whole, values that are not chosen, known bits.
	require.Empty(t, kinds(func(p *probe) {
		v := p.If(p.Cmp(ir.ULt, p.id, p.I32(10)), []ir.Type{i32}, func() []ir.Value { return []ir.Value{p.id} }, func() []ir.Value { return []ir.Value{undef(p)} })[0]
		p.If(p.Cmp(ir.ULt, p.id, p.I32(10)), nil, func() []ir.Value { p.write(p.id, v); return nil }, nil)
	}))
	require.Empty(t, kinds(func(p *probe) { p.write(p.id, p.Select(p.Cmp(ir.ULt, p.id, p.I32(100)), p.id, undef(p))) }))
	require.Empty(t, kinds(func(p *probe) {
		c := p.Bin(ir.And, p.Cmp(ir.ULt, p.id, p.I32(0)), p.Cmp(ir.Eq, undef(p), p.I32(1)))
		p.If(c, nil, func() []ir.Value { p.write(p.id, p.id); return nil }, nil)
	}))
	require.Empty(t, kinds(func(p *probe) {
		v := p.Loop([]ir.Value{p.I32(0), undef(p)}, []ir.Type{i32}, func(l *ir.Instr, c []ir.Value) {
			p.If(p.Cmp(ir.UGe, c[0], p.I32(40)), nil, func() []ir.Value { p.Break(l, c[1]); return nil }, nil)
			p.Continue(l, p.Bin(ir.Add, c[0], p.I32(1)), c[0])
		})[0]
		p.write(p.id, v)
	}))
}

func TestSynchronisationFindings(t *testing.T) {
	run := func(n, tg int, build func(p *probe)) map[string]bool {
		p := newProbe()
		p.SetPos(p.Position(ir.Position{File: "x.metal", Line: 7, Col: 3}))
		build(p)
		p.Return()
		var rep *san.Report
		launchSan(t, p.Func(), n, tg, 64, &rep)
		ks := map[string]bool{}
		for _, f := range rep.Findings {
			ks[f.Kind] = true
		}
		return ks
	}
	diverged := map[string]bool{"barrier-divergence": true}
	first := func(p *probe, n int32, body func()) {
		p.If(p.Cmp(ir.ULt, p.id, p.I32(n)), nil, func() []ir.Value { body(); return nil }, nil)
	}
	barrier := func(p *probe) { p.Barrier(ir.TgBarrier, ir.MemThreadgroup) }
	require.Equal(t, diverged, run(64, 64, func(p *probe) { first(p, 10, func() { barrier(p) }) }), "some lanes")
	require.Equal(t, diverged, run(64, 64, func(p *probe) { first(p, 32, func() { barrier(p) }) }), "some simdgroups")
	require.Equal(t, diverged, run(64, 64, func(p *probe) { first(p, 32, func() { p.Return() }); barrier(p) }), "some have returned")
	require.Equal(t, diverged, run(64, 64, func(p *probe) { first(p, 5, func() { p.Return() }); barrier(p) }), "some lanes have returned")
	require.Empty(t, run(50, 50, func(p *probe) { barrier(p) }), "a partial simdgroup")
	require.Empty(t, run(50, 50, func(p *probe) { first(p, 64, func() { barrier(p) }) }), "a branch that all take")
	nonuniform := map[string]bool{"nonuniform-simd": true}
	sum := func(p *probe) { p.write(p.id, p.Op(ir.SimdReduce, i32, uint64(ir.ReduceAdd), p.id)) }
	require.Equal(t, nonuniform, run(32, 32, func(p *probe) { first(p, 10, func() { sum(p) }) }))
	require.Empty(t, run(20, 20, func(p *probe) { first(p, 20, func() { sum(p) }) }))
	require.Equal(t, nonuniform, run(32, 32, func(p *probe) {
		p.write(p.id, p.Op(ir.SimdShuffle, i32, uint64(ir.ShuffleXor), p.id, p.Bin(ir.And, p.id, p.I32(1))))
	}))
}

// TestConstantTables: program-scope constants, read at uniform and varying places,
// in bounds and not, also where a value is undefined.
func TestConstantTables(t *testing.T) {
	p := newProbe()
	data := make([]byte, 64)
	for i := range 16 {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(i*i))
	}
	tab := p.Op(ir.PtrTable, ir.Ptr, uint64(p.Table(ir.Table{Name: "tab", Data: data})))
	p.Op(ir.Undef, i32, 0)
	u := p.load1(p.PtrConst(tab, 20), i32, ir.Constant)
	p.pos(5)
	v := p.load1(p.at(tab, p.id, 4), i32, ir.Constant)
	p.pos(6)
	w := p.load1(p.PtrConst(tab, 64), i32, ir.Constant)
	p.write(p.id, p.Bin(ir.Add, p.Bin(ir.Add, u, v), w))
	p.Return()
	want := func(i int) uint32 {
		if i < 16 {
			return uint32(25 + i*i)
		}
		return 25
	}
	got, _ := launch(t, p.Func(), 40, 40, 40)
	each(t, got, want)
	var rep *san.Report
	got, _ = launchSan(t, p.Func(), 40, 40, 40, &rep)
	each(t, got, want)
	require.Len(t, rep.Findings, 2)
	for _, f := range rep.Findings {
		require.Equal(t, "out-of-bounds", f.Kind)
		require.Contains(t, f.Message, "tab")
	}
}
