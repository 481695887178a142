package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

func TestNewRefuses(t *testing.T) {
	kvs := tinyVocab("qwen2").KVs
	tokens, types, merges := kvs[2].Value.([]string), kvs[3].Value.([]int32), kvs[4].Value.([]string)
	edit := func(i int, s string) []string {
		out := append([]string(nil), tokens...)
		out[i] = s
		return out
	}
	editType := func(i int, typ int32) []int32 {
		out := append([]int32(nil), types...)
		out[i] = typ
		return out
	}
	addMerge := func(s string) []string { return append(append([]string(nil), merges...), s) }
	const g = "tokenizer.ggml."
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{g + "model", nil, `key tokenizer.ggml.model is missing: want "gpt2"`},
		{g + "model", "llama", `tokenizer.ggml.model "llama" is not supported: want "gpt2"`},
		{g + "model", uint32(2), `tokenizer.ggml.model is 0x2 of type uint32: want a string`},
		{g + "pre", nil, `tokenizer.ggml.pre: pre-tokenizer "" is not supported: want one of qwen2, llama-bpe, smollm, gpt-2`},
		{g + "pre", "tekken", `tokenizer.ggml.pre: pre-tokenizer "tekken" is not supported: want one of qwen2, llama-bpe, smollm, gpt-2`},
		{g + "pre", true, `tokenizer.ggml.pre is true of type bool: want a string`},
		{g + "tokens", nil, `key tokenizer.ggml.tokens is missing: want a list of strings`},
		{g + "tokens", []int32{1}, `tokenizer.ggml.tokens is 1 values of type []int32: want a list of strings`},
		{g + "tokens", []string{}, `tokenizer.ggml.tokens has 0 tokens: want 1 to 2147483647`},
		{g + "tokens", edit(263, "ab"), `tokenizer.ggml.tokens: token 263 is "ab", as token 256 is: want distinct texts`},
		{g + "tokens", tokens[:271], `tokenizer.ggml.token_type is 272 values of type []int32: want 271 values of type []int32, one a token`},
		{g + "scores", []float32{1}, `tokenizer.ggml.scores is 1 values of type []float32: want 272 numbers, one a token`},
		{g + "token_type", []uint32{1}, `tokenizer.ggml.token_type is 1 values of type []uint32: want 272 values of type []int32, one a token`},
		{g + "token_type", editType(3, 7), `tokenizer.ggml.token_type: token 3 has type 7: want 0 to 6`},
		{g + "token_type", editType(3, -1), `tokenizer.ggml.token_type: token 3 has type -1: want 0 to 6`},
		{g + "token_type", editType(65, typeByte), `tokenizer.ggml.token_type: token 65: a token of type byte has the text "A": want <0x00> to <0xFF>`},
		{g + "merges", nil, `key tokenizer.ggml.merges is missing: want a list of strings`},
		{g + "merges", "a b", `tokenizer.ggml.merges is "a b" of type string: want a list of strings`},
		{g + "merges", addMerge("ab"), `tokenizer.ggml.merges: merge 6 is "ab": want two tokens with a space between them`},
		{g + "merges", addMerge(""), `tokenizer.ggml.merges: merge 6 is "": want two tokens with a space between them`},
		{g + "merges", addMerge(" a"), `tokenizer.ggml.merges: merge 6 is " a": want two tokens with a space between them`},
		{g + "merges", addMerge("a "), `tokenizer.ggml.merges: merge 6 is "a ": want two tokens with a space between them`},
		{g + "merges", addMerge("zz a"), `tokenizer.ggml.merges: merge 6 is "zz a": "zz" is not a token`},
		{g + "merges", addMerge("a zz"), `tokenizer.ggml.merges: merge 6 is "a zz": "zz" is not a token`},
		{g + "merges", addMerge("a a"), `tokenizer.ggml.merges: merge 6 is "a a": "aa" is not a token`},
		{g + "merges", addMerge("a b"), `tokenizer.ggml.merges: merge 6 is "a b", as merge 1 is: want distinct merges`},
		{g + "bos_token_id", uint32(272), `tokenizer.ggml.bos_token_id is 272: want 0 to 271, the ids of the vocabulary`},
		{g + "eos_token_id", int64(-1), `tokenizer.ggml.eos_token_id is -1: want 0 to 271, the ids of the vocabulary`},
		{g + "eot_token_id", "x", `tokenizer.ggml.eot_token_id is "x" of type string: want a token id`},
		{g + "middle_token_id", float32(1), `tokenizer.ggml.middle_token_id is 1 of type float32: want a token id`},
		{g + "add_bos_token", uint8(1), `tokenizer.ggml.add_bos_token is 0x1 of type uint8: want a bool`},
		{g + "add_sep_token", true, `tokenizer.ggml.add_sep_token is true and the vocabulary has no SEP token`},
		{g + "suppress_tokens", []int32{4}, `tokenizer.ggml.suppress_tokens is 1 values of type []int32: not supported, want none`},
		{"general.name", uint32(1), `general.name is 0x1 of type uint32: want a string`},
	} {
		_, err := New(tinyVocab("qwen2", gguf.KV{Key: c.key, Value: c.value}))
		require.EqualError(t, err, "tokenizer: tiny.gguf: "+c.want)
	}
}

