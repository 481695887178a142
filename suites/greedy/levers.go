package greedy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/metal"
	"minfer/refs"
	"minfer/suites"
)

// On a Metal device the text is generated under many settings of the levers: it
// must be the same, byte for byte, under all of them, and each step's logits must
// be near those of the float64 model. Which settings is the tier's affair. Full
// takes, for every weight type and cache type, a covering array of all pairs of
// lever values (at most 12 settings) and all prompts. Exhaustive takes every pair
// of values as a setting of its own. Quick spreads one covering array over weight
// types, cache types and levers alike, with two prompts a row.
//
// These runs are long, so the device works without its sanitizer but for one short
// text a model.

// setting is one choice of levers; its name lists what is not the default.
type setting struct {
	name   string
	levers lever.Levers
}

// change is one lever at one value.
type change struct{ name, value string }

// factors are the levers that must not change the text, with their values, the
// default first. The cache's type changes what is stored, so it is part of a
// case's identity instead.
func factors() [][]change {
	var all [][]change
	for _, v := range lever.All {
		if v.Kind != lever.KindLever || v.Name == "MINFER_CACHE_TYPE" {
			continue
		}
		values := []string{v.Get(lever.Default())}
		if v.Name == "MINFER_ATTN_CHUNKS" {
			values = append(values, "1", "3", "16")
		} else {
			for _, x := range v.Values {
				if x != values[0] {
					values = append(values, x)
				}
			}
		}
		var f []change
		for _, x := range values {
			f = append(f, change{v.Name, x})
		}
		all = append(all, f)
	}
	return all
}

// covering gives the rows of a covering array of the levers as settings, the
// default first, with the values of more factors beside them.
func covering(more ...int) (list []setting, rest [][]int, err error) {
	all := factors()
	levels := slices.Clone(more)
	for _, f := range all {
		levels = append(levels, len(f))
	}
	for _, row := range harness.Pairwise(levels) {
		var changes []change
		for i, v := range row[len(more):] {
			if v > 0 {
				changes = append(changes, all[i][v])
			}
		}
		s, err := newSetting(changes)
		if err != nil {
			return nil, nil, err
		}
		list, rest = append(list, s), append(rest, row[:len(more)])
	}
	return list, rest, nil
}

