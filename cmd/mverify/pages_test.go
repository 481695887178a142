package main

import (
	"context"
	"flag"
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

var updatePages = flag.Bool("update", false, "write the output of the pages' commands again")

// page runs the mverify commands of a page.
func page(t *testing.T, file string, mask func(string) string) int {
	t.Helper()
	return clitest.Page{
		Root: root, File: file, Program: "mverify", Mask: mask, Update: *updatePages,
		Main: func(out io.Writer, environ, args []string) {
			cli.Run(context.Background(), "mverify", cli.Streams{Stdout: out, Stderr: out, Environ: environ}, args, run)
		},
	}.Run(t)
}

// The commands of docs/launch-cases.md print what the page says they print.
func TestLaunchCasesPage(t *testing.T) {
	require.GreaterOrEqual(t, page(t, "docs/launch-cases.md", nil), 7)
}

// Those of docs/tour.md too, but for times, counts of cases, the level of the CPU and the lines of a
// run that takes long.
func TestTour(t *testing.T) {
	n := page(t, "docs/tour.md", func(s string) string {
		s = regexp.MustCompile(`(?m) in [0-9.]+[µm]?s on (\w+ \()(avx2|generic)\)$`).ReplaceAllString(s, " in TIME on ${1}LEVEL)")
		s = regexp.MustCompile(`(?m) in [0-9.]+[µm]?s on `).ReplaceAllString(s, " in TIME on ")
		s = regexp.MustCompile(`(?m)^edges shown \d+|(^|^mverify: )\d+ passed`).ReplaceAllString(s, "COUNT") // suites grow
		return regexp.MustCompile(`(?m)^[a-z,]+: \d+ of \d+: .*\n`).ReplaceAllString(s, "")
	})
	require.GreaterOrEqual(t, n, 6)
}

// What the README shows are command lines that this mverify takes.
func TestReadmeCommands(t *testing.T) {
	for _, file := range []string{"README.md", "docs/gpu-safety.md", "docs/kernel-tests.md", "docs/architecture.md"} {
		calls := clitest.Commands(t, root, file, "mverify")
		if file == "README.md" {
			require.Greater(t, len(calls), 20)
		}
		for _, args := range calls {
			// With --help last, all that stands before has been read.
			code, out, errs := mverify(t, append(slices.Clone(args), "--help")...)
			require.Equal(t, harness.ExitHeld, code, "%s: mverify %s: %s", file, strings.Join(args, " "), errs)
			require.Contains(t, out, "usage:")
			if i := slices.Index(args, "--suite"); i >= 0 {
				_, err := chooseSuites(args[i+1])
				require.NoError(t, err, "%s: mverify %s", file, strings.Join(args, " "))
			}
		}
	}
}
