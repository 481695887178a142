package model_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// Each way in which a file can be wrong, and the one line that it gives.
func TestRefusals(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	setter := func(key string, v any) func(*file) { return func(f *file) { f.set(key, v) } }
	unset := func(key string) func(*file) { return func(f *file) { f.unset(key) } }
	tensor := func(name string, dims ...int) func(*file) { return func(f *file) { f.add(name, dims...) } }
	drop := func(name string) func(*file) { return func(f *file) { f.drop(name) } }
	value := func(name string, n int, x float32) func(*file) {
		return func(f *file) {
			b := floats(n, 1)
			copy(b[4*(n-1):], floats(1, x))
			f.put(gguf.BytesSpec(name, gguf.F32, []int{n}, b))
		}
	}
	typed := func(name string, t gguf.Type, dims []int, bytes int) func(*file) {
		return func(f *file) { f.put(gguf.BytesSpec(name, t, dims, make([]byte, bytes))) }
	}
	const notImpl = " is not implemented"
	for _, c := range []struct {
		arch string
		do   func(*file)
		want string // after "m.gguf: "
	}{
		// The architecture.
		{"qwen2", unset("general.architecture"), "key general.architecture is missing"},
		{"qwen2", setter("general.architecture", uint32(3)), "general.architecture is a uint32, want a string"},
		{"gemma", nil, `general.architecture is "gemma", want one of qwen2, qwen3, llama`},
		{"qwen2", setter("general.type", "adapter"), `general.type is "adapter", want "model"`},
		{"qwen2", setter("adapter.lora.alpha", float32(1)), "key adapter.lora.alpha: adapters are not implemented"},

		// Keys that would change the arithmetic.
		{"qwen2", setter("qwen2.foo", uint32(1)), "key qwen2.foo" + notImpl},
		{"llama", setter("llama.rope.dimension_sections", []int32{1}), "key llama.rope.dimension_sections" + notImpl},
		{"qwen2", setter("qwen2.attention.sliding_window", uint32(4096)), "key qwen2.attention.sliding_window is 4096: not implemented, want 0"},
		{"qwen2", setter("qwen2.attention.causal", false), "key qwen2.attention.causal is false: not implemented, want 1"},
		{"llama", setter("llama.attention.scale", float32(0.5)), "key llama.attention.scale is 0.5: not implemented, want 0"},
		{"llama", setter("llama.logit_scale", float32(0.5)), "key llama.logit_scale is 0.5: not implemented, want 0"},
		{"llama", setter("llama.expert_count", uint32(8)), "key llama.expert_count is 8: not implemented, want 0"},
		{"llama", setter("llama.attention.clamp_kqv", float32(8)), "key llama.attention.clamp_kqv is 8: not implemented, want 0"},
		{"llama", setter("llama.final_logit_softcapping", nan), "key llama.final_logit_softcapping is NaN: not implemented, want 0"},
		{"llama", setter("llama.attn_logit_softcapping", "x"), "key llama.attn_logit_softcapping is a string, want a number"},
		{"qwen3", setter("qwen3.rope.scaling.yarn_beta_fast", float32(16)), "key qwen3.rope.scaling.yarn_beta_fast is 16: not implemented, want 32"},
		{"qwen3", setter("qwen3.rope.scaling.yarn_ext_factor", float32(0.5)), "key qwen3.rope.scaling.yarn_ext_factor is 0.5: not implemented, want -1"},
		{"qwen3", setter("qwen3.nextn_predict_layers", uint32(1)), "key qwen3.nextn_predict_layers is 1: not implemented, want 0"},

		// Hyper-parameters by themselves.
		{"qwen2", unset("qwen2.context_length"), "key qwen2.context_length is missing"},
		{"qwen2", unset("qwen2.embedding_length"), "key qwen2.embedding_length is missing"},
		{"qwen2", unset("qwen2.block_count"), "key qwen2.block_count is missing"},
		{"qwen2", unset("qwen2.feed_forward_length"), "key qwen2.feed_forward_length is missing"},
		{"qwen2", unset("qwen2.attention.head_count"), "key qwen2.attention.head_count is missing"},
		{"qwen2", unset("qwen2.attention.layer_norm_rms_epsilon"), "key qwen2.attention.layer_norm_rms_epsilon is missing"},
		{"qwen2", setter("qwen2.block_count", uint32(0)), "qwen2.block_count is 0, want a whole number from 1 to 1048576"},
		{"qwen2", setter("qwen2.block_count", int32(-1)), "qwen2.block_count is -1, want a whole number from 1 to 1048576"},
		{"qwen2", setter("qwen2.block_count", uint32(1<<31)), "qwen2.block_count is 2147483648, want a whole number from 1 to 1048576"},
		{"qwen2", setter("qwen2.block_count", "two"), "qwen2.block_count is a string, want a number"},
		{"qwen2", setter("qwen2.attention.head_count", float32(1.5)), "qwen2.attention.head_count is 1.5, want a whole number from 1 to 1048576"},
		{"qwen2", setter("qwen2.context_length", uint64(1<<40)), "qwen2.context_length is 1099511627776, want a whole number from 1 to 1073741824"},
		{"llama", setter("llama.feed_forward_length", []uint32{12, 16}), "llama.feed_forward_length is 12 for layer 0 and 16 for layer 1: not implemented, want one value for all layers"},
		{"llama", setter("llama.feed_forward_length", []uint32{}), "llama.feed_forward_length is an empty array, want a number"},
		{"qwen2", setter("qwen2.attention.layer_norm_rms_epsilon", float32(0)), "qwen2.attention.layer_norm_rms_epsilon is 0, want a finite number above 0"},
		{"qwen2", setter("qwen2.attention.layer_norm_rms_epsilon", nan), "qwen2.attention.layer_norm_rms_epsilon is NaN, want a finite number above 0"},
		{"qwen2", setter("qwen2.attention.layer_norm_rms_epsilon", inf), "qwen2.attention.layer_norm_rms_epsilon is +Inf, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.freq_base", float32(0)), "qwen2.rope.freq_base is 0, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.freq_base", float32(-1)), "qwen2.rope.freq_base is -1, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.freq_base", nan), "qwen2.rope.freq_base is NaN, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.freq_base", float64(1e300)), "qwen2.rope.freq_base is 1e+300, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.scaling.type", "longrope"), `qwen2.rope.scaling.type is "longrope": not implemented, want one of none, linear, yarn`},
		{"qwen2", setter("qwen2.rope.scaling.type", uint32(1)), "qwen2.rope.scaling.type is a uint32, want a string"},
		{"qwen2", setter("qwen2.rope.scaling.factor", float32(-4)), "qwen2.rope.scaling.factor is -4, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.scaling.factor", inf), "qwen2.rope.scaling.factor is +Inf, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.scaling.factor", float32(1e-40)), "qwen2.rope.scaling.factor is 1e-40, want a number whose inverse is finite and not 0"},
		{"qwen2", setter("qwen2.rope.scaling.attn_factor", float32(0)), "qwen2.rope.scaling.attn_factor is 0, want a finite number above 0"},
		{"qwen2", setter("qwen2.rope.scaling.original_context_length", uint32(0)), "qwen2.rope.scaling.original_context_length is 0, want a whole number from 1 to 1073741824"},

		// Against each other.
		{"qwen2", setter("qwen2.attention.head_count", uint32(3)), "qwen2.embedding_length is 8, want a multiple of qwen2.attention.head_count = 3 where qwen2.attention.key_length and qwen2.attention.value_length are not given"},
		{"llama", setter("llama.attention.head_count_kv", uint32(3)), "llama.attention.head_count_kv is 3, want a divisor of llama.attention.head_count = 2"},
		{"llama", setter("llama.attention.key_length", uint32(3)), "the head dimension (llama.attention.key_length) is 3, want an even number"},
		{"llama", setter("llama.attention.value_length", uint32(6)), "llama.attention.value_length is 6, want llama.attention.key_length = 4"},
		{"llama", setter("llama.rope.dimension_count", uint32(2)), "llama.rope.dimension_count is 2: not implemented, want the head dimension 4"},

		// The vocabulary.
		{"qwen2", setter("tokenizer.ggml.tokens", []string{"a", "b"}), "tensor token_embd.weight has 5 rows, want 2, the length of tokenizer.ggml.tokens"},
		{"qwen2", setter("tokenizer.ggml.tokens", uint32(5)), "tokenizer.ggml.tokens is a uint32, want an array of strings"},
		{"qwen2", setter("qwen2.vocab_size", uint32(6)), "qwen2.vocab_size is 6, want 5, the rows of token_embd.weight"},
		{"qwen2", tensor("output.weight", 8, 6), "tensor output.weight: shape [8 6], want [8 5]"},

		// Tensors missing, or of the wrong shape or type.
		{"qwen2", drop("token_embd.weight"), "tensor token_embd.weight is missing"},
		{"qwen2", drop("output_norm.weight"), "tensor output_norm.weight is missing"},
		{"qwen2", drop("blk.1.ffn_up.weight"), "tensor blk.1.ffn_up.weight is missing"},
		{"qwen3", drop("blk.1.attn_k_norm.weight"), "tensor blk.1.attn_k_norm.weight is missing"},
		{"qwen2", setter("qwen2.block_count", uint32(3)), "tensor blk.2.attn_norm.weight is missing"},
		{"qwen2", tensor("token_embd.weight", 40), "tensor token_embd.weight: shape [40], want [8 n_vocab]"},
		{"qwen2", tensor("token_embd.weight", 4, 5), "tensor token_embd.weight: shape [4 5], want [8 5]"},
		{"qwen2", tensor("blk.0.attn_q.weight", 8, 4), "tensor blk.0.attn_q.weight: shape [8 4], want [8 8]"},
		{"qwen2", tensor("blk.0.attn_k.weight", 4, 8), "tensor blk.0.attn_k.weight: shape [4 8], want [8 4]"},
		{"qwen2", tensor("blk.0.attn_k.weight", 8, 2, 2), "tensor blk.0.attn_k.weight: shape [8 2 2], want [8 4]"},
		{"qwen2", tensor("blk.0.attn_q.bias", 4), "tensor blk.0.attn_q.bias: shape [4], want [8]"},
		{"llama", tensor("rope_freqs.weight", 4), "tensor rope_freqs.weight: shape [4], want [2]"},
		{"qwen2", typed("blk.0.attn_norm.weight", gguf.F16, []int{8}, 16), "tensor blk.0.attn_norm.weight: type f16, want f32"},
		{"qwen2", typed("blk.0.attn_q.bias", gguf.BF16, []int{8}, 16), "tensor blk.0.attn_q.bias: type bf16, want f32"},
		{"qwen2", typed("blk.0.attn_q.weight", gguf.I32, []int{8, 8}, 256), "tensor blk.0.attn_q.weight: type i32, want one of [f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_K q5_K q6_K]"},

		// Values that poison everything.
		{"qwen2", value("blk.0.attn_norm.weight", 8, nan), "tensor blk.0.attn_norm.weight: value 7 is NaN, want a finite number"},
		{"qwen2", value("blk.1.attn_v.bias", 4, inf), "tensor blk.1.attn_v.bias: value 3 is +Inf, want a finite number"},
		{"llama", value("rope_freqs.weight", 2, 0), "tensor rope_freqs.weight: value 1 is 0, want a number above 0"},

		// Tensors that would change the arithmetic.
		{"qwen2", tensor("blk.0.attn_qkv.weight", 8, 16), "tensor blk.0.attn_qkv.weight [8 16] f32 is not implemented for qwen2"},
		{"qwen2", tensor("blk.0.attn_q.scale", 1), "tensor blk.0.attn_q.scale [1] f32 is not implemented for qwen2"},
		{"qwen2", tensor("blk.0.attn_output.bias", 8), "tensor blk.0.attn_output.bias [8] f32 is not implemented for qwen2"},
		{"qwen2", tensor("rope_freqs.weight", 2), "tensor rope_freqs.weight [2] f32 is not implemented for qwen2"},
		{"qwen2", tensor("blk.0.attn_q_norm.weight", 4), "tensor blk.0.attn_q_norm.weight [4] f32 is not implemented for qwen2"},
		{"qwen3", tensor("output.bias", 5), "tensor output.bias [5] f32 is not implemented for qwen3"},
		{"llama", tensor("blk.0.rope_freqs.weight", 2), "tensor blk.0.rope_freqs.weight [2] f32 is not implemented for llama"},
		{"llama", tensor("blk.2.attn_norm.weight", 8), "tensor blk.2.attn_norm.weight [8] f32 is not implemented for llama"},
	} {
		t.Run(c.want, func(t *testing.T) {
			f := base(c.arch)
			if c.do != nil {
				c.do(f)
			}
			m, err := f.load(t)
			require.EqualError(t, err, "m.gguf: "+c.want)
			require.Nil(t, m)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// Every tensor of a file is needed: without it the file is refused, or it is
// one of the optional biases.
func TestEveryTensorCounts(t *testing.T) {
	for _, arch := range []string{"qwen2", "qwen3", "llama"} {
		for _, x := range slices.Clone(base(arch).tensors) {
			f := base(arch)
			f.drop(x.Name)
			_, err := f.load(t)
			if strings.HasSuffix(x.Name, ".bias") {
				require.NoError(t, err)
				continue
			}
			require.EqualError(t, err, "m.gguf: tensor "+x.Name+" is missing")
		}
	}
}
