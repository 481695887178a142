package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/harness"
)

// Each wrong use is exit 2, nothing on stdout and this one line.
func TestBadUsage(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long.txt")
	require.NoError(t, os.WriteFile(long, []byte(strings.Repeat("word ", 5000)), 0o644))
	endless := filepath.Join(dir, "endless")
	f, err := os.Create(endless)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxPrompt+1)) // no block of it is written
	require.NoError(t, f.Close())
	out := filepath.Join(dir, "out.gguf")
	model := filepath.Join(dir, "base.gguf")
	code, _, errs := mbench(t, "synth", "--size", "tiny", "--type", "f16", "-o", model)
	require.Equal(t, harness.ExitHeld, code, errs)

	for _, c := range []struct{ args, want string }{
		{"", "a command is needed: run, peers, synth, quantize, compare, merge, report or results, or --sweep NAME (see --help)"},
		{"walk", `unknown command "walk": want run, peers, synth, quantize, compare, merge, report or results, or --sweep NAME (see --help)`},
		{"run", "--prompt TEXT is needed"},
		{"run --prompt A B", `unexpected argument "B" (see --help)`},
		{"run --prompt A --wrong", "unknown flag: --wrong"},
		{"run --prompt A -n -5", "-n -5: want a number of tokens, or -1 for as many as the context allows"},
		{"run --prompt A -n 99999999999999999999", `invalid argument "99999999999999999999" for "-n, --n" flag: must be an integer`},
		{"run --prompt A --ctx 1e9", `invalid argument "1e9" for "--ctx" flag: must be an integer`},
		{"run --prompt A --ctx -1", "session: a context of -1 tokens, want 1 to 1073741824"},
		{"run --prompt A --threads 100000", "cpu: 100000 threads: want 1 to 1024, or 0 for one per CPU"},
		{"run --prompt A --threads -1", "cpu: -1 threads: want 1 to 1024, or 0 for one per CPU"},
		{"run --prompt A --batch -1", "session: batches of -1 tokens, want at least 1"},
		{"run --prompt A --device tpu", `unknown device "tpu": want cpu, soft, apple or cuda`},
		{"run --prompt A --cache-type q5", `--cache-type "q5": want f16, f32 or q8_0`},
		{"run --prompt A --temp NaN", "sampler: temperature is NaN, want a finite number of at least 0"},
		{"run --prompt A --top-p 2", "sampler: top-p is 2, want 0 to 1"},
		{"run --prompt A --prompt-file " + long, "--prompt and --prompt-file exclude each other"},
		{"run --prompt-file DIR", "--prompt-file: read DIR: is a directory"},
		{"run --prompt-file DIR/none", "--prompt-file: open DIR/none: no such file or directory"},
		{"run --prompt-file " + endless, "--prompt-file: DIR/endless: more than 64 MiB"},
		{"run --ctx 100 --prompt-file " + long, "the prompt has 5002 tokens: the context of 100 tokens has room for 100"},
		{"run --prompt A --model DIR", "gguf: DIR: found a directory, want a regular file"},
		{"run --prompt A --model DIR/none", "gguf: open DIR/none: no such file or directory"},
		{"peers", "peers: --llama DIR is needed: the directory of llama.cpp's shared libraries"},
		{"peers --llama DIR --reps 0", "peers: rounds 0: want at least 1"},
		{"peers --llama DIR --threads 1,-1", "peers: threads -1: want at least 1"},
		{"peers --llama DIR --pp 0 --depth -1", "peers: --pp 0 --depth -1: want a prefill or a decode"},
		{"peers --llama DIR --format xml", `unknown format "xml": want table, markdown or json`},
		{"peers --show --records DIR", `--records "DIR": no peers-*.json there to --show`},
		{"synth", "synth: -o FILE is needed"},
		{"synth -o " + out + " --layers 100000000", "synth: 100000000 layers, want 1 to 1000, or 0 for the size's own number"},
		{"synth -o " + out + " --type q3", `unknown quantisation "q3": want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K_S, q4_K_M, q5_K_S, q5_K_M, q6_K, q4_K, q5_K`},
		{"synth -o " + out + " --max-part 0", `--max-part "0": want a size such as 500M or 2G`},
		{"quantize " + model + " " + out, "2 arguments, want 3 (see --help)"},
		{"quantize " + model + " " + out + " q4_0 --threads -1", "quantize: --threads -1: want at least 1, or 0 for one per core"},
		{"quantize " + model + " " + model + " q4_0", "DIR/base.gguf: the output is the input file: want another path"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))
		if strings.HasPrefix(c.args, "run ") && !strings.Contains(c.args, "--device") {
			args = append(args, "--device", "cpu") // a GPU that is chosen is told before the fault
		}
		code, stdout, errs := mbench(t, args...)
		require.Equal(t, harness.ExitBadInput, code, "%s: %s", c.args, errs)
		require.Empty(t, stdout, c.args)
		require.Equal(t, "mbench: "+c.want+"\n", strings.ReplaceAll(errs, dir, "DIR"), c.args)
	}
	require.NoFileExists(t, out)
}

