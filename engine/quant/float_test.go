package quant_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/quant"
)

// halfValue is the value of a finite half, from its definition.
func halfValue(h uint16) float64 {
	exp, man := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(man, -24)
	if exp > 0 {
		v = math.Ldexp(1024+man, exp-25)
	}
	return math.Copysign(v, 1-2*float64(h>>15))
}

// TestF16All walks every half: its value, the way back, and the rounding
// between it and the next one: the midpoint goes to the even of the two, its
// neighbours in float32 to the nearer one.
func TestF16All(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		v := quant.F32FromF16(h)
		if h&0x7c00 == 0x7c00 {
			if h&0x3ff == 0 {
				require.True(t, math.IsInf(float64(v), 1-2*int(h>>15)), "%04x", h)
				require.Equal(t, h, quant.F16(v))
				continue
			}
			require.Equal(t, uint32(h&0x8000)<<16|0x7fc00000|uint32(h&0x3ff)<<13, math.Float32bits(v), "%04x: NaN, made quiet", h)
			require.Equal(t, h&0x8000|0x7e00, quant.F16(v), "%04x", h)
			continue
		}
		require.Equal(t, math.Float64bits(halfValue(h)), math.Float64bits(float64(v)), "%04x", h)
		require.Equal(t, h, quant.F16(v), "%04x", h)

		next, above := h+1, 65536.0
		if h&0x7fff != 0x7bff {
			above = math.Abs(halfValue(next))
		}
		mid := float32(math.Copysign((math.Abs(halfValue(h))+above)/2, halfValue(h)))
		even := h + h&1
		require.Equal(t, even, quant.F16(mid), "the midpoint after %04x", h)
		require.Equal(t, next, quant.F16(math.Float32frombits(math.Float32bits(mid)+1)), "just above the midpoint after %04x", h)
		require.Equal(t, h, quant.F16(math.Float32frombits(math.Float32bits(mid)-1)), "just below the midpoint after %04x", h)
	}
}

func TestF16Directed(t *testing.T) {
	for _, c := range []struct {
		bits uint32
		want uint16
	}{
		{0x00000000, 0x0000}, {0x80000000, 0x8000},
		{0x00000001, 0x0000}, {0x80000001, 0x8000}, // the smallest float32
		{0x33000000, 0x0000}, {0x33000001, 0x0001}, // 2^-25, a tie with zero
		{0x33c00000, 0x0002},                                             // 1.5 * 2^-24
		{0x387fc000, 0x03ff}, {0x387fe000, 0x0400}, {0x387fdfff, 0x03ff}, // into the normal halves
		{0x477fe000, 0x7bff}, {0x477fefff, 0x7bff}, // 65504 and the last to round there
		{0x477ff000, 0x7c00}, {0x47800000, 0x7c00}, {0xc77ff000, 0xfc00}, {0x7f7fffff, 0x7c00}, // 65520 and up
		{0x7f800000, 0x7c00}, {0xff800000, 0xfc00},
		{0x7fc00000, 0x7e00}, {0xffc00000, 0xfe00}, {0x7f800001, 0x7e00}, {0xffffffff, 0xfe00},
	} {
		require.Equal(t, c.want, quant.F16(math.Float32frombits(c.bits)), "%08x", c.bits)
	}
}

// TestBF16All is TestF16All for bfloat16, where a midpoint is one bit pattern.
func TestBF16All(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		v := quant.F32FromBF16(h)
		require.Equal(t, uint32(h)<<16, math.Float32bits(v), "%04x", h)
		switch {
		case h&0x7fff > 0x7f80:
			require.Equal(t, h|0x40, quant.BF16(v), "%04x: NaN, made quiet", h)
			require.Equal(t, h|0x40, quant.BF16(math.Float32frombits(uint32(h)<<16|0xffff)), "%04x: NaN", h)
		case h&0x7fff == 0x7f80:
			require.Equal(t, h, quant.BF16(v), "%04x", h)
			require.Equal(t, h|0x40, quant.BF16(math.Float32frombits(uint32(h)<<16|1)), "%04x: a NaN with no payload above", h)
		default:
			require.Equal(t, h, quant.BF16(v), "%04x", h)
			require.Equal(t, h+h&1, quant.BF16(math.Float32frombits(uint32(h)<<16|0x8000)), "the midpoint after %04x", h)
			require.Equal(t, h, quant.BF16(math.Float32frombits(uint32(h)<<16|0x7fff)), "below the midpoint after %04x", h)
			require.Equal(t, h+1, quant.BF16(math.Float32frombits(uint32(h)<<16|0x8001)), "above the midpoint after %04x", h)
		}
	}
}
