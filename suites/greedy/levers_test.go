package greedy

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/lever"
	"minfer/engine/tokenizer"
	"minfer/harness"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/suites"
	"minfer/suites/suitetest"
)

// values are the choices that a run makes: its levers, weights and cache type.
func values(r *leverRun) []string {
	v := []string{"weights=" + r.weights, "kv=" + r.kv.String()}
	for _, f := range factors() {
		l, _ := lever.Find(f[0].name)
		v = append(v, f[0].name+"="+l.Get(r.setting.levers))
	}
	return v
}

// pairsOf lists the pairs of values that some run has.
func pairsOf(runs []*leverRun) map[string]bool {
	seen := map[string]bool{}
	for _, r := range runs {
		v := values(r)
		for i := range v {
			for j := range i {
				seen[v[j]+" "+v[i]] = true
			}
		}
	}
	return seen
}

// Every lever of the table takes part, and every pair of values of two factors is
// run, in Quick with weights and cache types among the factors, in Full for each
// of them with at most 12 settings.
func TestSettingsCoverPairs(t *testing.T) {
	require.Len(t, factors(), 10, "a new lever needs a place here, or a reason for none")
	levels := []int{len(weightTypes), len(kvTypes)}
	for _, f := range factors() {
		levels = append(levels, len(f))
	}
	pairs := func(levels []int) (n int) {
		for i, a := range levels {
			for _, b := range levels[i+1:] {
				n += a * b
			}
		}
		return n
	}
	env := suitetest.Metal(t, nil)
	env.Models = suitetest.Models()[:1]
	quick, err := leverRuns(env)
	require.NoError(t, err)
	require.True(t, quick[0].watched)
	require.Len(t, pairsOf(quick[1:]), pairs(levels))

	env.Tier = suites.Full
	full, err := leverRuns(env)
	require.NoError(t, err)
	byGroup := map[*group][]*leverRun{}
	for _, r := range full[1:] {
		require.Len(t, r.prompts, len(prompts))
		byGroup[r.group] = append(byGroup[r.group], r)
	}
	require.Len(t, byGroup, len(weightTypes)*len(kvTypes))
	for _, runs := range byGroup {
		require.LessOrEqual(t, len(runs), 12)
		require.Equal(t, "default", runs[0].setting.name)
		require.Len(t, pairsOf(runs), pairs(append([]int{1, 1}, levels[2:]...)))
	}

	// Exhaustive has each pair of changes as a setting, which has no other change.
	settings, err := everyPair()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, s := range settings {
		require.LessOrEqual(t, strings.Count(s.name, "="), 2)
		names[s.name] = true
	}
	// 9 flags and 3 chunk counts: 12 single changes, and their pairs but for those
	// of the same lever.
	require.Len(t, names, 1+12+(12*11/2-3))
}

// planned is a group whose reference is given.
func planned(t *testing.T, base []int32, rows [][]float64, path text) *group {
	f, err := suitetest.Models()[0].Open()
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	tok, err := tokenizer.New(f)
	require.NoError(t, err)
	g := &group{kv: gguf.F16, tok: tok, base: map[int][]int32{0: base}, wanted: map[string][][]float64{}}
	ids := path.tokens()
	all := append(g.prompt(0), ids[:len(ids)-1]...)
	key := sha256.Sum256([]byte(fmt.Sprint(all)))
	g.wanted[string(key[:])] = rows
	return g
}

func textOf(tokens []int32, rows [][]float64, off float64) text {
	var t text
	for i, id := range tokens {
		var logits []float32
		for _, x := range rows[i] {
			logits = append(logits, float32(x+off))
		}
		t.steps = append(t.steps, step{id, logits})
	}
	return t
}

// What a difference means depends on the reference's margin alone. The logits'
// size is below 1, so logits may be off by 5e-5, and a tie of an f16 cache is 1e-3.
func TestJudge(t *testing.T) {
	rows := [][]float64{{0, 0.9, 0.2}, {0.5, 0.1, 0.49997}, {0.3, 0.1, 0.2}}
	far := [][]float64{rows[0], {0.5, 0.1, 0.4997}, rows[2]}
	base := []int32{1, 0, 0}
	for _, c := range []struct {
		name         string
		rows         [][]float64
		tokens       []int32
		off          float64
		tie, failure string
	}{
		{name: "the same text", rows: rows, tokens: base},
		{name: "the same text, logits within the bound", rows: rows, tokens: base, off: 4e-5},
		{name: "the same text, logits past the bound", rows: rows, tokens: base, off: 6e-5, failure: "token 0: 3 values, worst at"},
		{name: "a tie", rows: rows, tokens: []int32{1, 2, 0}, tie: "the reference's margin is 3e-05, the bound 0.001"},
		{name: "a tie that this text's own cache does not make", rows: far, tokens: []int32{1, 2, 0}, failure: "whose reference logit is 0.0003 below the largest: want at most 5e-05"},
		{name: "a wrong token", rows: rows, tokens: []int32{1, 1, 0}, failure: "the reference's margin is 0.4, the bound 0.001"},
		{name: "a wrong token after a tie", rows: rows, tokens: []int32{1, 2, 1}, failure: "whose reference logit is 0.2 below the largest: want at most 5e-05"},
	} {
		path := textOf(c.tokens, c.rows, c.off)
		v, err := planned(t, base, c.rows, path).judge(0, path, &harness.Comparison{Index: -1})
		require.NoError(t, err)
		require.Contains(t, v.failure, c.failure, c.name)
		require.Equal(t, c.failure == "", v.failure == "", "%s: %s", c.name, v.failure)
		if c.failure == "" {
			require.Equal(t, c.tie == "", v.tie == "", c.name)
			require.Contains(t, v.tie, c.tie, c.name)
		}
	}
}

