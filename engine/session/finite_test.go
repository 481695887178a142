package session

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is not a finite number is found wherever it lies.
func TestFinite(t *testing.T) {
	for n := range 20 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i) * 1e37
		}
		require.True(t, finite(x), "%d", n)
		for i := range x {
			old := x[i]
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x[i] = float32(bad)
				require.False(t, finite(x), "%v at %d of %d", bad, i, n)
			}
			for _, good := range []float32{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))} {
				x[i] = good
				require.True(t, finite(x), "%v at %d of %d", good, i, n)
			}
			x[i] = old
		}
	}
}
