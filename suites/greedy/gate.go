package greedy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"
	"strings"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/metal"
	"minfer/suites"
)

// Gate is the suite greedy with a golden file of the user's own: text that was
// generated once, read by a person and kept, and that must come out again, byte for
// byte. Make one with [NewGate]. One Gate may list the cases of several
// environments, one after another.
//
// With Update nothing is compared: the cases generate, and [Gate.Write] writes the
// file when all of them are done.
type Gate struct {
	o      GateOptions
	file   *gateFile
	tokens int
	fresh  []*gateRun // by Update
}

// GateOptions say what a gate compares.
type GateOptions struct {
	Path string // of the golden file
	Data []byte // its content, nil where there is none yet
	// Prompts are continued; nil is those of the file or, in a new one, the suite's.
	Prompts []string
	Tokens  int // of each continuation, at most; 0 is the file's or, in a new one, 64
	Levers  lever.Levers
	Update  bool
	// Date and Commit stand in what Update writes.
	Date, Commit string
}

// NewGate reads the golden file. It must be there unless Update is set.
func NewGate(o GateOptions) (*Gate, error) {
	g := &Gate{o: o, file: &gateFile{Tokens: newTokens}}
	if o.Data != nil {
		var err error
		if g.file, err = readGate(o.Path, o.Data); err != nil {
			return nil, err
		}
	} else if !o.Update {
		return nil, fmt.Errorf("%s: no such file: --update writes it", o.Path)
	}
	g.tokens = g.file.Tokens
	if o.Tokens > 0 {
		if !o.Update && o.Tokens != g.tokens {
			return nil, fmt.Errorf("%s: continuations of %d tokens, not %d: --update records them again", o.Path, g.tokens, o.Tokens)
		}
		g.tokens = o.Tokens
	}
	if seen := map[string]bool{}; true {
		for _, p := range o.Prompts {
			if seen[p] {
				return nil, fmt.Errorf("the prompt %.200q is there twice", p)
			}
			seen[p] = true
		}
	}
	return g, nil
}

// Name is "greedy".
func (*Gate) Name() string { return "greedy" }

// gateModel is one model on one device: what the cases of its prompts share.
type gateModel struct {
	gate *Gate
	env  *suites.Env
	m    *model.Model
	tok  *tokenizer.Tokenizer
	run  *gateRun // what was recorded; with Update, what is being recorded
}

// Cases lists a case for each model and prompt. Without Update each must be in the
// file: one that is not is an error, as is a recorded prompt that Prompts lacks.
func (g *Gate) Cases(env *suites.Env) ([]harness.Case, error) {
	var cases []harness.Case
	for _, em := range env.Models {
		gm, err := g.model(env, em)
		if err != nil {
			return nil, err
		}
		for i, c := range gm.run.Continuations {
			id := harness.ID{Suite: g.Name(), Op: "golden", Params: []harness.Param{
				harness.P("model", em.Name), harness.P("kv", gm.run.KV), harness.P("prompt", i)}}
			cases = append(cases, harness.Case{ID: id, Work: int64(g.tokens), Run: func(ctx context.Context) (harness.Result, error) {
				return gm.verify(ctx, c)
			}})
		}
	}
	return cases, nil
}

// gateDevice names a device as golden files do: of a CPU with the level, which
// decides bits, of a Metal device without the sanitizer's mode, which does not.
func gateDevice(d suites.Device) string {
	if d.Open == nil {
		return d.Name
	}
	name, _, _ := strings.Cut(d.Name, " (")
	return name
}

// model loads a model and finds, or with Update begins, its run.
func (g *Gate) model(env *suites.Env, em suites.Model) (*gateModel, error) {
	path, err := env.ModelFile(em, "")
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	gm := &gateModel{gate: g, env: env}
	if gm.m, err = model.Load(f); err != nil {
		return nil, err
	}
	if gm.tok, err = tokenizer.New(f); err != nil {
		return nil, err
	}
	want := gateRun{Device: gateDevice(env.Device), Model: em.Name, SHA256: hashParts(f), KV: g.cacheType(env, gm.m).String()}
	old := g.file.find(want)
	if g.o.Update {
		gm.run = &want
		gm.run.Levers, gm.run.Date, gm.run.Commit = g.levers(), g.o.Date, g.o.Commit
		prompts := g.o.Prompts
		if prompts == nil && old != nil {
			prompts = old.prompts()
		} else if prompts == nil {
			prompts = defaultPrompts()
		}
		for _, p := range prompts {
			gm.run.Continuations = append(gm.run.Continuations, &gateText{Prompt: p})
		}
		g.fresh = append(g.fresh, gm.run)
		return gm, nil
	}
	if old == nil {
		return nil, fmt.Errorf("%s: nothing recorded for device %s, model %s, kv %s: found %s: --update records it", g.o.Path, want.Device, want.Model, want.KV, g.file.has())
	}
	if old.SHA256 != want.SHA256 {
		return nil, fmt.Errorf("%s: recorded with another file of model %s: its SHA-256 is %s, this one's %s: --update records it again", g.o.Path, want.Model, old.SHA256, want.SHA256)
	}
	gm.run = old
	if g.o.Prompts != nil {
		chosen := *old
		chosen.Continuations = nil
		for _, p := range g.o.Prompts {
			c := old.find(p)
			if c == nil {
				return nil, fmt.Errorf("%s: no continuation of the prompt %.200q by model %s: --update records it", g.o.Path, p, want.Model)
			}
			chosen.Continuations = append(chosen.Continuations, c)
		}
		for _, c := range old.Continuations {
			if !slices.Contains(g.o.Prompts, c.Prompt) {
				return nil, fmt.Errorf("%s: the prompt %.200q is recorded, but not among those given: --update drops it", g.o.Path, c.Prompt)
			}
		}
		gm.run = &chosen
	}
	return gm, nil
}

