package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/lever"
	"minfer/harness"
	"minfer/suites/peers"
)

// What is not there is bad input on a GPU too, before anything runs.
func TestPeersOnGPU(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		want string
		args []string
	}{
		{`--device "opencl": want cpu or cuda`, []string{"--device", "opencl"}},
		{"no libggml-base.so and 0 files", []string{"--device", "cuda"}},
		{"--check with --device cuda", []string{"--device", "cuda", "--check"}},
		{"--threads with --device cuda", []string{"--device", "cuda", "--threads", "2"}},
		{"rounds 2: want at least 3", []string{"--device", "cuda", "--reps", "2"}},
		{"--show and --check", []string{"--show", "--check"}},
	} {
		code, out, errs := mbench(t, append([]string{"peers", "--llama", dir}, c.args...)...)
		require.Equal(t, harness.ExitBadInput, code, errs)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
	err := gpuFlags("cuda", func(string) bool { return false }, false, lever.Levers{DisableMPS: true}, &peers.GPUOptions{})
	require.EqualError(t, err, "--device cuda: GPUs are kept out by MINFER_DISABLE_MPS")
}

// Two GPUs of llama.cpp beside one of this engine are no comparison.
func TestPeersOnOneGPU(t *testing.T) {
	require.NoError(t, oneGPU([]string{"A"}))
	require.EqualError(t, oneGPU([]string{"A", "B"}), "llama.cpp finds 2 GPUs (A, B): want one, as with CUDA_VISIBLE_DEVICES=0")
}

// A run on a GPU shows how each side's logits compare, and which fails.
func TestHeldTable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, heldTable(&out, &peers.Record{Held: []peers.Held{
		{Side: peers.Ours, What: "decode", Check: &harness.Comparison{N: 7, Each: true, Share: 0.25}},
		{Side: "llama.cpp", What: "prefill", Check: &harness.Comparison{N: 9, NMSE: 0.5}, Limit: 0.02},
	}}))
	require.Equal(t, `medians; logits against the float64 model:
  minfer, decode: 7 values, 0.25 of the bound
  llama.cpp, prefill: 9 values, NMSE 0.5, at most 0.02: FAILS
`, out.String())
}
