package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

// Seven shards joined are the unsharded run, case by case, with its exit code.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	code, want, errs := mverify(t, "--suite", "ops", "--filter", "ops/(add|mul) ", "--list")
	require.Equal(t, harness.ExitHeld, code, errs)
	var files []string
	for i := 1; i <= 7; i++ {
		format := []string{"json", "jsonl"}[i%2]
		file := filepath.Join(dir, fmt.Sprintf("%d.%s", i, format))
		mverify(t, "--suite", "ops", "--filter", "ops/(add|mul) ", "--shard", fmt.Sprintf("%d/7", i), "--format=json", "--out", file)
		files = append(files, file)
	}
	code, out, errs := mverify(t, append([]string{"merge", "-v"}, files...)...)
	require.Equal(t, harness.ExitHeld, code, errs)
	cases := map[string]int{}
	for _, line := range strings.Split(out, "\n") {
		if rest, ok := strings.CutPrefix(line, "PASS"); ok {
			id, _, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			cases[id]++
		}
	}
	ids := strings.Split(strings.TrimSpace(want), "\n")
	require.Len(t, cases, len(ids))
	for _, id := range ids {
		require.Equal(t, 1, cases[id], id)
	}

	// A case that failed on one machine fails the whole.
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(data), `"outcome": "pass"`)
	require.NoError(t, os.WriteFile(files[0], []byte(strings.Replace(string(data), `"outcome": "pass"`, `"outcome": "fail"`, 1)), 0o644))
	code, _, _ = mverify(t, append([]string{"merge"}, files...)...)
	require.Equal(t, harness.ExitFailed, code)

	for _, c := range []struct {
		args []string
		want string
	}{
		{files[:6], "shards missing: 7/7 (--force joins them all the same)"},
		{append(files, files[3]), "want each case once"},
		{[]string{"--format", "xml", files[0]}, `unknown format "xml": want one of ` + strings.Join(harness.Formats, ", ")},
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{nil, "0 arguments, want"},
	} {
		code, out, errs := mverify(t, append([]string{"merge"}, c.args...)...)
		require.Equal(t, harness.ExitBadInput, code, errs)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
}
