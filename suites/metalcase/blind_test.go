package metalcase

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal"
	"minfer/refs"
)

func build(t testing.TB, c Case) *Problem {
	t.Helper()
	p, err := c.Build(rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	return p
}

// Under a bound so wide that a fault would drown in it, a case says that it is
// blind, and where.
func TestBlind(t *testing.T) {
	tight := metal.Bound{C: 128}
	for _, c := range []struct {
		name string
		c    Case
		wide metal.Bound
		says string
	}{
		{"mul_mat", &MulMat{Type: gguf.Q4_0, M: 5, N: 3, K: 96}, metal.Bound{Staging: 0.2}, "leaving out element"},
		{"attention", &Attention{HD: 64, Heads: 2, HeadsKV: 1, NKV: 65, Tokens: 3, Type: gguf.F16}, metal.Bound{Staging: 0.05}, "cell"},
		{"norm", &RmsNorm{D: 896, Rows: 3, Eps: 1e-6}, metal.Bound{Staging: 1e-3}, "leaving out element"},
		{"rope", &Rope{Mode: graph.RopeNeox, HD: 64, Heads: 2, Tokens: 2, Dims: 64, PosBelow: 100, Base: 1e6}, metal.Bound{Absolute: 1}, "pair"},
		{"silu", &Elementwise{Op: graph.Silu, D: 65, Rows: 1}, metal.Bound{Staging: 0.11}, "leaving out element 0"},
		{"get_rows", &GetRows{Type: gguf.Q6_K, D: 256, Rows: 3, IDs: 2}, metal.Bound{Absolute: 0.1}, "leaving out element"},
		{"fused_qkv", &FusedQKV{Type: gguf.Q8_0, K: 256, HD: 64, Heads: 2, HeadsKV: 1, Cache: gguf.F16, Cells: 3, Pos: 1}, metal.Bound{Staging: 0.3}, "leaving out element"},
		{"fused_ffn", &FusedFFN{Type: gguf.Q8_0, K: 256, FF: 33}, metal.Bound{Staging: 0.3}, "leaving out element"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := build(t, c.c)
			require.Empty(t, p.blind(tight))
			// The design's cap of 1e-3 keeps even the widest bound in check where results
			// are of size 1 or more; without it, what the bound allows shows.
			for i := range p.Results {
				grow := 1e6
				for j := range p.Results[i].Want {
					p.Results[i].Want[j] *= grow
				}
			}
			said := p.blind(c.wide)
			require.Contains(t, said, c.says)
			require.Contains(t, said, "tolerances: want at least 10")
		})
	}
	p := build(t, &Elementwise{Op: graph.Add, D: 3, Rows: 1})
	p.Edges = nil
	require.Equal(t, "the case states no edge that would show a fault", p.blind(tight))
}

// An edge that moves 9.99 tolerances is unseen, 10 are seen; of alternatives the
// one that moves most counts.
func TestBlindAtTen(t *testing.T) {
	p := &Problem{Results: []Result{{Want: []float64{1, 1}, K: 1, Terms: []float64{1}}}}
	bound := metal.Bound{Absolute: 1e-6}
	p.Edges = []Edge{{What: "leaving out x", N: 3, By: 9.99e-6}}
	require.Equal(t, "leaving out x 3 moves the result by 9.99 tolerances: want at least 10", p.blind(bound))
	p.Edges = append(p.Edges, Edge{What: "leaving out x", N: 3, At: 1, By: -10.001e-6})
	require.Empty(t, p.blind(bound))
	p.Edges = append(p.Edges, Edge{What: "leaving out x", N: 4, By: math.NaN()})
	require.Equal(t, "leaving out x 4 moves the result by 0 tolerances: want at least 10", p.blind(bound))

	// An exact result shows every change.
	p.Results[0].Exact = true
	p.Edges = []Edge{{What: "leaving out x", By: 1e-30}}
	require.Empty(t, p.blind(bound))
	p.Edges[0].By = 0
	require.NotEmpty(t, p.blind(bound))
}

// What an edge says of the reference is so: the element is taken out of the inputs
// and the reference computed again.
func TestMulMatEdges(t *testing.T) {
	c := &MulMat{Type: gguf.Q5_1, M: 3, N: 2, K: 64}
	p := build(t, c)
	w := refs.Matrix{Type: c.Type, In: c.K, Out: c.M, Data: p.Node.Weight.Data}
	x := floats(p.In[0])
	checked := 0
	for _, e := range p.Edges {
		from, to := e.N, e.N+1
		switch e.What {
		case "leaving out element":
		case "leaving out block":
			from, to = 32*e.N, 32*e.N+32
		default:
			continue
		}
		rest := append([]float64(nil), x...)
		for r := range c.N {
			clear(rest[r*c.K+from : r*c.K+to])
		}
		y, err := refs.MatMul(w, rest)
		require.NoError(t, err)
		require.InDelta(t, math.Abs(p.Results[0].Want[e.At]-y[e.At]), math.Abs(e.By), 1e-12, e)
		checked++
	}
	require.Equal(t, 64+2*3*2, checked)
}