// A context whose cache no machine holds is refused before it is made.
func TestHugeContext(t *testing.T) {
	if cli.Memory() == 0 {
		t.Skip("the memory of this system is not known")
	}
	code, stdout, errs := mbench(t, "run", "--device", "cpu", "--prompt", "A", "--ctx", "1000000000")
	require.Equal(t, harness.ExitBadInput, code)
	require.Empty(t, stdout)
	require.Regexp(t, `^mbench: a context of 1000000000 tokens needs \d+ MiB of KV cache, this machine has \d+ MiB: want a smaller --ctx\n$`, errs)
}

func TestBadSettings(t *testing.T) {
	for entry, want := range map[string]string{
		"MINFER_NOPE=1":          "unknown setting MINFER_NOPE: did you mean MINFER_GEMM?",
		"MINFER_GEMM=2":          "MINFER_GEMM=2: want 0 or 1",
		"MINFER_CACHE_TYPE=q8_0": "cache type q8_0: CPU attends over f16 and f32 caches only",
		"MINFER_CPU_LEVEL=sse":   "MINFER_CPU_LEVEL=sse: want generic, avx2 or avx512",
		"MINFER_DISABLE_MPS=yes": "MINFER_DISABLE_MPS=yes: want 0 or 1",
		"MINFER_ATTN_CHUNKS=17":  "MINFER_ATTN_CHUNKS=17: want 1 to 16",
	} {
		var errs strings.Builder
		s := cli.Streams{Stdout: io.Discard, Stderr: &errs, Environ: []string{entry}}
		code := cli.Run(context.Background(), "mbench", s, []string{"run", "--device", "cpu", "--prompt", "A", "-n", "1"}, run)
		require.Equal(t, harness.ExitBadInput, code, entry)
		require.Equal(t, "mbench: "+want+"\n", errs.String())
	}
}

// An interrupt ends every command: exit 1, one line, and no half-written file.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"run", "--prompt", "A"},
		{"synth", "--size", "tiny", "-o", filepath.Join(dir, "x.gguf")},
	} {
		var out, errs strings.Builder
		code := cli.Run(ctx, "mbench", cli.Streams{Stdout: &out, Stderr: &errs}, args, run)
		require.Equal(t, harness.ExitFailed, code, "%v: %s", args, errs.String())
		require.True(t, strings.HasSuffix(errs.String(), "mbench: interrupted\n"), errs.String())
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// fullDisk is an output that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Output that was lost is not success.
func TestLostOutput(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"run", "--prompt", "A", "-n", "1"}} {
		var errs strings.Builder
		code := cli.Run(context.Background(), "mbench", cli.Streams{Stdout: fullDisk{}, Stderr: &errs}, args, run)
		require.Equal(t, harness.ExitBadInput, code)
		require.True(t, strings.HasSuffix(errs.String(), "mbench: standard output: no space left\n"), errs.String())
	}
}

// Without a token to generate nothing is evaluated, so there is no rate.
func TestNothingGenerated(t *testing.T) {
	code, out, errs := mbench(t, "run", "--prompt", "First", "-n", "0")
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Equal(t, "First\n", out)
	require.NotContains(t, errs, "tokens/s")
}

// The same command gives the same text, and text that is not UTF-8 is a prompt
// like any other.
func TestRepeats(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--prompt", "First", "-n", "12"},
		{"run", "--prompt", "First", "-n", "12", "--temp", "0.8", "--seed", "7", "--threads", "2"},
		{"run", "--prompt", "\xff\xfe abc", "-n", "4"},
		{"run", "--prompt", " ", "-n", "1", "--ctx", "1"},
	} {
		code, first, errs := mbench(t, args...)
		require.Equal(t, harness.ExitHeld, code, errs)
		require.True(t, strings.HasPrefix(first, args[2]))
		require.Greater(t, len(first), len(args[2])+1)
		_, second, _ := mbench(t, args...)
		require.Equal(t, first, second)
	}
}
