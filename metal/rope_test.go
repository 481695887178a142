package metal_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/metal"
	"minfer/refs"
)

// reference is a rotation for refs.
func reference(p graph.Rope, factors *graph.Weight) refs.Rope {
	r := refs.Rope{
		Neox: p.Mode == graph.RopeNeox, NDims: p.NDims, FreqBase: float64(p.FreqBase), FreqScale: float64(p.FreqScale),
		ExtFactor: float64(p.ExtFactor), AttnFactor: float64(p.AttnFactor), BetaFast: float64(p.BetaFast), BetaSlow: float64(p.BetaSlow), NCtxOrig: p.NCtxOrig,
	}
	if factors != nil {
		r.Factors = floatsOf(factors.Data)
	}
	return r
}

// pairSizes are the terms of a rotation: for both values of a pair its length,
// times the magnitude; for channels that are copied nothing.
func pairSizes(x []float64, headDim int, p refs.Rope) []float64 {
	magnitude := p.AttnFactor
	if p.ExtFactor != 0 {
		magnitude *= 1 + 0.1*math.Log(1/p.FreqScale)
	}
	terms := make([]float64, len(x))
	for h := 0; h < len(x); h += headDim {
		for k := range p.NDims / 2 {
			i, j := h+2*k, h+2*k+1
			if p.Neox {
				i, j = h+k, h+k+p.NDims/2
			}
			terms[i] = math.Hypot(x[i], x[j]) * magnitude
			terms[j] = terms[i]
		}
	}
	return terms
}

// shapes of rotations: all the heads that models have, and odd ones.
var ropeTests = []struct {
	hd, dims, heads int
	pos             []int32
	p               graph.Rope // without Mode and NDims
	factors         bool
}{
	{64, 64, 14, []int32{0}, graph.Rope{FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}, false},
	{64, 64, 2, []int32{131071, 1, 65537, 0, 99991}, graph.Rope{FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}, false},
	{128, 128, 9, []int32{131072, 40961, 7}, graph.Rope{FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}, false},
	{128, 128, 8, []int32{131072, 3}, graph.Rope{FreqBase: 5e5, FreqScale: 1, AttnFactor: 1}, true},
	{80, 20, 3, []int32{5, 131072}, graph.Rope{FreqBase: 1e4, FreqScale: 0.25, AttnFactor: 1.5}, false},
	{20, 18, 17, []int32{31, 2, 131072}, graph.Rope{FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}, true},
	{2, 2, 1, []int32{131072, 1 << 24, math.MaxInt32}, graph.Rope{FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}, false},
	{128, 128, 2, []int32{131071, 32769, 100}, graph.Rope{FreqBase: 1e6, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: 32768}, false},
	{64, 48, 3, []int32{131071, 12345}, graph.Rope{FreqBase: 1e4, FreqScale: 0.5, ExtFactor: 0.7, AttnFactor: 0.9, BetaFast: 32, BetaSlow: 1, NCtxOrig: 4096}, true},
	{1024, 1024, 1, []int32{131071}, graph.Rope{FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}, false},
	// A base below 1 has frequencies above a turn: whole turns fall away.
	{64, 64, 1, []int32{131071, 3}, graph.Rope{FreqBase: 1e-3, FreqScale: 8, AttnFactor: 1}, false},
}

func TestRope(t *testing.T) {
	b, list := watched(t, nil)
	e := metal.Lookup("rope", "", "")
	for i, test := range ropeTests {
		for _, mode := range []graph.RopeMode{graph.RopeNorm, graph.RopeNeox} {
			p := test.p
			p.Mode, p.NDims = mode, test.dims
			var factors *graph.Weight
			if test.factors {
				f := make([]float32, p.NDims/2)
				for k := range f {
					f[k] = 1 + 7*float32(k)/float32(len(f))
				}
				factors = vector(t, b, fmt.Sprintf("factors.%d.%d", i, mode), f)
			}
			s := graph.Mat(test.hd*test.heads, len(test.pos))
			x := gaussian(s.Elements(), uint64(i))
			r := reference(p, factors)
			n := &graph.Node{
				Op: graph.RoPE, Shape: s, Weight: factors, In: []*graph.Node{f32(s), {Op: graph.Input}},
				Attr: graph.Attr{HeadDim: test.hd, NHead: test.heads, Rope: p},
			}
			want, terms := refs.RoPE(refs.F64(x), test.hd, test.pos, r), pairSizes(refs.F64(x), test.hd, r)
			for at := -1; at < 1; at++ {
				got := encode(t, b, n, nil, at, bytesOf(x), int32s(test.pos...))
				near(t, fmt.Sprintf("rope %d mode %d in place %d", i, mode, at), e, got, want, terms)
				require.Equal(t, []string{"rope"}, launches(list))
			}
		}
	}
}

