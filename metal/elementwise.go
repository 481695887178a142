package metal

import (
	"fmt"

	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// elementsPerGroup is what a threadgroup of 256 threads takes.
const elementsPerGroup = 1024

func elementwiseTable() []*Entry {
	const always = "always"
	const flush = 0x1p-126 // a device may flush subnormal numbers to zero
	once := Bound{C: 1, Absolute: flush, Why: "one rounding; k is 1, terms are the results (of add, |a| + |b|)"}
	gate := Bound{C: 16, Absolute: 1e-30, Why: "k is 1, terms are |result| * (1 + |gate|): exp is off by 6 + 4*|gate|, the division by 5, sum and products by 3; " +
		"gates below -87 count as zero, which is less than 2e-36 times the factor away"}
	return []*Entry{
		{Op: graph.Add.String(), Kernel: "kernel_add", When: always, Bound: once},
		{Op: graph.Mul.String(), Kernel: "kernel_mul", When: always, Bound: once},
		{Op: graph.Silu.String(), Kernel: "kernel_silu", When: always, Bound: gate},
		{Op: graph.SwiGLU.String(), Kernel: "kernel_swiglu", When: always, Bound: gate},
		{Op: graph.Permute.String(), Kernel: "kernel_permute", When: always, Bound: Bound{Why: "a copy"}},
	}
}

// elements is the grid of n of them.
func elements(n int) grid {
	return grid{Groups: mtl.Size{X: ceil(n, elementsPerGroup)}, Threads: mtl.Size{X: min(256, ceil(n, 32)*32)}}
}

// elementwise encodes Add, Mul, Silu and SwiGLU. The output may be the window of an
// input.
func (b *Backend) elementwise(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	size, err := sameSize(n, in, out)
	if err != nil || size == 0 {
		return err
	}
	var buf [4]mtl.Binding
	bind := buf[:0]
	for i, o := range in {
		bind = append(bind, b.read(i, o, mtl.Float32))
	}
	bind = append(bind, b.output(len(in), out, mtl.Float32), b.params(len(in)+1, size, 0))
	return b.launch(Lookup(n.Op.String(), "", ""), n, bind, elements(size))
}

// permute encodes a copy: dimension i of the input becomes dimension Perm[i] of
// the output.
func (b *Backend) permute(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	size, err := sameSize(n, in, out)
	if err != nil || size == 0 {
		return err
	}
	var step, seen [4]int // step: in the input, of each dimension of the output
	stride := 1
	for i, p := range n.Attr.Perm {
		d := n.In[0].Shape[i]
		if p < 0 || p > 3 || seen[p] != 0 || n.Shape[p] != d {
			return fmt.Errorf("input %v by perm %v is not the output's %v", n.In[0].Shape, n.Attr.Perm, n.Shape)
		}
		seen[p], step[p] = 1, stride
		stride *= d
	}
	s := n.Shape
	return b.launch(Lookup(n.Op.String(), "", ""), n, []mtl.Binding{
		b.read(0, in[0], mtl.Float32), b.output(1, out, mtl.Float32),
		b.params(2, size, s[0], s[1], s[2], s[3], step[0], step[1], step[2], step[3]),
	}, grid{Groups: mtl.Size{X: ceil(size, 256)}, Threads: mtl.Size{X: 256}})
}
