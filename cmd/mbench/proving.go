package main

import (
	"fmt"
	"unsafe"

	"minfer/cpu"
	"minfer/engine/graph"
	"minfer/engine/model"
)

// A prompt up to so many bytes is evaluated so soon that reading the weights first,
// to see whether they are finite, would be a good part of the time to the first token.
const shortPrompt = 512

// A proving backend is the CPU's, which shows the products of the first pass to a
// proof.
type proving struct {
	*cpu.Backend
	proof *model.Proof
}

var (
	_ graph.Mapper        = (*proving)(nil)
	_ graph.Tapper        = (*proving)(nil)
	_ graph.ZeroAllocator = (*proving)(nil)
)

func (p *proving) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if err := p.Backend.ExecuteNode(n, in, out, kv); err != nil || n.Op != graph.MatMul || !p.proof.Wants(n.Weight) {
		return err
	}
	mem, err := p.Map(out.Buf)
	if err != nil {
		return err
	}
	rows := n.Weight.Shape[1]
	if out.Len < 4*rows || out.Off%4 != 0 || out.Off+out.Len > len(mem) {
		return fmt.Errorf("node %q: %d bytes at %d of %d, want %d results at least", n.Name, out.Len, out.Off, len(mem), rows)
	}
	return p.proof.Product(n.Weight, unsafe.Slice((*float32)(unsafe.Pointer(&mem[out.Off])), rows))
}
