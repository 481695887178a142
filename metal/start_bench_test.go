package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal"
	"minfer/metal/mtl/soft"
)

// Every pipeline of the table, as a command compiles them at start.
func BenchmarkCompile(b *testing.B) {
	dev, err := soft.New(soft.Options{})
	require.NoError(b, err)
	for b.Loop() {
		p, err := metal.Compile(dev, nil)
		require.NoError(b, err)
		p.Release()
	}
	b.ReportMetric(float64(len(metal.Table)), "entries")
}
