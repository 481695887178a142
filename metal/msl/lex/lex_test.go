package lex

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/source"
)

// scan gives kind:text of all tokens and the errors.
func scan(text string) (toks []string, errs []string) {
	l := New(text, 1)
	l.Error = func(_ source.Span, msg string) { errs = append(errs, msg) }
	letters := map[Kind]string{Ident: "i", Number: "n", Char: "c", String: "s", Punct: "p", Other: "?"}
	for t := l.Next(); t.Kind != EOF; t = l.Next() {
		toks = append(toks, letters[t.Kind]+":"+t.Text)
	}
	return toks, errs
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"a_1 $x é2 R":               "i:a_1 i:$x i:é2 i:R",
		"1 .5 1.e6 0x1p-3f 16.h":    "n:1 n:.5 n:1.e6 n:0x1p-3f n:16.h",
		"1'000'0 1e+5-2 0xe+1":      "n:1'000'0 n:1e+5 p:- n:2 n:0xe+1",
		"a...b..c.*d->*e->f":        "i:a p:... i:b p:. p:. i:c p:.* i:d p:->* i:e p:-> i:f",
		"a<<=b>>=c<=d>=e<f>g":       "i:a p:<<= i:b p:>>= i:c p:<= i:d p:>= i:e p:< i:f p:> i:g",
		"x+++++y":                   "i:x p:++ p:++ p:+ i:y",
		"a::b:c # ## ?":             "i:a p::: i:b p:: i:c p:# p:## p:?",
		`"a\"b" 'c' '\'' "\\"`:      `s:"a\"b" c:'c' c:'\'' s:"\\"`,
		`R"(a"b\)" R"x()")x" uR"a"`: `s:R"(a"b\)" s:R"x()")x" i:uR s:"a"`,
		"a/*b\n*/c // d\ne":         "i:a i:c i:e",
		"a/b /=":                    "i:a p:/ i:b p:/=",
		"fo\\\no ba\\  \r\nr":       "i:foo i:bar",
		"1\\\n2 \"x\\\ny\"":         `n:12 s:"xy"`,
		"// a \\\n b\nc":            "i:c",
		"a \\ b":                    "i:a ?:\\ i:b",
		"\ufeffa @ ` \x00":          "i:a ?:@ ?:` ?:\x00",
		"a€b":                       "i:a ?:€ i:b",
		"":                          "",
	} {
		toks, errs := scan(text)
		require.Equal(t, want, strings.Join(toks, " "), "%q", text)
		require.Empty(t, errs, "%q", text)
	}
}

func TestBrokenTokens(t *testing.T) {
	for text, want := range map[string]string{
		"/* a":      "comment without an end: expected '*/'",
		"\"abc\nd":  "string literal without an end: expected '\"' on this line",
		"'a":        "character literal without an end: expected '''",
		"''":        "empty character literal",
		"\"abc\\":   "string literal without an end: expected '\"'",
		`R"(abc`:    `raw string without an end: expected ')"'`,
		`R"a b(c)"`: `raw string without a delimiter: expected R"delimiter(`,
	} {
		_, errs := scan(text)
		require.NotEmpty(t, errs, "%q", text)
		require.Equal(t, want, errs[0], "%q", text)
	}
	l := New("'a", 1)
	require.NotZero(t, l.Next().Flags&Broken, "also without a listener")
}

func TestFlagsAndPositions(t *testing.T) {
	l := New("a b\n  /*x*/ c\\\n d+", 10)
	var got []any
	for tok := l.Next(); ; tok = l.Next() {
		got = append(got, tok.Text, tok.Flags, tok.Pos, tok.End)
		if tok.Kind == EOF {
			break
		}
	}
	require.Equal(t, []any{
		"a", LineStart, source.Pos(10), source.Pos(11),
		"b", Space, source.Pos(12), source.Pos(13),
		"c", LineStart | Space, source.Pos(22), source.Pos(23),
		"d", Space, source.Pos(26), source.Pos(27),
		"+", Flags(0), source.Pos(27), source.Pos(28),
		"", LineStart, source.Pos(28), source.Pos(28),
	}, got)
	require.Equal(t, EOF, l.Next().Kind, "the end stays the end")
}

func TestLineReading(t *testing.T) {
	l := New("x  some text // no\ny /* a\n b */ z\n<a b.h> \"q\" r", 1)
	require.Equal(t, "x", l.Next().Text)
	require.False(t, l.AtLineEnd())
	require.Equal(t, "some text", l.RestOfLine())
	require.True(t, l.AtLineEnd())
	require.Equal(t, "y", l.Next().Text)
	require.False(t, l.AtLineEnd(), "a comment over lines is in one line")
	require.Equal(t, "z", l.Next().Text)
	_, _, _, ok := l.HeaderName()
	require.False(t, ok, "not over the line's end")
	l.AtLineEnd()
	require.Equal(t, LineStart|Space, l.Next().Flags, "white space that was looked past still counts")
	l = New("x <a b.h> \"q\" r", 1)
	l.Next()
	name, system, _, ok := l.HeaderName()
	require.Equal(t, []any{"a b.h", true, true}, []any{name, system, ok})
	name, system, at, ok := l.HeaderName()
	require.Equal(t, []any{"q", false, true, source.Pos(11)}, []any{name, system, ok, at.Start})
	_, _, _, ok = l.HeaderName()
	require.False(t, ok)
	require.Equal(t, "r", l.Next().Text)
}

