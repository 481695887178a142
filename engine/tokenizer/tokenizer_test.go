package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// tinyVocab is a vocabulary with all bytes, a few merges and special tokens:
// bytes are the ids 0 to 255.
func tinyVocab(pre string, more ...gguf.KV) *gguf.File {
	var tokens []string
	var types []int32
	add := func(typ int32, texts ...string) {
		for _, s := range texts {
			tokens = append(tokens, s)
			types = append(types, typ)
		}
	}
	for _, r := range byteLetters {
		add(typeNormal, string(r))
	}
	add(typeNormal, "ab", "abc", "bc", "Ġa", "ĠĠ", "11", "中", "whole") // 256 to 263
	add(typeControl, "<s>", "</s>", "<|im_end|>")                      // 264 to 266
	add(typeUserDefined, "<u>", "ab<")                                 // 267, 268
	add(typeUnknown, "<unk>")                                          // 269
	add(typeUnused, "[PAD]x")                                          // 270
	add(typeByte, "<0x41>")                                            // 271
	kvs := []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{"b c", "a b", "ab c", "Ġ a", "Ġ Ġ", "1 1"}},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(264)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(265)},
	}
	return &gguf.File{Path: "tiny.gguf", KVs: with(kvs, more...)}
}

// with replaces or adds keys; a nil value takes the key away.
func with(kvs []gguf.KV, more ...gguf.KV) []gguf.KV {
	out := append([]gguf.KV(nil), kvs...)
	for _, m := range more {
		for i := range out {
			if out[i].Key == m.Key {
				out = append(out[:i], out[i+1:]...)
				break
			}
		}
		if m.Value != nil {
			out = append(out, m)
		}
	}
	return out
}

func newTiny(t testing.TB, pre string, more ...gguf.KV) *Tokenizer {
	t.Helper()
	tok, err := New(tinyVocab(pre, more...))
	require.NoError(t, err)
	return tok
}

// The ids are llama.cpp v0.4.0's (llama_tokenize) for the same file.
func TestEncodeRecorded(t *testing.T) {
	f, err := gguf.Open(filepath.Join("..", "..", "refs", "models", "tiny-qwen2-f16.gguf"))
	require.NoError(t, err)
	defer f.Close()
	tok, err := New(f)
	require.NoError(t, err)
	require.Equal(t, 4096, tok.Size())
	for _, c := range []struct {
		text   string
		parse  bool
		want   []int32
		intact bool
	}{
		{"Once upon a time, there was a little girl named Lily. It's 2024!", false,
			[]int32{2262, 328, 456, 258, 727, 11, 406, 393, 258, 1179, 302, 3806, 3930, 341, 1211, 13, 1710, 390, 220, 17, 15, 17, 19, 0}, true},
		{"<|im_start|>user\nHi there<|im_end|>\n", false,
			[]int32{27, 91, 315, 62, 303, 669, 91, 29, 396, 266, 198, 39, 72, 406, 27, 91, 315, 62, 654, 91, 29, 198}, true},
		{"<|im_start|>user\nHi there<|im_end|>\n", true, []int32{4094, 396, 266, 198, 39, 72, 406, 4095, 198}, true},
		{"  indented\n\n\tTabs\r\n 12345 ", false,
			[]int32{220, 1541, 352, 284, 198, 198, 197, 51, 463, 82, 201, 198, 220, 16, 17, 18, 19, 20, 220}, true},
		{"naïve café 中文 🙂 e\u0301", false,
			[]int32{3400, 127, 107, 307, 835, 69, 127, 102, 220, 160, 116, 255, 162, 244, 229, 220, 172, 253, 247, 224, 343, 136, 223}, true},
		{"bad \xff\xc3 bytes \xe4\xb8 \xc0\x80\xed\xa0\x80", false,
			[]int32{65, 388, 220, 171, 123, 121, 171, 123, 121, 433, 83, 281, 220, 171, 123, 121, 171, 123, 121, 220, 188, 169, 254, 222}, false},
	} {
		got := tok.Encode(c.text, Options{AddSpecial: true, ParseSpecial: c.parse})
		require.Equal(t, c.want, got, "%q", c.text)
		require.Equal(t, c.intact, string(tok.Decode(got)) == c.text, "%q", c.text)
	}
}

