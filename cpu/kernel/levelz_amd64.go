package kernel

import (
	"maps"
	"sync"

	"golang.org/x/sys/cpu"

	"minfer/engine/gguf"
)

//go:generate go run ./gen -family float512 -out dot_float_avx512_amd64.s -stubs dot_float_avx512_amd64.go

// avx512 returns level Z's kernels, or nil if this CPU lacks their instructions.
var avx512 = sync.OnceValue(func() *Table {
	if !hasAVX512() {
		return nil
	}
	t := *vnni()
	t.Name = "avx512"
	t.Lanes = 64
	t.Weights = maps.Clone(t.Weights)
	t.SoftMax, t.Silu, t.SwiGLU = exponentialsZ.softMax, exponentialsZ.silu, exponentialsZ.swiglu
	set := func(typ gguf.Type, mv MatVecFunc, m *MatMul) {
		w := *t.Weights[typ]
		w.MatVec, w.MatVec4, w.MatMul = mv, nil, m
		t.Weights[typ] = &w
	}
	set(gguf.F32, matVecAsm(matVecF32Z512).stepsOf(64, gguf.F32, tailF32Z), floatMatMul(gguf.F32, 64, matVecF32Z512, finishF32Z512))
	set(gguf.F16, matVecAsm(matVecF16Z512).stepsOf(64, gguf.F16, tailF16), floatMatMul(gguf.F16, 64, matVecF16Z512, finishF32Z512))
	if cpu.X86.HasAVX512BF16 {
		set(gguf.BF16, matVecBF16Z, nil)
	} else {
		set(gguf.BF16, perRow(dotBF16Z), nil)
	}
	t.AttnVF32, t.AttnVF16 = attnVVectorF32Z, attnVVectorF16Z
	t.Attention = attentionZ.kernels()
	return &t
})

// attnVVectorF32Z is for callers that have one head: whole parts of its channels,
// and the plain Go kernel for the rest.
func attnVVectorF32Z(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	full := len(dst) / attnChannels * attnChannels
	for c := 0; c < full; c += attnChannels {
		attentionZ.values(dst[c:], 0, v[4*c:], stride, false, p, 0, 1, n, scratch)
	}
	attnVF32Z(dst[full:], v[4*full:], stride, p, n, scratch)
}

func attnVVectorF16Z(dst []float32, v []byte, stride int, p []float32, n int, scratch []float32) {
	full := len(dst) / attnChannels * attnChannels
	if full > 0 {
		rounded := make([]float32, (n+15)&^15)
		copy(rounded, p[:n])
		roundHalves(rounded)
		for c := 0; c < full; c += attnChannels {
			attentionZ.values(dst[c:], 0, v[2*c:], stride, true, rounded, 0, 1, n, scratch)
		}
	}
	attnVF16Z(dst[full:], v[2*full:], stride, p, n, scratch)
}

// matVecBF16Z sums the accumulators' sums of each row, and the tail.
func matVecBF16Z(dst []float32, w []byte, stride int, act []byte, n int) {
	var sums [2 * 32]float32
	for len(dst) > 0 {
		rows := min(len(dst), len(sums)/2)
		if steps := n / 64; steps > 0 {
			w, act := w[:(rows-1)*stride+2*n], act[:2*n]
			matVecBF16Z512(&sums[0], &w[0], stride, rows, &act[0], steps)
		}
		for i := range rows {
			dst[i] = tailBF16Z(sums[2*i], sums[2*i+1], w[i*stride:], act, n&^63, n)
		}
		if dst = dst[rows:]; len(dst) > 0 {
			w = w[rows*stride:]
		}
	}
}

// floatMatMul are the products of a plain type; step is the elements of one step of
// the level's accumulators.
func floatMatMul(typ gguf.Type, step int, mv matVecAsm, finish func(dst *float32, dstStride int, acc *float32)) *MatMul {
	size := step * typ.RowBytes(1)
	panel, pack, tile := panelF32Z512, packF32Z512, tileFloatH512
	switch typ {
	case gguf.F16:
		panel, pack = panelF16Z512, packF16Z512
	case gguf.BF16:
		panel, pack = panelBF16Z512, packBF16Z512
	}
	if step == 64 {
		tile = tileFloatZ512
	}
	vectors := step / 16
	return matMulOf(&prepared{elements: step, wBytes: size, aBytes: size, rowBytes: size, mul: mv}, &tiled{
		elements: step, part: 768 / step, wBytes: size, aBytes: size,
		panelBytes: 4 * tileRows * step, packedBytes: 4 * tileTokens * step, accBytes: 2 * 1024 * vectors,
		pack:  func(dst, act0, act1 *byte, pair, steps int) { pack(dst, act0, act1, pair, vectors*steps) },
		panel: func(dst, w *byte, row, steps int) { panel(dst, w, row, vectors*steps) },
		tile:  tile, finish: finish,
	})
}
