package kernel

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// opLengths has no vector, whole vectors, and every tail.
var opLengths = []int{0, 1, 5, 7, 8, 9, 15, 16, 31, 32, 33, 64, 100, 896}

// anyFloats are finite values of every exponent, with zeros of both signs.
func anyFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch b := rng.Uint32(); {
		case i%11 == 0:
			x[i] = math.Float32frombits(b & 0x80000000)
		case b>>23&0xff == 0xff:
			x[i] = math.Float32frombits(b &^ 0x40000000)
		default:
			x[i] = math.Float32frombits(b)
		}
	}
	return x
}

// normal are n values of the usual size times s.
func normal(rng *rand.Rand, n int, s float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * s
	}
	return x
}

// input is a copy of x where input memory may end, or a few elements off an
// aligned start.
func input(t testing.TB, x []float32, fence bool, rng *rand.Rand) []float32 {
	return floatsOf(placed(t, floatBytes(x), fence, 4*rng.IntN(8)))
}

// twice runs a check with fenced memory and with guard zones.
func twice(f func(fence bool)) {
	f(true)
	f(false)
}

func TestLevelElementwise(t *testing.T) { eachLevel(t, testLevelElementwise) }

func testLevelElementwise(t *testing.T, tab, ref *Table) {
	rng := rand.New(rand.NewPCG(1, 3))
	ops := []struct {
		name string
		f    func(tab *Table, dst, a, b []float32)
	}{
		{"add", func(tab *Table, dst, a, b []float32) { tab.Add(dst, a, b) }},
		{"mul", func(tab *Table, dst, a, b []float32) { tab.Mul(dst, a, b) }},
		{"scale", func(tab *Table, dst, a, _ []float32) { tab.Scale(dst, a, 0.3) }},
		{"silu", func(tab *Table, dst, a, _ []float32) { tab.Silu(dst, a) }},
		{"swiglu", func(tab *Table, dst, a, b []float32) { tab.SwiGLU(dst, a, b) }},
	}
	for _, op := range ops {
		for _, n := range opLengths {
			for kind, x := range [][]float32{normal(rng, n, 1), normal(rng, n, 60), anyFloats(rng, n)} {
				twice(func(fence bool) {
					a, b := input(t, x, fence, rng), input(t, normal(rng, n, 1), fence, rng)
					want := make([]float32, n)
					op.f(ref, want, a, b)
					got, intact := output(t, n, fence)
					op.f(tab, got, a, b)
					sameBits(t, want, got, "%s n=%d kind=%d", op.name, n, kind)
					require.True(t, intact())
					sameBits(t, x, a, "%s input", op.name)
					op.f(tab, a, a, b)
					sameBits(t, want, a, "%s n=%d kind=%d in place", op.name, n, kind)
				})
			}
		}
	}
}

// Every exponent class of the vector exponential: usual, beyond 2^+-126, beyond
// 192, and one such element beside usual ones.
func TestLevelExp(t *testing.T) { eachLevel(t, testLevelExp) }

func testLevelExp(t *testing.T, tab, ref *Table) {
	x := make([]float32, 1<<16)
	for i := range x {
		x[i] = float32(i-1<<15) / 128
	}
	for _, v := range []float32{87.33654, 87.33655, 88.02969, 88.72284, 103.97208, 133.08, 133.09, 1e5, 3e38} {
		for i := range 8 {
			one := make([]float32, 8)
			one[i], one[(i+3)%8] = v, -v
			x = append(x, one...)
		}
	}
	want, got := make([]float32, len(x)), make([]float32, len(x))
	ref.Silu(want, x)
	tab.Silu(got, x)
	sameBits(t, want, got, "silu")
}

func TestLevelSoftMax(t *testing.T) { eachLevel(t, testLevelSoftMax) }

func testLevelSoftMax(t *testing.T, tab, ref *Table) {
	rng := rand.New(rand.NewPCG(1, 4))
	for _, size := range opLengths[1:] {
		for _, n := range []int{1, size/2 + 1, max(1, size-1), size} {
			for _, spread := range []float32{0, 1, 30, 500} {
				twice(func(fence bool) {
					x := normal(rng, size, spread)
					want := slices.Clone(x)
					ref.SoftMax(want, n, 0.125)
					got, intact := output(t, size, fence)
					copy(got, x)
					tab.SoftMax(got, n, 0.125)
					sameBits(t, want, got, "size=%d n=%d spread=%g", size, n, spread)
					require.True(t, intact())
				})
			}
		}
	}
}

func TestLevelRmsNorm(t *testing.T) { eachLevel(t, testLevelRmsNorm) }

