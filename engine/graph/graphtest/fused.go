package graphtest

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// fusedQKV runs the steps that the node merges, one after the other: the same
// loops as for single nodes, so the same bits.
func (r *Ref) fusedQKV(y, x, pos vec, n *graph.Node, kv *graph.KV) error {
	if kv == nil || kv.Type != gguf.F32 {
		return fmt.Errorf("%s: %s without a cache of f32", r.name, n.Op)
	}
	a := n.Attr
	all := make(vec, 4*n.Weight.Shape[1])
	matMul(all, x, n)
	q, k := 4*a.NHead*a.HeadDim, 4*a.NHeadKV*a.HeadDim
	part := func(from, to, heads, normRow int) vec {
		p := all[from:to]
		if n.Op == graph.FusedQkvNorm {
			w := &graph.Weight{Data: n.Norm.Data[4*normRow:]}
			normed := make(vec, len(p))
			norm(normed, p, a.HeadDim, a.Eps, w)
			p = normed
		}
		sub := &graph.Node{Weight: n.Factors, Attr: a}
		sub.Attr.NHead = heads
		turned := make(vec, len(p))
		rope(turned, p, pos, sub)
		return turned
	}
	copy(y, part(0, q, a.NHead, 0))
	for side, row := range []vec{part(q, q+k, a.NHeadKV, a.HeadDim), all[q+k:]} {
		buf, width := kv.K, kv.KWidth
		if side == int(graph.KVValue) {
			buf, width = kv.V, kv.VWidth
		}
		mem, err := r.window(buf, 4*pos.i32(0)*width, 4*width)
		if err != nil {
			return fmt.Errorf("region %d: %w", side, err)
		}
		if len(row) != len(mem) {
			return fmt.Errorf("%s: a row of %d values for a region of width %d", r.name, row.len(), width)
		}
		copy(mem, row)
	}
	return nil
}

// Concatenate gives the weights of every layer their concatenations, as
// engine/model does, and returns all weights of the model with them.
func (m *Model) Concatenate() ([]*graph.Weight, error) {
	all, err := m.Weights()
	if err != nil {
		return nil, err
	}
	for il := range m.NLayer {
		blk := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", il, s) }
		q, k, v := blk("attn_q"), blk("attn_k"), blk("attn_v")
		all = append(all, m.join(blk("attn_qkv"), q, k, v), m.join(blk("ffn_gate_up"), blk("ffn_gate"), blk("ffn_up")))
		if m.Bias {
			all = append(all, m.join(blk("attn_qkv")+".bias", q+".bias", k+".bias", v+".bias"))
		}
		if m.QkNorm {
			all = append(all, m.join(blk("attn_qk_norm"), q+".norm", k+".norm"))
		}
	}
	return all, nil
}

// Weights are all weights of the model, in the order of first use.
func (m *Model) Weights() ([]*graph.Weight, error) {
	g, err := m.Build(graph.Params{NTokens: 1, NOut: 1, NKV: 1})
	if err != nil {
		return nil, err
	}
	var all []*graph.Weight
	seen := map[*graph.Weight]bool{nil: true}
	for _, n := range g.Nodes {
		for _, w := range []*graph.Weight{n.Weight, n.Bias} {
			if !seen[w] {
				seen[w] = true
				all = append(all, w)
			}
		}
	}
	return all, nil
}

func (m *Model) join(name string, parts ...string) *graph.Weight {
	c := &graph.Weight{Name: name, Type: gguf.F32}
	first := m.weights[parts[0]]
	dim := 1
	if first.Shape[1] == 1 {
		dim = 0
	}
	c.Shape = first.Shape
	c.Shape[dim] = 0
	for _, p := range parts {
		w := m.weights[p]
		w.Concat, w.Row = c, c.Shape[dim]
		c.Shape[dim] += w.Shape[dim]
		c.Data = append(c.Data, w.Data...)
	}
	return c
}
