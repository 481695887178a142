package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cmd/internal/cli"
	"minfer/engine/lever"
	"minfer/harness"
	"minfer/suites"
	"minfer/suites/ops"
	"minfer/suites/suitetest"
)

// Several devices are one run and one report: a case of both is there twice, told
// apart by its device; what no device changes is there once.
func TestSeveralDevices(t *testing.T) {
	code, out, errs := mverify(t, "--suite", "ops,tokenizer", "--device", "cpu,soft", "--filter", "ops/add d=[17] rows=4$|tokenizer/.*tiny-qwen3.*", "--format", "json")
	require.Equal(t, harness.ExitHeld, code, errs)
	var r harness.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Regexp(t, `^cpu \(\w+\), soft \(strict\)$`, r.Provenance.Device)
	seen := map[string]bool{}
	devices := map[string]int{}
	for _, res := range r.Results {
		key := res.Case + "@" + res.Device
		require.False(t, seen[key], key)
		seen[key] = true
		devices[res.Device]++
		if strings.HasPrefix(res.Case, "tokenizer/") {
			require.Empty(t, res.Device)
		}
	}
	require.Equal(t, 2, devices["cpu"])
	require.Equal(t, 2, devices["soft"])
	require.Positive(t, devices[""])

	// Shards are cut across the devices, without a case twice.
	var union []string
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		_, out, _ := mverify(t, "--suite", "all", "--device", "cpu,soft", "--list", "--shard", shard)
		union = append(union, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	code, out, errs = mverify(t, "--suite", "all", "--device", "cpu,soft", "--list")
	require.Equal(t, harness.ExitHeld, code)
	require.Empty(t, errs, "every suite has a device")
	all := strings.Split(strings.TrimSpace(out), "\n")
	require.ElementsMatch(t, all, union)
	for _, part := range []string{"dumps/", "tokenizer/", "safety/", "kernels/", " on cpu", " on soft"} {
		require.Contains(t, out, part)
	}
	require.NotRegexp(t, `(?m)^dumps/.* on soft$`, out)
	require.NotRegexp(t, `(?m)^kernels/.* on cpu$`, out)
}

// Each of seven shards of everything has its share of the work, by the budgets of the
// cases, and none has another's case.
func TestShardsOfEqualWork(t *testing.T) {
	for _, tier := range []string{"quick", "full", "exhaustive"} {
		f := flags{}
		f.register(cli.Streams{}) // sets the defaults
		f.tier = tier
		devices := []string{"cpu", "soft"}
		targets, _, err := f.environments(lever.Default(), devices)
		require.NoError(t, err)
		defer os.RemoveAll(targets[0].env.Temp)
		each, _, _ := divide(allSuites, devices)
		for i := range targets {
			targets[i].suites = each[i]
			defer targets[i].env.Close()
		}
		all, err := cases(targets)
		require.NoError(t, err)
		var total int64
		for _, c := range all {
			total += max(c.Work, 1)
		}
		seen := map[string]bool{}
		mean, most := float64(total)/7, 0.0
		for i := 1; i <= 7; i++ {
			var sum int64
			for _, c := range (&harness.Runner{ShardIndex: i, ShardCount: 7}).Select(all) {
				key := c.ID.String() + "@" + c.Device
				require.False(t, seen[key], "%s is in two shards", key)
				seen[key] = true
				sum += max(c.Work, 1)
			}
			require.InEpsilon(t, mean, float64(sum), 0.2, "tier %s, shard %d/7", tier, i)
			most = max(most, math.Abs(float64(sum)/mean-1))
		}
		t.Logf("tier %s: %d cases, each shard's work within %.1f %% of the mean", tier, len(all), 100*most)
		require.Len(t, seen, len(all))
	}
}

// A failing case is repeated on its own device.
func TestRerunDevice(t *testing.T) {
	f := flags{devices: "cpu,soft", mode: "race", tier: "quick", seed: 1, variant: "haswell"}
	c := harness.Case{ID: harness.ID{Suite: "ops", Op: "add"}, Device: "soft"}
	require.Equal(t, "mverify --suite ops --filter '^ops/add$' --device soft --mode race", f.rerun(c))
	c.Device = "cpu"
	require.Equal(t, "mverify --suite ops --filter '^ops/add$'", f.rerun(c))
}

// A failure that names a line of a kernel is a finding there.
func TestLocated(t *testing.T) {
	fail := func(suite, reason string) []harness.Finding {
		c := located(harness.Case{ID: harness.ID{Suite: suite, Op: "x"}, Run: func(context.Context) (harness.Result, error) { return harness.Failed("%s", reason), nil }})
		res, err := c.Run(context.Background())
		require.NoError(t, err)
		return res.Findings
	}
	require.Equal(t, []harness.Finding{{Rule: "device-race", Level: harness.LevelError, Message: "two writes", At: harness.Place{File: "metal/kernels/norm.metal", Line: 12, Column: 5}}},
		fail("ops", "metal: submit failed: norm.metal:12:5: device-race: two writes"))
	require.Empty(t, fail("ops", "metal: nosuch.metal:12:5: device-race: two writes"))
	require.Equal(t, "suites/safety/testdata/cases/01-tile-reload.metal",
		fail("safety", "expected clean, found: 01-tile-reload.metal:3:1: error: nan: x")[0].At.File)
}

// A barrier taken out of a kernel: the suite's failure is an annotation at the line of
// the kernel where the race is.
func TestPlantedRaceIsAnnotated(t *testing.T) {
	env := suitetest.Metal(t, suitetest.Kernels(t, suitetest.Fault{File: "norm.metal", Old: "threadgroup_barrier(mem_flags::mem_threadgroup);"}))
	list, err := cases([]target{{"soft", env, []suites.Suite{ops.Suite{}}}})
	require.NoError(t, err)
	f := flags{devices: "soft", tier: "quick", seed: 1, variant: "haswell"}
	runner := harness.Runner{Filter: regexp.MustCompile(`^ops/rms_norm d=896 rows=3 eps=1e-06 weight=false$`), Rerun: f.rerun}
	report, err := runner.Run(context.Background(), list)
	require.NoError(t, err)
	require.Equal(t, 1, report.Count(harness.Fail), "%v", report.Results)
	var out strings.Builder
	require.NoError(t, report.Write(&out, "github", false))
	require.Regexp(t, `^::error file=metal/kernels/norm.metal,line=\d+,col=\d+,title=threadgroup-race::write and read of .*%0Acase: ops/rms_norm d=896 rows=3 eps=1e-06 weight=false%0Arerun: mverify --suite ops --filter '.*' --device soft\n`, out.String())
}
