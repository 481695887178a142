package harness

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// clone copies records deeply.
func clone(t *testing.T, records []Record) []Record {
	t.Helper()
	data, err := json.Marshal(records)
	require.NoError(t, err)
	got, err := ReadRecords("clone", data)
	require.NoError(t, err)
	return got
}

// samples draws n times around scale with log-normal noise.
func samples(rng *rand.Rand, n int, scale, noise float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = scale * math.Exp(noise*rng.NormFloat64())
		if rng.IntN(20) == 0 { // an outlier
			x[i] *= 3
		}
	}
	return x
}

// Two runs of the same thing differ, it says, no more often than promised; a
// slowdown is found.
func TestRatioOfMediansIsHonest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for _, n := range [][2]int{{6, 6}, {20, 20}, {21, 40}} {
		claims, found := 0, 0
		const runs = 1500
		for range runs {
			if RatioOfMedians(samples(rng, n[0], 1e-3, 0.04), samples(rng, n[1], 1e-3, 0.04), 0.95).Differs() {
				claims++
			}
			if i := RatioOfMedians(samples(rng, n[0], 1e-3, 0.04), samples(rng, n[1], 1.2e-3, 0.04), 0.95); i.Lo > 1 {
				found++
			}
		}
		t.Logf("%v samples: %.1f %% of equal runs differ, %.1f %% of slowdowns found", n, 100*float64(claims)/runs, 100*float64(found)/runs)
		require.LessOrEqual(t, float64(claims)/runs, 0.065, n)
		require.GreaterOrEqual(t, float64(found)/runs, 0.85, n)
	}
}

// The interval is that of a bootstrap that draws.
func TestRatioOfMediansAgainstResampling(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 0))
	a, b := samples(rng, 25, 1, 0.1), samples(rng, 31, 1.1, 0.1)
	var drawn []float64
	draw := func(x []float64) float64 {
		y := make([]float64, len(x))
		for i := range y {
			y[i] = x[rng.IntN(len(x))]
		}
		return median(y)
	}
	for range 40000 {
		drawn = append(drawn, draw(b)/draw(a))
	}
	i := RatioOfMedians(a, b, 0.95)
	below := func(v float64) float64 {
		n := 0
		for _, d := range drawn {
			if d < v {
				n++
			}
		}
		return float64(n) / float64(len(drawn))
	}
	require.InDelta(t, 0.025, below(i.Lo), 0.012)
	require.InDelta(t, 0.975, below(i.Hi), 0.012)
	require.InDelta(t, median(b)/median(a), i.Ratio, 1e-12)
}

func TestIntervalInWords(t *testing.T) {
	require.Equal(t, "", RatioOfMedians(nil, []float64{1}, 0.95).String())
	require.Equal(t, "2.000, too few samples to show a difference", RatioOfMedians([]float64{1}, []float64{2}, 0.95).String())
	require.False(t, RatioOfMedians([]float64{1}, []float64{2}, 0.95).Differs())
	same := []float64{1, 1, 1, 1, 1, 1}
	require.Equal(t, "1.000 (1.000 to 1.000), no difference shown", RatioOfMedians(same, same, 0.95).String())
	require.Equal(t, "2.000 (2.000 to 2.000)", RatioOfMedians(same, []float64{2, 2, 2, 2, 2, 2}, 0.95).String())
}

// longRecords are sampleRecords with enough samples to compare.
func longRecords(seed uint64) []Record {
	records := sampleRecords()
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range records {
		for s := range records[i].Sides {
			m := &records[i].Sides[s]
			m.Seconds = samples(rng, 21, m.Median, 0.02)
			m.Median = median(m.Seconds)
		}
	}
	return records
}

// A run with itself shows no difference, sample by sample.
func TestCompareRunWithItself(t *testing.T) {
	records := longRecords(1)
	c, err := CompareRuns(records, clone(t, records), 0.95)
	require.NoError(t, err)
	require.Len(t, c.Changes, 5)
	for _, ch := range c.Changes {
		require.Equal(t, Interval{1, 1, 1, true}, ch.Time)
		require.False(t, ch.Changed() || ch.Text)
		require.Empty(t, ch.Notes)
	}
	require.NotNil(t, c.Changes[1].Effect)
	require.Equal(t, 1.0, c.Changes[1].Effect.Ratio)
	require.Empty(t, c.Warnings)
	require.Empty(t, c.OnlyOld)
	require.Empty(t, c.OnlyNew)
	faults, compared := c.Gate(0)
	require.Empty(t, faults)
	require.Equal(t, 4*6, compared)
}

