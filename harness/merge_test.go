package harness

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shardsOf cuts records as a sweep's shards have them.
func shardsOf(t *testing.T, records []Record, n int) []RecordFile {
	files := make([]RecordFile, n)
	for i, r := range clone(t, records) {
		s := i % n
		r.Provenance.Command = fmt.Sprintf("mbench --sweep attention --shard %d/%d --out 's %d.jsonl'", s+1, n, s+1)
		files[s].Name = fmt.Sprintf("s%d.jsonl", s+1)
		files[s].Records = append(files[s].Records, r)
	}
	return files
}

func TestMergeRecords(t *testing.T) {
	whole := sampleRecords()
	files := shardsOf(t, whole, 3)
	slices.Reverse(files)
	got, warnings, err := MergeRecords(files, false)
	require.NoError(t, err)
	require.Empty(t, warnings)
	var keys []string
	for _, r := range got {
		keys = append(keys, r.Key())
	}
	require.Equal(t, []string{whole[0].Key(), whole[1].Key(), whole[2].Key()}, keys, "n_kv=512 before 2048, decode before rms_norm")

	for name, c := range map[string]struct {
		change func(files []RecordFile)
		want   string
	}{
		"commit":  {func(f []RecordFile) { f[1].Records[0].Provenance.Commit = "new" }, "mixed commits: 0123abc in s1.jsonl, new in s2.jsonl: want one"},
		"model":   {func(f []RecordFile) { f[1].Records[0].Model.SHA256 = "cdcdcdcdcdcdcd" }, "mixed models: tiny-qwen2 q4_0 is abababababab in s1.jsonl, cdcdcdcdcdcd in s2.jsonl: want one file"},
		"command": {func(f []RecordFile) { f[1].Records[0].Provenance.Command += " --model x" }, "mixed runs: mbench --sweep attention in s1.jsonl, mbench --sweep attention --model x in s2.jsonl: want one"},
		"device":  {func(f []RecordFile) { f[1].Records[0].Provenance.Device = "x" }, "mixed devices: Software Metal device (2 threads) in s1.jsonl, x in s2.jsonl: want one"},
		"missing": {func(f []RecordFile) { f[1] = RecordFile{Name: "s2.jsonl"} }, "shards missing: 2/3"},
		"count":   {func(f []RecordFile) { f[1].Records[0].Provenance.Command = "mbench --sweep attention --shard=2/4" }, "shards of 3 and of 4: want one run's"},
	} {
		files := shardsOf(t, whole, 3)
		c.change(files)
		_, _, err := MergeRecords(files, false)
		require.EqualError(t, err, c.want+" (--force joins them all the same)", name)
		got, warnings, err := MergeRecords(files, true)
		require.NoError(t, err, name)
		require.Equal(t, []string{c.want}, warnings, name)
		require.NotEmpty(t, got)
	}

	// A sweep of two devices: each must be the same one everywhere.
	files = shardsOf(t, whole, 3)
	for i := range files {
		p := &files[i].Records[0].Provenance
		p.Command = strings.Replace(p.Command, " --shard", " --device cpu,soft --shard", 1)
		p.Device = []string{"cpu (avx2)", "soft (off)", "cpu (avx2)"}[i]
	}
	_, warnings, err = MergeRecords(files, false)
	require.NoError(t, err)
	require.Empty(t, warnings)
	files[2].Records[0].Provenance.Device = "cpu (avx512)"
	_, _, err = MergeRecords(files, false)
	require.EqualError(t, err, "mixed devices: cpu (avx2) in s1.jsonl, cpu (avx512) in s3.jsonl: want one (--force joins them all the same)")

	files = shardsOf(t, whole, 3)
	files[1].Records[0].Provenance.Host = "another"
	_, warnings, err = MergeRecords(files, false)
	require.NoError(t, err)
	require.Equal(t, []string{"hosts: 2 took part: times of different ones do not compare"}, warnings)

	files = shardsOf(t, whole, 3)
	files = append(files, files[0])
	files[3].Name = "again"
	_, _, err = MergeRecords(files, true)
	require.EqualError(t, err, whole[0].Key()+" is in s1.jsonl and in again: want each scenario once")
}

// shardReport runs a shard of n cases.
func shardReport(t *testing.T, index, count int) *Report {
	t.Helper()
	var cases []Case
	for i := range 10 {
		id := ID{Suite: "ops", Op: "add", Params: []Param{P("n", i+1)}}
		cases = append(cases, Case{ID: id, Work: 1, Run: func(context.Context) (Result, error) { return Passed(), nil }})
	}
	r := Runner{ShardIndex: index, ShardCount: count}
	report, err := r.Run(t.Context(), cases)
	require.NoError(t, err)
	report.Provenance = Provenance{Date: fmt.Sprintf("2026-11-30T03:00:0%dZ", 5-index), Command: fmt.Sprintf("mverify --suite ops --shard %d/%d", index, count), Commit: "0123abc", Host: "h", Device: "cpu"}
	return report
}

