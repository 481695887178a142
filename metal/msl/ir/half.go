package ir

import "math"

// F16ToF32 widens half bits; exact.
func F16ToF32(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case exp == 0: // man * 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(man)*0x1p-24))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// F32ToF16 rounds to half, nearest even. A NaN stays a quiet NaN.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	a := b & 0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00 | uint16(a>>13)&0x3ff
	case a >= 0x47800000: // 65536 and above, infinity
		return sign | 0x7c00
	case a < 0x38800000: // below 2^-14: a multiple of 2^-24, which adding 0.5 rounds to
		r := math.Float32bits(math.Float32frombits(a) + 0.5)
		return sign | uint16(r-0x3f000000)
	}
	a += 0xfff + a>>13&1 // to nearest even; a carry goes into the exponent
	return sign | uint16((a-0x38000000)>>13)
}

// BF16ToF32 widens bfloat bits; exact.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to bfloat, nearest even. A NaN stays a quiet NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// Float gives the value of a float constant's bits.
func (t Type) Float(bits uint64) float32 {
	switch t {
	case F16:
		return F16ToF32(uint16(bits))
	case BF16:
		return BF16ToF32(uint16(bits))
	}
	return math.Float32frombits(uint32(bits))
}

// FloatBits rounds a value to the float type and gives its bits.
func (t Type) FloatBits(f float32) uint64 {
	switch t {
	case F16:
		return uint64(F32ToF16(f))
	case BF16:
		return uint64(F32ToBF16(f))
	}
	return uint64(math.Float32bits(f))
}
