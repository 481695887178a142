package quant

import (
	"encoding/binary"
	"math"
)

// A Q8_K block: 256 values as a signed byte times a float32 scale d. Layout:
// d f32, 256 int8, then 16 int16 sums of 16 consecutive bytes each. It is an
// activation type and never in a file.
const q8_KBytes = 292

// quantizeQ8_K writes the sums of a zero block too, which ggml leaves as they
// were in memory: they meet a zero scale wherever they are used.
func quantizeQ8_K(dst []byte, src []float32) {
	for ; len(src) > 0; src, dst = src[256:], dst[q8_KBytes:] {
		m, amax := peak(src[:256])
		if amax == 0 {
			clear(dst[:q8_KBytes])
			continue
		}
		iscale := -127 / m
		binary.LittleEndian.PutUint32(dst, math.Float32bits(1/iscale))
		for g := range 16 {
			var sum int16
			for i := 16 * g; i < 16*g+16; i++ {
				q := int8(min(127, nearest(iscale*src[i])))
				dst[4+i] = byte(q)
				sum += int16(q)
			}
			binary.LittleEndian.PutUint16(dst[260+2*g:], uint16(sum))
		}
	}
}

func dequantizeQ8_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[q8_KBytes:] {
		d := math.Float32frombits(binary.LittleEndian.Uint32(src))
		for i := range 256 {
			dst[i] = d * float32(int8(src[4+i]))
		}
	}
}
