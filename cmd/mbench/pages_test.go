package main

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

// The mbench commands of docs/tour.md print what the page says they print, but for
// numbers and the machine. The test's sweeps have one round a scenario.
func TestTour(t *testing.T) {
	const none = "\x00" // no page has it
	n := clitest.Page{
		Root: "../..", File: "docs/tour.md", Program: "mbench", Update: *updateSweep,
		Mask: func(s string) string {
			s = regexp.MustCompile(`(?m)^mbench( --sweep [a-z,]+)?: \d+ of \d+: .*\n|^\d+ of \d+ records have warnings.*\n`).ReplaceAllString(s, "")
			s = regexp.MustCompile(`(?m)^\S+Z; .*; commit .*$`).ReplaceAllString(s, "PROVENANCE")
			return mask(s, harness.Provenance{Host: none, Command: none, Commit: none, Date: none})
		},
		More: func(args []string) []string {
			if slices.Contains(args, "--sweep") {
				return []string{"--reps", "1"}
			}
			return nil
		},
		Main: func(out io.Writer, environ, args []string) {
			cli.Run(context.Background(), "mbench", cli.Streams{Stdout: out, Stderr: out, Environ: environ}, args, run)
		},
	}.Run(t)
	require.GreaterOrEqual(t, n, 4)
}

// What the README shows are command lines that this mbench takes.
func TestReadmeCommands(t *testing.T) {
	for _, file := range []string{"README.md", "docs/gpu-safety.md", "docs/architecture.md", "results/README.md"} {
		calls := clitest.Commands(t, "../..", file, "mbench")
		if file == "README.md" {
			require.Greater(t, len(calls), 8)
		}
		for _, args := range calls {
			// With --help last, all that stands before has been read.
			code, out, errs := mbench(t, append(slices.Clone(args), "--help")...)
			require.Equal(t, harness.ExitHeld, code, "%s: mbench %s: %s", file, strings.Join(args, " "), errs)
			require.Contains(t, out, "usage:")
		}
	}
}
