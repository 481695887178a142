package metalcase

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs"
)

// Elementwise is an op on rows of d elements: silu (one input), add, mul and
// swiglu (two).
type Elementwise struct {
	Op      graph.Op
	D, Rows int
}

// ID implements [Case].
func (c *Elementwise) ID() (string, []harness.Param) {
	return c.Op.String(), []harness.Param{harness.P("d", c.D), harness.P("rows", c.Rows)}
}

// Work implements [Case].
func (c *Elementwise) Work() int64 { return product(c.D, c.Rows) }

// Setting implements [Case].
func (c *Elementwise) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *Elementwise) Refusal() string { return "" }

// Build implements [Case].
func (c *Elementwise) Build(r *rand.Rand) (*Problem, error) {
	shape := graph.Mat(c.D, c.Rows)
	a, b := activations(r, c.D, c.Rows), activations(r, c.D, c.Rows)
	x, y := refs.F64(a), refs.F64(b)
	p := &Problem{In: [][]byte{floatBytes(a), floatBytes(b)}}
	p.Node = single(c.Op, shape, input("a", gguf.F32, shape), input("b", gguf.F32, shape))
	result := Result{Type: gguf.F32, K: 1}
	switch c.Op {
	case graph.Silu:
		p.Node = single(c.Op, shape, input("a", gguf.F32, shape))
		p.In = p.In[:1]
		result.Want = refs.Silu(x)
	case graph.SwiGLU:
		result.Want = refs.SwiGLU(x, y)
	case graph.Add:
		result.Want = refs.Add(x, y)
	case graph.Mul:
		result.Want = refs.Mul(x, y)
	default:
		return nil, fmt.Errorf("no elementwise op: %v", c.Op)
	}
	result.Terms = refs.RMS(result.Want)
	p.Results = []Result{result}
	// An element that is left out keeps its neighbour's value, or none.
	for i := range result.Want {
		if e := i % c.D; edge(e, c.D) || e == 1 {
			p.Edges = append(p.Edges, Edge{What: "leaving out element", N: i, At: i, By: result.Want[i]})
			if c.Op != graph.Silu { // the second input
				p.Edges = append(p.Edges, Edge{What: "leaving out the second input of element", N: i, At: i, By: result.Want[i] - without(c.Op, x[i])})
			}
		}
	}
	return p, nil
}

// without is an op's value where the second input is left out.
func without(op graph.Op, a float64) float64 {
	switch op {
	case graph.SwiGLU:
		return a / (1 + math.Exp(-a))
	}
	return a
}
