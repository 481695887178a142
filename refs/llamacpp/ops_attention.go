package llamacpp

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
)

// AttentionArgs are one token's attention over a filled cache. K and V are in
// this project's layout, [cell][NHeadKV*HeadDim] in KVType; llama.cpp's own
// transposed V cache and its padding of the cells to a multiple of 256, masked
// and zero, are made from them.
type AttentionArgs struct {
	KVType                  gguf.Type // F32 or F16
	HeadDim, NHead, NHeadKV int
	NKV                     int // cells
	K, V                    []byte
	Q                       []float32 // [NHead][HeadDim]
	Scale                   float32   // of the scores, 1/sqrt(HeadDim)
}

// AttentionResult has every intermediate value, without the padding.
type AttentionResult struct {
	KQ      []float32 // [NHead][NKV], before the scale
	SoftMax []float32 // [NHead][NKV]
	Out     []float32 // [NHead][HeadDim]
}

// Attention computes one token's attention as llama.cpp's graph does with flash
// attention off (docs/numerics.md section 9): mul_mat, soft_max, mul_mat. Each
// query head is a product of its own, as in the model graph.
func (l *Lib) Attention(a AttentionArgs) (*AttentionResult, error) {
	switch {
	case a.KVType != gguf.F32 && a.KVType != gguf.F16:
		return nil, fmt.Errorf("attention: KV type %v: want f32 or f16", a.KVType)
	case a.HeadDim <= 0 || a.NHead <= 0 || a.NHeadKV <= 0 || a.NHead%a.NHeadKV != 0:
		return nil, fmt.Errorf("attention: %d heads of %d over %d KV heads: want a whole number of heads for each", a.NHead, a.HeadDim, a.NHeadKV)
	case a.NKV <= 0:
		return nil, fmt.Errorf("attention: %d cells: want a positive number", a.NKV)
	case len(a.Q) != a.NHead*a.HeadDim:
		return nil, fmt.Errorf("attention: %d elements of Q for %d heads of %d", len(a.Q), a.NHead, a.HeadDim)
	}
	width, size := a.NHeadKV*a.HeadDim, a.KVType.BlockBytes()
	if want := a.NKV * width * size; len(a.K) != want || len(a.V) != want {
		return nil, fmt.Errorf("attention: %d and %d bytes of K and V for %d cells of %d %v: want %d", len(a.K), len(a.V), a.NKV, width, a.KVType, want)
	}
	cells := (a.NKV + 255) / 256 * 256
	// K as [kv head][cell][dim], V as [kv head][dim][cell].
	k, v := make([]byte, cells*width*size), make([]byte, cells*width*size)
	for cell := range a.NKV {
		for c := range width {
			from := (cell*width + c) * size
			h, d := c/a.HeadDim, c%a.HeadDim
			copy(k[((h*cells+cell)*a.HeadDim+d)*size:], a.K[from:from+size])
			copy(v[(c*cells+cell)*size:], a.V[from:from+size])
		}
	}
	mask := make([]float32, cells)
	for i := a.NKV; i < cells; i++ {
		mask[i] = negInf
	}
	out, err := l.run(2*len(k)+4*(2*len(a.Q)+cells*(2*a.NHead+1)), func(g *opGraph) []*tensor {
		kt := g.bytes(a.KVType, k, a.HeadDim, cells, a.NHeadKV)
		vt := g.bytes(a.KVType, v, cells, a.HeadDim, a.NHeadKV)
		kq := l.fn.GGMLMulMat(g.ctx, kt, g.floats(a.Q, a.HeadDim, 1, a.NHead))
		sm := l.fn.GGMLSoftMaxExt(g.ctx, kq, g.floats(mask, cells, 1), a.Scale, 0)
		return []*tensor{kq, sm, l.fn.GGMLMulMat(g.ctx, vt, sm)}
	})
	if err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	cut := func(b []byte) (rows []float32) {
		x := float32s(gguf.F32, b)
		for h := range a.NHead {
			rows = append(rows, x[h*cells:h*cells+a.NKV]...)
		}
		return rows
	}
	return &AttentionResult{KQ: cut(out[0]), SoftMax: cut(out[1]), Out: float32s(gguf.F32, out[2])}, nil
}

var negInf = float32(math.Inf(-1))
