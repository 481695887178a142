package kernel

import (
	"encoding/binary"
	"math"
)

// fma32 is x*y+z with one rounding. The product of two float32 is exact in
// float64; the float64 sum, rounded to float32, differs from the exact sum
// rounded once only where the float64 sum falls on a midpoint of float32 (or the
// result is subnormal in float32, where midpoints lie elsewhere): then the sum is
// first rounded to odd, which keeps the side of the midpoint it came from
// (section 10, Go hints). math.FMA would not help: it rounds to float64 first.
func fma32(x, y, z float32) float32 {
	s := float64(x)*float64(y) + float64(z)
	if doubtful(s) {
		return fma32Odd(x, y, z)
	}
	return float32(s)
}

// doubtful says that a float64 sum may be a midpoint of float32. Zero is among
// the small values that it cannot tell. Hot loops spell out fma32 with it, since
// the compiler does not inline the whole.
func doubtful(s float64) bool {
	b := math.Float64bits(s)
	return b&0x1fffffff == 0x10000000 || b<<1 < 0x381<<53
}

func fma32Odd(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	// TwoSum: e is the exact error of s. p is exact, so fusing changes nothing.
	t := s - p
	e := (p - (s - t)) + (c - t)
	if b := math.Float64bits(s); e != 0 && b&1 == 0 { // false for NaN sums; e is NaN for infinite ones
		if e != e {
			return float32(s)
		}
		if (e > 0) == (s > 0) {
			b++
		} else {
			b--
		}
		s = math.Float64frombits(b)
	}
	return float32(s)
}

// halfToFloat widens an IEEE half exactly. A finite half's exponent and
// mantissa, moved to float32's places, are off by a factor of 2^112, subnormals
// included; infinities and NaN come out at 65536 or more and get their exponent
// set.
func halfToFloat(h uint16) float32 {
	f := math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112
	b := math.Float32bits(f) | uint32(h&0x8000)<<16
	if f >= 65536 {
		b |= 0x7f800000
	}
	return math.Float32frombits(b)
}

// floatToHalf rounds to IEEE half, nearest even: overflow gives infinity,
// subnormals are kept, a NaN is quietened and keeps its top payload bits, as
// F16C does.
func floatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= 0x477ff000: // 65520 and more, halfway to the next power
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: adding 0.5 aligns the last place at 2^-24 and rounds there
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}

// floatToBfloat rounds to bfloat16, nearest even; a NaN is quietened.
func floatToBfloat(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 64
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func bfloatToFloat(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Loads of the i-th element of a little-endian row.

func f32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

func f16At(b []byte, i int) float32 { return halfToFloat(binary.LittleEndian.Uint16(b[2*i:])) }

func bf16At(b []byte, i int) float32 { return bfloatToFloat(binary.LittleEndian.Uint16(b[2*i:])) }

// hs8 is the horizontal sum of the quantised dots and of softmax (section 1).
func hs8(a *[8]float32) float32 {
	t0, t1, t2, t3 := a[0]+a[4], a[1]+a[5], a[2]+a[6], a[3]+a[7]
	return (t0 + t2) + (t1 + t3)
}

// ha8 is the horizontal sum of the f32 and f16 dots: not the same order as hs8.
func ha8(a *[8]float32) float32 {
	t0, t1, t2, t3 := a[0]+a[4], a[1]+a[5], a[2]+a[6], a[3]+a[7]
	return (t0 + t1) + (t2 + t3)
}

// combine32 adds four accumulators of eight lanes: (A0+A2) + (A1+A3).
func combine32(acc *[32]float32) (a [8]float32) {
	for l := range 8 {
		a[l] = (acc[l] + acc[16+l]) + (acc[8+l] + acc[24+l])
	}
	return a
}
