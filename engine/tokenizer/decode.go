package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// byteLetters is GPT-2's byte-level alphabet: the letter that stands for each
// byte in the texts of tokens. The printable bytes of Latin-1 stand for
// themselves, the others, in order, for the code points from U+0100.
var byteLetters = func() (letters [256]rune) {
	next := rune(0x100)
	for c := range rune(256) {
		switch {
		case '!' <= c && c <= '~', 0xa1 <= c && c <= 0xac, 0xae <= c && c <= 0xff:
			letters[c] = c
		default:
			letters[c] = next
			next++
		}
	}
	return letters
}()

// letterBytes is the inverse of byteLetters, plus one; 0 is no letter.
var letterBytes = func() (m [0x150]uint16) {
	for c, r := range byteLetters {
		m[r] = uint16(c) + 1
	}
	return m
}()

// appendText appends the bytes of a token's text in the byte-level alphabet. A
// character outside the alphabet becomes a note of llama.cpp's making.
func appendText(out []byte, text string) []byte {
	for i := 0; i < len(text); {
		r, n := decode(text[i:])
		i += n
		if 0 <= r && int(r) < len(letterBytes) && letterBytes[r] > 0 {
			out = append(out, byte(letterBytes[r]-1))
		} else {
			out = fmt.Appendf(out, "[UNK_BYTE_0x%x%s]", appendRune(nil, r), text)
		}
	}
	return out
}

// Piece gives the bytes of one token, which need not be valid UTF-8 by
// themselves; ok is false for an id that the vocabulary does not have. Control
// tokens give their text, unused and undefined ones nothing.
func (t *Tokenizer) Piece(id int32) (piece []byte, ok bool) {
	if !t.known(id) {
		return nil, false
	}
	return t.appendPiece(nil, id), true
}

// appendPiece appends the bytes of a token.
func (t *Tokenizer) appendPiece(out []byte, id int32) []byte {
	s := t.text[id]
	switch a := t.attr[id]; {
	case a&(attrControl|attrUserDefined|attrUnknown) != 0:
		return append(out, s...)
	case a&attrNormal != 0:
		return appendText(out, s)
	case a&attrByte != 0:
		c, _ := byteToken(s) // checked in loadTypes
		return append(out, c)
	}
	return out
}

// Decode gives the bytes of the ids, piece by piece. Ids that the vocabulary
// does not have give nothing.
func (t *Tokenizer) Decode(ids []int32) []byte {
	var out []byte
	for _, id := range ids {
		if t.known(id) {
			out = t.appendPiece(out, id)
		}
	}
	return out
}

// A Stream turns ids into text as they come. What it gives out, in all, is what
// Decode gives; a character that is still incomplete is held back. It is for one
// goroutine.
type Stream struct {
	t    *Tokenizer
	held []byte
}

// NewStream begins an empty stream.
func (t *Tokenizer) NewStream() *Stream { return &Stream{t: t} }

// Push adds a token and gives the text that is complete with it, perhaps none.
// Bytes that can't become valid UTF-8 are given as they are.
func (s *Stream) Push(id int32) string {
	if s.t.known(id) {
		s.held = s.t.appendPiece(s.held, id)
	}
	cut := len(s.held) - incomplete(s.held)
	out := string(s.held[:cut])
	s.held = append(s.held[:0], s.held[cut:]...)
	return out
}

// Flush gives what is left at the end of the stream: an incomplete character, if
// the ids end within one.
func (s *Stream) Flush() string {
	out := string(s.held)
	s.held = s.held[:0]
	return out
}

// incomplete gives the length of the beginning of a character at the end of b.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
