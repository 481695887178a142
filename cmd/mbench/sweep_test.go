package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/harness"
)

var updateSweep = flag.Bool("update", false, "write the golden files of sweeps again")

// mask leaves a format's shape: numbers, times and what follows from them are gone.
func mask(s string, p harness.Provenance) string {
	s = strings.NewReplacer(p.Host, "HOST", p.Command, "COMMAND", strings.ReplaceAll(p.Command, "'", "''"), "COMMAND", p.Commit, "COMMIT", p.Date, "DATE").Replace(s)
	for _, r := range []struct{ old, new string }{
		{`[0-9a-f]{64}`, "SHA256"},
		{`, no difference shown`, ""},
		{`([(',])(read|multiply_add)([)',])`, "${1}LIMIT$3"},
		{`(^|[^A-Za-z0-9_-])[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?`, "${1}N"},
		{`N [mµn]?s\b`, "N s"},
		{`N [kMGT]?(madd/s|B/s|/s)`, "N $1"},
		{`─+`, "─"},
		{` +`, " "},
		{`N rounds are too few for an interval of N %: it is their range[^'",\n]*`, "WARNINGS"},
	} {
		s = regexp.MustCompile(`(?m)`+r.old).ReplaceAllString(s, r.new)
	}
	return s
}

// sweep runs `mbench --sweep` on tiny settings, one round a scenario.
func sweep(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return mbench(t, append([]string{"--reps", "1", "--threads", "1", "--sweep"}, args...)...)
}

func goldenSweep(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateSweep {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, path)
}

