//go:build !amd64

package kernel

// avx2 is nil: another architecture.
func avx2() *Table { return nil }
