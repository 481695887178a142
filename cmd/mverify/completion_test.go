package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

// bash offers commands, each one's flags, and values, also after a comma; nothing
// that mverify does not take.
func TestCompletion(t *testing.T) {
	code, script, errs := mverify(t, "completion", "bash")
	require.Equal(t, harness.ExitHeld, code, errs)
	offers := func(words ...string) []string {
		return clitest.Complete(t, script, append([]string{"mverify"}, words...)...)
	}
	require.Equal(t, []string{"case", "compile", "completion"}, offers("c"))
	require.Equal(t, []string{"--tier", "--tokens"}, offers("--suite", "ops", "--t"))
	require.Equal(t, []string{"--min-share", "--metal-version"}, offers("compile", "--m"))
	require.Equal(t, []string{"quick"}, offers("--tier", "q"))
	require.Equal(t, []string{"ops,kernels", "ops,kv"}, offers("--suite", "ops,k"))
	require.Empty(t, offers("--tier", "full,q"))
	require.Empty(t, offers("record", "--suite-"))
	require.Empty(t, offers("case", "m"), "files are bash's own to complete")
	all := offers("--")
	set := (&flags{}).register(cli.Streams{})
	require.NotNil(t, set.Lookup("suite"))
	for _, word := range all {
		require.True(t, word == "--help" || set.Lookup(word[2:]) != nil, word)
	}
	require.True(t, slices.Contains(all, "--suite"))

	code, script, errs = mverify(t, "completion", "zsh")
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Contains(t, script, "'--tier[how much - quick, full or exhaustive]:tier:(quick full exhaustive)'")
	require.Contains(t, script, ":suite:_sequence compadd - all kernels ops ")
	clitest.CheckZsh(t, script)

	for args, want := range map[string]string{"fish": "completion fish: want bash or zsh", "": "completion : want bash or zsh"} {
		_, err := completion(t.Context(), cli.Streams{}, slices.DeleteFunc([]string{args}, func(s string) bool { return s == "" }))
		require.EqualError(t, err, want)
	}
}
