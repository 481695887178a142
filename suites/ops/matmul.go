package ops

import (
	"fmt"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites/onenode"
)

// Limits of a case line: far above any model, low enough that a case fits in
// memory.
const (
	maxDim   = 1 << 20
	maxCount = 1 << 16
	maxWork  = 1 << 34
	maxSize  = 1 << 28 // elements of one tensor
)

// weightType reads the key "type" as a weight type.
func weightType(l *harness.Line) (gguf.Type, error) {
	name, err := l.Text("type")
	if err != nil {
		return 0, err
	}
	t, err := gguf.ParseType(name)
	if err != nil || !isWeight(t) {
		return 0, l.Errorf("key \"type\" is %q: want a weight type (f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K)", name)
	}
	return t, nil
}

var weightTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}

func isWeight(t gguf.Type) bool {
	for _, w := range weightTypes {
		if w == t {
			return true
		}
	}
	return false
}

// wholeBlocks is the refusal of a row that is not whole blocks of its type.
func wholeBlocks(t gguf.Type, d int) string {
	if d%t.BlockSize() != 0 {
		return fmt.Sprintf("a row of %d elements is not whole blocks of %s: want a multiple of %d", d, t, t.BlockSize())
	}
	return ""
}

// ints reads several whole numbers, each from 1 to its limit.
func ints(l *harness.Line, dst map[string]*int, limit int) error {
	for _, key := range sortedKeys(dst) {
		v, err := l.Int(key, 1, limit)
		if err != nil {
			return err
		}
		*dst[key] = v
	}
	return nil
}

// bounded refuses a case that would not fit in memory or in a working day. sizes
// are the elements of its largest tensors.
func bounded(l *harness.Line, c opCase, sizes ...int64) (opCase, error) {
	for _, n := range sizes {
		if n > maxSize {
			return nil, l.Errorf("the case has a tensor of %d elements: want at most %d", n, maxSize)
		}
	}
	if w := c.work(); w < 0 || w > maxWork {
		return nil, l.Errorf("the case has %d operations: want at most %d", w, int64(maxWork))
	}
	return c, nil
}

// mulMat is out[n][m] = x[n][k] · w[m][k]: m rows of weights, n tokens.
type mulMat struct {
	t       gguf.Type
	m, n, k int
	bias    bool
}

func parseMulMat(l *harness.Line) (opCase, error) {
	c := &mulMat{}
	var err error
	if c.t, err = weightType(l); err != nil {
		return nil, err
	}
	if err := ints(l, map[string]*int{"m": &c.m, "n": &c.n, "k": &c.k}, maxDim); err != nil {
		return nil, err
	}
	if c.bias, err = l.Bool("bias"); err != nil {
		return nil, err
	}
	return bounded(l, c, product(c.m, c.k), product(c.n, c.k), product(c.m, c.n))
}

func (c *mulMat) id() (string, []harness.Param) {
	p := []harness.Param{harness.P("type", c.t), harness.P("m", c.m), harness.P("n", c.n), harness.P("k", c.k)}
	if c.bias {
		p = append(p, harness.P("bias", true))
	}
	return "mul_mat", p
}

func (c *mulMat) work() int64     { return product(c.m, c.n, c.k) }
func (c *mulMat) refusal() string { return wholeBlocks(c.t, c.k) }

func (c *mulMat) build(r *rand.Rand, level exact.Level) (*problem, error) {
	w, err := weights(r, c.t, c.k, c.m)
	if err != nil {
		return nil, err
	}
	x := floats(r, c.n*c.k, c.k)
	n := onenode.New(graph.MatMul, graph.Mat(c.m, c.n), onenode.Input("x", gguf.F32, graph.Mat(c.k, c.n)))
	n.Weight = &graph.Weight{Name: "w", Type: c.t, Shape: graph.Mat(c.k, c.m), Data: w}
	want, err := exact.MatMul(level, c.t, w, c.k, c.m, x)
	if err != nil {
		return nil, err
	}
	p := &problem{node: n, in: [][]byte{onenode.FloatBytes(x)}, want: want}
	var bias []float32
	if c.bias {
		bias = floats(r, c.m, c.m)
		n.Bias = &graph.Weight{Name: "b", Type: gguf.F32, Shape: graph.Vec(c.m), Data: onenode.FloatBytes(bias)}
		p.want = exact.Add(want, repeat(bias, c.n))
	}
	p.oracle = func(lib *llamacpp.Lib) ([]float32, error) {
		y, err := lib.MulMat(c.t, w, c.k, c.m, x)
		if err != nil || !c.bias {
			return y, err
		}
		return lib.Add(y, repeat(bias, c.n), c.m)
	}
	return p, nil
}

// batchMulMat is ggml's mul_mat of two activations: out[b][n][m] = y[b][n][k] · x[b][m][k].
type batchMulMat struct{ m, n, k, b int }

func parseBatchMulMat(l *harness.Line) (opCase, error) {
	c := &batchMulMat{}
	if err := ints(l, map[string]*int{"m": &c.m, "n": &c.n, "k": &c.k, "b": &c.b}, maxCount); err != nil {
		return nil, err
	}
	return bounded(l, c, product(c.m, c.k, c.b), product(c.n, c.k, c.b), product(c.m, c.n, c.b))
}

func (c *batchMulMat) id() (string, []harness.Param) {
	return "batch_mul_mat", []harness.Param{harness.P("m", c.m), harness.P("n", c.n), harness.P("k", c.k), harness.P("b", c.b)}
}

func (c *batchMulMat) work() int64     { return product(c.m, c.n, c.k, c.b) }
func (c *batchMulMat) refusal() string { return "" }

func (c *batchMulMat) build(r *rand.Rand, level exact.Level) (*problem, error) {
	x, y := floats(r, c.b*c.m*c.k, c.k), floats(r, c.b*c.n*c.k, c.k)
	var want []float32
	for i := range c.b {
		out, err := exact.MatMul(level, gguf.F32, onenode.FloatBytes(x[i*c.m*c.k:(i+1)*c.m*c.k]), c.k, c.m, y[i*c.n*c.k:(i+1)*c.n*c.k])
		if err != nil {
			return nil, err
		}
		want = append(want, out...)
	}
	n := onenode.New(graph.BatchMatMul, graph.Shape{c.m, c.n, c.b, 1},
		onenode.Input("a", gguf.F32, graph.Shape{c.k, c.m, c.b, 1}), onenode.Input("b", gguf.F32, graph.Shape{c.k, c.n, c.b, 1}))
	return &problem{node: n, in: [][]byte{onenode.FloatBytes(x), onenode.FloatBytes(y)}, want: want, oracle: func(lib *llamacpp.Lib) ([]float32, error) {
		var out []float32
		for i := range c.b {
			one, err := lib.MulMat(gguf.F32, onenode.FloatBytes(x[i*c.m*c.k:(i+1)*c.m*c.k]), c.k, c.m, y[i*c.n*c.k:(i+1)*c.n*c.k])
			if err != nil {
				return nil, err
			}
			out = append(out, one...)
		}
		return out, nil
	}}, nil
}

func product(dims ...int) int64 {
	p := int64(1)
	for _, d := range dims {
		if d > 0 && p > (1<<62)/int64(d) {
			return 1 << 62
		}
		p *= int64(d)
	}
	return p
}

func repeat(row []float32, n int) []float32 {
	out := make([]float32, 0, n*len(row))
	for range n {
		out = append(out, row...)
	}
	return out
}