// The digest is of the classes that llama.cpp v0.4.0 gives the code points 0 to
// 10FFFF (unicode_cpt_flags_from_cpt), a letter each.
func TestClasses(t *testing.T) {
	b := make([]byte, maxRune+1)
	for r := range b {
		b[r] = " OLNW"[classOf(rune(r))]
	}
	sum := sha256.Sum256(b)
	require.Equal(t, "62c7e1ad183384eb7ea2f97a2c1c1490bfa8ff10572c408ac21835cef9c4b1fb", hex.EncodeToString(sum[:]))
	for i := 1; i < len(classRanges); i++ {
		require.Less(t, classRanges[i-1].last, classRanges[i].first)
	}
}

// The digests are of the orders that std::sort of GNU's C++ library, version 12,
// gives: of keys from a xorshift generator, and of the sequences that make
// quicksort with the median of three quadratic.
func TestIntrosort(t *testing.T) {
	digest := uint64(14695981039346656037)
	run := func(key []int) {
		id := make([]int32, len(key))
		for i := range id {
			id[i] = int32(i)
		}
		introsort(id, func(a, b int32) bool { return key[a] > key[b] })
		for _, i := range id {
			digest = (digest ^ uint64(i)) * 1099511628211
		}
	}
	x := uint64(88172645463325252)
	for n := range 300 {
		key := make([]int, 3*n)
		for i := range key {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			key[i] = int(x % [...]uint64{2, 5, 40, 100000}[n%4])
		}
		run(key)
	}
	require.Equal(t, uint64(13135494148816670737), digest)

	digest = 14695981039346656037
	for k := 2; k < 400; k += 2 {
		key := make([]int, 2*k)
		for i := 1; i <= k; i++ {
			if i%2 == 1 {
				key[i-1] = -i
				if i < k {
					key[i] = -(k + i)
				}
			}
			key[k+i-1] = -2 * i
		}
		run(key)
	}
	require.Equal(t, uint64(12761922597417053701), digest)
}

func TestMergeOrder(t *testing.T) {
	tok := newTiny(t, "gpt-2")
	for _, c := range []struct {
		text string
		want []int32
	}{
		{"abc", []int32{'a', 258}},                  // "b c" has the lowest rank
		{"ab", []int32{256}},                        //
		{"aab", []int32{'a', 256}},                  //
		{"111", []int32{261, '1'}},                  // the leftmost of equal rank
		{"11111", []int32{261, 261, '1'}},           //
		{"x  a", []int32{'x', ' ', 259}},            // the last space goes with the letter
		{"x   ", []int32{'x', 260, ' '}},            //
		{"whole", []int32{119, 104, 111, 108, 101}}, // a token that no merge makes
		{"é", []int32{0xc3, 0xa9}},
	} {
		require.Equal(t, c.want, tok.Encode(c.text, Options{}), "%q", c.text)
	}
	require.Equal(t, []int32{264, 263}, newTiny(t, "llama-bpe").Encode("whole", Options{AddSpecial: true}))
	require.Empty(t, tok.Encode("", Options{}))
}

// Bytes without a token are left out, unless the bytes of their letter are
// tokens themselves.
func TestMissingBytes(t *testing.T) {
	kvs := tinyVocab("gpt-2").KVs
	tokens := append([]string(nil), kvs[2].Value.([]string)...)
	tokens['x'], tokens[0xe9] = "?x", "\xc4" // the letter of 0xe9 is é, c3 a9; of 0x00 it is Ā, c4 80
	tokens[0] = "?0"
	tok := newTiny(t, "gpt-2", gguf.KV{Key: "tokenizer.ggml.tokens", Value: tokens})
	require.Equal(t, []int32{'a', 'b'}, tok.Encode("axb", Options{}))
	require.Equal(t, []int32{0xe9}, tok.Encode("\x00", Options{}))
	require.Empty(t, tok.Encode("xx", Options{}))
}

