package graph_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

// chain starts a graph with one f32 input "x" of 4 values.
func chain() (graphtest.Builder, *graph.Node) {
	b := graphtest.Builder{G: &graph.Graph{}}
	return b, b.F32(graph.Input, "x", -1, graph.Vec(4))
}

func scale(b graphtest.Builder, name string, x *graph.Node, by float32) *graph.Node {
	n := b.F32(graph.Scale, name, -1, x.Shape, x)
	n.Attr.Scale = by
	return n
}

func plan(t *testing.T, g *graph.Graph, o graph.ExecOptions, backends ...graph.Backend) *graph.Plan {
	t.Helper()
	p, err := graph.NewExecutor(backends, o).Prepare(g)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func runX(t *testing.T, p *graph.Plan, x ...float32) []float32 {
	t.Helper()
	y, err := p.Run(map[string][]byte{"x": graphtest.FloatBytes(x)}, nil)
	require.NoError(t, err)
	return y
}

func poisoned(refuse ...graph.Op) *graphtest.Wrapped {
	return graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Test", Refuse: refuse, Async: true, Opaque: true, Poison: true})
}

func slotsOf(p *graph.Plan, names ...string) []int {
	var s []int
	for _, name := range names {
		for id, n := range p.Graph.Nodes {
			if n.Name == name {
				s = append(s, p.Allocation.Out[id].Slot)
			}
		}
	}
	return s
}

// A chain of sole readers runs in one buffer.
func TestInPlaceChain(t *testing.T) {
	b, x := chain()
	n := scale(b, "a", x, 2)
	n = scale(b, "b", n, 3)
	n = b.F32(graph.Add, "c", -1, n.Shape, x, n)
	b.G.Output = n
	p := plan(t, b.G, graph.ExecOptions{}, poisoned())
	require.Equal(t, []float32{7, 14, 21, -28}, runX(t, p, 1, 2, 3, -4))
	s := slotsOf(p, "a", "b", "c")
	require.Equal(t, s[0], s[1])
	require.Equal(t, s[0], s[2])
	require.Len(t, p.Allocation.Slots, 2, "the input's and the chain's")
	require.Len(t, plan(t, b.G, graph.ExecOptions{NoReuse: true}, poisoned()).Allocation.Slots, 4)
}

// With two readers the first one must not write over the value.
func TestTwoReaders(t *testing.T) {
	b, x := chain()
	a := scale(b, "a", x, 2)
	c := scale(b, "c", a, 10)
	b.G.Output = b.F32(graph.Add, "d", -1, a.Shape, a, c)
	p := plan(t, b.G, graph.ExecOptions{}, poisoned())
	require.Equal(t, []float32{22, 44, 66, 88}, runX(t, p, 1, 2, 3, 4))
	s := slotsOf(p, "a", "c")
	require.NotEqual(t, s[0], s[1])

	// Twice by the same node is two readers too.
	b, x = chain()
	a = scale(b, "a", x, 2)
	b.G.Output = b.F32(graph.Mul, "d", -1, a.Shape, a, a)
	p = plan(t, b.G, graph.ExecOptions{}, poisoned())
	require.Equal(t, []float32{4, 16, 36, 64}, runX(t, p, 1, 2, 3, 4))
	s = slotsOf(p, "a", "d")
	require.NotEqual(t, s[0], s[1])
}

// The window of a value keeps it alive, and is not written over even where it is
// read once: its bytes are another value's.
func TestViewKeepsItsValue(t *testing.T) {
	b := graphtest.Builder{G: &graph.Graph{}}
	x := b.F32(graph.Input, "x", -1, graph.Mat(2, 2))
	a := scale(b, "a", x, 2)
	v := b.F32(graph.View, "v", -1, graph.Vec(2), a)
	v.Attr.Offset = 1
	r := b.F32(graph.Reshape, "r", -1, graph.Mat(1, 2), v)
	s := scale(b, "s", r, 10)
	s = b.F32(graph.Reshape, "s2", -1, graph.Vec(2), s)
	w := b.F32(graph.View, "w", -1, graph.Vec(2), a) // row 0, after s was written
	u := b.F32(graph.Add, "u", -1, graph.Vec(2), w, s)
	b.G.Output = b.F32(graph.Add, "o", -1, graph.Vec(2), u, v)
	for _, refuse := range [][]graph.Op{nil, {graph.View}, {graph.Reshape}, {graph.Scale}, {graph.Add, graph.View}} {
		p := plan(t, b.G, graph.ExecOptions{}, poisoned(refuse...), graphtest.NewRef("CPU"))
		// a = 2 4 6 8; v = 6 8; s = 60 80; u = 62 84.
		require.Equal(t, []float32{68, 92}, runX(t, p, 1, 2, 3, 4), "refused: %v", refuse)
	}
	p := plan(t, b.G, graph.ExecOptions{}, poisoned())
	sl := slotsOf(p, "a", "v", "r", "w", "s")
	require.Equal(t, sl[:1], sl[1:2])
	require.Equal(t, sl[0], sl[3])
	require.NotEqual(t, sl[0], sl[4])
}

// The output is read after all nodes: no later node may have its slot, neither
// by reuse nor in place.
func TestOutputStays(t *testing.T) {
	b, x := chain()
	o := scale(b, "o", x, 2)
	b.G.Output = o
	c := scale(b, "c", o, 100)
	d := b.F32(graph.RmsNorm, "d", -1, c.Shape, c)
	b.F32(graph.RmsNorm, "e", -1, d.Shape, d)
	p := plan(t, b.G, graph.ExecOptions{}, poisoned())
	require.Equal(t, []float32{2, 4, 6, 8}, runX(t, p, 1, 2, 3, 4))
	s := slotsOf(p, "o", "c", "d", "e")
	require.NotContains(t, s[1:], s[0])
	require.Equal(t, s[1], s[3], "while others are reused")

	// The output as a window of a value.
	b, x = chain()
	v := b.F32(graph.Reshape, "v", -1, graph.Mat(2, 2), scale(b, "o", x, 2))
	b.G.Output = v
	scale(b, "c", x, 100)
	require.Equal(t, []float32{2, 4, 6, 8}, runX(t, plan(t, b.G, graph.ExecOptions{}, poisoned()), 1, 2, 3, 4))
}

// A value that another backend copies late must live until then, and its reader
// on the own backend may not write over it although it is the only one there.
func TestCopyIsAReader(t *testing.T) {
	b, x := chain()
	a := scale(b, "a", x, 2)
	c := scale(b, "c", a, 10)
	for range 4 {
		c = scale(b, "c2", c, 1)
	}
	n := b.F32(graph.RmsNorm, "n", -1, a.Shape, a) // refused: read on CPU
	b.G.Output = b.F32(graph.Add, "o", -1, a.Shape, n, c)
	p := plan(t, b.G, graph.ExecOptions{}, poisoned(graph.RmsNorm), graphtest.NewRef("CPU"))
	require.Len(t, p.Allocation.Copies, 2)
	require.Equal(t, []float32{21, 21, 21, 21}, runX(t, p, 1, 1, 1, 1))
}

// In place needs the same backend: a staging copy is never written over.
func TestStagingCopyStays(t *testing.T) {
	b, x := chain()
	n := b.F32(graph.RmsNorm, "n", -1, x.Shape, x)
	b.G.Output = scale(b, "o", n, 5)
	p := plan(t, b.G, graph.ExecOptions{}, poisoned(graph.RmsNorm), graphtest.NewRef("CPU"))
	require.Equal(t, []float32{5, 5, -5, 5}, runX(t, p, 1, 1, -1, 1))
	require.Len(t, p.Allocation.Copies, 1)
	to := p.Allocation.Copies[0].To.Slot
	require.True(t, p.Allocation.Slots[to].Fresh)
	require.NotEqual(t, to, slotsOf(p, "o")[0])
}

func TestSizeClasses(t *testing.T) {
	prev := 0
	for n := 1; n < 5_000_000; n += 1 + n/7 {
		c := graph.SizeClass(n)
		require.GreaterOrEqual(t, c, n)
		require.GreaterOrEqual(t, c, prev)
		require.Equal(t, c, graph.SizeClass(c))
		if n > 256 {
			require.LessOrEqual(t, float64(c), float64(n)*1.125+1)
		}
		prev = c
	}
	require.Equal(t, 256, graph.SizeClass(1))
	require.Equal(t, 320, graph.SizeClass(289))
	require.Equal(t, 1<<20, graph.SizeClass(1<<20))
	require.Equal(t, 1<<20+1<<17, graph.SizeClass(1<<20+1))
}

// planted makes the small model's assignment over two backends and its correct
// allocation, to break.
func planted(t *testing.T) (*graphtest.Model, *graph.Graph, *graph.Assignment, *graph.Allocation, *graph.Executor) {
	m := graphtest.NewModel(graphtest.Small)
	g, err := m.Build(params(3, 1))
	require.NoError(t, err)
	backends := []graph.Backend{poisoned(graph.RmsNorm), graphtest.NewRef("CPU")}
	a, err := graph.Assign(g, backends, nil)
	require.NoError(t, err)
	g, a = graph.Fuse(g, a)
	al, err := graph.Allocate(g, a, false)
	require.NoError(t, err)
	return m, g, a, al, graph.NewExecutor(backends, graph.ExecOptions{})
}

func find(t *testing.T, g *graph.Graph, name string) int {
	for _, n := range g.Nodes {
		if n.Name == name {
			return n.ID
		}
	}
	t.Fatalf("no node %q", name)
	return -1
}

func TestMismatch(t *testing.T) {
	_, g, a, al, e := planted(t)
	id := find(t, g, "Vcur-1") // reads attn_norm-1, which CPU computes
	copied := al.In[id][0]
	al.In[id][0] = al.Out[g.Nodes[id].In[0].ID]
	want := `assignment/alloc mismatch: node 28 "Vcur-1" (mul_mat): input "attn_norm-1" lives on backend CPU, its split runs on Test`
	require.EqualError(t, al.Check(g, a), want)
	_, err := e.PrepareWith(g, a, al)
	require.EqualError(t, err, want)
	al.In[id][0] = copied

	out := al.Out[id]
	al.Out[id].Slot = al.Out[find(t, g, "ffn_norm-1")].Slot
	require.EqualError(t, al.Check(g, a), `assignment/alloc mismatch: node 28 "Vcur-1" (mul_mat): output "Vcur-1" lives on backend CPU, its split runs on Test`)
	al.Out[id] = out

	al.Out[id].Off = al.Slots[out.Slot].Size
	require.ErrorContains(t, al.Check(g, a), `node 28 "Vcur-1" (mul_mat): output "Vcur-1" is bytes 256+192 of slot`)
	al.Out[id] = out
	al.Out[id].Slot = 999
	require.ErrorContains(t, al.Check(g, a), `output "Vcur-1" has slot 999 of`)
	al.Out[id] = out

	c := al.Copies[0]
	al.Copies[0].To = al.Out[find(t, g, "ffn_norm-1")]
	al.Copies[0].To.Slot = slotOn(al, 1-al.Slots[c.To.Slot].Backend)
	require.ErrorContains(t, al.Check(g, a), "assignment/alloc mismatch")
	al.Copies[0] = c
	require.NoError(t, al.Check(g, a))
}

func slotOn(al *graph.Allocation, b int) int {
	for i, s := range al.Slots {
		if s.Backend == b {
			return i
		}
	}
	return -1
}

// A wrong lifetime is found twice: on paper by Check, and, with Check left out,
// by the bits of a run.
func TestWrongLifetimesShow(t *testing.T) {
	m, g, a, al, e := planted(t)
	logits := func() ([]float32, error) {
		p, err := e.PrepareWith(g, a, al)
		require.NoError(t, err)
		defer p.Close()
		kv, err := m.KVCache(16, gguf.F32)
		require.NoError(t, err)
		defer kv.Close()
		return p.Run(graphtest.Inputs([]int{5, 6, 7}, 0), kv)
	}
	want, err := logits()
	require.NoError(t, err)
	shows := func(name string) {
		t.Helper()
		got, err := logits()
		if err == nil {
			require.NotEqual(t, bits(want), bits(got), name)
		}
	}

	// V is stored before K is computed... into V's slot, if its life ended early.
	v, k := find(t, g, "Vcur-1"), find(t, g, "Kcur-1")
	saved := al.Out[k]
	move := func(id int, p graph.Place) {
		old := al.Out[id]
		al.Out[id] = p
		for i := range al.In {
			for j := range al.In[i] {
				if g.Nodes[i].In[j].ID == id && al.In[i][j] == old {
					al.In[i][j] = p
				}
			}
		}
	}
	move(k, al.Out[v])
	require.EqualError(t, al.Check(g, a), `alloc: node 34 "cache_v_l1" (kv_store) reads "Vcur-1" in slot 8, which holds node 29 "Kcur-1" (mul_mat)`)
	shows("K over V")
	move(k, saved)
	require.NoError(t, al.Check(g, a))

	// The residual taken over by the attention's output.
	o, res := find(t, g, "attn_out-1"), find(t, g, "l_out-0")
	saved = al.Out[o]
	move(o, al.Out[res])
	require.ErrorContains(t, al.Check(g, a), `"ffn_inp-1" (add) reads "l_out-0" in slot`)
	shows("attention over the residual")
	move(o, saved)

	// A staging copy that is made too late is stale: poison in the first run.
	c := al.Copies[len(al.Copies)-1]
	al.Copies = al.Copies[:len(al.Copies)-1]
	require.ErrorContains(t, al.Check(g, a), "which holds nothing")
	got, err := logits()
	require.NoError(t, err)
	require.True(t, math.IsNaN(float64(got[0])), "poison reaches the logits")
	al.Copies = append(al.Copies, c)

	// The fused gate and up in one slot.
	gate, up := find(t, g, "ffn_gate-2"), find(t, g, "ffn_up-2")
	saved = al.Out[up]
	move(up, al.Out[gate])
	require.ErrorContains(t, al.Check(g, a), `"ffn_swiglu-2" (swiglu) reads "ffn_gate-2" in slot`)
	shows("up over gate")
	move(up, saved)
	require.NoError(t, al.Check(g, a))
	got, err = logits()
	require.NoError(t, err)
	require.Equal(t, bits(want), bits(got), "all faults are taken out again")
}

// A stale cell: a row of the cache that the run does not write but reads shows in
// the logits; one past the position does not.
func TestStaleCellShows(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	ref := graphtest.NewRef("Ref")
	e := graph.NewExecutor([]graph.Backend{ref}, graph.ExecOptions{})
	logits := func(plant func(graph.KV)) []uint32 {
		kv, err := m.KVCache(16, gguf.F32)
		require.NoError(t, err)
		var y []float32
		for _, tokens := range [][]int{{1, 2, 3, 4}, {5}} {
			p := params(len(tokens), 1)
			pl, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
			require.NoError(t, err)
			if len(tokens) == 1 {
				c, _ := kv.Layer(1)
				plant(c)
				y, err = pl.Run(graphtest.Inputs(tokens, 4), kv)
			} else {
				_, err = pl.Run(graphtest.Inputs(tokens, 0), kv)
			}
			require.NoError(t, err)
		}
		return bits(y)
	}
	const row = 64
	stale := func(cell int) func(graph.KV) {
		return func(c graph.KV) { require.NoError(t, ref.WriteHost(c.V, cell*row, make([]byte, row))) }
	}
	want := logits(func(graph.KV) {})
	require.NotEqual(t, want, logits(stale(2)))
	require.Equal(t, want, logits(stale(4)), "written again by the run")
	require.Equal(t, want, logits(func(c graph.KV) {
		require.NoError(t, ref.WriteHost(c.V, 5*row, graphtest.FloatBytes([]float32{float32(math.NaN())})))
	}), "past the position")
}
