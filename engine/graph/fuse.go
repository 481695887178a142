package graph

import "slices"

// Fuse merges nodes where one backend has all of them and supports the fused
// op: today Mul(Silu(gate), up), or the factors the other way round, becomes
// SwiGLU(gate, up) where nothing else reads the Silu. The fused node keeps the
// name of the Mul ("ffn_swiglu-3"). The decode fusions FusedQKV, FusedQkvNorm
// and FusedFFN need concatenated weights and a GPU backend; no builder makes
// their operands yet, so their ops are vocabulary only.
//
// Fuse changes neither argument: it returns a graph of new nodes, numbered
// again, with its assignment.
func Fuse(g *Graph, a *Assignment) (*Graph, *Assignment) {
	uses := countUses(g)
	drop := make([]bool, len(g.Nodes))
	glu := make(map[int]*Node) // Mul's ID to the Silu that it swallows
	for _, n := range g.Nodes {
		if n.Op != Mul {
			continue
		}
		for _, s := range n.In {
			b := a.Of[n.ID]
			if s.Op == Silu && uses[s.ID] == 1 && a.Of[s.ID] == b && a.Backends[b].SupportsFused(SwiGLU) {
				drop[s.ID] = true
				glu[n.ID] = s
				break
			}
		}
	}
	out := &Graph{Params: g.Params}
	fused := &Assignment{Backends: a.Backends}
	clone := make([]*Node, len(g.Nodes))
	for _, n := range g.Nodes {
		if drop[n.ID] {
			continue
		}
		c := *n
		if s := glu[n.ID]; s != nil {
			up := n.In[0]
			if up == s {
				up = n.In[1]
			}
			c.Op, c.In = SwiGLU, []*Node{s.In[0], up}
		} else {
			c.In = slices.Clone(n.In)
		}
		for i, x := range c.In {
			c.In[i] = clone[x.ID]
		}
		c.ID = len(out.Nodes)
		clone[n.ID] = &c
		out.Nodes = append(out.Nodes, &c)
		fused.Of = append(fused.Of, a.Of[n.ID])
	}
	out.Output = clone[g.Output.ID]
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
