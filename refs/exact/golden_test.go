package exact

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// Expected values without another origin are those of docs/numerics.md section
// 15. "Recorded" means: taken from the haswell (H) and zen4 (Z) variants of
// libggml-cpu, llama.cpp v0.4.0 as shipped in npm @node-llama-cpp/linux-x64
// 3.21.1, on glibc 2.36, with the same x and y.

// x and y are the page's sequences.
var x, y = func() (x, y []float32) {
	for i := range 4096 {
		x = append(x, float32(i*7919%2001-1000)/1000)
		y = append(y, float32(i*104729%1999-999)/500)
	}
	return x, y
}()

func hash(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
}

func bits(v float32) string { return fmt.Sprintf("%08x", math.Float32bits(v)) }

func TestSequences(t *testing.T) {
	for i, expected := range []string{"bf800000", "3f6a7efa", "3f54bc6a"} {
		require.Equal(t, expected, bits(x[i]))
	}
	for i, expected := range []string{"bfffbe77", "bedf3b64", "3f9020c5"} {
		require.Equal(t, expected, bits(y[i]))
	}
}

func TestFloatDots(t *testing.T) {
	for _, c := range []struct {
		t        gguf.Type
		l        Level
		expected map[int]string
	}{
		{gguf.F32, H, map[int]string{1024: "40d89cec", 1000: "40cecb0d", 77: "403b7e13", 45: "40410930", 7: "401da37f"}},
		{gguf.F32, Z, map[int]string{1024: "40d89cee", 1000: "40cecb0f", 77: "403b7e13", 45: "40410930", 7: "401da37e"}},
		{gguf.F16, H, map[int]string{1024: "40d8ad86", 1000: "40ced945", 77: "403b8772", 45: "4040fc04", 7: "401db0c1"}},
		{gguf.F16, Z, map[int]string{1024: "40d8ad89", 1000: "40ced945", 77: "403b8772", 45: "4040fc04", 7: "401db0c1"}},
		// Recorded; level Z on a CPU with the bf16 instructions.
		{gguf.BF16, H, map[int]string{1024: "40da0d72", 1000: "40cfdfc1", 77: "403b7dea", 45: "404065fa", 7: "401d85c0"}},
		{gguf.BF16, Z, map[int]string{1024: "40da0d6f", 1000: "40cfdfc1", 77: "403b7dea", 45: "404065fa", 7: "401d85c0"}},
	} {
		for n, expected := range c.expected {
			w, err := Activation(c.t, x[:n])
			require.NoError(t, err)
			act, err := Activation(c.t, y[:n])
			require.NoError(t, err)
			v, err := Dot(c.l, c.t, n, w, act)
			require.NoError(t, err)
			require.Equal(t, expected, bits(v), "%v %v n=%d", c.t, c.l, n)
		}
	}
}

func TestActivations(t *testing.T) {
	for _, c := range []struct {
		t        gguf.Type
		from     []float32
		expected string
	}{
		{gguf.Q8_0, y[:1024], "5bc1c8ca648d850b"},
		{gguf.Q8_1, y[:1024], "88bc4f0f23e44ce2"},
		{gguf.Q8_K, y[:1024], "82d8b1aabe410d07"},
		{gguf.BF16, x, "b9c6d1467bdcd5bc"}, // recorded
		{gguf.BF16, y, "c4cf528b21c63a7b"}, // recorded
	} {
		b, err := Activation(c.t, c.from)
		require.NoError(t, err)
		require.Equal(t, c.expected, hash(b), c.t)
	}
}

