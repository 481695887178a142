package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/lever"
	"minfer/metal"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
)

// strict is a backend on a software device that checks everything.
func strict(t *testing.T, o metal.Options) *metal.Backend {
	t.Helper()
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	require.NoError(t, err)
	o.Poison = true
	b, err := metal.New(dev, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.Close())
		require.NoError(t, dev.Close())
	})
	return b
}

func TestNewCompilesEverything(t *testing.T) {
	b := strict(t, metal.Options{Levers: lever.Default()})
	require.Equal(t, "Metal", b.Name())
}
