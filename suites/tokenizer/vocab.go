// Package tokenizer is the suite `tokenizer`: the ids of engine/tokenizer against
// llama.cpp's, live or recorded, and what that runs on: strings that reach every
// corner of the pre-tokenizers, synthetic vocabularies whose merges cross every
// boundary that a pre-tokenizer can draw, and the vocabulary of a Hugging Face
// folder as GGUF metadata.
//
// [Strings] gives the texts, [SyntheticVocab] and [FromHF] the vocabularies,
// [Suite] the cases. The vocabularies hold metadata only: they load in llama.cpp
// with vocab_only set. golden.json is recorded with both, so a change of either
// means recording it anew.
//
// Everything is deterministic, and the functions may be called concurrently.
package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"minfer/engine/gguf"
)

// PreTokenizers are the names that SyntheticVocab takes.
var PreTokenizers = []string{"qwen2", "llama-bpe", "smollm", "gpt-2"}

// letters are the characters whose pairs are all tokens of a synthetic
// vocabulary: at least two of every class that a pre-tokenizer's expression
// tells apart, in one to four bytes, with the letters of the contractions.
var letters = []string{
	"a", "b", "s", "t", "r", "e", "v", "l", "m", "d", "S", "R", "E", "L", "é", "ſ", "中", "ا", "𝔄", // \p{L}
	"1", "2", "9", "²", "٣", "Ⅷ", "𝟙", // \p{N}
	" ", "\t", "\v", "\u0085", "\u00a0", "\u2003", "\u3000", "\u2028", // \s
	"\r", "\n",
	"'", ".", "-", "<", "|", "\u0301", "।", "\u200d", "🙂", "\x00", // the rest
}

// Token types of GGUF.
const (
	normal      int32 = 1
	unknown     int32 = 2
	control     int32 = 3
	userDefined int32 = 4
	unused      int32 = 5
	byteType    int32 = 6
)

// specials are the tokens of the synthetic vocabularies that are found in the
// text before it is cut into words. Several overlap, several have one length.
var specials = []struct {
	text string
	typ  int32
}{
	{"<|endoftext|>", control}, {"<|im_start|>", control}, {"<|im_end|>", control},
	{"<s>", control}, {"</s>", control}, {"<unk>", unknown},
	{"<think>", userDefined}, {"</think>", userDefined}, {"<tool_call>", userDefined},
	{"<|fim_prefix|>", userDefined}, // llama.cpp makes it a control token
	{"<|repo_name|>", normal},       // and this one
	{"<ab", userDefined}, {"ab<", userDefined}, {"b<a", userDefined}, {"<a>", control}, {"a><", userDefined},
	{" <x> ", userDefined}, {"\n\n\n\n\n", userDefined}, {"é中", userDefined}, {"\xff\xfe", userDefined},
	{"<|unused_1|>", control}, {"[PAD1]", unused}, {"<0x41>", byteType}, {"<|x|>", normal},
}

// words are tokens that no merges make: only a tokenizer that takes whole words
// without merging gives them.
var words = []string{"hello", " hello", " world", "don", "'ll", "123", " ...", "\n\n", "中é"}

