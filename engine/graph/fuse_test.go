package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

func opsOf(g *graph.Graph) []graph.Op {
	var ops []graph.Op
	for _, n := range g.Nodes {
		ops = append(ops, n.Op)
	}
	return ops
}

func TestFuseSwiGLU(t *testing.T) {
	// build makes silu(gate)*up, swapped or not, and more readers of the silu.
	build := func(swap, reader, both, output bool) *graph.Graph {
		b, x := chain()
		gate, up := scale(b, "gate", x, 2), scale(b, "up", x, 3)
		s := b.F32(graph.Silu, "s", -1, x.Shape, gate)
		in := []*graph.Node{s, up}
		if swap {
			in = []*graph.Node{up, s}
		}
		if both {
			in = []*graph.Node{s, s}
		}
		m := b.F32(graph.Mul, "ffn_swiglu-0", -1, x.Shape, in...)
		b.G.Output = scale(b, "out", m, 1)
		if reader {
			b.G.Output = b.F32(graph.Add, "sum", -1, x.Shape, m, s)
		}
		if output {
			b.G.Output = s
		}
		return b.G
	}
	ref := graphtest.NewRef("Ref")
	fuse := func(g *graph.Graph, backends ...graph.Backend) *graph.Graph {
		a, err := graph.Assign(g, backends, nil)
		require.NoError(t, err)
		before := opsOf(g)
		f, fa := graph.Fuse(g, a)
		require.Equal(t, before, opsOf(g), "the argument stays")
		require.NoError(t, graph.Validate(f))
		require.Len(t, fa.Of, len(f.Nodes))
		require.Equal(t, len(f.Nodes)-1, fa.Splits[len(fa.Splits)-1].Last)
		return f
	}
	for _, swap := range []bool{false, true} {
		f := fuse(build(swap, false, false, false), ref)
		require.Equal(t, []graph.Op{graph.Input, graph.Scale, graph.Scale, graph.SwiGLU, graph.Scale}, opsOf(f))
		n := f.Nodes[3]
		require.Equal(t, "ffn_swiglu-0", n.Name)
		require.Equal(t, []*graph.Node{f.Nodes[1], f.Nodes[2]}, n.In, "gate, up")
		// silu(2)*3 = 2/(1+e^-2)*3 and silu(-4)*-6 by hand.
		y := runX(t, plan(t, build(swap, false, false, false), graph.ExecOptions{}, ref), 1, -2, 0, 0)
		require.InDeltaSlice(t, []float32{5.2847824, 0.43167, 0, 0}, y, 1e-5)
	}
	require.Contains(t, opsOf(fuse(build(false, true, false, false), ref)), graph.Silu, "a second reader")
	require.Contains(t, opsOf(fuse(build(false, false, true, false), ref)), graph.Silu, "read twice")
	require.Contains(t, opsOf(fuse(build(false, false, false, true), ref)), graph.Silu, "it is the output")
	no := graphtest.Wrap(ref, graphtest.Options{Name: "No", Refuse: []graph.Op{graph.SwiGLU}})
	require.Contains(t, opsOf(fuse(build(false, false, false, false), no)), graph.Silu, "the backend refuses")
	noSilu := graphtest.Wrap(ref, graphtest.Options{Name: "No", Refuse: []graph.Op{graph.Silu}})
	require.Contains(t, opsOf(fuse(build(false, false, false, false), noSilu, ref)), graph.Silu, "two backends")
}
