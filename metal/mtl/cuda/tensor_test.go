package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"minfer/metal/msl"
	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

// products has products of matrices in the ways that the emitter puts them together:
// with one second factor and with one first factor, in one and in several steps, on
// top of something, of a sum by a matrix, in both orders in memory, of halves.
const products = `#include <metal_stdlib>
using namespace metal;
kernel void products(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]],
                     device float *out [[buffer(2)]], threadgroup half *tile [[threadgroup(0)]],
                     uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  a += group * 512; // [16][32]
  b += group * 768; // [32][24]
  out += group * 16 * 24 * 3;
  simdgroup_float8x8 sum[2][3];
  for (uint i = 0; i < 2; i++) {
    for (uint j = 0; j < 3; j++) {
      sum[i][j] = make_filled_simdgroup_matrix<float, 8>(0.25f);
    }
  }
  for (uint k = 0; k < 24; k += 24) {
#pragma unroll
    for (uint n = 0; n < 24; n += 8) {
      simdgroup_float8x8 x[2], y[3];
#pragma unroll
      for (uint i = 0; i < 2; i++) {
        simdgroup_load(x[i], a + i * 8 * 32 + k + n, 32);
      }
#pragma unroll
      for (uint j = 0; j < 3; j++) {
        simdgroup_load(y[j], b + (k + n) * 24 + j * 8, 24);
      }
#pragma unroll
      for (uint i = 0; i < 2; i++) {
#pragma unroll
        for (uint j = 0; j < 3; j++) {
          simdgroup_multiply_accumulate(sum[i][j], x[i], y[j], sum[i][j]);
        }
      }
    }
  }
#pragma unroll
  for (uint i = 0; i < 2; i++) {
#pragma unroll
    for (uint j = 0; j < 3; j++) {
      simdgroup_store(sum[i][j], out + i * 8 * 24 + j * 8, 24);
    }
  }
  // The first columns of each, by the last rows and columns of a, turned.
  simdgroup_float8x8 turned;
  simdgroup_load(turned, a + 8 * 32 + 24, 32, ulong2(0, 0), true);
  out += 16 * 24;
#pragma unroll
  for (uint i = 0; i < 2; i++) {
#pragma unroll
    for (uint j = 0; j < 3; j++) {
      simdgroup_float8x8 left, right;
      simdgroup_multiply(left, sum[i][j], turned);
      simdgroup_multiply(right, turned, sum[i][j]);
      simdgroup_store(left, out + i * 8 * 24 + j * 8, 24);
      simdgroup_store(right, out + 16 * 24 + j * 8 * 16 + i * 8, 16, ulong2(0, 0), true);
    }
  }
}
`

// expected is what products gives for one group, and the sum of the products' sizes
// by result.
func expected(a, b []float32) (out, size []float64) {
	out, size = make([]float64, 3*16*24), make([]float64, 3*16*24)
	for r := range 16 {
		for c := range 24 {
			s, m := 0.25, 0.25
			for k := range 24 {
				p := float64(a[r*32+k]) * float64(b[k*24+c])
				s, m = s+p, m+math.Abs(p)
			}
			out[r*24+c], size[r*24+c] = s, m
		}
	}
	for i := range 2 {
		for j := range 3 {
			for r := range 8 {
				for c := range 8 {
					left, right := 16*24+(i*8+r)*24+j*8+c, 2*16*24+(j*8+c)*16+i*8+r
					for k := range 8 {
						// turned[k][c] is a[8+c][24+k].
						x, xm := out[(i*8+r)*24+j*8+k], size[(i*8+r)*24+j*8+k]
						y := float64(a[(8+c)*32+24+k])
						out[left] += x * y
						size[left] += xm * math.Abs(y)
						x, xm = out[(i*8+k)*24+j*8+c], size[(i*8+k)*24+j*8+c]
						y = float64(a[(8+k)*32+24+r])
						out[right] += x * y
						size[right] += xm * math.Abs(y)
					}
				}
			}
		}
	}
	return out, size
}

func productsCase(t *testing.T, groups int) *launchCase {
	t.Helper()
	l, err := msl.CompileText("products.metal", products, nil, nil, msl.Options{})
	require.NoError(t, err)
	f, err := l.Specialize("products", nil)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	return &launchCase{name: "products", f: f, grid: [3]int{groups, 1, 1}, tg: [3]int{32, 1, 1},
		args: [][]byte{floats(r, 512*groups), floats(r, 768*groups), make([]byte, 4*3*16*24*groups), nil}, tgSize: []int{0, 0, 0, 256}, outs: []ir.Type{ir.F32}, slot: 4}
}

// worst is the largest error of what products gave, as a part of what the products
// that are summed come to.
func worst(c *launchCase, out []byte) float64 {
	value := func(b []byte, i int) float32 { return math.Float32frombits(uint32(get(b[4*i:], ir.F32))) }
	most := 0.0
	for g := range c.grid[0] {
		a, b := make([]float32, 512), make([]float32, 768)
		for i := range a {
			a[i] = value(c.args[0], g*512+i)
		}
		for i := range b {
			b[i] = value(c.args[1], g*768+i)
		}
		want, size := expected(a, b)
		for i := range want {
			e := math.Abs(float64(value(out, g*len(want)+i))-want[i]) / size[i]
			if e != e {
				return math.Inf(1)
			}
			most = max(most, e)
		}
	}
	return most
}

