package greedy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/suites"
	"minfer/suites/greedy"
	"minfer/suites/suitetest"
)

var gatePrompts = []string{"In the beginning", "1 2 3 4"}

// record writes a golden file of what an environment generates.
func record(t *testing.T, env *suites.Env, o greedy.GateOptions) []byte {
	t.Helper()
	o.Path, o.Update, o.Date, o.Commit = "golden.json", true, "2026-01-02", "abc"
	g, err := greedy.NewGate(o)
	require.NoError(t, err)
	report := suitetest.Run(t, g, env, "")
	require.Equal(t, len(report.Results), report.Count(harness.Pass), "%v", report.Results)
	written := o.Data
	_, _, err = g.Write(func(path string, data []byte) error {
		require.Equal(t, "golden.json", path)
		written = data
		return nil
	})
	require.NoError(t, err)
	return written
}

func gate(t *testing.T, env *suites.Env, data []byte) *harness.Report {
	t.Helper()
	g, err := greedy.NewGate(greedy.GateOptions{Path: "golden.json", Data: data, Levers: lever.Default()})
	require.NoError(t, err)
	return suitetest.Run(t, g, env, "")
}

// silentFFN is a fault: a feed-forward block that adds nothing.
var silentFFN = func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
	if n.Name == "ffn_out-1" {
		b.Write(out, 0, make([]byte, out.Len))
	}
}

// What was recorded holds; recording it again changes nothing; a fault is seen at
// the first token that differs, with both texts, both top fives and the margins.
func TestGate(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	options := greedy.GateOptions{Prompts: gatePrompts, Tokens: 16, Levers: lever.Default()}
	data := record(t, env, options)
	require.Contains(t, string(data), `{"device": "cpu", "model": "tiny-qwen2-f16", "kv": "f16", "levers": "",`)
	report := gate(t, env, data)
	require.Len(t, report.Results, 4)
	require.Equal(t, 4, report.Count(harness.Pass), "%v", report.Results)
	require.Equal(t, "greedy/golden model=tiny-qwen2-f16 kv=f16 prompt=0", report.Results[0].Case)
	require.Equal(t, []harness.Count{{Name: "tokens", N: 4 * 16}}, report.Totals())
	again := options
	again.Data = data
	require.Equal(t, string(data), string(record(t, env, again)))

	faulty := suitetest.Env(t, &suitetest.Backend{After: silentFFN})
	red := gate(t, faulty, data)
	require.Equal(t, 4, red.Count(harness.Fail), "%v", red.Results)
	for _, r := range red.Results {
		require.Regexp(t, `^token \d+ is ".+", in golden.json it is ".+": margin [\d.e-]+ here, (more than )?[\d.e-]+ recorded$`, r.Reason)
		require.Len(t, r.Details, 7)
		for i, start := range []string{"prompt: ", "got:    ", "want:   ", "top 5 here:     ", "top 5 recorded: ", "recorded 2026-01-02 at commit abc, default levers; here default levers", "where the new text is meant"} {
			require.True(t, strings.HasPrefix(r.Details[i], start), r.Details[i])
		}
		for _, line := range r.Details[3:5] {
			require.Equal(t, 4, strings.Count(line, ", \""), "five tokens: %s", line)
		}
		require.NotEqual(t, strings.TrimPrefix(r.Details[1], "got:    "), strings.TrimPrefix(r.Details[2], "want:   "))
	}

	// An update writes the other text, and only what changed.
	again.Data = data
	changed := record(t, faulty, again)
	require.NotEqual(t, string(data), string(changed))
	require.Equal(t, 4, gate(t, faulty, changed).Count(harness.Pass))
	require.Equal(t, 4, gate(t, env, changed).Count(harness.Fail))
}

