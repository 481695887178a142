package ops

import (
	"fmt"
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites/onenode"
)

// softMax is the softmax of rows of d values times scale, no mask.
type softMax struct {
	d, rows int
	scale   float32
}

func parseSoftMax(l *harness.Line) (opCase, error) {
	c := &softMax{}
	if err := ints(l, map[string]*int{"d": &c.d, "rows": &c.rows}, maxDim); err != nil {
		return nil, err
	}
	var err error
	if c.scale, err = l.Float32("scale"); err != nil {
		return nil, err
	}
	// Past this, scaled scores overflow, and the softmax of infinities is NaN, whose
	// bits are nobody's contract.
	if c.scale < -1e30 || c.scale > 1e30 {
		return nil, l.Errorf("key \"scale\" is %v: want a number from -1e30 to 1e30", c.scale)
	}
	return bounded(l, c, c.work())
}

func (c *softMax) id() (string, []harness.Param) {
	return "soft_max", []harness.Param{harness.P("d", c.d), harness.P("rows", c.rows), harness.P("scale", c.scale)}
}

func (c *softMax) work() int64     { return product(c.d, c.rows) }
func (c *softMax) refusal() string { return "" }

func (c *softMax) build(r *rand.Rand, level exact.Level) (*problem, error) {
	shape := graph.Mat(c.d, c.rows)
	x := floats(r, c.d*c.rows, c.d)
	n := onenode.New(graph.Softmax, shape, onenode.Input("x", gguf.F32, shape))
	n.Attr.Scale = c.scale
	return &problem{node: n, in: [][]byte{onenode.FloatBytes(x)}, want: exact.SoftMax(level, x, c.d, c.scale, nil),
		oracle: func(lib *llamacpp.Lib) ([]float32, error) { return lib.SoftMax(x, c.d, nil, c.scale) }}, nil
}

// attention is n_tokens queries at the end of n_kv cells: token i sits at
// position n_kv-n_tokens+i. Cells past a token's position hold values too, and
// must not be seen.
type attention struct {
	hd, heads, headsKV, nkv, tokens int
	t                               gguf.Type
}

func parseAttention(l *harness.Line) (opCase, error) {
	c := &attention{}
	if err := ints(l, map[string]*int{"hd": &c.hd, "n_head": &c.heads, "n_head_kv": &c.headsKV, "n_kv": &c.nkv}, maxCount); err != nil {
		return nil, err
	}
	var err error
	if c.tokens, err = l.Int("n_tokens", 1, c.nkv); err != nil {
		return nil, err
	}
	if c.t, err = cacheType(l, "kv_type"); err != nil {
		return nil, err
	}
	return bounded(l, c, product(c.hd, c.headsKV, c.nkv), product(c.hd, c.heads, c.tokens), product(c.heads, c.nkv, c.tokens))
}

func (c *attention) id() (string, []harness.Param) {
	return "attention", []harness.Param{harness.P("hd", c.hd), harness.P("n_head", c.heads), harness.P("n_head_kv", c.headsKV),
		harness.P("n_kv", c.nkv), harness.P("n_tokens", c.tokens), harness.P("kv_type", c.t)}
}

func (c *attention) work() int64 { return product(2, c.hd, c.heads, c.nkv, c.tokens) }

func (c *attention) refusal() string {
	if c.heads%c.headsKV != 0 {
		return fmt.Sprintf("n_head is %d: want a multiple of n_head_kv, %d", c.heads, c.headsKV)
	}
	return wholeBlocks(c.t, c.hd*c.headsKV)
}

