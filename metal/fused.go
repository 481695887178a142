package metal

import "minfer/engine/graph"

func fusedTable() []*Entry { return nil }

func (b *Backend) fusedQKV(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return refuse(n, "no kernel for this op")
}

func (b *Backend) fusedFFN(n *graph.Node, in []graph.Operand, out graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
