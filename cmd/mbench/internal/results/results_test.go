package results

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/metal"
	"minfer/metal/mtl/soft"
)

// pair is a record of two sides with these ratios of time and instructions.
func pair(device, date, lever string, nKV int, time, instructions float64) harness.Record {
	p := harness.Provenance{Date: date, Command: "mbench --sweep attention", Commit: "0123abc", Host: "a host", Device: device}
	side := func(v string, scale, count float64, pipelines ...string) harness.Measured {
		m := harness.Measured{Name: lever + "=" + v, Pipelines: pipelines, Work: harness.Work{MultiplyAdds: 1 << 20, Bytes: 1 << 20}, Greedy: "aa", Check: &harness.Comparison{N: 1, Tolerance: 1}}
		for range 21 {
			m.Seconds = append(m.Seconds, 1e-3*scale)
		}
		m.Median = 1e-3 * scale
		m.Counters = &harness.Counters{Instructions: int64(1000 * count), BytesRead: 4096}
		return m
	}
	return harness.Record{Provenance: p, Sweep: "attention", Op: "attention", Params: []harness.Param{harness.P("n_kv", nKV)}, Lever: lever,
		Sides:  []harness.Measured{side("0", 1, 1, "attention combine", "attention f16 flash_decode_64"), side("1", time, instructions, "attention f16 classic")},
		AB:     &harness.AB{MedianA: 1e-3, MedianB: 1e-3 * time, Ratio: time, Lo: time * 0.99, Hi: time * 1.01, Level: 0.95, Stop: "21 rounds"},
		Limits: []harness.Limit{{Name: "read", Unit: "B/s", Rate: 4e9}}}
}

func write(t *testing.T, records []harness.Record, items ...Item) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, "mbench results", records, items))
	return b.String()
}

