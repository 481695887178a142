// Package dumps is the suite that holds every node of the graph against
// llama.cpp, bit for bit: live when the environment has the library, otherwise
// against the runs recorded from it.
//
// A case is one model file, one weight type and one KV cache type. The engine
// evaluates the prompt in one batch, then its own greedy tokens one at a time,
// with a tap on every intermediate value; each value is compared with
// llama.cpp's under the key of refs/dump. A case passes when every node of
// docs/numerics.md section 12 was compared at every position, no bit differs
// and the tokens are the same.
package dumps

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/sampler"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/refs/dump"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites"
)

// Suite is the suite `dumps`.
type Suite struct{}

// Name is "dumps".
func (Suite) Name() string { return "dumps" }

// Lengths of a run, in tokens. A large model runs less, since one position of
// it already visits every node.
const (
	promptTokens, newTokens           = 37, 32
	largePromptTokens, largeNewTokens = 11, 8
	largeModel                        = 64 << 20 // bytes of weights
)

// run is one case: what llama.cpp evaluates and the engine must equal.
type run struct {
	source  source
	weights string // a mix of engine/quant, or "" for the file as it is
	kv      gguf.Type
}

func (r run) id() harness.ID {
	weights := r.weights
	if weights == "" {
		weights = "file"
	}
	return harness.ID{Suite: "dumps", Op: "forward", Params: []harness.Param{
		harness.P("model", r.source.name), harness.P("weights", weights), harness.P("kv", r.kv)}}
}

// fileName is the recorded run's name in the dumps directory.
func (r run) fileName() string {
	return fmt.Sprintf("%s.%s.%s.dump", r.source.name, r.weights, r.kv)
}

// Cases lists every run of the environment's models.
func (Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	var cases []harness.Case
	for _, r := range runs(env) {
		id := r.id()
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) {
			return r.verify(ctx, env)
		}})
	}
	return cases, nil
}

// verify judges one run.
func (r run) verify(ctx context.Context, env *suites.Env) (harness.Result, error) {
	path, err := r.file(env)
	if err != nil {
		return harness.Result{}, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return harness.Result{}, err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return harness.Result{}, err
	}
	if err := env.CheckOracle(); err != nil {
		return harness.Result{}, err
	}
	var want *dump.Run
	if env.Oracle != nil {
		if want, err = r.live(env.Oracle, path, m, everyPosition); err != nil {
			return harness.Result{}, err
		}
	} else if env.Device.Level != exact.H {
		return harness.Refused("recorded runs are of level %s, the device %s is not; a live comparison needs --llama", level, env.Device.Name), nil
	} else if want, err = r.recorded(env.Dumps, path); err != nil {
		return harness.Result{}, err
	} else if want == nil {
		return harness.Refused("no recorded run %s; a live comparison needs --llama", r.fileName()), nil
	}
	backend, err := env.Backend(2)
	if err != nil {
		return harness.Result{}, err
	}
	return compare(ctx, backend, m, r.kv, want)
}

// everyPosition keeps the values of all positions, so that a difference shows
// its element.
const everyPosition = 1 << 20

// live runs llama.cpp on the file.
func (r run) live(lib *llamacpp.Lib, path string, m *model.Model, keep int) (*dump.Run, error) {
	prompt, n, err := r.tokens(m)
	if err != nil {
		return nil, err
	}
	lm, err := lib.LoadModel(path, llamacpp.ModelOptions{})
	if err != nil {
		return nil, err
	}
	defer lm.Close()
	b := lib.NewBuilder(dump.Header{Model: r.source.name, Weights: r.weights, KV: r.kv.String(), Prompt: prompt}, keep)
	generated, err := lm.Record(llamacpp.ContextOptions{KVType: r.kv}, prompt, n, b.Add)
	if err != nil {
		return nil, err
	}
	return b.Finish(generated)
}

// recorded reads the run's file, nil when there is none. The values of another
// model file, level or setting say nothing about this case: an error.
func (r run) recorded(dir fs.FS, path string) (*dump.Run, error) {
	if dir == nil {
		return nil, nil
	}
	data, err := fs.ReadFile(dir, r.fileName())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run, err := dump.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.fileName(), err)
	}
	sum, err := fileHash(path)
	if err != nil {
		return nil, err
	}
	h := run.Header
	for _, pin := range []struct{ what, got, want string }{
		{"model", h.Model, r.source.name}, {"weights", h.Weights, r.weights}, {"kv", h.KV, r.kv.String()},
		{"level", h.Level, level}, {"model_sha256", h.ModelSHA256, sum},
	} {
		if pin.got != pin.want {
			return nil, fmt.Errorf("%s: recorded with %s %q, this case has %q", r.fileName(), pin.what, pin.got, pin.want)
		}
	}
	return run, nil
}

