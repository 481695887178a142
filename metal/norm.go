package metal

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// peak is how much larger than the RMS of all results the bounds of the
// element-wise ops let a single one be. Their k is 1, and their terms are the
// results: the roundings of an element are relative to itself.
const peak = 64

// qkNormRows is the rows of a threadgroup of kernel_qk_norm.
const qkNormRows = 4

func normTable() []*Entry {
	bound := Bound{C: peak * 24, Why: "an element up to 64 times the RMS of the results (k is 1, terms are the results), off by 24 units of itself: " +
		"16 for the sum of squares (positive terms, at most 150 one after the other in each of four sums, whose roundings average out; its root halves them), " +
		"4 for rsqrt, 4 for the mean and the products"}
	norm, qk := graph.RmsNorm.String(), graph.QkNorm.String()
	return []*Entry{
		{Op: norm, Variant: "256", Kernel: "kernel_rms_norm_256", When: "always", Lever: "MINFER_NO_RMS_256", Bound: bound},
		{Op: norm, Variant: "32", Kernel: "kernel_rms_norm_32", When: "MINFER_NO_RMS_256=1", Lever: "MINFER_NO_RMS_256", Bound: bound},
		{Op: qk, Kernel: "kernel_qk_norm", When: "always", Bound: bound},
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

// sameSize checks that the output and all inputs but positions have the node's
// number of values, and gives it.
func sameSize(n *graph.Node, in []graph.Operand, out graph.Operand) (int, error) {
	size := n.Shape.Elements()
	if size > maxElements {
		return 0, refuse(n, "%d values of shape %v, want at most %d", size, n.Shape, maxElements)
	}
	for i, o := range in {
		if x := n.In[i]; x.Type == gguf.F32 && (x.Shape.Elements() != size || o.Len != 4*size) {
			return 0, fmt.Errorf("input %d is %v of %d bytes, want %v: %d bytes", i, x.Shape, o.Len, n.Shape, 4*size)
		}
	}
	if out.Len != 4*size {
		return 0, fmt.Errorf("output of %d bytes, want %d for %v", out.Len, 4*size, n.Shape)
	}
	return size, nil
}

// maxElements bounds the values of an operand: kernels count them in 32 bits, and
// may count past the end by less than a threadgroup's share.
const maxElements = 1<<32 - 1<<16
