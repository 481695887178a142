package metal

import "minfer/engine/graph"

func elementwiseTable() []*Entry { return nil }

func (b *Backend) elementwise(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}

func (b *Backend) permute(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
