package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files again")

func someCase(n int, work int64, r Result) Case {
	return Case{ID: ID{Suite: "ops", Op: "mul_mat", Params: []Param{P("type", "q4_0"), P("n", n)}}, Work: work,
		Run: func(context.Context) (Result, error) { return r, nil }}
}

func TestID(t *testing.T) {
	id := someCase(3, 1, Result{}).ID
	require.Equal(t, "ops/mul_mat type=q4_0 n=3", id.String())
	require.True(t, regexp.MustCompile(ExactFilter(id)).MatchString(id.String()))
	require.False(t, regexp.MustCompile(ExactFilter(id)).MatchString(id.String()+"3"))
	require.Equal(t, `'^ops/mul_mat type=q4_0 n=3$'`, ShellQuote(ExactFilter(id)))
	require.Equal(t, `'it'\''s'`, ShellQuote("it's"))
	require.Equal(t, "''", ShellQuote(""))
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		results []Result
		want    int
	}{
		{nil, ExitNothing},
		{[]Result{Passed()}, ExitHeld},
		{[]Result{Passed(), Failed("x"), Passed()}, ExitFailed},
		{[]Result{Refused("x")}, ExitNothing},
		{[]Result{Passed(), Refused("x")}, ExitHeld},
	} {
		r := Runner{}
		var cases []Case
		for i, res := range c.results {
			cases = append(cases, someCase(i, 1, res))
		}
		report, err := r.Run(context.Background(), cases)
		require.NoError(t, err)
		require.Equal(t, c.want, report.ExitCode(), "%v", c.results)
	}
}

func TestRunnerStops(t *testing.T) {
	cases := []Case{someCase(0, 1, Passed()), someCase(1, 1, Failed("wrong")), someCase(2, 1, Passed())}

	r := Runner{FailFast: true, Rerun: func(c Case) string { return "again " + c.ID.String() }}
	report, err := r.Run(context.Background(), cases)
	require.NoError(t, err)
	require.Equal(t, "1 passed, 1 failed, 0 unsupported, 1 skipped", report.Summary())
	require.Equal(t, "again ops/mul_mat type=q4_0 n=1", report.Results[1].Rerun)
	require.NotEmpty(t, report.Results[2].Reason)

	ctx, cancel := context.WithCancel(context.Background())
	cases[0].Run = func(context.Context) (Result, error) { cancel(); return Passed(), nil }
	report, err = (&Runner{}).Run(ctx, cases)
	require.NoError(t, err)
	require.True(t, report.Interrupted)
	require.Equal(t, "1 passed, 0 failed, 0 unsupported, 2 skipped", report.Summary())
	require.Equal(t, ExitFailed, report.ExitCode(), "a run that was cut short has not held")

	cases[1].Run = func(context.Context) (Result, error) { return Result{}, errors.New("no such file") }
	_, err = (&Runner{}).Run(context.Background(), cases)
	require.EqualError(t, err, "ops/mul_mat type=q4_0 n=1: no such file")
}

func TestFilter(t *testing.T) {
	r := Runner{Filter: regexp.MustCompile(`n=1$`)}
	selected := r.Select([]Case{someCase(0, 1, Passed()), someCase(1, 1, Passed()), someCase(11, 1, Passed())})
	require.Len(t, selected, 1)
}

// The shards of a run are a partition, and even.
func TestShards(t *testing.T) {
	var cases []Case
	total := int64(0)
	for i := range 200 {
		work := int64(i*i%97 + 1)
		total += work
		cases = append(cases, someCase(i, work, Passed()))
	}
	const shards = 7
	seen := map[string]int{}
	for s := range shards {
		r := Runner{ShardIndex: s + 1, ShardCount: shards}
		work := int64(0)
		for _, c := range r.Select(cases) {
			seen[c.ID.String()]++
			work += c.Work
		}
		require.InEpsilon(t, float64(total)/shards, float64(work), 0.2)
	}
	require.Len(t, seen, len(cases))
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
}

// report has one result of each kind.
func report() *Report {
	cmp, _ := Bits([]float32{1, 2}, []float32{1, 3})
	failed := cmp.Result()
	failed.Case, failed.Rerun, failed.Duration = "ops/mul_mat type=q4_0 n=2", "mverify --suite ops --filter '^x$'", 2*time.Millisecond
	failed.Details = []string{"a further line with <markup> & \"quotes\""}
	passed := Passed()
	passed.Case, passed.Duration = "dumps/forward model=tiny", time.Second
	passed.Counts = []Count{{"nodes expected", 12}, {"equal", 12}}
	refused := Refused("CPU does not support attention of q8_0")
	refused.Case = "ops/attention kv_type=q8_0"
	return &Report{
		Provenance: Provenance{Date: "2026-01-02T03:04:05Z", Command: "mverify --suite ops,dumps", Commit: "abc", Host: "a processor, 2 cores, linux", Device: "cpu (avx2)", Oracle: "llama.cpp v1"},
		Selected:   4,
		Results:    []Result{failed, passed, refused, {Case: "ops/add d=1", Outcome: Skipped, Reason: "interrupted"}},
	}
}

