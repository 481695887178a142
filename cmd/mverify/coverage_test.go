package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal"
)

// Every entry of the dispatch table is covered by exactly one suite, and every op
// that a suite claims exists or could: a new kernel without a suite is a failure.
func TestEveryEntryHasASuite(t *testing.T) {
	owners := map[string][]string{}
	for _, s := range allSuites {
		if c, ok := s.(interface{ Ops() []string }); ok {
			for _, op := range c.Ops() {
				owners[op] = append(owners[op], s.Name())
			}
		}
	}
	for _, e := range metal.Table {
		require.Len(t, owners[e.Op], 1, "%s is covered by %v, want one suite", e.ID(), owners[e.Op])
	}
}

func TestMetalSuitesOnCPU(t *testing.T) {
	code, out, errs := mverify(t, "--suite", "kv", "--device", "cpu")
	require.Equal(t, 2, code)
	require.Empty(t, out)
	require.Contains(t, errs, `--suite kv: kv on a Metal device (--device soft) only, not on "cpu"`)
}
