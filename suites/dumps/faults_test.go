package dumps_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/dump/recorded"
	"minfer/suites/dumps"
	"minfer/suites/suitetest"
)

// run is the one case that ends in filter, with the recorded dumps, on a backend
// with a fault.
func run(t *testing.T, filter string, b *suitetest.Backend) harness.Result {
	t.Helper()
	env := suitetest.Env(t, b)
	env.Dumps = recorded.FS()
	results := suitetest.Run(t, dumps.Suite{}, env, filter+"$").Results
	require.Len(t, results, 1)
	return results[0]
}

const qwen2, qwen3 = "model=tiny-qwen2-f16 weights=q4_0 kv=f16", "model=tiny-qwen3-f16 weights=f16 kv=f32"

// Without a fault the gate is green: what turns it red below is the fault.
func TestNoFault(t *testing.T) {
	for _, filter := range []string{qwen2, qwen3} {
		res := run(t, filter, &suitetest.Backend{})
		require.Equal(t, harness.Pass, res.Outcome, res.Reason)
	}
}

// Each fault turns the suite red, and the first difference is at its node.
func TestPlantedFaults(t *testing.T) {
	named := func(name string) func(n *graph.Node) bool {
		return func(n *graph.Node) bool { return n.Name == name }
	}
	for _, c := range []struct {
		name, filter string
		fault        suitetest.Backend
		want         string // the start of the reason
	}{
		{"one ulp in a dot", qwen2, suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			if named("ffn_gate-2")(n) {
				b.OneULP(out, 5)
			}
		}}, "pos 0 ffn_gate-2 MUL_MAT"},
		{"a swapped row", qwen3, suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			if named("embd")(n) && n.Shape[1] > 8 {
				b.SwapRows(out, 6, 4*n.Shape[0])
			}
		}}, "pos 6 embd GET_ROWS"},
		{"a stale KV cell", qwen2, suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			// The key of one decoded token never reaches the cache.
			stale := n.Op == graph.KvcacheStore && n.Attr.KV == graph.KVKey && n.Layer == 1 && n.Shape[1] == 1 &&
				binary.LittleEndian.Uint32(b.Read(in[1])) == 40
			return n, !stale
		}}, "pos 40 cache_k_l1 SET_ROWS"},
		{"a wrong rope pair", qwen3, suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.RoPE && named("Kcur-1")(n) {
				wrong := *n
				wrong.Attr.Rope.Mode = graph.RopeNorm
				return &wrong, true
			}
			return n, true
		}}, "pos 1 Kcur-1 ROPE"}, // position 0 is not rotated
		{"a score that sees the future", qwen3, suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.Attn && n.Layer == 0 && n.Shape[1] > 8 {
				b.Write(in[3], 4*5, []byte{6, 0, 0, 0})
			}
			return n, true
		}}, "pos 5 kq-0 MUL_MAT"},
		{"a missing bias", qwen2, suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.MatMul && named("Vcur-3")(n) {
				wrong := *n
				zero := make([]byte, len(n.Bias.Data))
				wrong.Bias = &graph.Weight{Name: n.Bias.Name, Type: n.Bias.Type, Shape: n.Bias.Shape, Data: zero}
				return &wrong, true
			}
			return n, true
		}}, "pos 0 Vcur-3 ADD"},
		{"another scale", qwen2, suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.Attn && n.Layer == 2 {
				wrong := *n
				wrong.Attr.Scale = math.Nextafter32(n.Attr.Scale, 1)
				return &wrong, true
			}
			return n, true
		}}, "pos 1 kq_soft_max-2 SOFT_MAX"}, // one cell has probability 1 whatever the scale
	} {
		t.Run(c.name, func(t *testing.T) {
			res := run(t, c.filter, &c.fault)
			require.Equal(t, harness.Fail, res.Outcome)
			require.True(t, strings.HasPrefix(res.Reason, c.want), "got %q, want %q", res.Reason, c.want)
		})
	}
}

// A value that never comes is not a pass.
func TestMissingNode(t *testing.T) {
	res := run(t, qwen3, &suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
		if n.Op == graph.Attn && n.Layer == 1 {
			b.SetTap(nil) // the inner values of the later layers are not shown
		}
		return n, true
	}})
	require.Equal(t, harness.Fail, res.Outcome)
	skipped := int64(0)
	for _, n := range res.Counts {
		if n.Name == "skipped" {
			skipped = n.N
		}
	}
	require.Positive(t, skipped)
	require.Contains(t, res.Reason, fmt.Sprintf("of %d nodes were compared", res.Counts[0].N))
}
