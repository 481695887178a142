package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
)

// recordFile writes n records of one lever, as a sweep on a software device has
// them, and gives the path. change sees every record before it is written.
func recordFile(t *testing.T, name string, n int, change func(i int, r *harness.Record)) string {
	t.Helper()
	var records []harness.Record
	for i := range n {
		side := func(name string, scale float64) harness.Measured {
			m := harness.Measured{Name: name, Work: harness.Work{Tokens: 1}, Greedy: "aa", Counters: &harness.Counters{Instructions: 1000, BytesRead: 4096}}
			for k := range 21 {
				m.Seconds = append(m.Seconds, scale*(1+0.001*float64(k)))
			}
			m.Median = m.Seconds[10]
			return m
		}
		r := harness.Record{
			Provenance: harness.Provenance{Date: "2026-11-30T03:00:00Z", Command: "mbench --sweep levers", Commit: "0123abc", Host: "a host", Device: "Software Metal device (2 threads)"},
			Sweep:      "levers", Op: "decode", Params: []harness.Param{harness.P("n_kv", 32<<i)}, Lever: "MINFER_NO_FLASH",
			Sides: []harness.Measured{side("MINFER_NO_FLASH=0", 0.01), side("MINFER_NO_FLASH=1", 0.02)},
			AB:    &harness.AB{MedianA: 0.0101, MedianB: 0.0202, Ratio: 2, Lo: 1.99, Hi: 2.01, Level: 0.95, Stop: "21 rounds"},
		}
		if change != nil {
			change(i, &r)
		}
		records = append(records, r)
	}
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, harness.WriteRecords(f, "jsonl", records))
	require.NoError(t, f.Close())
	return path
}

// A run with itself: no difference, in every format, and a gate that holds.
func TestCompareWithItself(t *testing.T) {
	a := recordFile(t, "a.jsonl", 3, nil)
	code, out, errs := mbench(t, "compare", a, a, "--gate", "0")
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Equal(t, "mbench: 6 sides compared: 0 slower, 0 faster, 6 with no difference shown; counters changed in 0\n", errs)
	require.Equal(t, 9, strings.Count(out, "1.000 (1.000 to 1.000), no difference shown"), out)
	require.Equal(t, 6, strings.Count(out, "equal"), out)
	for _, format := range []string{"md", "csv"} {
		code, out, _ := mbench(t, "compare", a, a, "--format", format)
		require.Equal(t, harness.ExitHeld, code)
		require.Contains(t, out, "time new/old")
	}
	code, out, _ = mbench(t, "compare", a, a, "--format", "json")
	require.Equal(t, harness.ExitHeld, code)
	var c harness.RunChanges
	require.NoError(t, json.Unmarshal([]byte(out), &c))
	require.Len(t, c.Changes, 6)
	require.Equal(t, harness.Interval{Ratio: 1, Lo: 1, Hi: 1, Matched: true}, c.Changes[0].Time)
}

