package metalcase

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/refs"
)

// A bare product is the product of all of its rows, of which those after the 1021st
// recur, within the tolerance of a whole case and without edges.
func TestBareProduct(t *testing.T) {
	for _, c := range []MulMat{
		{Type: gguf.Q4_K, M: 2500, N: 3, K: 256, Bare: true},
		{Type: gguf.F16, M: 1021, N: 2, K: 36, Bare: true},
		{Type: gguf.Q8_0, M: 1022, N: 1, K: 64, Bare: true, Bias: true},
		{Type: gguf.Q4_0, M: 7, N: 2, K: 64, Bare: true},
	} {
		p, err := c.Build(rand.New(rand.NewPCG(1, 1)))
		require.NoError(t, err)
		require.Empty(t, p.Edges)
		w := p.Node.Weight
		require.Len(t, w.Data, c.M*c.Type.RowBytes(c.K))
		var x []float64
		for i := 0; i < len(p.In[0]); i += 4 {
			x = append(x, float64(math.Float32frombits(binary.LittleEndian.Uint32(p.In[0][i:]))))
		}
		want, err := refs.MatMul(refs.Matrix{Type: c.Type, In: c.K, Out: c.M, Data: w.Data}, x)
		require.NoError(t, err)
		if c.Bias {
			for i := range want {
				want[i] += float64(math.Float32frombits(binary.LittleEndian.Uint32(p.Node.Bias.Data[4*(i%c.M):])))
			}
		}
		require.Equal(t, want, p.Results[0].Want)
		terms, err := refs.MatMulTerms(refs.Matrix{Type: c.Type, In: c.K, Out: c.M, Data: w.Data}, x)
		require.NoError(t, err)
		require.InEpsilon(t, terms, p.Results[0].Terms[0], 0.02)
		row := c.Type.RowBytes(c.K)
		require.NotEqual(t, w.Data[:row], w.Data[row:2*row])
		if c.M > 1021 {
			require.Equal(t, w.Data[:row], w.Data[1021*row:1022*row])
			require.NotEqual(t, w.Data[:row], w.Data[1020*row:1021*row])
		}
	}
}
