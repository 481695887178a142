package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

// variants of the small model, by what its layers have.
func variants() map[string]*graphtest.Model {
	all := map[string]*graphtest.Model{}
	for _, bias := range []bool{false, true} {
		for _, norm := range []bool{false, true} {
			c := graphtest.Small
			c.Bias, c.QkNorm = bias, norm
			all[fmt.Sprintf("bias=%v norm=%v", bias, norm)] = graphtest.NewModel(c)
		}
	}
	return all
}

// gpuParams of a run of n tokens with the fusions as given.
func gpuParams(n, out int, qkv, ffn bool) graph.Params {
	p := params(n, out)
	p.GPU, p.FuseQKV, p.FuseFFN = true, qkv, ffn
	return p
}

// fusedOps counts the ops of the graph of one token after fusion.
func fusedOps(t *testing.T, m *graphtest.Model, p graph.Params, backends ...graph.Backend) map[graph.Op]int {
	t.Helper()
	return count(fused(t, m, p, backends...))
}

func fused(t *testing.T, m *graphtest.Model, p graph.Params, backends ...graph.Backend) *graph.Graph {
	t.Helper()
	g, err := m.Build(p)
	require.NoError(t, err)
	a, err := graph.Assign(g, backends, nil)
	require.NoError(t, err)
	before := opsOf(g)
	f, fa := graph.Fuse(g, a)
	require.Equal(t, before, opsOf(g), "the argument stays")
	require.NoError(t, graph.Validate(f))
	_, err = graph.Allocate(f, fa, false)
	require.NoError(t, err)
	return f
}

func count(g *graph.Graph) map[graph.Op]int {
	ops := map[graph.Op]int{}
	for _, n := range g.Nodes {
		ops[n.Op]++
	}
	return ops
}

func TestFuseDecode(t *testing.T) {
	for name, m := range variants() {
		t.Run(name, func(t *testing.T) {
			ref := graphtest.NewRef("Ref")
			none := fusedOps(t, m, gpuParams(1, 1, true, true), ref)
			require.Zero(t, none[graph.FusedQKV]+none[graph.FusedQkvNorm]+none[graph.FusedFFN], "without concatenations")
			require.Equal(t, 3, none[graph.SwiGLU])
			_, err := m.Concatenate()
			require.NoError(t, err)

			op := graph.FusedQKV
			if m.QkNorm {
				op = graph.FusedQkvNorm
			}
			both := fusedOps(t, m, gpuParams(1, 1, true, true), ref)
			want := map[graph.Op]int{
				graph.Input: 2, graph.GetRows: 1, graph.RmsNorm: 7, op: 3, graph.KvcacheLoad: 6, graph.Attn: 3,
				graph.MatMul: 7, graph.Add: 6, graph.FusedFFN: 3,
			}
			require.Equal(t, want, both)

			qkv := fusedOps(t, m, gpuParams(1, 1, true, false), ref)
			require.Equal(t, []int{3, 0, 3}, []int{qkv[op], qkv[graph.FusedFFN], qkv[graph.SwiGLU]})
			ffn := fusedOps(t, m, gpuParams(1, 1, false, true), ref)
			require.Equal(t, []int{0, 3, 0, 6}, []int{ffn[op], ffn[graph.FusedFFN], ffn[graph.SwiGLU], ffn[graph.KvcacheStore]})
			for _, p := range []graph.Params{params(1, 1), gpuParams(1, 1, false, false), gpuParams(2, 1, false, false)} {
				require.Equal(t, none[graph.MatMul], fusedOps(t, m, p, ref)[graph.MatMul], "%+v", p)
			}

			g := fused(t, m, gpuParams(1, 1, true, true), ref)
			n := g.Nodes[find(t, g, "Qcur-1")]
			require.Equal(t, op, n.Op)
			require.Equal(t, "attn_norm-1", n.In[0].Name)
			require.Equal(t, "inp_pos", n.In[1].Name)
			require.Equal(t, "blk.1.attn_qkv.weight", n.Weight.Name)
			require.Equal(t, graph.Mat(24, 32+16+16), n.Weight.Shape)
			require.Equal(t, m.Bias, n.Bias != nil)
			require.Equal(t, m.QkNorm, n.Norm != nil)
			require.Equal(t, []int{8, 4, 2}, []int{n.Attr.HeadDim, n.Attr.NHead, n.Attr.NHeadKV})
			require.Equal(t, graph.RopeNeox, n.Attr.Rope.Mode)
			f := g.Nodes[find(t, g, "ffn_swiglu-2")]
			require.Equal(t, graph.FusedFFN, f.Op)
			require.Equal(t, "blk.2.ffn_gate_up.weight", f.Weight.Name)
			require.Equal(t, "ffn_norm-2", f.In[0].Name)
		})
	}
}

