package quant

import (
	"encoding/binary"
	"math"
)

// BF16 rounds x to the upper half of a float32, to the nearest and halves to
// even; a carry may reach infinity. A NaN keeps its sign and upper payload and
// becomes quiet.
func BF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + (b >> 16 & 1)) >> 16)
}

// F32FromBF16 widens, exactly and with NaN payloads as they are.
func F32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func quantizeBF16(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], BF16(x))
	}
}

func dequantizeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = F32FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