func (c *attention) build(r *rand.Rand, level exact.Level) (*problem, error) {
	width := c.hd * c.headsKV
	k, err := cache(r, c.t, width, c.nkv)
	if err != nil {
		return nil, err
	}
	v, err := cache(r, c.t, width, c.nkv)
	if err != nil {
		return nil, err
	}
	q := floats(r, c.hd*c.heads*c.tokens, c.hd)
	pos := upTo(c.nkv)[c.nkv-c.tokens:]
	a := graph.Attr{Scale: float32(1 / math.Sqrt(float64(c.hd))), HeadDim: c.hd, NHead: c.heads, NHeadKV: c.headsKV, NKV: c.nkv}
	load := func(side graph.KVSide) *graph.Node {
		n := onenode.New(graph.KvcacheLoad, graph.Mat(width, c.nkv))
		n.Type, n.Attr = c.t, a
		n.Attr.KV = side
		return n
	}
	n := onenode.New(graph.Attn, graph.Mat(c.hd*c.heads, c.tokens), onenode.Input("q", gguf.F32, graph.Mat(c.hd*c.heads, c.tokens)),
		load(graph.KVKey), load(graph.KVValue), onenode.Input("pos", gguf.I32, graph.Vec(c.tokens)))
	n.Attr = a
	p := &problem{node: n, in: [][]byte{onenode.FloatBytes(q), nil, nil, onenode.IntBytes(pos)}, kv: &kvProblem{
		KV: graph.KV{Type: c.t, Capacity: c.nkv, KWidth: width, VWidth: width}, k: k, v: v,
	}}
	if c.t == gguf.Q8_0 {
		return p, nil // a backend must refuse it before there is anything to compare
	}
	parts, err := exact.Attention(level, q, k, v, pos, exact.Attn{HeadDim: c.hd, NHead: c.heads, NHeadKV: c.headsKV, Scale: a.Scale, KV: c.t})
	p.want = parts.Out
	p.oracle = func(lib *llamacpp.Lib) ([]float32, error) {
		var out []float32
		for i, at := range pos { // one query at a time, as llama.cpp is asked everywhere here
			cells := int(at) + 1
			bytes := cells * c.t.RowBytes(width)
			one, err := lib.Attention(llamacpp.AttentionArgs{KVType: c.t, HeadDim: c.hd, NHead: c.heads, NHeadKV: c.headsKV, NKV: cells,
				K: k[:bytes], V: v[:bytes], Q: q[i*c.hd*c.heads : (i+1)*c.hd*c.heads], Scale: a.Scale})
			if err != nil {
				return nil, err
			}
			out = append(out, one.Out...)
		}
		return out, nil
	}
	return p, err
}

// rope rotates n_dims channels of each head; positions are drawn below
// pos_below.
type rope struct {
	mode              string
	hd, heads, tokens int
	dims, posBelow    int
	base              float32
	factors           bool // freq_factors: divide each pair's angle
	scaling           string
	factor            float32
	ctxOrig           int
}

func parseRope(l *harness.Line) (opCase, error) {
	c := &rope{factor: 1}
	var err error
	if c.mode, err = l.Text("mode"); err != nil {
		return nil, err
	}
	if c.mode != "neox" && c.mode != "norm" {
		return nil, l.Errorf("key \"mode\" is %q: want neox or norm", c.mode)
	}
	if err := ints(l, map[string]*int{"hd": &c.hd, "n_head": &c.heads, "n_tokens": &c.tokens}, maxCount); err != nil {
		return nil, err
	}
	if err := ints(l, map[string]*int{"pos_below": &c.posBelow}, 1<<24); err != nil {
		return nil, err
	}
	if c.dims, err = l.Int("n_dims", 2, c.hd); err != nil {
		return nil, err
	}
	if c.dims%2 != 0 {
		return nil, l.Errorf("key \"n_dims\" is %d: want an even number", c.dims)
	}
	if c.base, err = l.Float32("freq_base"); err != nil {
		return nil, err
	}
	if c.base <= 0 {
		return nil, l.Errorf("key \"freq_base\" is %v: want a number above 0", c.base)
	}
	if c.factors, err = l.Bool("freq_factors"); err != nil {
		return nil, err
	}
	if l.Has("scaling") {
		if c.scaling, err = l.Text("scaling"); err != nil {
			return nil, err
		}
		if c.scaling != "linear" && c.scaling != "yarn" {
			return nil, l.Errorf("key \"scaling\" is %q: want linear or yarn", c.scaling)
		}
		if c.factor, err = l.Float32("factor"); err != nil {
			return nil, err
		}
		if c.factor <= 0 {
			return nil, l.Errorf("key \"factor\" is %v: want a number above 0", c.factor)
		}
	}
	if c.scaling == "yarn" {
		if c.ctxOrig, err = l.Int("n_ctx_orig", 1, 1<<24); err != nil {
			return nil, err
		}
	}
	return bounded(l, c, c.work())
}

