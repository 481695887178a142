package refs

import (
	"fmt"
	"math"
)

// Attn holds the shape of an attention.
type Attn struct {
	NHead, NHeadKV int
	HeadDim        int // of q and k
	HeadDimV       int // of v; 0 means HeadDim
	Scale          float64
}

// AttnParts are the values inside an attention, for row r and query head h:
// Scores and Probs have nCells entries (the cells above the row's position are
// -Inf and 0).
type AttnParts struct {
	Scores [][][]float64 // [row][head][cell], q.k before scaling
	Probs  [][][]float64 // [row][head][cell]
	Out    []float64     // [HeadDimV*NHead, rows]
	// RMS of the products that the two dot products add up, over visible cells.
	ScoreTerms, OutTerms float64
}

// Attention is causal by position: the cell index is the position, and row r of
// q [HeadDim*NHead, len(pos)] sees cells 0..pos[r] of k [HeadDim*NHeadKV, cells]
// and v [HeadDimV*NHeadKV, cells]. Query head h reads KV head h/(NHead/NHeadKV).
// Values that a cache has rounded come in rounded: see [RoundKV].
func Attention(q, k, v []float64, pos []int32, a Attn) (AttnParts, error) {
	if a.HeadDimV == 0 {
		a.HeadDimV = a.HeadDim
	}
	if a.NHeadKV <= 0 || a.NHead <= 0 || a.NHead%a.NHeadKV != 0 {
		return AttnParts{}, fmt.Errorf("attention: %d heads over %d KV heads: want a multiple", a.NHead, a.NHeadKV)
	}
	rows, width := len(pos), a.HeadDim*a.NHead
	want("attention", "length of q", len(q), rows*width)
	kWidth, vWidth := a.HeadDim*a.NHeadKV, a.HeadDimV*a.NHeadKV
	cells := rowsOf("attention", len(k), kWidth)
	want("attention", "length of v", len(v), cells*vWidth)
	for r, p := range pos {
		if p < 0 || int(p) >= cells {
			return AttnParts{}, fmt.Errorf("attention: row %d at position %d: want one of the %d cells", r, p, cells)
		}
	}

	parts := AttnParts{Out: make([]float64, rows*a.HeadDimV*a.NHead)}
	var scores2, outs2 squares
	for r := range rows {
		var rowScores, rowProbs [][]float64
		for h := range a.NHead {
			kv := h / (a.NHead / a.NHeadKV)
			query := q[r*width+h*a.HeadDim : r*width+(h+1)*a.HeadDim]
			scores := make([]float64, cells)
			mask := make([]float64, cells)
			for c := range cells {
				key := k[c*kWidth+kv*a.HeadDim : c*kWidth+(kv+1)*a.HeadDim]
				scores[c] = dot(query, key)
				if c > int(pos[r]) {
					mask[c] = math.Inf(-1)
					continue
				}
				for i := range query {
					scores2.add(query[i] * key[i])
				}
			}
			probs := SoftMax(scores, cells, a.Scale, mask)
			for c := int(pos[r]) + 1; c < cells; c++ {
				scores[c] = math.Inf(-1)
			}
			for i := range a.HeadDimV {
				sum := 0.0
				for c := 0; c <= int(pos[r]); c++ {
					term := probs[c] * v[c*vWidth+kv*a.HeadDimV+i]
					sum += term
					outs2.add(term)
				}
				parts.Out[(r*a.NHead+h)*a.HeadDimV+i] = sum
			}
			rowScores, rowProbs = append(rowScores, scores), append(rowProbs, probs)
		}
		parts.Scores, parts.Probs = append(parts.Scores, rowScores), append(parts.Probs, rowProbs)
	}
	parts.ScoreTerms, parts.OutTerms = scores2.rootMean(), outs2.rootMean()
	return parts, nil
}

// squares adds up the squares of values.
type squares struct {
	sum float64
	n   int
}

func (s *squares) add(v float64) {
	s.sum += v * v
	s.n++
}

func (s *squares) rootMean() float64 {
	if s.n == 0 {
		return 0
	}
	return math.Sqrt(s.sum / float64(s.n))
}

// rootMean is the root of the mean of squares that are squared already.
func rootMean(squares []float64) float64 {
	if len(squares) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range squares {
		sum += v
	}
	return math.Sqrt(sum / float64(len(squares)))
}
