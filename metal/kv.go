package metal

import "minfer/engine/graph"

func kvTable() []*Entry { return nil }

func (b *Backend) kvStore(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return refuse(n, "no kernel for this op")
}
