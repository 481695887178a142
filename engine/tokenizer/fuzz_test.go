package tokenizer

import (
	"testing"
	"unicode/utf8"

	"minfer/engine/gguf"
)

// FuzzEncode: no panic, ids within the vocabulary, valid UTF-8 comes back as it
// was, whole and by a stream.
func FuzzEncode(f *testing.F) {
	var toks []*Tokenizer
	for _, p := range preTokenizers {
		toks = append(toks, newTiny(f, p.name))
	}
	for _, s := range []string{"", "abc  ab\r\n 11'LL <s>ab<|im_end|>", "\xf0\x9f\x99\x82\xed\xa0\x80\xff\u3000²é", "'ſ's\t\u0085"} {
		f.Add(s, uint8(0))
		f.Add(s, uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, text string, flags uint8) {
		tok := toks[flags>>2&3]
		o := Options{AddSpecial: flags&1 != 0, ParseSpecial: flags&2 != 0}
		ids := tok.Encode(text, o)
		for _, id := range ids {
			if !tok.known(id) {
				t.Fatalf("id %d: want 0 to %d", id, tok.Size()-1)
			}
		}
		if !o.AddSpecial && utf8.ValidString(text) {
			if got := string(tok.Decode(ids)); got != text {
				t.Fatalf("%q decodes to %q", text, got)
			}
		}
		s, streamed := tok.NewStream(), ""
		for _, id := range ids {
			streamed += s.Push(id)
		}
		if streamed += s.Flush(); streamed != string(tok.Decode(ids)) {
			t.Fatalf("%q streams as %q", text, streamed)
		}
	})
}

// FuzzNew: hostile metadata gives an error or a tokenizer that works, never a
// panic. The bytes say which keys to put in the place of good ones.
func FuzzNew(f *testing.F) {
	f.Add([]byte{0}, "ab c", int64(3))
	f.Add([]byte{1, 4, 9, 200, 31}, "<0x41>", int64(-1))
	f.Add([]byte{2, 2, 3, 3, 7, 7}, "\xff \xf4\x90\x80\x80 é", int64(1<<40))
	f.Add([]byte{5, 21, 86, 91}, " ", int64(272))
	keys := []string{
		"general.name", "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges",
		"tokenizer.ggml.scores", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
		"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_sep_token",
		"tokenizer.ggml.suppress_tokens",
	}
	f.Fuzz(func(t *testing.T, edits []byte, s string, n int64) {
		values := []any{
			nil, s, []string{s}, []string{s, "", "a"}, n, uint32(n), int32(n), []int32{int32(n)}, []uint8(s), true, false, float32(n), []float64{1}, []bool{},
			[]string{s + " " + s, "a b"},
		}
		file := tinyVocab(preTokenizers[len(s)%len(preTokenizers)].name)
		tokens := append([]string(nil), file.KVs[2].Value.([]string)...)
		types := append([]int32(nil), file.KVs[3].Value.([]int32)...)
		at := int(uint64(n) % uint64(len(tokens)))
		tokens[at], types[at] = s, int32(n>>8)
		file.KVs = with(file.KVs, gguf.KV{Key: file.KVs[2].Key, Value: tokens}, gguf.KV{Key: file.KVs[3].Key, Value: types})
		for _, e := range edits[:min(len(edits), 6)] {
			file.KVs = with(file.KVs, gguf.KV{Key: keys[int(e)%len(keys)], Value: values[int(e)/len(keys)%len(values)]})
		}
		tok, err := New(file)
		if err != nil {
			return
		}
		for _, o := range []Options{{}, {AddSpecial: true, ParseSpecial: true}} {
			for _, id := range tok.Encode(s+" <s>abc\xff"+s, o) {
				if !tok.known(id) {
					t.Fatalf("id %d: want 0 to %d", id, tok.Size()-1)
				}
				tok.IsEOG(id)
			}
		}
	})
}
