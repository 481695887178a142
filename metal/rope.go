package metal

import "minfer/engine/graph"

func ropeTable() []*Entry { return nil }

func (b *Backend) rope(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