// keys lists the paths of a JSON value, each once, sorted, with the kind of what is
// there.
func keys(v any) []string {
	found := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case map[string]any:
			for k, e := range x {
				walk(path+"."+k, e)
			}
		case []any:
			for _, e := range x {
				walk(path+"[]", e)
			}
		default:
			found[fmt.Sprintf("%s %T", path, v)] = true
		}
	}
	walk("", v)
	var all []string
	for k := range found {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// Two levers of a whole model, in every format: the text of each is held against a
// golden file, with its numbers masked.
func TestSweepFormats(t *testing.T) {
	dir := t.TempDir()
	records := filepath.Join(dir, "records.json")
	code, out, errs := sweep(t, "levers", "--device", "soft", "--filter", "RMS_256|ATTN_CHUNKS", "--tg", "1", "--kv", "40", "--format", "json", "--out", records)
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Empty(t, out, "the records are in the file")
	require.Regexp(t, `^mbench: 2 scenarios\n(mbench --sweep [^\n]+\n)*mbench: 2 measured, 0 left out, 0 did not hold in [0-9.]+m?s\n$`, errs)
	data, err := os.ReadFile(records)
	require.NoError(t, err)
	var raw any
	require.NoError(t, json.Unmarshal(data, &raw))
	var shape []string
	for _, k := range keys(raw) {
		if !strings.Contains(k, "warnings") {
			shape = append(shape, k)
		}
	}
	goldenSweep(t, "sweep.json.keys", strings.Join(shape, "\n")+"\n")

	list, err := harness.ReadRecords(records, data)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, r := range list {
		require.Equal(t, "mbench --reps 1 --threads 1 --sweep levers --device soft --filter 'RMS_256|ATTN_CHUNKS' --tg 1 --kv 40 --format json --out "+harness.ShellQuote(records), r.Provenance.Command)
		require.Equal(t, r.Sides[0].Greedy, r.Sides[1].Greedy)
		require.Equal(t, "tiny-qwen2-f16", r.Model.Name)
		require.Contains(t, strings.Join(r.Warnings, "\n"), "1 rounds are too few for an interval of 95 %")
	}
	require.Equal(t, list[1].Sides[0].Pipelines, list[1].Sides[1].Pipelines, "chunks are the same kernels")
	require.NotEqual(t, list[1].Sides[0].Counters, list[1].Sides[1].Counters)

	for _, format := range []string{"md", "csv", "sql", "benchfmt"} {
		var text bytes.Buffer
		require.NoError(t, harness.WriteRecords(&text, format, list))
		goldenSweep(t, "sweep."+format, mask(text.String(), list[0].Provenance))
	}
	var table bytes.Buffer
	require.NoError(t, sweepTable(&table, list))
	goldenSweep(t, "sweep.table", mask(table.String(), list[0].Provenance))
}

// On the CPU, straight to stdout.
func TestSweepCPU(t *testing.T) {
	for _, format := range append([]string{"table"}, harness.RecordFormats...) {
		code, out, errs := sweep(t, "rmsnorm", "--device", "cpu", "--filter", "d=256 rows=1", "--pp", "1", "--format", format)
		require.Equal(t, harness.ExitHeld, code, errs)
		require.NotEmpty(t, out)
		if format == "jsonl" {
			require.Equal(t, 1, strings.Count(out, "\n"))
		}
		if format == "table" {
			require.Contains(t, out, "limit on cpu (")
			require.Contains(t, out, "rms_norm")
		}
	}
}

// Scenarios of two devices, listed; the shards of the list are the list.
func TestSweepList(t *testing.T) {
	args := []string{"kv,matmul", "--device", "cpu,soft", "--types", "Q4_0,f16", "--pp", "2-16*4", "--kv", "64", "--list"}
	code, out, errs := sweep(t, args...)
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Empty(t, errs)
	whole := strings.Split(strings.TrimSpace(out), "\n")
	require.Contains(t, whole, "matmul/mul_mat type=q4_0 m=256 n=8 k=256 device=cpu")
	require.Contains(t, whole, "matmul/mul_mat type=f16 m=4096 n=2 k=256 lever=MINFER_GEMM values=1|0 device=soft")
	var parts []string
	for i := 1; i <= 7; i++ {
		code, out, errs := sweep(t, append(args, "--shard", fmt.Sprintf("%d/7", i))...)
		require.Equal(t, harness.ExitHeld, code, errs)
		parts = append(parts, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	require.ElementsMatch(t, whole, parts)

	code, out, errs = sweep(t, "weights", "--device", "cpu")
	require.Equal(t, harness.ExitNothing, code)
	require.Empty(t, out)
	require.Equal(t, "mbench: no scenario was selected: nothing ran\n", errs)
}

// What the device refuses is left out, and said; of nothing else, nothing ran.
func TestSweepRefused(t *testing.T) {
	code, out, errs := sweep(t, "attention", "--device", "cpu", "--cache-types", "q8_0", "--kv", "8", "--pp", "2", "--filter", "hd=64")
	require.Equal(t, harness.ExitNothing, code)
	require.Empty(t, out)
	require.Contains(t, errs, "mbench: left out: attention/attention hd=64 n_head=4 n_head_kv=2 n_kv=8 n_tokens=1 kv_type=q8_0 device=cpu: unsupported: CPU has no attention of q8_0\n")
	require.Contains(t, errs, "mbench: 0 measured, 2 left out, 0 did not hold in ")
}

// Without --device a Mac's GPU is measured, else the software device, and it is said.
func TestSweepDefaultDevice(t *testing.T) {
	code, out, errs := sweep(t, "rmsnorm", "--list")
	require.Equal(t, harness.ExitHeld, code)
	if clitest.AppleGPU() {
		require.Contains(t, out, "device=apple")
		require.Empty(t, errs)
		return
	}
	require.Contains(t, out, "device=soft")
	require.Equal(t, "mbench: no GPU here: the software Metal device is measured\n", errs)
}

func TestSweepBadUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"--sweep nope", `--sweep "nope": want one or more of attention, matmul, rmsnorm, kv, fusion, weights, levers, prefill, decode, or all`},
		{"--sweep kv,kv", `--sweep "kv,kv": kv is named twice`},
		{"--sweep kv more", `unexpected argument "more" (see --help)`},
		{"--pp 3", "a command is needed: run, peers, synth, quantize, compare, merge, report or results, or --sweep NAME (see --help)"},
		{"--sweep kv --device tpu", `unknown device "tpu": want cpu, soft, apple or cuda`},
		{"--sweep kv --device soft,apple", `device "apple": no Apple GPU here: want cpu or soft`},
		{"--sweep kv --device cpu,cpu", `--device "cpu,cpu": cpu is named twice`},
		{"--sweep kv --pp 0", `--pp "0": 0: want 1 to 1048576`},
		{"--sweep kv --tg x", `--tg "x": "x": want numbers and ranges such as 1,8,64 or 1-4 or 128-512*2`},
		{"--sweep kv --kv 9-1", `--kv "9-1": "9-1": the range ends below its start`},
		{"--sweep kv --types q3", `--types "q3": want one or more of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K_S, q4_K_M, q5_K_S, q5_K_M, q6_K, q4_K, q5_K`},
		{"--sweep matmul --types q4_K_M", `sweep matmul: --types "q4_K_M": a single op takes one type of weights such as q4_0, no mix`},
		{"--sweep kv --cache-types q4_0", `--cache-types "q4_0": want one or more of f32, f16, q8_0`},
		{"--sweep kv --reps -1", "--reps -1: want a number of rounds, or 0 for as many as the interval needs"},
		{"--sweep kv --rounds -1", "--reps -1: want a number of rounds, or 0 for as many as the interval needs"},
		{"--sweep kv --budget -1s", "--budget -1s: want more than 0"},
		{"--sweep kv --threads -1", "--threads -1: want at least 1, or 0 for one per core"},
		{"--sweep kv --threads 1025", "--threads 1025: cpu: 1025 threads: want 1 to 1024, or 0 for one per CPU"},
		{"--sweep kv --out DIR", "--out: open DIR: is a directory"},
		{"--sweep kv --out DIR/none/x", "--out: open DIR/none/x: no such file or directory"},
		{"--sweep kv --gpu voodoo", `--gpu: unknown GPU "voodoo": want one of m1, m1-pro, m1-max, m2, m2-max, m3, m3-max, m4, m4-pro, m4-max, l4, rtx-4090, a100, h100, h200`},
		{"--sweep kv --filter [", "--filter \"[\": error parsing regexp: missing closing ]: `[`"},
		{"--sweep kv --shard 3/2", `--shard "3/2": want I/N with 1 <= I <= N <= 65536`},
		{"--sweep kv --format yaml", "unknown format \"yaml\": want one of table, md, csv, json, jsonl, sql, benchfmt"},
		{"--sweep kv --model DIR/none", "sweep kv: gguf: open DIR/none: no such file or directory"},
		{"--sweep rmsnorm --device cpu --list --out DIR/no/file", "--out: open DIR/no/file: no such file or directory"},
	} {
		if strings.Contains(c.want, "no Apple GPU here") && clitest.AppleGPU() {
			continue
		}
		code, stdout, errs := mbench(t, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
		errs = strings.TrimPrefix(errs, "mbench: no GPU here: the software Metal device is measured\n")
		require.Equal(t, harness.ExitBadInput, code, "%s: %s", c.args, errs)
		require.Empty(t, stdout, c.args)
		require.Equal(t, "mbench: "+c.want+"\n", strings.ReplaceAll(errs, dir, "DIR"), c.args)
	}
	for entry, want := range map[string]string{
		"MINFER_GEMM=2":   "MINFER_GEMM=2: want 0 or 1",
		"MINFER_TRACE=/x": "MINFER_TRACE=/x: a sweep writes no node values: unset it, or see mbench run",
	} {
		var errs strings.Builder
		s := cli.Streams{Stdout: &bytes.Buffer{}, Stderr: &errs, Environ: []string{entry}}
		require.Equal(t, harness.ExitBadInput, cli.Run(context.Background(), "mbench", s, []string{"--sweep", "kv"}, run))
		require.Equal(t, "mbench: "+want+"\n", errs.String())
	}
}

// cancelled ends the context when a text is written: an interrupt in the middle.
type cancelled struct {
	bytes.Buffer
	at     string
	cancel func()
}

func (c *cancelled) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if strings.Contains(c.String(), c.at) {
		c.cancel()
	}
	return n, err
}