// SyntheticVocab makes a vocabulary with all bytes, all pairs of the characters
// of every class that any pre-tokenizer tells apart, many triples, special tokens
// and whole words. Merges across classes come before those within one, so a
// boundary that a wrong pre-tokenizer puts or leaves out changes the ids. pre is
// one of PreTokenizers; the four differ in it, and in which of BOS and EOS they
// add.
func SyntheticVocab(pre string) (gguf.Model, error) {
	kind := slices.Index(PreTokenizers, pre)
	if kind < 0 {
		return gguf.Model{}, fmt.Errorf("synthetic vocabulary for the pre-tokenizer %q: want one of %s", pre, strings.Join(PreTokenizers, ", "))
	}
	v := &vocab{ids: map[string]bool{}}
	for c := range 256 {
		v.add(spell(string([]byte{byte(c)})), normal)
	}
	for _, s := range letters {
		v.compose(s)
	}
	v.pairs()
	for _, w := range words {
		v.add(spell(w), normal)
	}
	firstSpecial := int32(len(v.tokens))
	for _, s := range specials {
		v.add(s.text, s.typ)
	}

	arch := "llama"
	if pre == "qwen2" {
		arch = "qwen2"
	}
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: arch},
		{Key: "general.name", Value: "synthetic " + pre},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.tokens", Value: v.tokens},
		{Key: "tokenizer.ggml.token_type", Value: v.types},
		{Key: "tokenizer.ggml.merges", Value: v.merges},
	}
	id := func(role string, n int32) gguf.KV {
		return gguf.KV{Key: "tokenizer.ggml." + role + "_token_id", Value: uint32(firstSpecial + n)}
	}
	yes := func(role string, b bool) gguf.KV {
		return gguf.KV{Key: "tokenizer.ggml.add_" + role + "_token", Value: b}
	}
	switch pre {
	case "qwen2":
		kvs = append(kvs, id("bos", 0), id("eos", 2), id("padding", 0), yes("bos", false))
	case "llama-bpe":
		kvs = append(kvs, id("bos", 3), id("eos", 4))
	case "gpt-2":
		kvs = append(kvs, id("bos", 0), id("eos", 0), yes("bos", true), yes("eos", true))
	}
	return gguf.Model{KVs: kvs}, nil
}

// vocab is a vocabulary while it is being made.
type vocab struct {
	tokens []string
	types  []int32
	merges []string
	ids    map[string]bool
}

// add appends a token, if it is new.
func (v *vocab) add(text string, typ int32) {
	if v.ids[text] {
		return
	}
	v.ids[text] = true
	v.tokens = append(v.tokens, text)
	v.types = append(v.types, typ)
}

// merge adds a merge of two texts, and its token.
func (v *vocab) merge(left, right string) {
	l, r := spell(left), spell(right)
	v.merges = append(v.merges, l+" "+r)
	v.add(l+r, normal)
}

// compose makes a character of several bytes a token, byte by byte.
func (v *vocab) compose(s string) {
	for n := 1; n < len(s); n++ {
		if !v.ids[spell(s[:n+1])] {
			v.merge(s[:n], s[n:n+1])
		}
	}
}

// pairs adds the merges of all pairs of letters, those of two classes first, and
// of triples that begin or end with one of the pairs.
func (v *vocab) pairs() {
	rng := rand.New(rand.NewPCG(0x6d696e66, 0x6572))
	type two struct{ a, b string }
	var across, within []two
	for i, a := range letters {
		for j, b := range letters {
			if group(i) != group(j) {
				across = append(across, two{a, b})
			} else {
				within = append(within, two{a, b})
			}
		}
	}
	shuffle := func(p []two) { rng.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] }) }
	shuffle(across)
	shuffle(within)
	all := append(across, within...)
	for _, p := range all {
		v.merge(p.a, p.b)
	}
	for range 2000 {
		p, c := all[rng.IntN(len(all))], letters[rng.IntN(len(letters))]
		if rng.IntN(2) == 0 {
			v.triple(p.a+p.b, c)
		} else {
			v.triple(c, p.a+p.b)
		}
	}
}

// triple adds a merge that is not there yet.
func (v *vocab) triple(left, right string) {
	if !v.ids[spell(left+right)] {
		v.merge(left, right)
	}
}

// group is the class of a letter, by its place in letters.
func group(i int) int {
	switch s := letters[i]; {
	case s == "\r" || s == "\n":
		return 3
	case i < slices.Index(letters, "1"):
		return 0
	case i < slices.Index(letters, " "):
		return 1
	case i < slices.Index(letters, "\r"):
		return 2
	}
	return 4
}

// spell writes bytes in GPT-2's byte-level alphabet.
func spell(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteRune(alphabet[c])
	}
	return b.String()
}

var alphabet = func() (a [256]rune) {
	next := rune(256)
	for c := range a {
		if '!' <= c && c <= '~' || 0xa1 <= c && c <= 0xac || 0xae <= c {
			a[c] = rune(c)
		} else {
			a[c] = next
			next++
		}
	}
	return a
}()