func TestParseNumber(t *testing.T) {
	ints := map[string]NumberLit{
		"0":                    {Base: 10},
		"017":                  {Int: 15, Base: 8},
		"0x1Fu":                {Int: 31, Base: 16, Unsigned: true},
		"0b1'01":               {Int: 5, Base: 2},
		"1'000UL":              {Int: 1000, Base: 10, Unsigned: true, Long: 1},
		"7llu":                 {Int: 7, Base: 10, Unsigned: true, Long: 2},
		"18446744073709551615": {Int: 1<<64 - 1, Base: 10},
		"0xffffffffffffffffu":  {Int: 1<<64 - 1, Base: 16, Unsigned: true},
	}
	for text, want := range ints {
		got, err := ParseNumber(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	floats := map[string][2]string{
		"1.0": {"1.0", ""}, "16.h": {"16.", "h"}, "1.e6": {"1.e6", ""}, ".5f": {".5", "f"}, "1e5": {"1e5", ""}, "1E-2H": {"1e-2", "h"},
		"2.5bf": {"2.5", "bf"}, "0x1.8p3f": {"0x1.8p3", "f"}, "0x.fp-2": {"0x.fp-2", ""}, "1'0.5": {"10.5", ""}, "1.f": {"1.", "f"},
		"09.5": {"09.5", ""}, "0x1p4bf": {"0x1p4", "bf"},
	}
	for text, want := range floats {
		got, err := ParseNumber(text)
		require.NoError(t, err, text)
		require.Equal(t, NumberLit{Float: true, Text: want[0], Suffix: want[1]}, got, text)
	}
	for text, want := range map[string]string{
		"18446744073709551616": "integer literal 18446744073709551616 is larger than 64 bits",
		"08":                   "digit '8' in the base 8 literal 08",
		"0b12":                 "digit '2' in the base 2 literal 0b12",
		"0x":                   "integer literal 0x without digits",
		"1f":                   "suffix 'f' on an integer literal: expected a floating literal such as 1.0f",
		"1h":                   "suffix 'h' on an integer literal: expected a floating literal such as 1.0h",
		"12abc":                "unknown suffix 'abc' on integer literal 12abc",
		"1.5x":                 "unknown suffix 'x' on floating literal 1.5x",
		"1.5L":                 "long double literal 1.5L: the language has no double",
		"1e":                   "exponent of floating literal 1e without digits",
		"0x1.8":                "hexadecimal floating literal 0x1.8 without exponent: expected 'p'",
		"0x1p":                 "exponent of floating literal 0x1p without digits",
		"0x..p1":               "malformed hexadecimal floating literal 0x..p1",
		"0xp1":                 "malformed hexadecimal floating literal 0xp1",
		"1.2.3":                "unknown suffix '.3' on floating literal 1.2.3",
	} {
		_, err := ParseNumber(text)
		require.EqualError(t, err, want, text)
	}
}

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`""`: "", `"a\n\t\"\\"`: "a\n\t\"\\", `"\x41\101\u00e9"`: "AAé", `R"(a\n")"`: `a\n"`, `R"x(a)")x"`: `a)"`, `"\0"`: "\x00",
		`"\1234"`: "S4", `"\U0001f600"`: "😀",
	} {
		got, err := Unquote(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{`"\q"`, `"\x"`, `"\xfff"`, `"\u12"`, `"\ud800"`, `"\777"`, `"a`, `x`} {
		_, err := Unquote(text)
		require.Error(t, err, text)
	}
	for text, want := range map[string]int32{`'a'`: 97, `'\n'`: 10, `'\xff'`: -1, `'ab'`: 0x6162, `'\\'`: 92} {
		got, err := UnquoteChar(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{`''`, `'abcde'`, `'\q'`} {
		_, err := UnquoteChar(text)
		require.Error(t, err, text)
	}
}

func TestDescribe(t *testing.T) {
	require.Equal(t, "end of file", Token{}.Describe())
	require.Equal(t, "string literal", Token{Kind: String, Text: `"x"`}.Describe())
	require.Equal(t, "'x'", Token{Kind: Ident, Text: "x"}.Describe())
	require.Len(t, Token{Kind: Ident, Text: strings.Repeat("x", 99)}.Describe(), 45)
}
