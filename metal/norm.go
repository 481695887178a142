package metal

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// qkNormRows is the rows of a threadgroup of kernel_qk_norm.
const qkNormRows = 4

func normTable() []*Entry {
	// The sum of squares has positive terms only, so it is off by the longest way of
	// a term through it: cols / (4 * threads) additions in one of four sums, then 10 for
	// the joins, the square and, of 256 threads, the eight simdgroups. The mean adds 6.
	// The root halves that; rsqrt adds 4 and the products 2.
	why := func(longest int) string {
		return fmt.Sprintf("k is 1, terms are the results: half of %d for the sum of squares of up to 18,944 values and of 6 for the mean, 4 for rsqrt, 2 for the products", longest)
	}
	norm, qk := graph.RmsNorm.String(), graph.QkNorm.String()
	return []*Entry{
		{Op: norm, Variant: "256", Kernel: "kernel_rms_norm_256", When: "always", Lever: "MINFER_NO_RMS_256", Bound: Bound{C: 32, Why: why(29)}},
		{Op: norm, Variant: "32", Kernel: "kernel_rms_norm_32", When: "MINFER_NO_RMS_256=1", Lever: "MINFER_NO_RMS_256", Bound: Bound{C: 96, Why: why(158)}},
		{Op: qk, Kernel: "kernel_qk_norm", When: "always", Bound: Bound{C: 96, Why: why(158)}},
	}
}

func (b *Backend) rmsNorm(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	cols := n.Shape[0]
	if b.o.Levers.NoRMS256 {
		return b.norm(n, in, out, cols, Lookup(n.Op.String(), "", "32"), func(rows int) grid {
			return grid{Groups: mtl.Size{X: rows}, Threads: mtl.Size{X: 32}}
		})
	}
	return b.norm(n, in, out, cols, Lookup(n.Op.String(), "", "256"), func(rows int) grid {
		return grid{Groups: mtl.Size{X: rows}, Threads: mtl.Size{X: 256}}
	})
}

// qkNorm normalises each head's row.
func (b *Backend) qkNorm(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	hd := n.Attr.HeadDim
	if hd < 1 || n.Shape[0]%hd != 0 {
		return refuse(n, "rows of %d, want a multiple of head_dim = %d", n.Shape[0], hd)
	}
	if n.Weight == nil {
		return refuse(n, "no weight")
	}
	return b.norm(n, in, out, hd, Lookup(n.Op.String(), "", ""), func(rows int) grid {
		return grid{Groups: mtl.Size{X: ceil(rows, qkNormRows)}, Threads: mtl.Size{X: 32 * qkNormRows}}
	})
}

// norm encodes a norm of rows of cols values.
func (b *Backend) norm(n *graph.Node, in []graph.Operand, out graph.Operand, cols int, e *Entry, g func(rows int) grid) error {
	size, err := sameSize(n, in, out)
	if err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	values := b.read(1, in[0], mtl.Float32)
	weight := values // bound to something, as it must be; not read
	weight.Index = 0
	if w := n.Weight; w != nil {
		if err := checkVector(n, w, cols); err != nil {
			return err
		}
		if weight, err = b.weight(0, w); err != nil {
			return err
		}
	}
	rows := size / cols
	return b.launch(e, n, []mtl.Binding{
		weight, values, b.output(2, out, mtl.Float32), b.params(3, cols, rows, n.Weight != nil, n.Attr.Eps),
	}, g(rows))
}

// checkVector is the guard of a weight of d values.
func checkVector(n *graph.Node, w *graph.Weight, d int) error {
	if w.Type != gguf.F32 || w.Shape.Elements() != d || len(w.Data) != 4*d {
		return refuse(n, "weight %s is %v %v of %d bytes, want f32 of %d values", w.Name, w.Type, w.Shape, len(w.Data), d)
	}
	return nil
}

// sameSize checks that the output and the given inputs have the node's number of
// values, and gives it.
func sameSize(n *graph.Node, in []graph.Operand, out graph.Operand) (int, error) {
	size := n.Shape.Elements()
	if size > maxElements {
		return 0, refuse(n, "%d values of shape %v, want at most %d", size, n.Shape, maxElements)
	}
	for i, o := range in {
		if x := n.In[i]; x.Shape.Elements() != size || o.Len != 4*size {
			return 0, fmt.Errorf("input %d is %v of %d bytes, want %v: %d bytes", i, x.Shape, o.Len, n.Shape, 4*size)
		}
	}
	if out.Len != 4*size {
		return 0, fmt.Errorf("output of %d bytes, want %d for %v", out.Len, 4*size, n.Shape)
	}
	return size, nil
}

// maxElements bounds the values of an operand: kernels count them in 32 bits, and
// may count past the end by what a grid is rounded up to.
const maxElements = math.MaxInt32
