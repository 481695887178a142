package cli

import (
	"math"

	"golang.org/x/sys/unix"
)

// Memory is the size of this machine's memory in bytes, 0 where it is unknown.
func Memory() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int(min(uint64(info.Totalram)*uint64(info.Unit), math.MaxInt))
}
