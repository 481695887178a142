package clitest

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

// Program is a program's entry, as main calls it.
type Program func(ctx context.Context, s cli.Streams, args []string) (int, error)

// NonsenseSettings checks that every setting with a list of values refuses another
// one, in a command that a program would otherwise run: exit 2, and one line that has
// the name, the value and what is allowed.
func NonsenseSettings(t *testing.T, program string, run Program, args ...string) {
	t.Helper()
	tried := 0
	for _, v := range lever.All {
		if v.Values == nil {
			continue
		}
		tried++
		for _, value := range []string{"nonsense", "-1", " 1", "2147483648"} {
			var errs strings.Builder
			s := cli.Streams{Stdout: io.Discard, Stderr: &errs, Environ: []string{v.Name + "=" + value}}
			code := cli.Run(context.Background(), program, s, args, run)
			require.Equal(t, harness.ExitBadInput, code, "%s=%s", v.Name, value)
			require.True(t, strings.HasPrefix(errs.String(), program+": "+v.Name+"="), errs.String())
			require.Contains(t, errs.String(), v.Values[0])
			require.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
		}
	}
	require.Greater(t, tried, 12)
}

// AppleGPU reports whether a Mac's GPU is here: where it is, it is the device that
// some commands choose for themselves, and asking for it is no error.
func AppleGPU() bool { return cli.GPU(lever.Default()) != "" }
