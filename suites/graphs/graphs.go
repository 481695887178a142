// Package graphs is the suite `graph`: the machinery around the kernels. How a
// forward pass is cut into batches, threads, splits and backends must not move a
// bit of the result; plans are reused and rebuilt as documented; a model in
// parts is the model. On a Metal device also: a graph is one split and one submit,
// the weights gate holds, and where weights lie moves no bit.
package graphs

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/suites"
)

// Suite is the suite `graph`.
type Suite struct{}

// Name is "graph".
func (Suite) Name() string { return "graph" }

// promptTokens is more than the largest cut below and a multiple of none but 1.
const promptTokens = 41

// Cases lists the checks for every model of the environment.
func (Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open != nil {
		return metalCases(env), nil
	}
	var cases []harness.Case
	known := map[plainKey][]float32{}
	add := func(m suites.Model, op string, run func(*check) (harness.Result, error), params ...harness.Param) {
		id := harness.ID{Suite: "graph", Op: op, Params: append([]harness.Param{harness.P("model", m.Name)}, params...)}
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) {
			c, err := newCheck(ctx, env, m)
			if err != nil {
				return harness.Result{}, err
			}
			defer c.file.Close()
			c.known = known
			return run(c)
		}})
	}
	for _, m := range env.Models {
		for _, kv := range []gguf.Type{gguf.F32, gguf.F16} {
			for _, threads := range []int{1, 2, 3} {
				for _, cut := range []int{1, 2, 7, 32, promptTokens} {
					add(m, "batch_invariance", func(c *check) (harness.Result, error) { return c.batchInvariance(kv, threads, cut) },
						harness.P("kv", kv), harness.P("threads", threads), harness.P("cut", cut))
				}
			}
		}
		for _, op := range splitOps {
			add(m, "split", func(c *check) (harness.Result, error) { return c.split(op) }, harness.P("refused", op))
		}
		add(m, "split", func(c *check) (harness.Result, error) { return c.splitAlternate() }, harness.P("refused", "every other op"))
		add(m, "tail_rows", (*check).tailRows)
		add(m, "plan_reuse", (*check).planReuse)
		add(m, "reset", (*check).reset)
		add(m, "parts", func(c *check) (harness.Result, error) { return c.parts(env.Temp, m.Name) })
	}
	return cases, nil
}

// splitOps are the ops of the graphs; the nodes of the cache count as one.
var splitOps = []graph.Op{graph.GetRows, graph.RmsNorm, graph.MatMul, graph.QkNorm, graph.RoPE, graph.Attn, graph.View, graph.Add, graph.Silu, graph.Mul}

// check is one model with the means to run it.
type check struct {
	ctx    context.Context
	env    *suites.Env
	file   *gguf.File
	model  *model.Model
	prompt []int32
	known  map[plainKey][]float32 // plain results of all cases so far
}

// plainKey is what a plain result depends on.
type plainKey struct {
	path string // of the model file
	kv   gguf.Type
}

func newCheck(ctx context.Context, env *suites.Env, m suites.Model) (*check, error) {
	f, err := m.Open()
	if err != nil {
		return nil, err
	}
	mod, err := model.Load(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	prompt := make([]int32, promptTokens)
	for i := range prompt {
		prompt[i] = int32((i*7919 + 13) % (mod.NVocab - 1))
	}
	return &check{ctx: ctx, env: env, file: f, model: mod, prompt: prompt}, nil
}

// session opens a session over backends.
func (c *check) session(m *model.Model, kv gguf.Type, backends ...graph.Backend) (*session.Session, error) {
	return session.New(m, session.Options{Backends: backends, NCtx: 512, KVType: kv})
}

// logits evaluates the prompt, cut into pieces, and gives all rows one after
// another.
func logits(s *session.Session, prompt []int32, cut int) ([]float32, error) {
	var all []float32
	for len(prompt) > 0 {
		n := min(cut, len(prompt))
		rows, err := s.EvalAll(prompt[:n])
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all = append(all, row...)
		}
		prompt = prompt[n:]
	}
	return all, nil
}

// plain is the result that everything else is compared with: one backend, one
// thread, the whole prompt at once. It is computed once for all cases.
func (c *check) plain(kv gguf.Type) ([]float32, error) {
	key := plainKey{c.file.Path, kv}
	if all, ok := c.known[key]; ok {
		return all, nil
	}
	b, err := c.env.Backend(1)
	if err != nil {
		return nil, err
	}
	s, err := c.session(c.model, kv, b)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all, err := logits(s, c.prompt, len(c.prompt))
	if err == nil {
		c.known[key] = all
	}
	return all, err
}

