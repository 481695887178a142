package quant

import "encoding/binary"

// A Q5_1 block: 32 values as q times a half scale d plus a half minimum m.
// Layout: d f16, m f16, the fifth bits as in Q5_0, then 16 bytes of nibbles.
const q5_1Bytes = 24

func quantizeQ5_1(dst []byte, src []float32) {
	for ; len(src) > 0; src, dst = src[32:], dst[q5_1Bytes:] {
		lo, hi := extent(src[:32])
		d := (hi - lo) / 31
		id := inverse(d)
		putF16(dst, d)
		putF16(dst[2:], lo)
		var high uint32
		for i := range 16 {
			a := byte(truncate(float32((src[i]-lo)*id) + 0.5))
			b := byte(truncate(float32((src[i+16]-lo)*id) + 0.5))
			dst[8+i] = a&15 | b<<4
			high |= uint32(a>>4&1)<<i | uint32(b>>4&1)<<(i+16)
		}
		binary.LittleEndian.PutUint32(dst[4:], high)
	}
}

func dequantizeQ5_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[q5_1Bytes:] {
		d, m := getF16(src), getF16(src[2:])
		high := binary.LittleEndian.Uint32(src[4:])
		for i := range 16 {
			q := uint32(src[8+i])
			dst[i] = float32(float32(q&15|high>>i&1<<4)*d) + m
			dst[i+16] = float32(float32(q>>4|high>>(i+16)&1<<4)*d) + m
		}
	}
}
