package kernel

// A MatMul holds a weight type's kernels for activations that were prepared
// first: converted to the type's activation type ([Weight.Act]) and then laid out
// for the kernel, once for all weight rows. The bits are those of the type's
// MatVec. Prepared memory and scratch memory should be aligned to 64 bytes; n is
// the number of elements of a row.
type MatMul struct {
	// Step is what n must be a multiple of.
	Step int
	// RowBytes is the size of a prepared row.
	RowBytes func(n int) int
	// PrepareRow lays out one activation row.
	PrepareRow func(dst, act []byte, n int)
	// MulRow is MatVecFunc for a prepared row.
	MulRow MatVecFunc

	// Tokens is how many activation rows a tile holds, TileBytes its size.
	Tokens    int
	TileBytes func(n int) int
	// PrepareTile lays out 1 to Tokens activation rows, actStride bytes apart.
	PrepareTile func(dst, acts []byte, actStride, tokens, n int)
	// Mul computes dst[t*dstStride+i] = dot(weight row i, activation row t) for i in
	// 0..rows-1 and t in 0..tokens-1. tiles holds the tiles of all tokens, one behind
	// the other; scratch has ScratchBytes(n) bytes of unspecified content.
	Mul func(dst []float32, dstStride int, w []byte, stride, rows int, tiles []byte, tokens, n int, scratch []byte)
	// ScratchBytes is the memory that Mul needs beside its arguments.
	ScratchBytes func(n int) int
}
