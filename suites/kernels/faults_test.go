package kernels_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/suites/kernels"
	"minfer/suites/suitetest"
)

func TestPlantedFaults(t *testing.T) {
	suitetest.Red(t, kernels.Suite{}, []suitetest.Planted{
		{Name: "a file that does not compile",
			Faults: []suitetest.Fault{{File: "rope.metal", Old: "for (uint h = first;", New: "for (uint h = frist;"}},
			Filter: "compile file=rope.metal", Reason: "frist"},
		{Name: "a kernel whose file does not compile",
			Faults: []suitetest.Fault{{File: "rope.metal", Old: "for (uint h = first;", New: "for (uint h = frist;"}},
			Filter: "pipeline entry=rope ", Reason: "kernel kernel_rope is in none of"},
		{Name: "a kernel of another name",
			Faults: []suitetest.Fault{{File: "warm_up.metal", Old: "kernel void kernel_warm_up(", New: "kernel void kernel_warm("}},
			Filter: "file=warm_up|entry=warm_up", Reason: "kernel_warm"},
		{Name: "too much threadgroup memory",
			Faults: []suitetest.Fault{{File: "norm.metal", Old: "threadgroup float part[8];", New: "threadgroup float part[8200];"}},
			Filter: "entry=rms_norm 256", Reason: "32800"},
	})
}

// A kernel in two files is an error: which of them runs would be chance.
func TestTwice(t *testing.T) {
	own := suitetest.Kernels(t).(fstest.MapFS)
	text, err := fs.ReadFile(own, "warm_up.metal")
	require.NoError(t, err)
	own["zz.metal"] = &fstest.MapFile{Data: text}
	for _, r := range suitetest.Run(t, kernels.Suite{}, suitetest.Metal(t, own), "entry=warm_up").Results {
		require.Equal(t, harness.Fail, r.Outcome)
		require.Equal(t, "kernel kernel_warm_up is in warm_up.metal and in zz.metal: want one", r.Reason)
	}
}
