package graph_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

// bits makes float comparison exact, NaN included.
func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

var prompt = []int{3, 14, 15, 9, 26, 5, 35}

// params of a run of n tokens, the last out of them wanted.
func params(n, out int) graph.Params {
	return graph.Params{NTokens: n, NOut: out, NKV: 16, KVType: gguf.F32}
}

// decodeRun feeds the prompt in one batch with 2 rows of logits, then two single
// tokens, and returns all logits.
func decodeRun(t *testing.T, m *graphtest.Model, backends []graph.Backend, o graph.ExecOptions) []float32 {
	t.Helper()
	e := graph.NewExecutor(backends, o)
	defer e.Close()
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	defer kv.Close()
	var all []float32
	eval := func(tokens []int, pos, out int) {
		p := params(len(tokens), out)
		plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
		require.NoError(t, err)
		logits, err := plan.Run(graphtest.Inputs(tokens, pos), kv)
		require.NoError(t, err)
		all = append(all, logits...)
	}
	eval(prompt, 0, 2)
	eval([]int{7}, 7, 1)
	eval([]int{0}, 8, 1)
	require.Equal(t, graph.Stats{Builds: 2, Reuses: 1, Runs: 3}, e.Stats())
	for _, v := range all {
		require.False(t, math.IsNaN(float64(v)))
	}
	return all
}

func plainRun(t *testing.T, m *graphtest.Model) []float32 {
	return decodeRun(t, m, []graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{NoReuse: true, NoFuse: true})
}

// modelOps are the ops of the small model's graphs.
var modelOps = []graph.Op{
	graph.GetRows, graph.Add, graph.Mul, graph.Silu, graph.SwiGLU, graph.RmsNorm, graph.QkNorm, graph.MatMul,
	graph.RoPE, graph.KvcacheStore, graph.KvcacheLoad, graph.Attn, graph.View,
}

// The logits of a greedy token have a meaning of their own: the same text must
// come out when the prompt is fed in one batch and token by token.
func TestBatchEqualsTokens(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	e := graph.NewExecutor([]graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{})
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	run := func(tokens []int, pos int) []float32 {
		p := params(len(tokens), 1)
		plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
		require.NoError(t, err)
		y, err := plan.Run(graphtest.Inputs(tokens, pos), kv)
		require.NoError(t, err)
		return y
	}
	batch := run(prompt, 0)
	require.NoError(t, kv.Clear())
	var single []float32
	for i, tok := range prompt {
		single = run([]int{tok}, i)
	}
	require.Equal(t, bits(batch), bits(single))
	// Without the earlier cells the answer differs: the cache is read.
	require.NoError(t, kv.Clear())
	require.NotEqual(t, bits(batch), bits(run(prompt[6:], 6)))
	// And cleared cells are zeros like those of a new cache.
	again, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	require.NoError(t, kv.Clear())
	first := run(prompt[6:], 6)
	kv = again
	require.Equal(t, bits(first), bits(run(prompt[6:], 6)))
}

func TestSplitsKeepTheBits(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	want := plainRun(t, m)
	for _, async := range []bool{false, true} {
		for _, op := range modelOps {
			t.Run(fmt.Sprintf("refuse=%s async=%v", op, async), func(t *testing.T) {
				first := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Test", Refuse: []graph.Op{op}, Async: async, Opaque: async, Poison: true})
				second := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "CPU", Async: async, Opaque: true, Poison: true})
				var trace strings.Builder
				got := decodeRun(t, m, []graph.Backend{first, second}, graph.ExecOptions{Trace: &trace})
				require.Equal(t, bits(want), bits(got))
				if op != graph.SwiGLU && op != graph.Silu && op != graph.Mul {
					require.Contains(t, trace.String(), fmt.Sprintf("%s %d", op, countOps(t, m, op)))
					if op != graph.GetRows { // which only begins
						require.Contains(t, trace.String(), "split 2:")
					}
				}
				for _, w := range []*graphtest.Wrapped{first, second} {
					require.Zero(t, w.Live(), w.Name())
					require.Zero(t, w.DoubleFrees(), w.Name())
				}
				// Buffers of the first plan come back in the second, poisoned.
				require.NotZero(t, first.Recycled())
			})
		}
	}
}

// countOps counts an op in the prompt's graph.
func countOps(t *testing.T, m *graphtest.Model, op graph.Op) int {
	g, err := m.Build(params(len(prompt), 2))
	require.NoError(t, err)
	n := 0
	for _, x := range g.Nodes {
		if x.Op == op {
			n++
		}
	}
	return n
}