// The first token that differs is the one told, though others before it agree.
func TestGateFirstToken(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	data := record(t, env, greedy.GateOptions{Prompts: gatePrompts[:1], Tokens: 12, Levers: lever.Default()})
	passes := 0
	late := suitetest.Env(t, &suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
		if n.Name != "result_output" {
			return
		}
		if passes++; passes == 6 { // the sixth token of the first model: token 300 wins
			b.Write(out, 4*300, []byte{0, 0, 0x80, 0x44}) // 1024
		}
	}})
	report := gate(t, late, data)
	require.Equal(t, 1, report.Count(harness.Fail), "%v", report.Results)
	require.Contains(t, report.Results[0].Reason, "token 5 is ")
	require.Contains(t, report.Results[0].Details[3], " 1024, ", "this run's largest logit")
}

// A new prompt and a dropped one: the rest stays as it is.
func TestGateUpdate(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Models = env.Models[:1]
	o := greedy.GateOptions{Prompts: gatePrompts, Tokens: 4, Levers: lever.Default()}
	data := record(t, env, o)
	o.Data, o.Prompts = data, []string{gatePrompts[1], "O Romeo"}
	next := record(t, env, o)
	kept := func(data []byte, prompt string) string {
		_, rest, ok := strings.Cut(string(data), `{"prompt": "`+prompt+`"`)
		if !ok {
			return ""
		}
		text, _, _ := strings.Cut(rest, "]}")
		return text
	}
	require.Equal(t, kept(data, gatePrompts[1]), kept(next, gatePrompts[1]))
	require.NotEmpty(t, kept(next, "O Romeo"))
	require.Empty(t, kept(next, gatePrompts[0]))
	require.Equal(t, 2, gate(t, env, next).Count(harness.Pass))
	// Without prompts those of the file are continued.
	o.Data, o.Prompts, o.Tokens = next, nil, 6
	longer := record(t, env, o)
	require.Contains(t, string(longer), `"tokens": 6,`)
	require.Equal(t, 2, gate(t, env, longer).Count(harness.Pass))
	// A file that holds runs of two lengths would judge neither.
	other := suitetest.Env(t, &suitetest.Backend{})
	other.Models, other.Device.Name = env.Models, "cpu (generic)"
	o.Data, o.Tokens = longer, 5
	g, err := greedy.NewGate(greedy.GateOptions{Path: "golden.json", Data: longer, Tokens: 5, Update: true, Levers: lever.Default()})
	require.NoError(t, err)
	suitetest.Run(t, g, other, "")
	_, _, err = g.Write(func(string, []byte) error { return errors.New("written") })
	require.ErrorContains(t, err, "record all devices and models of the file with one --tokens")
}

