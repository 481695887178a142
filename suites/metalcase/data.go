package metalcase

import (
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/quant"
	"minfer/refs"
	"minfer/suites/onenode"
)

// Data are drawn so that faults show: no value is near zero, and values at the
// edges of tiles are peaks.

// peak is how much larger a value at an edge is.
const peak = 4

// edge says whether element i of n lies at an edge: of the whole, of a tile of
// 32, or of a vector of 4 at the end.
func edge(i, n int) bool { return i%32 == 0 || i%32 == 31 || i == n-1 || i == n&^3 }

// signed draws a number of size 0.5 to 1, of either sign.
func signed(r *rand.Rand) float64 {
	v := 0.5 + r.Float64()/2
	if r.IntN(2) == 0 {
		return -v
	}
	return v
}

// activations draws rows of d values of size 0.5 to 1, with peaks at the edges.
func activations(r *rand.Rand, d, rows int) []float32 {
	x := make([]float32, d*rows)
	for i := range x {
		v := signed(r)
		if edge(i%d, d) {
			v *= peak
		}
		x[i] = float32(v)
	}
	return x
}

// weightSize is about the largest weight of the cases that say nothing else.
const weightSize = 0.1

// weights draws rows of d weights of a type, none of them near zero where the
// quantiser made them.
func weights(r *rand.Rand, t gguf.Type, d, rows int) ([]byte, error) {
	return weightsOf(r, t, d, rows, weightSize)
}

// weightsOf is weights of half to all of a size.
func weightsOf(r *rand.Rand, t gguf.Type, d, rows int, size float64) ([]byte, error) {
	return onenode.Weights(r, t, d, rows, func(r *rand.Rand) float32 { return float32(signed(r) * size) })
}

// stored rounds values to a type of plain numbers or a cache's and gives their
// bytes and what they decode to.
func stored(t gguf.Type, x []float32) ([]byte, []float64, error) {
	n := len(x) / t.BlockSize() * t.BlockBytes()
	data := make([]byte, n)
	if err := quant.Quantize(t, data, x); err != nil {
		return nil, nil, err
	}
	values, err := refs.Dequantize(t, data, len(x))
	return data, values, err
}

// distinct draws n different numbers below limit.
func distinct(r *rand.Rand, n, limit int) []int32 {
	p := make([]int32, n)
	for i, v := range r.Perm(limit)[:n] {
		p[i] = int32(v)
	}
	return p
}

// vector is a weight of one dimension.
func vector(name string, x []float32) *graph.Weight {
	return &graph.Weight{Name: name, Type: gguf.F32, Shape: graph.Vec(len(x)), Data: onenode.FloatBytes(x)}
}

func product(dims ...int) int64 {
	p := int64(1)
	for _, d := range dims {
		p *= int64(d)
	}
	return p
}

// largest is the index of the value of largest size among those from start on, in
// steps; -1 for none.
func largest(x []float64, start, step int) int {
	best := -1
	for i := start; i < len(x); i += step {
		if best < 0 || math.Abs(x[i]) > math.Abs(x[best]) {
			best = i
		}
	}
	return best
}

// eachSize gives the sizes of values.
func eachSize(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Abs(v)
	}
	return y
}
