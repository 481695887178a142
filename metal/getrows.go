package metal

import "minfer/engine/graph"

func getRowsTable() []*Entry { return nil }

func (b *Backend) getRows(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
