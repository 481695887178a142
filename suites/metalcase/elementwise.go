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

// Elementwise is an op on rows of d elements: silu (one input), add, mul and
// swiglu (two).
type Elementwise struct {
	Op      graph.Op
	D, Rows int
	InPlace int // see [Problem]
	// Far has inputs of silu and gates of swiglu far below and above zero, and factors
	// that make what is left of them large.
	Far bool
}

// ID implements [Case].
func (c *Elementwise) ID() (string, []harness.Param) {
	p := []harness.Param{harness.P("d", c.D), harness.P("rows", c.Rows)}
	if c.Far {
		p = append(p, harness.P("far", true))
	}
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
	if c.Far {
		farGates(r, c.Op, a, b)
	}
	x, y := refs.F64(a), refs.F64(b)
	p := &Problem{In: [][]byte{onenode.FloatBytes(a), onenode.FloatBytes(b)}, InPlace: c.InPlace}
	p.Node = onenode.New(c.Op, shape, onenode.Input("a", gguf.F32, shape), onenode.Input("b", gguf.F32, shape))
	result := Result{Type: gguf.F32, K: 1}
	switch c.Op {
	case graph.Silu:
		p.Node = onenode.New(c.Op, shape, onenode.Input("a", gguf.F32, shape))
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
		if x[i] < lowestGate && (c.Op == graph.Silu || c.Op == graph.SwiGLU) {
			// Nothing is left of it. One that counts as the lowest that is computed shows.
			if by := x[i] / (1 + math.Exp(-lowestGate)); x[i] == hugeGate {
				p.Edges = append(p.Edges, Edge{What: "letting in element", N: i, At: i, By: by})
			}
			continue
		}
		if e := i % c.D; edge(e, c.D) || e == 1 {
			p.Edges = append(p.Edges, Edge{What: "leaving out element", N: i, At: i, By: result.Want[i]})
			if c.Op != graph.Silu { // the second input
				p.Edges = append(p.Edges, Edge{What: "leaving out the second input of element", N: i, At: i, By: result.Want[i] - without(c.Op, x[i])})
			}
		}
	}
	return p, nil
}

// Gates below lowestGate count as zero in the kernels; hugeGate is one of those
// that would leave something behind if its exponential alone were cut off there.
const (
	lowestGate = -87
	hugeGate   = -0x1p100
)

// farGates moves gates to where the exponential is nearly out of range, to beyond
// it, and high above zero. Factors make the least results 1e3 and more tolerances.
// The inputs of silu, which have no factor, stay where the result is.
func farGates(r *rand.Rand, op graph.Op, gates, factors []float32) {
	least := float32(lowestGate)
	if op == graph.Silu {
		least = -70
	}
	for i := range gates {
		u := r.Float32()
		switch i % 8 {
		case 0:
			gates[i], factors[i] = least+u*(-60-least), factors[i]*0x1p40
		case 1:
			gates[i], factors[i] = least, factors[i]*0x1p40
		case 2:
			gates[i] = lowestGate - 0.001 - u
		case 3:
			gates[i] = lowestGate - 1000*u - 1
		case 4:
			gates[i] = hugeGate
		case 5:
			gates[i] = 60 + 60*u
		}
	}
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
	n := onenode.New(graph.Permute, shape, onenode.Input("x", gguf.F32, c.Shape))
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
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x)}, Results: []Result{{Type: gguf.F32, Want: want, Exact: true}}}
	for i, v := range want {
		p.Edges = append(p.Edges, Edge{What: "leaving out element", N: i, At: i, By: v - float64(x[i])}, Edge{What: "leaving out element", N: i, At: i, By: v})
	}
	return p, nil
}
