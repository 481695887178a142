package exact_test

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
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
