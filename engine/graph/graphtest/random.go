package graphtest

import (
	"fmt"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// Random builds a graph of about nodes f32 nodes over three inputs "a", "b", "c"
// of width 8 and 1 to 4 rows, with every op that needs no cache, views of views,
// values read twice, side by side and not at all. It returns input values too.
// The same rng state gives the same graph.
func Random(rng *rand.Rand, nodes int) (*graph.Graph, map[string][]byte) {
	const d = 8
	b := Builder{&graph.Graph{}}
	in := map[string][]byte{}
	var values []*graph.Node
	for _, name := range []string{"a", "b", "c"} {
		s := graph.Mat(d, 1+rng.IntN(4))
		values = append(values, b.F32(graph.Input, name, -1, s))
		x := make([]float32, s.Elements())
		for i := range x {
			x[i] = rng.Float32()*2 - 1
		}
		in[name] = FloatBytes(x)
	}
	pos := map[int]*graph.Node{}
	for rows := 1; rows <= 4; rows++ {
		p := b.Input(fmt.Sprintf("pos%d", rows), rows)
		pos[rows] = p
		at := make([]int, rows)
		for i := range at {
			at[i] = rng.IntN(50)
		}
		in[p.Name] = IntBytes(at...)
	}
	// Recent values are likelier, so that chains form in which outputs may go in
	// place; old ones still come up, so that some lifetimes are long.
	pick := func() *graph.Node {
		if rng.IntN(3) > 0 {
			return values[len(values)-1-rng.IntN(min(4, len(values)))]
		}
		return values[rng.IntN(len(values))]
	}
	same := func(x *graph.Node) *graph.Node {
		for range 8 {
			if y := pick(); y.Shape == x.Shape {
				return y
			}
		}
		return x
	}
	for i := len(b.G.Nodes); i < nodes; i++ {
		x := pick()
		name := fmt.Sprintf("v%d", i)
		var n *graph.Node
		switch rng.IntN(14) {
		case 0, 1:
			n = b.F32(graph.Add, name, -1, x.Shape, x, same(x))
		case 2, 3:
			n = b.F32(graph.Mul, name, -1, x.Shape, x, same(x))
		case 4:
			n = b.F32(graph.Silu, name, -1, x.Shape, x)
			n = b.F32(graph.Mul, name+"m", -1, x.Shape, n, same(x))
		case 5:
			n = b.F32(graph.SwiGLU, name, -1, x.Shape, x, same(x))
		case 6, 7:
			n = b.F32(graph.Scale, name, -1, x.Shape, x)
			n.Attr.Scale = 0.75
		case 8:
			n = b.F32(graph.RmsNorm, name, -1, x.Shape, x)
			n.Attr.Eps = 1e-6
		case 9:
			n = b.F32(graph.MatMul, name, -1, x.Shape, x)
			n.Weight = randomWeight(rng, name+".w", graph.Mat(d, d), 0.4)
		case 10:
			n = b.F32(graph.RoPE, name, -1, x.Shape, x, pos[x.Shape[1]])
			n.Attr = graph.Attr{HeadDim: 4, NHead: 2, Rope: graph.Rope{NDims: 4, FreqBase: 100, FreqScale: 1}}
		case 11:
			rows := 1 + rng.IntN(x.Shape[1])
			n = b.F32(graph.View, name, -1, graph.Mat(d, rows), x)
			n.Attr.Offset = rng.IntN(x.Shape[1] - rows + 1)
		case 12:
			// There and back, so that the widths stay.
			n = b.F32(graph.Reshape, name, -1, graph.Mat(4, 2*x.Shape[1]), x)
			n = b.F32(graph.Softmax, name+"s", -1, n.Shape, n)
			n.Attr.Scale = 1.5
			n = b.F32(graph.Reshape, name+"r", -1, x.Shape, n)
		case 13:
			n = b.F32(graph.Permute, name, -1, graph.Shape{x.Shape[1], d, 1, 1}, x)
			n.Attr.Perm = [4]int{1, 0, 2, 3}
			n = b.F32(graph.BatchMatMul, name+"b", -1, graph.Mat(d, d), n, n)
			n = b.F32(graph.View, name+"v", -1, graph.Mat(d, min(4, 1+rng.IntN(4))), n)
		}
		values = append(values, n)
		i = len(b.G.Nodes) - 1
	}
	// Everything of one row count meets in the output, so that a wrong value
	// anywhere shows.
	out := values[len(values)-1]
	for _, v := range values {
		if v != out && v.Shape == out.Shape {
			out = b.F32(graph.Add, fmt.Sprintf("sum%d", len(b.G.Nodes)), -1, out.Shape, out, v)
		}
	}
	b.G.Output = out
	if out.Op == graph.Input || out.Type != gguf.F32 {
		b.G.Output = b.F32(graph.Scale, "out", -1, out.Shape, out)
	}
	return b.G, in
}
