// Package tokenizer turns text into token ids and back, with the vocabulary of
// a GGUF file: GPT-2's byte-level BPE and the pre-tokenizers qwen2, llama-bpe,
// smollm and gpt-2, giving llama.cpp's ids for any byte string.
package tokenizer

import (
	"errors"

	"minfer/engine/gguf"
)

// A Tokenizer holds one vocabulary. It is immutable and safe for concurrent use.
type Tokenizer struct{}

// Options says what Encode adds to the text and how it reads special tokens.
type Options struct {
	AddSpecial   bool // put the vocabulary's BOS and EOS where its metadata asks for them
	ParseSpecial bool // read the text of control tokens as the tokens themselves
}

// New reads and checks the vocabulary of a GGUF file.
func New(f *gguf.File) (*Tokenizer, error) {
	return nil, errors.New("tokenizer: not built yet")
}

// Encode gives the ids of the text, which may be any bytes.
func (t *Tokenizer) Encode(text string, o Options) []int32 { return nil }

// Decode gives the bytes of the ids.
func (t *Tokenizer) Decode(ids []int32) []byte { return nil }

// Piece gives the bytes of one token.
func (t *Tokenizer) Piece(id int32) ([]byte, bool) { return nil, false }

// BOS is the id of the token that begins a sequence.
func (t *Tokenizer) BOS() (id int32, ok bool) { return 0, false }

// EOS is the id of the token that ends a sequence.
func (t *Tokenizer) EOS() (id int32, ok bool) { return 0, false }

// IsEOG reports whether generation ends at the token.
func (t *Tokenizer) IsEOG(id int32) bool { return false }

// Size is the number of tokens.
func (t *Tokenizer) Size() int { return 0 }

// A Stream turns ids into text piece by piece.
type Stream struct{}

// NewStream begins an empty stream.
func (t *Tokenizer) NewStream() *Stream { return &Stream{} }

// Push adds a token and gives the text that is complete with it.
func (s *Stream) Push(id int32) string { return "" }

// Flush gives what is left.
func (s *Stream) Flush() string { return "" }