// Fusion must not show: Ref computes the same bits either way. The hostile
// backend sees to it that only the row of the position is written.
func TestFusedRunsKeepTheBits(t *testing.T) {
	for name, m := range variants() {
		t.Run(name, func(t *testing.T) {
			want := plainRun(t, m)
			weights, err := m.Concatenate()
			require.NoError(t, err)
			for _, f := range [][2]bool{{true, true}, {true, false}, {false, true}} {
				gpu := holder(t, weights)
				cpu := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "CPU", Async: true, Opaque: true, Poison: true})
				for _, backends := range [][]graph.Backend{{gpu}, {gpu, cpu}} {
					require.Equal(t, bits(want), bits(fusedRun(t, m, backends, graph.ExecOptions{}, f[0], f[1])), "%v", f)
				}
				require.Zero(t, gpu.Live())
			}
		})
	}
}

// holder is a GPU that runs late, hides its memory and holds the weights.
func holder(t *testing.T, weights []*graph.Weight, refuse ...graph.Op) *graphtest.Holder {
	t.Helper()
	h := graphtest.Hold(graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Metal", Refuse: refuse, Async: true, Opaque: true, Poison: true}))
	for _, w := range weights {
		require.NoError(t, h.HoldWeight(w))
	}
	return h
}

// fusedRun is decodeRun with fusions in the single tokens.
func fusedRun(t *testing.T, m *graphtest.Model, backends []graph.Backend, o graph.ExecOptions, qkv, ffn bool) []float32 {
	t.Helper()
	e := graph.NewExecutor(backends, o)
	defer e.Close()
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	defer kv.Close()
	var all []float32
	eval := func(tokens []int, pos int, p graph.Params) {
		plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
		require.NoError(t, err)
		logits, err := plan.Run(graphtest.Inputs(tokens, pos), kv)
		require.NoError(t, err)
		all = append(all, logits...)
	}
	eval(prompt, 0, gpuParams(7, 2, false, false))
	eval([]int{7}, 7, gpuParams(1, 1, qkv, ffn))
	eval([]int{0}, 8, gpuParams(1, 1, qkv, ffn))
	require.Equal(t, graph.Stats{Builds: 2, Reuses: 1, Runs: 3}, e.Stats())
	return all
}

// Mixed with splits: an op on the CPU, members of fusions among them.
func TestFusionsAcrossSplits(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	want := plainRun(t, m)
	weights, err := m.Concatenate()
	require.NoError(t, err)
	whole := []graph.Op{graph.QkNorm, graph.RoPE, graph.MatMul, graph.KvcacheStore, graph.Attn, graph.FusedQkvNorm}
	for _, op := range append(slices.Clone(modelOps), graph.FusedQkvNorm, graph.FusedFFN) {
		gpu := holder(t, weights, op)
		cpu := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "CPU", Async: true, Opaque: true, Poison: true,
			Refuse: []graph.Op{graph.FusedQKV, graph.FusedQkvNorm, graph.FusedFFN}})
		var trace strings.Builder
		got := fusedRun(t, m, []graph.Backend{gpu, cpu}, graph.ExecOptions{Trace: &trace}, true, true)
		require.Equal(t, bits(want), bits(got), "refused: %s", op)
		require.Equal(t, !slices.Contains(whole, op) && op != graph.KvcacheLoad, strings.Contains(trace.String(), "fused_qkv_norm 3"), "refused: %s\n%s", op, &trace)
		ffn := op != graph.MatMul && op != graph.Silu && op != graph.Mul && op != graph.FusedFFN
		require.Equal(t, ffn, strings.Contains(trace.String(), "fused_ffn 3"), "refused: %s\n%s", op, &trace)
	}
}

