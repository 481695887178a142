package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

// Every mbench command line of docs/ci.md and docs/ci is one that this mbench takes.
func TestDocumentedCommands(t *testing.T) {
	calls := clitest.DocCalls(t, "../..", "mbench")
	for file, want := range map[string]int{"ci.md": 3, "github-actions-shards.yml": 10, "slurm-array.sh": 17} {
		require.GreaterOrEqual(t, len(calls[file]), want, file)
	}
	for file, list := range calls {
		for _, call := range list {
			// With --help last, all that stands before has been read.
			code, out, errs := mbench(t, append(slices.Clone(call[1:]), "--help")...)
			require.Equal(t, harness.ExitHeld, code, "%s: %s: %s", file, strings.Join(call, " "), errs)
			require.Contains(t, out, "usage:")
		}
	}
}

// A documented part of a sweep has scenarios, whichever part it is.
func TestDocumentedSweeps(t *testing.T) {
	seen := map[string]bool{}
	for file, list := range clitest.DocCalls(t, "../..", "mbench") {
		for _, call := range list {
			i := slices.Index(call, "--format")
			if call[1] != "--sweep" || seen[strings.Join(call[1:i], " ")] {
				continue
			}
			seen[strings.Join(call[1:i], " ")] = true
			code, out, errs := mbench(t, append(slices.Clone(call[1:i]), "--list")...)
			require.Equal(t, harness.ExitHeld, code, "%s: %s: %s", file, strings.Join(call, " "), errs)
			require.NotEmpty(t, out)
		}
	}
	require.Greater(t, len(seen), 8)
}