// A baseline that is wrong itself is found too: both texts agree, and the reference
// has another choice.
func TestJudgeWrongBaseline(t *testing.T) {
	rows := [][]float64{{0, 0.9, 0.2}}
	path := textOf([]int32{2}, rows, 0)
	v, err := planned(t, []int32{2}, rows, path).judge(0, path, &harness.Comparison{Index: -1})
	require.NoError(t, err)
	require.Contains(t, v.failure, "whose reference logit is 0.7 below the largest")
}

// A cache that holds another value than the key's own is found where it lies.
func TestPlantedCacheFault(t *testing.T) {
	env := suitetest.Metal(t, nil)
	env.Models = suitetest.Models()
	fast(env)
	g := &group{env: env, model: env.Models[0], weights: "f16", kv: gguf.Q8_0}
	require.NoError(t, g.open())
	s, err := newSetting(nil)
	require.NoError(t, err)
	got, err := g.generate(t.Context(), s, 0, 3, false)
	require.NoError(t, err)
	g.base[0] = got.tokens()
	v, err := g.judge(0, got, &harness.Comparison{Index: -1})
	require.NoError(t, err)
	require.Empty(t, v.failure)
	got.cache[2][1][34+5] ^= 8 // the fourth quant of the second block
	v, err = g.judge(0, got, &harness.Comparison{Index: -1})
	require.NoError(t, err)
	require.Contains(t, v.failure, "the cache of layer 2, values: not the value rounded: element 35 is ")
}

// fast is the software device without its sanitizer.
func fast(env *suites.Env) {
	env.Device.Fast = func(threads int) (mtl.Device, error) { return soft.New(soft.Options{Threads: threads}) }
}

// A kernel with a fault makes red the settings that use it, at the first token that
// moves, and no others.
func TestPlantedKernelFault(t *testing.T) {
	env := suitetest.Metal(t, suitetest.Kernels(t, suitetest.Fault{File: "norm.metal", Old: "sum / float(p.cols) + p.eps", New: "sum / float(p.cols + 8) + p.eps"}))
	env.Models = suitetest.Models()
	fast(env)
	g := &group{env: env, model: env.Models[0], weights: "f16", kv: gguf.F32}
	run := func(changes ...change) harness.Result {
		s, err := newSetting(changes)
		require.NoError(t, err)
		res, err := (&leverRun{group: g, setting: s, prompts: []int{1}, tokens: 4}).verify(t.Context())
		require.NoError(t, err)
		return res
	}
	require.Equal(t, harness.Pass, run().Outcome)
	require.Equal(t, harness.Pass, run(change{"MINFER_NO_FLASH", "1"}).Outcome)
	res := run(change{"MINFER_NO_RMS_256", "1"})
	require.Equal(t, harness.Fail, res.Outcome)
	require.Regexp(t, `^prompt 1: token 0: 4096 values, worst at `, res.Reason)
	require.Len(t, res.Details, 2)
}

// Under the sanitizer a text is generated too, and a finding fails the case.
func TestWatchedText(t *testing.T) {
	for name, fault := range map[string][]suitetest.Fault{
		"":              nil,
		"out-of-bounds": {{File: "norm.metal", Old: "for (uint i = first; i < p.cols; i += stride)", New: "for (uint i = first; i < p.cols + 1; i += stride)"}},
	} {
		env := suitetest.Metal(t, suitetest.Kernels(t, fault...))
		env.Models = suitetest.Models()
		fast(env)
		g := &group{env: env, model: env.Models[1], weights: "f16", kv: gguf.F16}
		s, err := newSetting(nil)
		require.NoError(t, err)
		res, err := (&leverRun{group: g, setting: s, prompts: []int{7}, tokens: 1, watched: true}).verify(t.Context())
		require.NoError(t, err)
		require.Equal(t, name == "", res.Outcome == harness.Pass, res.Reason)
		require.Contains(t, res.Reason, name)
	}
}
