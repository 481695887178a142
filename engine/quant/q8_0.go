package quant

// A Q8_0 block: 32 values as a signed byte times a half scale d. Layout: d
// f16, then 32 int8.
const q8_0Bytes = 34

// quantizeQ8_0 is the quantiser of weights: its multiplier is 1/d and halves
// round away from zero, unlike the one of activations (docs/numerics.md,
// sections 4 and 14).
func quantizeQ8_0(dst []byte, src []float32) {
	for ; len(src) > 0; src, dst = src[32:], dst[q8_0Bytes:] {
		_, amax := peak(src[:32])
		d := amax / 127
		id := inverse(d)
		putF16(dst, d)
		for i := range 32 {
			dst[2+i] = byte(roundAway(src[i] * id))
		}
	}
}

func dequantizeQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[q8_0Bytes:] {
		d := getF16(src)
		for i := range 32 {
			dst[i] = float32(int8(src[2+i])) * d
		}
	}
}