func testLevelRmsNorm(t *testing.T, tab, ref *Table) {
	rng := rand.New(rand.NewPCG(1, 5))
	for _, d := range []int{1, 3, 4, 7, 8, 12, 33, 64, 128, 896} {
		for rows := range 10 {
			for _, size := range []float32{1, 1e-20, 1e15} {
				twice(func(fence bool) {
					x := input(t, normal(rng, rows*d, size), fence, rng)
					w := input(t, normal(rng, d, 1), fence, rng)
					for _, weight := range [][]float32{nil, w} {
						want := make([]float32, rows*d)
						ref.RmsNorm(want, x, weight, d, 1e-6)
						got, intact := output(t, rows*d, fence)
						tab.RmsNorm(got, x, weight, d, 1e-6)
						sameBits(t, want, got, "d=%d rows=%d size=%g weight=%v", d, rows, size, weight != nil)
						require.True(t, intact())
						copy(got, x)
						tab.RmsNorm(got, got, weight, d, 1e-6)
						sameBits(t, want, got, "d=%d rows=%d size=%g in place", d, rows, size)
					}
				})
			}
		}
	}
}

func TestLevelRope(t *testing.T) { eachLevel(t, testLevelRope) }

func testLevelRope(t *testing.T, tab, ref *Table) {
	rng := rand.New(rand.NewPCG(1, 6))
	for _, shape := range []struct{ headDim, rotated int }{{64, 64}, {128, 128}, {80, 80}, {96, 32}, {36, 36}, {40, 24}, {10, 8}, {6, 2}} {
		for heads := range 4 {
			twice(func(fence bool) {
				n := heads * shape.headDim
				x, cs := input(t, normal(rng, n, 3), fence, rng), input(t, normal(rng, shape.rotated, 1), fence, rng)
				for name, f := range map[string][2]func(dst, x []float32, headDim int, cs []float32){
					"neox": {ref.RopeNeox, tab.RopeNeox}, "norm": {ref.RopeNorm, tab.RopeNorm},
				} {
					want := make([]float32, n)
					f[0](want, x, shape.headDim, cs)
					got, intact := output(t, n, fence)
					f[1](got, x, shape.headDim, cs)
					sameBits(t, want, got, "%s %v heads=%d", name, shape, heads)
					require.True(t, intact())
					copy(got, x)
					f[1](got, got, shape.headDim, cs)
					sameBits(t, want, got, "%s %v heads=%d in place", name, shape, heads)
				}
			})
		}
	}
}

// quantizeInputs are rows of finite values that reach every branch of a block's
// scale.
func quantizeInputs(rng *rand.Rand, n int) map[string][]float32 {
	in := map[string][]float32{
		"normal": normal(rng, n, 1), "huge": normal(rng, n, 1e37), "small": normal(rng, n, 1e-30),
		"subnormal": normal(rng, n, 1e-40), "zero": make([]float32, n), "any": anyFloats(rng, n),
		"ties": normal(rng, n, 1), "minus zero": make([]float32, n), "few": make([]float32, n),
	}
	for i := range n {
		in["minus zero"][i] = float32(math.Copysign(0, -1))
		in["ties"][i] = float32(rng.IntN(509)-254) / 2 // halves against a scale of 1
		if rng.IntN(40) == 0 {
			in["few"][i] = float32(rng.IntN(2)*2 - 1) // both signs of the largest magnitude
		}
	}
	for i := 0; i < n; i += 32 {
		in["ties"][i] = 127
	}
	for i := 0; i < n; i += 256 {
		in["ties"][i] = -127
	}
	return in
}

func TestLevelQuantize(t *testing.T) { eachLevel(t, testLevelQuantize) }

func testLevelQuantize(t *testing.T, tab, ref *Table) {
	rng := rand.New(rand.NewPCG(1, 7))
	for typ := range ref.Quantize {
		lengths := []int{0, typ.BlockSize(), 3 * typ.BlockSize(), 1024}
		if typ.BlockSize() == 1 {
			lengths = opLengths
		}
		for _, n := range lengths {
			for name, x := range quantizeInputs(rng, n) {
				twice(func(fence bool) {
					src := input(t, x, fence, rng)
					size := typ.RowBytes(n)
					want := make([]byte, size)
					ref.Quantize[typ](want, src)
					got, zones := placed(t, make([]byte, size), fence, 0), []byte(nil)
					if !fence {
						zones = bytes.Repeat([]byte{0x5a}, size+80)
						off := 32 + rng.IntN(16)
						got = zones[off : off+size : off+size]
					}
					tab.Quantize[typ](got, src)
					require.Equalf(t, want, got, "%v n=%d %s", typ, n, name)
					for i := range got {
						got[i] = 0x5a
					}
					require.Equal(t, len(zones), bytes.Count(zones, []byte{0x5a}))
				})
			}
		}
	}
}

// Every half and bfloat16 widens alike, and any float32 narrows alike, infinities
// and NaN included.
func TestLevelConversions(t *testing.T) { eachLevel(t, testLevelConversions) }