// A vocabulary of fewer tokens than the default ids has neither BOS nor EOS.
func TestNoDefaultIDs(t *testing.T) {
	f := &gguf.File{Path: "small.gguf", KVs: []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "", "b"}},
		{Key: "tokenizer.ggml.merges", Value: []string{}},
	}}
	tok, err := New(f)
	require.NoError(t, err)
	_, ok := tok.BOS()
	require.False(t, ok)
	_, ok = tok.EOS()
	require.False(t, ok)
	require.Equal(t, []int32{0, 2}, tok.Encode("a b", Options{AddSpecial: true}))

	f.KVs[1].Value = "llama-bpe"
	_, err = New(f)
	require.EqualError(t, err, "tokenizer: small.gguf: tokenizer.ggml.add_bos_token is true and the vocabulary has no BOS token")
}

// The table is what llama.cpp v0.4.0 says (llama_vocab_is_eog and
// llama_vocab_is_control) of vocabularies with these tokens.
func TestEOG(t *testing.T) {
	type token struct {
		text         string
		typ          int32
		eog, control bool
	}
	for _, c := range [][]token{
		{{"<|im_end|>", typeNormal, true, true}, {"<|im_start|>", typeControl, false, true}, {"<|endoftext|>", typeControl, true, true}},
		{{"<|fim_pad|>", typeUserDefined, true, true}, {"<|repo_name|>", typeNormal, true, true}, {"<|file_sep|>", typeUserDefined, true, true}},
		{{"<|fim_prefix|>", typeUserDefined, false, true}, {"<fim-middle>", typeNormal, false, true}, {"<SUF>", typeNormal, false, true}},
		{{"[EOT]", typeNormal, true, true}, {"[EOS]", typeNormal, true, true}, {"<eos>", typeNormal, true, true}, {"<eot>", typeNormal, false, false}},
		{{"<|end|>", typeControl, true, true}, {"<|return|>", typeControl, true, true}},
		{{"<|end|>", typeControl, false, false}, {"<|return|>", typeControl, true, true}, {"<|call|>", typeControl, true, true}},
		{{"<|end|>", typeControl, false, false}, {"<|flush|>", typeControl, true, true}, {"<|calls|>", typeControl, true, true}},
		{{"</s>", typeControl, true, true}, {"<s>", typeControl, false, true}},
		{{"</s>", typeControl, false, false}, {"<|tool_response>", typeUserDefined, true, true}},
		{{"<|channel|>", typeControl, false, false}, {"<|message|>", typeControl, false, false}},
		{{"<think>", typeUserDefined, false, false}, {"<|unused_9|>", typeControl, false, true}},
	} {
		tokens := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "eos"} // token 11 is EOS
		types := []int32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
		for _, x := range c {
			tokens, types = append(tokens, x.text), append(types, x.typ)
		}
		tok, err := New(&gguf.File{KVs: []gguf.KV{
			{Key: "tokenizer.ggml.model", Value: "gpt2"},
			{Key: "tokenizer.ggml.pre", Value: "qwen2"},
			{Key: "tokenizer.ggml.tokens", Value: tokens},
			{Key: "tokenizer.ggml.token_type", Value: types},
			{Key: "tokenizer.ggml.merges", Value: []string{}},
		}})
		require.NoError(t, err)
		require.True(t, tok.IsEOG(11))
		require.False(t, tok.IsEOG(10))
		for i, x := range c {
			require.Equal(t, x.eog, tok.IsEOG(int32(12+i)), "%v in %v", x, c)
			require.Equal(t, x.control, tok.IsControl(int32(12+i)), "%v in %v", x, c)
		}
	}
}
