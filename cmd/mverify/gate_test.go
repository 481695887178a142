package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

// The gate from the command line: record, hold, fail where the file says another
// text, and record that again.
func TestGoldenGate(t *testing.T) {
	dir := t.TempDir()
	file, list := filepath.Join(dir, "golden.json"), filepath.Join(dir, "prompts.txt")
	require.NoError(t, os.WriteFile(list, []byte("In the beginning\r\n\nO Romeo, Romeo!\n"), 0o644))
	gate := func(more ...string) (int, string, string) {
		code, out, errs := mverify(t, append([]string{"--suite", "greedy", "--golden", file, "--filter", ""}, more...)...)
		return code, strings.ReplaceAll(out, dir, "DIR"), strings.ReplaceAll(errs, dir, "DIR")
	}
	code, _, errs := gate()
	require.Equal(t, harness.ExitBadInput, code)
	require.Equal(t, "mverify: --golden: DIR/golden.json: no such file: --update writes it\n", errs)

	code, out, errs := gate("--prompts", list, "--tokens", "6", "--update")
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Contains(t, errs, "mverify: wrote DIR/golden.json: 4 of 4 continuations are new or changed\n")
	require.Contains(t, out, "tokens 24\n4 passed, ")
	code, _, errs = gate("--prompts", list, "--tokens", "6", "--update")
	require.Equal(t, harness.ExitHeld, code)
	require.Contains(t, errs, "DIR/golden.json is as it was: 4 continuations are the same\n")
	code, out, _ = gate("--prompts", list)
	require.Equal(t, harness.ExitHeld, code, out)
	code, _, _ = gate()
	require.Equal(t, harness.ExitHeld, code, "the file has its prompts")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "no temporary file stays")

	// A recorded text that is not what comes out: the fault is seen at its token.
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var golden map[string]any
	require.NoError(t, json.Unmarshal(data, &golden))
	first := golden["runs"].([]any)[0].(map[string]any)["continuations"].([]any)[0].(map[string]any)
	first["tokens"].([]any)[3] = 300
	first["top"].([]any)[3].([]any)[0] = []any{300, 20}
	data, err = json.Marshal(golden)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	code, out, _ = gate()
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "FAIL        greedy/golden model=tiny-qwen2-f16 kv=f16 prompt=0: token 3 is ")
	require.Contains(t, out, "rerun: mverify --suite greedy --filter '^greedy/golden model=tiny-qwen2-f16 kv=f16 prompt=0$' --golden DIR/golden.json\n")
	require.Contains(t, out, "top 5 recorded: ")
	require.Contains(t, out, "3 passed, 1 failed, ")
	code, out, _ = gate("--format", "github")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out, "::error title=greedy/golden model=tiny-qwen2-f16 kv=f16 prompt=0::token 3 is ")
	code, _, errs = gate("--update")
	require.Equal(t, harness.ExitHeld, code)
	require.Contains(t, errs, "wrote DIR/golden.json: 1 of 4 continuations are new or changed\n")
	code, _, _ = gate()
	require.Equal(t, harness.ExitHeld, code)
}

// An interrupted update leaves the file alone.
func TestGoldenInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "golden.json")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, "mverify", cli.Streams{Stdout: &out, Stderr: &errs}, []string{"--suite", "greedy", "--golden", file, "--update"}, run)
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, errs.String(), "golden.json is as it was: not every continuation was made")
	require.NoFileExists(t, file)
}

func TestGoldenUsage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "latin1"), []byte("a\n\xe9\n"), 0o644))
	for args, want := range map[string]string{
		"--suite greedy --update":                                     "--update: it writes the file of --golden: want --golden FILE",
		"--suite greedy --prompts p":                                  "--prompts p: they are continued for --golden: want --golden FILE",
		"--suite greedy --tokens 3":                                   "--tokens 3: it is for --golden: want --golden FILE",
		"--suite ops --golden g":                                      `--golden g: want --suite greedy, not "ops"`,
		"--suite ops,greedy --golden g":                               `--golden g: want --suite greedy, not "ops,greedy"`,
		"--suite greedy --golden g --update --filter x":               "--update: it writes all of the file: want no --filter, --shard, --fail-fast or --list",
		"--suite greedy --golden g --update --shard 1/2":              "--update: it writes all of the file: want no --filter, --shard, --fail-fast or --list",
		"--suite greedy --golden g --tokens -1":                       "--tokens -1: want 1 to 65536",
		"--suite greedy --golden DIR":                                 "--golden: read DIR: is a directory",
		"--suite greedy --golden DIR/empty":                           "--golden: DIR/empty: not a golden file of mverify: EOF",
		"--suite greedy --golden DIR/g --update --prompts DIR/no":     "--prompts: open DIR/no: no such file or directory",
		"--suite greedy --golden DIR/g --update --prompts DIR/empty":  "--prompts: DIR/empty: no prompt in the file",
		"--suite greedy --golden DIR/g --update --prompts DIR/latin1": "--prompts: DIR/latin1:2: want UTF-8",
	} {
		code, stdout, errs := mverify(t, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
		require.Equal(t, harness.ExitBadInput, code, args)
		require.Empty(t, stdout)
		require.Equal(t, "mverify: "+want+"\n", strings.ReplaceAll(errs, dir, "DIR"))
	}
}