func TestQuantisedTypes(t *testing.T) {
	for _, c := range []struct {
		t                           gguf.Type
		weights, dequantised, value string
	}{
		{gguf.Q4_0, "1335e536cdc2321b", "049ee3744864c4c0", "4100b638"},
		{gguf.Q4_1, "82e67bf549b4d746", "7a98eeb139ca00ca", "40f0e8fb"},
		{gguf.Q5_0, "d36109d1cf2ba687", "7b99e3038ae5f004", "40c2e67d"},
		{gguf.Q5_1, "8fc7b7d5c9cb853d", "0d10a83c5c765c26", "40e18db1"},
		{gguf.Q8_0, "fa0018271d1e37c7", "d5718ee182bcde4e", "40d97591"},
		{gguf.Q4_K, "61efdaba75cd2b31", "31d13a3d01f330f9", "40d46adc"},
		{gguf.Q5_K, "9f2f64145ddbda4c", "197225eb1515633a", "40d4a78f"},
		{gguf.Q6_K, "8c71fa1f16f9655c", "7500b85b5c535176", "40cff494"},
	} {
		w, err := os.ReadFile(filepath.Join("testdata", c.t.String()+".bin"))
		require.NoError(t, err)
		require.Equal(t, c.weights, hash(w), c.t)

		values, err := Dequantize(c.t, w, 1024)
		require.NoError(t, err)
		require.Equal(t, c.dequantised, hash(Bytes(values)), c.t)

		actType, err := ActType(c.t)
		require.NoError(t, err)
		act, err := Activation(actType, y[:1024])
		require.NoError(t, err)
		for _, l := range []Level{H, Z} {
			v, err := Dot(l, c.t, 1024, w, act)
			require.NoError(t, err)
			require.Equal(t, c.value, bits(v), "%v %v", c.t, l)
		}

		// The same row as a matrix of one output, for two rows of activations.
		product, err := MatMul(H, c.t, w, 1024, 1, append(append([]float32(nil), x[:1024]...), y[:1024]...))
		require.NoError(t, err)
		require.Len(t, product, 2)
		require.Equal(t, c.value, bits(product[1]), c.t)

		// And as rows of one block of a table.
		block := c.t.BlockSize()
		rows, err := GetRows(c.t, w, block, []int32{3, 0, 3})
		require.NoError(t, err)
		require.Equal(t, append(append(append([]float32(nil), values[3*block:4*block]...),
			values[:block]...), values[3*block:4*block]...), rows)
	}
}

func TestOps(t *testing.T) {
	inf := float32(math.Inf(-1))
	mask := make([]float32, 1024)
	for i := 701; i < 1024; i++ {
		mask[i] = inf
	}
	for l, expected := range map[Level]struct{ softmax, silu, swiglu string }{
		H: {"12cf4e2ab36ae6b7", "c17274a9262f5a54", "a3ea40b6ed858971"},
		Z: {"d4896da655641d1f", "71864c90f3400808", "e9065a6ff07be532"},
	} {
		require.Equal(t, expected.softmax, hash(Bytes(SoftMax(l, y[:1024], 1024, 8, mask))), l)
		require.Equal(t, expected.silu, hash(Bytes(Silu(l, y[:1024], 1024))), l)
		require.Equal(t, expected.swiglu, hash(Bytes(SwiGLU(l, y[:1024], x[:1024], 1024))), l)
	}
	require.Equal(t, "802743e3245260b6", hash(Bytes(RmsNorm(x[:1024], 1024, 1e-6, y[:1024]))))
	rotated, err := RoPE(x[:256], 128, []int32{1234}, Rope{Neox: true, NDims: 128, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1})
	require.NoError(t, err)
	require.Equal(t, "9acb3a4b3ed76a7a", hash(Bytes(rotated)))
}

