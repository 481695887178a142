package quant_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// bound is the largest error that a value of block x may have after a round
// trip through type t.
//
// The 32-types: half a step d, or a whole step where the largest level is
// missing (q4_0, q5_0), and the rounding of the half scales: a relative 2^-11,
// or 2^-25 below the normal halves, times the largest level.
//
// The K types search for scales, so their bound comes from the search. Its
// first candidate has steps of the range r over nmax, an error of r/(2*nmax) at
// most, and what replaces it has a smaller weighted sum of squares. With
// weights rms+|x| over 32 values the error of one value is then at most
// sqrt(64) times that: 0.27*r or 0.54 of the peak for q4_K. The 6-bit scales
// add under 0.05 of the peak, the half scales 63*nmax*2^-25. Six tenths of the
// peak cover q5_K too. q6_K weighs by x*x, which says nothing about a small
// value; but its levels are chosen anew in the end and reach the peak of
// their group within its scale's rounding, so the same bound holds.
func bound(t gguf.Type, x []float32) float64 {
	const sub, rel, slack = 0x1p-25, 0x1p-11, 1e-4
	var peak float64
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range x {
		peak = max(peak, math.Abs(float64(v)))
		lo, hi = min(lo, float64(v)), max(hi, float64(v))
	}
	symmetric := func(levels, steps float64) float64 {
		d := peak / levels
		return d*(steps+slack) + levels*max(d*rel, sub)
	}
	offset := func(levels float64) float64 {
		d := (hi - lo) / levels
		return d*(0.5+slack) + levels*max(d*rel, sub) + max(max(math.Abs(lo), math.Abs(hi))*(rel+1e-6), sub)
	}
	switch t {
	case gguf.F32:
		return 0
	case gguf.F16:
		return max(peak*rel, sub)
	case gguf.BF16:
		return peak*0x1p-8 + 0x1p-134
	case gguf.Q4_0:
		return symmetric(8, 1)
	case gguf.Q5_0:
		return symmetric(16, 1)
	case gguf.Q8_0:
		return symmetric(127, 0.5)
	case gguf.Q4_1:
		return offset(15)
	case gguf.Q5_1:
		return offset(31)
	case gguf.Q8_K:
		if peak < 127/math.MaxFloat32 {
			return peak // 127/peak overflows: the scale is 0
		}
		return peak / 127 * (0.5 + slack)
	case gguf.Q4_K:
		return 0.6*peak + 63*16*sub
	case gguf.Q5_K:
		return 0.6*peak + 63*32*sub
	case gguf.Q6_K:
		return 0.6*peak + 128*32*sub
	}
	panic("no bound for " + t.String())
}

var allTypes = append([]gguf.Type{gguf.F32, gguf.F16, gguf.BF16}, blockTypes...)

// roundTrip checks the bound for each block of x, a multiple of 256 values.
func roundTrip(t *testing.T, typ gguf.Type, x []float32) {
	b := make([]byte, typ.RowBytes(len(x)))
	require.NoError(t, quant.Quantize(typ, b, x))
	y := make([]float32, len(x))
	require.NoError(t, quant.Dequantize(typ, y, b))
	n := max(32, typ.BlockSize())
	var limit float64
	for i, v := range x {
		if i%n == 0 {
			limit = bound(typ, x[i:i+n])
		}
		if e := math.Abs(float64(y[i]) - float64(v)); !(e <= limit) {
			t.Fatalf("%v: value %d is %v, became %v: error %v, want at most %v", typ, i, v, y[i], e, limit)
		}
	}
}

func TestRoundTripBounds(t *testing.T) {
	for _, typ := range allTypes {
		for _, shape := range shapes {
			x := make([]float32, 256)
			for i := range x {
				x[i] = shape(i)
			}
			roundTrip(t, typ, x)
		}
	}
}

// TestRoundTripQuality pins the mean squared error on noise, relative to its
// mean square, between two limits: a better figure than the format can have is
// as wrong as a worse one. Uniform noise in (-1, 1) has mean square 1/3; a step
// d costs d*d/12, where d is 2/16 for four bits and so on. Scales fitted to 16
// or 32 values need not cover the whole range: extremes reach 31/33 of it on
// average (0.88 of the cost), and the searches of the K types gain more.
func TestRoundTripQuality(t *testing.T) {
	x := make([]float32, 256*64)
	for i := range x {
		x[i] = noise(i)
	}
	for _, c := range []struct {
		t    gguf.Type
		step float64
	}{
		{gguf.Q4_0, 2. / 16}, {gguf.Q4_1, 2. / 15}, {gguf.Q5_0, 2. / 32}, {gguf.Q5_1, 2. / 31}, {gguf.Q8_0, 2. / 254},
		{gguf.Q4_K, 2. / 15}, {gguf.Q5_K, 2. / 31}, {gguf.Q6_K, 2. / 64}, {gguf.Q8_K, 2. / 254},
	} {
		b := make([]byte, c.t.RowBytes(len(x)))
		require.NoError(t, quant.Quantize(c.t, b, x))
		y := make([]float32, len(x))
		require.NoError(t, quant.Dequantize(c.t, y, b))
		var mse float64
		for i := range x {
			mse += float64(y[i]-x[i]) * float64(y[i]-x[i]) / float64(len(x))
		}
		ratio := mse / (c.step * c.step / 12)
		require.Greater(t, ratio, 0.6, "%v", c.t)
		require.Less(t, ratio, 1.15, "%v", c.t)
	}
}