// An interrupt gives the records so far and exit 1.
func TestSweepInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	errs := &cancelled{at: "left out", cancel: cancel}
	var out bytes.Buffer
	// The scenario between the measured ones is refused, whose line is the sign.
	args := []string{"--sweep", "rmsnorm,attention,decode", "--device", "cpu", "--reps", "1", "--pp", "1", "--cache-types", "q8_0", "--kv", "8", "--filter", "d=256|hd=64|tg"}
	code := cli.Run(ctx, "mbench", cli.Streams{Stdout: &out, Stderr: errs}, args, run)
	require.Equal(t, harness.ExitFailed, code, errs.String())
	require.True(t, strings.HasSuffix(errs.String(), "mbench: interrupted\n"), errs.String())
	require.Contains(t, out.String(), "rms_norm")
	require.NotContains(t, out.String(), "decode")
}

// MINFER_DISABLE_MPS leaves the CPU, and says so.
func TestSweepDisabledMPS(t *testing.T) {
	var out, errs strings.Builder
	s := cli.Streams{Stdout: &out, Stderr: &errs, Environ: []string{"MINFER_DISABLE_MPS=1"}}
	code := cli.Run(context.Background(), "mbench", s, []string{"--sweep", "rmsnorm", "--device", "soft", "--list"}, run)
	require.Equal(t, harness.ExitHeld, code, errs.String())
	require.Equal(t, "MPS: disabled by MINFER_DISABLE_MPS\n", errs.String())
	require.NotContains(t, out.String(), "device=soft")
}
