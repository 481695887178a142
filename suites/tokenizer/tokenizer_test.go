package tokenizer

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/tokenizer"
)

const seed = 1

func TestStrings(t *testing.T) {
	all := Strings(seed)
	require.GreaterOrEqual(t, len(all), 5000)
	require.Equal(t, all, Strings(seed))
	other := Strings(seed + 1)
	require.Equal(t, all[:len(all)-randomTexts], other[:len(other)-randomTexts])
	require.NotEqual(t, all, other)
	seen := map[string]bool{}
	invalid, size := 0, 0
	for _, s := range all {
		require.False(t, seen[s], "%q twice", s)
		seen[s] = true
		size += len(s)
		if !utf8.ValidString(s) {
			invalid++
		}
		for i := 0; i+3 < len(s); i++ { // numbers above U+10FFFF end llama.cpp's process
			if s[i] >= 0xf4 && s[i] < 0xf8 && s[i+1]>>6 == 2 && s[i+2]>>6 == 2 && s[i+3]>>6 == 2 {
				require.Less(t, rune(s[i]&7)<<18|rune(s[i+1]&0x3f)<<12, rune(0x110000), "%q", s)
			}
		}
	}
	require.Greater(t, invalid, 1000)
	require.Less(t, size, 2<<20)
}

// A vocabulary that is read with another pre-tokenizer than its own gives other
// ids, for every pair of them.
func TestSyntheticVocabTellsPreTokenizersApart(t *testing.T) {
	all := Strings(seed)
	for _, own := range PreTokenizers {
		m, err := SyntheticVocab(own)
		require.NoError(t, err)
		right := open(t, m)
		for _, other := range PreTokenizers {
			for i, kv := range m.KVs {
				if kv.Key == "tokenizer.ggml.pre" {
					m.KVs[i].Value = other
				}
			}
			wrong := open(t, m)
			differ := 0
			for _, s := range all {
				if !equal(right.Encode(s, tokenizer.Options{}), wrong.Encode(s, tokenizer.Options{})) {
					differ++
				}
			}
			if own == other {
				require.Zero(t, differ)
			} else {
				require.Greater(t, differ, 500, "the vocabulary of %s read as %s", own, other)
			}
		}
	}
	_, err := SyntheticVocab("tekken")
	require.EqualError(t, err, `synthetic vocabulary for the pre-tokenizer "tekken": want one of qwen2, llama-bpe, smollm, gpt-2`)
}

func TestRoundTrip(t *testing.T) {
	for _, pre := range PreTokenizers {
		m, err := SyntheticVocab(pre)
		require.NoError(t, err)
		tok := open(t, m)
		for _, s := range Strings(seed) {
			ids := tok.Encode(s, tokenizer.Options{ParseSpecial: true})
			for _, id := range ids {
				require.True(t, id >= 0 && int(id) < tok.Size())
			}
			if utf8.ValidString(s) {
				require.Equal(t, s, string(tok.Decode(ids)), pre)
			}
		}
	}
}

// testdata/ids.tsv has the ids that llama.cpp v0.4.0 gives with the synthetic
// vocabularies and with refs/models/tiny-qwen2-f16.gguf.
func TestRecordedIDs(t *testing.T) {
	toks := map[string]*tokenizer.Tokenizer{}
	for _, pre := range PreTokenizers {
		m, err := SyntheticVocab(pre)
		require.NoError(t, err)
		toks[pre] = open(t, m)
	}
	const model = "tiny-qwen2-f16"
	file, err := gguf.Open(filepath.Join("..", "..", "refs", "models", model+".gguf"))
	require.NoError(t, err)
	defer file.Close()
	toks[model], err = tokenizer.New(file)
	require.NoError(t, err)

	f, err := os.Open(filepath.Join("testdata", "ids.tsv"))
	require.NoError(t, err)
	defer f.Close()
	lines := map[string]int{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		field := strings.Split(sc.Text(), "\t")
		require.Len(t, field, 5)
		text, err := strconv.Unquote(field[3])
		require.NoError(t, err, field[3])
		var want []int32
		for _, s := range strings.Fields(field[4]) {
			id, err := strconv.Atoi(s)
			require.NoError(t, err)
			want = append(want, int32(id))
		}
		tok := toks[field[0]]
		require.NotNil(t, tok, field[0])
		got := tok.Encode(text, tokenizer.Options{AddSpecial: field[1] == "1", ParseSpecial: field[2] == "1"})
		require.Equal(t, want, got, "%s %s %s %s", field[0], field[1], field[2], field[3])
		lines[field[0]]++
	}
	for name := range toks {
		require.Greater(t, lines[name], 100, name)
	}
}

func TestFromHF(t *testing.T) {
	const pre = `{"type":"Sequence","pretokenizers":[
		{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
		{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`
	const added = `[{"id":3,"content":"<|im_end|>","special":true},{"id":4,"content":"<think>","special":false}]`
	write := func(pre, added, merges, config string) string {
		dir := t.TempDir()
		tok := `{"added_tokens":` + added + `,"pre_tokenizer":` + pre + `,"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":` + merges + `}}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(tok), 0o666))
		if config != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o666))
		}
		return dir
	}

	m, err := FromHF(write(pre, added, `[["a","b"]]`, `{"add_bos_token":false,"bos_token":null,"eos_token":{"content":"<|im_end|>"},"pad_token":"<think>"}`))
	require.NoError(t, err)
	require.Equal(t, []gguf.KV{
		{Key: "general.architecture", Value: "qwen2"},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "qwen2"},
		{Key: "tokenizer.ggml.tokens", Value: []string{"a", "b", "ab", "<|im_end|>", "<think>"}},
		{Key: "tokenizer.ggml.token_type", Value: []int32{1, 1, 1, 3, 4}},
		{Key: "tokenizer.ggml.merges", Value: []string{"a b"}},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(3)},
		{Key: "tokenizer.ggml.padding_token_id", Value: uint32(4)},
	}, m.KVs)
	require.Equal(t, []int32{2, 4, 0}, open(t, m).Encode("ab<think>a", tokenizer.Options{}))

	for name, p := range map[string]string{
		"gpt-2":     `{"type":"ByteLevel","add_prefix_space":false}`,
		"smollm":    `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]}`,
		"llama-bpe": strings.Replace(pre, `|\\p{N}|`, `|\\p{N}{1,3}|`, 1),
	} {
		m, err := FromHF(write(p, added, `["a b"]`, ""))
		require.NoError(t, err)
		require.Equal(t, name, m.KVs[2].Value)
		require.Equal(t, []string{"a b"}, m.KVs[5].Value)
	}

	for want, dir := range map[string]string{
		"pre_tokenizer is [Whitespace]: want that of one of qwen2, llama-bpe, smollm, gpt-2": write(`{"type":"Whitespace"}`, added, `[]`, ""),
		"5 tokens with ids up to 5: want every id once":                                      write(pre, strings.Replace(added, "4", "5", 1), `[]`, ""),
		`tokenizer_config.json names "<s>" as its bos token: no such token`:                  write(pre, added, `[]`, `{"bos_token":"<s>"}`),
	} {
		_, err := FromHF(dir)
		require.EqualError(t, err, filepath.Join(dir, "tokenizer.json")+": "+want)
	}
	_, err = FromHF(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func open(t *testing.T, m gguf.Model) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.New(&gguf.File{KVs: m.KVs})
	require.NoError(t, err)
	return tok
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
