package kernel

import (
	"minfer/engine/gguf"
	"minfer/engine/quant"
)

var generic = Table{
	Name:  "generic",
	Lanes: 32,
	Weights: map[gguf.Type]*Weight{
		gguf.F32:  genericWeight(gguf.F32, gguf.F32, dotF32),
		gguf.F16:  genericWeight(gguf.F16, gguf.F16, dotF16),
		gguf.BF16: genericWeight(gguf.BF16, gguf.BF16, dotBF16),
		gguf.Q4_0: genericWeight(gguf.Q4_0, gguf.Q8_0, dotQ4_0),
		gguf.Q5_0: genericWeight(gguf.Q5_0, gguf.Q8_0, dotQ5_0),
		gguf.Q8_0: genericWeight(gguf.Q8_0, gguf.Q8_0, dotQ8_0),
		gguf.Q4_1: genericWeight(gguf.Q4_1, gguf.Q8_1, dotQ4_1),
		gguf.Q5_1: genericWeight(gguf.Q5_1, gguf.Q8_1, dotQ5_1),
		gguf.Q4_K: genericWeight(gguf.Q4_K, gguf.Q8_K, dotQ4_K),
		gguf.Q5_K: genericWeight(gguf.Q5_K, gguf.Q8_K, dotQ5_K),
		gguf.Q6_K: genericWeight(gguf.Q6_K, gguf.Q8_K, dotQ6_K),
	},
	Quantize: map[gguf.Type]func(dst []byte, src []float32){
		gguf.F32:  quantizeF32,
		gguf.F16:  quantizeF16,
		gguf.BF16: quantizeBF16,
		gguf.Q8_0: quantizeQ8_0,
		gguf.Q8_1: quantizeQ8_1,
		gguf.Q8_K: quantizeQ8_K,
	},
	Add:      add,
	Mul:      mul,
	Scale:    scale,
	RmsNorm:  rmsNorm,
	SoftMax:  softMax,
	Silu:     silu,
	SwiGLU:   swiglu,
	RopeNeox: ropeNeox,
	RopeNorm: ropeNorm,
	AttnVF32: attnVF32,
	AttnVF16: attnVF16,
}

func genericWeight(t, act gguf.Type, dot func(w, act []byte, n int) float32) *Weight {
	return &Weight{Type: t, Act: act, MatVec: perRow(dot), Dequantize: quant.Dequantizer(t)}
}