// A slower run with more instructions: shown, warned about, and red under a gate.
func TestCompareGate(t *testing.T) {
	old := recordFile(t, "a.jsonl", 2, nil)
	next := recordFile(t, "b.jsonl", 2, func(i int, r *harness.Record) {
		r.Provenance.Commit, r.Provenance.Host, r.Provenance.Device = "4567def", "another", "Software Metal device (4 threads)"
		if i == 1 {
			r.Sides[1].Counters = &harness.Counters{Instructions: 1020, BytesRead: 4096}
			for k := range r.Sides[1].Seconds {
				r.Sides[1].Seconds[k] *= 1.5
			}
		}
	})
	code, out, errs := mbench(t, "compare", old, next)
	require.Equal(t, harness.ExitHeld, code)
	require.Contains(t, out, "1.500 (")
	require.Contains(t, out, "instructions 1000 -> 1020 (+2.00 %)")
	require.Equal(t, `mbench: not the same: commit: old 0123abc, new 4567def
mbench: not the same: host: old a host, new another
mbench: not the same: device: old Software Metal device (2 threads), new Software Metal device (4 threads)
mbench: 4 sides compared: 1 slower, 0 faster, 3 with no difference shown; counters changed in 1
`, errs)
	code, _, errs = mbench(t, "compare", old, next, "--gate", "1")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, errs, "mbench: gate: levers/decode n_kv=64 lever=MINFER_NO_FLASH device=Software_Metal_device_(4_threads), MINFER_NO_FLASH=1: instructions 1000 -> 1020 (+2.00 %): want at most +1 %\n")
	code, _, _ = mbench(t, "compare", old, next, "--gate", "2")
	require.Equal(t, harness.ExitHeld, code)
	code, _, _ = mbench(t, "compare", next, old, "--gate", "0")
	require.Equal(t, harness.ExitHeld, code, "fewer instructions are no fault")
	less := recordFile(t, "c.jsonl", 1, nil)
	code, _, errs = mbench(t, "compare", old, less, "--gate", "0")
	require.Equal(t, harness.ExitFailed, code)
	require.Contains(t, errs, "n_kv=64 lever=MINFER_NO_FLASH device=Software_Metal_device_(2_threads): not in the new run\n")
}

// Runs that share nothing, or no counters, are not a pass.
func TestCompareNothing(t *testing.T) {
	old := recordFile(t, "a.jsonl", 1, nil)
	other := recordFile(t, "b.jsonl", 1, func(_ int, r *harness.Record) { r.Op = "prefill" })
	code, _, errs := mbench(t, "compare", old, other)
	require.Equal(t, harness.ExitNothing, code)
	require.Contains(t, errs, "mbench: in the old run only: levers/decode n_kv=32")
	bare := func(_ int, r *harness.Record) { r.Sides[0].Counters, r.Sides[1].Counters = nil, nil }
	a, b := recordFile(t, "c.jsonl", 1, bare), recordFile(t, "d.jsonl", 1, bare)
	code, _, errs = mbench(t, "compare", a, b, "--gate", "0")
	require.Equal(t, harness.ExitNothing, code)
	require.Contains(t, errs, "gate: no counters in both runs: nothing was held")
}

// What shards wrote is one run again; files of two runs are refused.
func TestMerge(t *testing.T) {
	var shards []string
	for s := range 3 {
		shards = append(shards, recordFile(t, "s.jsonl", 1, func(_ int, r *harness.Record) {
			r.Params = []harness.Param{harness.P("n_kv", 2048>>(4*s))}
			r.Provenance.Command = "mbench --sweep levers --format jsonl --shard " + []string{"1/3", "2/3", "3/3"}[s]
		}))
	}
	out := filepath.Join(t.TempDir(), "all.jsonl")
	code, stdout, errs := mbench(t, append([]string{"merge", "--out", out}, shards...)...)
	require.Equal(t, harness.ExitHeld, code, errs)
	require.Empty(t, stdout)
	require.Equal(t, "mbench: 3 records of 3 files\n", errs)
	records, err := readRecords(out)
	require.NoError(t, err)
	require.Equal(t, "8", records[0].Params[0].Value)
	require.Equal(t, "2048", records[2].Params[0].Value)

	code, stdout, errs = mbench(t, append([]string{"merge"}, shards[:2]...)...)
	require.Equal(t, harness.ExitBadInput, code)
	require.Empty(t, stdout)
	require.Equal(t, "mbench: shards missing: 3/3 (--force joins them all the same)\n", errs)
	code, stdout, errs = mbench(t, append([]string{"merge", "--force", "--format", "csv"}, shards[:2]...)...)
	require.Equal(t, harness.ExitHeld, code)
	require.Contains(t, stdout, "n_kv=2048,")
	require.Contains(t, stdout, "n_kv=128,")
	require.Contains(t, errs, "mbench: shards missing: 3/3\n")
	code, _, errs = mbench(t, "merge", "--force", shards[0], shards[0])
	require.Equal(t, harness.ExitBadInput, code)
	require.Contains(t, errs, "want each scenario once")
}
