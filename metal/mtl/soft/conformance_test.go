package soft_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/mtl"
	"minfer/metal/mtl/mtltest"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

// TestConformance runs the suite in the modes and numbers of threads between
// which results must not differ. A finding of the sanitizer would fail a submit.
func TestConformance(t *testing.T) {
	for _, o := range []soft.Options{
		{Mode: san.Off, Threads: 1},
		{Mode: san.Strict, Threads: 2},
		{Mode: san.Chaos, Threads: 3, Seed: 5},
	} {
		t.Run(fmt.Sprintf("%v, %d threads", o.Mode, o.Threads), func(t *testing.T) {
			mtltest.Run(t, func(t testing.TB) mtl.Device {
				d, err := soft.New(o)
				require.NoError(t, err)
				return d
			})
		})
	}
}
