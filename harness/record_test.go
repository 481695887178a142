package harness

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleRecords are one A/B record on a software device, one that shows no
// difference, and one of a single side, with the characters that formats trip over.
func sampleRecords() []Record {
	p := Provenance{Date: "2026-11-30T03:00:00Z", Command: "mbench --sweep attention --filter 'a|b'", Commit: "0123abc", Host: "a host, 2 cores", Device: "Software Metal device (2 threads)"}
	model := &ModelRef{Name: "tiny-qwen2", Type: "q4_0", SHA256: strings.Repeat("ab", 32)}
	sides := func(b float64) []Measured {
		return []Measured{
			{Name: "MINFER_NO_FLASH=0", Pipelines: []string{"attention f16 flash_decode_64"}, Seconds: []float64{0.010, 0.011, 0.012}, Median: 0.011,
				Work: Work{Tokens: 4, Bytes: 1 << 20, MultiplyAdds: 1 << 21}, Greedy: "aa", Counters: &Counters{Dispatches: 7, BytesRead: 1 << 20, BytesWritten: 512, Instructions: 12345, Barriers: 3, Divergent: 9}},
			{Name: "MINFER_NO_FLASH=1", Levers: "MINFER_NO_FLASH=1", Pipelines: []string{"attention f16 combine", "attention f16 split_64"}, Seconds: []float64{0.010 * b, 0.011 * b, 0.012 * b}, Median: 0.011 * b,
				Work: Work{Tokens: 4, Bytes: 1 << 20, MultiplyAdds: 1 << 21}, Greedy: "aa", Counters: &Counters{Dispatches: 9, BytesRead: 2 << 20, BytesWritten: 1024, Instructions: 23456, Barriers: 5, Divergent: 0}},
		}
	}
	limits := []Limit{{Name: "read", Unit: "B/s", Rate: 1e9}, {Name: "multiply_add", Unit: "1/s", Rate: 1e9}}
	return []Record{
		{Provenance: p, Sweep: "attention", Op: "decode", Params: []Param{P("n_kv", 512), P("note", "it's")}, Model: model, Lever: "MINFER_NO_FLASH",
			Sides: sides(1.25), AB: &AB{MedianA: 0.011, MedianB: 0.01375, Ratio: 1.25, Lo: 1.2, Hi: 1.3, Level: 0.95, Stop: "3 rounds"}, Limits: limits, Warnings: []string{"noise: much"}},
		{Provenance: p, Sweep: "attention", Op: "decode", Params: []Param{P("n_kv", 2048), P("note", "it's")}, Model: model, Lever: "MINFER_NO_FLASH",
			Sides: sides(1.001), AB: &AB{MedianA: 0.011, MedianB: 0.011011, Ratio: 1.001, Lo: 0.98, Hi: 1.02, Level: 0.95, Stop: "3 rounds"}, Limits: limits},
		{Provenance: p, Sweep: "attention", Op: "rms_norm", Params: []Param{P("d", 896)},
			Sides: []Measured{{Name: "a|b", Seconds: []float64{2e-6, 3e-6}, Median: 2.5e-6, Work: Work{Bytes: 3584}}}},
	}
}

// Every format is held against a golden file.
func TestRecordFormats(t *testing.T) {
	for _, format := range RecordFormats {
		var out bytes.Buffer
		require.NoError(t, WriteRecords(&out, format, sampleRecords()), format)
		golden(t, filepath.Join("testdata", "records."+format), out.Bytes())
	}
	require.EqualError(t, WriteRecords(&bytes.Buffer{}, "yaml", nil), `unknown format "yaml": want one of table, md, csv, json, jsonl, sql, benchfmt`)
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), path)
}

// What is written can be read back, both ways.
func TestRecordsRoundTrip(t *testing.T) {
	want := sampleRecords()
	for i := range want {
		if want[i].AB != nil {
			want[i].AB.Rounds = nil
		}
	}
	for _, format := range []string{"json", "jsonl"} {
		var out bytes.Buffer
		require.NoError(t, WriteRecords(&out, format, want))
		got, err := ReadRecords("a.json", out.Bytes())
		require.NoError(t, err)
		require.Equal(t, want, got, format)
	}
}

