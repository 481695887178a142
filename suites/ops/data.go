package ops

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/quant"
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

// scaleBytes says which bytes of a block hold its scales: the rest may take any
// value.
var scaleBytes = map[gguf.Type][2]int{
	gguf.Q4_0: {0, 2}, gguf.Q4_1: {0, 4}, gguf.Q5_0: {0, 2}, gguf.Q5_1: {0, 4}, gguf.Q8_0: {0, 2},
	gguf.Q4_K: {0, 4}, gguf.Q5_K: {0, 4}, gguf.Q6_K: {208, 210},
}

// weights draws rows of d weights of a type. Every other row keeps what the
// quantiser made; in the rest all bytes but the scales are random, since a
// kernel must read every bit pattern and quantisers leave some out.
func weights(r *rand.Rand, t gguf.Type, d, rows int) ([]byte, error) {
	x := make([]float32, d*rows)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.1
	}
	data := make([]byte, rows*t.RowBytes(d))
	if err := quant.Quantize(t, data, x); err != nil {
		return nil, err
	}
	keep, packed := scaleBytes[t]
	if !packed {
		return data, nil
	}
	rowBytes, block := t.RowBytes(d), t.BlockBytes()
	for row := 1; row < rows; row += 2 {
		for i := row * rowBytes; i < (row+1)*rowBytes; i++ {
			if at := i % rowBytes % block; at < keep[0] || at >= keep[1] {
				data[i] = byte(r.Uint32())
			}
		}
	}
	return data, nil
}

func floatBytes(x []float32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
	return b
}

func intBytes(x []int32) []byte {
	b := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
	}
	return b
}

func f16(h uint16) float32 { return quant.F32FromF16(h) }

// input is a node that stands for a value the case provides.
func input(name string, t gguf.Type, shape graph.Shape) *graph.Node {
	return &graph.Node{Op: graph.Input, Name: name, Layer: -1, Type: t, Shape: shape}
}

// single makes a node under test.
func single(op graph.Op, shape graph.Shape, in ...*graph.Node) *graph.Node {
	for i, n := range in {
		n.ID = i
	}
	return &graph.Node{ID: len(in), Op: op, Name: op.String(), Layer: 0, Type: gguf.F32, Shape: shape, In: in}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
