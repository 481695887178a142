package graph

import "slices"

// Fuse merges nodes where one backend has all of them and supports the fused op.
//
//   - Mul(Silu(gate), up), or the factors the other way round, becomes
//     SwiGLU(gate, up) where nothing else reads the Silu.
//   - For one token, where Params allow it and concatenated weights exist, the
//     three projections of a layer with their biases, norms, rotations and cache
//     stores become FusedQKV or FusedQkvNorm, and the gate and up projections with
//     their SwiGLU become FusedFFN.
//
// A fused node keeps the name of what its readers read: "ffn_swiglu-3", and
// "Qcur-3" of the rotated queries. Where one condition does not hold the nodes
// stay single; the census of ExecOptions.Trace shows what came of it.
//
// Fuse changes neither argument: it returns a graph of new nodes, numbered
// again, with its assignment.
func Fuse(g *Graph, a *Assignment) (*Graph, *Assignment) {
	f := &fuser{g: g, a: a, uses: countUses(g), at: make([]*fusion, len(g.Nodes)), drop: make([]bool, len(g.Nodes))}
	p := g.Params
	decode := p.NTokens == 1 && p.GPU
	for _, n := range g.Nodes {
		switch n.Op {
		case Attn:
			if decode && p.FuseQKV {
				f.qkv(n)
			}
		case Mul:
			if !(decode && p.FuseFFN && f.ffn(n)) {
				f.swiGLU(n)
			}
		}
	}
	return f.rebuild()
}

// fuser collects the fusions of one graph.
type fuser struct {
	g    *Graph
	a    *Assignment
	uses []int
	at   []*fusion // by ID: the fusion that stands in the node's place
	drop []bool    // by ID: swallowed by a fusion and not its place
}

// fusion is one fused node, with inputs of the graph before.
type fusion struct {
	node  Node
	reads []*Node // members whose readers read the fused node instead
}

// swallow puts the fused node in the place of one member.
func (f *fuser) swallow(place *Node, fu *fusion, members ...*Node) {
	for _, m := range members {
		f.drop[m.ID] = true
	}
	f.drop[place.ID] = false
	f.at[place.ID] = fu
}

// only says whether every node is on the backend of the first, has one reader, and
// is in no fusion yet.
func (f *fuser) only(ns ...*Node) bool {
	for _, n := range ns {
		if f.uses[n.ID] != 1 || f.a.Of[n.ID] != f.a.Of[ns[0].ID] || f.drop[n.ID] || f.at[n.ID] != nil {
			return false
		}
	}
	return true
}

// takes says whether the backend of a member runs the node of a decode fusion.
func (f *fuser) takes(member, fused *Node, kv DType) bool {
	b := f.a.Backends[f.a.Of[member.ID]]
	if !b.SupportsFused(fused.Op) {
		return false
	}
	s, ok := b.(FusedSupporter)
	return !ok || s.SupportsFusedNode(fused, kv)
}

// gated finds the Silu and the other factor of a product.
func (f *fuser) gated(mul *Node) (silu, up *Node) {
	for i, s := range mul.In {
		if s.Op == Silu && f.uses[s.ID] == 1 && f.a.Of[s.ID] == f.a.Of[mul.ID] {
			return s, mul.In[1-i]
		}
	}
	return nil, nil
}

func (f *fuser) swiGLU(mul *Node) {
	s, up := f.gated(mul)
	if s == nil || !f.a.Backends[f.a.Of[mul.ID]].SupportsFused(SwiGLU) {
		return
	}
	n := *mul
	n.Op, n.In = SwiGLU, []*Node{s.In[0], up}
	f.swallow(mul, &fusion{n, []*Node{mul}}, s)
}

// rebuild makes the graph of what is left and what was fused.
func (f *fuser) rebuild() (*Graph, *Assignment) {
	out := &Graph{Params: f.g.Params}
	fused := &Assignment{Backends: f.a.Backends}
	clone := make([]*Node, len(f.g.Nodes))
	for _, n := range f.g.Nodes {
		if f.drop[n.ID] {
			continue
		}
		c, reads := *n, []*Node{n}
		if fu := f.at[n.ID]; fu != nil {
			c, reads = fu.node, fu.reads
		}
		c.In = slices.Clone(c.In)
		for i, x := range c.In {
			c.In[i] = clone[x.ID]
		}
		c.ID = len(out.Nodes)
		for _, r := range reads {
			clone[r.ID] = &c
		}
		out.Nodes = append(out.Nodes, &c)
		fused.Of = append(fused.Of, f.a.Of[n.ID])
	}
	out.Output = clone[f.g.Output.ID]
	fused.place(out)
	return out, fused
}

// countUses counts, by node ID, how often a value is read; the output counts as
// read once more.
func countUses(g *Graph) []int {
	uses := make([]int, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, x := range n.In {
			uses[x.ID]++
		}
	}
	uses[g.Output.ID]++
	return uses
}