// limited refuses single nodes.
type limited struct {
	*graphtest.Ref
	seen []string
	kv   []graph.DType
	no   string
}

func (l *limited) SupportsFusedNode(n *graph.Node, kv graph.DType) bool {
	l.seen = append(l.seen, fmt.Sprintf("%s %s %s %v %v", n.Op, n.Name, n.Weight.Name, n.Shape[0], n.In[0].Shape[0]))
	l.kv = append(l.kv, kv)
	return n.Name != l.no
}

func TestSupportsFusedNode(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	_, err := m.Concatenate()
	require.NoError(t, err)
	l := &limited{Ref: graphtest.NewRef("Ref"), no: "ffn_swiglu-1"}
	g := fused(t, m, gpuParams(1, 1, true, true), l)
	require.Equal(t, 2, count(g)[graph.FusedFFN])
	require.Equal(t, 1, count(g)[graph.SwiGLU], "refused as a whole, the pair is still fused")
	require.Contains(t, l.seen, "fused_qkv_norm Qcur-0 blk.0.attn_qkv.weight 32 24")
	require.Contains(t, l.seen, "fused_ffn ffn_swiglu-1 blk.1.ffn_gate_up.weight 52 24")
	require.Equal(t, gguf.F32, l.kv[0])
	l.no = "Qcur-2"
	require.Equal(t, 2, fusedOps(t, m, gpuParams(1, 1, true, true), l)[graph.FusedQkvNorm])
}