// Everything that changed from one run to the next is named.
func TestCompareRuns(t *testing.T) {
	old, next := longRecords(1), longRecords(2)
	for i := range next {
		next[i].Provenance.Commit = "4567def"
		next[i].Provenance.Date = "2026-12-01T03:00:00Z"
		next[i].Provenance.Device = "Software Metal device (8 threads)"
	}
	b := &next[0].Sides[1]
	for i := range b.Seconds {
		b.Seconds[i] *= 1.5
	}
	b.Counters.Instructions = 23457
	b.Counters.Barriers = 4
	b.Greedy = "bb"
	b.Pipelines = []string{"attention f16 classic"}
	next[1].Model = &ModelRef{Name: "tiny-qwen2", Type: "q4_0", SHA256: "cdcdcdcdcdcdcdcd"}
	next[2].Params = []Param{P("d", 1)}

	c, err := CompareRuns(old, next, 0.95)
	require.NoError(t, err)
	require.Equal(t, []string{
		"commit: old 0123abc, new 4567def",
		"device: old Software Metal device (2 threads), new Software Metal device (8 threads)",
		"model: old tiny-qwen2 q4_0 abababababab, new tiny-qwen2 q4_0 abababababab; tiny-qwen2 q4_0 cdcdcdcdcdcd",
	}, c.Warnings)
	require.Equal(t, []string{old[2].Key()}, c.OnlyOld)
	require.Equal(t, []string{next[2].Key()}, c.OnlyNew)
	require.Len(t, c.Changes, 4)
	require.Equal(t, 1, c.Doubted)
	ch := c.Changes[1]
	require.Equal(t, next[0].Key(), ch.Key)
	require.InDelta(t, 1.5, ch.Time.Ratio, 0.05)
	require.Greater(t, ch.Time.Lo, 1.3)
	require.False(t, ch.Time.Matched)
	require.InDelta(t, 1.5, ch.Effect.Ratio, 0.05)
	require.True(t, ch.Text)
	require.Equal(t, []string{"generates another text", "dispatches attention f16 classic, was attention f16 combine, attention f16 split_64"}, ch.Notes)
	require.Equal(t, "instructions 23456 -> 23457 (+0.00 %), barriers 5 -> 4 (-20.00 %)", ch.countersText())
	require.Equal(t, []string{"another model file: SHA-256 cdcdcdcdcdcd, was abababababab"}, c.Changes[2].Notes)
	require.False(t, c.Changes[0].Time.Differs())

	faults, compared := c.Gate(0)
	require.Equal(t, 24, compared)
	require.Equal(t, []string{
		next[0].Key() + ", MINFER_NO_FLASH=1: instructions 23456 -> 23457 (+0.00 %): want at most +0 %",
		next[0].Key() + ", MINFER_NO_FLASH=1: generates another text",
		old[2].Key() + ": not in the new run",
	}, faults)
	faults, _ = c.Gate(1)
	require.Len(t, faults, 2)

	_, err = CompareRuns(append(old, old[0]), next, 0.95)
	require.EqualError(t, err, "the old run has two records of "+old[0].Key()+": want one of a scenario")
}

// A counter that was 0 and is not is over every limit.
func TestCounterFromNothing(t *testing.T) {
	require.True(t, math.IsInf(CounterChange{"barriers", 0, 3}.Percent(), 1))
	require.Zero(t, CounterChange{"barriers", 0, 0}.Percent())
}

// The table has a column for what there is, and none for what there is not.
func TestChangesTable(t *testing.T) {
	old := longRecords(1)
	c, err := CompareRuns(old[2:], clone(t, old[2:]), 0.95)
	require.NoError(t, err)
	table := c.Table()
	require.Len(t, table.Columns, 5)
	require.Len(t, table.Rows, 1)
	c, err = CompareRuns(old, longRecords(2), 0.95)
	require.NoError(t, err)
	require.Len(t, c.Table().Columns, 7)
	var out bytes.Buffer
	require.NoError(t, json.NewEncoder(&out).Encode(c))
}
