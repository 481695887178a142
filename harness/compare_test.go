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

// Each element against its own tolerance: the one that uses most of it decides,
// not the one with the largest error.
func TestWithinEach(t *testing.T) {
	c, err := WithinEach([]float32{1, 101, 3}, []float64{1, 100, 3.5}, []float64{0, 2, 0.25})
	require.NoError(t, err)
	require.False(t, c.OK())
	require.Equal(t, 2, c.Index)
	require.Equal(t, Float(2), c.Share)
	require.Equal(t, Float(0.25), c.Tolerance)
	require.Equal(t, Float(1), c.MaxAbs)
	require.Equal(t, "3 values, worst at [2]: got 3, want 3.5, error 0.5 of tolerance 0.25, NMSE 0.000125", c.String())

	c, err = WithinEach([]float32{1, 101}, []float64{1, 100}, []float64{2})
	require.NoError(t, err)
	require.True(t, c.OK())
	require.Equal(t, 1, c.Index)

	// A tolerance of 0 is equality with the rounded reference.
	third := 1.0 / 3
	c, err = WithinEach([]float32{float32(third)}, []float64{third}, []float64{0})
	require.NoError(t, err)
	require.True(t, c.OK())
	for _, bad := range []float32{math.Nextafter32(float32(third), 1), float32(math.NaN())} {
		c, err = WithinEach([]float32{bad}, []float64{third}, []float64{0})
		require.NoError(t, err)
		require.False(t, c.OK())
	}
	c, err = WithinEach([]float32{float32(math.NaN())}, []float64{1}, []float64{1e9})
	require.NoError(t, err)
	require.False(t, c.OK())

	_, err = WithinEach([]float32{1, 2}, []float64{1, 2}, []float64{1, 2, 3})
	require.EqualError(t, err, "compare: 2 values and 3 tolerances, want 2")
}
