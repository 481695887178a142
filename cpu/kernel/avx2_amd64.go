package kernel

import (
	"maps"
	"sync"

	"golang.org/x/sys/cpu"

	"minfer/engine/gguf"
)

// The AVX2 level: assembly written by gen, with the generic kernels for what is
// rare or short. A kernel takes whole vectors or blocks; the Go function around
// it checks the bounds that the plain Go kernels would check, once, and does the
// tails.

//go:generate go run ./gen -family float -out dot_float_amd64.s -stubs dot_float_amd64.go
//go:generate go run ./gen -family k -out dot_k_amd64.s -stubs dot_k_amd64.go
//go:generate go run ./gen -family q32 -out dot_q32_amd64.s -stubs dot_q32_amd64.go

// avx2 returns the assembly kernels, or nil if the CPU lacks AVX2, FMA or F16C.
var avx2 = sync.OnceValue(func() *Table {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !cpu.X86.HasF16C {
		return nil
	}
	t := generic
	t.Name = "avx2"
	t.Weights = maps.Clone(generic.Weights)
	set := func(typ gguf.Type, mv matVecAsm, mv4 matVec4Asm) {
		w := *generic.Weights[typ]
		w.MatVec, w.MatVec4 = mv.blocks(typ, w.Act), mv4.blocks(typ, w.Act)
		t.Weights[typ] = &w
	}
	setFloat := func(typ gguf.Type, mv matVecAsm, pack packAsm, mv4 packedAsm, tail tailFunc) {
		w := *generic.Weights[typ]
		w.MatVec, w.MatVec4 = mv.steps(typ, tail), mv4.steps(typ, pack, tail)
		t.Weights[typ] = &w
	}
	setFloat(gguf.F32, matVecF32AVX2, packF32AVX2, matVec4F32AVX2, tailF32)
	setFloat(gguf.F16, matVecF16AVX2, packF16AVX2, matVec4F16AVX2, tailF16)
	setFloat(gguf.BF16, matVecBF16AVX2, packBF16AVX2, matVec4BF16AVX2, tailBF16)
	set(gguf.Q4_0, matVecQ4_0AVX2, matVec4Q4_0AVX2)
	set(gguf.Q4_1, matVecQ4_1AVX2, matVec4Q4_1AVX2)
	set(gguf.Q5_0, matVecQ5_0AVX2, matVec4Q5_0AVX2)
	set(gguf.Q5_1, matVecQ5_1AVX2, matVec4Q5_1AVX2)
	set(gguf.Q8_0, matVecQ8_0AVX2, matVec4Q8_0AVX2)
	set(gguf.Q4_K, matVecQ4_KAVX2, matVec4Q4_KAVX2)
	set(gguf.Q5_K, matVecQ5_KAVX2, matVec4Q5_KAVX2)
	set(gguf.Q6_K, matVecQ6_KAVX2, matVec4Q6_KAVX2)
	return &t
})

// The forms of the assembly dots; n counts blocks, or
// steps of 32 elements.
type (
	matVecAsm  func(dst *float32, w *byte, stride, rows int, act *byte, n int)
	matVec4Asm func(dst *float32, dstStride int, w *byte, stride, rows int, act *byte, actStride, n int)
	packAsm    func(dst *float32, act *byte, actStride, n int)
	packedAsm  func(dst *float32, dstStride int, w *byte, stride, rows int, packed *float32, n int)
	// A tailFunc adds elements i..n-1 to a sum.
	tailFunc func(s float32, w, act []byte, i, n int) float32
)

// blocks makes the kernel of a type with blocks.
func (asm matVecAsm) blocks(t, act gguf.Type) MatVecFunc {
	size, wBytes, aBytes := t.BlockSize(), t.RowBytes(t.BlockSize()), act.RowBytes(t.BlockSize())
	return func(dst []float32, w []byte, stride int, act []byte, n int) {
		n /= size
		if n == 0 || len(dst) == 0 {
			clear(dst)
			return
		}
		w = w[:(len(dst)-1)*stride+n*wBytes]
		act = act[:n*aBytes]
		asm(&dst[0], &w[0], stride, len(dst), &act[0], n)
	}
}

func (asm matVec4Asm) blocks(t, act gguf.Type) MatVec4Func {
	size, wBytes, aBytes := t.BlockSize(), t.RowBytes(t.BlockSize()), act.RowBytes(t.BlockSize())
	return func(dst []float32, dstStride int, w []byte, stride, rows int, act []byte, actStride, n int) {
		if rows == 0 {
			return
		}
		dst = dst[:3*dstStride+rows]
		n /= size
		if n == 0 {
			for t := range 4 {
				clear(dst[t*dstStride:][:rows])
			}
			return
		}
		w = w[:(rows-1)*stride+n*wBytes]
		act = act[:3*actStride+n*aBytes]
		asm(&dst[0], dstStride, &w[0], stride, rows, &act[0], actStride, n)
	}
}

// steps makes the kernel of a plain type.
func (asm matVecAsm) steps(t gguf.Type, tail tailFunc) MatVecFunc {
	size := t.RowBytes(1)
	return func(dst []float32, w []byte, stride int, act []byte, n int) {
		if n < 32 || len(dst) == 0 {
			clear(dst)
		} else {
			w, act := w[:(len(dst)-1)*stride+n*size], act[:n*size]
			asm(&dst[0], &w[0], stride, len(dst), &act[0], n/32)
		}
		if n%32 != 0 {
			for i, s := range dst {
				dst[i] = tail(s, w[i*stride:], act, n&^31, n)
			}
		}
	}
}

// packed is memory for widened activation rows.
var packed = sync.Pool{New: func() any { return new([]float32) }}

func (asm packedAsm) steps(t gguf.Type, pack packAsm, tail tailFunc) MatVec4Func {
	size := t.RowBytes(1)
	return func(dst []float32, dstStride int, w []byte, stride, rows int, act []byte, actStride, n int) {
		if rows == 0 {
			return
		}
		dst = dst[:3*dstStride+rows]
		if n < 32 {
			for t := range 4 {
				clear(dst[t*dstStride:][:rows])
			}
		} else {
			w, act := w[:(rows-1)*stride+n*size], act[:3*actStride+n*size]
			y := packed.Get().(*[]float32)
			if len(*y) < 128*(n/32) {
				*y = make([]float32, 128*(n/32))
			}
			pack(&(*y)[0], &act[0], actStride, n/32)
			asm(&dst[0], dstStride, &w[0], stride, rows, &(*y)[0], n/32)
			packed.Put(y)
		}
		if n%32 != 0 {
			for t := range 4 {
				for i, s := range dst[t*dstStride:][:rows] {
					dst[t*dstStride+i] = tail(s, w[i*stride:], act[t*actStride:], n&^31, n)
				}
			}
		}
	}
}
