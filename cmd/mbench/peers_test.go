package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/suites/peers"
)

// gpuRecord and cpuRecord are whole.
func gpuRecord() *peers.Record {
	near := func(side, what string) peers.Held {
		return peers.Held{Side: side, What: what, Check: &harness.Comparison{N: 300, Differing: 300, NMSE: 0.001}, Limit: 0.02}
	}
	each := harness.Comparison{N: 2430976, Differing: 7, Each: true, Share: 0.3, Tolerance: 1e-4}
	rec := cpuRecord()
	rec.Threads, rec.Check, rec.With, rec.Variant, rec.Offloaded = 0, &each, "the float64 model", "cuda", "3 of 3"
	rec.Held = []peers.Held{{Side: peers.Ours, What: "decode", Check: &each}, near(peers.Ours, "prefill"), near("llama.cpp", "prefill")}
	return rec
}

func cpuRecord() *peers.Record {
	row := func(test, side string, tokens int) peers.Row {
		return peers.Row{Test: test, Side: side, Tokens: tokens, Samples: []time.Duration{1e9, 2e9, 3e9}, Rate: float64(tokens) / 2, VsLlama: 1}
	}
	return &peers.Record{Provenance: harness.Provenance{Date: "2026-11-30T07:00:00Z", Commit: "c", Host: "h", Device: "d", Oracle: "o"},
		Model: "a.gguf", Threads: 2, KV: "f16", Check: &harness.Comparison{N: 2430976}, With: "ggml-cpu-haswell", Agree: true, Rows: []peers.Row{
			row("decode 4 at depth 0", peers.Ours, 4), row("decode 4 at depth 0", "llama.cpp", 4), row("prefill 512", peers.Ours, 512), row("prefill 512", "llama.cpp", 512)}}
}

// shown is what --show says of a record with some of its fields changed.
func shown(t *testing.T, record *peers.Record, change func(rec map[string]any)) (code int, out, errs string) {
	t.Helper()
	data, err := json.Marshal(record)
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
		"held[2] (llama.cpp, prefill) has no check":                              func(rec map[string]any) { delete(held(rec, 2), "check") },
		"held[1] (minfer, prefill) has a limit of -1":                            func(rec map[string]any) { held(rec, 1)["nmse_limit"] = -1 },
		"threads 0, which a GPU has, and nothing held against the float64 model": func(rec map[string]any) { rec["held"] = nil },
		"a record without a check":                                               func(rec map[string]any) { rec["check"] = nil },
		"a check of 0 logits":                                                    func(rec map[string]any) { rec["check"].(map[string]any)["n"] = 0 },
		"agree is false, by the numbers of its checks it is true":                func(rec map[string]any) { rec["agree"] = false },
		"agree is true, by the numbers of its checks it is false":                func(rec map[string]any) { rec["wrong"] = []string{"the cache of a decode is not the model's"} },
		"threads -1":            func(rec map[string]any) { rec["threads"] = -1 },
		"a record without rows": func(rec map[string]any) { rec["rows"] = nil },
		`date "yesterday"`:      func(rec map[string]any) { rec["provenance"].(map[string]any)["date"] = "yesterday" },
		"prefill 512, minfer: 512 tokens in 0 samples": func(rec map[string]any) { row(rec, 2)["samples_ns"] = nil },
		"a sample of 0s":           func(rec map[string]any) { row(rec, 2)["samples_ns"] = []int{0} },
		"30000 tokens a second":    func(rec map[string]any) { row(rec, 2)["tokens_per_second"] = 30000 },
		"a rate or share of -0.5":  func(rec map[string]any) { row(rec, 0)["share_of_read_rate"] = -0.5 },
		`unknown field "surprise"`: func(rec map[string]any) { rec["surprise"] = 1 },
	} {
		code, out, errs := shown(t, gpuRecord(), change)
		require.Equal(t, harness.ExitBadInput, code, want)
		require.Empty(t, out)
		require.Contains(t, errs, want)
		require.Contains(t, errs, "peers-a.json: ")
		require.NotContains(t, errs, "panic")
	}
}

// What did not hold stands below the table, and only bits are called equal.
func TestPeersShowsWhatIsWrong(t *testing.T) {
	code, out, errs := shown(t, gpuRecord(), func(map[string]any) {})
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Contains(t, out, "minfer, decode: 2430976 values, 0.30 of the bound\n")
	require.NotContains(t, out, "bits")
	require.NotContains(t, out, "do not count")

	_, out, _ = shown(t, gpuRecord(), func(rec map[string]any) {
		rec["wrong"], rec["agree"] = []string{"the cache of a decode is not the model's"}, false
	})
	require.Contains(t, out, "the rates do not count: the cache of a decode is not the model's\n")

	_, out, _ = shown(t, cpuRecord(), func(map[string]any) {})
	require.Contains(t, out, "logits against ggml-cpu-haswell: 2430976 values, all bits equal\n")
	_, out, _ = shown(t, cpuRecord(), func(rec map[string]any) {
		rec["agree"] = false
		c := rec["check"].(map[string]any)
		c["differing"], c["index"], c["got"], c["want"] = 3, 17, 1, 1.0000001
	})
	require.Contains(t, out, "3 of 2430976 values differ, first at [17]")
	require.Contains(t, out, "the rates do not count\n")
	require.NotContains(t, out, "bits equal")
	// Within tolerances is not equal.
	_, out, _ = shown(t, cpuRecord(), func(rec map[string]any) {
		c := rec["check"].(map[string]any)
		c["each"], c["share"], c["differing"] = true, 0.5, 3
	})
	require.Contains(t, out, "2430976 values, worst at ")
	require.NotContains(t, out, "bits equal")
}