func (c *rope) id() (string, []harness.Param) {
	p := []harness.Param{harness.P("mode", c.mode), harness.P("hd", c.hd), harness.P("n_head", c.heads), harness.P("n_tokens", c.tokens),
		harness.P("n_dims", c.dims), harness.P("pos_below", c.posBelow), harness.P("freq_base", c.base)}
	if c.factors {
		p = append(p, harness.P("freq_factors", true))
	}
	if c.scaling != "" {
		p = append(p, harness.P("scaling", c.scaling), harness.P("factor", c.factor))
	}
	if c.scaling == "yarn" {
		p = append(p, harness.P("n_ctx_orig", c.ctxOrig))
	}
	return "rope", p
}

func (c *rope) work() int64     { return product(c.hd, c.heads, c.tokens) }
func (c *rope) refusal() string { return "" }

func (c *rope) build(r *rand.Rand, level exact.Level) (*problem, error) {
	shape := graph.Mat(c.hd*c.heads, c.tokens)
	x := floats(r, shape.Elements(), c.hd)
	pos := positions(r, c.tokens, c.posBelow)
	pos[0] = int32(c.posBelow - 1)
	n := onenode.New(graph.RoPE, shape, onenode.Input("x", gguf.F32, shape), onenode.Input("pos", gguf.I32, graph.Vec(c.tokens)))
	p := graph.Rope{NDims: c.dims, FreqBase: c.base, FreqScale: 1 / c.factor, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: c.ctxOrig}
	if c.mode == "neox" {
		p.Mode = graph.RopeNeox
	}
	if c.scaling == "yarn" {
		p.ExtFactor = 1
	}
	n.Attr.Rope, n.Attr.HeadDim, n.Attr.NHead = p, c.hd, c.heads
	var factors []float32
	if c.factors {
		factors = make([]float32, c.dims/2)
		for i := range factors {
			factors[i] = 1 + 7*r.Float32()*float32(i)/float32(len(factors))
		}
		n.Weight = vector("rope_freqs.weight", factors)
	}
	want, err := exact.RoPE(x, c.hd, pos, exact.Rope{Neox: c.mode == "neox", NDims: p.NDims, FreqBase: p.FreqBase, FreqScale: p.FreqScale,
		ExtFactor: p.ExtFactor, AttnFactor: p.AttnFactor, BetaFast: p.BetaFast, BetaSlow: p.BetaSlow, NCtxOrig: p.NCtxOrig, Factors: factors})
	if err != nil {
		return nil, err
	}
	return &problem{node: n, in: [][]byte{onenode.FloatBytes(x), onenode.IntBytes(pos)}, want: want,
		oracle: func(lib *llamacpp.Lib) ([]float32, error) {
			args := llamacpp.RopeArgs{HeadDim: c.hd, NHead: c.heads, NDims: p.NDims, Pos: pos, FreqFactors: factors, FreqBase: p.FreqBase,
				FreqScale: p.FreqScale, NCtxOrig: p.NCtxOrig, ExtFactor: p.ExtFactor, AttnFactor: p.AttnFactor, BetaFast: p.BetaFast, BetaSlow: p.BetaSlow}
			if p.Mode == graph.RopeNeox {
				args.Mode = llamacpp.RopeNeoX
			}
			return lib.Rope(x, args)
		}}, nil
}
