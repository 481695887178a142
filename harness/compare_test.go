package harness

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestULP(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, c := range []struct {
		a, b float32
		want int64
	}{
		{1, 1, 0},
		{1, math.Nextafter32(1, 2), 1},
		{1, math.Nextafter32(1, 0), 1},
		{0, float32(math.Copysign(0, -1)), 1},
		{math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 3}, // through +0 and -0
		{math.MaxFloat32, inf, 1},
		{1, 2, 1 << 23},
		{nan, nan, 0},
		{nan, 1, math.MaxInt64},
	} {
		require.Equal(t, c.want, ULP(c.a, c.b), "%v %v", c.a, c.b)
		require.Equal(t, c.want, ULP(c.b, c.a), "%v %v", c.b, c.a)
	}
}

func TestBits(t *testing.T) {
	want := []float32{1, 2, 3, 4}
	got := []float32{1, math.Nextafter32(2, 3), 3, 5}
	c, err := Bits(got, want)
	require.NoError(t, err)
	require.False(t, c.OK())
	require.Equal(t, 2, c.Differing)
	require.Equal(t, 1, c.Index, "the first, not the worst")
	require.EqualValues(t, 1, c.ULP)
	require.EqualValues(t, 1, c.MaxAbs)
	require.EqualValues(t, 0.25, c.MaxRel)
	require.InDelta(t, 1.0/30, float64(c.NMSE), 1e-6) // (5-4)^2 over 1+4+9+16
	require.Equal(t, "2 of 4 values differ, first at [1]: got 2.0000002 (0x40000001), want 2 (0x40000000), 1 ulp", c.String())

	c, err = Bits(want, want)
	require.NoError(t, err)
	require.True(t, c.OK())
	require.Equal(t, -1, c.Index)

	c, err = Bits([]float32{0}, []float32{float32(math.Copysign(0, -1))})
	require.NoError(t, err)
	require.False(t, c.OK(), "a zero of the other sign is other bits")

	_, err = Bits(got, want[:3])
	require.EqualError(t, err, "compare: 4 values, want 3")
}

func TestWithin(t *testing.T) {
	want := []float64{1, -2, 0, math.Inf(-1)}
	c, err := Within([]float32{1.0005, -2.001, 0, float32(math.Inf(-1))}, want, 1e-2)
	require.NoError(t, err)
	require.True(t, c.OK())
	require.Equal(t, 1, c.Index)
	require.InDelta(t, 1e-3, float64(c.MaxAbs), 1e-6)

	c, err = Within([]float32{1, -2, 0.02, float32(math.Inf(-1))}, want, 1e-2)
	require.NoError(t, err)
	require.False(t, c.OK())
	require.Equal(t, 2, c.Index)

	for i, bad := range [][]float32{{float32(math.NaN()), -2, 0, float32(math.Inf(-1))}, {1, -2, 0, 1}} {
		c, err = Within(bad, want, 1e30)
		require.NoError(t, err)
		require.False(t, c.OK(), "a NaN or an infinity that the reference lacks is outside every tolerance: %d", i)
	}
}

// A report must be written whatever the numbers are.
func TestComparisonJSON(t *testing.T) {
	c, err := Bits([]float32{float32(math.NaN())}, []float32{float32(math.Inf(1))})
	require.NoError(t, err)
	data, err := json.Marshal(c)
	require.NoError(t, err)
	var back Comparison
	require.NoError(t, json.Unmarshal(data, &back))
	require.True(t, math.IsNaN(float64(back.Got)))
	require.True(t, math.IsInf(float64(back.Want), 1))
	require.Error(t, json.Unmarshal([]byte(`"many"`), new(Float)))
}
