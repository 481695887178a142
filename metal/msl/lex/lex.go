// Package lex cuts the text of one file into preprocessing tokens of the Metal
// Shading Language, which are those of C++ with half (h) and bfloat (bf)
// suffixes, and reads the literals among them.
//
// It knows no macros and no directives: metal/msl/pp drives a [Lexer] over each
// file and makes the token list that the parser reads. A Lexer is not safe for
// concurrent use; tokens are plain values.
package lex

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"minfer/metal/msl/source"
)

// Kind is the kind of a token.
type Kind uint8

// The kinds. Pragma and PragmaEnd are made by the preprocessor around the words
// of a pragma that it keeps.
const (
	EOF Kind = iota
	Ident
	Number // a preprocessing number; ParseNumber tells what it is
	Char
	String
	Punct
	Other // a byte that starts no token
	Pragma
	PragmaEnd
)

// String gives the kind as diagnostics name it.
func (k Kind) String() string {
	return [...]string{"end of file", "identifier", "number", "character literal", "string literal", "punctuation", "character", "pragma", "end of pragma"}[k]
}

// Flags say how a token was written.
type Flags uint8

// The flags.
const (
	LineStart Flags = 1 << iota // first on its line
	Space                       // white space in front
	NoExpand                    // a macro's name that must not be expanded again
	Broken                      // an error in the token has been described by the lexer
)

// Token is one preprocessing token. Text is its spelling without line splices.
type Token struct {
	Kind  Kind
	Flags Flags
	Text  string
	Pos   source.Pos
	End   source.Pos
}

// Span gives the token's range.
func (t Token) Span() source.Span { return source.Span{Start: t.Pos, End: t.End} }

// Is reports whether the token is the punctuation or identifier s.
func (t Token) Is(s string) bool {
	return (t.Kind == Punct || t.Kind == Ident) && t.Text == s
}

// Describe names the token in a diagnostic: 'x', end of file, string literal.
func (t Token) Describe() string {
	switch t.Kind {
	case EOF:
		return "end of file"
	case PragmaEnd:
		return "end of pragma"
	case Pragma:
		return "#pragma"
	case String:
		return "string literal"
	}
	s := t.Text
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "..."
	}
	return "'" + s + "'"
}

// Lexer gives the tokens of one file.
type Lexer struct {
	text string
	base source.Pos
	off  int
	bol  bool  // nothing but white space on this line so far
	gap  Flags // white space that AtLineEnd has passed

	// Error is called with each broken token, for instance a literal without an
	// end. Nil drops the errors, as in groups that #if leaves out.
	Error func(at source.Span, msg string)
}

// New makes a lexer of a file whose first byte is at base.
func New(text string, base source.Pos) *Lexer {
	l := &Lexer{text: text, base: base, bol: true}
	if strings.HasPrefix(text, "\ufeff") {
		l.off = len("\ufeff")
	}
	return l
}

func (l *Lexer) pos(off int) source.Pos { return l.base + source.Pos(off) }

func (l *Lexer) fail(from, to int, msg string) {
	if l.Error != nil {
		l.Error(source.Span{Start: l.pos(from), End: l.pos(to)}, msg)
	}
}

// splice gives the length of a line splice at off, 0 if there is none. Blanks
// between the backslash and the line's end are part of it.
func (l *Lexer) splice(off int) int {
	if off >= len(l.text) || l.text[off] != '\\' {
		return 0
	}
	i := off + 1
	for i < len(l.text) && (l.text[i] == ' ' || l.text[i] == '\t') {
		i++
	}
	if i < len(l.text) && l.text[i] == '\n' {
		return i + 1 - off
	}
	if i+1 < len(l.text) && l.text[i] == '\r' && l.text[i+1] == '\n' {
		return i + 2 - off
	}
	return 0
}

