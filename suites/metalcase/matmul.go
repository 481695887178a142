package metalcase

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs"
	"minfer/suites/onenode"
)

// MulMat is out[n][m] = x[n][k] · w[m][k], plus a bias: m rows of weights, n
// tokens.
type MulMat struct {
	Type    gguf.Type
	M, N, K int
	Bias    bool
	Large   bool // weights beyond the range of a half
	Bare    bool // without edges and with rows that recur, so that a large one is soon made: to be measured, not judged
	Levers  Setting
}

// bareRows is how many different rows a bare product has: a prime, so that rows which
// a kernel mixes up by a power of 2 differ.
const bareRows = 1021

// ID implements [Case].
func (c *MulMat) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("type", c.Type), harness.P("m", c.M), harness.P("n", c.N), harness.P("k", c.K)}
	if c.Bias {
		p = append(p, harness.P("bias", true))
	}
	if c.Large {
		p = append(p, harness.P("large", true))
	}
	return "mul_mat", append(p, c.Levers.Params()...)
}

// Work implements [Case].
func (c *MulMat) Work() int64 { return product(c.M, c.N, c.K) }

// Setting implements [Case].
func (c *MulMat) Setting() Setting { return c.Levers }

// Refusal implements [Case]: rows that are not whole blocks are refused with
// their length.
func (c *MulMat) Refusal() string {
	if c.K%c.Type.BlockSize() != 0 {
		return fmt.Sprint(c.K)
	}
	return ""
}

// Build implements [Case].
func (c *MulMat) Build(r *rand.Rand) (*Problem, error) {
	k := c.K
	if c.Refusal() != "" {
		k = (c.K + c.Type.BlockSize() - 1) / c.Type.BlockSize() * c.Type.BlockSize() // bytes enough for what must not be read
	}
	size := weightSize
	if c.Large {
		size = 1 << 20
	}
	different := c.M
	if c.Bare {
		different = min(different, bareRows)
	}
	drawn, err := weightsOf(r, c.Type, k, different, size)
	if err != nil {
		return nil, err
	}
	data := again(drawn, c.M*c.Type.RowBytes(k))
	x := activations(r, c.K, c.N)
	n := onenode.New(graph.MatMul, graph.Mat(c.M, c.N), onenode.Input("x", gguf.F32, graph.Mat(c.K, c.N)))
	n.Weight = &graph.Weight{Name: "blk.0.w.weight", Type: c.Type, Shape: graph.Mat(c.K, c.M), Data: data}
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x)}}
	var bias []float32
	if c.Bias {
		bias = activations(r, c.M, 1)
		n.Bias = vector("blk.0.w.bias", bias)
	}
	if c.Refusal() != "" {
		return p, nil
	}
	matrix := refs.Matrix{Type: c.Type, In: c.K, Out: different, Data: drawn}
	var want []float64
	var terms float64
	if c.Bare {
		y, err := refs.MatMul(matrix, refs.F64(x))
		if err != nil {
			return nil, err
		}
		if terms, err = refs.MatMulTerms(matrix, refs.F64(x)); err != nil {
			return nil, err
		}
		for t := range c.N {
			want = append(want, again(y[t*different:(t+1)*different], c.M)...)
		}
	} else {
		product, err := newProduct(matrix, refs.F64(x))
		if err != nil {
			return nil, err
		}
		want, terms = product.y, product.terms
		p.Edges = product.edges(0)
	}
	if c.Bias {
		want = refs.Add(want, refs.F64(bias))
		for o, b := range bias {
			if c.Bare {
				break
			}
			p.Edges = append(p.Edges, Edge{What: "leaving out bias", N: o, At: o, By: float64(b)})
		}
	}
	p.Results = []Result{{Type: gguf.F32, Want: want, K: float64(c.K), Terms: []float64{terms}}}
	return p, nil
}

// again is what there is, again and again, up to n elements.
func again[E any](what []E, n int) []E {
	if len(what) == n {
		return what
	}
	all := make([]E, 0, n)
	for len(all) < n {
		all = append(all, what[:min(len(what), n-len(all))]...)
	}
	return all
}

// product is a matrix product with what its edges need.
type matProduct struct {
	m       refs.Matrix
	x, y    []float64
	n       int
	terms   float64 // RMS of the products that are summed
	rows    map[int][]float64
	columns []float64 // largest weight of each column, by size
	at      []int     // its row
	peaks   []float64 // largest activation of each element
	token   []int     // its token
}

func newProduct(m refs.Matrix, x []float64) (*matProduct, error) {
	p := &matProduct{m: m, x: x, n: len(x) / m.In, rows: map[int][]float64{}}
	var err error
	if p.y, err = refs.MatMul(m, x); err != nil {
		return nil, err
	}
	if p.terms, err = refs.MatMulTerms(m, x); err != nil {
		return nil, err
	}
	p.columns, p.at = make([]float64, m.In), make([]int, m.In)
	p.peaks, p.token = make([]float64, m.In), make([]int, m.In)
	for o := range m.Out {
		row, err := m.Row(o)
		if err != nil {
			return nil, err
		}
		if o < 2 || o == m.Out-1 {
			p.rows[o] = row
		}
		for i, v := range row {
			if math.Abs(v) > p.columns[i] {
				p.columns[i], p.at[i] = math.Abs(v), o
			}
		}
	}
	for r := range p.n {
		for i, v := range x[r*m.In : (r+1)*m.In] {
			if math.Abs(v) > p.peaks[i] {
				p.peaks[i], p.token[i] = math.Abs(v), r
			}
		}
	}
	return p, nil
}

// manyRows is from how many rows of weights on they are left out in groups.
const manyRows = 4096

// edges leaves out, which moves as far as doubling, each element of the sums,
// each block of 32 of them, each row of weights and each token.
func (p *matProduct) edges(result int) []Edge {
	var list []Edge
	width := p.m.Out
	for i := range p.m.In {
		list = append(list, Edge{What: "leaving out element", N: i, Result: result, At: p.token[i]*width + p.at[i], By: p.columns[i] * p.peaks[i]})
	}
	for b := 0; b < p.m.In; b += 32 {
		for _, o := range []int{0, 1, width - 1} {
			for _, r := range []int{0, p.n - 1} {
				if o < width {
					list = append(list, Edge{What: "leaving out block", N: b / 32, Result: result, At: r*width + o, By: p.part(o, r, b)})
				}
			}
		}
	}
	// Of very many rows some are near zero by chance: the largest of those that a
	// threadgroup takes shows.
	what, together := "leaving out weight row", 1
	if width > manyRows {
		what, together = "leaving out weight rows of group", 8
	}
	for o := range width {
		at := largest(p.y, o, width)
		list = append(list, Edge{What: what, N: o / together, Result: result, At: at, By: p.y[at]})
	}
	for r := range p.n {
		at := r*width + largest(p.y[r*width:(r+1)*width], 0, 1)
		list = append(list, Edge{What: "leaving out token", N: r, Result: result, At: at, By: p.y[at]})
	}
	return list
}

// part is the share of 32 elements from b on in output o of token r.
func (p *matProduct) part(o, r, b int) float64 {
	sum := 0.0
	row := p.rows[o]
	for i := b; i < min(b+32, p.m.In); i++ {
		sum += row[i] * p.x[r*p.m.In+i]
	}
	return sum
}
