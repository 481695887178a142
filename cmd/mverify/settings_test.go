package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/engine/lever"
	"minfer/harness"
)

// Every setting with a list of values refuses another one: exit 2, and one line
// that has the name, the value and what is allowed.
func TestNonsenseSettings(t *testing.T) {
	tried := 0
	for _, v := range lever.All {
		if v.Values == nil {
			continue
		}
		tried++
		for _, value := range []string{"nonsense", "-1", " 1", "2147483648"} {
			var errs strings.Builder
			s := cli.Streams{Stdout: io.Discard, Stderr: &errs, Environ: []string{v.Name + "=" + value}}
			code := cli.Run(context.Background(), "mverify", s, []string{"--suite", "tokenizer", "--list"}, run)
			require.Equal(t, harness.ExitBadInput, code, "%s=%s", v.Name, value)
			require.True(t, strings.HasPrefix(errs.String(), "mverify: "+v.Name+"="), errs.String())
			require.Contains(t, errs.String(), v.Values[0])
			require.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
		}
	}
	require.Greater(t, tried, 12)
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
