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

// elementwise is an op on rows of d elements: silu (one input), add, mul and
// swiglu (two).
type elementwise struct {
	op      graph.Op
	d, rows int
}

func parseElementwise(l *harness.Line) (opCase, error) {
	c := &elementwise{}
	var err error
	if c.op, err = graph.ParseOp(l.Op); err != nil {
		return nil, l.Errorf("%v", err)
	}
	if err := ints(l, map[string]*int{"d": &c.d, "rows": &c.rows}, maxDim); err != nil {
		return nil, err
	}
	return bounded(l, c, c.work())
}

func (c *elementwise) id() (string, []harness.Param) {
	return c.op.String(), []harness.Param{harness.P("d", c.d), harness.P("rows", c.rows)}
}

func (c *elementwise) work() int64     { return product(c.d, c.rows) }
func (c *elementwise) refusal() string { return "" }

func (c *elementwise) build(r *rand.Rand, level exact.Level) (*problem, error) {
	shape := graph.Mat(c.d, c.rows)
	a, b := floats(r, c.d*c.rows, c.d), floats(r, c.d*c.rows, c.d)
	p := &problem{in: [][]byte{onenode.FloatBytes(a), onenode.FloatBytes(b)}}
	p.node = onenode.New(c.op, shape, onenode.Input("a", gguf.F32, shape), onenode.Input("b", gguf.F32, shape))
	switch c.op {
	case graph.Silu:
		p.node = onenode.New(c.op, shape, onenode.Input("a", gguf.F32, shape))
		p.in = p.in[:1]
		p.want = exact.Silu(level, a, c.d)
		p.oracle = func(lib *llamacpp.Lib) ([]float32, error) { return lib.Silu(a, c.d) }
	case graph.SwiGLU:
		p.want = exact.SwiGLU(level, a, b, c.d)
		p.oracle = func(lib *llamacpp.Lib) ([]float32, error) { return lib.SwiGLU(a, b, c.d) }
	case graph.Add:
		p.want = exact.Add(a, b)
		p.oracle = func(lib *llamacpp.Lib) ([]float32, error) { return lib.Add(a, b, c.d) }
	case graph.Mul:
		p.want = exact.Mul(a, b)
		p.oracle = func(lib *llamacpp.Lib) ([]float32, error) { return lib.Mul(a, b, c.d) }
	}
	return p, nil
}

// scale multiplies by one number.
type scale struct {
	d, rows int
	factor  float32
}

func parseScale(l *harness.Line) (opCase, error) {
	c := &scale{}
	if err := ints(l, map[string]*int{"d": &c.d, "rows": &c.rows}, maxDim); err != nil {
		return nil, err
	}
	var err error
	if c.factor, err = l.Float32("scale"); err != nil {
		return nil, err
	}
	return bounded(l, c, c.work())
}

func (c *scale) id() (string, []harness.Param) {
	return "scale", []harness.Param{harness.P("d", c.d), harness.P("rows", c.rows), harness.P("scale", c.factor)}
}

func (c *scale) work() int64     { return product(c.d, c.rows) }
func (c *scale) refusal() string { return "" }

func (c *scale) build(r *rand.Rand, level exact.Level) (*problem, error) {
	shape := graph.Mat(c.d, c.rows)
	x := floats(r, c.d*c.rows, c.d)
	n := onenode.New(graph.Scale, shape, onenode.Input("x", gguf.F32, shape))
	n.Attr.Scale = c.factor
	factors := make([]float32, len(x))
	for i := range factors {
		factors[i] = c.factor
	}
	return &problem{node: n, in: [][]byte{onenode.FloatBytes(x)}, want: exact.Mul(x, factors)}, nil
}
