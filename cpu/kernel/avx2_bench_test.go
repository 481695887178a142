package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"minfer/engine/gguf"
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

// BenchmarkOps measures the other kernels at the shapes of a 0.5B model: ns/elem
// per element of the input, or for attention per multiply-add.
func BenchmarkOps(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := normal(rng, 8*4864, 1), normal(rng, 8*4864, 1)
	dst, bytes := make([]float32, 8*4864), make([]byte, 4*8*4864)
	const cells, d = 1024, 64
	v := make([]byte, cells*4*2*d)
	p := normal(rng, cells, 0.01)
	scratch, cs := make([]float32, 32*d), normal(rng, d, 1)
	for _, tab := range levels(b) {
		half := make([]byte, 2*d)
		tab.Quantize[gguf.F16](half, x[:d])
		for _, op := range []struct {
			name string
			work int
			f    func()
		}{
			{"quantize/q8_0/896", 896, func() { tab.Quantize[gguf.Q8_0](bytes, x[:896]) }},
			{"quantize/q8_1/896", 896, func() { tab.Quantize[gguf.Q8_1](bytes, x[:896]) }},
			{"quantize/q8_K/1024", 1024, func() { tab.Quantize[gguf.Q8_K](bytes, x[:1024]) }},
			{"quantize/f16/896", 896, func() { tab.Quantize[gguf.F16](bytes, x[:896]) }},
			{"quantize/bf16/896", 896, func() { tab.Quantize[gguf.BF16](bytes, x[:896]) }},
			{"add/896", 896, func() { tab.Add(dst[:896], x[:896], y[:896]) }},
			{"rms_norm/1x896", 896, func() { tab.RmsNorm(dst[:896], x[:896], y[:896], 896, 1e-6) }},
			{"rms_norm/8x896", 8 * 896, func() { tab.RmsNorm(dst[:8*896], x[:8*896], y[:896], 896, 1e-6) }},
			{"soft_max/1024", 1024, func() { copy(dst, x[:1024]); tab.SoftMax(dst[:1024], 1000, 0.125) }},
			{"swiglu/4864", 4864, func() { tab.SwiGLU(dst[:4864], x[:4864], y[:4864]) }},
			{"rope/14x64", 14 * d, func() { tab.RopeNeox(dst[:14*d], x[:14*d], d, cs) }},
			{"kq/f32/1024x64", cells * d, func() { tab.Weights[gguf.F32].MatVec(dst[:cells], v, 8*d, floatBytes(x[:d]), d) }},
			{"kq/f16/1024x64", cells * d, func() { tab.Weights[gguf.F16].MatVec(dst[:cells], v, 4*d, half, d) }},
			{"attn_v/f32/1024x64", cells * d, func() { tab.AttnVF32(dst[:d], v, 8*d, p, cells, scratch) }},
			{"attn_v/f16/1024x64", cells * d, func() { tab.AttnVF16(dst[:d], v, 4*d, p, cells, scratch) }},
		} {
			b.Run(tab.Name+"/"+op.name, func(b *testing.B) {
				b.ReportMetric(medianCall(b, op.f)/float64(op.work)*1e9, "ns/elem")
			})
		}
	}
}
