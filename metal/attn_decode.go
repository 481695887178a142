package metal

import "minfer/engine/graph"

func attnDecodeTable() []*Entry { return nil }

func (b *Backend) decodeFlash(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return refuse(n, "no kernel for this op")
}
