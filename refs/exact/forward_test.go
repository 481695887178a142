package exact_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/refs"
	"minfer/refs/exact"
	"minfer/refs/models"
)

// The logits' hashes of docs/numerics.md section 15: 48 tokens of both models,
// at both levels, with both cache types.
func TestForwardGolden(t *testing.T) {
	expected := map[string]string{
		"tiny-qwen2-f16 H f32": "a22b4f33e59ac448",
		"tiny-qwen2-f16 H f16": "2f91554f97e8e486",
		"tiny-qwen2-f16 Z f32": "5fcab0552d824dcb",
		"tiny-qwen2-f16 Z f16": "96b929ec5d9f7652",
		"tiny-qwen3-f16 H f32": "6067be113d6b1b49",
		"tiny-qwen3-f16 H f16": "abbb1f0e3a26f97a",
		"tiny-qwen3-f16 Z f32": "82ac888d77ac7041",
		"tiny-qwen3-f16 Z f16": "54b3287cca9b0141",
	}
	var tokens []int32
	for i := range 48 {
		tokens = append(tokens, int32((i*7919+13)%4095))
	}
	for _, name := range models.Names() {
		f, err := models.Open(name)
		require.NoError(t, err)
		for _, l := range []exact.Level{exact.H, exact.Z} {
			for _, kv := range []gguf.Type{gguf.F32, gguf.F16} {
				logits, err := exact.Forward(f, tokens, exact.Options{Level: l, KV: kv})
				require.NoError(t, err)
				require.Len(t, logits, 48)
				h := fnv.New64a()
				for _, row := range logits {
					require.Len(t, row, 4096)
					h.Write(exact.Bytes(row))
				}
				key := fmt.Sprintf("%s %v %v", name, l, kv)
				require.Equal(t, expected[key], fmt.Sprintf("%016x", h.Sum64()), key)
			}
		}
	}
}

// A tap sees the nodes of section 12 in order.
func TestForwardTap(t *testing.T) {
	f, err := models.Open("tiny-qwen3-f16")
	require.NoError(t, err)
	var first []string
	var last exact.Node
	logits, err := exact.Forward(f, []int32{1, 2}, exact.Options{Tap: func(n exact.Node) {
		require.Len(t, n.Data, 2*n.Width, n.Name)
		if len(first) < 28 {
			first = append(first, n.Name+" "+n.Op)
		}
		last = n
	}})
	require.NoError(t, err)
	require.Equal(t, []string{
		"embd get_rows", "norm-0 rms_norm", "attn_norm-0 mul",
		"Qcur-0 mul_mat", "norm-0 rms_norm", "Qcur_normed-0 mul", "Qcur-0 rope",
		"Vcur-0 mul_mat",
		"Kcur-0 mul_mat", "norm-0 rms_norm", "Kcur_normed-0 mul", "Kcur-0 rope",
		"cache_k_l0 kv_store", "cache_v_l0 kv_store",
		"kq-0 mul_mat", "kq_soft_max-0 soft_max", "kqv_out-0 attention", "attn_out-0 mul_mat",
		"ffn_inp-0 add", "norm-0 rms_norm", "ffn_norm-0 mul",
		"ffn_gate-0 mul_mat", "ffn_up-0 mul_mat", "ffn_swiglu-0 swiglu", "ffn_out-0 mul_mat", "l_out-0 add",
		"norm-1 rms_norm", "attn_norm-1 mul",
	}, first)
	require.Equal(t, "result_output", last.Name)
	require.Equal(t, logits[1], last.Data[last.Width:])
}

func TestForwardErrors(t *testing.T) {
	f, err := models.Open(models.Default)
	require.NoError(t, err)
	_, err = exact.Forward(f, []int32{4096}, exact.Options{})
	require.ErrorContains(t, err, "embd: get_rows: id 4096: want one of 0..4095")
	_, err = exact.Forward(f, []int32{1}, exact.Options{KV: gguf.Q8_0})
	require.ErrorContains(t, err, "cache type q8_0: want f32 or f16")
	logits, err := exact.Forward(f, nil, exact.Options{})
	require.NoError(t, err)
	require.Empty(t, logits)
}

// variant is a copy of an embedded model with other metadata and tensors.
func variant(t *testing.T, edit func(f *gguf.File)) *gguf.File {
	t.Helper()
	f, err := models.Open("tiny-qwen2-f16")
	require.NoError(t, err)
	changed := gguf.File{Path: f.Path, KVs: append([]gguf.KV(nil), f.KVs...), Tensors: append([]gguf.Tensor(nil), f.Tensors...)}
	edit(&changed)
	return &changed
}

func withYaRN(f *gguf.File) {
	f.KVs = append(f.KVs,
		gguf.KV{Key: "qwen2.rope.scaling.type", Value: "yarn"},
		gguf.KV{Key: "qwen2.rope.scaling.factor", Value: float32(4)},
		gguf.KV{Key: "qwen2.rope.scaling.original_context_length", Value: uint32(64)})
}

// asLlama renames the architecture and drops the biases that it has not.
func asLlama(f *gguf.File) {
	for i, kv := range f.KVs {
		if kv.Key == "general.architecture" {
			f.KVs[i].Value = "llama"
		} else if name, ok := strings.CutPrefix(kv.Key, "qwen2."); ok {
			f.KVs[i].Key = "llama." + name
		}
	}
	f.Tensors = slices.DeleteFunc(f.Tensors, func(t gguf.Tensor) bool { return strings.HasSuffix(t.Name, ".bias") })
}

func withFactors(f *gguf.File) {
	asLlama(f)
	factors := make([]float32, 32)
	for i := range factors {
		factors[i] = 1 + float32(float32(i)*0.37)
	}
	f.Tensors = append(f.Tensors, gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Dims: []int{32}, Data: exact.Bytes(factors)})
}

// Graphs that the embedded models do not have, written to files and evaluated by
// libllama, haswell variant (llama.cpp v0.4.0 as in npm
// @node-llama-cpp/linux-x64 3.21.1): the hashes of its logits, 40 tokens. The
// float64 pass is within the rounding of F16 activations of them.
func TestForwardVariants(t *testing.T) {
	tokens := make([]int32, 40)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % 4095)
	}
	for _, c := range []struct {
		name     string
		edit     func(*gguf.File)
		kv       gguf.Type
		expected string
	}{
		{"yarn", withYaRN, gguf.F32, "3da4586ef41c190c"},
		{"yarn", withYaRN, gguf.F16, "9d9b437ee41c7bb2"},
		{"llama", asLlama, gguf.F16, "e0e7ad438eddfbc0"},
		{"llama, factors", withFactors, gguf.F16, "a92ea6ea47e196ce"},
	} {
		f := variant(t, c.edit)
		logits, err := exact.Forward(f, tokens, exact.Options{KV: c.kv})
		require.NoError(t, err)
		h := fnv.New64a()
		for _, row := range logits {
			h.Write(exact.Bytes(row))
		}
		require.Equal(t, c.expected, fmt.Sprintf("%016x", h.Sum64()), c.name)

		expected, err := refs.Forward(f, tokens, refs.Options{KV: c.kv})
		require.NoError(t, err)
		for i := range tokens {
			for j, v := range expected[i] {
				require.InDelta(t, v, float64(logits[i][j]), 0.05, "%s token %d logit %d", c.name, i, j)
			}
		}
	}
}
