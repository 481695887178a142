//go:build !amd64

package kernel

// avx2 is nil: another architecture.
func avx2() *Table { return nil }

// vnni and avx512 are nil likewise.
func vnni() *Table   { return nil }
func avx512() *Table { return nil }
