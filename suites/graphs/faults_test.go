package graphs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites/graphs"
	"minfer/suites/suitetest"
)

// Without a fault every kind of case passes, for one model.
func TestNoFault(t *testing.T) {
	env := suitetest.Env(t, &suitetest.Backend{})
	env.Models = env.Models[1:]
	for _, filter := range []string{"batch_invariance .*kv=f16 threads=1", "split .*refused=(mul_mat|every other op)", "tail_rows", "plan_reuse", "reset", "parts"} {
		report := suitetest.Run(t, graphs.Suite{}, env, filter)
		require.Equal(t, len(report.Results), report.Count(harness.Pass), "%s: %v", filter, report.Results)
	}
}

// Each fault breaks one promise, and the case of that promise goes red.
func TestPlantedFaults(t *testing.T) {
	stores := 0
	for _, c := range []struct {
		name, filter string
		fault        suitetest.Backend
		want         string // a part of the reason
	}{
		{"a result that depends on the batch", "batch_invariance model=tiny-qwen2-f16 kv=f32 threads=2 cut=7", suitetest.Backend{
			After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
				if n.Name == "result_output" && n.Shape[1] == 7 {
					b.OneULP(out, 0)
				}
			}}, "5 of 167936 values differ, first at [0]"}, // 41 tokens are five times 7 and 6
		{"a tail row that is not the last", "tail_rows model=tiny-qwen2-f16", suitetest.Backend{
			After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
				if n.Name == "result_output" && n.Shape[1] == 1 {
					b.OneULP(out, 4)
				}
			}}, "1 of 4096 values differ, first at [4]"},
		{"a cell of the sequence before", "reset model=tiny-qwen2-f16", suitetest.Backend{
			Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
				if n.Op != graph.KvcacheStore || n.Layer != 1 || n.Attr.KV != graph.KVKey {
					return n, true
				}
				stores++ // of the other sequence, of the reference, of the case
				return n, stores != 3
			}}, "values differ, first at ["},
	} {
		t.Run(c.name, func(t *testing.T) {
			results := suitetest.Run(t, graphs.Suite{}, suitetest.Env(t, &c.fault), c.filter).Results
			require.Len(t, results, 1)
			require.Equal(t, harness.Fail, results[0].Outcome)
			require.Contains(t, results[0].Reason, c.want)
		})
	}
}
