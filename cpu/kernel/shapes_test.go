package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// lcg is a short generator that the program which recorded the hashes below
// repeats: 16 bits of a linear congruential sequence, over a power of two.
func lcg(seed uint32, n int, div float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		seed = seed*1664525 + 1013904223
		x[i] = float32(int(seed>>8&0xffff)-32768) / div
	}
	return x
}

// The hashes are FNV-1a over results of libggml-cpu-haswell.so and
// libggml-base.so (llama.cpp v0.4.0), called by name: reference-quantised
// weights, activations by the library's quantiser, one dot a length.
func TestDotLengths(t *testing.T) {
	golden := map[gguf.Type]uint64{
		gguf.Q4_0: 0x008a1790342842bd, gguf.Q4_1: 0x7bb2edd01aaf0d43, gguf.Q5_0: 0x7b5fccbe7a0f7724, gguf.Q5_1: 0x43339b69d1e616a8,
		gguf.Q8_0: 0xcdfdfc27d1cf76a1, gguf.Q4_K: 0x4c85a3dbb12db473, gguf.Q5_K: 0xa2d59e59d6f419f8, gguf.Q6_K: 0xb02fc944202c2f9c,
		gguf.F32: 0x15789ed25e7fb2ac, gguf.F16: 0x774411d0b4b03218, gguf.BF16: 0x477b422bfd89560b,
	}
	for _, tab := range levels(t) {
		require.Len(t, tab.Weights, len(golden))
		for typ, want := range golden {
			var out []float32
			bs := typ.BlockSize()
			for r := range 300 {
				n := bs * (r + 1)
				if bs > 1 && r == 40 {
					break
				}
				if bs == 256 {
					n = bs * (r%12 + 1)
				}
				seed := uint32(2*r + 1)
				if bs == 1 {
					seed = uint32(2*n + 1)
				}
				w := make([]byte, typ.RowBytes(n))
				require.NoError(t, quant.Quantize(typ, w, lcg(seed, n, 4096)))
				act := tab.Weights[typ].Act
				a := make([]byte, act.RowBytes(n))
				tab.Quantize[act](a, lcg(seed+1, n, 8192))
				out = append(out, dot(tab, typ, w, a, n))
			}
			require.Equalf(t, want, fnv64(floatBytes(out)), "%s %v", tab.Name, typ)
		}
	}
}

// As TestDotLengths, from single-op graphs over three rows.
func TestOpLengths(t *testing.T) {
	lengths := []int{64, 77, 100, 113, 128, 255, 896, 1025}
	for n := 39; n > 0; n-- {
		lengths = append([]int{n}, lengths...)
	}
	for _, tab := range levels(t) {
		ops := []struct {
			name string
			want uint64
			f    func(dst, x, y []float32)
		}{
			{"soft_max", 0x309077f3614eb92d, func(dst, x, _ []float32) { copy(dst, x); tab.SoftMax(dst, len(dst), 0.125) }},
			{"silu", 0x896f601bb07fd17e, func(dst, x, _ []float32) { tab.Silu(dst, x) }},
			{"swiglu", 0x11c76f6dc0d492e3, func(dst, x, y []float32) { tab.SwiGLU(dst, x, y) }},
			{"rms_norm", 0x66ebb1a7479f5249, func(dst, x, _ []float32) { tab.RmsNorm(dst, x, nil, len(x), 1e-6) }},
		}
		for _, op := range ops {
			var out []float32
			for _, n := range lengths {
				x, y := lcg(uint32(n+1000), 3*n, 4096), lcg(uint32(n+2000), 3*n, 4096)
				for r := range 3 {
					dst := make([]float32, n)
					op.f(dst, x[r*n:(r+1)*n], y[r*n:(r+1)*n])
					out = append(out, dst...)
				}
			}
			require.Equalf(t, op.want, fnv64(floatBytes(out)), "%s %s", tab.Name, op.name)
		}
	}
}

const guard = 0x5a5a5a5a

// guarded is a slice of n floats between two zones whose content check holds.
func guarded(n int) (x []float32, intact func() bool) {
	all := make([]float32, n+32)
	for i := range all {
		all[i] = math.Float32frombits(guard)
	}
	zone := func(z []float32) bool {
		return !slices.ContainsFunc(z, func(v float32) bool { return math.Float32bits(v) != guard })
	}
	return all[16 : 16+n : 16+n], func() bool { return zone(all[:16]) && zone(all[16+n:]) }
}