func TestSpecialTokens(t *testing.T) {
	tok := newTiny(t, "qwen2")
	for _, c := range []struct {
		text  string
		parse bool
		want  []int32
	}{
		{"<s>a<u>", true, []int32{264, 'a', 267}},
		{"<s>a<u>", false, []int32{'<', 's', '>', 'a', 267}}, // user-defined tokens always
		{"<unk>", true, []int32{269}},
		{"<unk>", false, []int32{'<', 'u', 'n', 'k', '>'}},
		{"ab<s>", true, []int32{256, 264}}, // of two of one length, the first of the vocabulary
		{"ab<<", true, []int32{268, '<'}},
		{"ab<|im_end|>", true, []int32{256, 266}}, // the longer one first
		{"[PAD]x", true, []int32{'[', 'P', 'A', 'D', ']', 'x'}},
		{"<s><s>", true, []int32{264, 264}},
		{"\xff<s>", true, []int32{0xef, 0xbf, 0xbd, 264}},
	} {
		require.Equal(t, c.want, tok.Encode(c.text, Options{ParseSpecial: c.parse}), "%q", c.text)
	}
	require.Equal(t, []int32{264, 'x', 265}, newTiny(t, "gpt-2",
		gguf.KV{Key: "tokenizer.ggml.add_bos_token", Value: true},
		gguf.KV{Key: "tokenizer.ggml.add_eos_token", Value: true}).Encode("x", Options{AddSpecial: true}))
	bos, ok := tok.BOS()
	require.True(t, ok)
	require.EqualValues(t, 264, bos)
	eos, ok := tok.EOS()
	require.True(t, ok)
	require.EqualValues(t, 265, eos)
	require.True(t, tok.IsControl(264))
	require.False(t, tok.IsControl(267))
	require.False(t, tok.IsControl(-1))
	require.False(t, tok.IsControl(272))
}

// Without a key, BOS and EOS are token 11, as llama.cpp has it.
func TestDefaultIDs(t *testing.T) {
	tok := newTiny(t, "smollm", gguf.KV{Key: "tokenizer.ggml.bos_token_id"}, gguf.KV{Key: "tokenizer.ggml.eos_token_id"})
	bos, _ := tok.BOS()
	eos, _ := tok.EOS()
	require.EqualValues(t, 11, bos)
	require.EqualValues(t, 11, eos)
	require.True(t, tok.IsEOG(11))
}

func TestStripByName(t *testing.T) {
	phi := []gguf.KV{{Key: "general.name", Value: "Phi-3 mini"}}
	_, err := New(tinyVocab("gpt-2", phi...))
	require.EqualError(t, err, `tokenizer: tiny.gguf: general.name is "Phi-3 mini": such a vocabulary has a token "<|endoftext|>", this one doesn't`)

	kvs := tinyVocab("gpt-2").KVs
	tokens := append([]string(nil), kvs[2].Value.([]string)...)
	tokens[270], tokens[271] = "<|endoftext|>", "[MASK]"
	types := append([]int32(nil), kvs[3].Value.([]int32)...)
	types[270], types[271] = typeControl, typeControl
	more := []gguf.KV{{Key: kvs[2].Key, Value: tokens}, {Key: kvs[3].Key, Value: types}}
	tok := newTiny(t, "gpt-2", append(phi, more...)...)
	require.Equal(t, []int32{265, 'x', 264, ' '}, tok.Encode("</s> \n x<s> ", Options{ParseSpecial: true}))
	tok = newTiny(t, "gpt-2", append(more, gguf.KV{Key: "general.name", Value: "Modern-BERT"})...)
	require.Equal(t, []int32{'a', 271, ' '}, tok.Encode("a \n[MASK] ", Options{ParseSpecial: true}))
}