// Two refusals at once make copies to and fro between the same pair.
func TestSplitsInTwos(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	want := plainRun(t, m)
	for i, a := range modelOps {
		b := modelOps[(i*5+3)%len(modelOps)]
		first := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "A", Refuse: []graph.Op{a, b}, Async: true, Opaque: true, Poison: true})
		second := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "B", Refuse: []graph.Op{graph.MatMul, graph.GetRows}, Async: true, Opaque: true, Poison: true})
		third := graphtest.NewRef("C")
		got := decodeRun(t, m, []graph.Backend{first, second, third}, graph.ExecOptions{})
		require.Equal(t, bits(want), bits(got), "%s and %s refused", a, b)
	}
}

func TestForceOps(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	a, b := graphtest.NewRef("A"), graphtest.NewRef("B")
	backends := []graph.Backend{a, b}
	var trace strings.Builder
	got := decodeRun(t, m, backends, graph.ExecOptions{Trace: &trace, ForceOps: map[graph.Op]string{graph.Attn: "B", graph.RmsNorm: "B"}})
	require.Equal(t, bits(plainRun(t, m)), bits(got))
	require.Contains(t, trace.String(), "census: B 22 nodes: rms_norm 7, kv_store 6, kv_load 6, attention 3\n")

	g, err := m.Build(params(2, 1))
	require.NoError(t, err)
	_, err = graph.Assign(g, backends, map[graph.Op]string{graph.Add: "Metal"})
	require.EqualError(t, err, `assign: op add is forced to backend "Metal", want one of A, B`)
	_, err = graph.Assign(g, backends, map[graph.Op]string{graph.Attn: "A", graph.KvcacheStore: "B"})
	require.ErrorContains(t, err, `of layer 0 are forced to both B and A, want one backend`)
	no := graphtest.Wrap(a, graphtest.Options{Name: "No", Refuse: []graph.Op{graph.MatMul}})
	_, err = graph.Assign(g, []graph.Backend{no, b}, map[graph.Op]string{graph.MatMul: "No"})
	require.ErrorContains(t, err, `"Qcur-0" (mul_mat): forced to backend No, which does not support mul_mat on f32`)
	_, err = graph.Assign(g, []graph.Backend{no}, nil)
	require.ErrorContains(t, err, `"Qcur-0" (mul_mat): no backend of No supports mul_mat on f32`)
	_, err = graph.Assign(g, []graph.Backend{a, graphtest.NewRef("A")}, nil)
	require.EqualError(t, err, "assign: two backends of the name A")
	_, err = graph.Assign(g, nil, nil)
	require.EqualError(t, err, "assign: no backends")
}

// The cache's type decides where a layer's KV nodes go: Ref has no f16 cache.
func TestKVTypeRefused(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	p := params(2, 1)
	p.KVType = gguf.F16
	g, err := m.Build(p)
	require.NoError(t, err)
	_, err = graph.Assign(g, []graph.Backend{graphtest.NewRef("Ref")}, nil)
	require.ErrorContains(t, err, "no backend of Ref supports kv_store, kv_load and attention together on f16")
}

func TestKVRegionStays(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	a := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "A", Poison: true})
	b := graphtest.NewRef("B")
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	p := params(1, 1)
	g, err := m.Build(p)
	require.NoError(t, err)
	one, err := graph.NewExecutor([]graph.Backend{a, b}, graph.ExecOptions{}).Prepare(g)
	require.NoError(t, err)
	_, err = one.Run(graphtest.Inputs([]int{1}, 0), kv)
	require.NoError(t, err)
	cell, owner := kv.Layer(1)
	require.Equal(t, a, owner)
	row := make([]byte, 64)
	require.NoError(t, a.ReadHost(cell.K, 0, row))
	require.NotEqual(t, make([]byte, 64), row)
	rest := make([]byte, 15*64)
	for _, region := range []graph.Buffer{cell.K, cell.V} {
		require.NoError(t, a.ReadHost(region, 64, rest))
		require.Equal(t, make([]byte, 15*64), rest, "only position 0 was stored, over zeros")
	}

	two, err := graph.NewExecutor([]graph.Backend{a, b}, graph.ExecOptions{ForceOps: map[graph.Op]string{graph.Attn: "B"}}).Prepare(g)
	require.NoError(t, err)
	_, err = two.Run(graphtest.Inputs([]int{1}, 1), kv)
	require.ErrorContains(t, err, `"cache_k_l0" (kv_store): assignment/alloc mismatch: the kv region of layer 0 lives on backend A, its split runs on B`)

	kv.Close()
	kv.Close()
	_, err = one.Run(graphtest.Inputs([]int{1}, 1), kv)
	require.ErrorContains(t, err, "kv cache: used after Close")
}