func TestFormats(t *testing.T) {
	for _, f := range []struct {
		format, file string
		verbose      bool
	}{{"text", "report.txt", false}, {"text", "report-v.txt", true}, {"json", "report.json", false}, {"jsonl", "report.jsonl", false}, {"junit", "report.xml", false}, {"sarif", "report.sarif", false}, {"github", "report.github", false}} {
		var b bytes.Buffer
		require.NoError(t, report().Write(&b, f.format, f.verbose))
		path := filepath.Join("testdata", f.file)
		if *update {
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), "%s: -update writes it again", path)
	}
	require.EqualError(t, report().Write(&bytes.Buffer{}, "yaml", false), `unknown format "yaml": want one of text, json, jsonl, junit, sarif, github`)
}

// Readers of the formats get back what was written.
func TestFormatsRead(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, report().Write(&b, "json", false))
	var back Report
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, *report(), back)

	b.Reset()
	require.NoError(t, report().Write(&b, "junit", false))
	var suites junitSuites
	require.NoError(t, xml.Unmarshal(b.Bytes(), &suites))
	require.Len(t, suites.Suites, 2)
	require.Equal(t, 3, suites.Suites[0].Tests)
	require.Equal(t, 1, suites.Suites[0].Failures)
	require.Equal(t, 2, suites.Suites[0].Skipped)
	require.Contains(t, suites.Suites[0].Cases[0].Failure.Text, `<markup> & "quotes"`)
}

func TestInterleave(t *testing.T) {
	var order []string
	side := func(name string) Side {
		return Side{Name: name, Round: func(context.Context) error { order = append(order, name); return nil }}
	}
	times, err := Interleave(context.Background(), 2, 9, 1, []Side{side("a"), side("b"), side("c")})
	require.NoError(t, err)
	require.Len(t, times, 3)
	orders := map[string]bool{}
	for i := 0; i < len(order); i += 3 {
		round := strings.Join(order[i:i+3], "")
		require.Len(t, round, 3)
		for _, name := range []string{"a", "b", "c"} {
			require.Contains(t, round, name, "every side once a round")
		}
		orders[round] = true
	}
	require.Len(t, order, 33)
	require.Greater(t, len(orders), 1, "the order changes")
	for _, side := range times {
		require.Len(t, side, 9, "warm-up is not kept")
	}
}

// Setup comes before each round of its own side, and its time is not the
// round's. (The clock is synctest's.)
func TestInterleaveSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := map[string]bool{}
		side := func(name string, d time.Duration) Side {
			return Side{Name: name,
				Setup: func(context.Context) error { time.Sleep(time.Hour); ready[name] = true; return nil },
				Round: func(context.Context) error {
					time.Sleep(d)
					require.Equal(t, map[string]bool{name: true}, ready)
					clear(ready)
					return nil
				}}
		}
		times, err := Interleave(context.Background(), 1, 2, 1, []Side{side("a", time.Second), side("b", time.Minute)})
		require.NoError(t, err)
		require.Equal(t, [][]time.Duration{{time.Second, time.Second}, {time.Minute, time.Minute}}, times)
	})
}

func TestInterleaveErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context) error { return broken }
	works := func(context.Context) error { return nil }
	_, err := Interleave(context.Background(), 0, 1, 1, []Side{{Name: "a", Round: fails}})
	require.EqualError(t, err, "a: broken")
	_, err = Interleave(context.Background(), 0, 1, 1, []Side{{Name: "b", Setup: fails, Round: works}})
	require.EqualError(t, err, "b: broken")

	ctx, cancel := context.WithCancel(context.Background())
	stops := func(context.Context) error { cancel(); return nil }
	times, err := Interleave(ctx, 0, 3, 1, []Side{{Name: "c", Round: stops}})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, times[0], 1, "the rounds so far")
}

func TestMedian(t *testing.T) {
	require.Equal(t, time.Duration(0), Median(nil))
	require.Equal(t, time.Duration(5), Median([]time.Duration{9, 5, 1}))
	require.Equal(t, time.Duration(6), Median([]time.Duration{9, 7, 1, 5}))
}

func TestSpread(t *testing.T) {
	require.Zero(t, Spread([]time.Duration{1, 9}), "two samples have no quartiles")
	require.Zero(t, Spread([]time.Duration{5, 5, 5, 5}))
	// A quarter of nine samples is 2.25, three quarters 6.75; the median is 5.
	var s []time.Duration
	for _, v := range []int{9, 1, 8, 2, 7, 3, 6, 4, 5} {
		s = append(s, time.Duration(v)*time.Second)
	}
	require.InDelta(t, (6.75-2.25)/5, Spread(s), 1e-9)
}
