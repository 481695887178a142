package kernel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Asking for memory that is gone is no fault: threads may still read a model's file
// ahead when it is closed.
func TestPrefetchGone(t *testing.T) {
	eachLevel(t, func(t *testing.T, tab, _ *Table) {
		if tab.Prefetch == nil {
			t.Skip("nothing is read ahead")
		}
		m, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		tab.Prefetch(m)
		require.NoError(t, unix.Mprotect(m, unix.PROT_NONE))
		tab.Prefetch(m)
		require.NoError(t, unix.Munmap(m))
		tab.Prefetch(m)
		for n := range 200 { // ends at any place
			tab.Prefetch(m[1:][:n])
		}
	})
}
