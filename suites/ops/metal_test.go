package ops_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/suites/ops"
	"minfer/suites/suitetest"
)

// Faults in the kernels that only this suite looks at.
func TestPlantedKernelFaults(t *testing.T) {
	suitetest.Red(t, ops.Suite{}, []suitetest.Planted{
		{Name: "norm: eps is left out",
			Faults: []suitetest.Fault{{File: "norm.metal", Old: "rsqrt(sum / float(p.cols) + p.eps), p, tid, 256", New: "rsqrt(sum / float(p.cols)), p, tid, 256"}},
			Filter: "rms_norm d=(31|113|768|1025) rows=3 eps=1e-06$", Reason: "rms_norm 256"},
		{Name: "norm: one simdgroup's part is left out",
			Faults: []suitetest.Fault{{File: "norm.metal", Old: "(part[6] + part[7])", New: "(part[6] + part[6])"}},
			Filter: "rms_norm d=(768|1025|18944) rows=[0-9]+ eps=1e-06$", Reason: "worst at"},
		{Name: "rope: the last head is left out",
			Faults: []suitetest.Fault{{File: "rope.metal", Old: "min(first + ROPE_HEADS, p.heads)", New: "min(first + ROPE_HEADS, p.heads / 2 * 2)"}},
			Filter: "rope mode=neox hd=(96|64) n_head=3", Reason: "unwritten-output"},
		{Name: "rope: the magnitude is left out",
			Faults: []suitetest.Fault{{File: "rope.h", Old: "c *= magnitude;", New: ""}},
			Filter: "rope .*scaling=yarn", Reason: "rope"},
		{Name: "silu: the wrong sign",
			Faults: []suitetest.Fault{{File: "elementwise.metal", Old: "exp(min(-x, 87.0f))", New: "exp(min(x, 87.0f))"}},
			Filter: "(silu|swiglu) d=(7|1025)", Reason: "worst at"},
		{Name: "rope: the last head of many is left out",
			Faults: []suitetest.Fault{{File: "rope.metal", Old: "min(first + ROPE_HEADS, p.heads)", New: "min(first + ROPE_HEADS, p.heads - (p.heads > 16 ? 1u : 0u))"}},
			Filter: "rope .*n_head=(17|65) ", Reason: "unwritten-output"},
		{Name: "silu: gates below -60 count as zero",
			Faults: []suitetest.Fault{{File: "elementwise.metal", Old: "x < -87.0f ?", New: "x < -60.0f ?"}},
			Filter: "(silu|swiglu) .*far=true", Reason: "worst at"},
		{Name: "silu: gates of any size count as -87",
			Faults: []suitetest.Fault{{File: "elementwise.metal", Old: "return x < -87.0f ? 0.0f : y;", New: "return y;"}},
			Filter: "(silu|swiglu) .*far=true", Reason: "want "},
		{Name: "silu: the exponential overflows",
			Faults: []suitetest.Fault{{File: "elementwise.metal", Old: "exp(min(-x, 87.0f))", New: "exp(min(-x, 80.0f))"}},
			Filter: "swiglu .*far=true", Reason: "worst at"},
		{Name: "permute: a fourth dimension as the third",
			Faults: []suitetest.Fault{{File: "elementwise.metal", Old: "r3 * p.step[3]", New: "r3 * min(p.step[3], p.step[2])"}},
			Filter: "permute shape=(5,3,2,4|7,3,2,3)", Reason: "tolerance 0"},
		{Name: "warm-up: pages are left out",
			Faults: []suitetest.Fault{{File: "warm_up.metal", Old: "i += 32 * p.stride", New: "i += 31 * p.stride"}},
			Filter: "warm_up bytes=262144", Reason: "the sum of one word of every page"},
	})
}

// Of a part of the cases, coverage is shown and not judged.
func TestCoverageOfSomeCases(t *testing.T) {
	report := suitetest.Run(t, ops.Suite{}, suitetest.Metal(t, nil), "ops/(add|coverage) ")
	last := report.Results[len(report.Results)-1]
	require.Equal(t, harness.Skipped, last.Outcome)
	require.True(t, strings.HasPrefix(last.Reason, "coverage: 1 of "), last.Reason)
	require.Contains(t, last.Reason, "not judged: ")
}

// A user's own lines run on a Metal device too; a shape that the backend must
// refuse is refused with its numbers, and a head count that does not divide is.
func TestCaseLinesOnMetal(t *testing.T) {
	env := suitetest.Metal(t, nil)
	lines, err := harness.ReadLines("my.jsonl", strings.NewReader(`
{"op":"mul_mat","type":"q6_K","m":17,"n":3,"k":256}
{"op":"attention","hd":64,"n_head":6,"n_head_kv":4,"n_kv":9,"n_tokens":2,"kv_type":"f16"}
{"op":"soft_max","d":9,"rows":2,"scale":1}
`))
	require.NoError(t, err)
	env.Lines = lines
	report := suitetest.Run(t, ops.Suite{}, env, "")
	require.Len(t, report.Results, 3)
	r := report.Results[0]
	require.Equal(t, harness.Pass, r.Outcome, r.Reason)
	require.Greater(t, float64(r.Comparison.NMSE), 0.0)
	require.Less(t, float64(r.Comparison.NMSE), 1e-12)
	require.Less(t, float64(r.Comparison.Share), 1.0)
	require.Equal(t, harness.Unsupported, report.Results[1].Outcome)
	require.Contains(t, report.Results[1].Reason, "n_head 6 is no multiple of n_head_kv 4 (force CPU with MINFER_DISABLE_MPS=1)")
	require.Equal(t, harness.Unsupported, report.Results[2].Outcome)
	require.Equal(t, "Metal does not support soft_max of f32", report.Results[2].Reason)
}

// What the device's sanitizer finds fails a case whose values are right.
func TestSanitizerFindings(t *testing.T) {
	fault := suitetest.Fault{File: "elementwise.metal", Old: "y[i] = silu(x[i]);", New: "y[i] = silu(x[i]) + 0.0f * x[i + 1];"}
	for _, r := range suitetest.Run(t, ops.Suite{}, suitetest.Metal(t, suitetest.Kernels(t, fault)), "/silu d=113 rows=3$").Results { // reads past the end
		require.Equal(t, harness.Fail, r.Outcome)
		require.Contains(t, r.Reason, "out-of-bounds")
	}
}
