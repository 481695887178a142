package llamacpp

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"minfer/engine/gguf"
)

// opMemory is the room beside the tensors' data for a graph and the operators'
// work buffers, which never exceed twice their inputs.
const opMemory = 16 << 20

// An opGraph is one small ggml context in which operators run on one thread,
// outside of any model.
type opGraph struct {
	l     *Lib
	ctx   unsafe.Pointer
	graph unsafe.Pointer
}

// run builds a graph with room for the given bytes of tensor data, computes it,
// and gives the outputs' bytes.
func (l *Lib) run(bytes int, build func(g *opGraph) []*tensor) ([][]byte, error) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	f := &l.fn
	l.log.clear()
	ctx := f.GGMLInit(initParams{memSize: uint64(3*bytes + opMemory)})
	if ctx == nil {
		return nil, l.log.wrap(fmt.Errorf("ggml can't make a context of %d bytes", 3*bytes+opMemory))
	}
	defer f.GGMLFree(ctx)
	g := &opGraph{l: l, ctx: ctx, graph: f.GGMLNewGraph(ctx)}
	outs := build(g)
	for _, t := range outs {
		f.GGMLBuildForward(g.graph, t)
	}
	if status := f.GGMLGraphComputeWithCtx(ctx, g.graph, 1); status != 0 {
		return nil, l.log.wrap(fmt.Errorf("ggml_graph_compute_with_ctx: status %d", status))
	}
	var data [][]byte
	for _, t := range outs {
		b, err := t.bytes()
		if err != nil {
			return nil, err
		}
		data = append(data, b)
	}
	return data, nil
}

// run1 is run for one float32 output.
func (l *Lib) run1(bytes int, build func(g *opGraph) *tensor) ([]float32, error) {
	out, err := l.run(bytes, func(g *opGraph) []*tensor { return []*tensor{build(g)} })
	if err != nil {
		return nil, err
	}
	return float32s(gguf.F32, out[0]), nil
}

// bytes makes an input tensor, dims innermost first.
func (g *opGraph) bytes(t gguf.Type, data []byte, dims ...int) *tensor {
	ne := [4]int64{1, 1, 1, 1}
	for i, d := range dims {
		ne[i] = int64(d)
	}
	x := g.l.fn.GGMLNewTensor(g.ctx, int32(t), int32(len(dims)), &ne[0])
	copy(unsafe.Slice((*byte)(x.data), len(data)), data)
	return x
}

func (g *opGraph) floats(data []float32, dims ...int) *tensor {
	return g.bytes(gguf.F32, floatBytes(data), dims...)
}