// Rows with tails, recorded.
func TestTails(t *testing.T) {
	for _, c := range []struct {
		n, end   int // row length; masked from end on
		h, z     string
		scale    float32
		rowCount int
	}{
		{1, 1, "8eec422e25920948", "8eec422e25920948", 0.125, 3},
		{7, 7, "372395a6ade27054", "372395a6ade27054", 0.125, 3},
		{7, 4, "59cdd0aa257ec624", "59cdd0aa257ec624", 0.125, 3},
		{113, 113, "46a628c4af5bfbbc", "86cedd2b65e9e66a", 0.125, 3},
		{113, 57, "fa4926d5c0828ffd", "cc4c151b0c3b6e0f", 0.125, 3},
		{1000, 1000, "0ae299a1383b32c6", "e07f9244b3e26aab", 0.125, 3},
		{1000, 501, "d4fe7e9bb20b73ce", "51e5c15b5b26d164", 0.125, 3},
	} {
		mask := make([]float32, c.rowCount*c.n)
		for i := range mask {
			if i%c.n >= c.end {
				mask[i] = float32(math.Inf(-1))
			}
		}
		require.Equal(t, c.h, hash(Bytes(SoftMax(H, y[:len(mask)], c.n, c.scale, mask))), "soft_max H %d %d", c.n, c.end)
		require.Equal(t, c.z, hash(Bytes(SoftMax(Z, y[:len(mask)], c.n, c.scale, mask))), "soft_max Z %d %d", c.n, c.end)
		if c.end == c.n {
			require.Equal(t, c.h, hash(Bytes(SoftMax(H, y[:len(mask)], c.n, c.scale, nil))), "soft_max H %d", c.n)
		}
	}
	for _, c := range []struct {
		n              int
		siluH, swigluH string
		siluZ, swigluZ string
	}{
		{1, "fb5847efe5a4d0bb", "ed991ba0512882b1", "fb5847efe5a4d0bb", "ed991ba0512882b1"},
		{7, "78ae8a2b946c8fdb", "b5131f690647dcf8", "78ae8a2b946c8fdb", "b5131f690647dcf8"},
		{13, "ce66f5d353af89bc", "b00a97103adba2df", "6a4d529ee593d5a0", "1209da2a1c73ac97"},
		{773, "8c00c01c7ed43ae7", "041f15b0ac160b91", "4515f06985acca6e", "309d41747ccdaf9a"},
	} {
		require.Equal(t, c.siluH, hash(Bytes(Silu(H, y[:2*c.n], c.n))), "silu H %d", c.n)
		require.Equal(t, c.siluZ, hash(Bytes(Silu(Z, y[:2*c.n], c.n))), "silu Z %d", c.n)
		require.Equal(t, c.swigluH, hash(Bytes(SwiGLU(H, y[:2*c.n], x[:2*c.n], c.n))), "swiglu H %d", c.n)
		require.Equal(t, c.swigluZ, hash(Bytes(SwiGLU(Z, y[:2*c.n], x[:2*c.n], c.n))), "swiglu Z %d", c.n)
	}
	for _, c := range []struct {
		d        int
		eps      float32
		expected string
	}{
		{1, 1e-6, "769f8b4b8785f7f4"},
		{33, 1e-5, "d2f5faf0c526b8cd"},
		{1025, 1e-6, "0bcb5f553d2a8277"},
	} {
		require.Equal(t, c.expected, hash(Bytes(RmsNorm(x[:3*c.d], c.d, c.eps, nil))), c.d)
	}
}

// Every mode and scaling of the rotation, recorded; the same at both levels.
func TestRope(t *testing.T) {
	factors := make([]float32, 48)
	for i := range factors {
		factors[i] = float32(1 + float64(i)/7)
	}
	plain := func(neox bool, dims int, base float32) Rope {
		return Rope{Neox: neox, NDims: dims, FreqBase: base, FreqScale: 1, AttnFactor: 1}
	}
	for _, c := range []struct {
		p        Rope
		expected string
	}{
		{plain(true, 96, 1e6), "21ae5996c54e3e2c"},
		{plain(false, 96, 1e4), "32e6dcf1afc9dd86"},
		{Rope{NDims: 96, FreqBase: 5e5, FreqScale: 1, AttnFactor: 1, Factors: factors}, "6430b0eae34f0c46"},
		{plain(true, 64, 1e6), "ccdb78852150ca9b"},
		{plain(false, 62, 1e4), "3ba8e99de9c35c50"},
		{Rope{Neox: true, NDims: 96, FreqBase: 1e4, FreqScale: 0.25, AttnFactor: 1}, "c64146cdfa06d65b"},
		{Rope{Neox: true, NDims: 96, FreqBase: 1e6, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1,
			BetaFast: 32, BetaSlow: 1, NCtxOrig: 32768}, "7f5ffecbb9beeac6"},
		{Rope{NDims: 80, FreqBase: 1e4, FreqScale: 0.125, ExtFactor: 0.75, AttnFactor: 1.25,
			BetaFast: 24, BetaSlow: 2, NCtxOrig: 4096, Factors: factors[:40]}, "3c9804b9b5228022"},
	} {
		rotated, err := RoPE(x[:576], 96, []int32{0, 77, 40000}, c.p)
		require.NoError(t, err)
		require.Equal(t, c.expected, hash(Bytes(rotated)), "%+v", c.p)
	}
}