// everyPair gives the default, every value that is not, and every pair of such.
func everyPair() ([]setting, error) {
	all := factors()
	sets := [][]change{nil}
	for i, f := range all {
		for _, x := range f[1:] {
			sets = append(sets, []change{x})
			for _, g := range all[i+1:] {
				for _, y := range g[1:] {
					sets = append(sets, []change{x, y})
				}
			}
		}
	}
	var list []setting
	for _, changes := range sets {
		s, err := newSetting(changes)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func newSetting(changes []change) (setting, error) {
	s := setting{name: "default", levers: lever.Default()}
	var words []string
	for _, c := range changes {
		v, ok := lever.Find(c.name)
		if !ok {
			return s, fmt.Errorf("greedy: no lever %s", c.name)
		}
		var err error
		if s.levers, err = v.With(s.levers, c.value); err != nil {
			return s, fmt.Errorf("greedy: %w", err)
		}
		words = append(words, strings.TrimPrefix(c.name, "MINFER_")+"="+c.value)
	}
	if words != nil {
		s.name = strings.Join(words, ",")
	}
	return s, nil
}

// group is what settings share: one file and one cache type, with the text under
// the default setting and the reference's logits, each made when first asked for.
type group struct {
	env     *suites.Env
	model   suites.Model
	weights string
	kv      gguf.Type

	file    *gguf.File
	m       *model.Model
	tok     *tokenizer.Tokenizer
	base    map[int][]int32        // tokens under the default setting, by prompt
	wanted  map[string][][]float64 // logits by tokens and cache
	problem error
}

// leverRun is one case: some prompts of a group under a setting.
type leverRun struct {
	*group
	setting setting
	prompts []int
	tokens  int
	watched bool // by the sanitizer
}

func (r *leverRun) id() harness.ID {
	id := run{model: r.model, weights: r.weights, kv: r.kv}.id()
	id.Params[len(id.Params)-1] = harness.P("levers", r.setting.name)
	if len(r.prompts) < len(prompts) {
		id.Params = append(id.Params, harness.P("prompts", strings.Trim(strings.ReplaceAll(fmt.Sprint(r.prompts), " ", ","), "[]")))
	}
	if r.watched {
		id.Params = append(id.Params, harness.P("sanitizer", "on"))
	}
	return id
}

var kvTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0}

// leverRuns lists the tier's.
func leverRuns(env *suites.Env) ([]*leverRun, error) {
	everyPrompt := make([]int, len(prompts))
	for i := range everyPrompt {
		everyPrompt[i] = i
	}
	var list []*leverRun
	for _, m := range env.Models {
		weights := weightTypes
		if m.Path != "" {
			weights = []string{""}
		}
		groups := make([][]*group, len(weights))
		for i, w := range weights {
			for _, kv := range kvTypes {
				groups[i] = append(groups[i], &group{env: env, model: m, weights: w, kv: kv})
			}
		}
		first, err := newSetting(nil)
		if err != nil {
			return nil, err
		}
		if env.Device.Checked {
			// Weight type 1 is q4_0, or the file's own if there is no other.
			list = append(list, &leverRun{group: groups[min(1, len(groups)-1)][1], setting: first, prompts: []int{0}, tokens: watchedTokens, watched: true})
		}
		if env.Tier == suites.Quick {
			settings, rest, err := covering(len(weights), len(kvTypes))
			if err != nil {
				return nil, err
			}
			for i, s := range settings {
				list = append(list, &leverRun{group: groups[rest[i][0]][rest[i][1]], setting: s, tokens: newTokens,
					prompts: []int{i % len(prompts), (i + 3) % len(prompts)}})
			}
			continue
		}
		settings, _, err := covering()
		if env.Tier == suites.Exhaustive {
			settings, err = everyPair()
		}
		if err != nil {
			return nil, err
		}
		for _, byKV := range groups {
			for _, g := range byKV {
				for _, s := range settings {
					list = append(list, &leverRun{group: g, setting: s, prompts: everyPrompt, tokens: newTokens})
				}
			}
		}
	}
	return list, nil
}

// watchedTokens is the length of the text under the sanitizer.
const watchedTokens = 4

// metalCases makes cases of leverRuns.
func metalCases(env *suites.Env) ([]harness.Case, error) {
	runs, err := leverRuns(env)
	if err != nil {
		return nil, err
	}
	var cases []harness.Case
	for _, r := range runs {
		// A token costs about a multiply-add a weight; the weights of the small models
		// number four million.
		cases = append(cases, harness.Case{ID: r.id(), Work: int64(len(r.prompts)*r.tokens) * 4e6, Run: func(ctx context.Context) (harness.Result, error) {
			return r.verify(ctx)
		}})
	}
	return cases, nil
}

// open loads the file, once.
func (g *group) open() error {
	if g.m != nil || g.problem != nil {
		return g.problem
	}
	g.problem = g.load()
	return g.problem
}

func (g *group) load() error {
	path, err := g.env.ModelFile(g.model, g.weights)
	if err != nil {
		return err
	}
	if g.file, err = gguf.Open(path); err != nil {
		return err
	}
	m, err := model.Load(g.file)
	if err != nil {
		return err
	}
	m.Concatenate(true, true)
	if g.tok, err = tokenizer.New(g.file); err != nil {
		return err
	}
	g.m, g.base, g.wanted = m, map[int][]int32{}, map[string][][]float64{}
	return nil
}

// step is one forward pass that gave a token.
type step struct {
	token  int32
	logits []float32
}

// text is one continuation.
type text struct {
	steps []step
	// cache is what was stored of all tokens but the last, nil where that rounds
	// nothing.
	cache suites.KVBytes
}

func (t text) tokens() []int32 {
	var ids []int32
	for _, s := range t.steps {
		ids = append(ids, s.token)
	}
	return ids
}

// generate continues a prompt greedily under a setting.
func (g *group) generate(ctx context.Context, s setting, prompt, tokens int, watched bool) (text, error) {
	var t text
	open := g.env.FastMetal
	if watched {
		open = g.env.Metal
	}
	b, err := open(2, metal.Options{Levers: s.levers})
	if err != nil {
		return t, err
	}
	defer b.Close()
	if err := g.m.Hold(b); err != nil {
		return t, err
	}
	ids := g.prompt(prompt)
	ses, err := session.New(g.m, session.Options{Backends: []graph.Backend{b}, NCtx: len(ids) + tokens, KVType: g.kv,
		FuseQKV: !s.levers.NoFuseQKV, FuseFFN: !s.levers.NoFuseFFN})
	if err != nil {
		return t, err
	}
	defer ses.Close()
	for next := ids; len(t.steps) < tokens; {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		logits, err := ses.Eval(next)
		if err != nil {
			return t, err
		}
		st := step{argmax(logits), logits}
		t.steps = append(t.steps, st)
		next = []int32{st.token}
	}
	if g.kv != gguf.F32 {
		t.cache, err = suites.ReadCache(ses, g.m.NLayer)
	}
	return t, err
}

func (g *group) prompt(i int) []int32 { return g.tok.Encode(prompts[i], tokenizer.Options{}) }

// argmax is the first of the largest, as the greedy sampler has it.
func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// reference gives the float64 model's logits before each token of a text, with the
// text's own cache; see suites.Reference.
func (g *group) reference(prompt []int32, t text) ([][]float64, error) {
	ids := t.tokens()
	all := append(append([]int32{}, prompt...), ids[:len(ids)-1]...)
	h := sha256.New()
	fmt.Fprint(h, all)
	for _, sides := range t.cache {
		h.Write(sides[0])
		h.Write(sides[1])
	}
	key := string(h.Sum(nil))
	if rows, ok := g.wanted[key]; ok {
		return rows, nil
	}
	rows, err := suites.Reference(g.file, all, g.kv, t.cache)
	if err != nil {
		return nil, err
	}
	g.wanted[key] = rows[len(prompt)-1:]
	return g.wanted[key], nil
}

// tieBound is how far two settings' logits may be apart: what arithmetic moves and,
// where the cache rounds, what a value stored a step away moves. The worst seen is
// 7e-4 of the logits' size for f16, and 5e-3 for q8_0 with its 16 times larger steps.
func (g *group) tieBound(row []float64) float64 {
	return map[gguf.Type]float64{gguf.F32: 5e-5, gguf.F16: 1e-3, gguf.Q8_0: 1e-2}[g.kv] * max(1, refs.RMS(row))
}

// verify holds a run against the reference and against the default's text.
func (r *leverRun) verify(ctx context.Context) (harness.Result, error) {
	if err := r.open(); err != nil {
		return harness.Result{}, err
	}
	worst := &harness.Comparison{Index: -1}
	res := harness.Passed()
	tokens, ties := 0, 0
	for _, p := range r.prompts {
		got, err := r.generate(ctx, r.setting, p, r.tokens, r.watched)
		if err == nil {
			err = r.baseline(ctx, p, r, got)
		}
		if ctx.Err() != nil {
			return harness.Result{}, ctx.Err()
		}
		if err != nil {
			return harness.Failed("prompt %d: %v", p, err), nil
		}
		verdict, err := r.judge(p, got, worst)
		if err != nil {
			return harness.Result{}, err
		}
		tokens += len(got.steps)
		if verdict.failure != "" {
			fail := harness.Failed("prompt %d: %s", p, verdict.failure)
			fail.Comparison = worst
			fail.Details = []string{fmt.Sprintf("got:  %q", r.tok.Decode(got.tokens())), fmt.Sprintf("want: %q", r.tok.Decode(r.base[p]))}
			return fail, nil
		}
		if verdict.tie != "" {
			ties++
			res.Details = append(res.Details, fmt.Sprintf("prompt %d: %s", p, verdict.tie))
		}
	}
	res.Comparison = worst
	res.Counts = []harness.Count{{Name: "tokens", N: int64(tokens)}, {Name: "ties", N: int64(ties)}}
	return res, nil
}

// baseline sees to it that the group has the default's text after a prompt.
func (g *group) baseline(ctx context.Context, prompt int, r *leverRun, t text) error {
	if g.base[prompt] != nil {
		return nil
	}
	if r.setting.name != "default" || len(t.steps) < newTokens {
		first, err := newSetting(nil)
		if err != nil {
			return err
		}
		if t, err = g.generate(ctx, first, prompt, newTokens, false); err != nil {
			return fmt.Errorf("under the default levers: %w", err)
		}
	}
	g.base[prompt] = t.tokens()
	return nil
}

// verdict is what judge found; both empty for the very same text within the
// bound.
type verdict struct{ failure, tie string }

// judge compares one continuation. worst keeps the logit that is nearest to its
// bound, or past it.
func (g *group) judge(p int, t text, worst *harness.Comparison) (verdict, error) {
	ids := t.tokens()
	want, err := g.reference(g.prompt(p), t)
	if errors.Is(err, suites.ErrRounding) {
		return verdict{failure: err.Error()}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	parted := false
	for i, st := range t.steps {
		row, bound := want[i], suites.LogitsBound(want[i])
		c, err := harness.Within(st.logits, row, bound)
		if err != nil {
			return v, err
		}
		if worst.Index < 0 || float64(c.MaxAbs/c.Tolerance) > float64(worst.MaxAbs/worst.Tolerance) {
			*worst = *c
		}
		if !c.OK() {
			v.failure = fmt.Sprintf("token %d: %s", i, c)
			return v, nil
		}
		if base := g.base[p][i]; !parted && st.token != base {
			parted = true
			margin := math.Abs(row[base] - row[st.token])
			parting := fmt.Sprintf("token %d is %q, under the default levers %q: the reference's margin is %.3g, the bound %.3g",
				i, g.tok.Decode(ids[i:i+1]), g.tok.Decode(g.base[p][i:i+1]), margin, g.tieBound(row))
			if margin > g.tieBound(row) {
				v.failure = parting
				return v, nil
			}
			v.tie = parting
		}
		// Whatever the path, the token is the reference's choice up to the bound.
		best := row[0]
		for _, x := range row {
			best = max(best, x)
		}
		if lag := best - row[st.token]; lag > bound {
			v.failure = fmt.Sprintf("token %d is %q, whose reference logit is %.3g below the largest: want at most %.3g", i, g.tok.Decode(ids[i:i+1]), lag, bound)
			return v, nil
		}
	}
	return v, nil
}
