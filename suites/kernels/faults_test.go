package kernels_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/harness"
	"minfer/metal/mtl"
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

// counted counts what of a device is still held.
type counted struct {
	mtl.Device
	open, libraries *int
}

func (d counted) Compile(ctx context.Context, src mtl.Source) (mtl.Library, error) {
	l, err := d.Device.Compile(ctx, src)
	if err != nil {
		return nil, err
	}
	*d.libraries++
	return countedLibrary{l, d.libraries}, nil
}

func (d counted) Close() error {
	*d.open--
	return d.Device.Close()
}

type countedLibrary struct {
	mtl.Library
	held *int
}

func (l countedLibrary) Release() {
	*l.held--
	l.Library.Release()
}

// The suite's device and libraries end with the environment.
func TestReleases(t *testing.T) {
	env := suitetest.Metal(t, suitetest.Kernels(t, suitetest.Fault{File: "rope.metal", Old: "for (uint h = first;", New: "for (uint h = frist;"}))
	opened, open, libraries, first := 0, 0, 0, env.Device.Open
	env.Device.Open = func(threads int) (mtl.Device, error) {
		dev, err := first(threads)
		opened++
		open++
		return counted{dev, &open, &libraries}, err
	}
	report := suitetest.Run(t, kernels.Suite{}, env, "file=(norm|rope|warm_up)")
	require.Len(t, report.Results, 3)
	require.Equal(t, []int{1, 1, 2}, []int{opened, open, libraries})
	env.Close()
	require.Equal(t, []int{1, 0, 0}, []int{opened, open, libraries})
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
