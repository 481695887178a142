//go:build !linux && !darwin

package cli

// Memory is the size of this machine's memory in bytes, 0 where it is unknown.
func Memory() int { return 0 }
