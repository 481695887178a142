package exact

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
)

// Attn holds the shape of an attention.
type Attn struct {
	NHead, NHeadKV int
	HeadDim        int // of q and k
	HeadDimV       int // of v; 0 means HeadDim
	Scale          float32
	KV             gguf.Type // of the regions: F32 or F16
}

// AttnScale is 1/sqrt(headDim), rounded as ggml's caller rounds it.
func AttnScale(headDim int) float32 { return 1 / sqrt(float32(headDim)) }

// AttnParts are the values inside an attention, [cells] for each row and head.
// Cells above the row's position have exact zeros in Probs; their scores are
// what the region happens to hold.
type AttnParts struct {
	Scores [][][]float32 // [row][head][cell]: q.k before scaling ("kq")
	Probs  [][][]float32 // [row][head][cell] ("kq_soft_max")
	Out    []float32     // [HeadDimV*NHead, rows] ("kqv_out")
}

// padding is what llama.cpp rounds the number of cells up to. A smaller multiple
// of the dots' steps would differ in the sign of a zero at most (section 9), the
// exact number in more.
const padding = 256

// Attention is causal by position: row r of q [HeadDim*NHead, len(pos)] sees
// cells 0..pos[r] of the regions k [HeadDim*NHeadKV, cells] and v. The flow is
// that of section 9. In the sum over cells the accumulator's lane is chosen by
// the cell's index, as in a dot of one channel of transposed V.
func Attention(l Level, q []float32, k, v []byte, pos []int32, a Attn) (AttnParts, error) {
	if a.HeadDimV == 0 {
		a.HeadDimV = a.HeadDim
	}
	cells, err := a.check(q, k, v, pos)
	if err != nil {
		return AttnParts{}, fmt.Errorf("attention: %w", err)
	}
	dot := DotF32
	if a.KV == gguf.F16 {
		dot = DotF16
	}
	keys, values := widen(a.KV, k), widen(a.KV, v)
	kWidth, vWidth := a.HeadDim*a.NHeadKV, a.HeadDimV*a.NHeadKV
	padded := (cells + padding - 1) / padding * padding

	parts := AttnParts{Out: make([]float32, 0, len(pos)*a.NHead*a.HeadDimV)}
	for r := range pos {
		mask := make([]float32, padded)
		for c := int(pos[r]) + 1; c < padded; c++ {
			mask[c] = float32(math.Inf(-1))
		}
		var rowScores, rowProbs [][]float32
		for h := range a.NHead {
			kv := h / (a.NHead / a.NHeadKV)
			query := a.round(q[(r*a.NHead+h)*a.HeadDim : (r*a.NHead+h+1)*a.HeadDim])
			scores := make([]float32, padded)
			for c := range cells {
				scores[c] = dot(l, keys[c*kWidth+kv*a.HeadDim:c*kWidth+(kv+1)*a.HeadDim], query)
			}
			probs := SoftMax(l, scores, padded, a.Scale, mask)
			weights := a.round(probs)
			channel := make([]float32, padded)
			for i := range a.HeadDimV {
				for c := range cells {
					channel[c] = values[c*vWidth+kv*a.HeadDimV+i]
				}
				parts.Out = append(parts.Out, dot(l, channel, weights))
			}
			rowScores, rowProbs = append(rowScores, scores[:cells]), append(rowProbs, probs[:cells])
		}
		parts.Scores, parts.Probs = append(parts.Scores, rowScores), append(parts.Probs, rowProbs)
	}
	return parts, nil
}

// check returns the number of cells.
func (a Attn) check(q []float32, k, v []byte, pos []int32) (cells int, err error) {
	if a.KV != gguf.F32 && a.KV != gguf.F16 {
		return 0, fmt.Errorf("cache type %v: want f32 or f16", a.KV)
	}
	if a.HeadDim <= 0 || a.NHeadKV <= 0 || a.NHead <= 0 || a.NHead%a.NHeadKV != 0 {
		return 0, fmt.Errorf("%d heads of %d over %d KV heads: want a multiple", a.NHead, a.HeadDim, a.NHeadKV)
	}
	want("attention", "length of q", len(q), len(pos)*a.NHead*a.HeadDim)
	size := a.KV.RowBytes(a.HeadDim * a.NHeadKV)
	want("attention", "bytes of k modulo a row's", len(k)%size, 0)
	cells = len(k) / size
	want("attention", "bytes of v", len(v), cells*a.KV.RowBytes(a.HeadDimV*a.NHeadKV))
	for r, p := range pos {
		if p < 0 || int(p) >= cells {
			return 0, fmt.Errorf("row %d at position %d: want one of the %d cells", r, p, cells)
		}
	}
	return cells, nil
}

// round converts the second operand of a dot with the cache to its type.
func (a Attn) round(x []float32) []float32 {
	if a.KV == gguf.F32 {
		return x
	}
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = F32FromF16(F16(v))
	}
	return y
}
