package metal

import "minfer/engine/graph"

func normTable() []*Entry { return nil }

func (b *Backend) rmsNorm(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}

func (b *Backend) qkNorm(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
