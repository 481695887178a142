package kernel

import (
	"encoding/binary"
	"maps"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"

	"minfer/engine/gguf"
)

// Kernels with AVX-512: those whose bits do not depend on the level, for both,
// and those of level Z.

//go:generate go run ./gen -family vnni32 -out dot_q32_vnni_amd64.s -stubs dot_q32_vnni_amd64.go
//go:generate go run ./gen -family vnnik -out dot_k_vnni_amd64.s -stubs dot_k_vnni_amd64.go

// hasAVX512 says that the CPU has what all of these kernels use.
var hasAVX512 = sync.OnceValue(func() bool {
	x := &cpu.X86
	return avx2() != nil && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI
})

// vnni returns the AVX2 level with the AVX-512 kernels that have its bits.
var vnni = sync.OnceValue(func() *Table {
	if !hasAVX512() {
		return nil
	}
	t := *avx2()
	t.Name = "avx2 bits, avx512 kernels"
	t.SoftMax, t.Silu, t.SwiGLU = exponentialsH.softMax, exponentialsH.silu, exponentialsH.swiglu
	t.Attention = attentionH.kernels()
	t.Weights = maps.Clone(t.Weights)
	for typ, m := range vnniProducts() {
		w := *t.Weights[typ]
		w.MatMul, w.MatVec, w.MatVec4 = m, matVecPrepared(m), nil
		t.Weights[typ] = &w
	}
	plain := func(typ gguf.Type, mv matVecAsm, finish func(dst *float32, dstStride int, acc *float32)) {
		w := *t.Weights[typ]
		w.MatMul = floatMatMul(typ, 32, mv, finish)
		t.Weights[typ] = &w
	}
	plain(gguf.F32, matVecF32H512, finishF32H512)
	plain(gguf.F16, matVecF16AVX2, finishF32H512)
	plain(gguf.BF16, matVecBF16AVX2, finishBF16H512)
	return &t
})

// vnniProducts are the products of quantised weights.
func vnniProducts() map[gguf.Type]*MatMul {
	products := map[gguf.Type]*MatMul{}
	block32 := func(typ gguf.Type, offset, upper uint32, mv matVecAsm, panel func(dst, w *byte, row, blocks int)) {
		act, rowBytes, packedBytes := gguf.Q8_0, 72, 576
		row, pack, tile, half, finish := rowQ8_0VNNI, packQ8_0VNNI, tileQ8_0VNNI, halfQ8_0VNNI, finishQ8_0VNNI
		if offset == 0 {
			act, rowBytes, packedBytes = gguf.Q8_1, 52, 320
			row, pack, tile, half, finish = rowQ8_1VNNI, packQ8_1VNNI, tileQ8_1VNNI, halfQ8_1VNNI, finishQ8_1VNNI
		}
		upper *= offset * 0x01010101 // in four bytes
		offset *= 0x01010101
		products[typ] = matMulOf(&prepared{
			elements: 32, wBytes: typ.RowBytes(32), aBytes: act.RowBytes(32), rowBytes: rowBytes, mul: mv,
			row: func(dst, act *byte, blocks int) { row(dst, act, offset, upper, blocks) },
		}, &tiled{
			elements: 32, part: 40, wBytes: typ.RowBytes(32), aBytes: act.RowBytes(32),
			panelBytes: 320, packedBytes: packedBytes, accBytes: 1280,
			pack:  func(dst, act0, act1 *byte, pair, blocks int) { pack(dst, act0, act1, pair, offset, blocks) },
			panel: panel, tile: tile, half: half, finish: finish,
		})
	}
	// A single row's kernel may have upper lanes that are larger.
	block32(gguf.Q4_0, 8, 16, matVecQ4_0VNNI, panelQ4_0VNNI)
	block32(gguf.Q4_1, 0, 16, matVecQ4_1VNNI, panelQ4_1VNNI)
	block32(gguf.Q5_0, 16, 1, matVecQ5_0VNNI, panelQ5_0VNNI)
	block32(gguf.Q5_1, 0, 1, matVecQ5_1VNNI, panelQ5_1VNNI)
	block32(gguf.Q8_0, 128, 1, matVecQ8_0VNNI, panelQ8_0VNNI)
	blockK := func(typ gguf.Type, panelBytes, packedBytes int, mv matVecAsm, pack func(dst, act0, act1 *byte, pair, blocks int),
		panel func(dst, w *byte, row, blocks int), tile tileAsm, finish func(dst *float32, dstStride int, acc *float32)) {
		size := gguf.Q8_K.RowBytes(256)
		row := sumsOf32
		if typ == gguf.Q6_K {
			row = nil
		}
		products[typ] = matMulOf(&prepared{elements: 256, wBytes: typ.RowBytes(256), aBytes: size, rowBytes: size, row: row, mul: mv},
			&tiled{
				elements: 256, part: 8, wBytes: typ.RowBytes(256), aBytes: size, panelBytes: panelBytes, packedBytes: packedBytes, accBytes: 1664,
				pack: pack, panel: panel, tile: tile, finish: finish,
			})
	}
	blockK(gguf.Q4_K, 2304, 2368, matVecQ4_KVNNI, packQ4_KVNNI, panelQ4_KVNNI, tileQ4_KVNNI, finishQ4_KVNNI)
	blockK(gguf.Q5_K, 2304, 2368, matVecQ5_KVNNI, packQ5_KVNNI, panelQ5_KVNNI, tileQ5_KVNNI, finishQ5_KVNNI)
	blockK(gguf.Q6_K, 4416, 2368, matVecQ6_KVNNI, packQ6_KVNNI, panelQ6_KVNNI, tileQ6_KVNNI, finishQ6_KVNNI)
	return products
}

// sumsOf32 copies Q8_K blocks, with eight sums of 32 elements in the place of the
// sixteen of 16. Where d is 0 they may be anything.
func sumsOf32(dst, act *byte, blocks int) {
	size := gguf.Q8_K.RowBytes(256)
	to, from := unsafe.Slice(dst, blocks*size), unsafe.Slice(act, blocks*size)
	copy(to, from)
	const sums = 260
	for ; len(to) > 0; to = to[size:] {
		for g := range 8 {
			a, b := binary.LittleEndian.Uint16(to[sums+4*g:]), binary.LittleEndian.Uint16(to[sums+4*g+2:])
			binary.LittleEndian.PutUint16(to[sums+2*g:], a+b)
		}
	}
}