// The software device's products are those that worst expects, and a lane's two
// elements in the wrong places are not.
func TestProductsExpected(t *testing.T) {
	c := productsCase(t, 4)
	out, _ := c.soft(t)
	require.Less(t, worst(c, out[2]), 1e-6)
	for i := 0; i < len(out[2]); i += 8 {
		for k := range 4 {
			out[2][i+k], out[2][i+4+k] = out[2][i+4+k], out[2][i+k]
		}
	}
	require.Greater(t, worst(c, out[2]), 1e-2)
}

// Products wait for each other: two rows of matrices by one column in each
// instruction, 16 steps long where there are as many.
func TestTensorTogether(t *testing.T) {
	c := productsCase(t, 1)
	for _, o := range []struct {
		tensor Tensor
		kind   string
	}{{TensorFloat, "float"}, {TensorPairs, "pairs"}} {
		src, err := Emit(c.f, Options{Tensor: o.tensor})
		require.NoError(t, err)
		calls := map[int]int{} // by operands
		for _, line := range strings.Split(src.Text[strings.LastIndex(src.Text, "extern \"C\""):], "\n") {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "tc_mma_") {
				require.True(t, strings.HasPrefix(line, "tc_mma_"+o.kind+"(sum"), line)
				calls[strings.Count(line, ",")+1]++
			}
		}
		// 24 steps are 16 and 8, for three columns of two matrices each. The other 12
		// products are stored one by one.
		require.Equal(t, map[int]int{8: 3, 5: 3 + 12}, calls)
	}
	src, err := Emit(c.f, Options{})
	require.NoError(t, err)
	require.NotContains(t, src.Text, "tc_mma")
	// A function that looks at elements has them where the IR has them.
	src, err = Emit(specialize(t, "memory.metal", "elements"), Options{Tensor: TensorFloat})
	require.NoError(t, err)
	require.NotContains(t, src.Text, "tc_mma")
}

// What is known of the lowest bits of addresses.
func TestZeros(t *testing.T) {
	b := ir.NewBuilder("f")
	b.Param(ir.Param{Name: "p", Kind: ir.BufferParam, Space: ir.Device, Elem: "float", ElemSize: 4, Scalar: ir.F32})
	x := b.Grid(ir.ThreadPositionInGrid, 0)
	want := map[ir.Value]int{
		x:                                0,
		b.I32(24):                        3,
		b.Bin(ir.Mul, x, b.I32(40)):      3,
		b.Bin(ir.Shl, x, b.I32(5)):       5,
		b.Bin(ir.And, x, b.I32(^7)):      3,
		b.Bin(ir.LShr, x, b.I32(2)):      0,
		b.Op(ir.PtrParam, ir.Ptr, 0):     0,
		b.Bin(ir.Add, b.I32(24), x):      0,
		b.Bin(ir.Or, b.I32(8), b.I32(4)): 2,
	}
	b.Return()
	f := b.Func()
	e := &emitter{f: f, defs: definitions(f.Body, map[ir.Value]*ir.Instr{})}
	for v, n := range want {
		require.Equal(t, n, e.zeros(v, zerosDepth), fmt.Sprint(v))
	}
}

// TestGPUProducts holds products on tensor cores against exact ones. An H200 was off
// by 2e-7, 7e-7 and 8e-6 (2026-11-30). These are sums of random products, whose errors
// are mostly of both signs; 2e-5 is two thirds of pairsError.
func TestGPUProducts(t *testing.T) {
	g := openGPU(t)
	defer g.d.Close()
	c := productsCase(t, 256)
	for _, o := range []struct {
		tensor Tensor
		most   float64
	}{{NoTensor, 1e-6}, {TensorFloat, floatError}, {TensorPairs, 2e-5}} {
		src, err := Emit(c.f, Options{Tensor: o.tensor})
		require.NoError(t, err)
		out, _ := g.run(t, c, src)
		e := worst(c, out[2])
		t.Logf("%d: off by %.3g of the products at most", o.tensor, e)
		require.Less(t, e, o.most)
	}
	// Halves are exact in a product, so sums of 32 of them round like float32's.
	for _, c := range laneCases(t, true) {
		if c.name != "matrices" {
			continue
		}
		c.tgSize = []int{0, 0, 0, 256}
		src, err := Emit(c.f, Options{Tensor: TensorFloat})
		require.NoError(t, err)
		require.Contains(t, src.Text, "tc_mma_half(sum")
		have, _ := g.run(t, c, src)
		want, _ := c.soft(t)
		most := 0.0
		for i := 0; i < len(want[2]); i += 4 {
			x, y := math.Float32frombits(uint32(get(want[2][i:], ir.F32))), math.Float32frombits(uint32(get(have[2][i:], ir.F32)))
			most = max(most, math.Abs(float64(x-y)))
		}
		t.Logf("matrices of halves: off by %.3g", most)
		require.Less(t, most, 1e-2) // one step of a half of size 8 to 16
	}
}
