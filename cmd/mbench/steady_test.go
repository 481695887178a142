package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
)

// A decoded token costs the slice of its logits and little else, with any number
// of threads; nothing grows with the position but for the plan of every 32nd.
func TestDecodeAllocations(t *testing.T) {
	f, err := cli.OpenModel("")
	require.NoError(t, err)
	defer f.Close()
	m, err := model.Load(f)
	require.NoError(t, err)
	for _, threads := range []int{1, 2} {
		b, err := cpu.New(cpu.Options{Threads: threads})
		require.NoError(t, err)
		defer b.Close()
		s, err := session.New(m, session.Options{Backends: []graph.Backend{b}, NCtx: 512, KVType: gguf.F16})
		require.NoError(t, err)
		defer s.Close()
		eval := func() {
			if _, err := s.Eval([]int32{7}); err != nil {
				t.Fatal(err)
			}
		}
		for s.Pos() < 33 {
			eval()
		}
		require.LessOrEqual(t, testing.AllocsPerRun(20, eval), 4.0, "within one plan, %d threads", threads)
	}
}
