package clitest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Complete gives what bash offers, with a completion script, for the last of the
// words of a command line.
func Complete(t testing.TB, script string, words ...string) []string {
	t.Helper()
	cmd := exec.Command("bash", "-c", script+`
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_$1
printf '%s\n' "${COMPREPLY[@]}"`, "bash")
	cmd.Args = append(cmd.Args, words...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.Fields(string(out))
}

// CheckZsh has zsh parse a completion script, where there is a zsh.
func CheckZsh(t testing.TB, script string) {
	t.Helper()
	path, err := exec.LookPath("zsh")
	if err != nil {
		t.Log("NOT RUN: the completion script in zsh: there is none")
		return
	}
	cmd := exec.Command(path, "-f", "-n")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
