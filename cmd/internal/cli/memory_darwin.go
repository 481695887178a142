package cli

import (
	"math"

	"golang.org/x/sys/unix"
)

// Memory is the size of this machine's memory in bytes, 0 where it is unknown.
func Memory() int {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int(min(n, math.MaxInt))
}
