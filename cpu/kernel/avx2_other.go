//go:build !amd64

package kernel

// avx2 is nil: another architecture.
func avx2() *Table { return nil }

// vnni is nil likewise.
func vnni() *Table { return nil }