// The angles of every pair at the positions of a long context, against float64:
// the bound of the cosine and the sine that the kernel's comment states.
func TestRopeAngles(t *testing.T) {
	b, _ := watched(t, nil)
	const hd = 128
	var pos []int32
	for i := range 257 {
		pos = append(pos, int32(i*512))
	}
	s := graph.Mat(hd, len(pos))
	x := make([]float32, s.Elements())
	for i := range x {
		if i%hd < hd/2 {
			x[i] = 1
		}
	}
	p := graph.Rope{Mode: graph.RopeNeox, NDims: hd, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}
	n := &graph.Node{Op: graph.RoPE, Shape: s, In: []*graph.Node{f32(s), {Op: graph.Input}}, Attr: graph.Attr{HeadDim: hd, NHead: 1, Rope: p}}
	got := encode(t, b, n, nil, -1, bytesOf(x), int32s(pos...))
	worst := 0.0
	for i, at := range pos {
		for k := range hd / 2 {
			angle := float64(at) * math.Pow(1e6, -2*float64(k)/hd)
			worst = max(worst, math.Abs(got[i*hd+k]-math.Cos(angle)), math.Abs(got[i*hd+k+hd/2]-math.Sin(angle)))
		}
	}
	t.Logf("cosines and sines up to position %d are off by %.2f units of 2^-24", pos[len(pos)-1], worst/0x1p-24)
	require.LessOrEqual(t, worst, 3.7*0x1p-24)
}

func TestRopeGuards(t *testing.T) {
	b, list := watched(t, nil)
	x, pos := f32(graph.Mat(64, 2)), &graph.Node{Op: graph.Input, Shape: graph.Vec(2)}
	plain := graph.Rope{NDims: 32, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}
	node := func(change func(*graph.Node)) *graph.Node {
		n := &graph.Node{Op: graph.RoPE, Shape: x.Shape, In: []*graph.Node{x, pos}, Attr: graph.Attr{HeadDim: 32, NHead: 2, Rope: plain}}
		change(n)
		return n
	}
	short := vector(t, b, "short", gaussian(15, 1))
	zero := vector(t, b, "zero", make([]float32, 16))
	for text, change := range map[string]func(*graph.Node){
		"n_dims is 34, want an even number up to head_dim = 32": func(n *graph.Node) { n.Attr.Rope.NDims = 34 },
		"n_dims is 31, want an even number up to head_dim = 32": func(n *graph.Node) { n.Attr.Rope.NDims = 31 },
		"n_dims is 1026, want at most 1024": func(n *graph.Node) {
			n.Attr.HeadDim, n.Attr.Rope.NDims = 1026, 1026
		},
		"rope mode 9, want norm or neox":                            func(n *graph.Node) { n.Attr.Rope.Mode = 9 },
		"freq_base 0 and freq_scale 1, want numbers above 0":        func(n *graph.Node) { n.Attr.Rope.FreqBase = 0 },
		"freq_base 10000 and freq_scale +Inf, want numbers above 0": func(n *graph.Node) { n.Attr.Rope.FreqScale = float32(math.Inf(1)) },
		"attn_factor NaN and ext_factor 0, want finite numbers":     func(n *graph.Node) { n.Attr.Rope.AttnFactor = float32(math.NaN()) },
		"attn_factor 1 and ext_factor -Inf, want finite numbers":    func(n *graph.Node) { n.Attr.Rope.ExtFactor = float32(math.Inf(-1)) },
		"beta_fast NaN, beta_slow 1 and n_ctx_orig 512, want numbers above 0": func(n *graph.Node) {
			n.Attr.Rope.ExtFactor, n.Attr.Rope.BetaFast, n.Attr.Rope.BetaSlow, n.Attr.Rope.NCtxOrig = 1, float32(math.NaN()), 1, 512
		},
		"beta_fast 32, beta_slow 1 and n_ctx_orig -5, want numbers above 0": func(n *graph.Node) {
			n.Attr.Rope.ExtFactor, n.Attr.Rope.BetaFast, n.Attr.Rope.BetaSlow, n.Attr.Rope.NCtxOrig = 1, 32, 1, -5
		},
		"rows of 64, want head_dim 32 * n_head 3":                    func(n *graph.Node) { n.Attr.NHead = 3 },
		"weight short is f32 [15 1 1 1] of 60 bytes, want f32 of 16": func(n *graph.Node) { n.Weight = short },
		"factor 0 of zero is 0, want one to divide by":               func(n *graph.Node) { n.Weight = zero },
	} {
		refused(t, b, list, node(change), nil, text)
	}
}