// defaultPrompts are the suite's.
func defaultPrompts() []string { return slices.Clone(prompts[:]) }

// hashParts is the SHA-256 of a model's bytes, part after part.
func hashParts(f *gguf.File) string {
	h := sha256.New()
	for _, p := range f.Parts {
		h.Write(p.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// cacheType is what `mbench run` would choose.
func (g *Gate) cacheType(env *suites.Env, m *model.Model) gguf.Type {
	if env.Device.Open != nil {
		return metal.CacheType(m.NLayer, m.KWidth(), g.o.Levers)
	}
	switch g.o.Levers.CacheType {
	case "f32":
		return gguf.F32
	case "q8_0":
		return gguf.Q8_0
	}
	return gguf.F16
}

// levers lists the levers that are not at their default. They are told, not
// compared: no lever may change the text.
func (g *Gate) levers() string {
	var list []string
	for _, v := range lever.All {
		if value := v.Get(g.o.Levers); v.Kind == lever.KindLever && value != v.Get(lever.Default()) {
			list = append(list, v.Name+"="+value)
		}
	}
	return strings.Join(list, " ")
}

// backends are what runs the model, with its weights where they hold their own.
func (gm *gateModel) backends() ([]graph.Backend, error) {
	l := gm.gate.o.Levers
	threads := runtime.GOMAXPROCS(0)
	if gm.env.Device.Open == nil {
		b, err := gm.env.Backend(threads)
		return []graph.Backend{b}, err
	}
	b, err := gm.env.Metal(threads, metal.Options{Levers: l, Deadline: suites.CheckedDeadline})
	if err != nil {
		return nil, err
	}
	gm.m.Concatenate(!l.NoFuseQKV, !l.NoFuseFFN)
	return []graph.Backend{b}, gm.m.Hold(b)
}

// generated is one continuation with the logits that chose each token.
type generated struct {
	tokens []int32
	logits [][]float32
}

func (gm *gateModel) generate(ctx context.Context, prompt string) (*generated, error) {
	ids := gm.tok.Encode(prompt, tokenizer.Options{AddSpecial: true})
	if len(ids) == 0 {
		return nil, fmt.Errorf("the prompt %q has no token", prompt)
	}
	room := min(gm.gate.tokens, gm.m.NCtxTrain-len(ids))
	if room < 1 {
		return nil, fmt.Errorf("the prompt %.200q has %d tokens: the model's context has %d", prompt, len(ids), gm.m.NCtxTrain)
	}
	backends, err := gm.backends()
	if err != nil {
		return nil, err
	}
	if c, ok := backends[0].(*metal.Backend); ok {
		defer c.Close()
	}
	kv, err := gguf.ParseType(gm.run.KV)
	if err != nil {
		return nil, err
	}
	if !backends[0].SupportsOp(graph.Attn, kv) {
		return nil, fmt.Errorf("cache type %s: %s attends over f16 and f32 caches only", kv, backends[0].Name())
	}
	l := gm.gate.o.Levers
	s, err := session.New(gm.m, session.Options{Backends: backends, NCtx: len(ids) + room, KVType: kv, FuseQKV: !l.NoFuseQKV, FuseFFN: !l.NoFuseFFN})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := &generated{}
	for next := ids; len(out.tokens) < room; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		logits, err := s.Eval(next)
		if err != nil {
			return nil, err
		}
		id := argmax(logits)
		out.tokens, out.logits = append(out.tokens, id), append(out.logits, logits)
		if gm.tok.IsEOG(id) {
			break
		}
		next = []int32{id}
	}
	return out, nil
}

// verify generates one continuation and compares it; with Update it keeps it.
func (gm *gateModel) verify(ctx context.Context, want *gateText) (harness.Result, error) {
	got, err := gm.generate(ctx, want.Prompt)
	switch {
	case ctx.Err() != nil:
		return harness.Result{}, ctx.Err()
	case err != nil:
		return harness.Failed("%v", err), nil
	}
	res := harness.Passed()
	res.Counts = []harness.Count{{Name: "tokens", N: int64(len(got.tokens))}}
	if gm.gate.o.Update {
		want.Tokens, want.Text, want.Top = got.tokens, string(gm.tok.Decode(got.tokens)), nil
		for _, row := range got.logits {
			want.Top = append(want.Top, top5(row))
		}
		return res, nil
	}
	at := 0
	for at < min(len(got.tokens), len(want.Tokens)) && got.tokens[at] == want.Tokens[at] {
		at++
	}
	if at == len(got.tokens) && at == len(want.Tokens) {
		return res, nil
	}
	return gm.diverged(got, want, at), nil
}

// diverged says where a continuation parts from the recorded one, and by how much.
func (gm *gateModel) diverged(got *generated, want *gateText, at int) harness.Result {
	text := func(id int32) string { return fmt.Sprintf("%q", gm.tok.Decode([]int32{id})) }
	var res harness.Result
	var steps []string
	if at == len(got.tokens) || at == len(want.Tokens) {
		res = harness.Failed("the text has %d tokens, in %s %d: the first %d agree", len(got.tokens), gm.gate.o.Path, len(want.Tokens), at)
	} else {
		g, w, row, top := got.tokens[at], want.Tokens[at], got.logits[at], want.Top[at]
		here := float64(row[g]) - float64(row[w])
		res = harness.Failed("token %d is %s, in %s it is %s: margin %.4g here, %s recorded", at, text(g), gm.gate.o.Path, text(w), here, top.margin(w, g))
		steps = []string{"top 5 here:     " + top5(row).text(text), "top 5 recorded: " + top.text(text)}
	}
	run := gm.run
	res.Details = append([]string{
		fmt.Sprintf("prompt: %q", want.Prompt),
		fmt.Sprintf("got:    %q", gm.tok.Decode(got.tokens)),
		fmt.Sprintf("want:   %q", want.Text),
	}, steps...)
	res.Details = append(res.Details,
		fmt.Sprintf("recorded %s at commit %s, %s; here %s", run.Date, run.Commit, leverText(run.Levers), leverText(gm.gate.levers())),
		"where the new text is meant, the same command with --update records it")
	return res
}

func leverText(levers string) string {
	if levers == "" {
		return "default levers"
	}
	return levers
}

// Write writes what Update generated, and says how many continuations are new or
// changed, of how many. Of a continuation whose tokens are the same nothing is
// changed, so that the diff shows the texts to review and no more.
func (g *Gate) Write(write func(path string, data []byte) error) (changed, total int, err error) {
	out := &gateFile{Tokens: g.tokens, Runs: slices.Clone(g.file.Runs)}
	dropped := 0
	for _, run := range g.fresh {
		total += len(run.Continuations)
		at := slices.IndexFunc(out.Runs, func(old *gateRun) bool { return old.same(*run) })
		if at < 0 {
			out.Runs = append(out.Runs, run)
			changed += len(run.Continuations)
			continue
		}
		old := out.Runs[at]
		differ := 0
		for i, c := range run.Continuations {
			if before := old.find(c.Prompt); before != nil && slices.Equal(before.Tokens, c.Tokens) {
				run.Continuations[i] = before
			} else {
				differ++
			}
		}
		for _, c := range old.Continuations {
			if run.find(c.Prompt) == nil {
				dropped++
			}
		}
		changed += differ
		if differ == 0 && old.SHA256 == run.SHA256 {
			// The same texts, made with a build and levers of another day.
			run.Levers, run.Date, run.Commit = old.Levers, old.Date, old.Commit
		}
		out.Runs[at] = run
	}
	sort.SliceStable(out.Runs, func(i, j int) bool { return out.Runs[i].key() < out.Runs[j].key() })
	for _, run := range out.Runs {
		for _, c := range run.Continuations {
			if len(c.Tokens) == 0 || len(c.Tokens) > out.Tokens {
				return 0, 0, fmt.Errorf("%s: run %s, prompt %.200q: %d tokens, want 1 to %d: record all devices and models of the file with one --tokens", g.o.Path, run.key(), c.Prompt, len(c.Tokens), out.Tokens)
			}
		}
	}
	data := out.bytes()
	if changed+dropped == 0 && string(data) == string(g.o.Data) {
		return 0, total, nil
	}
	return changed, total, write(g.o.Path, data)
}

// top5 are the five largest logits, the first of equal ones first.
func top5(row []float32) gateTop {
	ids := make([]int32, 0, 6)
	for i, v := range row {
		at := len(ids)
		for at > 0 && v > row[ids[at-1]] {
			at--
		}
		if at < 5 {
			ids = slices.Insert(ids, at, int32(i))
			ids = ids[:min(len(ids), 5)]
		}
	}
	var top gateTop
	for _, id := range ids {
		top = append(top, gateLogit{id, round(row[id])})
	}
	return top
}

// round keeps the five digits that a golden file has.
func round(v float32) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(float64(v)))))
	return math.Round(float64(v)*scale) / scale
}