func testLevelConversions(t *testing.T, tab, ref *Table) {
	for _, typ := range []gguf.Type{gguf.F16, gguf.BF16} {
		row := make([]byte, 0, 2<<16)
		for h := range 1 << 16 {
			if f := halfToFloat(uint16(h)); typ == gguf.F16 && f != f {
				h = 0 // the plain Go kernel leaves the quiet bit of a NaN alone
			}
			row = append(row, byte(h), byte(h>>8))
		}
		want, got := make([]float32, 1<<16), make([]float32, 1<<16)
		ref.Weights[typ].Dequantize(want, row)
		tab.Weights[typ].Dequantize(got, row)
		require.Equal(t, floatBytes(want), floatBytes(got), "%v", typ)

		rng := rand.New(rand.NewPCG(1, 8))
		x := make([]float32, 1<<16)
		for i := range x {
			x[i] = math.Float32frombits(rng.Uint32())
			if i%2 == 0 { // the range and the midpoints of a half
				x[i] = math.Float32frombits(0x33000000 + rng.Uint32N(0x15000000)&^0xfff)
			}
		}
		wantRow, gotRow := make([]byte, 2<<16), make([]byte, 2<<16)
		ref.Quantize[typ](wantRow, x)
		tab.Quantize[typ](gotRow, x)
		require.Equal(t, wantRow, gotRow, "%v", typ)
	}
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16} {
		rng := rand.New(rand.NewPCG(1, 9))
		for _, n := range opLengths {
			twice(func(fence bool) {
				row := placed(t, randomRow(typ, n, randomQuants, randomScales, rng), fence, 0)
				want := make([]float32, n)
				ref.Weights[typ].Dequantize(want, row)
				got, intact := output(t, n, fence)
				tab.Weights[typ].Dequantize(got, row)
				sameBits(t, want, got, "%v n=%d", typ, n)
				require.True(t, intact())
			})
		}
	}
}

func TestLevelAttnV(t *testing.T) { eachLevel(t, testLevelAttnV) }

func testLevelAttnV(t *testing.T, tab, ref *Table) {
	rng := rand.New(rand.NewPCG(1, 10))
	for _, d := range []int{1, 8, 20, 64, 128} {
		for _, n := range []int{1, 31, 32, 33, 127, 128, 129, 256, 300} {
			for _, typ := range []gguf.Type{gguf.F32, gguf.F16} {
				twice(func(fence bool) {
					stride := typ.RowBytes(d + 6)
					cells := make([]byte, (n-1)*stride+typ.RowBytes(d))
					for j := range n {
						ref.Quantize[typ](cells[j*stride:][:typ.RowBytes(d)], normal(rng, d, 1))
					}
					v := placed(t, cells, fence, 4*rng.IntN(8))
					p := input(t, normal(rng, n, 0.01), fence, rng)
					f := [2]func(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32){ref.AttnVF32, tab.AttnVF32}
					if typ == gguf.F16 {
						f = [2]func(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32){ref.AttnVF16, tab.AttnVF16}
					}
					want := make([]float32, d)
					f[0](want, v, stride, p, n, make([]float32, tab.Lanes*d))
					got, intact := output(t, d, fence)
					scratch, clean := output(t, tab.Lanes*d, fence)
					f[1](got, v, stride, p, n, scratch)
					sameBits(t, want, got, "%v d=%d n=%d", typ, d, n)
					require.True(t, intact() && clean())
				})
			}
		}
	}
}

// Products that underflow leave -0 in every lane. The f32 and f16 sums stay -0, a
// bf16 sum becomes +0, and so does a sum of values where cells of the window are
// unused.
func TestLevelNegativeZero(t *testing.T) { eachLevel(t, testLevelNegativeZero) }

func testLevelNegativeZero(t *testing.T, tab, ref *Table) {
	minus, plus := slices.Repeat([]float32{-0x1p-100}, 64), slices.Repeat([]float32{0x1p-100}, 256)
	for typ, want := range map[gguf.Type]uint32{gguf.F32: 1 << 31, gguf.BF16: 0} {
		w, a := make([]byte, typ.RowBytes(64)), make([]byte, typ.RowBytes(64))
		tab.Quantize[typ](w, minus)
		tab.Quantize[typ](a, plus[:64])
		require.Equal(t, want, math.Float32bits(dot(ref, typ, w, a, 64)), "%v plain Go", typ)
		require.Equal(t, want, math.Float32bits(dot(tab, typ, w, a, 64)), "%v", typ)
		if tab.Weights[typ].MatVec4 == nil {
			continue
		}
		var four [4]float32
		tab.Weights[typ].MatVec4(four[:], 1, w, 0, 1, a, 0, 64)
		for _, s := range four {
			require.Equal(t, want, math.Float32bits(s), "%v four rows", typ)
		}
	}
	v, scratch, got := floatBytes(minus[:8]), make([]float32, 8*tab.Lanes), make([]float32, 8)
	for n, want := range map[int]uint32{255: 0, 256: 1 << 31} {
		tab.AttnVF32(got, v, 0, plus, n, scratch)
		for _, s := range got {
			require.Equal(t, want, math.Float32bits(s), "%d cells", n)
		}
	}
}
