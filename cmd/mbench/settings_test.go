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
			code := cli.Run(context.Background(), "mbench", s, []string{"run", "--prompt", "A", "-n", "1"}, run)
			require.Equal(t, harness.ExitBadInput, code, "%s=%s", v.Name, value)
			require.True(t, strings.HasPrefix(errs.String(), "mbench: "+v.Name+"="), errs.String())
			require.Contains(t, errs.String(), v.Values[0])
			require.Equal(t, 1, strings.Count(errs.String(), "\n"), errs.String())
		}
	}
	require.Greater(t, tried, 12)
}
