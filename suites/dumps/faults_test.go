package dumps_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/harness"
	"minfer/refs/dump/recorded"
	"minfer/refs/models"
	"minfer/suites"
	"minfer/suites/dumps"
)

// faulty is the CPU backend with one fault planted in it.
type faulty struct {
	*cpu.Backend
	// before may change the node, its operands or the cache that the inner
	// backend gets; false leaves the node out.
	before func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool)
	// after may change the output.
	after func(f *faulty, n *graph.Node, out graph.Operand)
	t     *testing.T
}

func (f *faulty) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	node := n
	if f.before != nil {
		changed, run := f.before(f, n, in, kv)
		if !run {
			return nil
		}
		node = changed
	}
	if err := f.Backend.ExecuteNode(node, in, out, kv); err != nil {
		return err
	}
	if f.after != nil {
		f.after(f, n, out)
	}
	return nil
}

func (f *faulty) read(o graph.Operand) []byte {
	data := make([]byte, o.Len)
	require.NoError(f.t, f.ReadHost(o.Buf, o.Off, data))
	return data
}

// run is the case of one model with the recorded dumps, on a backend with a
// fault.
func run(t *testing.T, filter string, f *faulty) harness.Result {
	t.Helper()
	inner, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	defer inner.Close()
	f.Backend, f.t = inner, t
	env := &suites.Env{Dumps: recorded.FS(), Temp: t.TempDir(), Seed: 1,
		Device: suites.Device{Name: "cpu", New: func(int) (graph.Backend, error) { return f, nil }}}
	for _, name := range models.Names() {
		env.Models = append(env.Models, suites.Model{Name: name, Open: func() (*gguf.File, error) { return models.Open(name) }})
	}
	cases, err := dumps.Suite{}.Cases(env)
	require.NoError(t, err)
	for _, c := range cases {
		if strings.HasSuffix(c.ID.String(), filter) {
			res, err := c.Run(context.Background())
			require.NoError(t, err)
			return res
		}
	}
	require.Fail(t, "no case", filter)
	return harness.Result{}
}

const qwen2, qwen3 = "model=tiny-qwen2-f16 weights=q4_0 kv=f16", "model=tiny-qwen3-f16 weights=f16 kv=f32"

// Without a fault the gate is green: what turns it red below is the fault.
func TestNoFault(t *testing.T) {
	for _, filter := range []string{qwen2, qwen3} {
		res := run(t, filter, &faulty{})
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
		fault        faulty
		want         string // the start of the reason
	}{
		{"one ulp in a dot", qwen2, faulty{after: func(f *faulty, n *graph.Node, out graph.Operand) {
			if named("ffn_gate-2")(n) {
				word := f.read(graph.Operand{Buf: out.Buf, Off: out.Off + 4*5, Len: 4})
				binary.LittleEndian.PutUint32(word, binary.LittleEndian.Uint32(word)+1)
				require.NoError(f.t, f.WriteHost(out.Buf, out.Off+4*5, word))
			}
		}}, "pos 0 ffn_gate-2 MUL_MAT"},
		{"a swapped row", qwen3, faulty{after: func(f *faulty, n *graph.Node, out graph.Operand) {
			if named("embd")(n) && n.Shape[1] > 8 {
				row := 4 * n.Shape[0]
				data := f.read(out)
				a, b := data[6*row:7*row], data[7*row:8*row]
				require.NoError(f.t, f.WriteHost(out.Buf, out.Off+6*row, append(append([]byte{}, b...), a...)))
			}
		}}, "pos 6 embd GET_ROWS"},
		{"a stale KV cell", qwen2, faulty{before: func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			// The key of one decoded token never reaches the cache.
			stale := n.Op == graph.KvcacheStore && n.Attr.KV == graph.KVKey && n.Layer == 1 && n.Shape[1] == 1 &&
				binary.LittleEndian.Uint32(f.read(in[1])) == 40
			return n, !stale
		}}, "pos 40 cache_k_l1 SET_ROWS"},
		{"a wrong rope pair", qwen3, faulty{before: func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.RoPE && named("Kcur-1")(n) {
				wrong := *n
				wrong.Attr.Rope.Mode = graph.RopeNorm
				return &wrong, true
			}
			return n, true
		}}, "pos 1 Kcur-1 ROPE"}, // position 0 is not rotated
		{"a score that sees the future", qwen3, faulty{before: func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.Attn && n.Layer == 0 && n.Shape[1] > 8 {
				pos := f.read(in[3])
				binary.LittleEndian.PutUint32(pos[4*5:], 6)
				require.NoError(f.t, f.WriteHost(in[3].Buf, in[3].Off, pos))
			}
			return n, true
		}}, "pos 5 kq-0 MUL_MAT"},
		{"a missing bias", qwen2, faulty{before: func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
			if n.Op == graph.MatMul && named("Vcur-3")(n) {
				wrong := *n
				zero := make([]byte, len(n.Bias.Data))
				wrong.Bias = &graph.Weight{Name: n.Bias.Name, Type: n.Bias.Type, Shape: n.Bias.Shape, Data: zero}
				return &wrong, true
			}
			return n, true
		}}, "pos 0 Vcur-3 ADD"},
		{"another scale", qwen2, faulty{before: func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
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
	res := run(t, qwen3, &faulty{before: func(f *faulty, n *graph.Node, in []graph.Operand, kv *graph.KV) (*graph.Node, bool) {
		if n.Op == graph.Attn && n.Layer == 1 {
			f.SetTap(nil) // the inner values of the later layers are not shown
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