func (g *opGraph) ints(data []int32) *tensor {
	b := make([]byte, 0, 4*len(data))
	for _, v := range data {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return g.bytes(gguf.I32, b, len(data))
}

func floatBytes(data []float32) []byte {
	b := make([]byte, 0, 4*len(data))
	for _, v := range data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// rowsOf checks that x is rows of d and gives their number.
func rowsOf(op, what string, x []float32, d int) (int, error) {
	if d <= 0 || len(x) == 0 || len(x)%d != 0 {
		return 0, fmt.Errorf("%s: %s has %d elements: want a positive multiple of d = %d", op, what, len(x), d)
	}
	return len(x) / d, nil
}

// columnsPerGraph keeps a graph below ggml's default of 2048 nodes.
const columnsPerGraph = 512

// MulMat multiplies weights w, m rows of k elements of type t, with each row of
// x ([n][k]) and gives [n][m]. Every row of x is a product of its own, as with
// one token per micro-batch: for several at once ggml may take another way,
// with other bits (docs/numerics.md section 11).
func (l *Lib) MulMat(t gguf.Type, w []byte, k, m int, x []float32) ([]float32, error) {
	if m <= 0 {
		return nil, fmt.Errorf("mul_mat: %d rows of weights: want a positive number", m)
	}
	if _, err := l.VecDotType(t); err != nil {
		return nil, fmt.Errorf("mul_mat: %w", err)
	}
	if k <= 0 || t.BlockSize() == 0 || k%t.BlockSize() != 0 || len(w) != m*t.RowBytes(k) {
		return nil, fmt.Errorf("mul_mat: %d bytes of weights for %d rows of %d %v elements (blocks of %d)", len(w), m, k, t, t.BlockSize())
	}
	n, err := rowsOf("mul_mat", "x", x, k)
	if err != nil {
		return nil, err
	}
	var out []float32
	for at := 0; at < n; at += columnsPerGraph {
		cols := min(columnsPerGraph, n-at)
		data, err := l.run(len(w)+cols*(k+m)*4, func(g *opGraph) (outs []*tensor) {
			wt := g.bytes(t, w, k, m)
			for i := range cols {
				outs = append(outs, l.fn.GGMLMulMat(g.ctx, wt, g.floats(x[(at+i)*k:(at+i+1)*k], k)))
			}
			return outs
		})
		if err != nil {
			return nil, fmt.Errorf("mul_mat: %w", err)
		}
		for _, d := range data {
			out = append(out, float32s(gguf.F32, d)...)
		}
	}
	return out, nil
}

// checkTable checks a table of rows of d elements.
func checkTable(op string, t gguf.Type, table []byte, d, tableRows int) error {
	if tableRows <= 0 || d <= 0 || t.BlockSize() == 0 || d%t.BlockSize() != 0 || len(table) != tableRows*t.RowBytes(d) {
		return fmt.Errorf("%s: %d bytes for %d rows of %d %v elements (blocks of %d)", op, len(table), tableRows, d, t, t.BlockSize())
	}
	return nil
}

// GetRows gives the rows ids of a table of rows of d elements, as float32.
func (l *Lib) GetRows(t gguf.Type, table []byte, d, tableRows int, ids []int32) ([]float32, error) {
	if err := checkTable("get_rows", t, table, d, tableRows); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if id < 0 || int(id) >= tableRows {
			return nil, fmt.Errorf("get_rows: id %d is %d: want 0 to %d", i, id, tableRows-1)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return l.run1(len(table)+4*len(ids)*(d+1), func(g *opGraph) *tensor {
		return l.fn.GGMLGetRows(g.ctx, g.bytes(t, table, d, tableRows), g.ints(ids))
	})
}

// SetRows stores the rows of x into a table of rows of d elements of type t, at
// the rows ids, and gives the whole table: the KV store. The table given is
// left alone.
func (l *Lib) SetRows(t gguf.Type, table []byte, d, tableRows int, x []float32, ids []int64) ([]byte, error) {
	if err := checkTable("set_rows", t, table, d, tableRows); err != nil {
		return nil, err
	}
	if len(x) != len(ids)*d {
		return nil, fmt.Errorf("set_rows: %d elements for %d rows of %d", len(x), len(ids), d)
	}
	for i, id := range ids {
		if id < 0 || id >= int64(tableRows) {
			return nil, fmt.Errorf("set_rows: id %d is %d: want 0 to %d", i, id, tableRows-1)
		}
	}
	if len(ids) == 0 {
		return append([]byte(nil), table...), nil
	}
	if tr, err := l.traits(t); err != nil {
		return nil, fmt.Errorf("set_rows: %w", err)
	} else if tr.fromFloat == nil {
		return nil, fmt.Errorf("set_rows: %v: ggml has no from_float", t)
	}
	b := make([]byte, 0, 8*len(ids))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint64(b, uint64(id))
	}
	out, err := l.run(len(table)+4*len(x)+len(b), func(g *opGraph) []*tensor {
		return []*tensor{l.fn.GGMLSetRows(g.ctx, g.bytes(t, table, d, tableRows), g.floats(x, d, len(ids)), g.bytes(i64, b, len(ids)))}
	})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// RMSNorm norms each row of d elements, without weight.
func (l *Lib) RMSNorm(x []float32, d int, eps float32) ([]float32, error) {
	n, err := rowsOf("rms_norm", "x", x, d)
	if err != nil {
		return nil, err
	}
	if !(eps >= 0) {
		return nil, fmt.Errorf("rms_norm: eps %v: want at least 0", eps)
	}
	return l.run1(8*len(x), func(g *opGraph) *tensor {
		return l.fn.GGMLRMSNorm(g.ctx, g.floats(x, d, n), eps)
	})
}

// Add adds rows of d elements; b has as many as a, or a single row that is
// added to each.
func (l *Lib) Add(a, b []float32, d int) ([]float32, error) {
	return l.binary("add", l.fn.GGMLAdd, a, b, d)
}

// Mul multiplies rows of d elements; b has as many as a, or a single row.
func (l *Lib) Mul(a, b []float32, d int) ([]float32, error) {
	return l.binary("mul", l.fn.GGMLMul, a, b, d)
}

func (l *Lib) binary(op string, f func(unsafe.Pointer, *tensor, *tensor) *tensor, a, b []float32, d int) ([]float32, error) {
	n, err := rowsOf(op, "a", a, d)
	if err != nil {
		return nil, err
	}
	nb, err := rowsOf(op, "b", b, d)
	if err != nil {
		return nil, err
	}
	if nb != n && nb != 1 {
		return nil, fmt.Errorf("%s: %d and %d rows of %d: want as many, or one", op, n, nb, d)
	}
	return l.run1(8*len(a)+4*len(b), func(g *opGraph) *tensor {
		return f(g.ctx, g.floats(a, d, n), g.floats(b, d, nb))
	})
}

// Silu is x / (1 + exp(-x)) for rows of d elements.
func (l *Lib) Silu(x []float32, d int) ([]float32, error) {
	n, err := rowsOf("silu", "x", x, d)
	if err != nil {
		return nil, err
	}
	return l.run1(8*len(x), func(g *opGraph) *tensor {
		return l.fn.GGMLSilu(g.ctx, g.floats(x, d, n))
	})
}

// SwiGLU is silu(gate) * up for rows of d elements.
func (l *Lib) SwiGLU(gate, up []float32, d int) ([]float32, error) {
	n, err := rowsOf("swiglu", "gate", gate, d)
	if err != nil {
		return nil, err
	}
	if len(up) != len(gate) {
		return nil, fmt.Errorf("swiglu: %d and %d elements: want as many", len(gate), len(up))
	}
	return l.run1(12*len(gate), func(g *opGraph) *tensor {
		return l.fn.GGMLSwigluSplit(g.ctx, g.floats(gate, d, n), g.floats(up, d, n))
	})
}

// SoftMax is the softmax of scale*x + mask over each row of d elements. The
// mask, f32 as llama.cpp has it with flash attention off, is nil, one row for
// all, or a row for each.
func (l *Lib) SoftMax(x []float32, d int, mask []float32, scale float32) ([]float32, error) {
	n, err := rowsOf("soft_max", "x", x, d)
	if err != nil {
		return nil, err
	}
	full := mask
	switch len(mask) {
	case 0, len(x):
	case d:
		full = nil
		for range n {
			full = append(full, mask...)
		}
	default:
		return nil, fmt.Errorf("soft_max: a mask of %d elements for %d rows of %d: want none, one row or all", len(mask), n, d)
	}
	return l.run1(12*len(x), func(g *opGraph) *tensor {
		var mt *tensor
		if full != nil {
			mt = g.floats(full, d, n)
		}
		return l.fn.GGMLSoftMaxExt(g.ctx, g.floats(x, d, n), mt, scale, 0)
	})
}