// The union of the shards is the whole, in both formats that can be read.
func TestMergeReports(t *testing.T) {
	for _, format := range []string{"json", "jsonl"} {
		var files []ReportFile
		for i := range 3 {
			files = append(files, ReportFile{fmt.Sprintf("r%d", i+1), nil})
		}
		for i := range files {
			report := shardReport(t, i+1, 3)
			var out bytes.Buffer
			require.NoError(t, report.Write(&out, format, false))
			got, err := ReadReport("r", out.Bytes())
			require.NoError(t, err)
			require.Equal(t, report, got, format)
			files[i].Report = got
		}
		got, warnings, err := MergeReports(files, false)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, 10, got.Selected)
		require.Equal(t, "ops/add n=10", got.Results[9].Case, "numbers in their order")
		require.Equal(t, Provenance{Date: "2026-11-30T03:00:02Z", Command: "mverify --suite ops", Commit: "0123abc", Host: "h", Device: "cpu"}, got.Provenance)
		require.Equal(t, ExitHeld, got.ExitCode())

		_, _, err = MergeReports(files[:2], false)
		require.EqualError(t, err, "shards missing: 3/3 (--force joins them all the same)")
		_, _, err = MergeReports(append(files, files[2]), false)
		require.ErrorContains(t, err, "is in r3 and in r3: want each case once")
		files[2].Report.Interrupted = true
		got, _, err = MergeReports(files, false)
		require.NoError(t, err)
		require.Equal(t, ExitFailed, got.ExitCode())
		files[1].Report.Provenance.Model, files[2].Report.Provenance.Model = "m.gguf aa", "m.gguf bb"
		_, _, err = MergeReports(files, false)
		require.EqualError(t, err, "mixed models: m.gguf is aa in r2, bb in r3: want one file (--force joins them all the same)")
		files[2].Report.Provenance.Commit = "x"
		_, _, err = MergeReports(files, false)
		require.EqualError(t, err, "mixed commits: 0123abc in r1, x in r3: want one (--force joins them all the same)")
	}
}

func TestReadReportRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "r: want a report as json or jsonl: EOF",
		"[]":                      "r: want a report as json or jsonl: json: cannot unmarshal array into Go value of type map[string]json.RawMessage",
		`{"commit":"c"}`:          `r: date "": want one such as 2026-11-30T07:00:00Z`,
		"{}":                      "r: no commit in its provenance: want a report of mverify",
		`{"provenance":{},"x":1}`: `r: json: unknown field "x"`,
		`{"provenance":{}}{}`:     "r: more after the JSON value: want its end",
		`{"date":"2026-01-02T03:04:05Z","commit":"c"}{"case":""}`:     "r: result 1 names no case",
		`{"date":"2026-01-02T03:04:05Z","commit":"c"}{"outcome":"x"}`: `r: line 2: unknown outcome "x": want pass, fail, unsupported or skipped`,
		`{"date":"2026-01-02T03:04:05Z","commit":"c"}{"case":"a"} {`:  "r: line 3: unexpected EOF",
	} {
		_, err := ReadReport("r", []byte(text))
		require.EqualError(t, err, want)
	}
	r, err := ReadReport("r", []byte(`{"date":"2026-01-02T03:04:05Z","commit":"c"}{"case":"a","outcome":"skipped","reason":"interrupted"}`))
	require.NoError(t, err)
	require.True(t, r.Interrupted)
}

func FuzzReadReport(f *testing.F) {
	f.Add([]byte(`{"provenance":{"date":"2026-01-02T03:04:05Z","commit":"c"},"selected":1,"results":[{"case":"a","outcome":"pass"}]}`))
	f.Add([]byte(`{"date":"2026-01-02T03:04:05Z","commit":"c"}` + "\n" + `{"case":"a","outcome":"fail","reason":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReport("fuzz", data)
		if err != nil {
			return
		}
		for _, format := range Formats {
			require.NoError(t, r.Write(&bytes.Buffer{}, format, true))
		}
	})
}

func TestNatural(t *testing.T) {
	list := []string{"a2", "a10", "a010b", "b", "a1", "", "a"}
	slices.SortStableFunc(list, Natural)
	require.Equal(t, []string{"", "a", "a1", "a2", "a10", "a010b", "b"}, list)
}
