package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gcPercent is the percentage that the collector has.
func gcPercent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// The first goal is large, and no other: of a cache of hundreds of MB it would be GB.
func TestDeferGC(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	end := deferGC()
	require.Equal(t, 2400, gcPercent())
	end()
	require.Equal(t, 100, gcPercent())

	end = deferGC()
	require.Equal(t, 2400, gcPercent())
	runtime.GC()
	require.Eventually(t, func() bool { return gcPercent() == 100 }, 10*time.Second, time.Millisecond)
	end()
	require.Equal(t, 100, gcPercent())

	debug.SetGCPercent(50)
	end = deferGC()
	require.Equal(t, 50, gcPercent())
	debug.SetGCPercent(60)
	end()
	require.Equal(t, 60, gcPercent())
}
