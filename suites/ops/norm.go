package ops

import (
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites/onenode"
)

// rmsNorm normalises rows of d elements and multiplies them by a weight.
type rmsNorm struct {
	d, rows int
	eps     float32
}

func parseRmsNorm(l *harness.Line) (opCase, error) {
	c := &rmsNorm{}
	if err := ints(l, map[string]*int{"d": &c.d, "rows": &c.rows}, maxDim); err != nil {
		return nil, err
	}
	var err error
	if c.eps, err = epsilon(l); err != nil {
		return nil, err
	}
	return bounded(l, c, c.work())
}

// epsilon reads "eps", which must not be negative.
func epsilon(l *harness.Line) (float32, error) {
	eps, err := l.Float32("eps")
	if err == nil && eps < 0 {
		err = l.Errorf("key \"eps\" is %v: want a number of at least 0", eps)
	}
	return eps, err
}

func (c *rmsNorm) id() (string, []harness.Param) {
	return "rms_norm", []harness.Param{harness.P("d", c.d), harness.P("rows", c.rows), harness.P("eps", c.eps)}
}

func (c *rmsNorm) work() int64     { return product(c.d, c.rows) }
func (c *rmsNorm) refusal() string { return "" }

func (c *rmsNorm) build(r *rand.Rand, level exact.Level) (*problem, error) {
	x, w := floats(r, c.rows*c.d, c.d), floats(r, c.d, c.d)
	n := onenode.New(graph.RmsNorm, graph.Mat(c.d, c.rows), onenode.Input("x", gguf.F32, graph.Mat(c.d, c.rows)))
	n.Weight = vector("w", w)
	n.Attr.Eps = c.eps
	return &problem{node: n, in: [][]byte{onenode.FloatBytes(x)}, want: exact.RmsNorm(x, c.d, c.eps, w), oracle: normOracle(x, c.d, c.eps, w)}, nil
}

// normOracle is ggml's normalisation and product with the weight.
func normOracle(x []float32, d int, eps float32, w []float32) func(*llamacpp.Lib) ([]float32, error) {
	return func(lib *llamacpp.Lib) ([]float32, error) {
		y, err := lib.RMSNorm(x, d, eps)
		if err != nil {
			return nil, err
		}
		return lib.Mul(y, repeat(w, len(x)/d), d)
	}
}

func vector(name string, x []float32) *graph.Weight {
	return &graph.Weight{Name: name, Type: gguf.F32, Shape: graph.Vec(len(x)), Data: onenode.FloatBytes(x)}
}

// qkNorm normalises each head's row of hd channels with one weight.
type qkNorm struct {
	hd, heads, tokens int
	eps               float32
}

func parseQkNorm(l *harness.Line) (opCase, error) {
	c := &qkNorm{}
	if err := ints(l, map[string]*int{"hd": &c.hd, "n_head": &c.heads, "n_tokens": &c.tokens}, maxCount); err != nil {
		return nil, err
	}
	var err error
	if c.eps, err = epsilon(l); err != nil {
		return nil, err
	}
	return bounded(l, c, c.work())
}

func (c *qkNorm) id() (string, []harness.Param) {
	return "qk_norm", []harness.Param{harness.P("hd", c.hd), harness.P("n_head", c.heads), harness.P("n_tokens", c.tokens), harness.P("eps", c.eps)}
}

func (c *qkNorm) work() int64     { return product(c.hd, c.heads, c.tokens) }
func (c *qkNorm) refusal() string { return "" }

func (c *qkNorm) build(r *rand.Rand, level exact.Level) (*problem, error) {
	x, w := floats(r, c.hd*c.heads*c.tokens, c.hd), floats(r, c.hd, c.hd)
	shape := graph.Mat(c.hd*c.heads, c.tokens)
	n := onenode.New(graph.QkNorm, shape, onenode.Input("x", gguf.F32, shape))
	n.Weight = vector("w", w)
	n.Attr.Eps, n.Attr.HeadDim, n.Attr.NHead = c.eps, c.hd, c.heads
	return &problem{node: n, in: [][]byte{onenode.FloatBytes(x)}, want: exact.RmsNorm(x, c.hd, c.eps, w), oracle: normOracle(x, c.hd, c.eps, w)}, nil
}
