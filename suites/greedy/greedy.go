// Package greedy is the suite of generated text: fixed prompts, greedy
// sampling, and the tokens that llama.cpp generates, recorded in golden.json or
// live. It is the gate that a CI puts on a whole path: one wrong bit that
// matters shows up as another word.
package greedy

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/sampler"
	"minfer/engine/session"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/refs/exact"
	"minfer/refs/llamacpp"
	"minfer/suites"
)

// Suite is the suite `greedy`.
type Suite struct{}

// Name is "greedy".
func (Suite) Name() string { return "greedy" }

// newTokens is the length of each continuation.
const newTokens = 64

// prompts are read by every model. They begin in the texts that the small
// models know and outside of them.
var prompts = []string{
	"In the beginning",
	"And the king said unto him, ",
	"O Romeo, Romeo! wherefore art thou",
	"Now is the winter of our discontent",
	"The LORD is my shepherd; I shall not",
	"Enter HAMLET and two players.\n\nHAMLET.\n",
	"Ask not what your country",
	"1 2 3 4",
}

//go:embed golden.json
var goldenFile []byte

// golden maps a case's identity to llama.cpp's tokens.
type golden map[string]continuation

type continuation struct {
	Tokens []int32 `json:"tokens"`
	Text   string  `json:"text"` // for the reader of a diff
}

// weightTypes are the files made of each embedded model.
var weightTypes = []string{"f16", "q4_0", "q8_0", "q4_K", "q4_K_M"}

// run is one model file and cache type with one prompt.
type run struct {
	model   suites.Model
	weights string
	kv      gguf.Type
	prompt  int
}

func (r run) id() harness.ID {
	weights := r.weights
	if weights == "" {
		weights = "file"
	}
	return harness.ID{Suite: "greedy", Op: "generate", Params: []harness.Param{
		harness.P("model", r.model.Name), harness.P("weights", weights), harness.P("kv", r.kv), harness.P("prompt", r.prompt)}}
}

// runs lists the cases.
func runs(env *suites.Env) []run {
	var list []run
	for _, m := range env.Models {
		weights := weightTypes
		if m.Path != "" {
			weights = []string{""}
		}
		for _, w := range weights {
			for _, kv := range []gguf.Type{gguf.F32, gguf.F16} {
				for p := range prompts {
					list = append(list, run{m, w, kv, p})
				}
			}
		}
	}
	return list
}

// Cases lists every prompt for every model, weight type and cache type; on a Metal
// device every setting of the levers for every model, weight type and cache type.
func (Suite) Cases(env *suites.Env) ([]harness.Case, error) {
	if env.Device.Open != nil {
		return metalCases(env)
	}
	var known golden
	if err := json.Unmarshal(goldenFile, &known); err != nil {
		return nil, fmt.Errorf("greedy: golden.json: %w", err)
	}
	var cases []harness.Case
	for _, r := range runs(env) {
		id := r.id()
		cases = append(cases, harness.Case{ID: id, Work: 1, Run: func(ctx context.Context) (harness.Result, error) {
			return r.verify(ctx, env, known)
		}})
	}
	return cases, nil
}

func (r run) verify(ctx context.Context, env *suites.Env, known golden) (harness.Result, error) {
	if err := env.CheckOracle(); err != nil {
		return harness.Result{}, err
	}
	want, ok := known[r.id().String()]
	if env.Oracle != nil {
		var err error
		if want, err = r.live(env); err != nil {
			return harness.Result{}, err
		}
	} else if env.Device.Level != exact.H {
		return harness.Refused("recorded tokens are of level avx2, the device %s is not; a live comparison needs --llama", env.Device.Name), nil
	} else if !ok {
		return harness.Refused("no recorded tokens for this model; a live comparison needs --llama"), nil
	}
	path, err := env.ModelFile(r.model, r.weights)
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
	t, err := tokenizer.New(f)
	if err != nil {
		return harness.Result{}, err
	}
	backend, err := env.Backend(2)
	if err != nil {
		return harness.Result{}, err
	}
	got, err := generate(ctx, backend, m, r.kv, t.Encode(prompts[r.prompt], tokenizer.Options{}))
	switch {
	case ctx.Err() != nil:
		return harness.Result{}, ctx.Err()
	case err != nil:
		return harness.Failed("%v", err), nil
	}
	if !slices.Equal(got, want.Tokens) {
		at := 0
		for at < len(got) && at < len(want.Tokens) && got[at] == want.Tokens[at] {
			at++
		}
		res := harness.Failed("token %d differs from llama.cpp's", at)
		res.Details = []string{fmt.Sprintf("got:  %q", t.Decode(got)), fmt.Sprintf("want: %q", t.Decode(want.Tokens))}
		return res, nil
	}
	res := harness.Passed()
	res.Counts = []harness.Count{{Name: "tokens", N: int64(len(got))}}
	return res, nil
}

func generate(ctx context.Context, backend graph.Backend, m *model.Model, kv gguf.Type, prompt []int32) ([]int32, error) {
	s, err := session.New(m, session.Options{Backends: []graph.Backend{backend}, NCtx: len(prompt) + newTokens, KVType: kv})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	greedy, err := sampler.New(sampler.Options{})
	if err != nil {
		return nil, err
	}
	return s.Generate(ctx, prompt, newTokens, greedy, nil, nil)
}

// live asks llama.cpp.
func (r run) live(env *suites.Env) (continuation, error) {
	path, err := env.ModelFile(r.model, r.weights)
	if err != nil {
		return continuation{}, err
	}
	m, err := env.Oracle.LoadModel(path, llamacpp.ModelOptions{})
	if err != nil {
		return continuation{}, err
	}
	defer m.Close()
	prompt, err := m.Tokenize(prompts[r.prompt], false, false)
	if err != nil {
		return continuation{}, err
	}
	c, err := m.NewContext(llamacpp.ContextOptions{NCtx: len(prompt) + newTokens, KVType: r.kv})
	if err != nil {
		return continuation{}, err
	}
	defer c.Close()
	tokens, err := c.Greedy(prompt, newTokens)
	if err != nil {
		return continuation{}, err
	}
	var text []byte
	for _, id := range tokens {
		piece, err := m.TokenToPiece(id, true)
		if err != nil {
			return continuation{}, err
		}
		text = append(text, piece...)
	}
	return continuation{Tokens: tokens, Text: string(text)}, nil
}

// Record asks llama.cpp for every case and writes the golden file, if it
// changed.
func Record(ctx context.Context, env *suites.Env, path string, progress func(file string, changed bool)) error {
	all := golden{}
	for _, r := range runs(env) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := r.live(env)
		if err != nil {
			return fmt.Errorf("%s: %w", r.id(), err)
		}
		all[r.id().String()] = c
	}
	changed, err := suites.WriteGolden(path, all)
	if err == nil {
		progress(path, changed)
	}
	return err
}
