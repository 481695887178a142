// Package synth writes model files with real shapes and seeded random weights,
// for benchmarks and for tests that need an architecture or a size of which no
// small trained model is at hand.
//
// [Write] is all of it; [Sizes] lists what can be made. A file depends on its
// Options alone: the same options give the same bytes, whatever the number of
// cores. The weights are scaled so that activations stay in a normal range and
// greedy text does not fall into one repeated token (weights.go says how); the
// text means nothing. The tokenizer is a byte-level vocabulary padded to the
// architecture's size, so the file loads in llama.cpp too.
//
// Quantised blocks are drawn as they are, not quantised from drawn numbers:
// that is fast, and their values are spread evenly over the type's range. For
// the quantisers see engine/quant.
package synth

import (
	"fmt"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/model"
	"minfer/engine/quant"
)

// Options describe the file to make.
type Options struct {
	Arch string    // "qwen2", "qwen3" or "llama"
	Size string    // one of Sizes(Arch): "tiny", "0.5b", ...
	Mix  quant.Mix // the types of the matrices; norms and biases are F32
	Seed uint64

	Layers int // 0 is the size's own number

	// RopeFactors puts in or leaves out rope_freqs.weight (llama only); nil is
	// the size's own choice.
	RopeFactors *bool
	// RopeScaling is the metadata's rope.scaling.type: "" (no such key), "none",
	// "linear" or "yarn".
	RopeScaling string
	// RopeFactor and RopeNCtxOrig are the scaling's factor and original context;
	// 0 leaves the key out.
	RopeFactor   float32
	RopeNCtxOrig int

	// MaxPartBytes bounds the tensor data of one part; 0 is one file.
	MaxPartBytes int64
}

// maxLayers is far above any real model.
const maxLayers = 1000

// Write makes the file and returns the paths of its parts: path alone, or
// PREFIX-00001-of-0000N.gguf and so on where path is PREFIX.gguf.
func Write(path string, o Options) ([]string, error) {
	m, err := Model(o)
	if err != nil {
		return nil, err
	}
	return gguf.Write(path, m, gguf.WriteOptions{MaxPartBytes: o.MaxPartBytes})
}

// Model is the file as gguf.Write takes it; the weights are drawn while it is
// written.
func Model(o Options) (gguf.Model, error) {
	h, factors, err := o.shape()
	if err != nil {
		return gguf.Model{}, err
	}
	plan := planTensors(h, factors)
	tensors := make([]gguf.Tensor, len(plan))
	for i, t := range plan {
		tensors[i] = gguf.Tensor{Name: t.name, Type: gguf.F32, Dims: t.dims}
	}
	types, err := o.Mix.Types(quant.Shape{Arch: h.Arch, Layers: h.NLayer, Heads: h.NHead, HeadsKV: h.NHeadKV}, tensors)
	if err != nil {
		return gguf.Model{}, fmt.Errorf("synth: %w", err)
	}
	g := gguf.Model{KVs: append(o.metadata(h), vocabulary(h.Arch, h.NVocab)...)}
	for i, t := range plan {
		if len(t.dims) == 1 {
			types[i] = gguf.F32
		}
		g.Tensors = append(g.Tensors, gguf.TensorSpec{Name: t.name, Type: types[i], Dims: t.dims, WriteTo: t.writer(types[i], o.Seed)})
	}
	return g, nil
}

// shape is the size with the options applied, checked.
func (o Options) shape() (h model.Hparams, factors bool, err error) {
	s, err := lookup(o.Arch, o.Size)
	if err != nil {
		return h, false, err
	}
	h, factors = s.Hparams, s.factors
	if o.Layers < 0 || o.Layers > maxLayers {
		return h, false, fmt.Errorf("synth: %d layers, want 1 to %d, or 0 for the size's own number", o.Layers, maxLayers)
	}
	if o.Layers > 0 {
		h.NLayer = o.Layers
	}
	if o.RopeFactors != nil {
		factors = *o.RopeFactors
		if factors && o.Arch != "llama" {
			return h, false, fmt.Errorf("synth: rope factors for %s, want them for llama only", o.Arch)
		}
	}
	if !slices.Contains([]string{"", "none", "linear", "yarn"}, o.RopeScaling) {
		return h, false, fmt.Errorf("synth: rope scaling %q, want none, linear or yarn", o.RopeScaling)
	}
	if !(o.RopeFactor >= 0) {
		return h, false, fmt.Errorf("synth: rope factor %v, want a number above 0", o.RopeFactor)
	}
	if o.RopeNCtxOrig < 0 {
		return h, false, fmt.Errorf("synth: an original context of %d, want a number above 0", o.RopeNCtxOrig)
	}
	return h, factors, nil
}

// metadata is everything but the tokenizer.
func (o Options) metadata(h model.Hparams) []gguf.KV {
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: h.Arch},
		{Key: "general.name", Value: fmt.Sprintf("Synthetic %s %s", h.Arch, o.Size)},
		{Key: "general.description", Value: fmt.Sprintf("Random weights, seed %d.", o.Seed)},
		{Key: "general.file_type", Value: o.Mix.FileType},
		{Key: "general.quantization_version", Value: uint32(2)},
	}
	add := func(key string, v any) { kvs = append(kvs, gguf.KV{Key: h.Arch + "." + key, Value: v}) }
	add("context_length", uint32(h.NCtxTrain))
	add("embedding_length", uint32(h.NEmbd))
	add("block_count", uint32(h.NLayer))
	add("feed_forward_length", uint32(h.NFF))
	add("attention.head_count", uint32(h.NHead))
	add("attention.head_count_kv", uint32(h.NHeadKV))
	add("attention.key_length", uint32(h.HeadDimK))
	add("attention.value_length", uint32(h.HeadDimV))
	add("attention.layer_norm_rms_epsilon", h.RMSEps)
	add("rope.dimension_count", uint32(h.HeadDimK))
	add("rope.freq_base", h.Rope.FreqBase)
	if o.RopeScaling != "" {
		add("rope.scaling.type", o.RopeScaling)
	}
	if o.RopeFactor != 0 {
		add("rope.scaling.factor", o.RopeFactor)
	}
	if o.RopeNCtxOrig != 0 {
		add("rope.scaling.original_context_length", uint32(o.RopeNCtxOrig))
	}
	return kvs
}
