package ops

import (
	"maps"
	"math/rand/v2"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/quant"
	"minfer/suites/onenode"
)

// floats draws n activations in rows of d: normal values, the rows of very
// different size, with whole blocks of zeros, single zeros and single peaks, as
// they decide a block's scale.
func floats(r *rand.Rand, n, d int) []float32 {
	x := make([]float32, n)
	scale := float32(1)
	for i := range x {
		if i%d == 0 {
			scale = [...]float32{1, 1, 1e-3, 30}[r.IntN(4)]
		}
		x[i] = float32(r.NormFloat64()) * scale
		switch r.IntN(97) {
		case 0:
			x[i] = 0
		case 1:
			x[i] *= 20
		}
	}
	for i := 0; i+32 <= n; i += 32 {
		if r.IntN(13) == 0 {
			clear(x[i : i+32])
		}
	}
	return x
}

// positions draws n positions below limit, in no order, repeats allowed.
func positions(r *rand.Rand, n, limit int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(r.IntN(limit))
	}
	return p
}

// weights draws rows of d weights of a type around zero.
func weights(r *rand.Rand, t gguf.Type, d, rows int) ([]byte, error) {
	return onenode.Weights(r, t, d, rows, func(r *rand.Rand) float32 { return float32(r.NormFloat64()) * 0.1 })
}

func f16(h uint16) float32 { return quant.F32FromF16(h) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
