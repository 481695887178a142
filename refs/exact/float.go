package exact

import (
	"encoding/binary"
	"math"
)

// FMA is a*b + c with one rounding. The product of two float32 is exact in
// float64, so there is one rounding too many, that of the sum to float64. It does
// harm only where its result lies half way between two float32, which the exact
// sum may have missed by a little.
func FMA(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	const below = 1<<29 - 1 // the bits that float32 has not, of a normal number
	if math.Float64bits(s)&below != 1<<28 && math.Abs(s) >= 0x1p-126 {
		return float32(s)
	}
	return roundToOdd(p, q, s)
}

// roundToOdd rounds p + q, of which s is the nearest float64, once: to odd in
// float64 and then to float32.
func roundToOdd(p, q, s float64) float32 {
	// e is exactly what s has lost (Knuth's TwoSum); one bit towards it, if the last
	// bit is even, puts s on the right side of the middle.
	t := s - p
	e := (p - (s - t)) + (q - t)
	if bits := math.Float64bits(s); bits&1 == 0 && (e > 0 || e < 0) {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

// F16 rounds to IEEE 754 binary16, nearest even: overflow from 65520 on gives
// infinity, subnormals are kept, a NaN becomes a quiet NaN (section 2).
func F16(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	switch a := math.Abs(float64(x)); {
	case a != a:
		return sign | 0x7e00 | uint16(bits>>13&0x1ff)
	case a >= 65520:
		return sign | 0x7c00
	case a < 0x1p-14:
		// Subnormal: a count of 2^-24. 1024 of them carry into the exponent.
		return sign | uint16(math.RoundToEven(a*0x1p24))
	default:
		fraction, exponent := math.Frexp(a) // a = fraction * 2^exponent, fraction in [0.5, 1)
		// fraction*2048 counts 1024..2048; the carry of a full 2048 is right.
		return sign | uint16(int(math.RoundToEven(fraction*2048))-1024+(exponent+14)<<10)
	}
}

// F32FromF16 widens, exactly.
func F32FromF16(h uint16) float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&1023)
	switch exponent {
	case 0: // zero or subnormal: a count of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent-15+127)<<23 | fraction<<13)
}

// BF16 rounds to the upper half of a float32, nearest even; a NaN stays one and
// becomes quiet.
func BF16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// F32FromBF16 widens, exactly.
func F32FromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// roundEven rounds to the nearest integer, ties to even.
func roundEven(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

// Little-endian access to blocks.

func u16(b []byte) uint16        { return binary.LittleEndian.Uint16(b) }
func u32(b []byte) uint32        { return binary.LittleEndian.Uint32(b) }
func f32(b []byte) float32       { return math.Float32frombits(u32(b)) }
func f16(b []byte) float32       { return F32FromF16(u16(b)) }
func putU16(b []byte, v uint16)  { binary.LittleEndian.PutUint16(b, v) }
func putF32(b []byte, v float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(v)) }

// Bytes gives the little-endian bytes of float32 values: F32 rows and hashes.
func Bytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		putF32(b[4*i:], v)
	}
	return b
}

// Floats is the inverse of Bytes.
func Floats(b []byte) []float32 {
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = f32(b[4*i:])
	}
	return x
}