func TestPage(t *testing.T) {
	records := []harness.Record{
		pair("soft", "2026-11-30T03:00:00Z", "MINFER_NO_FLASH", 64, 1.25, 1.5),
		pair("soft", "2026-11-30T03:00:00Z", "MINFER_NO_FLASH", 1024, 1.001, 2),
		pair("soft", "2026-11-29T03:00:00Z", "MINFER_NO_FLASH", 64, 9, 9), // an older one
		pair("a GPU", "2026-11-28T03:00:00Z", "MINFER_NO_FLASH", 64, 2, 1),
	}
	records[1].Sides[1].Greedy = "bb"
	records[1].AB.Warnings = []string{"noise: much", "drift: some", "noise: of B too"}
	items := []Item{
		{Title: "Flash decode", Status: "done", Text: "one pass", Commit: "0123abc", Evidence: []Evidence{{Lever: "MINFER_NO_FLASH"}}},
		{Title: "Short caches", Status: "kept", Text: "flash too", Evidence: []Evidence{{Lever: "MINFER_NO_FLASH", Params: map[string]string{"n_kv": "64"}}}},
		{Title: "More", Status: "todo", Text: "later"},
	}
	page := write(t, records, items...)
	require.NotContains(t, page, "9.0", "the newest record is the one shown")
	for _, want := range []string{
		"| Flash decode | one pass | 0123abc | MINFER_NO_FLASH on a GPU: instructions B/A 1.00, bytes read B/A 1.00, time B/A 2.00, a difference shown in 1 of 1, texts the same (r1). MINFER_NO_FLASH on soft: instructions B/A 1.50 to 2.00, bytes read B/A 1.00, time B/A 1.00 to 1.25, a difference shown in 1 of 2, texts differ in 1 of 2 (r2). |",
		"| Short caches | flash too | MINFER_NO_FLASH n_kv=64 on a GPU: ",
		"| More | later |",
		"| r2 | 2026-11-30T03:00:00Z | 0123abc | a host |  | `mbench --sweep attention` |",
		"| attention: attention n_kv=64 | MINFER_NO_FLASH | 0 | 1 | 1 ms | 1.25 ms | +25.0 % (+23.8 % to +26.2 %) | 1000 → 1500 (+50.0 %) | 4096, equal | same |  | r2 |",
		"| attention: attention n_kv=1024 | MINFER_NO_FLASH | 0 | 1 | 1 ms | 1.001 ms | +0.1 % (-0.9 % to +1.1 %), no difference shown | 1000 → 2000 (+100.0 %) | 4096, equal | differs | noise, drift | r2 |",
		"| attention | n_kv=64 | attention combine; attention f16 flash_decode_64 | 1 ms | 1.05 | 1.05 | 26.2 % (read) | 1000 | 4096 | NMSE 0.0e+00 | r2 |",
		"| Attn | kernel_attn_flash_decode_*_64 | f32, f16, q8_0 | one row, head_dim 64 | MINFER_NO_FLASH | measured: f16 (r2) |",
		"| Attn | kernel_attn_combine |  | after flash_decode and split |  | measured (r2) |",
		"| Scale |  |  |  |  | refused by Metal: the CPU runs it |",
		"| View |  |  |  |  | needs no kernel |",
		"## Device a GPU\n",
		"## Device soft\n",
	} {
		require.Contains(t, page, want)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	rng.Shuffle(len(records), func(i, k int) { records[i], records[k] = records[k], records[i] })
	require.Equal(t, page, write(t, records, items...), "the order of the records does not matter")
}

// A device with timers of its own has their times and what is reached in them, and no
// columns for what only a software device counts.
func TestDeviceTimes(t *testing.T) {
	op := pair("a GPU", "2026-11-28T03:00:00Z", "MINFER_NO_FLASH", 64, 2, 1)
	whole := pair("a GPU", "2026-11-28T03:00:00Z", "MINFER_NO_FLASH", 1024, 2, 1)
	for i, r := range []*harness.Record{&op, &whole} {
		for k := range r.Sides {
			m := &r.Sides[k]
			m.Counters = nil
			m.DeviceS = []float64{2.5e-4, 5e-4, 1e-3} // of 1 ms, and of 2
			if i == 0 {
				m.WeightSet = 300_000_000 + int64(k)
			} else {
				m.Work.Tokens = 4
			}
		}
	}
	page := write(t, []harness.Record{op, whole, pair("soft", "2026-11-30T03:00:00Z", "MINFER_NO_FLASH", 64, 1.25, 1.5)})
	gpu, _, _ := strings.Cut(page, "## Device soft")
	require.NotContains(t, gpu, "instructions A → B")
	require.NotContains(t, gpu, "bytes read")
	for _, want := range []string{
		"| scenario | lever | A | B | time A | time B | Δ time | device time A | device time B | text | warned of | run |",
		"| attention: attention n_kv=64 | MINFER_NO_FLASH | 0 | 1 | 1 ms | 2 ms | +100.0 % (+98.0 % to +102.0 %) | 500 µs | 500 µs | same |  | r1 |",
		// 2^20 bytes of a limit of 4e9 a second are 0.262 ms.
		"| attention | n_kv=64 | attention combine; attention f16 flash_decode_64 | 1 ms | 1.05 | 1.05 | 26.2 % (read) | 500 µs | 52.4 % (read) | NMSE 0.0e+00 | r1 |",
		"| attention n_kv=1024 |  |  | default | 4000 | 26.2 % (read) | 125 µs | 52.4 % (read) | NMSE 0.0e+00 | r1 |",
		"Executions in a row of an op take copies of its weights in turn, 300 MB or more of them",
	} {
		require.Contains(t, gpu, want)
	}
}

// A rate of tokens shows all digits before the point.
func TestTokenRate(t *testing.T) {
	require.Equal(t, []string{"25285", "1000", "999.9", "0.1235"}, []string{tokenRate(25285.25), tokenRate(1000.4), tokenRate(999.94), tokenRate(0.12346)})
}

// Every entry of the dispatch table is in one row, and an op without one is what the
// backend says of it.
func TestKernelRows(t *testing.T) {
	w := &writer{}
	rows := w.kernels(nil).Rows
	kernels := map[string]int{}
	for _, r := range rows {
		if r[1] == "" {
			continue
		}
		types := strings.Split(r[2], ", ")
		for _, typ := range types {
			kernels[strings.Replace(r[1], "*", strings.ToLower(typ), 1)+r[3]]++
		}
	}
	for _, e := range metal.Table {
		require.Equal(t, 1, kernels[e.Kernel+e.When], e.ID())
	}
	require.Len(t, kernels, len(metal.Table))

	dev, err := soft.New(soft.Options{})
	require.NoError(t, err)
	defer dev.Close()
	b, err := metal.New(dev, metal.Options{Levers: lever.Default()})
	require.NoError(t, err)
	defer b.Close()
	for _, r := range rows {
		if r[5] == "refused by Metal: the CPU runs it" {
			for _, op := range graphOps() {
				if op.GoName() == r[0] {
					require.False(t, b.SupportsOp(op, gguf.F32), r[0])
				}
			}
		}
	}
	for _, op := range NoKernel {
		require.True(t, op == graph.Input || b.SupportsOp(op, gguf.F32), op)
	}
}

// A claim without a record is an error, and so is an item that lacks its parts.
func TestItemsRefused(t *testing.T) {
	err := Write(&bytes.Buffer{}, "x", []harness.Record{pair("soft", "d", "MINFER_NO_FLASH", 64, 2, 2)}, []Item{{Title: "T", Status: "kept", Evidence: []Evidence{{Sweep: "levers", Lever: "MINFER_GEMM"}}}})
	require.EqualError(t, err, `item "T": no record matches its evidence levers MINFER_GEMM`)
	for text, want := range map[string]string{
		`[{"title": "T", "text": "x", "status": "maybe"}]`:                  `i.json: T: status "maybe": want done, todo or kept`,
		`[{"title": "T", "text": "x", "status": "done", "commit": "HEAD"}]`: `i.json: T: commit "HEAD": want the one that did it`,
		`[{"title": "T", "text": "x", "status": "kept"}]`:                   `i.json: T: no evidence: want the records that show it`,
		`[{"title": "T", "status": "todo"}]`:                                `i.json: item 1: title "T" and text "": want both`,
		`[{"titel": "T"}]`:                                                  `i.json: json: unknown field "titel"`,
	} {
		_, err := ReadItems("i.json", []byte(text))
		require.EqualError(t, err, want)
	}
}
