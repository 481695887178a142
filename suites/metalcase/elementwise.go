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
	InPlace int // see [Problem]
}

// ID implements [Case].
func (c *Elementwise) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("d", c.D), harness.P("rows", c.Rows)}
	return c.Op.String(), append(p, inPlace(c.InPlace)...)
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
	p := &Problem{In: [][]byte{floatBytes(a), floatBytes(b)}, InPlace: c.InPlace}
	p.Node = single(c.Op, shape, input("a", gguf.F32, shape), input("b", gguf.F32, shape))
	result := Result{Type: gguf.F32, K: 1}
	switch c.Op {
	case graph.Silu:
		p.Node = single(c.Op, shape, input("a", gguf.F32, shape))
		p.In = p.In[:1]
		result.Want = refs.Silu(x)
		result.Terms = siluTerms(x, result.Want)
	case graph.SwiGLU:
		result.Want = refs.SwiGLU(x, y)
		result.Terms = siluTerms(x, result.Want)
	case graph.Add:
		result.Want = refs.Add(x, y)
		result.Terms = refs.Add(eachSize(x), eachSize(y))
	case graph.Mul:
		result.Want = refs.Mul(x, y)
		result.Terms = eachSize(result.Want)
	default:
		return nil, fmt.Errorf("no elementwise op: %v", c.Op)
	}
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

// inPlace is the parameter of a case whose output is an input.
func inPlace(input int) []harness.Param {
	if input == 0 {
		return nil
	}
	return []harness.Param{harness.P("in_place", input)}
}

// without is an op's value where the second input is left out.
func without(op graph.Op, a float64) float64 {
	switch op {
	case graph.SwiGLU:
		return a / (1 + math.Exp(-a))
	}
	return a
}

// siluTerms is what the error of a value with a sigmoid in it is relative to: the
// value, once for the roundings and once for each unit of the exponent.
func siluTerms(x, y []float64) []float64 {
	t := make([]float64, len(x))
	for i := range x {
		t[i] = math.Abs(y[i]) * (1 + math.Abs(x[i]))
	}
	return t
}

// Permute copies a value with its dimensions in another order.
type Permute struct {
	Shape graph.Shape
	Perm  [4]int
}

// ID implements [Case].
func (c *Permute) ID() (string, []harness.Param) {
	list := func(d [4]int) string { return fmt.Sprintf("%d,%d,%d,%d", d[0], d[1], d[2], d[3]) }
	return "permute", []harness.Param{harness.P("shape", list(c.Shape)), harness.P("perm", list(c.Perm))}
}

// Work implements [Case].
func (c *Permute) Work() int64 { return int64(c.Shape.Elements()) }

// Setting implements [Case].
func (c *Permute) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *Permute) Refusal() string { return "" }

// Build implements [Case].
func (c *Permute) Build(r *rand.Rand) (*Problem, error) {
	x := activations(r, c.Shape.Elements(), 1)
	var shape graph.Shape
	for i, p := range c.Perm {
		shape[p] = c.Shape[i]
	}
	n := single(graph.Permute, shape, input("x", gguf.F32, c.Shape))
	n.Attr.Perm = c.Perm
	want := make([]float64, len(x))
	var at [4]int // of the input
	for _, v := range x {
		to, stride := 0, 1
		for d := range 4 {
			for i, p := range c.Perm {
				if p == d {
					to += at[i] * stride
				}
			}
			stride *= shape[d]
		}
		want[to] = float64(v)
		for d := range 4 {
			if at[d]++; at[d] < c.Shape[d] {
				break
			}
			at[d] = 0
		}
	}
	p := &Problem{Node: n, In: [][]byte{floatBytes(x)}, Results: []Result{{Type: gguf.F32, Want: want, Exact: true}}}
	for i, v := range want {
		p.Edges = append(p.Edges, Edge{What: "leaving out element", N: i, At: i, By: v - float64(x[i])}, Edge{What: "leaving out element", N: i, At: i, By: v})
	}
	return p, nil
}
