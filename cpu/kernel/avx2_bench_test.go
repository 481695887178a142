package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// medianCall runs f and returns the seconds of the median call: the mean would
// measure what else the machine does.
func medianCall(b *testing.B, f func()) float64 {
	var ds []time.Duration
	for b.Loop() {
		t := time.Now()
		f()
		ds = append(ds, time.Since(t))
	}
	slices.Sort(ds)
	return ds[len(ds)/2].Seconds()
}

// BenchmarkRows reports the rate of reading weights and of multiply-adds; four
// activation rows at once (mv4) count the weights once and the multiply-adds four
// times. small fits in the second-level cache, large does not.
func BenchmarkRows(b *testing.B) {
	for _, tab := range levels(b) {
		for _, typ := range weightTypes {
			for _, shape := range []struct {
				name    string
				rows, n int
			}{{"small", 64, 896}, {"896x896", 896, 896}, {"4864x896", 4864, 896}, {"896x4864", 896, 4864}} {
				n := shape.n / typ.BlockSize() * typ.BlockSize()
				rng := rand.New(rand.NewPCG(1, 1))
				stride, act := typ.RowBytes(n), tab.Weights[typ].Act
				w := make([]byte, stride*shape.rows)
				row := matrix(typ, n, 8, stride, rng, randomQuants, randomScales)
				for i := 0; i < len(w); i += len(row) {
					copy(w[i:], row)
				}
				a := matrix(act, n, 4, act.RowBytes(n), rng, randomQuants, randomScales)
				dst := make([]float32, 4*shape.rows)
				rate := func(b *testing.B, tokens int, f func()) {
					t := medianCall(b, f)
					b.ReportMetric(float64(len(w))/t/1e9, "GB/s")
					b.ReportMetric(float64(tokens*n*shape.rows)/t/1e9, "Gmac/s")
				}
				b.Run(fmt.Sprintf("%s/%v/%s/mv", tab.Name, typ, shape.name), func(b *testing.B) {
					rate(b, 1, func() { tab.Weights[typ].MatVec(dst[:shape.rows], w, stride, a, n) })
				})
				if mv4 := tab.Weights[typ].MatVec4; mv4 != nil {
					b.Run(fmt.Sprintf("%s/%v/%s/mv4", tab.Name, typ, shape.name), func(b *testing.B) {
						rate(b, 4, func() { mv4(dst, shape.rows, w, stride, shape.rows, a, act.RowBytes(n), n) })
					})
				}
			}
		}
	}
}
