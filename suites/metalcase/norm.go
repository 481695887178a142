package metalcase

import (
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs"
	"minfer/suites/onenode"
)

// RmsNorm normalises rows of d elements and multiplies them by a weight; without
// one, NoWeight.
type RmsNorm struct {
	D, Rows  int
	Eps      float32
	NoWeight bool
	Levers   Setting
}

// ID implements [Case].
func (c *RmsNorm) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("d", c.D), harness.P("rows", c.Rows), harness.P("eps", c.Eps)}
	if c.NoWeight {
		p = append(p, harness.P("weight", false))
	}
	return "rms_norm", append(p, c.Levers.Params()...)
}

// Work implements [Case].
func (c *RmsNorm) Work() int64 { return product(c.D, c.Rows) }

// Setting implements [Case].
func (c *RmsNorm) Setting() Setting { return c.Levers }

// Refusal implements [Case].
func (c *RmsNorm) Refusal() string { return "" }

// Build implements [Case].
func (c *RmsNorm) Build(r *rand.Rand) (*Problem, error) {
	shape := graph.Mat(c.D, c.Rows)
	n := onenode.New(graph.RmsNorm, shape, onenode.Input("x", gguf.F32, shape))
	n.Attr.Eps = c.Eps
	return normProblem(r, n, c.D, c.Rows, c.NoWeight), nil
}

// QkNorm normalises each head's row of hd channels with one weight.
type QkNorm struct {
	HD, Heads, Tokens int
	Eps               float32
	Levers            Setting
}

// ID implements [Case].
func (c *QkNorm) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("hd", c.HD), harness.P("n_head", c.Heads), harness.P("n_tokens", c.Tokens), harness.P("eps", c.Eps)}
	return "qk_norm", append(p, c.Levers.Params()...)
}

// Work implements [Case].
func (c *QkNorm) Work() int64 { return product(c.HD, c.Heads, c.Tokens) }

// Setting implements [Case].
func (c *QkNorm) Setting() Setting { return c.Levers }

// Refusal implements [Case].
func (c *QkNorm) Refusal() string { return "" }

// Build implements [Case].
func (c *QkNorm) Build(r *rand.Rand) (*Problem, error) {
	shape := graph.Mat(c.HD*c.Heads, c.Tokens)
	n := onenode.New(graph.QkNorm, shape, onenode.Input("x", gguf.F32, shape))
	n.Attr.Eps, n.Attr.HeadDim, n.Attr.NHead = c.Eps, c.HD, c.Heads
	return normProblem(r, n, c.HD, c.Heads*c.Tokens, false), nil
}

// normProblem normalises rows of d values. A result is its value times the root
// of a sum, all of whose terms are positive: it is its own term.
func normProblem(r *rand.Rand, n *graph.Node, d, rows int, noWeight bool) *Problem {
	x := normRows(r, d, rows)
	eps := float64(n.Attr.Eps)
	if rows > 1 && eps > 0 { // a row beside which eps is not small
		for i := d; i < 2*d; i++ {
			x[i] *= float32(math.Sqrt(eps))
		}
	}
	var weight []float64
	if !noWeight {
		w := activations(r, d, 1)
		n.Weight = vector("blk.0.norm.weight", w)
		weight = refs.F64(w)
	}
	values := refs.F64(x)
	want := refs.RmsNorm(values, d, eps, weight)
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x)}, Results: []Result{{Type: gguf.F32, Want: want, K: 1, Terms: eachSize(want)}}}
	for e := range d {
		if !normEdge(e, d) {
			continue
		}
		for row := range rows {
			// Without element e, the others grow.
			rest := append([]float64(nil), values[row*d:(row+1)*d]...)
			rest[e] = 0
			y := refs.RmsNorm(rest, d, eps, weight)
			other := row * d // all others move by one factor
			for i := row * d; i < (row+1)*d; i++ {
				if i != row*d+e && math.Abs(want[i]) >= math.Abs(want[other]) || other == row*d+e {
					other = i
				}
			}
			p.Edges = append(p.Edges,
				Edge{What: "leaving out element", N: e, At: other, By: y[other-row*d] - want[other]})
		}
	}
	if rows > 1 && eps > 0 {
		none := refs.RmsNorm(values[d:2*d], d, 0, weight)
		at, by := farthest(want[d:2*d], none)
		p.Edges = append(p.Edges, Edge{What: "leaving out eps of row", N: 1, At: d + at, By: by})
	}
	for row := range rows {
		at, by := row*d, want[row*d]
		p.Edges = append(p.Edges, Edge{What: "leaving out row", N: row, At: at, By: by})
	}
	for e := range d {
		if weight != nil && normEdge(e, d) {
			at := largest(want, e, d)
			p.Edges = append(p.Edges, Edge{What: "leaving out weight", N: e, At: at, By: want[at] - want[at]/weight[e]})
		}
	}
	return p
}

// normEdge says whether element e of d is at an edge of what one pass of the
// threads sums: 32 or 256 of them, one or four values each.
func normEdge(e, d int) bool {
	switch e {
	case 0, 31, 32, 127, 128, 255, 256, 1023, 1024, d - 1, d - 2, d &^ 3, d/256*256 - 1, d / 256 * 256, d/32*32 - 1, d / 32 * 32:
		return e >= 0 && e < d
	}
	return false
}

// normRows draws rows whose elements at edges are large beside the sum of all
// squares.
func normRows(r *rand.Rand, d, rows int) []float32 {
	x := make([]float32, d*rows)
	for i := range x {
		v := signed(r)
		if normEdge(i%d, d) {
			v *= math.Max(1, math.Sqrt(float64(d))/16)
		}
		x[i] = float32(v)
	}
	return x
}
