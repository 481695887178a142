package metal

import "minfer/engine/graph"

func attnPrefillTable() []*Entry { return nil }

func (b *Backend) prefillFlash(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return refuse(n, "no kernel for this op")
}

func (b *Backend) prefillParallel(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return refuse(n, "no kernel for this op")
}
