package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
)

// A proof ends with what was shown to it; what was not, and everything once a result is
// not finite, is read.
func TestProof(t *testing.T) {
	const spoilt, want = "blk.1.ffn_gate.weight", "m.gguf: tensor blk.1.ffn_gate.weight: value 95 is +Inf, want a finite number"
	inf := float32(math.Inf(1))
	// results of the product of a matrix, the last of them given.
	results := func(w *graph.Weight, last float32) []float32 {
		y := make([]float32, w.Shape[1])
		y[len(y)-1] = last
		return y
	}
	open := func(bad bool) (m *model.Model, matrices []*graph.Weight) {
		f := base("qwen2")
		f.add("output.weight", 8, 5)
		if bad {
			f.put(gguf.BytesSpec(spoilt, gguf.F32, []int{8, 12}, append(floats(95, 1), floats(1, inf)...)))
		}
		g := f.open(t)
		_, err := model.Load(g)
		m, unread := model.LoadUnread(g)
		require.NoError(t, unread)
		if bad {
			require.EqualError(t, err, want)
			require.EqualError(t, m.CheckFinite(), want)
		} else {
			require.NoError(t, err)
			require.NoError(t, m.CheckFinite())
		}
		for _, w := range m.Weights() {
			if w.Shape[1] > 1 {
				matrices = append(matrices, w)
			}
		}
		require.Len(t, matrices, 2+2*7)
		return m, matrices
	}

	m, matrices := open(true)
	for left, last := range matrices {
		p := m.Prove()
		for i, w := range matrices {
			require.True(t, p.Wants(w))
			if i != left {
				require.NoError(t, p.Product(w, results(w, 1)))
				require.False(t, p.Wants(w))
			}
		}
		require.NoError(t, p.Product(last, results(last, 1)[1:]), "not all rows")
		require.True(t, p.Wants(last))
		for range 2 {
			if err := p.Finish(); last.Name == spoilt {
				require.EqualError(t, err, want)
			} else {
				require.NoError(t, err, "what was shown is believed")
			}
			require.False(t, p.Wants(last))
		}
	}
	for _, v := range []float32{inf, -inf, float32(math.NaN())} {
		for _, w := range matrices { // for whatever reason
			p := m.Prove()
			require.EqualError(t, p.Product(w, results(w, v)), want)
			require.EqualError(t, p.Product(matrices[0], results(matrices[0], 1)), want)
			require.EqualError(t, p.Finish(), want)
		}
	}

	// Arithmetic may overflow over sound weights.
	m, matrices = open(false)
	p := m.Prove()
	require.NoError(t, p.Product(matrices[1], results(matrices[1], inf)))
	for _, w := range matrices {
		require.False(t, p.Wants(w))
	}
	require.NoError(t, p.Finish())
}
