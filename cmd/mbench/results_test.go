package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

const (
	resultsDir   = "../../results"
	recordsDir   = resultsDir + "/records"
	itemsFile    = resultsDir + "/items.json"
	resultsFile  = resultsDir + "/METAL_OPTIMIZATIONS.md"
	smallResults = 8 << 20 // of all records together
)

// The committed page is what the committed records make.
func TestResultsAreCurrent(t *testing.T) {
	want, err := resultsPage(recordsDir, itemsFile)
	require.NoError(t, err)
	have, err := os.ReadFile(resultsFile)
	require.NoError(t, err)
	if string(want) != string(have) {
		t.Fatal("results/METAL_OPTIMIZATIONS.md is not what its records make: run mbench results")
	}
	code, _, errs := mbench(t, "results", "--check", "--records", recordsDir, "--items", itemsFile, "-o", resultsFile)
	require.Equal(t, harness.ExitHeld, code, errs)

	// A page that somebody edited is noticed, and written anew.
	edited := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(edited, append(have, '!'), 0o644))
	args := []string{"results", "--records", recordsDir, "--items", itemsFile, "-o", edited}
	code, _, errs = mbench(t, append(args, "--check")...)
	require.Equal(t, harness.ExitFailed, code)
	require.Equal(t, "mbench: "+edited+" is not what the records make: run mbench results\n", errs)
	code, _, errs = mbench(t, args...)
	require.Equal(t, harness.ExitHeld, code, errs)
	written, err := os.ReadFile(edited)
	require.NoError(t, err)
	require.Equal(t, string(have), string(written))
}

// The committed records are whole: where they come from, raw samples, outputs that
// held, and texts.
func TestCommittedRecords(t *testing.T) {
	files, err := filepath.Glob(recordsDir + "/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	size := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		size += info.Size()
		records, err := readRecords(file)
		require.NoError(t, err)
		for _, r := range records {
			p := r.Provenance
			require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, p.Date, file)
			require.Regexp(t, "^[0-9a-f]{40}$", p.Commit, "%s: recorded by a build of changed sources", file)
			for _, s := range []string{p.Command, p.Host, p.Device} {
				require.NotEmpty(t, s, file)
			}
			for _, m := range r.Sides {
				require.NotEmpty(t, m.Seconds, r.Key())
				mid, _, _ := harness.MedianInterval(m.Seconds, 0.95)
				require.InEpsilon(t, mid, m.Median, 1e-9, r.Key())
				if m.Check != nil {
					require.True(t, m.Check.OK(), r.Key())
				}
			}
			if r.Lever == "MINFER_CACHE_TYPE" && r.SameText() == "no" {
				// Another type rounds what is stored: with random weights that decides tokens.
				require.Contains(t, strings.Join(r.Warnings, "\n"), "the greedy texts of the sides part at token", r.Key())
			} else {
				require.NotEqual(t, "no", r.SameText(), r.Key())
			}
			if r.Model != nil {
				require.Regexp(t, "^[0-9a-f]{64}$", r.Model.SHA256, r.Key())
			}
		}
	}
	require.Less(t, size, int64(smallResults))
}
