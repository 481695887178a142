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

//go:generate go run ./gen -family attn -out attn_amd64.s -stubs attn_amd64.go
//go:generate go run ./gen -family exp -out exp_amd64.s -stubs exp_amd64.go
//go:generate go run ./gen -family float -out dot_float_amd64.s -stubs dot_float_amd64.go
//go:generate go run ./gen -family k -out dot_k_amd64.s -stubs dot_k_amd64.go
//go:generate go run ./gen -family ops -out ops_amd64.s -stubs ops_amd64.go
//go:generate go run ./gen -family q32 -out dot_q32_amd64.s -stubs dot_q32_amd64.go
//go:generate go run ./gen -family quantize -out quantize_amd64.s -stubs quantize_amd64.go

// avx2 returns the assembly kernels, or nil if the CPU lacks AVX2, FMA or F16C.
var avx2 = sync.OnceValue(func() *Table {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !cpu.X86.HasF16C {
		return nil
	}
	t := &Table{
		Name:    "avx2",
		Lanes:   32,
		Weights: maps.Clone(generic.Weights),
		Quantize: map[gguf.Type]func(dst []byte, src []float32){
			gguf.F32:  copyFloats,
			gguf.F16:  narrowAsm(quantizeF16AVX2).row(gguf.F16, quantizeF16),
			gguf.BF16: narrowAsm(quantizeBF16AVX2).row(gguf.BF16, quantizeBF16),
			gguf.Q8_0: narrowAsm(quantizeQ8_0AVX2).row(gguf.Q8_0, nil),
			gguf.Q8_1: narrowAsm(quantizeQ8_1AVX2).row(gguf.Q8_1, nil),
			gguf.Q8_K: narrowAsm(quantizeQ8_KAVX2).row(gguf.Q8_K, nil),
		},
		Add:      pairwise(addAVX2, add),
		Mul:      pairwise(mulAVX2, mul),
		Scale:    scaleVector,
		RmsNorm:  rmsNormVector,
		SoftMax:  softMaxVector,
		Silu:     siluVector,
		SwiGLU:   swigluVector,
		RopeNeox: ropeNeoxVector,
		RopeNorm: ropeNormVector,
		AttnVF32: attnV{4, attnCells1F32AVX2, attnCells4F32AVX2, attnVF32}.sum,
		AttnVF16: attnV{2, attnCells1F16AVX2, attnCells4F16AVX2, attnVF16}.sum,
		Prefetch: prefetchBytes,
	}
	set := func(typ gguf.Type, mv MatVecFunc, mv4 MatVec4Func) {
		w := *generic.Weights[typ]
		w.MatVec, w.MatVec4 = mv, mv4
		t.Weights[typ] = &w
	}
	block32 := func(typ, act gguf.Type, mv matVecAsm, pack packAsm, perBlock int, mv4 packedAsm) {
		set(typ, mv.blocks(typ, act), mv4.rows(typ, act, pack, perBlock, nil))
	}
	block32(gguf.Q4_0, gguf.Q8_0, matVecQ4_0AVX2, packQ4_0AVX2, 72, matVec4Q4_0AVX2)
	block32(gguf.Q4_1, gguf.Q8_1, matVecQ4_1AVX2, packQ4_1AVX2, 40, matVec4Q4_1AVX2)
	block32(gguf.Q5_0, gguf.Q8_0, matVecQ5_0AVX2, packQ5_0AVX2, 72, matVec4Q5_0AVX2)
	block32(gguf.Q5_1, gguf.Q8_1, matVecQ5_1AVX2, packQ5_1AVX2, 40, matVec4Q5_1AVX2)
	block32(gguf.Q8_0, gguf.Q8_0, matVecQ8_0AVX2, packQ8_0AVX2, 72, matVec4Q8_0AVX2)
	blockK := func(typ gguf.Type, mv matVecAsm, mv4 matVec4Asm) {
		set(typ, mv.blocks(typ, gguf.Q8_K), mv4.blocks(typ, gguf.Q8_K))
	}
	blockK(gguf.Q4_K, matVecQ4_KAVX2, matVec4Q4_KAVX2)
	blockK(gguf.Q5_K, matVecQ5_KAVX2, matVec4Q5_KAVX2)
	blockK(gguf.Q6_K, matVecQ6_KAVX2, matVec4Q6_KAVX2)
	plain := func(typ gguf.Type, mv matVecAsm, pack packAsm, mv4 packedAsm, tail tailFunc, widen func(dst []float32, row []byte)) {
		t.Weights[typ] = &Weight{Type: typ, Act: typ, MatVec: mv.steps(typ, tail), MatVec4: mv4.rows(typ, typ, pack, 128, tail), Dequantize: widen}
	}
	plain(gguf.F32, matVecF32AVX2, packF32AVX2, matVec4F32AVX2, tailF32, widenF32)
	plain(gguf.F16, matVecF16AVX2, packF16AVX2, matVec4F16AVX2, tailF16, widenAsm(widenF16AVX2).row(f16At))
	plain(gguf.BF16, matVecBF16AVX2, packBF16AVX2, matVec4BF16AVX2, tailBF16, widenAsm(widenBF16AVX2).row(bf16At))
	return t
})