func TestKVCacheErrors(t *testing.T) {
	for want, f := range map[string]func() (*graph.KVCache, error){
		"kv cache: type q4_0, want f32, f16 or q8_0":                                            func() (*graph.KVCache, error) { return graph.NewKVCache(1, 8, 32, 32, gguf.Q4_0) },
		"kv cache: widths 32 and 33, want multiples of 32 for q8_0":                             func() (*graph.KVCache, error) { return graph.NewKVCache(1, 8, 32, 33, gguf.Q8_0) },
		"kv cache: 1 layers, capacity 0, widths 32 and 32, want positive numbers":               func() (*graph.KVCache, error) { return graph.NewKVCache(1, 0, 32, 32, gguf.F32) },
		"kv cache: 1125899906842624 positions of 128 bytes, want less than 2^46 bytes a region": func() (*graph.KVCache, error) { return graph.NewKVCache(1, 1<<50, 32, 32, gguf.F32) },
	} {
		_, err := f()
		require.EqualError(t, err, want)
	}
	c, err := graph.NewKVCache(2, 8, 32, 64, gguf.Q8_0)
	require.NoError(t, err)
	require.Equal(t, 2*8*(34+68), c.Bytes())
}

func TestRunErrors(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	e := graph.NewExecutor([]graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{})
	p := params(2, 1)
	plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
	require.NoError(t, err)
	kv, err := m.KVCache(20, gguf.F32)
	require.NoError(t, err)
	small, err := m.KVCache(10, gguf.F32)
	require.NoError(t, err)
	thin, err := graph.NewKVCache(3, 16, 8, 16, gguf.F32)
	require.NoError(t, err)
	shallow, err := graph.NewKVCache(1, 16, 16, 16, gguf.F32)
	require.NoError(t, err)
	in := func(tok, pos []byte) map[string][]byte { return map[string][]byte{"inp_tokens": tok, "inp_pos": pos} }
	ok := graphtest.IntBytes(1, 2)
	for _, c := range []struct {
		in   map[string][]byte
		kv   *graph.KVCache
		want string
	}{
		{in(ok, ok), nil, `graph: node 11 "cache_k_l0" (kv_store): the run has no kv cache`},
		{in(ok, ok), small, `"cache_k_l0" (kv_load): n_kv = 16, the cache has a capacity of 10`},
		{in(ok, ok), thin, `"cache_k_l0" (kv_store): rows of 16 f32, the cache has rows of 8 f32`},
		{in(ok, ok), shallow, `"cache_k_l1" (kv_store): kv cache: layer 1, the cache has 1`},
		{in(graphtest.IntBytes(1, 37), ok), kv, `graph: node 2 "embd" (get_rows): token id 37 in row 1 of "inp_tokens", want 0 to 36`},
		{in(graphtest.IntBytes(-1, 3), ok), kv, `token id -1 in row 0 of "inp_tokens"`},
		{in(ok, graphtest.IntBytes(0, -5)), kv, `position -5 in row 1 of "inp_pos", want 0 to`},
		{in(ok, graphtest.IntBytes(15, 16)), kv, `"kqv_out-0" (attention): position 16 in row 1 of "inp_pos", want 0 to 15`},
		{in(ok, graphtest.IntBytes(4, 20)), kv, `"cache_k_l0" (kv_store): position 20 in row 1 of "inp_pos", want 0 to 19`},
		{in(ok, graphtest.IntBytes(4, 4)), kv, `position 4 in row 1 of "inp_pos" occurs twice`},
		{in(ok, ok[:4]), kv, `input "inp_pos" has 4 bytes, want 8 for [2] i32`},
		{map[string][]byte{"inp_tokens": ok}, kv, `no value for input "inp_pos"`},
		{map[string][]byte{"inp_tokens": ok, "inp_pos": ok, "x": ok}, kv, `a value for "x", which is no input`},
	} {
		_, err := plan.Run(c.in, c.kv)
		require.ErrorContains(t, err, c.want)
	}
	require.Zero(t, e.Stats().Runs)
	_, err = plan.Run(in(ok, ok), kv)
	require.NoError(t, err, "errors leave the plan usable")
	require.ErrorContains(t, plan.RunInto(make([]float32, 5), in(ok, ok), kv), "room for 5 output values, want 37")
	e.Close()
	_, err = plan.Run(in(ok, ok), kv)
	require.ErrorContains(t, err, "closed plan")

	_, err = e.Plan(func() (*graph.Graph, error) { return m.Build(params(1, 1)) }, p)
	require.ErrorContains(t, err, "built with parameters {NTokens:1")
	_, err = e.Plan(func() (*graph.Graph, error) { return nil, errors.New("no weights") }, p)
	require.EqualError(t, err, "no weights")
}

