package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

const gpuRecord = "../../results/peers/peers-m05-cuda.json"

// shown is what --show says of a committed record with some of its fields changed.
func shown(t *testing.T, file string, change func(rec map[string]any)) (code int, out, errs string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var rec map[string]any
	require.NoError(t, json.Unmarshal(data, &rec))
	change(rec)
	data, err = json.Marshal(rec)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "peers-a.json"), data, 0o644))
	return mbench(t, "peers", "--show", "--records", dir)
}

// What is no record is bad input, in one line.
func TestPeersShowsNoBadRecord(t *testing.T) {
	held := func(rec map[string]any, i int) map[string]any { return rec["held"].([]any)[i].(map[string]any) }
	row := func(rec map[string]any, i int) map[string]any { return rec["rows"].([]any)[i].(map[string]any) }
	for want, change := range map[string]func(rec map[string]any){
		"held[0] (minfer, decode) has no check":                                  func(rec map[string]any) { held(rec, 0)["check"] = nil },
		"held[5] (llama.cpp, prefill) has no check":                              func(rec map[string]any) { delete(held(rec, 5), "check") },
		"held[1] (minfer, prefill) has a limit of -1":                            func(rec map[string]any) { held(rec, 1)["nmse_limit"] = -1 },
		"threads 0, which a GPU has, and nothing held against the float64 model": func(rec map[string]any) { rec["held"] = nil },
		"a record without a check":                                               func(rec map[string]any) { rec["check"] = nil },
		"a check of 0 logits":                                                    func(rec map[string]any) { rec["check"].(map[string]any)["n"] = 0 },
		"agree is false, by the numbers of its checks it is true":                func(rec map[string]any) { rec["agree"] = false },
		"agree is true, by the numbers of its checks it is false":                func(rec map[string]any) { rec["wrong"] = []string{"the cache of a decode is not the model's"} },
		"threads -1":            func(rec map[string]any) { rec["threads"] = -1 },
		"a record without rows": func(rec map[string]any) { rec["rows"] = nil },
		`date "yesterday"`:      func(rec map[string]any) { rec["provenance"].(map[string]any)["date"] = "yesterday" },
		"prefill 512, minfer: 512 tokens in 0 samples": func(rec map[string]any) { row(rec, 3)["samples_ns"] = nil },
		"a sample of 0s":           func(rec map[string]any) { row(rec, 3)["samples_ns"] = []int{0} },
		"30000 tokens a second":    func(rec map[string]any) { row(rec, 3)["tokens_per_second"] = 30000 },
		"a rate or share of -0.5":  func(rec map[string]any) { row(rec, 0)["share_of_read_rate"] = -0.5 },
		`unknown field "surprise"`: func(rec map[string]any) { rec["surprise"] = 1 },
	} {
		code, out, errs := shown(t, gpuRecord, change)
		require.Equal(t, harness.ExitBadInput, code, want)
		require.Empty(t, out)
		require.Contains(t, errs, want)
		require.Contains(t, errs, "peers-a.json: ")
		require.NotContains(t, errs, "panic")
	}
}

// What did not hold stands below the table, and only bits are called equal.
func TestPeersShowsWhatIsWrong(t *testing.T) {
	code, out, errs := shown(t, gpuRecord, func(map[string]any) {})
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Contains(t, out, "minfer, decode: 2430976 values, 0.30 of the bound\n")
	require.NotContains(t, out, "bits")
	require.NotContains(t, out, "do not count")

	_, out, _ = shown(t, gpuRecord, func(rec map[string]any) {
		rec["wrong"], rec["agree"] = []string{"the cache of a decode is not the model's"}, false
	})
	require.Contains(t, out, "the rates do not count: the cache of a decode is not the model's\n")

	file := "../../results/peers/peers-qwen2-0.5b-q4_0-2t-zen4.json"
	_, out, _ = shown(t, file, func(map[string]any) {})
	require.Contains(t, out, "logits against ggml-cpu-haswell, no repacking: 2430976 values, all bits equal\n")
	_, out, _ = shown(t, file, func(rec map[string]any) {
		rec["agree"] = false
		c := rec["check"].(map[string]any)
		c["differing"], c["index"], c["got"], c["want"] = 3, 17, 1, 1.0000001
	})
	require.Contains(t, out, "3 of 2430976 values differ, first at [17]")
	require.Contains(t, out, "the rates do not count\n")
	require.NotContains(t, out, "bits equal")
	// Within tolerances is not equal.
	_, out, _ = shown(t, file, func(rec map[string]any) {
		c := rec["check"].(map[string]any)
		c["each"], c["share"], c["differing"] = true, 0.5, 3
	})
	require.Contains(t, out, "2430976 values, worst at ")
	require.NotContains(t, out, "bits equal")
}
