package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The float64 sums inside rms_norm and soft_max, whose order a float32 result
// nearly always hides: compared as float64 bits, on values of many magnitudes.
func TestAVX2Sums(t *testing.T) {
	if AVX2() == nil {
		t.Skip("no AVX2: its sums are NOT tested here")
	}
	rng := rand.New(rand.NewPCG(1, 11))
	const d = 896
	x := make([]float32, 4*d)
	for i := range x {
		x[i] = float32(math.Exp(5 * rng.NormFloat64()))
	}
	var want, got [4]float64
	for r := range want {
		for _, v := range x[r*d : (r+1)*d] {
			want[r] += float64(float32(v * v))
		}
		require.Equal(t, want[r], sumSquares1AVX2(&x[r*d], d/8))
	}
	sumSquares4AVX2(&got, &x[0], d, d/4)
	require.Equal(t, want, got)
	backwards := slices.Clone(x[:d])
	slices.Reverse(backwards)
	require.NotEqual(t, want[0], sumSquares1AVX2(&backwards[0], d/8), "the values don't show the order")

	for i := range x {
		x[i] = -60 * rng.Float32()
	}
	y := slices.Clone(x)
	var sum, back float64
	for i := 0; i < len(y); i += 8 {
		g := (*[8]float32)(y[i:])
		for l, v := range g {
			g[l] = vexp(v - 0.5)
		}
		sum += float64(hs8(g))
	}
	for i := len(y) - 8; i >= 0; i -= 8 {
		back += float64(hs8((*[8]float32)(y[i:])))
	}
	require.NotEqual(t, sum, back, "the values don't show the order")
	require.Equal(t, sum, expSumAVX2(&x[0], 0.5, len(x)/8))
	sameBits(t, y, x, "exp")
}
