package quant_test

import (
	"testing"

	"minfer/engine/quant"
)

func BenchmarkRows(b *testing.B) {
	x := make([]float32, 4096)
	for i := range x {
		x[i] = noise(i)
	}
	for _, t := range allTypes {
		buf := make([]byte, t.RowBytes(len(x)))
		b.Run("quantize/"+t.String(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				quant.Quantize(t, buf, x)
			}
		})
		y := make([]float32, len(x))
		b.Run("dequantize/"+t.String(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				quant.Dequantize(t, y, buf)
			}
		})
	}
}