// Many rows at a stride, and four tokens at once, give the single dots' bits,
// write nothing else and change no input.
func TestMatVec(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, tab := range levels(t) {
		for typ, w := range tab.Weights {
			for _, rows := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 17} {
				n := typ.BlockSize() * (1 + rng.IntN(5))
				if typ.BlockSize() == 1 {
					n = rng.IntN(150)
				}
				row, arow := typ.RowBytes(n), w.Act.RowBytes(n)
				stride, astride := row+2*rng.IntN(20), arow+2*rng.IntN(20)
				weights := make([]byte, rows*stride+rng.IntN(3))
				x := make([]float32, max(rows, 4)*n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				for r := range rows {
					require.NoError(t, quant.Quantize(typ, weights[r*stride:r*stride+row], x[r*n:(r+1)*n]))
				}
				acts := make([]byte, 4*astride)
				for a := range 4 {
					tab.Quantize[w.Act](acts[a*astride:a*astride+arow], x[a*n:(a+1)*n])
				}
				weights0, acts0 := bytes.Clone(weights), bytes.Clone(acts)
				id := fmt.Sprintf("%s %v rows=%d n=%d", tab.Name, typ, rows, n)

				want := make([]float32, 4*rows)
				for i := range want {
					var s [1]float32
					Generic().Weights[typ].MatVec(s[:], weights[i%rows*stride:], 0, acts[i/rows*astride:i/rows*astride+arow], n)
					want[i] = s[0]
				}
				for a := range 4 {
					got, intact := guarded(rows)
					w.MatVec(got, weights, stride, acts[a*astride:a*astride+arow], n)
					require.Equal(t, floatBytes(want[a*rows:(a+1)*rows]), floatBytes(got), id)
					require.True(t, intact(), id)
				}
				if w.MatVec4 != nil && rows > 0 {
					dstStride := rows + 3
					got, intact := guarded(3*dstStride + rows)
					w.MatVec4(got, dstStride, weights, stride, rows, acts, astride, n)
					for a := range 4 {
						require.Equal(t, floatBytes(want[a*rows:(a+1)*rows]), floatBytes(got[a*dstStride:][:rows]), id)
						if a < 3 {
							require.Equal(t, uint32(guard), math.Float32bits(got[a*dstStride+rows]), id)
						}
					}
					require.True(t, intact(), id)
				}
				require.Equal(t, weights0, weights, id)
				require.Equal(t, acts0, acts, id)
			}
		}
	}
}

// AttnV is the dot of a transposed value matrix with the probabilities, padded to
// 256 cells, as llama.cpp computes it.
func TestAttnV(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, tab := range levels(t) {
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16} {
			for _, n := range []int{1, 2, 7, 8, 31, 32, 33, 113, 255, 256, 257, 300} {
				for _, d := range []int{1, 5, 8, 20, 64, 128} {
					padded, es := (n+255)&^255, typ.RowBytes(1)
					stride := es * (d + 3)
					v := make([]byte, n*stride)
					p := make([]float32, padded)
					for j := range n {
						p[j] = rng.Float32()
						row := make([]float32, d)
						for c := range row {
							row[c] = float32(rng.NormFloat64())
						}
						tab.Quantize[typ](v[j*stride:j*stride+es*d], row)
					}
					if n == 7 { // products of -0 and +0 only
						clear(p)
					}
					pb := make([]byte, typ.RowBytes(padded))
					Generic().Quantize[typ](pb, p)
					want := make([]float32, d)
					for c := range want {
						column := make([]byte, typ.RowBytes(padded))
						for j := range n {
							copy(column[es*j:es*j+es], v[j*stride+es*c:])
						}
						want[c] = dot(Generic(), typ, column, pb, padded)
					}
					f := tab.AttnVF32
					if typ == gguf.F16 {
						f = tab.AttnVF16
					}
					got, intact := guarded(d)
					v0, p0 := bytes.Clone(v), slices.Clone(p)
					f(got, v, stride, p, n, make([]float32, 32*d))
					id := fmt.Sprintf("%s %v n=%d d=%d", tab.Name, typ, n, d)
					require.Equal(t, floatBytes(want), floatBytes(got), id)
					require.True(t, intact(), id)
					require.Equal(t, v0, v, id)
					require.Equal(t, p0, p, id)
				}
			}
		}
	}
	// All lanes -0: the sum stays -0 only without a padded cell.
	for _, tab := range levels(t) {
		p := slices.Repeat([]float32{0x1p-149}, 256)
		v := floatBytes(slices.Repeat([]float32{-0x1p-20}, 256))
		var got [1]float32
		tab.AttnVF32(got[:], v, 4, p, 256, make([]float32, 32))
		require.Equal(t, uint32(0x80000000), math.Float32bits(got[0]), tab.Name)
		tab.AttnVF32(got[:], v, 4, p, 255, make([]float32, 32))
		require.Equal(t, uint32(0), math.Float32bits(got[0]), tab.Name)
	}
}

