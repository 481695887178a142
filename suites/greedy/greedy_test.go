package greedy_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites/greedy"
	"minfer/suites/suitetest"
)

const prompt = "kv=f16 prompt=0$"

// Both models, plain and quantised. (The whole suite is the command's to run.)
func TestNoFault(t *testing.T) {
	report := suitetest.Run(t, greedy.Suite{}, suitetest.Env(t, &suitetest.Backend{}), "weights=(f16|q4_0) "+prompt)
	require.Len(t, report.Results, 4)
	require.Equal(t, 4, report.Count(harness.Pass), "%v", report.Results)
	require.Equal(t, []harness.Count{{Name: "tokens", N: 4 * 64}}, report.Totals())
}

// A feed-forward block that adds nothing makes another text.
func TestPlantedFault(t *testing.T) {
	fault := &suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
		if n.Name == "ffn_out-1" {
			for i := range n.Shape[0] {
				b.Write(out, 4*i, []byte{0, 0, 0, 0})
			}
		}
	}}
	results := suitetest.Run(t, greedy.Suite{}, suitetest.Env(t, fault), "tiny-qwen2-f16 weights=q4_0 "+prompt).Results
	require.Len(t, results, 1)
	require.Equal(t, harness.Fail, results[0].Outcome)
	require.Regexp(t, `^token \d+ differs from llama.cpp's$`, results[0].Reason)
	require.Len(t, results[0].Details, 2)
}

// A backend that gives no number is a failure of the case, not of the run.
func TestNaN(t *testing.T) {
	fault := &suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
		if n.Name == "result_output" {
			b.Write(out, 0, []byte{0, 0, 0xc0, 0x7f})
		}
	}}
	results := suitetest.Run(t, greedy.Suite{}, suitetest.Env(t, fault), "tiny-qwen3-f16 weights=f16 "+prompt).Results
	require.Len(t, results, 1)
	require.Equal(t, harness.Fail, results[0].Outcome)
	require.Contains(t, results[0].Reason, "NaN")
}

// Every case has a recorded continuation, and no continuation is left without a
// case.
func TestGoldenIsWhole(t *testing.T) {
	data, err := os.ReadFile("golden.json")
	require.NoError(t, err)
	var golden map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &golden))
	cases, err := greedy.Suite{}.Cases(suitetest.Env(t, &suitetest.Backend{}))
	require.NoError(t, err)
	var ids, keys []string
	for _, c := range cases {
		ids = append(ids, c.ID.String())
	}
	for k := range golden {
		keys = append(keys, k)
	}
	slices.Sort(ids)
	slices.Sort(keys)
	require.Equal(t, keys, ids)
}
