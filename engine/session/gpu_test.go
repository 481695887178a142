package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/engine/synth"
)

// metal plays a GPU that holds what the model has: late, opaque and poisoned.
func metal(t *testing.T, m *model.Model) *graphtest.Holder {
	t.Helper()
	h := graphtest.Hold(graphtest.Wrap(graphtest.NewRef("inner"), graphtest.Options{Name: "Metal", Async: true, Opaque: true, Poison: true}))
	require.NoError(t, m.Hold(h))
	return h
}

// evals are the logits of a prompt in two batches and of three single tokens.
func evals(t *testing.T, s *session.Session) [][]float32 {
	t.Helper()
	var all [][]float32
	for _, tokens := range [][]int32{{3, 1000, 7}, {512, 4}, {1}, {9}, {2}} {
		y, err := s.Eval(tokens)
		require.NoError(t, err)
		all = append(all, y)
	}
	return all
}

func TestFusionFlags(t *testing.T) {
	for arch, op := range map[string]string{"qwen2": "fused_qkv 2", "qwen3": "fused_qkv_norm 2", "llama": "fused_qkv 2"} {
		m, _ := tiny(t, synth.Options{Arch: arch, Layers: 2})
		cpu := graphtest.NewRef("CPU")
		alone := open(t, m, session.Options{NCtx: 32, Backends: []graph.Backend{cpu}, FuseQKV: true, FuseFFN: true})
		require.False(t, alone.GPU())
		want := evals(t, alone)
		require.Empty(t, m.Concatenations(), "a run on the CPU makes none")

		m.Concatenate(true, true)
		for _, f := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
			var trace, notes strings.Builder
			s := open(t, m, session.Options{NCtx: 32, Backends: []graph.Backend{metal(t, m), cpu}, FuseQKV: f[0], FuseFFN: f[1], Exec: graph.ExecOptions{Trace: &trace}, Notes: &notes})
			require.True(t, s.GPU())
			require.Equal(t, want, evals(t, s), "%s %v", arch, f)
			require.Empty(t, notes.String())
			// One plan for 3 tokens, one for 2, one for all single ones.
			require.Equal(t, graph.Stats{Builds: 3, Reuses: 2, Runs: 5}, s.Stats())
			plans := strings.Split(trace.String(), "split 0: Metal nodes 0-")[1:]
			require.Len(t, plans, 3, "each is one split")
			require.NotContains(t, trace.String(), "split 1")
			for i, p := range plans {
				require.Equal(t, f[0] && i == 2, strings.Contains(p, op), "%v: %s", f, p)
				require.Equal(t, f[1] && i == 2, strings.Contains(p, "fused_ffn 2"), "%v: %s", f, p)
			}
		}

		// On the CPU alone the concatenations of another session change nothing.
		var trace strings.Builder
		s := open(t, m, session.Options{NCtx: 32, Backends: []graph.Backend{cpu}, FuseQKV: true, FuseFFN: true, Exec: graph.ExecOptions{Trace: &trace}})
		require.Equal(t, want, evals(t, s))
		require.NotContains(t, trace.String(), "fused")
	}
}

func TestGateClosed(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2", Layers: 4})
	m.Concatenate(true, true)
	cpu := graphtest.NewRef("CPU")
	want := evals(t, open(t, m, session.Options{NCtx: 32, Backends: []graph.Backend{cpu}}))
	for _, name := range []string{"token_embd.weight", "blk.3.ffn_down.weight", "blk.2.attn_qkv.bias"} {
		gpu := metal(t, m)
		gpu.Drop(name)
		var trace, notes strings.Builder
		s := open(t, m, session.Options{NCtx: 32, Backends: []graph.Backend{gpu, cpu}, FuseQKV: true, FuseFFN: true, Exec: graph.ExecOptions{Trace: &trace}, Notes: &notes})
		require.Equal(t, "MPS: weights gate closed: "+name+" is not registered; the whole graph runs on CPU\n", notes.String())
		require.False(t, s.GPU())
		require.Equal(t, want, evals(t, s))
		require.NotContains(t, trace.String(), "Metal")
		require.NotContains(t, trace.String(), "fused")
		require.NotContains(t, trace.String(), "split 1")
		require.Zero(t, gpu.Live(), "the cache is on the CPU too")

		_, err := session.New(m, session.Options{Backends: []graph.Backend{gpu}})
		require.EqualError(t, err, "session: weights gate closed: "+name+" is not registered, and no other backend is given")
	}
}

// MINFER_TRACE's files come from any device, batch by batch.
func TestTraceDir(t *testing.T) {
	m, _ := tiny(t, synth.Options{Arch: "qwen2"})
	m.Concatenate(true, true)
	for name, backends := range map[string][]graph.Backend{"CPU": {graphtest.NewRef("CPU")}, "Metal": {metal(t, m)}} {
		dir := t.TempDir()
		s := open(t, m, session.Options{NCtx: 32, Backends: backends, FuseQKV: true, FuseFFN: true, Exec: graph.ExecOptions{TraceDir: dir}})
		want := evals(t, s)
		for i, y := range want {
			tr, err := graph.ReadTrace(dir, i+1)
			require.NoError(t, err)
			require.Equal(t, []int32{0, 3, 5, 6, 7}[i], tr.Inputs[model.InputPositions][0])
			last := tr.Values[len(tr.Values)-1]
			require.Equal(t, "result_output", last.Name)
			require.Equal(t, name, last.Backend)
			require.Equal(t, y, last.Data)
		}
		_, err := graph.ReadTrace(dir, len(want)+1)
		require.Error(t, err)
	}
}
