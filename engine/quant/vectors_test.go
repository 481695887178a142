package quant_test

import (
	"bufio"
	"encoding/hex"
	"hash/fnv"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// shapes are the inputs of testdata/blocks.txt, 256 values each (types of 32
// use the first 64): every one meets another rule of the quantisers.
var shapes = map[string]func(i int) float32{
	"zero":      func(i int) float32 { return 0 },
	"negzero":   func(i int) float32 { return float32(math.Copysign(0, -1)) },
	"ones":      func(i int) float32 { return 1 },
	"negative":  func(i int) float32 { return -3.5 },
	"ramp":      func(i int) float32 { return float32(i-100) / 8 },
	"subnormal": func(i int) float32 { return float32(i-7) * 0x1p-149 }, // 1/d is infinite
	"tiny":      func(i int) float32 { return float32(i%13-6) * 0x1p-130 },
	"faint":     func(i int) float32 { return float32(i%13-6) * 0x1.76p-53 }, // q6_K takes under 1e-15 for zero
	"large":     func(i int) float32 { return float32(i%9-4) * 15000 },
	"halves8": func(i int) float32 { // d = 1 in q8_0: every value is a tie
		if i%32 == 0 {
			return 127
		}
		return float32(i%32) - 15.5
	},
	"halves4": func(i int) float32 { // d = 1 in q4_0
		if i%32 == 0 {
			return -8
		}
		return float32(i%16) - 7.5
	},
	"halves15": func(i int) float32 { // d = 1, m = 0 in q4_1
		switch i % 32 {
		case 0:
			return 0
		case 1:
			return 15
		}
		return float32(i%15) + 0.5
	},
	"outlier": func(i int) float32 {
		if i == 41 {
			return 100
		}
		return float32(i%7-3) * 0x1p-10
	},
	"opposite": func(i int) float32 { // the first of two equal magnitudes decides the sign
		return float32(1-2*(i&1)) * float32(1+i%3)
	},
	"noise": noise,
	"positive": func(i int) float32 {
		return max(noise(i), -noise(i)) + 0.25
	},
}

// noise is a fixed sequence in (-1, 1): one step of a congruential generator,
// mixed.
func noise(i int) float32 {
	s := uint32(i)*2654435761 + 12345
	s ^= s >> 15
	s *= 2246822519
	s ^= s >> 13
	return float32(int32(s)) * 0x1p-31
}

// TestRecordedBlocks compares blocks and values with testdata/blocks.txt, which
// names its origin.
func TestRecordedBlocks(t *testing.T) {
	f, err := os.Open("testdata/blocks.txt")
	require.NoError(t, err)
	defer f.Close()
	seen := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		field := strings.Fields(s.Text())
		require.Len(t, field, 4, s.Text())
		typ, err := gguf.ParseType(field[0])
		require.NoError(t, err)
		shape, ok := shapes[field[1]]
		require.True(t, ok, field[1])
		seen[field[0]+field[1]] = true

		x := make([]float32, 64)
		if typ.BlockSize() == 256 {
			x = make([]float32, 256)
		}
		for i := range x {
			x[i] = shape(i)
		}
		got := make([]byte, typ.RowBytes(len(x)))
		require.NoError(t, quant.Quantize(typ, got, x))
		require.Equal(t, field[2], hex.EncodeToString(got), "%s %s", field[0], field[1])

		require.NoError(t, quant.Dequantize(typ, x, got))
		h := fnv.New64a()
		h.Write(f32Bytes(x))
		require.Equal(t, field[3], hex.EncodeToString(h.Sum(nil)), "%s %s dequantised", field[0], field[1])
	}
	require.Len(t, seen, len(shapes)*len(blockTypes), "every shape of every type")
}

var blockTypes = []gguf.Type{
	gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0,
	gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.Q8_K,
}

func f32Bytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		u := math.Float32bits(v)
		b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(u), byte(u>>8), byte(u>>16), byte(u>>24)
	}
	return b
}

// TestGolden pins the hashes of docs/numerics.md, section 15, which were taken
// from the library.
func TestGolden(t *testing.T) {
	x := make([]float32, 1024)
	for i := range x {
		x[i] = float32(i*7919%2001-1000) / 1000
	}
	y := make([]float32, 1024)
	for i := range y {
		y[i] = float32(i*104729%1999-999) / 500
	}
	sum := func(b []byte) uint64 {
		h := fnv.New64a()
		h.Write(b)
		return h.Sum64()
	}
	for _, c := range []struct {
		t               gguf.Type
		weights, values uint64
	}{
		{gguf.Q4_0, 0x1335e536cdc2321b, 0x049ee3744864c4c0},
		{gguf.Q4_1, 0x82e67bf549b4d746, 0x7a98eeb139ca00ca},
		{gguf.Q5_0, 0xd36109d1cf2ba687, 0x7b99e3038ae5f004},
		{gguf.Q5_1, 0x8fc7b7d5c9cb853d, 0x0d10a83c5c765c26},
		{gguf.Q8_0, 0xfa0018271d1e37c7, 0xd5718ee182bcde4e},
		{gguf.Q4_K, 0x61efdaba75cd2b31, 0x31d13a3d01f330f9},
		{gguf.Q5_K, 0x9f2f64145ddbda4c, 0x197225eb1515633a},
		{gguf.Q6_K, 0x8c71fa1f16f9655c, 0x7500b85b5c535176},
	} {
		b := make([]byte, c.t.RowBytes(len(x)))
		require.NoError(t, quant.Quantize(c.t, b, x))
		require.Equal(t, c.weights, sum(b), "%v weight bytes", c.t)
		v := make([]float32, len(x))
		require.NoError(t, quant.Dequantize(c.t, v, b))
		require.Equal(t, c.values, sum(f32Bytes(v)), "%v values", c.t)
	}
	// The Q8_K of the activation column: one quantiser serves both.
	b := make([]byte, gguf.Q8_K.RowBytes(len(y)))
	require.NoError(t, quant.Quantize(gguf.Q8_K, b, y))
	require.Equal(t, uint64(0x82d8b1aabe410d07), sum(b))
}
