// Package tokenizer turns text into token ids and back, with the vocabulary of
// a GGUF file: GPT-2's byte-level BPE with the pre-tokenizers qwen2, llama-bpe,
// smollm and gpt-2. It gives the ids that llama.cpp v0.4.0 gives for the same
// file, for any byte string.
//
// [New] reads and checks the vocabulary, [Tokenizer.Encode] and
// [Tokenizer.Decode] convert whole texts, a [Stream] turns ids into text as they
// are generated, without ever cutting a character in two.
//
// Encode works in three steps, each in its own file. The text is cut at the
// special tokens in it (special.go); what is left is cut into words by the
// pre-tokenizer's expression (split.go), which is written out by hand over the
// classes of Unicode 15.1 (class.go); each word's bytes are merged by rank
// (bpe.go).
//
// Invalid UTF-8 becomes U+FFFD, one for each byte that begins no sequence;
// surrogates, and overlong forms of a code point, are read as llama.cpp reads
// them. Decode then gives back what was read and not the invalid bytes. Valid
// UTF-8 always comes back as it was, provided that the vocabulary has all bytes.
// Where llama.cpp ends the process, on a four-byte sequence for a number above
// U+10FFFF, this package reads invalid bytes.
//
// Other tokenizer models (SentencePiece, WordPiece and so on), other
// pre-tokenizers and chat templates are not here: New refuses the first two by
// name.
package tokenizer

// A Tokenizer holds one vocabulary. It is immutable and safe for concurrent use.
type Tokenizer struct {
	pre          preTokenizer
	text         []string   // by id, as the file has it
	texts        texts      // the inverse of text
	attr         []attr     // by id
	bytes        [256]int32 // the token of each byte's letter in the byte-level alphabet, or -1
	merges       merges
	special      []int32 // tokens that are found in the text before anything else, in the order of the search
	eog          map[int32]bool
	bos, eos     int32 // or -1
	addBOS       bool
	addEOS       bool
	ignoreMerges bool // a word that is a token as a whole is not taken apart
}

// Options says what Encode adds to the text and how it reads special tokens.
type Options struct {
	AddSpecial   bool // put BOS and EOS around the text where the vocabulary asks for them
	ParseSpecial bool // read the text of control tokens as the tokens themselves; user-defined tokens always are
}

// Encode gives the ids of the text, which may be any bytes. It does not fail:
// bytes that the vocabulary has no token for are left out, as in llama.cpp.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	var out []int32
	if o.AddSpecial && t.addBOS {
		out = append(out, t.bos)
	}
	var w encoder
	for _, f := range t.partition(text, o.ParseSpecial) {
		if f.token >= 0 {
			out = append(out, f.token)
			continue
		}
		out = t.encodeText(&w, text[f.start:f.end], out)
	}
	if o.AddSpecial && t.addEOS {
		out = append(out, t.eos)
	}
	return out
}

// encodeText appends the ids of a text without special tokens.
func (t *Tokenizer) encodeText(w *encoder, text string, out []int32) []int32 {
	w.read(text)
	t.pre.split(w)
	start := 0
	for _, end := range w.ends {
		out = t.encodeWord(w, start, end, out)
		start = end
	}
	return out
}

// BOS is the id of the token that begins a sequence; ok is false when the
// vocabulary has none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos >= 0 }

// EOS is the id of the token that ends a sequence; ok is false when the
// vocabulary has none.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos >= 0 }

// IsEOG reports whether generation ends at the token: EOS, and the tokens that
// llama.cpp knows by their text.
func (t *Tokenizer) IsEOG(id int32) bool { return t.eog[id] }

// IsControl reports whether the token is one that a user interface does not
// show. Decode and Stream give its text all the same.
func (t *Tokenizer) IsControl(id int32) bool {
	return t.known(id) && t.attr[id]&attrControl != 0
}

// Size is the number of tokens.
func (t *Tokenizer) Size() int { return len(t.text) }

func (t *Tokenizer) known(id int32) bool { return id >= 0 && int(id) < len(t.text) }