// A file that is none says which record is wrong, and how.
func TestBadRecords(t *testing.T) {
	good, err := json.Marshal(sampleRecords()[0])
	require.NoError(t, err)
	swap := func(old, new string) string {
		require.Contains(t, string(good), old)
		return strings.Replace(string(good), old, new, 1)
	}
	for text, want := range map[string]string{
		"":                   "a.json: no records: want a list of them, or one a line",
		"[]":                 "a.json: no records: want a list of them, or one a line",
		"{}":                 `a.json: record 1: sweep "" and op "": want both`,
		"[{}] x":             "a.json: more after the JSON value: want its end",
		"x":                  "a.json: record 1: invalid character 'x' looking for beginning of value",
		`{"sweeep": 1}`:      `a.json: record 1: json: unknown field "sweeep"`,
		string(good) + "\n{": "a.json: record 2: unexpected EOF",
		swap(`"samples_s":[0.01,`, `"samples_s":[-1,`): "a.json: record 1: side 1 has a sample of -1 s: want more than 0",
		swap(`"samples_s":[0.01,`, `"samples_s":[`):    "a.json: record 1: a comparison without two sides of as many samples",
		swap(`"ratio_lo":1.2`, `"ratio_lo":1.27`):      "a.json: record 1: ratio 1.25 in the interval 1.27 to 1.3: want positive numbers in order",
		swap(`"level":0.95`, `"level":2`):              "a.json: record 1: an interval of level 2: want a share between 0 and 1",
		swap(`"median_s":0.011`, `"median_s":-1`):      "a.json: record 1: side 1 has a median of -1 s: want more than 0",
		swap(`"instructions":`, `"instructions":-`):    "a.json: record 1: side 1 counts -12345: want no number below 0",
		swap(`"rate":`, `"rate":-`):                    `a.json: record 1: limit "read" has a rate of -1e+09: want more than 0`,
		swap(`"Key":"n_kv"`, `"Key":"n\tkv"`):          `a.json: record 1: "n\tkv": want a name without control characters`,
		swap(`"Key":"n_kv"`, `"Key":""`):               `a.json: record 1: a parameter without a key, of value "512"`,
		swap(`"commit":"0123abc"`, `"commit":""`):      "a.json: record 1: no commit in its provenance",
		swap(`"date":"2026-11-30T`, `"date":"30 Nov `): `a.json: record 1: date "30 Nov 03:00:00Z": want one such as 2026-11-30T07:00:00Z`,
	} {
		_, err := ReadRecords("a.json", []byte(text))
		require.EqualError(t, err, want)
	}
}

func FuzzReadRecords(f *testing.F) {
	for _, format := range []string{"json", "jsonl"} {
		var out bytes.Buffer
		require.NoError(f, WriteRecords(&out, format, sampleRecords()))
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := ReadRecords("fuzz", data)
		if err != nil {
			return
		}
		for _, format := range RecordFormats {
			require.NoError(t, WriteRecords(&bytes.Buffer{}, format, records))
		}
	})
}

// A share is that of the limit which is nearer.
func TestShare(t *testing.T) {
	r := sampleRecords()[0]
	share, of := r.Share(0)
	require.Equal(t, "multiply_add", of)
	require.InDelta(t, float64(1<<21)/0.011/1e9, share, 1e-9)
	r.Limits[1].Rate = 1e12
	share, of = r.Share(0)
	require.Equal(t, "read", of)
	require.InDelta(t, float64(1<<20)/0.011/1e9, share, 1e-9)
	// Matrices have a limit of their own, where it was measured.
	r.Limits[1].Rate = 1e9
	r.Sides[0].Matrices = true
	_, of = r.Share(0)
	require.Equal(t, "multiply_add", of)
	r.Limits = append(r.Limits, Limit{Name: "multiply_add_matrix", Unit: "1/s", Rate: 1.5e9})
	share, of = r.Share(0)
	require.Equal(t, "multiply_add_matrix", of)
	require.InDelta(t, float64(1<<21)/0.011/1.5e9, share, 1e-9)
	r.Sides[0].Matrices = false
	_, of = r.Share(0)
	require.Equal(t, "multiply_add", of)
	r.Limits[1].Rate = 1e12
	r.Sides[0].DeviceS = nil
	share, of = r.DeviceShare(0)
	require.Zero(t, share)
	require.Empty(t, of)
	r.Sides[0].DeviceS = []float64{0.009, 0.004, 0.001}
	share, of = r.DeviceShare(0)
	require.Equal(t, "read", of)
	require.InDelta(t, float64(1<<20)/0.004/1e9, share, 1e-9)
}

func TestRecordKey(t *testing.T) {
	require.Equal(t, "attention/decode n_kv=512 note=it's model=tiny-qwen2 weights=q4_0 lever=MINFER_NO_FLASH device=Software_Metal_device_(2_threads)", sampleRecords()[0].Key())
}