// TestInputsStay: the quantisers read only, and write only their bytes.
func TestInputsStay(t *testing.T) {
	for _, typ := range allTypes {
		x := make([]float32, 512)
		for i := range x {
			x[i] = noise(i + 7)
		}
		before := append([]float32(nil), x...)
		n := typ.RowBytes(512)
		buf := make([]byte, n+16)
		for i := range buf {
			buf[i] = 0xa5 // what a block leaves over would stay
		}
		require.NoError(t, quant.Quantize(typ, buf[8:8+n], x))
		require.Equal(t, before, x, "%v", typ)
		for i := range 8 {
			require.Equal(t, byte(0xa5), buf[i], "%v", typ)
			require.Equal(t, byte(0xa5), buf[8+n+i], "%v", typ)
		}
		clean := make([]byte, n)
		require.NoError(t, quant.Quantize(typ, clean, x))
		require.Equal(t, clean, buf[8:8+n], "%v: depends on the buffer's old bytes", typ)
		// One call for two rows is two calls for one.
		half := make([]byte, n/2)
		require.NoError(t, quant.Quantize(typ, half, x[256:]))
		require.Equal(t, clean[n/2:], half, "%v", typ)
	}
}

func TestErrors(t *testing.T) {
	require.EqualError(t, quant.Quantize(gguf.Q4_0, make([]byte, 18), make([]float32, 33)), "quantize q4_0: 33 values: want a multiple of 32")
	require.EqualError(t, quant.Quantize(gguf.Q4_K, make([]byte, 143), make([]float32, 256)), "quantize q4_K: 143 bytes for 256 values: want 144")
	require.EqualError(t, quant.Dequantize(gguf.Q8_0, make([]float32, 64), make([]byte, 34)), "dequantize q8_0: 34 bytes for 64 values: want 68")
	require.EqualError(t, quant.Dequantize(gguf.F16, make([]float32, 3), make([]byte, 5)), "dequantize f16: 5 bytes for 3 values: want 6")
	for _, typ := range []gguf.Type{gguf.I32, gguf.Q8_1} {
		require.EqualError(t, quant.Quantize(typ, nil, nil), "quantize: no row functions for type "+typ.String()+": want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K, q8_K")
	}
	require.EqualError(t, quant.Dequantize(gguf.Type(99), nil, nil), "dequantize: no row functions for type type(99): want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K, q8_K")
	require.NoError(t, quant.Quantize(gguf.Q6_K, nil, nil), "no rows")
}

// FuzzQuantRoundTrip takes 256 values from the bytes, as they are and scaled
// into the range where every type has a bound. Nothing may panic, and what is
// in range must come back within the bound.
func FuzzQuantRoundTrip(f *testing.F) {
	for _, shape := range shapes {
		b := make([]byte, 1024)
		for i := range 256 {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(shape(i)))
		}
		f.Add(b)
	}
	f.Add([]byte{0, 0, 192, 127, 0, 0, 128, 255, 255, 255, 127, 127, 1, 0, 0, 0}) // NaN, -Inf, the largest, the smallest
	f.Fuzz(func(t *testing.T, b []byte) {
		x := make([]float32, 256)
		var peak float64
		for i := range x {
			var word [4]byte
			for j := range word {
				if len(b) > 0 {
					word[j] = b[(4*i+j)%len(b)]
				}
			}
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(word[:]))
			peak = max(peak, math.Abs(float64(x[i])))
		}
		for _, typ := range allTypes {
			out := make([]byte, typ.RowBytes(len(x)))
			require.NoError(t, quant.Quantize(typ, out, x))
			require.NoError(t, quant.Dequantize(typ, make([]float32, len(x)), out))
		}
		if math.IsNaN(peak) || math.IsInf(peak, 0) {
			return
		}
		if peak > 30000 { // half scales and minimums overflow above
			for i := range x {
				x[i] = float32(float64(x[i]) / peak * 30000)
			}
		}
		for _, typ := range allTypes {
			roundTrip(t, typ, x)
		}
	})
}