// The same of attention: cells are left out, doubled and let in by computing the
// row's softmax over the cells that then count.
func TestAttentionEdges(t *testing.T) {
	c := &Attention{HD: 8, Heads: 4, HeadsKV: 2, NKV: 40, Tokens: 5, Type: gguf.F32, Spare: 3}
	p := build(t, c)
	q, k, v := floats(p.In[0]), floats(p.Cache.K), floats(p.Cache.V)
	pos := make([]int, c.Tokens)
	for i := range pos {
		pos[i] = c.NKV - c.Spare - c.Tokens + i
	}
	// output is channel i of a row's head where cell counts times as often.
	output := func(row, head, i, cell int, times float64) float64 {
		sum, out := 0.0, 0.0
		for j := 0; j <= max(pos[row], cell); j++ {
			weight := 1.0
			if j == cell {
				weight = times
			} else if j > pos[row] {
				continue
			}
			score := 0.0
			for n := range c.HD {
				score += q[(row*c.Heads+head)*c.HD+n] * k[(j*c.HeadsKV+head/2)*c.HD+n]
			}
			weight *= math.Exp(score * float64(p.Node.Attr.Scale))
			sum += weight
			out += weight * v[(j*c.HeadsKV+head/2)*c.HD+i]
		}
		return out / sum
	}
	seen := map[string]int{}
	for _, e := range p.Edges {
		row, head, i := e.At/(c.HD*c.Heads), e.At/c.HD%c.Heads, e.At%c.HD
		cell, times := e.N, 0.0
		switch e.What {
		case "leaving out cell":
		case "doubling cell":
			times = 2
		case "letting in cell":
			times = 1
		case "leaving out the last cell of row":
			cell = pos[e.N]
		case "letting in the cell after row":
			cell, times = pos[e.N]+1, 1
		default:
			continue
		}
		seen[e.What]++
		require.InDelta(t, math.Abs(output(row, head, i, cell, times)-p.Results[0].Want[e.At]), e.By, 1e-6, e)
	}
	// Edge cells 0, 31, 32 and 39; five rows of four heads. Rows 0..4 see 32..36.
	require.Equal(t, map[string]int{
		"leaving out cell": 3 * 20, "doubling cell": 3 * 20, "letting in cell": 20,
		"leaving out the last cell of row": 20, "letting in the cell after row": 20,
	}, seen)
}

func floats(b []byte) []float64 {
	y, err := refs.Dequantize(gguf.F32, b, len(b)/4)
	if err != nil {
		panic(err)
	}
	return y
}

// The cap of the design, the k of the op, what the cache's type adds, and the
// window outside of which values must be equal.
func TestTolerance(t *testing.T) {
	b := metal.Bound{C: 2, Staging: 1.0 / 1024, Absolute: 1e-9}
	r := Result{Want: []float64{3, 4}, K: 16, Terms: []float64{0.01}}
	require.InDelta(t, (2.0/(1<<24)+1.0/1024)*4*0.01+1e-9, r.tolerance(b)[0], 1e-15)
	r.Terms[0] = 1e3
	require.InDelta(t, 1e-3*math.Sqrt(12.5), r.tolerance(b)[0], 1e-15)
	r.Want = []float64{0.1, 0.2}
	require.Equal(t, []float64{1e-3}, r.tolerance(b))
	r.Rounding = []float64{0, 0.5}
	require.Equal(t, []float64{1e-3, 0.501}, r.tolerance(b))
	r.From, r.To = 1, 2
	require.Equal(t, []float64{0, 0.501}, r.tolerance(b))
	r.Exact = true
	require.Equal(t, []float64{0}, r.tolerance(b))
}

// The bound is that of the entry that names the op, whatever else ran.
func TestDefiningBound(t *testing.T) {
	narrow := &metal.Entry{Op: "attention", Bound: metal.Bound{C: 3}}
	wide := &metal.Entry{Op: "attention", Bound: metal.Bound{C: 5}}
	other := &metal.Entry{Op: "kv_dequantize", Bound: metal.Bound{C: 900}}
	require.Equal(t, wide.Bound, definingBound("attention", []*metal.Entry{other, narrow, wide}))
	require.Equal(t, other.Bound, definingBound("rope", []*metal.Entry{narrow, other}))
	require.Equal(t, metal.Bound{}, definingBound("rope", nil))
}

func TestPairwise(t *testing.T) {
	levels := []int{3, 4, 2, 5}
	allowed := func(row []int) bool { return !(row[0] == 1 && row[3] == 4) }
	rows := Pairwise(levels, [][]int{{2, 3, -1, 0}}, allowed)
	require.Equal(t, []int{2, 3}, rows[0][:2])
	require.Equal(t, 0, rows[0][3])
	pairs := map[[4]int]bool{}
	for _, row := range rows {
		require.True(t, allowed(row))
		for i := range row {
			for j := i + 1; j < len(row); j++ {
				pairs[[4]int{i, row[i], j, row[j]}] = true
			}
		}
	}
	require.Len(t, pairs, 3*4+3*2+3*5+4*2+4*5+2*5-1)
	require.LessOrEqual(t, len(rows), 26) // 20 is the least
	require.Equal(t, rows, Pairwise(levels, [][]int{{2, 3, -1, 0}}, allowed))
}

// The weights of even rows are no zeros, so that an element that is left out
// moves a result, also of a single row.
func TestWeightsAreNoZeros(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		data, err := weights(rand.New(rand.NewPCG(3, 4)), typ, 512, 1)
		require.NoError(t, err)
		row, err := refs.Dequantize(typ, data, 512)
		require.NoError(t, err)
		for i, v := range row {
			require.Greater(t, math.Abs(v), 0.01, "%v %d", typ, i)
		}
	}
}
