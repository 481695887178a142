package metal

import "minfer/engine/graph"

func matMulTable() []*Entry { return nil }

func (b *Backend) matMul(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
