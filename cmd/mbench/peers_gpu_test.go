package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

// What is not there is bad input on a GPU too, before anything runs.
func TestPeersOnGPU(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ device, want string }{
		{"opencl", `--device "opencl": want cpu or cuda`},
		{"cuda", "no libggml-base.so and 0 files"},
	} {
		code, out, errs := mbench(t, "peers", "--device", c.device, "--llama", dir)
		require.Equal(t, harness.ExitBadInput, code, errs)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
}
