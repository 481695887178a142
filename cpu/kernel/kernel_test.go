package kernel

import (
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// goldenXY are the inputs of docs/numerics.md section 15.
func goldenXY(n int) (x, y []float32) {
	x, y = make([]float32, n), make([]float32, n)
	for i := range n {
		x[i] = float32(i*7919%2001-1000) / 1000
		y[i] = float32(i*104729%1999-999) / 500
	}
	return x, y
}

func floatBytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	quantizeF32(b, x)
	return b
}

func fnv64(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// levels are the tables that this machine can run; they must agree in every bit.
func levels(t testing.TB) []*Table {
	ts := []*Table{Generic()}
	if a := AVX2(); a != nil {
		ts = append(ts, a)
	} else {
		t.Logf("level avx2 is not available: generic only")
	}
	return ts
}

func dot(tab *Table, t gguf.Type, w, act []byte, n int) float32 {
	var s [1]float32
	tab.Weights[t].MatVec(s[:], w, len(w), act, n)
	return s[0]
}

func TestGoldenInputs(t *testing.T) {
	x, y := goldenXY(4096)
	for i, want := range []uint32{0xbf800000, 0x3f6a7efa, 0x3f54bc6a} {
		require.Equal(t, want, math.Float32bits(x[i]))
	}
	for i, want := range []uint32{0xbfffbe77, 0xbedf3b64, 0x3f9020c5} {
		require.Equal(t, want, math.Float32bits(y[i]))
	}
}

func TestGoldenFloatDots(t *testing.T) {
	lengths := []int{1024, 1000, 77, 45, 7}
	// f32 and f16: section 15. bf16: ggml_vec_dot_bf16 of libggml-cpu-haswell.so
	// (llama.cpp v0.4.0), called by name on the same inputs.
	golden := map[gguf.Type][5]uint32{
		gguf.F32:  {0x40d89cec, 0x40cecb0d, 0x403b7e13, 0x40410930, 0x401da37f},
		gguf.F16:  {0x40d8ad86, 0x40ced945, 0x403b8772, 0x4040fc04, 0x401db0c1},
		gguf.BF16: {0x40da0d72, 0x40cfdfc1, 0x403b7dea, 0x404065fa, 0x401d85c0},
	}
	x, y := goldenXY(4096)
	for _, tab := range levels(t) {
		for typ, want := range golden {
			for i, n := range lengths {
				w, a := make([]byte, typ.RowBytes(n)), make([]byte, typ.RowBytes(n))
				tab.Quantize[typ](w, x[:n])
				tab.Quantize[typ](a, y[:n])
				got := math.Float32bits(dot(tab, typ, w, a, n))
				require.Equalf(t, want[i], got, "%s %v n=%d: %08x, want %08x", tab.Name, typ, n, got, want[i])
			}
		}
	}
}

func TestGoldenQuantised(t *testing.T) {
	x, y := goldenXY(1024)
	acts := map[gguf.Type]uint64{gguf.Q8_0: 0x5bc1c8ca648d850b, gguf.Q8_1: 0x88bc4f0f23e44ce2, gguf.Q8_K: 0x82d8b1aabe410d07}
	dots := map[gguf.Type]struct {
		deq uint64
		dot uint32
	}{
		gguf.Q4_0: {0x049ee3744864c4c0, 0x4100b638},
		gguf.Q4_1: {0x7a98eeb139ca00ca, 0x40f0e8fb},
		gguf.Q5_0: {0x7b99e3038ae5f004, 0x40c2e67d},
		gguf.Q5_1: {0x0d10a83c5c765c26, 0x40e18db1},
		gguf.Q8_0: {0xd5718ee182bcde4e, 0x40d97591},
		gguf.Q4_K: {0x31d13a3d01f330f9, 0x40d46adc},
		gguf.Q5_K: {0x197225eb1515633a, 0x40d4a78f},
		gguf.Q6_K: {0x7500b85b5c535176, 0x40cff494},
	}
	for _, tab := range levels(t) {
		act := map[gguf.Type][]byte{}
		for typ, want := range acts {
			act[typ] = make([]byte, typ.RowBytes(1024))
			tab.Quantize[typ](act[typ], y)
			require.Equalf(t, want, fnv64(act[typ]), "%s %v activation", tab.Name, typ)
		}
		for typ, want := range dots {
			w := make([]byte, typ.RowBytes(1024))
			require.NoError(t, quant.Quantize(typ, w, x))
			deq := make([]float32, 1024)
			tab.Weights[typ].Dequantize(deq, w)
			require.Equalf(t, want.deq, fnv64(floatBytes(deq)), "%s %v dequantised", tab.Name, typ)
			got := math.Float32bits(dot(tab, typ, w, act[tab.Weights[typ].Act], 1024))
			require.Equalf(t, want.dot, got, "%s %v: %08x, want %08x", tab.Name, typ, got, want.dot)
		}
	}
}

func TestGoldenOps(t *testing.T) {
	x, y := goldenXY(1024)
	for _, tab := range levels(t) {
		dst := make([]float32, 1024)
		tab.RmsNorm(dst, x, y, 1024, 1e-6)
		require.Equal(t, uint64(0x802743e3245260b6), fnv64(floatBytes(dst)), "%s rms_norm", tab.Name)
		copy(dst, y)
		tab.SoftMax(dst, 701, 8)
		require.Equal(t, uint64(0x12cf4e2ab36ae6b7), fnv64(floatBytes(dst)), "%s soft_max", tab.Name)
		tab.Silu(dst, y)
		require.Equal(t, uint64(0xc17274a9262f5a54), fnv64(floatBytes(dst)), "%s silu", tab.Name)
		tab.SwiGLU(dst, y, x)
		require.Equal(t, uint64(0xa3ea40b6ed858971), fnv64(floatBytes(dst)), "%s swiglu", tab.Name)
		cs := make([]float32, 128)
		NewRopeAngles(RopeParams{NDims: 128, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}).Fill(cs, 1234)
		tab.RopeNeox(dst[:256], x[:256], 128, cs)
		require.Equal(t, uint64(0x9acb3a4b3ed76a7a), fnv64(floatBytes(dst[:256])), "%s rope", tab.Name)
	}
}

func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	exact := func(x, y, z float32) float32 {
		p := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		f, _ := p.Add(p, big.NewFloat(float64(z))).Float32()
		return f
	}
	check := func(x, y, z float32) {
		got, want := fma32(x, y, z), exact(x, y, z)
		if got == 0 && want == 0 { // big.Float has no rounding to -0 of its own
			return
		}
		require.Equalf(t, math.Float32bits(want), math.Float32bits(got), "fma(%x, %x, %x)", x, y, z)
	}
	// The three operands of a double rounding: a midpoint of float32 with a
	// residue far below float64's last place.
	check(1+0x1p-23, 1+0x1p-23, 0x1p-100)
	check(1+0x1p-12, 1+0x1p-12, 0x1p-60)
	check(1+0x1p-12, 1+0x1p-12, -0x1p-60)
	check(0x1p-75, 0x1p-75, 0x1p-149)
	check(0x1.8p-75, 0x1p-75, 0x1p-149)
	check(math.MaxFloat32, 1+0x1p-20, -math.MaxFloat32)
	for range 200000 {
		x := math.Float32frombits(rng.Uint32()&0x80ffffff | 0x3f000000)
		y := math.Float32frombits(rng.Uint32()&0x80fff000 | 0x3f000000) // short mantissas meet midpoints
		z := math.Ldexp(float64(math.Float32frombits(rng.Uint32()&0x80fff000|0x3f000000)), rng.IntN(80)-50)
		check(x, y, float32(z))
		check(x*0x1p-70, y*0x1p-70, float32(z*0x1p-110))
	}
	inf := float32(math.Inf(1))
	require.Equal(t, inf, fma32(inf, 1, 1))
	require.Equal(t, -inf, fma32(1, 1, -inf))
	require.True(t, math.IsNaN(float64(fma32(inf, 1, -inf))))
	require.True(t, math.IsNaN(float64(fma32(inf, 0, 1))))
	require.Equal(t, uint32(0x80000000), math.Float32bits(fma32(-0x1p-149, 0x1p-10, 0)))
}

func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		f := halfToFloat(uint16(h))
		if e, m := h>>10&31, h&0x3ff; e == 31 && m != 0 {
			require.True(t, math.IsNaN(float64(f)))
			require.Equal(t, uint16(h)|0x200, floatToHalf(f))
			continue
		}
		require.Equal(t, math.Float32bits(quant.F32FromF16(uint16(h))), math.Float32bits(f), "%04x", h)
		require.Equal(t, uint16(h), floatToHalf(f), "%04x", h)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200000 {
		f := math.Float32frombits(rng.Uint32())
		if f != f {
			continue
		}
		require.Equal(t, quant.F16(f), floatToHalf(f), "%x", f)
		require.Equal(t, quant.BF16(f), floatToBfloat(f), "%x", f)
	}
	for _, c := range []struct {
		f float32
		h uint16
	}{{65519.996, 0x7bff}, {65520, 0x7c00}, {0x1p-25, 0}, {0x1.000002p-25, 1}, {0x1.8p-24, 2}, {0x1.ffcp-15, 0x400}, {-0x1p-24, 0x8001}} {
		require.Equal(t, c.h, floatToHalf(c.f), "%x", c.f)
	}
}
