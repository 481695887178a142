package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The read loop reads every byte of its buffer, whatever the number of threads.
func TestReadLoop(t *testing.T) {
	for _, threads := range []int{1, 2, 3} {
		l := NewReadLoop(threads, 600)
		require.Equal(t, 600, l.Round(), "%d threads", threads)
		l.data[599] = 0 // the last byte is read too
		require.Equal(t, 599, l.Round(), "%d threads", threads)
	}
	l := NewReadLoop(1, 1000)
	require.InDelta(t, 500, l.Rate([]time.Duration{3 * time.Second, 2 * time.Second, 4 * time.Second}), 1e-9)
	require.Positive(t, Read(2, 1<<20))
}

// Every loop makes the number of multiply-adds that it says, which no machine does
// in no time, and more threads are no slower than half as many would be.
func TestPeak(t *testing.T) {
	for name, rate := range map[string]float64{"floats": MultiplyAdds(1, time.Millisecond), "bytes": ByteMultiplyAdds(1, time.Millisecond)} {
		t.Logf("%s: %.3g multiply-adds a second", name, rate)
		require.Greater(t, rate, 1e7, name)
		require.Less(t, rate, 1e13, name)
	}
	plainLoop(3)
	require.Equal(t, uint32(0), sink.Load())
}