// same runs the prompt in a session and compares all logits with plain's.
func (c *check) same(kv gguf.Type, s *session.Session, cut int) (harness.Result, error) {
	want, err := c.plain(kv)
	if err != nil {
		return harness.Result{}, err
	}
	got, err := logits(s, c.prompt, cut)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	cmp, err := harness.Bits(got, want)
	if err != nil {
		return harness.Result{}, err
	}
	return cmp.Result(), nil
}

func (c *check) batchInvariance(kv gguf.Type, threads, cut int) (harness.Result, error) {
	b, err := c.env.Backend(threads)
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(c.model, kv, b)
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	return c.same(kv, s, cut)
}

// split puts a backend in front that refuses an op, works asynchronously, hides
// its memory from the host and poisons what it recycles; the plain backend takes
// the op.
func (c *check) split(refused ...graph.Op) (harness.Result, error) {
	inner, err := c.env.Device.New(1)
	if err != nil {
		return harness.Result{}, err
	}
	if closer, ok := inner.(io.Closer); ok {
		defer closer.Close()
	}
	front := graphtest.Wrap(inner, graphtest.Options{Name: "test", Refuse: refused, Async: true, Opaque: true, Poison: true})
	defer front.Close()
	back, err := c.env.Backend(1)
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(c.model, gguf.F16, front, back)
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	return c.same(gguf.F16, s, 7)
}

// splitAlternate refuses every other op, which makes as many splits as there
// can be.
func (c *check) splitAlternate() (harness.Result, error) {
	var refused []graph.Op
	for i := 0; i < len(splitOps); i += 2 {
		refused = append(refused, splitOps[i])
	}
	return c.split(refused...)
}

// tailRows compares the logits of a pass that computes the last layer on the
// last row only with those of a pass over all rows.
func (c *check) tailRows() (harness.Result, error) {
	b, err := c.env.Backend(1)
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(c.model, gguf.F32, b)
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	got, err := s.Eval(c.prompt)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	all, err := c.plain(gguf.F32)
	if err != nil {
		return harness.Result{}, err
	}
	cmp, err := harness.Bits(got, all[len(all)-len(got):])
	if err != nil {
		return harness.Result{}, err
	}
	return cmp.Result(), nil
}

// planReuse decodes across a window's edge: one plan for the prompt, one for
// each window of 256 cells that the decode reaches, all other passes reuse.
func (c *check) planReuse() (harness.Result, error) {
	b, err := c.env.Backend(2)
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(c.model, gguf.F16, b)
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	if _, err := s.Eval(c.prompt); err != nil {
		return harness.Failed("%v", err), nil
	}
	const steps = 230
	for i := range steps {
		if err := c.ctx.Err(); err != nil {
			return harness.Result{}, err
		}
		if _, err := s.Eval(c.prompt[i%len(c.prompt):][:1]); err != nil {
			return harness.Failed("step %d: %v", i, err), nil
		}
	}
	got := s.Stats()
	want := graph.Stats{Builds: 3, Reuses: steps - 2, Runs: steps + 1}
	if got != want {
		return harness.Failed("%+v after a prompt of %d and %d steps, want %+v", got, len(c.prompt), steps, want), nil
	}
	return harness.Passed(), nil
}

// reset runs another sequence first: nothing of it may be left.
func (c *check) reset() (harness.Result, error) {
	b, err := c.env.Backend(1)
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(c.model, gguf.F16, b)
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	other := make([]int32, 2*len(c.prompt))
	for i := range other {
		other[i] = int32((i*31 + 7) % (c.model.NVocab - 1))
	}
	if _, err := s.Eval(other); err != nil {
		return harness.Failed("%v", err), nil
	}
	if err := s.Reset(); err != nil {
		return harness.Failed("%v", err), nil
	}
	return c.same(gguf.F16, s, len(c.prompt))
}

// parts writes the model in several files and runs it from them.
func (c *check) parts(dir, name string) (harness.Result, error) {
	spec := gguf.Model{KVs: c.file.KVs}
	var bytes int64
	for _, t := range c.file.Tensors {
		spec.Tensors = append(spec.Tensors, gguf.BytesSpec(t.Name, t.Type, t.Dims, t.Data))
		bytes += int64(len(t.Data))
	}
	paths, err := gguf.Write(filepath.Join(dir, name+"-parts.gguf"), spec, gguf.WriteOptions{MaxPartBytes: bytes/3 + 1})
	if err != nil {
		return harness.Result{}, err
	}
	if len(paths) < 2 {
		return harness.Result{}, fmt.Errorf("%d parts written, want several", len(paths))
	}
	f, err := gguf.Open(paths[0])
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return harness.Failed("%v", err), nil
	}
	b, err := c.env.Backend(2)
	if err != nil {
		return harness.Result{}, err
	}
	s, err := c.session(m, gguf.F16, b)
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	res, err := c.same(gguf.F16, s, 32)
	res.Counts = []harness.Count{{Name: "parts", N: int64(len(paths))}}
	return res, err
}
