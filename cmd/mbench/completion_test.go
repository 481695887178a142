package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

// bash offers mbench's commands, each one's flags, and values.
func TestCompletion(t *testing.T) {
	code, script, errs := mbench(t, "completion", "bash")
	require.Equal(t, harness.ExitHeld, code, errs)
	offers := func(words ...string) []string {
		return clitest.Complete(t, script, append([]string{"mbench"}, words...)...)
	}
	require.Equal(t, []string{"report", "results", "run"}, offers("r"))
	require.Equal(t, []string{"--prompt", "--prompt-file"}, offers("run", "--pro"))
	require.Equal(t, []string{"--sweep", "--seed", "--shard"}, offers("--s"))
	require.Equal(t, []string{"kv,rmsnorm"}, offers("--sweep", "kv,r"))
	code, script, errs = mbench(t, "completion", "zsh")
	require.Equal(t, harness.ExitHeld, code, errs)
	clitest.CheckZsh(t, script)
}
