package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

func TestNonsenseSettings(t *testing.T) {
	clitest.NonsenseSettings(t, "mverify", run, "--suite", "tokenizer", "--list")
}

// A lever that the suites would override is refused, and so is what mverify has no
// use for.
func TestSettingsOfMetal(t *testing.T) {
	for entry, want := range map[string]string{
		"MINFER_GEMM=0":             "MINFER_GEMM=0: on device soft the suites set the levers of each case themselves: unset it",
		"MINFER_ATTN_CHUNKS=3":      "MINFER_ATTN_CHUNKS=3: on device soft the suites set the levers of each case themselves: unset it",
		"MINFER_CACHE_TYPE=q8_0":    "MINFER_CACHE_TYPE=q8_0: on device soft the suites set the levers of each case themselves: unset it",
		"MINFER_TRACE=d":            "MINFER_TRACE=d: mverify writes no node values: unset it, or see mbench run",
		"MINFER_METAL_CAPTURE=file": "MINFER_METAL_CAPTURE=file: it is for an Apple GPU, not for device soft: unset it",
	} {
		var errs strings.Builder
		s := cli.Streams{Stdout: io.Discard, Stderr: &errs, Environ: []string{entry}}
		code := cli.Run(context.Background(), "mverify", s, []string{"--suite", "tokenizer", "--device", "soft", "--list"}, run)
		require.Equal(t, harness.ExitBadInput, code, entry)
		require.Equal(t, "mverify: "+want+"\n", errs.String())
	}
	var errs strings.Builder
	s := cli.Streams{Stdout: io.Discard, Stderr: &errs, Environ: []string{"MINFER_GEMM=1", "MINFER_DISABLE_MPS=1"}}
	code := cli.Run(context.Background(), "mverify", s, []string{"--suite", "tokenizer", "--device", "soft", "--list"}, run)
	require.Equal(t, harness.ExitHeld, code)
	require.Equal(t, "MPS: disabled by MINFER_DISABLE_MPS\n", errs.String())
}
