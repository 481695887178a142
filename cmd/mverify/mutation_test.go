package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/suites/mutation"
)

// The suite mutation has a case for each operator and the tally; all leaves it out.
func TestMutationCases(t *testing.T) {
	code, out, _ := mverify(t, "--suite", "mutation", "--device", "soft", "--list")
	require.Equal(t, 0, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, len(mutation.Operators)+1)
	require.Equal(t, "mutation/drop_barrier", lines[0])
	require.Equal(t, "mutation/families", lines[len(lines)-1])

	code, out, _ = mverify(t, "--suite", "all", "--device", "soft", "--list")
	require.Equal(t, 0, code)
	require.NotContains(t, out, "mutation/")

	code, _, errs := mverify(t, "--suite", "mutation")
	require.Equal(t, harness.ExitBadInput, code)
	require.Equal(t, "mverify: --suite mutation: mutation on a Metal device (--device soft) only, not on \"cpu\"\n", errs)
}
