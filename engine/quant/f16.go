package quant

import (
	"encoding/binary"
	"math"
)

// F16 rounds x to IEEE half precision, to the nearest and halves to even.
// Magnitudes from 65520 up become infinite, small ones subnormal or a signed
// zero; any NaN becomes the quiet NaN 0x7e00 with the sign of x.
func F16(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 2^16 and more, infinity included
		return sign | 0x7c00
	case b >= 0x38800000: // 2^-14: a normal half, or a carry into infinity
		// Re-bias the exponent from 127 to 15; the carry out of the mantissa
		// moves on into the exponent, which is what rounding up needs.
		return sign | uint16((b-(112<<23)+0xfff+(b>>13&1))>>13)
	case b <= 0x33000000: // up to 2^-25, half of the smallest subnormal (a tie: to even)
		return sign
	}
	shift := 126 - b>>23 // 14 to 24 bits of the significand fall off
	m := b&0x7fffff | 0x800000
	return sign | uint16((m+(1<<(shift-1)-1)+(m>>shift&1))>>shift)
}

// F32FromF16 widens a half, exactly. A NaN keeps its sign and payload and
// becomes quiet.
func F32FromF16(h uint16) float32 { return f16Table[h] }

// f16Table holds the value of every half: a table beats the branches of the
// conversion in every row function.
var f16Table = func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for h := range t {
		t[h] = widenF16(uint16(h))
	}
	return t
}()

func widenF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, man := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		v := float32(man) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(v))
	case 31:
		if man != 0 {
			man |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

func putF16(dst []byte, x float32) { binary.LittleEndian.PutUint16(dst, F16(x)) }

func getF16(src []byte) float32 { return F32FromF16(binary.LittleEndian.Uint16(src)) }

func quantizeF16(dst []byte, src []float32) {
	for i, x := range src {
		putF16(dst[2*i:], x)
	}
}

func dequantizeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = getF16(src[2*i:])
	}
}
