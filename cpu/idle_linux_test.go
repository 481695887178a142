package cpu

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Threads without work look for some for a while and then sleep: the process does
// nothing. Other tests' threads may take a moment to end.
func TestIdleThreadsSleep(t *testing.T) {
	p := newPool(2, spinLimit, nil)
	defer p.close()
	p.run(2, func(int, int) {})
	require.Eventually(t, p.workers[0].asleep.Load, 10*time.Second, time.Millisecond)
	used := func() time.Duration {
		var u unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	require.Eventually(t, func() bool {
		before := used()
		time.Sleep(100 * time.Millisecond)
		return used()-before < 30*time.Millisecond
	}, 10*time.Second, time.Millisecond)
	ran := 0
	p.run(1, func(int, int) { ran++ })
	p.runParts([]int{0, 1, 2}, func(int, int) {})
	require.Equal(t, 1, ran)
}
