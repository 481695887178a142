// Package kernel holds the CPU path's arithmetic on raw slices: dot products of
// every weight type, activation quantisers, normalisation, softmax, SiLU, RoPE
// and the attention products.
//
// The bits of every result are the contract (docs/numerics.md): each kernel
// gives what llama.cpp's AVX2 build gives, or at level Z its AVX-512 build. The
// plain Go functions are the definition and run anywhere; the others compute the
// same bits faster.
// Shapes, types and capacities are checked by package cpu, not here: a kernel
// trusts its arguments, as far as Go's slices let it.
//
// Use: take a [Table] from [Generic], [AVX2], [VNNI], [GenericZ] or [AVX512] and call its functions. Tables
// and functions are immutable and safe for concurrent use on disjoint outputs.
//
// Conventions of all functions: inputs are never changed; an output may be the
// same slice as an input only where the comment says so; no alignment is
// assumed; nothing beyond the lengths given is read or written; quantised and
// half-width rows are []byte in the layouts of docs/numerics.md section 3,
// little endian. FMA is one rounding, every other operation rounds by itself.
package kernel

import "minfer/engine/gguf"

// A MatVecFunc computes len(dst) dot products of weight rows with one
// activation row: dst[i] = dot(w[i*stride:], act) over n elements
// (section 5). stride is the distance in bytes between the starts of two weight
// rows and may be larger than a row (K cache: rows of all heads interleaved).
// Only the n elements of each row are read. n is a multiple of the weight
// type's block size, any n >= 0 for F32, F16 and BF16. act is in the weight
// type's activation type ([Weight.Act]).
type MatVecFunc func(dst []float32, w []byte, stride int, act []byte, n int)

// A MatVec4Func is MatVecFunc for four activation rows at once:
// dst[t*dstStride+i] = dot(weight row i, act[t*actStride:]) for t in 0..3 and
// i in 0..rows-1. dstStride counts elements, stride and actStride bytes.
type MatVec4Func func(dst []float32, dstStride int, w []byte, stride, rows int, act []byte, actStride, n int)

// A Weight holds the kernels of one weight type.
type Weight struct {
	Type gguf.Type
	// Act is the type that an activation row is converted to (section 4): F32,
	// F16, BF16, Q8_0, Q8_1 or Q8_K.
	Act gguf.Type
	// MatVec is never nil. MatVec4 may be nil: callers then call MatVec four
	// times. Both give the same bits.
	MatVec  MatVecFunc
	MatVec4 MatVec4Func
	// MatMul may be nil, as MatVec4; where it is not, it is the fastest.
	MatMul *MatMul
	// Dequantize widens len(dst) elements, a multiple of the block size, of a
	// row (get_rows, section 3).
	Dequantize func(dst []float32, row []byte)
}

// A Table is one level's set of kernels.
type Table struct {
	// Name says which kernels these are.
	Name string
	// Lanes is how many lanes the accumulators of one dot of floats have: 32, or at
	// level Z 64. Attention pads its windows to a multiple.
	Lanes int

	// Weights maps a weight type to its kernels. Types: F32, F16, BF16, Q4_0,
	// Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K.
	Weights map[gguf.Type]*Weight

	// Quantize maps an activation type to the conversion of one activation row
	// (section 4): len(src) is a multiple of the block size (32; Q8_K 256; any
	// for F32, F16, BF16), dst has gguf.Type.RowBytes(len(src)) bytes, all of
	// which are written. Types: F32 (a copy), F16, BF16, Q8_0, Q8_1, Q8_K. F16
	// serves the F16 KV cache too.
	Quantize map[gguf.Type]func(dst []byte, src []float32)

	// Add: dst[i] = a[i] + b[i]. dst may be a or b. Mul likewise.
	Add func(dst, a, b []float32)
	Mul func(dst, a, b []float32)
	// Scale: dst[i] = x[i] * s. dst may be x.
	Scale func(dst, x []float32, s float32)

	// RmsNorm normalises len(x)/d rows of d elements each (section 6):
	// y = x * 1/sqrt(mean(x*x) + eps), then y * w[i] as a second rounding when w
	// is not nil (len(w) == d). len(dst) == len(x); dst may be x. Several rows in
	// one call so that their sequential float64 sums can overlap.
	RmsNorm func(dst, x, w []float32, d int, eps float32)

	// SoftMax replaces x by its softmax (section 8): w_i = x_i*scale for i < n,
	// masked (exactly zero afterwards) for i >= n. 1 <= n <= len(x). The length
	// that decides which elements take the scalar tail is len(x): attention
	// passes a multiple of Lanes.
	SoftMax func(x []float32, n int, scale float32)

	// Silu: dst[i] = x[i] / (1 + exp(-x[i])) over one row, whose length decides
	// which elements take the scalar tail. dst may be x.
	Silu func(dst, x []float32)
	// SwiGLU: dst[i] = silu(gate[i]) * up[i] over one row. dst may be gate or up.
	SwiGLU func(dst, gate, up []float32)

	// RopeNeox and RopeNorm rotate the len(x)/headDim heads of one token (section
	// 7 and its extension): cs holds cos, sin of pair k at cs[2k], cs[2k+1];
	// len(cs) <= headDim channels of each head are rotated, the remaining ones
	// copied. Neox pairs channel k with k + len(cs)/2, norm pairs 2k with 2k+1.
	// dst may be x.
	RopeNeox func(dst, x []float32, headDim int, cs []float32)
	RopeNorm func(dst, x []float32, headDim int, cs []float32)

	// AttnV accumulates values over cells (section 9.4):
	// dst[c] = dot over cells j = 0..n-1 of V[j][c] and p[j], where element j
	// falls into lane j%Lanes of all accumulators as in the dot of its type. v starts
	// at channel 0 of the head in cell 0, and stride is the distance in bytes
	// between cells. Cells up to the next multiple of 256 count as +0*+0.
	// AttnVF32: v holds float32, p float32. AttnVF16: v holds float16, p is
	// rounded to float16 first. len(p) >= n; n >= 1; scratch has at least
	// Lanes*len(dst) elements and its content is unspecified before and after.
	AttnVF32 func(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32)
	AttnVF16 func(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32)
	// Prefetch may be nil. It asks for memory that will be read soon, waits for
	// nothing and changes nothing; the memory may be gone.
	Prefetch func(b []byte)
	// Attention may be nil; where it is not, it is the fastest for the shapes that it
	// takes.
	Attention *Attention
}

// Generic returns the plain Go kernels: the AVX2 level's bits on any CPU.
func Generic() *Table { return &generic }

// GenericZ returns the plain Go kernels of level Z: what llama.cpp's AVX-512 build
// gives.
func GenericZ() *Table { return genericZ() }

// AVX512 returns level Z's AVX-512 kernels, or nil if this CPU, or this build, lacks
// them.
func AVX512() *Table { return avx512() }

// VNNI returns the AVX2 level's bits from AVX-512 kernels (F, BW, DQ, VL and VNNI)
// where they are faster, or nil if this CPU, or this build, lacks them.
func VNNI() *Table { return vnni() }

// AVX2 returns the AVX2+FMA+F16C kernels, or nil if this CPU, or this build,
// lacks them.
func AVX2() *Table { return avx2() }
