package hparams

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// file makes a metadata-only qwen3 file with some keys more.
func file(more ...gguf.KV) *gguf.File {
	return &gguf.File{KVs: append([]gguf.KV{
		{Key: "general.architecture", Value: "qwen3"},
		{Key: "qwen3.block_count", Value: uint32(3)},
		{Key: "qwen3.context_length", Value: uint32(2048)},
		{Key: "qwen3.embedding_length", Value: uint32(256)},
		{Key: "qwen3.attention.head_count", Value: uint32(4)},
		{Key: "qwen3.attention.layer_norm_rms_epsilon", Value: float32(0.5)},
	}, more...)}
}

func TestDefaults(t *testing.T) {
	h, err := Read(file())
	require.NoError(t, err)
	require.Equal(t, Hparams{Arch: "qwen3", Layers: 3, Heads: 4, HeadsKV: 4, HeadDim: 64, HeadDimV: 64, Eps: 0.5, QkNorm: true,
		Rope: Rope{Neox: true, NDims: 64, FreqBase: 10000, Factor: 1, AttnFactor: 1}}, h)
}

// What each combination of scaling keys means to llama.cpp: each line was checked
// through the logits of a model with these keys (v0.4.0, all bits equal).
func TestScaling(t *testing.T) {
	kv := func(name string, v any) gguf.KV { return gguf.KV{Key: "qwen3.rope." + name, Value: v} }
	three := kv("scaling.factor", float32(3))
	yarn := kv("scaling.type", "yarn")
	for _, c := range []struct {
		kvs                    []gguf.KV
		factor, ext, magnitude float64
		original               int
	}{
		{[]gguf.KV{three}, 3, 0, 1, 0},
		{[]gguf.KV{kv("scale_linear", float32(3))}, 3, 0, 1, 0},
		{[]gguf.KV{kv("scaling.type", "linear"), kv("scale_linear", float32(3))}, 3, 0, 1, 0},
		{[]gguf.KV{kv("scaling.type", "none"), three}, 1, 0, 1, 0},
		{[]gguf.KV{three, kv("scaling.attn_factor", float32(1.5))}, 3, 0, 1.5, 0},
		{[]gguf.KV{kv("scaling.attn_factor", float32(1.5))}, 1, 0, 1.5, 0},
		{[]gguf.KV{yarn, three}, 3, 1, 1, 2048},
		{[]gguf.KV{yarn, three, kv("scaling.original_context_length", uint32(100))}, 3, 1, 1, 100},
		{[]gguf.KV{yarn, three, kv("scaling.attn_factor", float32(1.5))}, 3, 1, 1.5, 2048},
		{[]gguf.KV{kv("scaling.yarn_ext_factor", float32(0.5))}, 1, 0, 1, 0},
	} {
		h, err := Read(file(c.kvs...))
		require.NoError(t, err)
		require.Equal(t, c.factor, h.Rope.Factor, "%v", c.kvs)
		require.Equal(t, c.ext, h.Rope.ExtFactor, "%v", c.kvs)
		require.Equal(t, c.magnitude, h.Rope.AttnFactor, "%v", c.kvs)
		require.Equal(t, c.original, h.Rope.NCtxOrig, "%v", c.kvs)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		kv       gguf.KV
		expected string
	}{
		{gguf.KV{Key: "qwen3.rope.scaling.type", Value: "longrope"}, `qwen3.rope.scaling.type is "longrope": want none, linear or yarn`},
		{gguf.KV{Key: "qwen3.rope.freq_base", Value: "big"}, "qwen3.rope.freq_base is a string: want a number"},
		{gguf.KV{Key: "qwen3.rope.scaling.type", Value: true}, "qwen3.rope.scaling.type is a bool: want a string"},
	} {
		_, err := Read(file(c.kv))
		require.EqualError(t, err, c.expected)
	}
	_, err := Read(&gguf.File{KVs: []gguf.KV{{Key: "general.architecture", Value: "llama"}}})
	require.EqualError(t, err, "llama.block_count is 0 or absent: want a positive number")
}
