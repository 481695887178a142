package synth

import "minfer/engine/gguf"

// Token types of GGUF.
const (
	typeNormal  = int32(1)
	typeControl = int32(3)
)

// vocabulary is the tokenizer of a file: the 256 bytes, pairs of lower-case
// letters with the merges that make them, invented words up to the size that
// the architecture has, and its control tokens at the end.
func vocabulary(arch string, n int) []gguf.KV {
	pre, control := "qwen2", []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	bos, eos := 0, 2 // in control
	if arch == "llama" {
		pre, control = "llama-bpe", []string{"<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"}
		eos = 1
	}
	tokens := byteTokens()
	room := n - len(control)
	var merges []string
	for a := 'a'; a <= 'z' && len(tokens) < room; a++ {
		for b := 'a'; b <= 'z' && len(tokens) < room; b++ {
			tokens = append(tokens, string([]rune{a, b}))
			merges = append(merges, string([]rune{a, ' ', b}))
		}
	}
	for i := 0; len(tokens) < room; i++ {
		tokens = append(tokens, "Ġ"+word(i)) // Ġ stands for a space
	}
	types := make([]int32, n)
	for i := range types {
		types[i] = typeNormal
		if i >= room {
			types[i] = typeControl
		}
	}
	return []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.tokens", Value: append(tokens, control...)},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: merges},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(room + bos)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(room + eos)},
		{Key: "tokenizer.ggml.add_bos_token", Value: arch == "llama"},
	}
}

// byteTokens are GPT-2's names of the 256 bytes: the printable ones stand for
// themselves, the others follow from U+0100 on.
func byteTokens() []string {
	var tokens, rest []string
	next := rune(0x100)
	for b := rune(0); b < 256; b++ {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' && b <= 'ÿ' {
			tokens = append(tokens, string(b))
		} else {
			rest = append(rest, string(next))
			next++
		}
	}
	return append(tokens, rest...)
}

// word is the i-th invented word: i in base 75, its digits as syllables.
func word(i int) string {
	const consonants, vowels = "bdfghjklmnprstv", "aeiou"
	s := ""
	for {
		d := i % 75
		s = string(consonants[d/5]) + string(vowels[d%5]) + s
		if i = i/75 - 1; i < 0 {
			return s
		}
	}
}