// Outputs may be inputs where the table says so.
func TestInPlace(t *testing.T) {
	for _, tab := range levels(t) {
		for _, n := range []int{1, 7, 8, 33, 100} {
			x, y := lcg(1, n, 4096), lcg(2, n, 4096)
			same := func(name string, f func(dst, a, b []float32), second bool) {
				want := make([]float32, n)
				f(want, x, y)
				got, intact := guarded(n)
				copy(got, x)
				f(got, got, y)
				require.Equal(t, floatBytes(want), floatBytes(got), "%s %s n=%d", tab.Name, name, n)
				if second {
					copy(got, y)
					f(got, x, got)
					require.Equal(t, floatBytes(want), floatBytes(got), "%s %s n=%d", tab.Name, name, n)
				}
				require.True(t, intact(), "%s %s n=%d", tab.Name, name, n)
			}
			same("add", tab.Add, true)
			same("mul", tab.Mul, true)
			same("swiglu", tab.SwiGLU, true)
			same("silu", func(dst, a, _ []float32) { tab.Silu(dst, a) }, false)
			same("scale", func(dst, a, _ []float32) { tab.Scale(dst, a, 0.3) }, false)
			same("rms_norm", func(dst, a, b []float32) { tab.RmsNorm(dst, a, b, n, 1e-5) }, false)
			if n%2 == 0 {
				cs := lcg(3, n, 65536)
				same("rope neox", func(dst, a, _ []float32) { tab.RopeNeox(dst, a, n, cs) }, false)
				same("rope norm", func(dst, a, _ []float32) { tab.RopeNorm(dst, a, n, cs) }, false)
			}
		}
	}
}

// The levels agree in every bit on conversions, norms and exponentials of values
// of all sizes.
func TestLevelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	ref := Generic()
	for _, tab := range levels(t)[1:] {
		for i := range 300 {
			n := 256 * (1 + i%3)
			x := make([]float32, n)
			e := rng.IntN(60) - 30
			for j := range x {
				x[j] = float32(math.Ldexp(rng.NormFloat64(), e+rng.IntN(3)))
				if rng.IntN(50) == 0 {
					x[j] = 0
				}
			}
			for typ, f := range tab.Quantize {
				want, got := make([]byte, typ.RowBytes(n)), make([]byte, typ.RowBytes(n))
				ref.Quantize[typ](want, x)
				f(got, x)
				require.Equal(t, want, got, "%s %v", tab.Name, typ)
			}
			for _, m := range []int{n, n - 1 - rng.IntN(30)} {
				want, got := make([]float32, m), make([]float32, m)
				ref.RmsNorm(want, x[:m], nil, m, 1e-6)
				tab.RmsNorm(got, x[:m], nil, m, 1e-6)
				require.Equal(t, floatBytes(want), floatBytes(got), "%s rms_norm", tab.Name)
				ref.Silu(want, x[:m])
				tab.Silu(got, x[:m])
				require.Equal(t, floatBytes(want), floatBytes(got), "%s silu", tab.Name)
				copy(want, x)
				copy(got, x)
				seen := 1 + rng.IntN(m)
				ref.SoftMax(want, seen, 0.125)
				tab.SoftMax(got, seen, 0.125)
				require.Equal(t, floatBytes(want), floatBytes(got), "%s soft_max", tab.Name)
			}
		}
	}
}
