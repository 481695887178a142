package metal

import "minfer/engine/graph"

func kvTable() []*Entry { return nil }

func (b *Backend) kvStore(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return refuse(n, "no kernel for this op")
}

// kvDequantize encodes the F32 copy of a window of a q8_0 cache.
func (b *Backend) kvDequantize(n *graph.Node, packed, stage graph.Operand) error {
	return refuse(n, "no kernel for this op")
}
