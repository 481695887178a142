package quant

import "encoding/binary"

// A Q5_K block: 256 values in eight groups of 32. Layout: d f16, dmin f16, 12
// bytes of scales and minimums, 32 bytes whose byte i holds the fifth bit of
// element i of group g in bit g, then 128 bytes of nibbles as in Q4_K.
const q5_KBytes = 176

func quantizeQ5_K(dst []byte, src []float32) {
	var l [256]uint8
	for ; len(src) > 0; src, dst = src[256:], dst[q5_KBytes:] {
		d, dmin := scaleMinBlock(&l, dst[4:16], src[:256], 31, -0.5, 15)
		binary.LittleEndian.PutUint16(dst, d)
		binary.LittleEndian.PutUint16(dst[2:], dmin)
		high, qs := dst[16:48], dst[48:q5_KBytes]
		clear(high)
		for k := range 4 {
			for i := range 32 {
				a, b := l[64*k+i], l[64*k+32+i]
				qs[32*k+i] = a&15 | b<<4
				high[i] |= a>>4<<(2*k) | b>>4<<(2*k+1)
			}
		}
	}
}

func dequantizeQ5_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[q5_KBytes:] {
		d, dmin := getF16(src), getF16(src[2:])
		high, qs := src[16:48], src[48:q5_KBytes]
		for g := range 8 {
			sc, mn := scaleMin(src[4:16], g)
			ds, dm := float32(d*float32(sc)), float32(dmin*float32(mn))
			for i := range 32 {
				q := qs[32*(g/2)+i]>>(4*(g&1))&15 | high[i]>>g&1<<4
				dst[32*g+i] = float32(ds*float32(q)) - dm
			}
		}
	}
}
