package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

// soft runs `mbench run --device soft` and gives the text and stderr.
func soft(t *testing.T, environ []string, args ...string) (text, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	s := cli.Streams{Stdout: &out, Stderr: &errs, Environ: environ}
	words := append([]string{"run", "--device", "soft", "--prompt", "ROMEO:", "-n", "6"}, args...)
	require.Equal(t, harness.ExitHeld, cli.Run(context.Background(), "mbench", s, words, run), errs.String())
	return out.String(), errs.String()
}

const usingMetal = `MPS: using Metal on Software Metal device \(\d+ threads?\) \(unified: yes\)\n`

// The embedded model on the software device: what runs is said, a forward pass is
// one split, and the text is that of the CPU, whose margins are wide here.
func TestRunOnSoft(t *testing.T) {
	code, want, errs := mbench(t, "run", "--device", "cpu", "--prompt", "ROMEO:", "-n", "6")
	require.Equal(t, harness.ExitHeld, code)
	require.Regexp(t, `^mbench: cpu `, errs)
	text, errs := soft(t, []string{"MINFER_GRAPH_TRACE=1"})
	require.Equal(t, want, text)
	require.Regexp(t, "^"+usingMetal+`split 0: Metal nodes 0-\d+\ncensus: Metal [^\n]+\nsplit 0: Metal nodes 0-\d+\ncensus: Metal [^\n]+ fused_qkv \d+, fused_ffn \d+\n`+
		`mbench: soft \(off\): prompt \d+ tokens at [0-9.]+ tokens/s, generation 5 tokens at [0-9.]+ tokens/s\n$`, errs)
	require.Equal(t, 2, strings.Count(errs, "split "), "one split for the prompt, one for the tokens")

	// Without the fusions, and with a cache that the CPU refuses.
	_, errs = soft(t, []string{"MINFER_GRAPH_TRACE=1", "MINFER_NO_FUSE_QKV=1", "MINFER_NO_FUSE_FFN=1"}, "--cache-type", "q8_0")
	require.NotContains(t, errs, "fused")
	require.Equal(t, 2, strings.Count(errs, "split "))
}

// Without --device a Mac's GPU runs the model, else the CPU, and it is said.
func TestDefaultDevice(t *testing.T) {
	code, _, errs := mbench(t, "run", "--prompt", "R", "-n", "2")
	require.Equal(t, harness.ExitHeld, code)
	if clitest.AppleGPU() {
		require.Regexp(t, `^MPS: using Metal on (.*\n)*mbench: apple `, errs)
	} else {
		require.Regexp(t, `^MPS: not available, using CPU\nmbench: cpu `, errs)
	}
}

func TestDisabledMPS(t *testing.T) {
	code, want, _ := mbench(t, "run", "--device", "cpu", "--prompt", "ROMEO:", "-n", "6")
	require.Equal(t, harness.ExitHeld, code)
	text, errs := soft(t, []string{"MINFER_DISABLE_MPS=1", "MINFER_GRAPH_TRACE=1"})
	require.Equal(t, want, text)
	require.Regexp(t, `^MPS: disabled by MINFER_DISABLE_MPS\nsplit 0: CPU nodes 0-\d+\n`, errs)
	require.NotContains(t, errs, "Metal")
}

// Weights of a file in parts, read in place or copied: the same text.
func TestSoftParts(t *testing.T) {
	dir := t.TempDir()
	whole, parts := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "parts.gguf")
	for _, args := range [][]string{{"-o", whole}, {"-o", parts, "--max-part", "100K"}} {
		code, _, errs := mbench(t, append([]string{"synth", "--size", "tiny", "--type", "q4_K_M"}, args...)...)
		require.Equal(t, harness.ExitHeld, code, errs)
	}
	found, err := filepath.Glob(filepath.Join(dir, "parts-00001-of-*.gguf"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	want, _ := soft(t, nil, "--model", whole)
	text, _ := soft(t, nil, "--model", found[0])
	require.Equal(t, want, text)
	text, _ = soft(t, []string{"MINFER_WEIGHT_COPY=1"}, "--model", found[0])
	require.Equal(t, want, text)
}

// MINFER_TRACE writes node values, of Metal too.
func TestSoftTrace(t *testing.T) {
	dir := t.TempDir()
	want, _ := soft(t, nil)
	text, _ := soft(t, []string{"MINFER_TRACE=" + dir})
	require.Equal(t, want, text)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, left)
}
