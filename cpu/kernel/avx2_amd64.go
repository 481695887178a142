package kernel

// avx2 returns the assembly kernels, or nil if the CPU lacks AVX2, FMA or F16C.
func avx2() *Table { return nil }
