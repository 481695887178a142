package tokenizer

import "fmt"

// A preTokenizer is one way of cutting text into words.
type preTokenizer struct {
	name         string
	split        func(w *encoder)
	ignoreMerges bool
	addBOS       bool // when the file does not say
}

// preTokenizers are the ones that New accepts. The names are the values of
// tokenizer.ggml.pre.
var preTokenizers = []preTokenizer{
	{name: "qwen2", split: func(w *encoder) { splitClauses(w, 1) }},
	{name: "llama-bpe", split: func(w *encoder) { splitClauses(w, 3) }, ignoreMerges: true, addBOS: true},
	{name: "smollm", split: splitSmolLM},
	{name: "gpt-2", split: func(w *encoder) { splitGPT2(w, 0, len(w.runes)) }},
}

func preTokenizerOf(name string) (preTokenizer, error) {
	for _, p := range preTokenizers {
		if p.name == name {
			return p, nil
		}
	}
	return preTokenizer{}, fmt.Errorf("pre-tokenizer %q is not supported: want one of qwen2, llama-bpe, smollm, gpt-2", name)
}

// An encoder is the scratch space of one Encode.
type encoder struct {
	runes   []rune  // the text, code point by code point
	classes []class // of runes
	ends    []int   // where the words end, in runes

	word    []byte // a word in the byte-level alphabet
	symbols []symbol
	queue   queue
}

// read sets the text. A sequence counts as valid here when its lead byte and its
// number of continuation bytes agree, so overlong forms and surrogates are code
// points like others, as in llama.cpp. Each byte that begins no such sequence,
// or one above U+10FFFF, is a U+FFFD.
func (w *encoder) read(text string) {
	w.runes, w.classes, w.ends = w.runes[:0], w.classes[:0], w.ends[:0]
	for i := 0; i < len(text); {
		r, n := decode(text[i:])
		w.runes = append(w.runes, r)
		w.classes = append(w.classes, classOf(r))
		i += n
	}
}

// decode reads the code point at the start of s, which is not empty, and its
// length in bytes.
func decode(s string) (rune, int) {
	n, r := 0, rune(0)
	switch c := s[0]; {
	case c < 0x80:
		return rune(c), 1
	case c>>5 == 0b110:
		n, r = 2, rune(c&0x1f)
	case c>>4 == 0b1110:
		n, r = 3, rune(c&0x0f)
	case c>>3 == 0b11110:
		n, r = 4, rune(c&0x07)
	default:
		return 0xfffd, 1
	}
	if len(s) < n {
		return 0xfffd, 1
	}
	for _, c := range []byte(s[1:n]) {
		if c>>6 != 0b10 {
			return 0xfffd, 1
		}
		r = r<<6 | rune(c&0x3f)
	}
	if r > maxRune {
		return 0xfffd, 1
	}
	return r, n
}

// appendRune appends the shortest form of r, surrogates like other code points.
func appendRune(b []byte, r rune) []byte {
	switch {
	case r < 0x80:
		return append(b, byte(r))
	case r < 0x800:
		return append(b, 0xc0|byte(r>>6), 0x80|byte(r&0x3f))
	case r < 0x10000:
		return append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
	}
	return append(b, 0xf0|byte(r>>18), 0x80|byte(r>>12&0x3f), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
}

// contraction gives the length of one of 's 't 're 've 'm 'll 'd at pos, or 0.
// Case is folded for ASCII only, so 'ſ is none.
func (w *encoder) contraction(pos, end int, fold bool) int {
	if w.runes[pos] != '\'' || pos+1 >= end {
		return 0
	}
	at := func(i int) rune {
		r := w.runes[i]
		if fold && 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	a := at(pos + 1)
	switch a {
	case 's', 't', 'm', 'd':
		return 2
	}
	if pos+2 >= end {
		return 0
	}
	switch b := at(pos + 2); {
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// run gives the end of the run of one class from pos.
func (w *encoder) run(pos, end int, c class) int {
	for pos < end && w.classes[pos] == c {
		pos++
	}
	return pos
}

// classAt is the class at pos, none past the end.
func (w *encoder) classAt(pos, end int) class {
	if pos < end {
		return w.classes[pos]
	}
	return none
}

// spaces gives the end of the word that white space makes from pos, under
// \s+(?!\S)|\s+ : the last one before more text is left to the next word.
func (w *encoder) spaces(pos, end int) int {
	stop := w.run(pos, end, space)
	if stop < end && stop-pos > 1 {
		return stop - 1
	}
	return stop
}

func isNewline(r rune) bool { return r == '\r' || r == '\n' }

// splitClauses cuts as the expression of llama-bpe (digits = 3) and qwen2
// (digits = 1) does:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitClauses(w *encoder, digits int) {
	end := len(w.runes)
	for pos := 0; pos < end; w.ends = append(w.ends, pos) {
		r, c := w.runes[pos], w.classes[pos]
		if n := w.contraction(pos, end, true); n > 0 {
			pos += n
			continue
		}
		if c == letter || c != number && !isNewline(r) && w.classAt(pos+1, end) == letter {
			pos = w.run(pos+1, end, letter)
			continue
		}
		if c == number {
			pos = w.run(pos, min(pos+digits, end), number)
			continue
		}
		mark := pos
		if r == ' ' {
			mark++
		}
		if w.classAt(mark, end) == other {
			pos = w.run(mark, end, other)
			for pos < end && isNewline(w.runes[pos]) {
				pos++
			}
			continue
		}
		// White space: through the last line end in it, if there is one.
		stop := w.run(pos, end, space)
		for stop > pos && !isNewline(w.runes[stop-1]) {
			stop--
		}
		if stop == pos {
			stop = w.spaces(pos, end)
		}
		pos = stop
	}
}

// splitGPT2 cuts w.runes[pos:end] as GPT-2's expression does:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func splitGPT2(w *encoder, pos, end int) {
	for ; pos < end; w.ends = append(w.ends, pos) {
		if n := w.contraction(pos, end, false); n > 0 {
			pos += n
			continue
		}
		mark := pos
		if w.runes[pos] == ' ' {
			mark++
		}
		switch c := w.classAt(mark, end); c {
		case letter, number, other:
			pos = w.run(mark, end, c)
		default:
			pos = w.spaces(pos, end)
		}
	}
}

// splitSmolLM takes every number by itself and cuts the text between them as
// splitGPT2 does. White space before a number is then at the end of its text, so
// none of it is left over for the number.
func splitSmolLM(w *encoder) {
	end := len(w.runes)
	for pos := 0; pos < end; {
		if w.classes[pos] == number {
			pos++
			w.ends = append(w.ends, pos)
			continue
		}
		stop := pos
		for stop < end && w.classes[stop] != number {
			stop++
		}
		splitGPT2(w, pos, stop)
		pos = stop
	}
}
