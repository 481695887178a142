package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/ops"
	"minfer/suites/suitetest"
)

// Without a fault every case passes but those that are refused by contract: were
// a kernel to refuse what it must compute, it would show here.
func TestNoFault(t *testing.T) {
	report := suitetest.Run(t, ops.Suite{}, suitetest.Env(t, &suitetest.Backend{}), "")
	require.Greater(t, report.Count(harness.Pass), 200)
	require.Zero(t, report.Count(harness.Fail), "%v", report.Results)
	var refused []string
	for _, r := range report.Results {
		if r.Outcome == harness.Unsupported {
			refused = append(refused, r.Case+": "+r.Reason)
		}
	}
	require.Equal(t, []string{
		"ops/mul_mat type=q4_K m=4 n=1 k=96: a row of 96 elements is not whole blocks of q4_K: want a multiple of 256",
		"ops/attention hd=64 n_head=14 n_head_kv=2 n_kv=113 n_tokens=3 kv_type=q8_0: CPU does not support attention of q8_0",
		"ops/attention hd=128 n_head=4 n_head_kv=4 n_kv=1 n_tokens=1 kv_type=q8_0: CPU does not support attention of q8_0",
		"ops/attention hd=64 n_head=2 n_head_kv=1 n_kv=33 n_tokens=33 kv_type=q8_0: CPU does not support attention of q8_0",
		"ops/attention hd=80 n_head=6 n_head_kv=3 n_kv=31 n_tokens=5 kv_type=q8_0: a row of 240 elements is not whole blocks of q8_0: want a multiple of 32",
		"ops/attention hd=128 n_head=8 n_head_kv=2 n_kv=257 n_tokens=2 kv_type=q8_0: CPU does not support attention of q8_0",
		"ops/kv_store type=q8_0 d=128 table_rows=64 n_rows=3: CPU does not support kv_store of q8_0",
		"ops/kv_store type=q8_0 d=128 table_rows=64 n_rows=0: CPU does not support kv_store of q8_0",
		"ops/kv_store type=q8_0 d=32 table_rows=1 n_rows=1: CPU does not support kv_store of q8_0",
		"ops/kv_store type=q8_0 d=96 table_rows=33 n_rows=33: CPU does not support kv_store of q8_0",
	}, refused)
}

// Each fault turns its case red, and the reason says where.
func TestPlantedFaults(t *testing.T) {
	for _, c := range []struct {
		name, filter string
		fault        suitetest.Backend
		want         string // a part of the reason
	}{
		{"one ulp in a dot", "mul_mat type=q4_0 m=16 n=9 k=64", suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			b.OneULP(out, 37)
		}}, "1 of 144 values differ, first at [37]"},
		{"a swapped row", "get_rows type=q6_K d=768 table_rows=101 n_ids=7", suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			b.SwapRows(out, 3, 4*768)
		}}, "first at [2304]"},
		{"a write past the output", "swiglu d=113 rows=3", suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			b.Write(out, out.Len, []byte{0})
		}}, "output: byte 1356, outside its 1356 bytes, was overwritten"},
		{"a write before the output", "silu d=113 rows=3", suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			b.Write(out, -1, []byte{0})
		}}, "output: byte -1, outside its 1356 bytes, was overwritten"},
		{"an output left unwritten", "soft_max d=113 rows=3", suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			return n, false
		}}, "339 of 339 values differ, first at [0]: got NaN"},
		{"one element left unwritten", "rms_norm d=1025 rows=3", suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			b.Write(out, 4*1024, []byte{0xad, 0xde, 0xc0, 0x7f}) // as the suite left it
		}}, "1 of 3075 values differ, first at [1024]: got NaN"},
		{"an input written over", "/add d=113 rows=4", suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			b.OneULP(in[1], 2)
			return n, true
		}}, "input 1: byte 8 was changed by the node that reads it"},
		{"a stored row too many", "kv_store type=f16 d=128 table_rows=64 n_rows=0", suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) {
			b.OneULP(out, 5) // of another row than those stored
		}}, "first at [10]"},
		{"a score that sees the future", "attention hd=64 n_head=14 n_head_kv=2 n_kv=113 n_tokens=3 kv_type=f16", suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			pos := b.Read(in[3])
			b.Write(in[3], 0, []byte{111, 0, 0, 0})
			require.Equal(t, byte(110), pos[0])
			return n, true
		}}, "input 3: byte 0 was changed"},
		{"a wrong rope pair", "rope mode=neox hd=128 n_head=4 n_tokens=5", suitetest.Backend{Before: func(b *suitetest.Backend, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			wrong := *n
			wrong.Attr.Rope.Mode = graph.RopeNorm
			return &wrong, true
		}}, "values differ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			results := suitetest.Run(t, ops.Suite{}, suitetest.Env(t, &c.fault), c.filter).Results
			require.Len(t, results, 1)
			require.Equal(t, harness.Fail, results[0].Outcome)
			require.Contains(t, results[0].Reason, c.want)
		})
	}
}

// Bits that depend on the number of threads are a fault of their own.
func TestThreadsMatter(t *testing.T) {
	fault := &suitetest.Backend{After: func(b *suitetest.Backend, n *graph.Node, out graph.Operand) { b.OneULP(out, 0) }}
	env := suitetest.Env(t, fault)
	env.Device = suites.Device{Name: "cpu", New: func(threads int) (graph.Backend, error) {
		if threads == 3 {
			return fault, nil
		}
		return cpu.New(cpu.Options{Threads: threads})
	}}
	t.Cleanup(env.Close)
	results := suitetest.Run(t, ops.Suite{}, env, "scale d=113").Results
	require.Len(t, results, 1)
	require.Equal(t, harness.Fail, results[0].Outcome)
	require.Contains(t, results[0].Reason, "3 threads give other bits than 1: 1 of 339 values differ, first at [0]")
}
