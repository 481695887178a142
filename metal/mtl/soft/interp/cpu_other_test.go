//go:build !linux

package interp

import "time"

var start = time.Now()

// cpuTime is the clock where the processor time is not known.
func cpuTime() time.Duration { return time.Since(start) }
