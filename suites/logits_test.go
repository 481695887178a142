package suites

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// What a cache may hold: either neighbour of a value near a tie, and no other.
func TestRounded(t *testing.T) {
	x := make([]float64, 32)
	x[0], x[1] = 127, 10.5001 // a step of q8_0 is 1
	hold := func(kv gguf.Type, v float64) error {
		stored := append([]float64{}, x...)
		stored[1] = v
		return rounded(kv, stored, x)
	}
	require.NoError(t, hold(gguf.Q8_0, 11))
	require.NoError(t, hold(gguf.Q8_0, 10))
	require.ErrorIs(t, hold(gguf.Q8_0, 9), ErrRounding)
	require.ErrorIs(t, hold(gguf.Q8_0, 12), ErrRounding)
	require.ErrorIs(t, hold(gguf.Q8_0, math.NaN()), ErrRounding)
	require.NoError(t, hold(gguf.F16, 10.5))
	require.NoError(t, hold(gguf.F16, 10.50390625))
	require.EqualError(t, hold(gguf.F16, 10.515625), "not the value rounded: element 1 is 10.515625, the reference's value 10.5001: want it within 0.00625")
}
