// Package quant converts rows of weights between float32 and the block types
// of GGUF files, and quantises whole model files.
//
// [Quantize] is the reference quantiser of each type, bit for bit the one that
// ggml calls quantize_row_*_ref; [Dequantize] is its inverse as ggml computes
// it. [F16], [F32FromF16], [BF16] and [F32FromBF16] are the scalar conversions.
// [File] quantises a model: a [Mix], found by [ParseMix], chooses the type of
// each tensor the way llama.cpp does without an importance matrix, so that the
// tensor data of the result equals that of llama.cpp byte for byte.
//
// The package does not quantise activations for the CPU path: those quantisers
// round differently (docs/numerics.md, sections 4 and 14) and belong to cpu.
// The Q8_K quantiser is here all the same, since ggml has one definition of it.
//
// All arithmetic is float32 in a fixed order with one rounding an operation.
// Every product that meets an addition goes through an explicit float32
// conversion, which keeps the compiler from fusing the two, as it may on arm64
// and with GOAMD64=v3, across statements and inlined calls too.
//
// All functions are safe for concurrent use on disjoint outputs.
package quant

import (
	"fmt"

	"minfer/engine/gguf"
)

// codec holds what the package knows of one type. The callers of the two row
// functions have checked the lengths: a whole number of blocks on either side.
type codec struct {
	quantize   func(dst []byte, src []float32)
	dequantize func(dst []float32, src []byte)
	quantised  bool  // more than a conversion: requantising loses more
	halves     []int // byte offsets in a block of 16-bit floats, which may overflow
}

// codecOf finds the row functions of a type.
func codecOf(t gguf.Type) (codec, bool) {
	switch t {
	case gguf.F32:
		return codec{quantizeF32, dequantizeF32, false, nil}, true
	case gguf.F16:
		return codec{quantizeF16, dequantizeF16, false, []int{0}}, true
	case gguf.BF16:
		return codec{quantizeBF16, dequantizeBF16, false, []int{0}}, true
	case gguf.Q4_0:
		return codec{quantizeQ4_0, dequantizeQ4_0, true, []int{0}}, true
	case gguf.Q4_1:
		return codec{quantizeQ4_1, dequantizeQ4_1, true, []int{0, 2}}, true
	case gguf.Q5_0:
		return codec{quantizeQ5_0, dequantizeQ5_0, true, []int{0}}, true
	case gguf.Q5_1:
		return codec{quantizeQ5_1, dequantizeQ5_1, true, []int{0, 2}}, true
	case gguf.Q8_0:
		return codec{quantizeQ8_0, dequantizeQ8_0, true, []int{0}}, true
	case gguf.Q4_K:
		return codec{quantizeQ4_K, dequantizeQ4_K, true, []int{0, 2}}, true
	case gguf.Q5_K:
		return codec{quantizeQ5_K, dequantizeQ5_K, true, []int{0, 2}}, true
	case gguf.Q6_K:
		return codec{quantizeQ6_K, dequantizeQ6_K, true, []int{208}}, true
	case gguf.Q8_K:
		return codec{quantizeQ8_K, dequantizeQ8_K, true, nil}, true
	}
	return codec{}, false
}

// Quantize writes src as blocks of type t to dst: ggml's reference quantiser
// (docs/numerics.md, section 14). len(src) is a whole number of blocks (any
// number of whole rows) and len(dst) exactly the bytes that they take. Values
// should be finite; others give some bytes, the same on every machine, and
// never a panic. F32, F16 and BF16 are conversions by the same name.
func Quantize(t gguf.Type, dst []byte, src []float32) error {
	c, err := checked("quantize", t, len(src), len(dst))
	if err != nil {
		return err
	}
	c.quantize(dst, src)
	return nil
}

// Dequantize writes the values of the blocks of type t in src to dst, with
// ggml's order of operations (docs/numerics.md, section 3). len(dst) is a whole
// number of blocks and len(src) exactly the bytes that they take. Any bytes are
// valid blocks.
func Dequantize(t gguf.Type, dst []float32, src []byte) error {
	c, err := checked("dequantize", t, len(dst), len(src))
	if err != nil {
		return err
	}
	c.dequantize(dst, src)
	return nil
}

// Dequantizer is the row function of Dequantize without its checks, for callers
// that have made them: len(dst) is a whole number of blocks and src holds at
// least their bytes. It is nil for a type that has none.
func Dequantizer(t gguf.Type) func(dst []float32, src []byte) {
	c, _ := codecOf(t)
	return c.dequantize
}

// checked finds the codec of t and holds the two lengths against its blocks.
func checked(verb string, t gguf.Type, elems, bytes int) (codec, error) {
	c, ok := codecOf(t)
	if !ok {
		return codec{}, fmt.Errorf("%s: no row functions for type %v: want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K, q5_K, q6_K, q8_K", verb, t)
	}
	if elems%t.BlockSize() != 0 {
		return codec{}, fmt.Errorf("%s %v: %d values: want a multiple of %d", verb, t, elems, t.BlockSize())
	}
	if want := t.RowBytes(elems); bytes != want {
		return codec{}, fmt.Errorf("%s %v: %d bytes for %d values: want %d", verb, t, bytes, elems, want)
	}
	return c, nil
}
