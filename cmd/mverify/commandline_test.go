package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/cmd/internal/clitest"
	"minfer/engine/gguf"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/ops"
)

// mverify runs the command in the process.
func mverify(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(context.Background(), "mverify", cli.Streams{Stdout: &out, Stderr: &errs}, args, run)
	return code, out.String(), errs.String()
}

// Each wrong use is exit 2, nothing on stdout and this one line.
func TestBadUsage(t *testing.T) {
	dir := t.TempDir()
	add := filepath.Join(dir, "add.jsonl")
	require.NoError(t, os.WriteFile(add, []byte(`{"op":"add","d":3,"rows":2}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
	for _, c := range []struct{ args, want string }{
		{"walk", `unknown command "walk": want `},
		{"--suite", "flag needs an argument: --suite"},
		{"--suite ops --tier x", `unknown tier "x": want quick, full or exhaustive`},
		{"--suite ops --filter (", "--filter \"(\": error parsing regexp: missing closing ): `(`"},
		{"--suite ops --shard 0/3", `--shard "0/3": want I/N with 1 <= I <= N <= 65536`},
		{"--suite ops --shard 4/3", `--shard "4/3": want I/N with 1 <= I <= N <= 65536`},
		{"--suite ops --shard 1/99999999999", `--shard "1/99999999999": want I/N with 1 <= I <= N <= 65536`},
		{"--suite ops --shard 1", `--shard "1": want I/N with 1 <= I <= N <= 65536`},
		{"--suite ops --list --format json", `--format "json": --list prints identities, one to a line: want no --format`},
		{"--suite ops --seed -1", `invalid argument "-1" for "--seed" flag: must be a non-negative integer`},
		{"--suite tokenizer --device apple", `device "apple": no Apple GPU here: want cpu or soft`},
		{"--suite tokenizer --device cpu,soft,cpu", `--device "cpu,soft,cpu": cpu is named twice`},
		{"--suite tokenizer --device cpu,", `unknown device "": want cpu, soft, apple or cuda`},
		{"--suite tokenizer --device cpu,apple", `device "apple": no Apple GPU here: want cpu or soft`},
		{"--suite tokenizer --mode strict", `--mode strict: device cpu has no sanitizer: want --device soft`},
		{"--suite tokenizer --device soft --mode x", `--mode: sanitizer mode: found "x", want off, mem, race, strict or chaos`},
		{"--suite dumps --device soft", `--suite dumps: dumps on --device cpu only, not on "soft"`},
		{"--suite ops,ops", `--suite "ops,ops": ops is named twice`},
		{"--suite ops extra", `unexpected argument "extra" (see --help)`},
		{"--suite ops --out DIR/none/x", "--out: open DIR/none/x: no such file or directory"},
		{"--suite ops --out DIR", "--out: open DIR: is a directory"},
		{"--suite ops --model DIR", "gguf: DIR: found a directory, want a regular file"},
		{"--suite ops --model DIR/none", "gguf: open DIR/none: no such file or directory"},
		{"--suite ops --cases DIR/none", "--cases: open DIR/none: no such file or directory"},
		{"--suite ops --cases DIR/empty", "--cases DIR/empty: no case in the file"},
		{"--suite graph --cases " + add, `--cases DIR/add.jsonl: its lines are op cases: want --suite ops, not "graph"`},
		{"--suite all --tier x", `unknown tier "x": want quick, full or exhaustive`},
		{"--suite tokenizer --hf-vocab DIR/none", "--hf-vocab: stat DIR/none/tokenizer.json: no such file or directory"},
		{"--suite ops --llama DIR/none", "llama.cpp: library directory: stat DIR/none: no such file or directory"},
		{"record", "record: --llama DIR is needed: the directory of llama.cpp's shared libraries"},
		{"record --llama DIR --keep -1", "record: --keep -1: want at least 0"},
	} {
		if strings.Contains(c.want, "no Apple GPU here") && clitest.AppleGPU() {
			continue
		}
		code, stdout, errs := mverify(t, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
		require.Equal(t, harness.ExitBadInput, code, "%s: %s", c.args, errs)
		require.Empty(t, stdout, c.args)
		require.Equal(t, 1, strings.Count(errs, "\n"), errs)
		require.True(t, strings.HasPrefix(strings.ReplaceAll(errs, dir, "DIR"), "mverify: "+c.want), "%s: %s", c.args, errs)
	}
}

// Case lines: what is bad input, what no backend can be asked, and what runs.
func TestCaseLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.jsonl")
	judge := func(lines string) (int, string, string) {
		require.NoError(t, os.WriteFile(file, []byte(lines), 0o644))
		code, out, errs := mverify(t, "--suite", "ops", "--cases", file)
		return code, out, strings.ReplaceAll(errs, file, "c.jsonl")
	}
	for line, want := range map[string]string{
		`{"op":"nosuch","d":1}`:                                                "c.jsonl:1: nosuch: unknown op: want one of add, attention, batch_mul_mat, get_rows, kv_store, mul, mul_mat, qk_norm, rms_norm, rope, scale, silu, soft_max, swiglu",
		`{"op":"add\n","d":1,"rows":1}`:                                        `c.jsonl:1: key "op" is "add\n": want the name of an op`,
		`{"op":"add","d":1,"rows":1,"a\nb":1}`:                                 `c.jsonl:1: add: unknown key "a\nb"`,
		`{"op":"add","d":"1\n","rows":1}`:                                      `c.jsonl:1: add: key "d" is "1\n": want a whole number`,
		`{"op":"add","d":1}`:                                                   `c.jsonl:1: add: no key "rows"`,
		`{"op":"add","d":0,"rows":1}`:                                          `c.jsonl:1: add: key "d" is 0: want a whole number from 1 to 1048576`,
		`{"op":"add","d":2.0,"rows":1}`:                                        `c.jsonl:1: add: key "d" is 2.0: want a whole number from 1 to 1048576`,
		`{"op":"add","d":1048576,"rows":16384}`:                                "c.jsonl:1: add: the case has a tensor of 17179869184 elements: want at most 268435456",
		`{"op":"add","d":1,"d":1,"rows":1}`:                                    `c.jsonl:1: key "d" appears twice`,
		`{"op":"add","d":1,"rows":1}}`:                                         "c.jsonl:1: text after the JSON object",
		`{"op":"soft_max","d":8,"rows":1,"scale":1e38}`:                        `c.jsonl:1: soft_max: key "scale" is 1e+38: want a number from -1e30 to 1e30`,
		`{"op":"rms_norm","d":8,"rows":1,"eps":-1}`:                            `c.jsonl:1: rms_norm: key "eps" is -1: want a number of at least 0`,
		`{"op":"mul_mat","type":"q9","m":1,"n":1,"k":256}`:                     `c.jsonl:1: mul_mat: key "type" is "q9": want a weight type (f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K)`,
		`{"op":"mul_mat","type":"f32","m":1048576,"n":1,"k":16384}`:            "c.jsonl:1: mul_mat: the case has a tensor of 17179869184 elements: want at most 268435456",
		`{"op":"mul_mat","type":"f32","m":99999999999999999999,"n":9,"k":256}`: `c.jsonl:1: mul_mat: key "m" is 99999999999999999999: want a whole number from 1 to 1048576`,
		`{"op":"attention","hd":65536,"n_head":65536,"n_head_kv":1,"n_kv":1,"n_tokens":1,"kv_type":"f16"}`:            "c.jsonl:1: attention: the case has a tensor of 4294967296 elements: want at most 268435456",
		`{"op":"attention","hd":64,"n_head":2,"n_head_kv":2,"n_kv":2,"n_tokens":3,"kv_type":"f16"}`:                   `c.jsonl:1: attention: key "n_tokens" is 3: want a whole number from 1 to 2`,
		`{"op":"kv_store","type":"f16","d":128,"table_rows":64,"n_rows":65}`:                                          `c.jsonl:1: kv_store: key "n_rows" is 65: want a whole number from 0 to 64`,
		`{"op":"rope","mode":"neox","hd":8,"n_head":1,"n_tokens":1,"n_dims":7,"pos_below":1,"freq_base":1e4}`:         `c.jsonl:1: rope: key "n_dims" is 7: want an even number`,
		`{"op":"rope","mode":"neox","hd":8,"n_head":1,"n_tokens":1,"n_dims":8,"pos_below":2147483648,"freq_base":10}`: `c.jsonl:1: rope: key "pos_below" is 2147483648: want a whole number from 1 to 16777216`,
	} {
		code, out, errs := judge(line)
		require.Equal(t, harness.ExitBadInput, code, line)
		require.Empty(t, out)
		require.Equal(t, "mverify: "+want+"\n", errs)
	}

	for line, why := range map[string]string{
		`{"op":"attention","hd":64,"n_head":3,"n_head_kv":2,"n_kv":5,"n_tokens":3,"kv_type":"f16"}`:  "n_head is 3: want a multiple of n_head_kv, 2",
		`{"op":"attention","hd":64,"n_head":2,"n_head_kv":2,"n_kv":5,"n_tokens":3,"kv_type":"q8_0"}`: "CPU does not support attention of q8_0",
		`{"op":"kv_store","type":"q8_0","d":128,"table_rows":64,"n_rows":0}`:                         "CPU does not support kv_store of q8_0",
		`{"op":"mul_mat","type":"q4_K","m":16,"n":9,"k":255}`:                                        "a row of 255 elements is not whole blocks of q4_K: want a multiple of 256",
	} {
		code, out, _ := judge(line)
		require.Equal(t, harness.ExitNothing, code, "nothing was judged: %s", line)
		require.Contains(t, out, "UNSUPPORTED ops/")
		require.Contains(t, out, why)
	}

	code, out, _ := judge(`{"op":"kv_store","type":"f16","d":128,"table_rows":64,"n_rows":0}
{"op":"attention","hd":63,"n_head":6,"n_head_kv":2,"n_kv":33,"n_tokens":3,"kv_type":"f16"}

{"op":"mul_mat","type":"Q4_k","m":3,"n":2,"k":512}
{"op":"mul_mat","type":"q4_K","m":3,"n":2,"k":100}`)
	require.Equal(t, harness.ExitHeld, code, out)
	require.Contains(t, out, "3 passed, 0 failed, 1 unsupported, 0 skipped")

	code, _, errs := judge("{\"op\":\"silu\",\"d\":8,\"rows\":1}\n[]\n{\"op\":\"silu\"}\n{\n")
	require.Equal(t, harness.ExitBadInput, code)
	require.Contains(t, errs, "mverify: c.jsonl:2: not a JSON object")
	require.Contains(t, errs, "mverify: c.jsonl:4: not valid JSON")
}

// What --list prints is what runs; shards cut it into parts without overlap; the
// filter of a rerun command selects one case.
func TestSelection(t *testing.T) {
	lines := func(args ...string) []string {
		code, out, errs := mverify(t, args...)
		require.Equal(t, harness.ExitHeld, code, errs)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	all := lines("--suite", "all", "--list")
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "an identity appears twice")
	var union []string
	for _, i := range []string{"1", "2", "3"} {
		union = append(union, lines("--suite", "all", "--list", "--shard", i+"/3")...)
	}
	require.ElementsMatch(t, all, union)

	var f flags
	f.register(cli.Streams{}) // sets the defaults
	cases, err := ops.Suite{}.Cases(&suites.Env{})
	require.NoError(t, err)
	for i, c := range cases {
		if i%25 != 0 {
			continue
		}
		words := unquote(f.rerun(c))
		require.Equal(t, "mverify", words[0])
		require.Equal(t, []string{c.ID.String()}, lines(append(words[1:], "--list")...))
	}

	code, out, errs := mverify(t, "--suite", "ops", "--filter", "no such case")
	require.Equal(t, harness.ExitNothing, code)
	require.Contains(t, out, "0 passed")
	require.Contains(t, errs, "nothing ran")
	code, _, errs = mverify(t, "--suite", "ops", "--shard", "60000/60000", "--list")
	require.Equal(t, harness.ExitNothing, code, errs)
}

// A rerun command carries the settings that the run had.
func TestRerunSettings(t *testing.T) {
	require.Empty(t, settings([]string{"HOME=/root", "MINFER_GEMM=", "MINFER"}))
	require.Equal(t, "MINFER_CPU_LEVEL=avx2 MINFER_LLAMA_LIB='/a b' ",
		settings([]string{"MINFER_CPU_LEVEL=generic", "PATH=/bin", "MINFER_LLAMA_LIB=/a b", "MINFER_CPU_LEVEL=avx2"}))
}

// unquote splits what harness.ShellQuote wrote.
func unquote(command string) []string {
	var words []string
	for _, w := range regexp.MustCompile(`'(?:[^']|'\\'')*'|[^ ]+`).FindAllString(command, -1) {
		words = append(words, strings.ReplaceAll(strings.Trim(w, "'"), `'\''`, "'"))
	}
	return words
}

// Every format is well formed, and the same twice but for times.
func TestFormats(t *testing.T) {
	times := regexp.MustCompile(`"date": ?"[^"]*"|"duration_ns": ?\d+|time="[^"]*"|timestamp="[^"]*"`)
	counts := map[string]int{}
	for _, format := range []string{"text", "json", "jsonl", "junit"} {
		var first string
		for range 2 {
			code, out, errs := mverify(t, "--suite", "ops", "--filter", "rms_norm|q4_K", "--format", format, "-v")
			require.Equal(t, harness.ExitHeld, code, errs)
			out = times.ReplaceAllString(out, "TIME")
			if first == "" {
				first = out
			}
			require.Equal(t, first, out)
		}
		_, raw, _ := mverify(t, "--suite", "ops", "--filter", "rms_norm|q4_K", "--format", format, "-v")
		switch format {
		case "text":
			counts[format] = strings.Count(raw, " ops/")
		case "json":
			var v struct{ Results []any }
			require.NoError(t, json.Unmarshal([]byte(raw), &v))
			counts[format] = len(v.Results)
		case "jsonl":
			for i, line := range strings.Split(strings.TrimSpace(raw), "\n") {
				require.True(t, json.Valid([]byte(line)), line)
				counts[format] = i // the first line is the provenance
			}
		case "junit":
			var v struct {
				Cases []struct {
					Name string `xml:"name,attr"`
				} `xml:"testsuite>testcase"`
			}
			require.NoError(t, xml.Unmarshal([]byte(raw), &v))
			counts[format] = len(v.Cases)
		}
	}
	require.Positive(t, counts["text"])
	for format, n := range counts {
		require.Equal(t, counts["text"], n, format)
	}
}

// The corpus of broken files ends in the reader's own line.
func TestBrokenFiles(t *testing.T) {
	paths, err := filepath.Glob("../../engine/gguf/testdata/broken/*.gguf")
	require.NoError(t, err)
	require.Greater(t, len(paths), 80)
	for _, path := range paths {
		_, want := gguf.Open(path)
		if want == nil {
			continue // the sound first part of a broken pair
		}
		code, out, errs := mverify(t, "--suite", "graph", "--model", path)
		require.Equal(t, harness.ExitBadInput, code, path)
		require.Empty(t, out)
		require.Equal(t, "mverify: "+want.Error()+"\n", errs)
	}
}

// An interrupted run prints what it has, says so, and fails.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	code := cli.Run(ctx, "mverify", cli.Streams{Stdout: &out, Stderr: &errs}, []string{"--suite", "ops", "--filter", "silu"}, run)
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, out.String(), "interrupted: this report is partial")
	require.NotContains(t, errs.String(), "panic")
}
