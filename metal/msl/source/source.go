// Package source keeps the text of a translation unit: its files, the positions
// of tokens in them and in macro expansions, and the diagnostics about them.
//
// A [Pos] is 4 bytes and means something only together with the [Map] that gave
// it. Positive values are bytes of a file; every inclusion of a file has its own
// range, so a position also tells by which #include it came in. Negative values
// are tokens that a macro expansion made; the Map knows where such a token is
// spelled, which macro made it and where that was called.
//
// Order of use: the preprocessor fills a Map while it runs; everything behind it
// only asks. A Map that is no longer written to is safe for concurrent use.
package source

import (
	"fmt"
	"sort"
	"strings"
)

// Pos is a position in the text, see the package comment. 0 is unknown.
type Pos int32

// Span is a range of text: Start is the position of its first token, End the end
// (one past the last byte) of its last token.
type Span struct {
	Start, End Pos
}

// IsValid reports whether the position is known.
func (p Pos) IsValid() bool { return p != 0 }

// Position is a place that a person can find: lines and columns count from 1,
// columns in bytes. The zero value is unknown.
type Position struct {
	File      string
	Line, Col int
}

// IsValid reports whether the position is known.
func (p Position) IsValid() bool { return p.Line > 0 }

// String gives file:line:col.
func (p Position) String() string {
	if !p.IsValid() {
		return "-"
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// file is one inclusion of a file: bytes base..base+len(text), both included.
type file struct {
	name     string
	text     string
	base     Pos
	included Pos     // the #include directive, 0 for the main file
	lines    []int32 // offset of the first byte of each line; shared by inclusions
}

// macroToken is one token that came out of a macro expansion.
type macroToken struct {
	spelled   Pos   // where its text stands: the macro's body, or the call's argument
	end       Pos   // the end of that text
	expansion int32 // its number, negated and less one for a token of an argument
}

// use gives the expansion's number and whether the token came in by an argument.
func (t macroToken) use() (expansion int32, argument bool) {
	if t.expansion < 0 {
		return -t.expansion - 1, true
	}
	return t.expansion, false
}

// expansion is one use of a macro.
type expansion struct {
	macro string
	call  Span
}

// Map knows the files and expansions that positions refer to.
type Map struct {
	files      []file
	next       Pos
	tokens     []macroToken
	expansions []expansion
	lineCache  map[string][]int32 // by text
}

// Limits of a Map: what does not fit is refused by AddFile and AddToken, so
// that positions stay 32 bits and hostile input stays bounded.
const (
	MaxBytes       = 1 << 28 // bytes of all inclusions together
	MaxMacroTokens = 1 << 21 // tokens made by expansions
)

// NewMap gives an empty map.
func NewMap() *Map {
	return &Map{next: 1, lineCache: map[string][]int32{}}
}

// AddFile adds one inclusion of a file and gives the position of its first byte.
// included is the position of the directive, 0 for a main file. It fails where
// the text of all inclusions passes MaxBytes.
func (m *Map) AddFile(name, text string, included Pos) (Pos, bool) {
	if int64(m.next)+int64(len(text))+1 > MaxBytes {
		return 0, false
	}
	lines, ok := m.lineCache[text]
	if !ok {
		lines = append(lines, 0)
		for i := 0; i < len(text); i++ {
			if text[i] == '\n' {
				lines = append(lines, int32(i+1))
			}
		}
		m.lineCache[text] = lines
	}
	base := m.next
	m.files = append(m.files, file{name: name, text: text, base: base, included: included, lines: lines})
	m.next += Pos(len(text)) + 1
	return base, true
}

// AddExpansion adds one use of a macro and gives its number for AddToken. call
// is the macro's name, up to the closing parenthesis of a function-like one.
func (m *Map) AddExpansion(macro string, call Span) int32 {
	m.expansions = append(m.expansions, expansion{macro: macro, call: call})
	return int32(len(m.expansions) - 1)
}

// AddToken adds a token made by an expansion and gives its range. spelled is
// the range of the token's text, which may itself be in an expansion; argument
// tells a token that the call's arguments brought in from one of the macro's
// body. It fails past MaxMacroTokens.
func (m *Map) AddToken(expansion int32, spelled Span, argument bool) (Span, bool) {
	if len(m.tokens) >= MaxMacroTokens {
		return Span{}, false
	}
	if argument {
		expansion = -expansion - 1
	}
	m.tokens = append(m.tokens, macroToken{spelled: spelled.Start, end: spelled.End, expansion: expansion})
	// Even numbers are starts, odd ones ends: token i is -2i-2 and -2i-3.
	start := Pos(-2*(len(m.tokens)-1) - 2)
	return Span{start, start - 1}, true
}

// token gives the token of a negative position and whether p is its end.
func (m *Map) token(p Pos) (t macroToken, end, ok bool) {
	n := -int(p) - 2
	if p >= 0 || n < 0 || n/2 >= len(m.tokens) {
		return macroToken{}, false, false
	}
	return m.tokens[n/2], n%2 == 1, true
}

// fileOf gives the inclusion that a positive position lies in.
func (m *Map) fileOf(p Pos) *file {
	i := sort.Search(len(m.files), func(i int) bool { return m.files[i].base > p }) - 1
	if i < 0 || p > m.files[i].base+Pos(len(m.files[i].text)) {
		return nil
	}
	return &m.files[i]
}

// InMacro reports whether the position lies in a macro expansion.
func (m *Map) InMacro(p Pos) bool { return p < 0 }

// Spelling follows a position to the place where its text stands: in a macro's
// definition, in an argument, or where it is.
func (m *Map) Spelling(p Pos) Pos {
	for p < 0 {
		t, end, ok := m.token(p)
		if !ok {
			return 0
		}
		if end {
			p = t.end
		} else {
			p = t.spelled
		}
	}
	return p
}

// Place follows a position to the text of the user that stands for it: for a
// token of a macro's body the call of the outermost macro, for a token of an
// argument the place where the argument is written, else the position itself.
func (m *Map) Place(p Pos) Pos {
	for p < 0 {
		t, end, ok := m.token(p)
		if !ok {
			return 0
		}
		span := Span{t.spelled, t.end}
		if e, argument := t.use(); !argument {
			span = m.expansions[e].call
		}
		if end {
			p = span.End
		} else {
			p = span.Start
		}
	}
	return p
}

// Position gives file, line and column of a position's Place.
func (m *Map) Position(p Pos) Position { return m.place(m.Place(p)) }

// place gives file, line and column of a position in a file.
func (m *Map) place(p Pos) Position {
	f := m.fileOf(p)
	if f == nil {
		return Position{}
	}
	off := int32(p - f.base)
	line := sort.Search(len(f.lines), func(i int) bool { return f.lines[i] > off })
	return Position{File: f.name, Line: line, Col: int(off-f.lines[line-1]) + 1}
}

// Line gives the text of the line that Position names, without its end.
func (m *Map) Line(p Pos) string { return m.lineAt(m.Place(p)) }

func (m *Map) lineAt(p Pos) string {
	f := m.fileOf(p)
	if f == nil {
		return ""
	}
	off := int32(p - f.base)
	line := sort.Search(len(f.lines), func(i int) bool { return f.lines[i] > off })
	s := f.text[f.lines[line-1]:]
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSuffix(s, "\r")
}

// FileLine gives the text of a line of a file, counted from 1, without its end;
// "" where there is none.
func (m *Map) FileLine(name string, line int) string {
	for i := range m.files {
		f := &m.files[i]
		if f.name == name && line >= 1 && line <= len(f.lines) {
			return m.lineAt(f.base + Pos(f.lines[line-1]))
		}
	}
	return ""
}

// Range gives the bytes of a file that a span covers, so that a tool can cut
// them out or put others in their place. It fails where the span is not whole
// inside one file, such as where a part of it comes out of a macro's body.
func (m *Map) Range(s Span) (file string, start, end int, ok bool) {
	if s.Start <= 0 || s.End < s.Start {
		return "", 0, 0, false
	}
	f := m.fileOf(s.Start)
	if f == nil || s.End > f.base+Pos(len(f.text)) {
		return "", 0, 0, false
	}
	return f.name, int(s.Start - f.base), int(s.End - f.base), true
}

// Text gives the text that a span covers, where Range can tell.
func (m *Map) Text(s Span) (string, bool) {
	_, start, end, ok := m.Range(s)
	if !ok {
		return "", false
	}
	return m.fileOf(s.Start).text[start:end], true
}