// Each condition of a fusion, broken alone in layer 1: that layer stays single.
func TestFusionConditions(t *testing.T) {
	type layer map[string]*graph.Node
	for name, c := range map[string]struct {
		qkv, ffn int
		spoil    func(b graphtest.Builder, l layer)
	}{
		"nothing":         {3, 3, func(graphtest.Builder, layer) {}},
		"no concat":       {2, 3, func(_ graphtest.Builder, l layer) { l["v"].Weight = apart(l["v"].Weight) }},
		"another concat":  {2, 3, func(_ graphtest.Builder, l layer) { l["k"].Weight = moved(l["k"].Weight, 1) }},
		"another type":    {2, 3, func(_ graphtest.Builder, l layer) { l["k"].Weight = typed(l["k"].Weight) }},
		"no bias":         {2, 3, func(_ graphtest.Builder, l layer) { l["k"].Bias = nil }},
		"bias apart":      {2, 3, func(_ graphtest.Builder, l layer) { l["q"].Bias = apart(l["q"].Bias) }},
		"norm apart":      {2, 3, func(_ graphtest.Builder, l layer) { l["qn"].Weight = apart(l["qn"].Weight) }},
		"norms swapped":   {2, 3, func(_ graphtest.Builder, l layer) { l["qn"].Weight, l["kn"].Weight = l["kn"].Weight, l["qn"].Weight }},
		"eps":             {2, 3, func(_ graphtest.Builder, l layer) { l["kn"].Attr.Eps *= 2 }},
		"rope":            {2, 3, func(_ graphtest.Builder, l layer) { l["kr"].Attr.Rope.FreqBase *= 2 }},
		"factors":         {2, 3, func(_ graphtest.Builder, l layer) { l["kr"].Weight = weightOf(graph.Vec(4)) }},
		"another input":   {2, 3, func(_ graphtest.Builder, l layer) { l["v"].In[0] = l["x"] }},
		"q read twice":    {2, 3, func(b graphtest.Builder, l layer) { b.F32(graph.Silu, "r", -1, l["qr"].Shape, l["qr"]) }},
		"norm read twice": {2, 3, func(b graphtest.Builder, l layer) { b.F32(graph.Silu, "r", -1, l["kn"].Shape, l["kn"]) }},
		"v read twice":    {2, 3, func(b graphtest.Builder, l layer) { b.F32(graph.Silu, "r", -1, l["v"].Shape, l["v"]) }},
		"two rows of x":   {2, 3, func(_ graphtest.Builder, l layer) { l["q"].In[0].Shape[1] = 2 }},
		"rows of the ffn": {3, 2, func(_ graphtest.Builder, l layer) { l["up"].In[0].Shape[1] = 2 }},
		"k's position":    {2, 3, func(b graphtest.Builder, l layer) { l["kr"].In[1] = inserted(b.G, l["x"]) }},
		"store's position": {2, 3, func(b graphtest.Builder, l layer) {
			pos := inserted(b.G, l["x"])
			for _, n := range b.G.Nodes {
				if n.Name == "cache_v_l1" && n.Op == graph.KvcacheStore {
					n.In[1] = pos
				}
			}
		}},
		"a late position": {2, 3, func(b graphtest.Builder, l layer) {
			pos := inserted(b.G, l["q"])
			for _, n := range b.G.Nodes {
				if n.Layer == 1 && len(n.In) > 1 && n.In[len(n.In)-1].Name == "inp_pos" {
					n.In[len(n.In)-1] = pos
				}
			}
		}},
		"gate bias": {3, 2, func(_ graphtest.Builder, l layer) { l["gate"].Bias = weightOf(graph.Vec(52)) }},
		"up apart":  {3, 2, func(_ graphtest.Builder, l layer) { l["up"].Weight = apart(l["up"].Weight) }},
		"gate and up": {3, 2, func(_ graphtest.Builder, l layer) {
			l["gate"].Weight, l["up"].Weight = l["up"].Weight, l["gate"].Weight
		}},
		"up's input":    {3, 2, func(_ graphtest.Builder, l layer) { l["up"].In[0] = l["x"] }},
		"up read twice": {3, 2, func(b graphtest.Builder, l layer) { b.F32(graph.Silu, "r", -1, l["up"].Shape, l["up"]) }},
		"a third in it": {2, 3, func(_ graphtest.Builder, l layer) {
			c := l["q"].Weight.Concat
			big := *c
			big.Shape[1] += 8
			for _, n := range []string{"q", "k", "v"} {
				w := *l[n].Weight
				w.Concat = &big
				l[n].Weight = &w
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := graphtest.NewModel(graphtest.Small)
			_, err := m.Concatenate()
			require.NoError(t, err)
			p := gpuParams(1, 1, true, true)
			g, err := m.Build(p)
			require.NoError(t, err)
			l := layer{}
			for _, n := range g.Nodes {
				key := map[string]string{"Qcur-1": "q", "Kcur-1": "k", "Vcur-1": "v", "Qcur_normed-1": "qn", "Kcur_normed-1": "kn",
					"ffn_gate-1": "gate", "ffn_up-1": "up", "l_out-0": "x"}[n.Name]
				if n.Op == graph.RoPE {
					key += "r"
				}
				l[key] = n
			}
			c.spoil(graphtest.Builder{G: g}, l)
			backends := []graph.Backend{graphtest.NewRef("Ref")}
			a, err := graph.Assign(g, backends, nil)
			require.NoError(t, err)
			f, fa := graph.Fuse(g, a)
			require.Equal(t, []int{c.qkv, c.ffn}, []int{count(f)[graph.FusedQkvNorm], count(f)[graph.FusedFFN]})
			_, err = graph.Allocate(f, fa, false)
			require.NoError(t, err)
		})
	}
}

// inserted adds an input of one position right after a node.
func inserted(g *graph.Graph, after *graph.Node) *graph.Node {
	n := &graph.Node{Op: graph.Input, Name: "late", Layer: -1, Type: gguf.I32, Shape: graph.Vec(1)}
	g.Nodes = slices.Insert(g.Nodes, after.ID+1, n)
	for i := range g.Nodes {
		g.Nodes[i].ID = i
	}
	return n
}

// Without a GPU, or for more tokens, Fuse makes no decode fusion even where the
// flags are set (Validate refuses such parameters).
func TestFusionNeedsDecodeOnAGPU(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	_, err := m.Concatenate()
	require.NoError(t, err)
	for want, p := range map[int]graph.Params{
		3: gpuParams(1, 1, true, true),
		0: {NTokens: 1, NOut: 1, NKV: 16, FuseQKV: true, FuseFFN: true},
	} {
		g, err := m.Build(p)
		require.NoError(t, err)
		a, err := graph.Assign(g, []graph.Backend{graphtest.NewRef("Ref")}, nil)
		require.NoError(t, err)
		g, _ = graph.Fuse(g, a)
		require.Equal(t, []int{want, want}, []int{count(g)[graph.FusedQkvNorm], count(g)[graph.FusedFFN]})
	}
}

// apart is the weight without its concatenation.
func apart(w *graph.Weight) *graph.Weight {
	c := *w
	c.Concat, c.Row = nil, 0
	return &c
}

func moved(w *graph.Weight, by int) *graph.Weight {
	c := *w
	c.Row += by
	return &c
}

func typed(w *graph.Weight) *graph.Weight {
	c := *w
	c.Type = gguf.F16
	return &c
}

func weightOf(s graph.Shape) *graph.Weight {
	return &graph.Weight{Name: "extra", Type: gguf.F32, Shape: s, Data: make([]byte, 4*s.Elements())}
}

// The tap shows what a fused node stores, as single stores would.
func TestTapOfFusedNodes(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	see := func(qkv bool) map[string][]float32 {
		seen := map[string][]float32{}
		tap := func(v graph.TapValue) {
			if v.Node.Op == graph.KvcacheStore || v.Part == "k" || v.Part == "v" || v.Node.Name == "Qcur-1" {
				name := v.Node.Name
				if v.Part != "" {
					name = fmt.Sprintf("cache_%s_l%d", v.Part, v.Node.Layer)
				}
				seen[name] = slices.Clone(v.Data)
			}
		}
		fusedRun(t, m, []graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{Tap: tap}, qkv, false)
		return seen
	}
	want := see(false)
	_, err := m.Concatenate()
	require.NoError(t, err)
	got := see(true)
	require.Len(t, want, 7)
	for name := range want {
		require.Equal(t, bits(want[name]), bits(got[name]), name)
	}
	require.Len(t, got, 7)
	require.Len(t, got["cache_v_l2"], 16)
}

// A fused node is bound to the cache and its position is checked as a store's is.
func TestFusedNodeChecks(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	_, err := m.Concatenate()
	require.NoError(t, err)
	e := graph.NewExecutor([]graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{})
	p := gpuParams(1, 1, true, true)
	g, err := m.Build(p)
	require.NoError(t, err)
	plan, err := e.Prepare(g)
	require.NoError(t, err)
	defer plan.Close()
	_, err = plan.Run(graphtest.Inputs([]int{1}, 0), nil)
	require.EqualError(t, err, `graph: node 4 "Qcur-0" (fused_qkv_norm): the run has no kv cache`)
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	for pos, want := range map[int]string{
		-1: `graph: node 4 "Qcur-0" (fused_qkv_norm): position -1 in row 0 of "inp_pos", want 0 to 2147483646`,
		16: `graph: node 4 "Qcur-0" (fused_qkv_norm): position 16 in row 0 of "inp_pos", want 0 to 15`,
	} {
		_, err = plan.Run(graphtest.Inputs([]int{1}, pos), kv)
		require.EqualError(t, err, want)
	}
	narrow, err := graph.NewKVCache(3, 16, 16, 24, gguf.F32)
	require.NoError(t, err)
	_, err = plan.Run(graphtest.Inputs([]int{1}, 0), narrow)
	require.EqualError(t, err, `graph: node 4 "Qcur-0" (fused_qkv_norm): k and v rows of 16 and 16, the cache has rows of 16 and 24`)
	half, err := m.KVCache(16, gguf.F16)
	require.NoError(t, err)
	_, err = plan.Run(graphtest.Inputs([]int{1}, 0), half)
	require.EqualError(t, err, `graph: node 5 "cache_k_l0" (kv_load): rows of 16 f32, the cache has rows of 16 f16`)
}

func TestValidateFused(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	_, err := m.Concatenate()
	require.NoError(t, err)
	for _, c := range []struct {
		node, want string
		spoil      func(n *graph.Node)
	}{
		{"Qcur-1", "no weight", func(n *graph.Node) { n.Weight = nil }},
		{"Qcur-1", `weight "blk.1.attn_qkv.weight" has 64 rows, want (n_head 6 + n_head_kv 2) * head_dim 8 and a multiple of n_head_kv more`, func(n *graph.Node) { n.Attr.NHead = 6 }},
		{"Qcur-1", "head_dim 0, n_head 4", func(n *graph.Node) { n.Attr.HeadDim = 0 }},
		{"Qcur-1", `bias "extra" is [63] f32, want [64] f32`, func(n *graph.Node) { n.Bias = weightOf(graph.Vec(63)) }},
		{"Qcur-1", `norm "extra" is [8] f32, want [16] f32`, func(n *graph.Node) { n.Norm = weightOf(graph.Vec(8)) }},
		{"Qcur-1", "norm weight given: false, want true", func(n *graph.Node) { n.Norm = nil }},
		{"Qcur-1", "norm weight given: true, want false", func(n *graph.Node) { n.Op = graph.FusedQKV }},
		{"Qcur-1", `factors "extra" are [8] f32, want [4] f32`, func(n *graph.Node) { n.Factors = weightOf(graph.Vec(8)) }},
		{"Qcur-1", "eps is -1", func(n *graph.Node) { n.Attr.Eps = -1 }},
		{"Qcur-1", "n_dims is 7", func(n *graph.Node) { n.Attr.Rope.NDims = 7 }},
		{"Qcur-1", "output is [24] f32, want [32] f32", func(n *graph.Node) { n.Shape = graph.Vec(24) }},
		{"Qcur-1", `input 1 is node 14`, func(n *graph.Node) { n.In[1] = n.In[0] }},
		{"Qcur-1", "layer is -1", func(n *graph.Node) { n.Layer = -1 }},
		{"cache_v_l1", "is [16 9] f32, want [16 16] of f32, f16 or q8_0", func(n *graph.Node) { n.Shape[1] = 9 }},
		{"cache_v_l1", "want the store of this side of layer 1", func(n *graph.Node) { n.In[0] = n.In[0].In[0] }},
		{"ffn_swiglu-1", `weight "extra" has 7 rows, want an even number`, func(n *graph.Node) { n.Weight = weightOf(graph.Mat(24, 7)) }},
		{"ffn_swiglu-1", `input "ffn_norm-1" is [24] f32, want one row of in_dim = 23 f32`, func(n *graph.Node) { n.Weight = weightOf(graph.Mat(23, 8)) }},
		{"ffn_swiglu-1", "output is [52] f32, want [4] f32", func(n *graph.Node) { n.Weight = weightOf(graph.Mat(24, 8)) }},
		{"ffn_swiglu-1", `norm or factors "extra" on an op that takes none`, func(n *graph.Node) { n.Norm = weightOf(graph.Vec(8)) }},
		{"ffn_swiglu-1", `bias "extra" on an op that takes none`, func(n *graph.Node) { n.Bias = weightOf(graph.Vec(104)) }},
		{"result_norm", `norm or factors "extra" on an op that takes none`, func(n *graph.Node) { n.Factors = weightOf(graph.Vec(8)) }},
	} {
		g := fused(t, m, gpuParams(1, 1, true, true), graphtest.NewRef("Ref"))
		c.spoil(g.Nodes[find(t, g, c.node)])
		err := graph.Validate(g)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, c.node)
	}

	for _, p := range []graph.Params{
		{NTokens: 2, NOut: 1, NKV: 16, GPU: true, FuseFFN: true},
		{NTokens: 1, NOut: 1, NKV: 16, FuseQKV: true},
	} {
		g, err := m.Build(p)
		require.NoError(t, err)
		require.ErrorContains(t, graph.Validate(g), fmt.Sprintf("decode fusions are asked for with n_tokens = %d and gpu = %v, want 1 and true", p.NTokens, p.GPU))
	}
}

func TestFusedSteadyStateAllocatesNothing(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	_, err := m.Concatenate()
	require.NoError(t, err)
	e := graph.NewExecutor([]graph.Backend{&fusingNull{nullBackend{"A"}}}, graph.ExecOptions{})
	p := gpuParams(1, 1, true, true)
	build := func() (*graph.Graph, error) { return m.Build(p) }
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	in, dst := graphtest.Inputs([]int{1}, 3), make([]float32, m.NVocab)
	first, err := e.Plan(build, p)
	require.NoError(t, err)
	require.Equal(t, 3, count(first.Graph)[graph.FusedQkvNorm])
	require.Zero(t, testing.AllocsPerRun(20, func() {
		plan, err := e.Plan(build, p)
		if err == nil {
			err = plan.RunInto(dst, in, kv)
		}
		if err != nil {
			t.Fatal(err)
		}
	}))
	require.Equal(t, 1, e.Stats().Builds)
}

type fusingNull struct{ nullBackend }

func (*fusingNull) SupportsOp(graph.Op, graph.DType) bool { return true }
