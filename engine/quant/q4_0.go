package quant

// A Q4_0 block: 32 values as q-8 times a half scale d. Layout: d f16, then 16
// bytes, byte i holding element i in its low and element 16+i in its high nibble.
const q4_0Bytes = 18

func quantizeQ4_0(dst []byte, src []float32) {
	for ; len(src) > 0; src, dst = src[32:], dst[q4_0Bytes:] {
		m, _ := peak(src[:32])
		d := m / -8 // -0 for a zero block, and stored so
		id := inverse(d)
		putF16(dst, d)
		for i := range 16 {
			lo := min(15, int8(truncate(float32(src[i]*id)+8.5)))
			hi := min(15, int8(truncate(float32(src[i+16]*id)+8.5)))
			dst[2+i] = byte(lo) | byte(hi)<<4
		}
	}
}

func dequantizeQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[q4_0Bytes:] {
		d := getF16(src)
		for i := range 16 {
			q := int(src[2+i])
			dst[i] = float32(q&15-8) * d
			dst[i+16] = float32(q>>4-8) * d
		}
	}
}