// level is the arithmetic level (docs/numerics.md section 1) of recorded runs.
const level = "avx2"

// compare evaluates the run's tokens with the engine and checks every value.
func compare(ctx context.Context, backend graph.Backend, m *model.Model, kv gguf.Type, want *dump.Run) (harness.Result, error) {
	s, err := session.New(m, session.Options{Backends: []graph.Backend{backend}, NCtx: len(want.Header.Prompt) + len(want.Header.Generated), KVType: kv})
	if err != nil {
		return harness.Result{}, err
	}
	defer s.Close()
	c := &checker{want: want, layers: m.NLayer}
	s.SetTap(func(v graph.TapValue) { c.tap(v) })
	defer s.SetTap(nil)

	greedy, err := sampler.New(sampler.Options{})
	if err != nil {
		return harness.Result{}, err
	}
	next := want.Header.Prompt
	var generated []int32
	for len(generated) < len(want.Header.Generated) {
		if err := ctx.Err(); err != nil {
			return harness.Result{}, err
		}
		c.base = s.Pos()
		c.rows = len(next)
		logits, err := s.EvalAll(next)
		if err != nil {
			return harness.Failed("position %d: %v", s.Pos(), err), nil
		}
		id, err := greedy.Sample(logits[len(logits)-1])
		if err != nil {
			return harness.Failed("position %d: %v", s.Pos()-1, err), nil
		}
		generated = append(generated, id)
		next = []int32{want.Header.Generated[len(generated)-1]} // llama.cpp's own, so that one difference is not a hundred
	}
	return c.result(generated), nil
}

// Record evaluates every run of the environment with llama.cpp and writes it to
// dir. A file whose run is unchanged is left alone, so that recording again
// costs no history. keep is the number of positions with full values in the
// runs of f16 weights; the others keep hashes.
func Record(ctx context.Context, env *suites.Env, dir, command string, keep int, progress func(file string, changed bool)) error {
	if got := env.Oracle.Level(); got != level {
		return fmt.Errorf("the library's variant %s computes level %s: recorded runs want %s", env.Oracle.Variant(), got, level)
	}
	for _, r := range runs(env) {
		if err := ctx.Err(); err != nil {
			return err
		}
		changed, err := r.record(env, dir, command, keep)
		if err != nil {
			return fmt.Errorf("%s: %w", r.fileName(), err)
		}
		progress(r.fileName(), changed)
	}
	return nil
}

func (r run) record(env *suites.Env, dir, command string, keep int) (changed bool, err error) {
	path, err := r.file(env)
	if err != nil {
		return false, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return false, err
	}
	if r.weights != "f16" || r.kv != gguf.F16 {
		keep = 0
	}
	got, err := r.live(env.Oracle, path, m, keep)
	if err != nil {
		return false, err
	}
	got.Header.Command = command
	if got.Header.ModelSHA256, err = fileHash(path); err != nil {
		return false, err
	}
	target := filepath.Join(dir, r.fileName())
	if old, err := os.ReadFile(target); err == nil {
		if before, err := dump.Decode(old); err == nil && dump.Equal(before, got) {
			return false, nil
		}
	}
	data, err := got.Encode()
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(target, data, 0o644)
}

// tokens is the run's prompt and the number of tokens to generate.
func (r run) tokens(m *model.Model) (prompt []int32, n int, err error) {
	size := 0
	for _, w := range m.Weights() {
		size += len(w.Data)
	}
	count, n := promptTokens, newTokens
	if size > largeModel {
		count, n = largePromptTokens, largeNewTokens
	}
	prompt, err = r.source.prompt(m.File(), count)
	return prompt, n, err
}

// mixes are the weight types of the small models.
func mixes() []string {
	return []string{"f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_K", "q5_K", "q6_K", "q4_K_M"}
}

// file makes the run's model file.
func (r run) file(env *suites.Env) (string, error) {
	m, err := r.source.open(env)
	if err != nil {
		return "", err
	}
	return env.ModelFile(m, r.weights)
}
