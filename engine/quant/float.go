package quant

import (
	"encoding/binary"
	"math"
)

// F32 is stored as it is: a copy of the bits.

func quantizeF32(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
}

func dequantizeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func abs(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
}

// inverse is 1/d, or 0 for a zero of either sign.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// truncate rounds toward zero. NaN and values outside int32 give the smallest
// int32, as the x86 instruction does: Go leaves those conversions open, and
// blocks whose scale is subnormal do reach them (1/d is infinite there).
func truncate(x float32) int32 {
	if x >= -0x1p31 && x < 0x1p31 {
		return int32(x)
	}
	return math.MinInt32
}

// roundAway rounds to the nearest integer, halves away from zero; NaN and
// values outside int32 as in truncate. The addition is exact where it matters.
func roundAway(x float32) int32 {
	if !(x > -0x1p31 && x < 0x1p31) {
		return math.MinInt32
	}
	if x < 0 {
		return int32(float64(x) - 0.5)
	}
	return int32(float64(x) + 0.5)
}

// nearest rounds to the nearest integer, halves to even, by the carry out of
// an addition of 1.5*2^23. Outside +-4194303 the result wraps, as ggml's does:
// the low 23 bits of the sum are the contract, not the rounding. The conversion
// keeps a caller's product, inlined here, from being fused with the sum.
func nearest(x float32) int32 {
	return int32(math.Float32bits(float32(x)+12582912)&0x7fffff) - 0x400000
}

// peak gives the first element of the largest magnitude, with its sign, and
// that magnitude. Both are 0 for a block of zeros (of NaNs too).
func peak(x []float32) (signed, magnitude float32) {
	for _, v := range x {
		if a := abs(v); a > magnitude {
			magnitude, signed = a, v
		}
	}
	return signed, magnitude
}

// extent gives the smallest and the largest element. NaNs are passed over;
// a block of nothing else gives the identities of the two searches.
func extent(x []float32) (lo, hi float32) {
	lo, hi = math.MaxFloat32, -math.MaxFloat32
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}