// A failing node is an error that names it; everything pending is waited for, so
// that all can be freed, and nothing is handed to the other backend.
func TestNodeFailure(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	for _, async := range []bool{false, true} {
		fail := true
		w := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Test", Async: async, Opaque: true, Poison: true, Refuse: []graph.Op{graph.RmsNorm},
			Fail: func(n *graph.Node) error {
				if fail && n.Name == "ffn_up-1" {
					return errors.New("device lost")
				}
				return nil
			}})
		e := graph.NewExecutor([]graph.Backend{w, graphtest.NewRef("Ref")}, graph.ExecOptions{})
		kv, err := m.KVCache(16, gguf.F32)
		require.NoError(t, err)
		p := params(1, 1)
		plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
		require.NoError(t, err)
		_, err = plan.Run(graphtest.Inputs([]int{1}, 0), kv)
		require.ErrorContains(t, err, "device lost")
		fail = false
		_, err = plan.Run(graphtest.Inputs([]int{1}, 0), kv)
		require.NoError(t, err)
		e.Close()
		kv.Close()
		require.Zero(t, w.Live())
		require.NoError(t, w.Synchronize())
	}
}

func TestTapSeesEveryValue(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	want := plainRun(t, m)
	record := func(backends []graph.Backend, o graph.ExecOptions) (map[string][]uint32, []float32) {
		seen := map[string][]uint32{}
		call := 0
		o.Tap = func(v graph.TapValue) {
			require.Len(t, v.Data, v.Dims.Elements())
			key := fmt.Sprintf("%d %s %s %s %d", call, v.Node.Name, v.Node.Op, v.Part, v.Row)
			for seen[key] != nil {
				key += "'"
			}
			seen[key] = bits(v.Data)
			if v.Node.Name == "result_output" {
				call++
			}
		}
		return seen, decodeRun(t, m, backends, o)
	}
	base, got := record([]graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{NoReuse: true})
	require.Equal(t, bits(want), bits(got), "a tap changes no bits")
	require.Len(t, base["0 cache_v_l2 kv_store  -1"], 7*16)
	require.Equal(t, base["0 Vcur-2 mul_mat  -1"], base["0 cache_v_l2 kv_store  -1"])
	require.Equal(t, base["1 Kcur-1 rope  -1"], base["1 cache_k_l1 kv_store  -1"])
	require.Len(t, base["0 kqv_out-0 attention kq_soft_max 6"], 7*4)
	require.Contains(t, base, "0 node view  -1'")
	require.Contains(t, base, "0 ffn_swiglu-1 swiglu  -1")

	w := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Test", Async: true, Opaque: true, Poison: true, Refuse: []graph.Op{graph.RmsNorm, graph.RoPE}})
	split, got := record([]graph.Backend{w, graphtest.NewRef("Ref")}, graph.ExecOptions{})
	require.Equal(t, bits(want), bits(got))
	require.Equal(t, base, split)

	// A tap that ends is not called again.
	ref := graphtest.NewRef("Ref")
	e := graph.NewExecutor([]graph.Backend{ref}, graph.ExecOptions{Tap: func(graph.TapValue) { t.Error("called") }})
	e.SetTap(nil)
	p := params(1, 1)
	plan, err := e.Plan(func() (*graph.Graph, error) { return m.Build(p) }, p)
	require.NoError(t, err)
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	_, err = plan.Run(graphtest.Inputs([]int{1}, 0), kv)
	require.NoError(t, err)
}

