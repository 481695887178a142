package refs

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

func hash(x []float32) string {
	h := fnv.New64a()
	for _, v := range x {
		b := math.Float32bits(v)
		h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// ggml's own dequantised values, by the hashes of docs/numerics.md section 15.
// The types whose formula has one rounding must round to them; where ggml rounds
// twice, each value is within the two roundings' bound.
func TestDequantizeGolden(t *testing.T) {
	for _, c := range []struct {
		t        gguf.Type
		expected string
	}{
		{gguf.Q4_0, "049ee3744864c4c0"},
		{gguf.Q4_1, "7a98eeb139ca00ca"},
		{gguf.Q5_0, "7b99e3038ae5f004"},
		{gguf.Q5_1, "0d10a83c5c765c26"},
		{gguf.Q8_0, "d5718ee182bcde4e"},
		{gguf.Q6_K, "7500b85b5c535176"},
	} {
		data, err := os.ReadFile(filepath.Join("exact", "testdata", c.t.String()+".bin"))
		require.NoError(t, err)
		x, err := Dequantize(c.t, data, 1024)
		require.NoError(t, err)
		require.Equal(t, c.expected, hash(F32(x)), c.t)
	}
}

// One block of each type, written out by hand.
func TestDequantizeByHand(t *testing.T) {
	half := func(bits uint16) []byte { return []byte{byte(bits), byte(bits >> 8)} }
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	fill := func(n int, at map[int]byte) []byte {
		b := make([]byte, n)
		for i, v := range at {
			b[i] = v
		}
		return b
	}
	const one, two, quarter = 0x3c00, 0x4000, 0x3400
	for _, c := range []struct {
		t        gguf.Type
		data     []byte
		expected map[int]float64
	}{
		{gguf.F32, []byte{0, 0, 0x20, 0xc0}, map[int]float64{0: -2.5}},
		{gguf.F16, half(0x0001), map[int]float64{0: math.Ldexp(1, -24)}},
		{gguf.F16, half(0xfbff), map[int]float64{0: -65504}},
		{gguf.BF16, half(0x3fc0), map[int]float64{0: 1.5}},
		{gguf.Q4_0, join(half(quarter), fill(16, map[int]byte{0: 0xf0, 15: 0x19})),
			map[int]float64{0: -2, 16: 1.75, 15: 0.25, 31: -1.75, 1: -2}},
		{gguf.Q4_1, join(half(quarter), half(one), fill(16, map[int]byte{3: 0x2f})),
			map[int]float64{3: 4.75, 19: 1.5, 0: 1}},
		{gguf.Q5_0, join(half(two), []byte{1, 0, 0, 0x80}, fill(16, map[int]byte{0: 0x03, 15: 0xf0})),
			map[int]float64{0: 6, 31: 30, 1: -32}},
		{gguf.Q5_1, join(half(two), half(one), []byte{0, 0, 2, 0}, fill(16, map[int]byte{1: 0x51})),
			map[int]float64{1: 3, 17: 43, 0: 1}},
		{gguf.Q8_0, join(half(quarter), fill(32, map[int]byte{7: 0x80, 31: 127})),
			map[int]float64{7: -32, 31: 31.75, 0: 0}},
		// Group 1: scale 5, min 3 (whole in the first bytes). Group 5: scale 9 | 2<<4,
		// min 6 | 1<<4 (their high bits above groups 1's).
		{gguf.Q4_K, join(half(quarter), half(one), fill(12, map[int]byte{1: 5 | 2<<6, 5: 3 | 1<<6, 9: 9 | 6<<4}),
			fill(128, map[int]byte{2: 0x70, 64 + 31: 0xa0})),
			map[int]float64{32 + 2: 0.25*5*7 - 3, 32: -3, 160 + 31: 0.25*41*10 - 22, 0: 0}},
		{gguf.Q5_K, join(half(quarter), half(one), fill(12, map[int]byte{1: 5, 5: 3}),
			fill(32, map[int]byte{2: 1 << 1}), fill(128, map[int]byte{2: 0x70})),
			map[int]float64{32 + 2: 0.25*5*23 - 3, 32 + 3: -3}},
		// Element 128+64+9: second half, third run of 32: low nibble high part of
		// ql[64+9], bits 4 and 5 of qh[32+9]; scale 12.
		{gguf.Q6_K, join(fill(128, map[int]byte{64 + 9: 0xd0}), fill(64, map[int]byte{32 + 9: 2 << 4}),
			fill(16, map[int]byte{12: 0xfd}), half(two)),
			map[int]float64{128 + 64 + 9: 2 * -3 * (13 + 32 - 32), 128 + 64: 2 * -3 * -32, 0: 0}},
	} {
		x, err := Dequantize(c.t, c.data, c.t.BlockSize())
		require.NoError(t, err)
		for i, v := range c.expected {
			require.Equal(t, v, x[i], "%v element %d", c.t, i)
		}
	}
}

func TestDequantizeErrors(t *testing.T) {
	_, err := Dequantize(gguf.Q4_0, make([]byte, 18), 33)
	require.EqualError(t, err, "dequantize q4_0: 33 elements: want a multiple of 32")
	_, err = Dequantize(gguf.Q4_K, make([]byte, 143), 256)
	require.EqualError(t, err, "dequantize q4_K: 143 bytes for 256 elements: want 144")
	_, err = Dequantize(gguf.Q8_K, make([]byte, 292), 256)
	require.EqualError(t, err, "dequantize: type q8_K: want a type that model files hold")
	_, err = Dequantize(gguf.Type(99), nil, 0)
	require.EqualError(t, err, "dequantize: type type(99): want a type that model files hold")
}
