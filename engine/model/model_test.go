package model_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
)

// file is a model to be written: tests change it first.
type file struct {
	kvs     []gguf.KV
	tensors []gguf.TensorSpec
}

// base is a small valid model of zeros, with norms of ones: 8 wide, 2 layers, 2
// query heads on 1 key head of 4 channels, feed-forward 12, 5 tokens.
func base(arch string) *file {
	f := &file{kvs: []gguf.KV{
		{Key: "general.architecture", Value: arch},
		{Key: arch + ".context_length", Value: uint32(64)},
		{Key: arch + ".embedding_length", Value: uint32(8)},
		{Key: arch + ".block_count", Value: uint32(2)},
		{Key: arch + ".feed_forward_length", Value: uint32(12)},
		{Key: arch + ".attention.head_count", Value: uint32(2)},
		{Key: arch + ".attention.head_count_kv", Value: uint32(1)},
		{Key: arch + ".attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "c", "d", "e"}},
	}}
	f.add("token_embd.weight", 8, 5)
	for il := range 2 {
		b := fmt.Sprintf("blk.%d.", il)
		f.add(b+"attn_norm.weight", 8)
		f.add(b+"attn_q.weight", 8, 8)
		f.add(b+"attn_k.weight", 8, 4)
		f.add(b+"attn_v.weight", 8, 4)
		switch arch {
		case "qwen2":
			f.add(b+"attn_q.bias", 8)
			f.add(b+"attn_k.bias", 4)
			f.add(b+"attn_v.bias", 4)
		case "qwen3":
			f.add(b+"attn_q_norm.weight", 4)
			f.add(b+"attn_k_norm.weight", 4)
		}
		f.add(b+"attn_output.weight", 8, 8)
		f.add(b+"ffn_norm.weight", 8)
		f.add(b+"ffn_gate.weight", 8, 12)
		f.add(b+"ffn_up.weight", 8, 12)
		f.add(b+"ffn_down.weight", 12, 8)
	}
	f.add("output_norm.weight", 8)
	return f
}

// floats is n little-endian values of x.
func floats(n int, x float32) []byte {
	var b []byte
	for range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func (f *file) add(name string, dims ...int) {
	n := 1
	for _, d := range dims {
		n *= d
	}
	x := float32(0)
	if len(dims) == 1 {
		x = 1
	}
	f.put(gguf.BytesSpec(name, gguf.F32, dims, floats(n, x)))
}

// put adds a tensor or replaces the one of that name.
func (f *file) put(t gguf.TensorSpec) {
	f.drop(t.Name)
	f.tensors = append(f.tensors, t)
}

func (f *file) drop(name string) {
	f.tensors = slices.DeleteFunc(f.tensors, func(t gguf.TensorSpec) bool { return t.Name == name })
}

func (f *file) set(key string, v any) {
	f.unset(key)
	f.kvs = append(f.kvs, gguf.KV{Key: key, Value: v})
}

func (f *file) unset(key string) {
	f.kvs = slices.DeleteFunc(f.kvs, func(kv gguf.KV) bool { return kv.Key == key })
}

// load writes and loads the model, named m.gguf.
func (f *file) load(t *testing.T) (*model.Model, error) {
	t.Helper()
	return model.Load(f.open(t))
}

// open writes and opens it.
func (f *file) open(t *testing.T) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	_, err := gguf.Write(path, gguf.Model{KVs: f.kvs, Tensors: f.tensors}, gguf.WriteOptions{})
	require.NoError(t, err)
	g, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	g.Path = "m.gguf"
	return g
}

func must(t *testing.T, f *file) *model.Model {
	t.Helper()
	m, err := f.load(t)
	require.NoError(t, err)
	return m
}

func TestHparams(t *testing.T) {
	f := base("qwen3")
	f.set("qwen3.rope.freq_base", float32(1e6))
	f.set("qwen3.vocab_size", uint32(5))
	f.add("output.weight", 8, 5)
	m := must(t, f)
	require.Equal(t, model.Hparams{
		Arch: "qwen3", NVocab: 5, NEmbd: 8, NLayer: 2, NHead: 2, NHeadKV: 1, HeadDimK: 4, HeadDimV: 4, NFF: 12,
		NCtxTrain: 64, RMSEps: 1e-5,
		Rope: graph.Rope{Mode: graph.RopeNeox, NDims: 4, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: 64},
	}, m.Hparams)
	require.Equal(t, 4, m.KWidth())
	require.Equal(t, 4, m.VWidth())

	m = must(t, base("llama"))
	require.True(t, m.Tied)
	require.Equal(t, graph.RopeNorm, m.Rope.Mode)
	require.Equal(t, float32(10000), m.Rope.FreqBase, "llama.cpp's default")

	// Numbers may be written in any width, and as arrays of one value a layer.
	f = base("qwen2")
	f.set("qwen2.embedding_length", uint64(8))
	f.set("qwen2.attention.head_count", []int32{2, 2})
	f.set("qwen2.attention.layer_norm_rms_epsilon", float64(1e-5))
	// Head widths of their own, not n_embd/n_head.
	f.set("qwen2.attention.key_length", uint16(4))
	f.set("qwen2.attention.value_length", uint16(4))
	f.unset("qwen2.attention.head_count_kv") // as many as query heads
	for il := range 2 {
		b := fmt.Sprintf("blk.%d.", il)
		f.add(b+"attn_k.weight", 8, 8)
		f.add(b+"attn_v.weight", 8, 8)
		f.add(b+"attn_k.bias", 8)
		f.add(b+"attn_v.bias", 8)
	}
	m = must(t, f)
	require.Equal(t, 2, m.NHeadKV)
	require.Equal(t, 8, m.KWidth())
}

func TestWeights(t *testing.T) {
	m := must(t, base("qwen2"))
	require.Len(t, m.Weights(), 1+2*12+1)
	seen := map[string]bool{}
	for _, w := range m.Weights() {
		require.False(t, seen[w.Name], w.Name)
		seen[w.Name] = true
		x, ok := m.File().Tensor(w.Name)
		require.True(t, ok)
		require.Equal(t, x.Type, w.Type)
		// Not a copy: the mapped bytes themselves.
		require.Same(t, &x.Data[0], &w.Data[0], w.Name)
		require.Equal(t, len(x.Data), len(w.Data))
	}
	g, err := m.Build(graph.Params{NTokens: 1, NOut: 1, NKV: 1, KVType: gguf.F32})
	require.NoError(t, err)
	used := map[*graph.Weight]bool{}
	for _, n := range g.Nodes {
		used[n.Weight], used[n.Bias] = true, true
	}
	delete(used, nil)
	require.Len(t, used, len(m.Weights()))
	for _, w := range m.Weights() {
		require.True(t, used[w], "%s is read by a node", w.Name)
	}
}

// The rope parameters of llama.cpp v0.4.0 (op_params of the ROPE node in its
// eval callback, tiny qwen2 file with these keys): freq_scale, ext_factor,
// attn_factor as bits, and n_ctx_orig.
func TestRopeScaling(t *testing.T) {
	type kv = map[string]any
	for _, c := range []struct {
		name             string
		keys             kv
		scale, ext, attn uint32
		orig             int
	}{
		{"nothing", kv{}, 0x3f800000, 0, 0x3f800000, 64},
		{"linear 4", kv{"type": "linear", "factor": float32(4)}, 0x3e800000, 0, 0x3f800000, 64},
		{"linear 3", kv{"type": "linear", "factor": float32(3)}, 0x3eaaaaab, 0, 0x3f800000, 64},
		{"a factor alone is linear", kv{"factor": float32(4)}, 0x3e800000, 0, 0x3f800000, 64},
		{"factor 0 is unset", kv{"type": "linear", "factor": float32(0)}, 0x3f800000, 0, 0x3f800000, 64},
		{"none ignores the factor", kv{"type": "none", "factor": float32(4)}, 0x3f800000, 0, 0x3f800000, 64},
		{"yarn 4", kv{"type": "yarn", "factor": float32(4)}, 0x3e800000, 0x3f800000, 0x3f800000, 64},
		{"yarn 4 from 32", kv{"type": "yarn", "factor": float32(4), "original_context_length": uint32(32)}, 0x3e800000, 0x3f800000, 0x3f800000, 32},
		{"yarn without factor", kv{"type": "yarn"}, 0x3f800000, 0x3f800000, 0x3f800000, 64},
		{"yarn 3", kv{"type": "yarn", "factor": float32(3)}, 0x3eaaaaab, 0x3f800000, 0x3f800000, 64},
		{"yarn 12 loses an ulp", kv{"type": "yarn", "factor": float32(12)}, 0x3daaaaab, 0x3f800000, 0x3f7fffff, 64},
		{"yarn 33.3", kv{"type": "yarn", "factor": float32(33.3)}, 0x3cf6018a, 0x3f800000, 0x3f800000, 64},
		{"yarn 0.5", kv{"type": "yarn", "factor": float32(0.5)}, 0x40000000, 0x3f800000, 0x3f898877, 64},
		{"yarn 0.1", kv{"type": "yarn", "factor": float32(0.1)}, 0x41200000, 0x3f800000, 0x3fa64a23, 64},
		{"attn_factor with yarn", kv{"type": "yarn", "factor": float32(4), "attn_factor": float32(1.5)}, 0x3e800000, 0x3f800000, 0x3fc00000, 64},
		{"attn_factor alone", kv{"attn_factor": float32(1.5)}, 0x3f800000, 0, 0x3fc00000, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := base("qwen2")
			for k, v := range c.keys {
				f.set("qwen2.rope.scaling."+k, v)
			}
			r := must(t, f).Rope
			require.Equal(t, c.scale, math.Float32bits(r.FreqScale), "freq_scale %v", r.FreqScale)
			require.Equal(t, c.ext, math.Float32bits(r.ExtFactor), "ext_factor %v", r.ExtFactor)
			require.Equal(t, c.attn, math.Float32bits(r.AttnFactor), "attn_factor %v", r.AttnFactor)
			require.Equal(t, c.orig, r.NCtxOrig)
			require.Equal(t, float32(32), r.BetaFast)
			require.Equal(t, float32(1), r.BetaSlow)
		})
	}
	f := base("llama")
	f.set("llama.rope.scale_linear", float32(4)) // the old name
	require.Equal(t, float32(0.25), must(t, f).Rope.FreqScale)
}

// Keys that are not ours to read, and values that say what is computed anyway.
func TestHarmlessKeys(t *testing.T) {
	f := base("llama")
	for k, v := range map[string]any{
		"general.name": "x", "general.type": "model", "quantize.imatrix.file": "x", "mradermacher.quantized_by": "x",
		"qwen2.attention.sliding_window": uint32(7), // of another architecture
		"llama.attention.causal":         true,
		"llama.attention.sliding_window": uint32(0),
		"llama.expert_count":             uint32(0),
		"llama.logit_scale":              float32(1),
		"llama.rope.scaling.finetuned":   false,
		"llama.rope.dimension_count":     uint32(4),
		"llama.tensor_data_layout":       "Meta AI original pth",
	} {
		f.set(k, v)
	}
	must(t, f)
}
