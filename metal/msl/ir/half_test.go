package ir_test

import (
	"math"
	"testing"

	"minfer/metal/msl/ir"

	"github.com/stretchr/testify/require"
)

// Every half and bfloat survives, and the midpoints and their neighbours go where
// round to nearest, ties to even, says.
func TestHalfRounding(t *testing.T) {
	for h := range 1 << 16 {
		f := ir.F16ToF32(uint16(h))
		if f == f {
			require.Equal(t, uint16(h), ir.F32ToF16(f))
		} else {
			require.True(t, ir.F16ToF32(ir.F32ToF16(f)) != ir.F16ToF32(ir.F32ToF16(f)))
		}
		g := ir.BF16ToF32(uint16(h))
		if g == g {
			require.Equal(t, uint16(h), ir.F32ToBF16(g))
		}
	}
	for h := range 0x7bff {
		lo, hi := ir.F16ToF32(uint16(h)), ir.F16ToF32(uint16(h+1))
		mid := float32((float64(lo) + float64(hi)) / 2) // exact
		even := h + h&1
		require.Equal(t, uint16(even), ir.F32ToF16(mid))
		require.Equal(t, uint16(h), ir.F32ToF16(math.Nextafter32(mid, 0)))
		require.Equal(t, uint16(h+1), ir.F32ToF16(math.Nextafter32(mid, 1e9)))
		require.Equal(t, uint16(even|0x8000), ir.F32ToF16(-mid))
	}
	require.Equal(t, uint16(0x7c00), ir.F32ToF16(65520))
	require.Equal(t, uint16(0x7bff), ir.F32ToF16(65519.996))
	require.Equal(t, uint16(0x7f80), ir.F32ToBF16(math.MaxFloat32))
	require.Equal(t, uint16(0x3f80), ir.F32ToBF16(1+0x1p-8))
	require.Equal(t, uint16(0x3f82), ir.F32ToBF16(1+3*0x1p-8))
}
