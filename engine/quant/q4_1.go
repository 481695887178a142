package quant

// A Q4_1 block: 32 values as q times a half scale d plus a half minimum m.
// Layout: d f16, m f16, then 16 bytes of nibbles as in Q4_0.
const q4_1Bytes = 20

func quantizeQ4_1(dst []byte, src []float32) {
	for ; len(src) > 0; src, dst = src[32:], dst[q4_1Bytes:] {
		lo, hi := extent(src[:32])
		d := (hi - lo) / 15
		id := inverse(d)
		putF16(dst, d)
		putF16(dst[2:], lo)
		for i := range 16 {
			a := min(15, int8(truncate(float32((src[i]-lo)*id)+0.5)))
			b := min(15, int8(truncate(float32((src[i+16]-lo)*id)+0.5)))
			dst[4+i] = byte(a) | byte(b)<<4
		}
	}
}

func dequantizeQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[q4_1Bytes:] {
		d, m := getF16(src), getF16(src[2:])
		for i := range 16 {
			q := src[4+i]
			dst[i] = float32(float32(q&15)*d) + m
			dst[i+16] = float32(float32(q>>4)*d) + m
		}
	}
}
