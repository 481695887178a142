package tokenizer

import (
	"sort"
	"unicode"
)

// A class is what the pre-tokenizers' expressions see of a code point.
type class uint8

const (
	none   class = iota // no code point: past the end of the text
	other               // everything else: punctuation, symbols, marks, controls, unassigned
	letter              // \p{L}
	number              // \p{N}
	space               // \s: the property White_Space
)

// A classRange is a run of code points of one class.
type classRange struct {
	first, last rune
	class       class
}

// maxRune is the last code point. Four-byte sequences can encode numbers above
// it, which decode treats as invalid bytes.
const maxRune = unicode.MaxRune

// classOf gives the class of a code point of 0 to maxRune. The tables are those
// of Unicode 15.1, whatever the tables of the Go that builds this: llama.cpp
// v0.4.0 has exactly these, found by asking it for every code point.
func classOf(r rune) class {
	switch {
	case r < 0x80:
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			return letter
		case '0' <= r && r <= '9':
			return number
		case 0x09 <= r && r <= 0x0d, r == ' ':
			return space
		}
		return other
	case isWideSpace(r):
		return space
	}
	i := sort.Search(len(classRanges), func(i int) bool { return r <= classRanges[i].last })
	if i < len(classRanges) && classRanges[i].first <= r {
		return classRanges[i].class
	}
	return other
}

// isWideSpace reports the white space above ASCII.
func isWideSpace(r rune) bool {
	switch r {
	case 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000:
		return true
	}
	return 0x2000 <= r && r <= 0x200a
}
