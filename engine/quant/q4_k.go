package quant

import "encoding/binary"

// A Q4_K block: 256 values in eight groups of 32. Layout: d f16, dmin f16, 12
// bytes of scales and minimums, then 128 bytes of nibbles: bytes 32k..32k+31
// hold group 2k in their low and group 2k+1 in their high nibbles.
const q4_KBytes = 144

func quantizeQ4_K(dst []byte, src []float32) {
	var l [256]uint8
	for ; len(src) > 0; src, dst = src[256:], dst[q4_KBytes:] {
		d, dmin := scaleMinBlock(&l, dst[4:16], src[:256], 15, -1, 20)
		binary.LittleEndian.PutUint16(dst, d)
		binary.LittleEndian.PutUint16(dst[2:], dmin)
		qs := dst[16:q4_KBytes]
		for k := range 4 {
			for i := range 32 {
				qs[32*k+i] = l[64*k+i] | l[64*k+32+i]<<4
			}
		}
	}
}

func dequantizeQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[q4_KBytes:] {
		d, dmin := getF16(src), getF16(src[2:])
		qs := src[16:q4_KBytes]
		for g := range 8 {
			sc, mn := scaleMin(src[4:16], g)
			ds, dm := float32(d*float32(sc)), float32(dmin*float32(mn))
			for i := range 32 {
				q := qs[32*(g/2)+i] >> (4 * (g & 1)) & 15
				dst[32*g+i] = float32(ds*float32(q)) - dm
			}
		}
	}
}