// Three rows into eight cells, recorded from set_rows.
func TestKVStore(t *testing.T) {
	for kv, expected := range map[gguf.Type]string{gguf.F16: "56a789feebaaa91f", gguf.Q8_0: "3aaa907b2ea527a7"} {
		empty := make([]byte, 8*kv.RowBytes(64))
		region, err := KVStore(kv, empty, 64, x[:192], []int32{5, 0, 2})
		require.NoError(t, err)
		require.Equal(t, expected, hash(region), kv)
		require.Equal(t, make([]byte, len(empty)), empty, "the input region changed")

		same, err := KVStore(kv, region, 64, nil, nil)
		require.NoError(t, err)
		require.Equal(t, region, same)
	}
	_, err := KVStore(gguf.F16, make([]byte, 256), 64, x[:64], []int32{2})
	require.EqualError(t, err, "kv_store: row 0 at position 2: want one of the 2 cells")
	_, err = KVStore(gguf.Q4_0, nil, 64, nil, nil)
	require.EqualError(t, err, "kv_store: cache type q4_0: want f32, f16 or q8_0")
}

// glibc 2.36's functions over ranges, recorded. A result of float64 rounded to
// float32 would miss one of the logarithms and two of the powers; the section
// counts them for sine and cosine.
func TestLibm(t *testing.T) {
	apply := func(n int, f func(i float64) float32) string {
		var v []float32
		for i := range n {
			v = append(v, f(float64(i)))
		}
		return hash(Bytes(v))
	}
	require.Equal(t, "39ed25b0ba564596", apply(4001, func(i float64) float32 { return Expf(float32(-0.0217 * i)) }))
	require.Equal(t, "7f2b0908904d924b", apply(600, func(i float64) float32 {
		sin, _ := Sincosf(float32(float64(0.37*i) * i))
		return sin
	}))
	require.Equal(t, "56c86bdda9bdac9f", apply(600, func(i float64) float32 {
		_, cos := Sincosf(float32(float64(0.37*i) * i))
		return cos
	}))
	require.Equal(t, "18abeb736d10ee2d", apply(4000, func(i float64) float32 { return Logf(float32(0.001 * (i*i + 1))) }))
	require.Equal(t, "9e22ed6d77e4b6f4", apply(4000, func(i float64) float32 {
		return Powf(float32(1000+997*i), float32(-2/(2+2*math.Mod(i, 128))))
	}))

	for _, c := range []struct {
		base, dims float32
		expected   string
	}{
		{1e4, 64, "3f3ff911"}, {1e4, 128, "3f5dafd7"}, {1e6, 64, "3f263de0"},
		{1e6, 128, "3f4e4bac"}, {5e6, 128, "3f492c27"}, {1e7, 128, "3f470165"},
	} {
		require.Equal(t, c.expected, bits(Powf(c.base, float32(-2)/c.dims)), "%v %v", c.base, c.dims)
	}
	require.Equal(t, float32(0), Expf(float32(math.Inf(-1))))
	require.Equal(t, float32(1), Expf(0))
	require.Equal(t, float32(0), Logf(1))
}

// Products that vanish leave -0 in every lane; adding up from zero hides it.
func TestBF16NegativeZero(t *testing.T) {
	tiny, negative := make([]float32, 64), make([]float32, 64)
	for i := range tiny {
		tiny[i], negative[i] = 0x1p-100, -0x1p-100
	}
	require.Equal(t, "00000000", bits(DotBF16(H, tiny, negative)))
	require.Equal(t, "00000000", bits(DotBF16(Z, tiny, negative)))
	require.Equal(t, "80000000", bits(DotF32(H, tiny, negative)))
}
