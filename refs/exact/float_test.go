package exact

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// FMA against arithmetic with enough bits for every sum, with operands that make
// ties and cancellations likely.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wide := func(v float32) *big.Float { return new(big.Float).SetPrec(600).SetFloat64(float64(v)) }
	operand := func() float32 {
		mantissa := r.Uint32() & 0x7fffff
		if r.IntN(2) == 0 {
			mantissa &= 0x7ff000 // few bits
		}
		return math.Float32frombits(r.Uint32()&0x80000000 | uint32(127-40+r.IntN(80))<<23 | mantissa)
	}
	for range 100000 {
		a, b, c := operand(), operand(), operand()
		switch r.IntN(4) {
		case 0: // an addend at the product's rounding boundary
			c = float32(float64(a)*float64(b)) * math.Float32frombits(uint32(127-24-r.IntN(3))<<23)
		case 1: // nearly cancels
			c = -float32(float64(a) * float64(b))
		}
		exact := new(big.Float).SetPrec(600).Add(new(big.Float).SetPrec(600).Mul(wide(a), wide(b)), wide(c))
		expected, _ := exact.Float32()
		require.Equal(t, bits(expected), bits(FMA(a, b, c)), "fma(%v, %v, %v)", a, b, c)
	}
}

func TestFMASpecial(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	require.Equal(t, inf, FMA(inf, 2, -1e30))
	require.Equal(t, -inf, FMA(1e30, 1e30, -inf))
	require.Equal(t, inf, FMA(3e38, 3e38, 1))
	require.True(t, FMA(inf, 0, 1) != FMA(inf, 0, 1))
	require.True(t, FMA(inf, 1, -inf) != FMA(inf, 1, -inf))
	require.True(t, FMA(1, 1, nan) != FMA(1, 1, nan))
	// The rounding to a subnormal happens once as well: 1.5 and a bit of the
	// smallest subnormal is two of it, not the even one of a tie.
	require.Equal(t, "00000002", bits(FMA(0x1p-100, 0x1.8p-49, 0x1p-149*0)))
	require.Equal(t, "00000001", bits(FMA(0x1p-100, 0x1.7ffffep-49, 0)))
}

// Every f16 value widens to the number that its fields say, and rounds back.
func TestF16(t *testing.T) {
	for h := range 0x10000 {
		v := F32FromF16(uint16(h))
		exponent, fraction := h>>10&31, float64(h&1023)
		if exponent == 31 && fraction != 0 {
			require.True(t, v != v)
			continue
		}
		magnitude := math.Ldexp(fraction, -24)
		if exponent > 0 {
			magnitude = math.Ldexp(1+fraction/1024, exponent-15)
		}
		if exponent == 31 {
			magnitude = math.Inf(1)
		}
		if h>>15 == 1 {
			magnitude = math.Copysign(magnitude, -1)
		}
		require.Equal(t, math.Float64bits(magnitude), math.Float64bits(float64(v)), "%04x", h)
		require.Equal(t, uint16(h), F16(v), "%04x", h)
	}
}

// Between neighbours, the nearer one wins and the even one on a tie.
func TestF16Rounding(t *testing.T) {
	for h := range 0x7bff {
		low, high := F32FromF16(uint16(h)), F32FromF16(uint16(h+1))
		middle := (low + high) / 2 // exact: one bit more than f16 has
		even := uint16(h + h&1)
		require.Equal(t, even, F16(middle), "%04x", h)
		require.Equal(t, uint16(h), F16(math.Nextafter32(middle, 0)), "%04x", h)
		require.Equal(t, uint16(h+1), F16(math.Nextafter32(middle, 1e9)), "%04x", h)
		require.Equal(t, even|0x8000, F16(-middle), "%04x", h)
	}
	require.Equal(t, uint16(0x7bff), F16(65519.996))
	require.Equal(t, uint16(0x7c00), F16(65520))
	require.Equal(t, uint16(0xfc00), F16(-3e38))
	require.Equal(t, uint16(0x7e00), F16(float32(math.NaN()))&0x7e00)
}

func TestBF16(t *testing.T) {
	for _, c := range []struct {
		from uint32
		to   uint16
	}{
		{0x3f800000, 0x3f80},
		{0x3f807fff, 0x3f80},
		{0x3f808000, 0x3f80}, // tie, to even
		{0x3f808001, 0x3f81},
		{0x3f818000, 0x3f82}, // tie, to even
		{0x7f7fffff, 0x7f80}, // overflows
		{0x00008001, 0x0001},
		{0x80000000, 0x8000},
		{0x7f800000, 0x7f80},
		{0x7f800001, 0x7fc0}, // a NaN stays one, quiet
		{0xffc12345, 0xffc1},
	} {
		require.Equal(t, c.to, BF16(math.Float32frombits(c.from)), "%08x", c.from)
	}
	require.Equal(t, float32(-1.5), F32FromBF16(0xbfc0))
}
