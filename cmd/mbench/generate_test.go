package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

// What shows only once the prompt is tokenised, or when files are written, is
// refused before anything is on stdout too: exit 2 and one line.
func TestNoPromptBeforeRefusal(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		environ, args []string
		want          string
	}{
		{nil, []string{"-n", "3", "--ctx", "1"}, "-n 3: the context of 1 tokens has room for 1 after a prompt of 1"},
		{nil, []string{"-n", "101", "--ctx", "100"}, "-n 101: the context of 100 tokens has room for 100 after a prompt of 1"},
		{[]string{"MINFER_TRACE=" + file + "/x"}, []string{"-n", "4"}, "MINFER_TRACE=DIR/file/x: mkdir DIR/file: not a directory"},
		{[]string{"MINFER_TRACE=" + file}, []string{"-n", "4"}, "MINFER_TRACE=DIR/file: mkdir DIR/file: not a directory"},
	} {
		var out, errs strings.Builder
		s := cli.Streams{Stdout: &out, Stderr: &errs, Environ: c.environ}
		code := cli.Run(context.Background(), "mbench", s, append([]string{"run", "--device", "cpu", "--prompt", "R"}, c.args...), run)
		require.Equal(t, harness.ExitBadInput, code, "%v: %s", c.args, errs.String())
		require.Empty(t, out.String(), c.args)
		require.Equal(t, "mbench: "+c.want+"\n", strings.ReplaceAll(errs.String(), dir, "DIR"), c.args)
	}

	// What just fits is no refusal, and the check of the directory leaves nothing behind.
	trace := filepath.Join(dir, "new", "trace")
	var out, errs strings.Builder
	s := cli.Streams{Stdout: &out, Stderr: &errs, Environ: []string{"MINFER_TRACE=" + trace}}
	require.Equal(t, harness.ExitHeld, cli.Run(context.Background(), "mbench", s, []string{"run", "--prompt", "R", "-n", "3", "--ctx", "3", "--ignore-eos"}, run), errs.String())
	require.True(t, strings.HasPrefix(out.String(), "R"))
	left, err := filepath.Glob(filepath.Join(trace, "writable-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