// unsplice takes the line splices out of a token's text.
func unsplice(s string) string {
	l := Lexer{text: s}
	var b strings.Builder
	for i := 0; i < len(s); {
		if n := l.splice(i); n > 0 {
			i += n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// skipSpace passes white space and comments. It reports what was passed.
func (l *Lexer) skipSpace() (f Flags) {
	for l.off < len(l.text) {
		switch c := l.text[l.off]; {
		case c == '\n':
			l.bol = true
			l.off++
			f |= Space
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f':
			l.off++
			f |= Space
		case c == '\\':
			n := l.splice(l.off)
			if n == 0 {
				return f
			}
			l.off += n
			f |= Space
		case strings.HasPrefix(l.text[l.off:], "//"):
			l.lineComment()
			f |= Space
		case strings.HasPrefix(l.text[l.off:], "/*"):
			start := l.off
			n := strings.Index(l.text[l.off+2:], "*/")
			if n < 0 {
				l.off = len(l.text)
				l.fail(start, start+2, "comment without an end: expected '*/'")
				return f
			}
			// A comment is one blank: it does not start a line, whatever it holds.
			l.off += 2 + n + 2
			f |= Space
		default:
			return f
		}
	}
	return f
}

// lineComment passes a // comment up to the end of its line, which is left.
func (l *Lexer) lineComment() {
	for {
		n := strings.IndexByte(l.text[l.off:], '\n')
		if n < 0 {
			l.off = len(l.text)
			return
		}
		end := l.off + n
		back := end
		for back > l.off && strings.IndexByte(" \t\r", l.text[back-1]) >= 0 {
			back--
		}
		if back == l.off || l.text[back-1] != '\\' {
			l.off = end
			return
		}
		l.off = end + 1
	}
}

// Next gives the next token; at the end of the file EOF, again and again.
func (l *Lexer) Next() Token {
	f := l.skipSpace() | l.gap
	l.gap = 0
	if l.bol {
		f |= LineStart
	}
	start := l.off
	if start >= len(l.text) {
		return Token{Kind: EOF, Flags: f | LineStart, Pos: l.pos(start), End: l.pos(start)}
	}
	l.bol = false
	kind, spliced, broken := l.scan()
	text := l.text[start:l.off]
	if spliced {
		text = unsplice(text)
	}
	if broken {
		f |= Broken
	}
	return Token{Kind: kind, Flags: f, Text: text, Pos: l.pos(start), End: l.pos(l.off)}
}

// scan passes one token.
func (l *Lexer) scan() (kind Kind, spliced, broken bool) {
	c := l.text[l.off]
	switch {
	case isIdentStart(c):
		spliced = l.scanIdent()
		if l.off < len(l.text) && (l.text[l.off] == '"' || l.text[l.off] == '\'') {
			return l.scanPrefixed(spliced)
		}
		return Ident, spliced, false
	case isDigit(c), c == '.' && isDigit(l.at(1)):
		return Number, l.scanNumber(), false
	case c == '"', c == '\'':
		return l.scanQuoted(c)
	case c >= utf8.RuneSelf:
		r, n := utf8.DecodeRuneInString(l.text[l.off:])
		if unicode.IsLetter(r) {
			return Ident, l.scanIdent(), false
		}
		l.off += n
		return Other, false, false
	}
	if n := l.punct(); n > 0 {
		l.off += n
		return Punct, false, false
	}
	l.off++
	return Other, false, false
}

// at gives the byte n behind the current one, 0 past the end.
func (l *Lexer) at(n int) byte {
	if l.off+n < len(l.text) {
		return l.text[l.off+n]
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isIdentStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$'
}
func isIdentPart(c byte) bool { return isIdentStart(c) || isDigit(c) }

func (l *Lexer) scanIdent() (spliced bool) {
	for l.off < len(l.text) {
		c := l.text[l.off]
		switch {
		case isIdentPart(c):
			l.off++
		case c == '\\':
			n := l.splice(l.off)
			if n == 0 || l.off+n >= len(l.text) || !isIdentPart(l.text[l.off+n]) {
				return spliced
			}
			l.off += n
			spliced = true
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(l.text[l.off:])
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
				return spliced
			}
			l.off += n
		default:
			return spliced
		}
	}
	return spliced
}

// scanNumber passes a preprocessing number: more than any valid literal.
func (l *Lexer) scanNumber() (spliced bool) {
	l.off++
	for l.off < len(l.text) {
		c := l.text[l.off]
		switch {
		case (c == '+' || c == '-') && strings.IndexByte("eEpP", l.text[l.off-1]) >= 0:
			l.off++
		case isIdentPart(c), c == '.':
			l.off++
		case c == '\'' && isIdentPart(l.at(1)):
			l.off += 2
		case c == '\\':
			n := l.splice(l.off)
			if n == 0 || l.off+n >= len(l.text) || !isIdentPart(l.text[l.off+n]) {
				return spliced
			}
			l.off += n
			spliced = true
		default:
			return spliced
		}
	}
	return spliced
}

// scanPrefixed decides whether the identifier just passed is the prefix of a raw
// string. Other prefixes (u8, L, ...) do not exist in the language; they stay
// identifiers.
func (l *Lexer) scanPrefixed(spliced bool) (Kind, bool, bool) {
	if l.off < 1 || l.text[l.off-1] != 'R' || l.text[l.off] != '"' || l.off >= 2 && isIdentPart(l.text[l.off-2]) {
		return Ident, spliced, false
	}
	start := l.off - 1
	open := strings.IndexByte(l.text[l.off:], '(')
	if open < 0 || open > 17 || strings.ContainsAny(l.text[l.off:l.off+open], " \\)\n") {
		l.off++
		l.fail(start, l.off, "raw string without a delimiter: expected R\"delimiter(")
		return Other, false, true
	}
	end := ")" + l.text[l.off+1:l.off+open] + "\""
	n := strings.Index(l.text[l.off+open:], end)
	if n < 0 {
		l.off = len(l.text)
		l.fail(start, start+2, "raw string without an end: expected '"+end+"'")
		return Other, false, true
	}
	l.off += open + n + len(end)
	return String, false, false
}

// scanQuoted passes a string or character literal, which ends on its line.
func (l *Lexer) scanQuoted(quote byte) (kind Kind, spliced, broken bool) {
	kind = String
	if quote == '\'' {
		kind = Char
	}
	start := l.off
	l.off++
	for l.off < len(l.text) {
		switch l.text[l.off] {
		case quote:
			l.off++
			if kind == Char && l.off == start+2 {
				l.fail(start, l.off, "empty character literal")
				return kind, spliced, true
			}
			return kind, spliced, false
		case '\\':
			if n := l.splice(l.off); n > 0 {
				l.off += n
				spliced = true
				continue
			}
			l.off++
			if l.off < len(l.text) && l.text[l.off] != '\n' {
				l.off++
			}
		case '\n':
			l.fail(start, start+1, kind.String()+" without an end: expected '"+string(quote)+"' on this line")
			return Other, spliced, true
		default:
			l.off++
		}
	}
	l.fail(start, start+1, kind.String()+" without an end: expected '"+string(quote)+"'")
	return Other, spliced, true
}

// punctuation is the longest-match table, by first byte.
var punctuation = func() (t [128][]string) {
	for _, p := range []string{
		"...", "<<=", ">>=", "->*",
		"##", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::", ".*",
		"#", "{", "}", "[", "]", "(", ")", ";", ":", "?", ".", "~", "!", "+", "-", "*", "/", "%", "^", "&", "|", "=", "<", ">", ",",
	} {
		t[p[0]] = append(t[p[0]], p)
	}
	return t
}()

// punct gives the length of the punctuation at the current byte, 0 if there is
// none. A splice inside one is not looked for.
func (l *Lexer) punct() int {
	rest := l.text[l.off:]
	if rest[0] >= 128 {
		return 0
	}
	for _, p := range punctuation[rest[0]] {
		if strings.HasPrefix(rest, p) {
			return len(p)
		}
	}
	return 0
}

// RestOfLine gives the text up to the end of the line, as for #error, and passes
// it. Comments are left out.
func (l *Lexer) RestOfLine() string {
	start := l.off
	var b strings.Builder
	for l.off < len(l.text) && l.text[l.off] != '\n' {
		if n := l.splice(l.off); n > 0 {
			b.WriteString(l.text[start:l.off])
			b.WriteByte(' ')
			l.off += n
			start = l.off
			continue
		}
		if strings.HasPrefix(l.text[l.off:], "//") {
			b.WriteString(l.text[start:l.off])
			l.lineComment()
			start = l.off
			break
		}
		l.off++
	}
	b.WriteString(l.text[start:l.off])
	return strings.TrimSpace(b.String())
}

// SkipToDirective passes everything up to the next token that starts a line and may
// start a directive: it is how groups that #if leaves out are passed quickly. It
// gives that '#' token, or EOF.
func (l *Lexer) SkipToDirective() Token {
	quiet := l.Error
	l.Error = nil
	defer func() { l.Error = quiet }()
	for {
		t := l.Next()
		if t.Kind == EOF || t.Kind == Punct && t.Text == "#" && t.Flags&LineStart != 0 {
			return t
		}
	}
}

// HeaderName reads the name of an #include directive: "x" or <x>. ok is false
// where the next token starts no header name; nothing is passed then.
func (l *Lexer) HeaderName() (name string, system bool, at source.Span, ok bool) {
	save, bol := l.off, l.bol
	l.skipSpace()
	start := l.off
	if l.bol || start >= len(l.text) {
		l.off, l.bol = save, bol
		return "", false, source.Span{}, false
	}
	closing := byte('"')
	if l.text[start] == '<' {
		closing = '>'
	} else if l.text[start] != '"' {
		l.off, l.bol = save, bol
		return "", false, source.Span{}, false
	}
	line := l.text[start+1:]
	if n := strings.IndexByte(line, '\n'); n >= 0 {
		line = line[:n]
	}
	n := strings.IndexByte(line, closing)
	if n < 0 {
		l.off, l.bol = save, bol
		return "", false, source.Span{}, false
	}
	l.off = start + 1 + n + 1
	return line[:n], closing == '>', source.Span{Start: l.pos(start), End: l.pos(l.off)}, true
}

// AtLineEnd passes blanks and comments and reports whether the line ends there.
func (l *Lexer) AtLineEnd() bool {
	l.gap |= l.skipSpace()
	return l.bol || l.off >= len(l.text)
}
