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
