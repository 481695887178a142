package tokenizer

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/suitetest"
)

// Every case without a library or a downloaded vocabulary is recorded, and
// nothing is recorded for no case.
func TestGoldenIsWhole(t *testing.T) {
	var known golden
	require.NoError(t, json.Unmarshal(goldenFile, &known))
	var ids []string
	for _, r := range runs(suitetest.Env(t, &suitetest.Backend{})) {
		ids = append(ids, r.id().String())
	}
	slices.Sort(ids)
	require.Equal(t, slices.Sorted(maps.Keys(known)), ids)
}

const synthetic = "vocab=synthetic-qwen2 add_special=false parse_special=true"

func TestNoFault(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	for _, filter := range []string{synthetic, "vocab=tiny-qwen2-f16 add_special=true parse_special=false"} {
		report := suitetest.Run(t, Suite{}, env, filter)
		require.Len(t, report.Results, 1)
		require.Equal(t, harness.Pass, report.Results[0].Outcome, report.Results[0].Reason)
	}
}

// Each fault turns the case red; a seed that nothing is recorded for is not a
// pass either.
func TestPlantedFaults(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	var known golden
	require.NoError(t, json.Unmarshal(goldenFile, &known))
	r := runs(env)[slices.IndexFunc(runs(env), func(r run) bool { return r.id().String() == "tokenizer/encode "+synthetic })]
	right := known[r.id().String()]
	verify := func(r run, hashes []string) harness.Result {
		res, err := r.verify(context.Background(), env, hashes)
		require.NoError(t, err)
		return res
	}

	wrong := slices.Clone(right)
	wrong[2] = "0000000000000000"
	res := verify(r, wrong)
	require.Equal(t, harness.Fail, res.Outcome)
	require.Equal(t, "texts 128 to 191: other ids than llama.cpp's", res.Reason)
	require.Equal(t, int64(1), res.Counts[1].N)

	res = verify(r, right[:len(right)-1])
	require.Equal(t, harness.Fail, res.Outcome)
	require.Regexp(t, `^\d+ groups of texts are recorded: want \d+$`, res.Reason)
	res = verify(r, append(slices.Clone(right), "0000000000000000"))
	require.Equal(t, harness.Fail, res.Outcome, "texts that are not read any more")

	other := r
	other.vocab.path = func(env *suites.Env) (string, error) {
		return write(env, "wrong", func() (gguf.Model, error) {
			m, err := SyntheticVocab("qwen2")
			for i, kv := range m.KVs {
				if kv.Key == "tokenizer.ggml.pre" {
					m.KVs[i].Value = "gpt-2"
				}
			}
			return m, err
		})
	}
	res = verify(other, right)
	require.Equal(t, harness.Fail, res.Outcome)
	require.Greater(t, res.Counts[1].N, int64(10))

	env.Seed++
	res = verify(r, right)
	require.Equal(t, harness.Unsupported, res.Outcome)
}