func TestTraceAndProfile(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	var trace, prof strings.Builder
	w := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Metal", Refuse: []graph.Op{graph.GetRows}})
	decodeRun(t, m, []graph.Backend{w, graphtest.NewRef("CPU")}, graph.ExecOptions{Trace: &trace, Profile: &prof})
	// By hand: a layer has 2 norms, 7 products, 2 head norms, 2 rotations, 2 stores,
	// 2 loads, attention, 2 sums and the fused swiglu; the last one 2 views.
	lines := strings.Split(trace.String(), "\n")
	require.Equal(t, []string{
		"split 0: CPU nodes 0-2",
		"split 1: Metal nodes 3-69",
		"census: Metal 67 nodes: add 6, swiglu 3, rms_norm 7, qk_norm 6, mul_mat 22, rope 6, kv_store 6, kv_load 6, attention 3, view 2",
	}, lines[:3])
	require.Equal(t, "census: CPU 1 nodes: get_rows 1", lines[3])
	require.Contains(t, prof.String(), "the top 20:")
	require.Equal(t, 40, strings.Count(prof.String(), "% "))
	require.Contains(t, prof.String(), "profile: run 2: nodes")
	require.Contains(t, prof.String(), "(672 bytes)") // one copy of 7 rows of 24 values
}

// nullBackend computes nothing, so that only the executor can allocate.
type nullBackend struct {
	name string
}

type nullBuffer int

func (b nullBuffer) Size() int { return int(b) }

func (b *nullBackend) Name() string { return b.name }
func (b *nullBackend) SupportsOp(op graph.Op, _ graph.DType) bool {
	return b.name == "B" || op != graph.RmsNorm
}
func (b *nullBackend) SupportsFused(op graph.Op) bool                    { return true }
func (b *nullBackend) AllocBuffer(size int) (graph.Buffer, error)        { return nullBuffer(size), nil }
func (b *nullBackend) AllocFresh(size int) (graph.Buffer, error)         { return nullBuffer(size), nil }
func (b *nullBackend) FreeBuffer(graph.Buffer)                           {}
func (b *nullBackend) ReadHost(_ graph.Buffer, _ int, dst []byte) error  { return nil }
func (b *nullBackend) WriteHost(_ graph.Buffer, _ int, src []byte) error { return nil }
func (b *nullBackend) Synchronize() error                                { return nil }
func (b *nullBackend) ExecuteNode(*graph.Node, []graph.Operand, graph.Operand, *graph.KV) error {
	return nil
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	m := graphtest.NewModel(graphtest.Small)
	e := graph.NewExecutor([]graph.Backend{&nullBackend{"A"}, &nullBackend{"B"}}, graph.ExecOptions{})
	p := params(1, 1)
	build := func() (*graph.Graph, error) { return m.Build(p) }
	kv, err := m.KVCache(16, gguf.F32)
	require.NoError(t, err)
	in := graphtest.Inputs([]int{1}, 3)
	dst := make([]float32, m.NVocab)
	allocs := testing.AllocsPerRun(20, func() {
		plan, err := e.Plan(build, p)
		if err == nil {
			err = plan.RunInto(dst, in, kv)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, allocs)
	require.Equal(t, 1, e.Stats().Builds)
}

// Random graphs: what the allocator reuses and puts in place, what is fused and
// what is carried across must not show.
func TestRandomGraphs(t *testing.T) {
	finite := 0
	const graphs = 150
	for seed := range uint64(graphs) {
		rng := rand.New(rand.NewPCG(seed, 7))
		g, in := graphtest.Random(rng, 20+rng.IntN(60))
		run := func(o graph.ExecOptions, backends ...graph.Backend) []uint32 {
			e := graph.NewExecutor(backends, o)
			plan, err := e.Prepare(g)
			require.NoError(t, err, "seed %d", seed)
			defer plan.Close()
			y, err := plan.Run(in, nil)
			require.NoError(t, err, "seed %d", seed)
			again, err := plan.Run(in, nil)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, bits(y), bits(again), "seed %d: second run", seed)
			if o.NoReuse && !math.IsNaN(float64(y[0])) {
				finite++
			}
			return bits(y)
		}
		want := run(graph.ExecOptions{NoReuse: true, NoFuse: true}, graphtest.NewRef("Ref"))
		require.Equal(t, want, run(graph.ExecOptions{}, graphtest.NewRef("Ref")), "seed %d: reuse", seed)
		all := []graph.Op{graph.Add, graph.Mul, graph.Silu, graph.SwiGLU, graph.RmsNorm, graph.MatMul, graph.RoPE, graph.Scale, graph.View, graph.Reshape, graph.Softmax, graph.BatchMatMul}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		first := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "A", Async: true, Opaque: true, Poison: true, Refuse: all[:rng.IntN(6)]})
		second := graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "B", Async: true, Opaque: true, Poison: true})
		require.Equal(t, want, run(graph.ExecOptions{}, first, second), "seed %d: split", seed)
	}
	require.Greater(t, finite, graphs*9/10, "else NaN would hide poison")
}
