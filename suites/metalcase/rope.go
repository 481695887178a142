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

// Rope rotates n_dims channels of each head; positions are drawn below
// pos_below.
type Rope struct {
	Mode              graph.RopeMode
	HD, Heads, Tokens int
	Dims, PosBelow    int
	Base              float32
	Factors           bool   // frequency factors divide each pair's angle
	Scaling           string // "", "linear" or "yarn"
	Factor            float32
	CtxOrig           int
	InPlace           int // see [Problem]
}

// ID implements [Case].
func (c *Rope) ID() (string, []harness.Param) {
	mode := "norm"
	if c.Mode == graph.RopeNeox {
		mode = "neox"
	}
	p := []harness.Param{harness.P("mode", mode), harness.P("hd", c.HD), harness.P("n_head", c.Heads), harness.P("n_tokens", c.Tokens),
		harness.P("n_dims", c.Dims), harness.P("pos_below", c.PosBelow), harness.P("freq_base", c.Base)}
	if c.Factors {
		p = append(p, harness.P("freq_factors", true))
	}
	if c.Scaling != "" {
		p = append(p, harness.P("scaling", c.Scaling), harness.P("factor", c.Factor))
	}
	if c.Scaling == "yarn" {
		p = append(p, harness.P("n_ctx_orig", c.CtxOrig))
	}
	return "rope", append(p, inPlace(c.InPlace)...)
}

// Work implements [Case].
func (c *Rope) Work() int64 { return product(c.HD, c.Heads, c.Tokens) }

// Setting implements [Case].
func (c *Rope) Setting() Setting { return nil }

// Refusal implements [Case].
func (c *Rope) Refusal() string { return "" }

// params are the rotation's, for the node and for the reference.
func (c *Rope) params(r *rand.Rand) (graph.Rope, refs.Rope, []float32) {
	factor := c.Factor
	if factor == 0 {
		factor = 1
	}
	p := graph.Rope{Mode: c.Mode, NDims: c.Dims, FreqBase: c.Base, FreqScale: 1 / factor, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: c.CtxOrig}
	if c.Scaling == "yarn" {
		p.ExtFactor = 1
	}
	var factors []float32
	if c.Factors {
		factors = make([]float32, c.Dims/2)
		for i := range factors {
			factors[i] = 1 + 7*r.Float32()
		}
	}
	return p, refRope(p, factors), factors
}

func refRope(p graph.Rope, factors []float32) refs.Rope {
	q := refs.Rope{Neox: p.Mode == graph.RopeNeox, NDims: p.NDims, FreqBase: float64(p.FreqBase), FreqScale: float64(p.FreqScale),
		ExtFactor: float64(p.ExtFactor), AttnFactor: float64(p.AttnFactor), BetaFast: float64(p.BetaFast), BetaSlow: float64(p.BetaSlow), NCtxOrig: p.NCtxOrig}
	if factors != nil {
		q.Factors = refs.F64(factors)
	}
	return q
}

// Build implements [Case].
func (c *Rope) Build(r *rand.Rand) (*Problem, error) {
	width := c.HD * c.Heads
	shape := graph.Mat(width, c.Tokens)
	x := activations(r, c.HD, c.Heads*c.Tokens)
	pos := make([]int32, c.Tokens)
	for i := range pos {
		pos[i] = int32(r.IntN(c.PosBelow))
	}
	pos[0] = int32(c.PosBelow - 1)
	n := onenode.New(graph.RoPE, shape, onenode.Input("x", gguf.F32, shape), onenode.Input("pos", gguf.I32, graph.Vec(c.Tokens)))
	params, ref, factors := c.params(r)
	n.Attr.HeadDim, n.Attr.NHead, n.Attr.Rope = c.HD, c.Heads, params
	if factors != nil {
		n.Weight = vector("rope_freqs.weight", factors)
	}
	values := refs.F64(x)
	want := refs.RoPE(values, c.HD, pos, ref)
	p := &Problem{Node: n, In: [][]byte{onenode.FloatBytes(x), onenode.IntBytes(pos)}, InPlace: c.InPlace}
	p.Results = []Result{{Type: gguf.F32, Want: want, K: 1, Terms: ropeTerms(values, c.HD, ref)}}

	// The tokens turned as if each were one position further, and not at all.
	further := make([]int32, len(pos))
	for i := range pos {
		further[i] = pos[i] + 1
	}
	next := refs.RoPE(values, c.HD, further, ref)
	for k := range c.Dims / 2 {
		a, b := pairOf(ref, k)
		if a+1 >= c.HD {
			continue
		}
		for h := 0; h < len(want); h += c.HD {
			// A neighbour's pair in the place of this one.
			p.Edges = append(p.Edges, Edge{What: "doubling the neighbour of pair", N: k, At: h + a, By: want[h+(a+1)%c.HD] - want[h+a]})
			if c.PosBelow > 1 && k == 0 {
				p.Edges = append(p.Edges, Edge{What: "doubling the neighbour of pair", N: k, At: h + b, By: want[h+b] - values[h+b]})
			}
		}
	}
	for row := range c.Tokens {
		at, by := farthest(want[row*width:(row+1)*width], next[row*width:(row+1)*width])
		p.Edges = append(p.Edges, Edge{What: "taking the next position for token", N: row, At: row*width + at, By: by})
	}
	for h := range c.Heads * c.Tokens {
		at := h*c.HD + largest(want[h*c.HD:(h+1)*c.HD], 0, 1)
		p.Edges = append(p.Edges, Edge{What: "leaving out head", N: h, At: at, By: want[at]})
	}
	if c.Dims < c.HD {
		at := c.Dims
		p.Edges = append(p.Edges, Edge{What: "leaving out the copy of channel", N: at, At: at, By: want[at]})
	}
	return p, nil
}

// pairOf is the channels that pair k turns.
func pairOf(p refs.Rope, k int) (a, b int) {
	if p.Neox {
		return k, k + p.NDims/2
	}
	return 2 * k, 2*k + 1
}

// ropeTerms is what the error of a rotated value is relative to: the length of its
// pair times the rotation's magnitude. A channel that is copied has none.
func ropeTerms(x []float64, hd int, p refs.Rope) []float64 {
	terms := make([]float64, len(x))
	magnitude := p.AttnFactor
	if p.ExtFactor != 0 {
		magnitude *= 1 + 0.1*math.Log(1/p.FreqScale)
	}
	for h := 0; h < len(x); h += hd {
		for k := range p.NDims / 2 {
			a, b := pairOf(p, k)
			size := math.Hypot(x[h+a], x[h+b]) * magnitude
			terms[h+a], terms[h+b] = size, size
		}
	}
	return terms
}
