package kernel

import (
	"testing"

	"minfer/engine/quant"
)

// BenchmarkMatVec multiplies 64 rows of 1024, a tile that stays in cache.
func BenchmarkMatVec(b *testing.B) {
	const rows, n = 64, 1024
	for _, tab := range levels(b) {
		for typ, w := range tab.Weights {
			b.Run(tab.Name+"/"+typ.String(), func(b *testing.B) {
				row := typ.RowBytes(n)
				data := make([]byte, rows*row)
				if err := quant.Quantize(typ, data, lcg(1, rows*n, 4096)); err != nil {
					b.Fatal(err)
				}
				act := make([]byte, w.Act.RowBytes(n))
				tab.Quantize[w.Act](act, lcg(2, n, 4096))
				dst := make([]float32, rows)
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					w.MatVec(dst, data, row, act, n)
				}
				b.ReportMetric(float64(rows*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gmadd/s")
			})
		}
	}
}
