package graph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

func TestGate(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	weights, err := m.Concatenate()
	require.NoError(t, err)
	cpu := graphtest.NewRef("CPU")
	missing, open := graph.Gate([]graph.Backend{cpu}, weights)
	require.Nil(t, missing, "nobody asks for a registration")
	require.False(t, open)

	gpu := holder(t, weights)
	missing, open = graph.Gate([]graph.Backend{gpu, cpu}, weights)
	require.Nil(t, missing)
	require.True(t, open)

	gpu.Drop("blk.2.ffn_down.weight")
	gpu.Drop("blk.1.attn_norm.weight")
	missing, open = graph.Gate([]graph.Backend{gpu, cpu}, weights)
	require.Equal(t, "blk.1.attn_norm.weight", missing.Name, "the first in order")
	require.False(t, open)

	// The same name with other bytes is another weight.
	gpu = holder(t, weights)
	other := graphtest.NewModel(graphtest.Small)
	theirs, err := other.Weights()
	require.NoError(t, err)
	missing, open = graph.Gate([]graph.Backend{gpu}, theirs)
	require.Equal(t, theirs[0], missing)
	require.False(t, open)

	// Each holder needs all.
	second := graphtest.Hold(graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Second"}))
	missing, open = graph.Gate([]graph.Backend{gpu, second}, weights)
	require.Equal(t, weights[0], missing)
	require.False(t, open)
	require.Equal(t, []graph.Backend{cpu}, graph.Ungated([]graph.Backend{gpu, cpu, second}))
}

// What gpu = false means for a graph, and what the trace says of one that has all
// of its nodes on the GPU.
func TestParamsChooseTheBackends(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	weights, err := m.Weights()
	require.NoError(t, err)
	gpu, cpu := holder(t, weights), graphtest.NewRef("CPU")
	trace := func(p graph.Params, backends ...graph.Backend) string {
		var b strings.Builder
		g, err := m.Build(p)
		require.NoError(t, err)
		plan, err := graph.NewExecutor(backends, graph.ExecOptions{Trace: &b}).Prepare(g)
		require.NoError(t, err)
		plan.Close()
		return b.String()
	}
	const census = " 66 nodes: get_rows 1, add 6, swiglu 3, rms_norm 7, qk_norm 6, mul_mat 22, rope 6, kv_store 6, kv_load 6, attention 3"
	require.Equal(t, "split 0: Metal nodes 0-67\ncensus: Metal"+census+"\n", trace(gpuParams(1, 1, false, false), gpu, cpu))
	require.Equal(t, "split 0: CPU nodes 0-67\ncensus: CPU"+census+"\n", trace(params(1, 1), gpu, cpu))

	g, err := m.Build(params(1, 1))
	require.NoError(t, err)
	_, err = graph.NewExecutor([]graph.Backend{gpu}, graph.ExecOptions{}).Prepare(g)
	require.EqualError(t, err, "graph: the parameters say gpu = false, and no other backend than Metal is given")
	_, err = graph.NewExecutor([]graph.Backend{gpu, cpu}, graph.ExecOptions{ForceOps: map[graph.Op]string{graph.Add: "Metal"}}).Prepare(g)
	require.EqualError(t, err, `assign: op add is forced to backend "Metal", want one of CPU`)

	// A graph of single ops has no parameters.
	b, x := chain()
	b.G.Output = scale(b, "a", x, 2)
	require.Equal(t, []float32{2, 4, 6, 8}, runX(t, plan(t, b.G, graph.ExecOptions{}, holder(t, nil)), 1, 2, 3, 4))
}

// A plan is reused while its Params are equal and rebuilt when any of them is not.
func TestParamsAreTheIdentity(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	weights, err := m.Concatenate()
	require.NoError(t, err)
	gpu := holder(t, weights)
	e := graph.NewExecutor([]graph.Backend{gpu, graphtest.NewRef("CPU")}, graph.ExecOptions{})
	defer e.Close()
	base := gpuParams(1, 1, true, true)
	var last *graph.Plan
	get := func(p graph.Params) *graph.Plan {
		plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
		require.NoError(t, err)
		return plan
	}
	builds, reuses := 0, 0
	for name, change := range map[string]func(*graph.Params){
		"n_tokens": func(p *graph.Params) { p.NTokens, p.FuseQKV, p.FuseFFN = 3, false, false },
		"n_kv":     func(p *graph.Params) { p.NKV = 8 },
		"gpu":      func(p *graph.Params) { p.GPU, p.FuseQKV, p.FuseFFN = false, false, false },
		"qkv":      func(p *graph.Params) { p.FuseQKV = false },
		"ffn":      func(p *graph.Params) { p.FuseFFN = false },
	} {
		p := base
		change(&p)
		for _, q := range []graph.Params{base, p} {
			plan := get(q)
			require.NotSame(t, last, plan, name)
			builds++
			require.Same(t, plan, get(q), name)
			reuses++
			require.Equal(t, q, plan.Graph.Params)
			require.Equal(t, graph.Stats{Builds: builds, Reuses: reuses}, e.Stats(), name)
			last = plan
		}
	}
	require.Equal(t, graph.Stats{Builds: 10, Reuses: 10}, e.Stats())

	e = graph.NewExecutor([]graph.Backend{&nullBackend{"B"}}, graph.ExecOptions{})
	defer e.Close()
	base = params(4, 1)
	out, kv := base, base
	out.NOut, kv.KVType = 2, gguf.F16
	for i, p := range []graph.Params{base, out, kv, kv, base} {
		get(p)
		require.Equal(t, []int{1, 2, 3, 3, 4}[i], e.Stats().Builds)
	}
}

// With the gate closed in the middle of a sequence the cache stays where it is,
// and nothing moves to the CPU silently.
func TestCacheDoesNotMove(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	weights, err := m.Weights()
	require.NoError(t, err)
	e := graph.NewExecutor([]graph.Backend{holder(t, weights), graphtest.NewRef("CPU")}, graph.ExecOptions{})
	defer e.Close()
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	defer kv.Close()
	run := func(p graph.Params, pos int) error {
		plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
		require.NoError(t, err)
		_, err = plan.Run(graphtest.Inputs([]int{1}, pos), kv)
		return err
	}
	require.NoError(t, run(gpuParams(1, 1, false, false), 0))
	require.ErrorContains(t, run(params(1, 1), 1), "assignment/alloc mismatch: the kv region of layer 0 lives on backend Metal, its split runs on CPU")
}