// A megabyte of one kind of text: a tokenizer that is quadratic in any of them
// does not end within the test's time.
func TestEncodeLong(t *testing.T) {
	for _, pre := range preTokenizers {
		tok := newTiny(t, pre.name)
		for _, s := range []string{"a", "1", " ", "\n", "ab", " \n", ".", "'", "<s>", "a 1\n", "中"} {
			text := strings.Repeat(s, 1<<18/len(s))
			ids := tok.Encode(text, Options{ParseSpecial: true})
			require.True(t, string(tok.Decode(ids)) == text, "%s %q", pre.name, s)
		}
	}
}

// Overlong forms and surrogates are code points, other invalid bytes are
// U+FFFD, as llama.cpp reads them; numbers above U+10FFFF, which llama.cpp does
// not survive, are invalid bytes here.
func TestInvalidUTF8(t *testing.T) {
	tok := newTiny(t, "gpt-2")
	const bad = "\ufffd"
	for in, want := range map[string]string{
		"\x80": bad, "a\xffb": "a" + bad + "b", "\xc3": bad, "\xe4\xb8": bad + bad, "\xe4\xb8(": bad + bad + "(",
		"\xf0\x9f\x99": bad + bad + bad, "\xf8\x88\x80\x80\x80": strings.Repeat(bad, 5),
		"\xc1\x81": "A", "\xe0\x80\x80": "\x00", "\xf0\x80\x81\x81": "A", "\xf0\x8f\xbf\xbf": "\uffff",
		"\xed\xa0\x80": "\xed\xa0\x80", "\xf4\x8f\xbf\xbf": "\U0010ffff",
		"\xf4\x90\x80\x80": strings.Repeat(bad, 4), "\xf7\xbf\xbf\xbf": strings.Repeat(bad, 4),
	} {
		require.Equal(t, want, string(tok.Decode(tok.Encode(in, Options{}))), "%q", in)
	}
}

func TestPiece(t *testing.T) {
	tok := newTiny(t, "gpt-2")
	for id, want := range map[int32]string{
		0: "\x00", ' ': " ", 0xff: "\xff", 257: "abc", 259: " a", 264: "<s>", 267: "<u>", 269: "<unk>",
		262: "[UNK_BYTE_0xe4b8ad中]", 270: "", 271: "A",
	} {
		p, ok := tok.Piece(id)
		require.True(t, ok)
		require.Equal(t, want, string(p), "token %d", id)
	}
	for _, id := range []int32{-1, 272} {
		_, ok := tok.Piece(id)
		require.False(t, ok)
	}
	require.Equal(t, "a b", string(tok.Decode([]int32{'a', -1, ' ', 9999, 'b'})))
}

func TestStream(t *testing.T) {
	tok := newTiny(t, "gpt-2")
	s := tok.NewStream()
	push := func(ids ...int32) []string {
		var out []string
		for _, id := range ids {
			out = append(out, s.Push(id))
		}
		return out
	}
	require.Equal(t, []string{"", "é", "a"}, push(0xc3, 0xa9, 'a'))
	require.Equal(t, []string{"", "", "", "🙂"}, push(0xf0, 0x9f, 0x99, 0x82))
	require.Equal(t, []string{"", "\xe4a"}, push(0xe4, 'a')) // can't become valid any more
	require.Equal(t, []string{"", "\xc3"}, push(0xc3, 0xc3))
	require.Equal(t, "\xc3", s.Flush())
	require.Equal(t, "", s.Flush())
	require.Equal(t, []string{"\xff", "\x80", ""}, push(0xff, 0x80, -1))

	const text = "naïve 中文 👨‍👩‍👧‍👦 done"
	got := ""
	for _, id := range tok.Encode(text, Options{}) {
		p := s.Push(id)
		require.True(t, utf8.ValidString(p), "%q", p)
		got += p
	}
	require.Equal(t, text, got+s.Flush())
}