// Where the file cannot judge the run, it says so instead of passing.
func TestGateRefuses(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Models = env.Models[:1]
	data := record(t, env, greedy.GateOptions{Prompts: gatePrompts, Tokens: 2, Levers: lever.Default()})
	refuse := func(want string, env *suites.Env, o greedy.GateOptions) {
		t.Helper()
		o.Path = "golden.json"
		if o.Levers == (lever.Levers{}) {
			o.Levers = lever.Default()
		}
		g, err := greedy.NewGate(o)
		if err == nil {
			_, err = g.Cases(env)
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	refuse("golden.json: no such file: --update writes it", env, greedy.GateOptions{})
	refuse("continuations of 2 tokens, not 3", env, greedy.GateOptions{Data: data, Tokens: 3})
	refuse(`the prompt "a" is there twice`, env, greedy.GateOptions{Data: data, Prompts: []string{"a", "a"}})
	refuse(`no continuation of the prompt "new" by model tiny-qwen2-f16`, env, greedy.GateOptions{Data: data, Prompts: append([]string{"new"}, gatePrompts...)})
	refuse(`the prompt "1 2 3 4" is recorded, but not among those given`, env, greedy.GateOptions{Data: data, Prompts: gatePrompts[:1]})
	f32 := lever.Default()
	f32.CacheType = "f32"
	refuse("nothing recorded for device cpu, model tiny-qwen2-f16, kv f32: found (cpu, tiny-qwen2-f16, kv f16)", env, greedy.GateOptions{Data: data, Levers: f32})
	level := suitetest.Env(t, &suitetest.Backend{})
	level.Models, level.Device.Name = env.Models, "cpu (avx512)"
	refuse("nothing recorded for device cpu (avx512)", level, greedy.GateOptions{Data: data})
	for i, broken := range map[string]string{
		"not a golden file of mverify":                 "{",
		"unknown field":                                `{"tokens":1,"runs":[],"more":1}`,
		"tokens: found 0":                              `{"runs":[]}`,
		"more after the JSON value":                    `{"tokens":1,"runs":[]}{}`,
		"runs[0]: no continuations":                    `{"tokens":1,"runs":[{"model":"a"}]}`,
		"want 1 to 1 tokens":                           `{"tokens":1,"runs":[{"continuations":[{"tokens":[1,2]}]}]}`,
		"top: found 0 steps":                           `{"tokens":1,"runs":[{"continuations":[{"tokens":[1]}]}]}`,
		"top[0]: want token 1 first, as it was chosen": `{"tokens":1,"runs":[{"continuations":[{"tokens":[1],"top":[[[2,1]]]}]}]}`,
		"want a token's id and its logit":              `{"tokens":1,"runs":[{"continuations":[{"tokens":[1],"top":[[[1]]]}]}]}`,
	} {
		refuse(i, env, greedy.GateOptions{Data: []byte(broken)})
	}
	refuse("SHA-256", env, greedy.GateOptions{Data: []byte(strings.Replace(string(data), `"sha256": "`, `"sha256": "0`, 1))})
}

// A backend that gives no number fails the case, and an update writes nothing.
func TestGateNaN(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Models = env.Models[:1]
	data := record(t, env, greedy.GateOptions{Prompts: gatePrompts[:1], Tokens: 2, Levers: lever.Default()})
	broken := suitetest.Env(t, &suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
		if n.Name == "result_output" {
			b.Write(out, 0, []byte{0, 0, 0xc0, 0x7f})
		}
	}})
	broken.Models = env.Models
	report := gate(t, broken, data)
	require.Equal(t, 1, report.Count(harness.Fail))
	require.Contains(t, report.Results[0].Reason, "NaN")
}

// On a Metal device a fault in a kernel's text is seen, and a lever changes
// nothing.
func TestGateMetal(t *testing.T) {
	on := func(faults ...suitetest.Fault) *suites.Env {
		env := suitetest.Metal(t, suitetest.Kernels(t, faults...))
		env.Device.Name, env.Device.Open, env.Device.Checked = "soft (off)",
			func(threads int) (mtl.Device, error) { return soft.New(soft.Options{Threads: threads}) }, false
		env.Models = suitetest.Models()[:1]
		return env
	}
	data := record(t, on(), greedy.GateOptions{Prompts: gatePrompts[:1], Tokens: 8, Levers: lever.Default()})
	require.Contains(t, string(data), `{"device": "soft", "model": "tiny-qwen2-f16", "kv": "f32",`)

	levers := lever.Default()
	levers.NoFlash, levers.NoFuseFFN = true, true
	g, err := greedy.NewGate(greedy.GateOptions{Path: "golden.json", Data: data, Levers: levers})
	require.NoError(t, err)
	report := suitetest.Run(t, g, on(), "")
	require.Equal(t, 1, report.Count(harness.Pass), "%v", report.Results)

	report = gate(t, on(suitetest.Fault{File: "elementwise.metal", Old: "return silu(gate) * up;", New: "return silu(gate) + up;"}), data)
	require.Equal(t, 1, report.Count(harness.Fail), "%v", report.Results)
	require.Regexp(t, `^token \d+ is `, report.Results[0].Reason)
}

// Whatever stands in a golden file, reading it ends with a gate or one line.
func FuzzGate(f *testing.F) {
	for _, s := range []string{"", "{}", `{"tokens":1,"runs":[{"device":"cpu","continuations":[{"prompt":"a","tokens":[1],"top":[[[1,2.5]]]}]}]}`, `{"tokens":1,"runs":[null]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := greedy.NewGate(greedy.GateOptions{Path: "golden.json", Data: append([]byte{}, data...)})
		if err == nil {
			require.Equal(t, "greedy", g.Name())
		} else {
			require.True(t, strings.HasPrefix(err.Error(), "golden.json: "), err.Error())
		}
	})
}
