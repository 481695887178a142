package source

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPositionsOfFiles(t *testing.T) {
	m := NewMap()
	a, ok := m.AddFile("a.metal", "one\ntwo\r\n\nlast", 0)
	require.True(t, ok)
	b, ok := m.AddFile("b.h", "x", a+4)
	require.True(t, ok)
	require.Greater(t, b, a)

	for off, want := range map[Pos]Position{
		0:  {"a.metal", 1, 1},
		3:  {"a.metal", 1, 4}, // the line's end belongs to the line
		4:  {"a.metal", 2, 1},
		9:  {"a.metal", 3, 1},
		10: {"a.metal", 4, 1},
		14: {"a.metal", 4, 5}, // the end of the file
	} {
		require.Equal(t, want, m.Position(a+off), "offset %d", off)
	}
	require.Equal(t, Position{"b.h", 1, 1}, m.Position(b))
	require.Equal(t, Position{"b.h", 1, 2}, m.Position(b+1))
	require.Equal(t, "two", m.Line(a+5), "a carriage return is no part of the line")
	require.Equal(t, "-", m.Position(0).String())
	require.Equal(t, "a.metal:2:1", m.Position(a+4).String())
	require.False(t, m.Position(b+2).IsValid(), "past everything")
	require.False(t, m.Position(-100).IsValid(), "a token that does not exist")
}

func TestRange(t *testing.T) {
	m := NewMap()
	a, _ := m.AddFile("a", "float x;", 0)
	b, _ := m.AddFile("b", "int y;", 0)
	text, ok := m.Text(Span{a, a + 5})
	require.True(t, ok)
	require.Equal(t, "float", text)
	file, from, to, ok := m.Range(Span{b + 4, b + 5})
	require.True(t, ok)
	require.Equal(t, []any{"b", 4, 5}, []any{file, from, to})

	_, ok = m.Text(Span{a + 6, b + 1})
	require.False(t, ok, "over two files")
	_, ok = m.Text(Span{a + 5, a})
	require.False(t, ok, "backwards")
	e := m.AddExpansion("M", Span{a, a + 5})
	s, ok := m.AddToken(e, Span{a + 6, a + 7}, false)
	require.True(t, ok)
	_, ok = m.Text(s)
	require.False(t, ok, "a token of a macro is not in the text")
}

// nested makes a map of
//
//	#define IN(x) x+bad
//	#define OUT(y) IN(y)
//	OUT(arg)
//
// and gives the positions of the argument's and the body's token.
func nested(t *testing.T) (m *Map, argument, body Span) {
	m = NewMap()
	text := "#define IN(x) x+bad\n#define OUT(y) IN(y)\nOUT(arg)\n"
	base, ok := m.AddFile("m.metal", text, 0)
	require.True(t, ok)
	at := func(s string) Span {
		i := strings.LastIndex(text, s)
		return Span{base + Pos(i), base + Pos(i+len(s))}
	}
	out := m.AddExpansion("OUT", at("OUT(arg)"))
	name, _ := m.AddToken(out, at("IN"), false)
	arg, _ := m.AddToken(out, at("arg"), true)
	in := m.AddExpansion("IN", Span{name.Start, name.End})
	argument, _ = m.AddToken(in, arg, true)
	body, _ = m.AddToken(in, Span{base + Pos(strings.Index(text, "bad")), base + Pos(strings.Index(text, "bad")+3)}, false)
	return m, argument, body
}

func TestPositionsOfMacros(t *testing.T) {
	m, argument, body := nested(t)
	require.True(t, m.InMacro(body.Start))
	require.Equal(t, Position{"m.metal", 3, 5}, m.Position(argument.Start), "an argument is where it is written")
	require.Equal(t, Position{"m.metal", 3, 8}, m.Position(argument.End))
	require.Equal(t, Position{"m.metal", 3, 1}, m.Position(body.Start), "a body's token is where the outermost macro is used")
	require.Equal(t, Position{"m.metal", 3, 9}, m.Position(body.End))
	require.Equal(t, Position{"m.metal", 1, 17}, m.place(m.Spelling(body.Start)))
	require.Equal(t, Position{"m.metal", 1, 20}, m.place(m.Spelling(body.End)))
}

func TestRenderMacros(t *testing.T) {
	m, argument, body := nested(t)
	require.Equal(t, `m.metal:3:1: error: wrong
  OUT(arg)
  ^~~~~~~~
m.metal:1:17: note: expanded from macro 'IN'
  #define IN(x) x+bad
                  ^~~
m.metal:2:16: note: expanded from macro 'OUT'
  #define OUT(y) IN(y)
                 ^~
`, m.Render(Errorf(body, "wrong")))
	require.Equal(t, `m.metal:3:5: warning: odd
  OUT(arg)
      ^~~
m.metal:3:1: note: in an argument of macro 'IN'
  OUT(arg)
  ^~~~~~~~
m.metal:3:1: note: in an argument of macro 'OUT'
  OUT(arg)
  ^~~~~~~~
`, m.Render(Warningf(argument, "odd")))
}

func TestRender(t *testing.T) {
	m := NewMap()
	main, _ := m.AddFile("main.metal", "#include \"a.h\"\n", 0)
	a, _ := m.AddFile("a.h", "\tint é = 1 $ 2;\x01\xff\n"+strings.Repeat("a", 300)+"b"+strings.Repeat("c", 300), main)
	require.Equal(t, "in file included from main.metal:1:\n"+
		"a.h:1:13: error: unexpected character\n"+
		"  \tint é = 1 $ 2;��\n"+
		"  \t          ^\n",
		m.Render(Errorf(Span{a + 12, a + 13}, "unexpected character")), "a tab stays one, columns are bytes, carets are characters")

	long := m.Render(Errorf(Span{a + 19 + 300, a + 19 + 301}, "here"))
	lines := strings.Split(long, "\n")
	require.Equal(t, "a.h:2:301: error: here", lines[1])
	require.Len(t, lines[2], 2+3+maxSnippet+3, "a long line is cut")
	require.Equal(t, byte('b'), lines[2][strings.IndexByte(lines[3], '^')])

	require.Equal(t, "error: cannot read x\n", m.Render(Errorf(Span{}, "cannot read x")))
	note := Errorf(Span{main, 0}, "a").Note(Span{main + 1, main + 8}, "b")
	require.Equal(t, "main.metal:1:1: error: a\n  #include \"a.h\"\n  ^\nmain.metal:1:2: note: b\n  #include \"a.h\"\n   ^~~~~~~\n", m.Render(note))
	end, _ := m.AddFile("e", "abc", 0)
	require.Equal(t, "e:1:4: error: more\n  abc\n     ^\n", m.Render(Errorf(Span{end + 3, end + 3}, "more")), "a caret behind the text")
	require.True(t, HasErrors([]Diag{Warningf(Span{}, ""), note}))
	require.False(t, HasErrors([]Diag{Warningf(Span{}, "")}))
}

func TestSort(t *testing.T) {
	m, argument, body := nested(t)
	base := m.files[0].base
	ds := []Diag{Errorf(Span{base + 50, 0}, "d"), Errorf(argument, "c"), Errorf(body, "b"), Errorf(Span{}, "none"), Errorf(Span{base, 0}, "a"), Errorf(Span{base, 0}, "a2")}
	m.Sort(ds)
	var got []string
	for _, d := range ds {
		got = append(got, d.Msg)
	}
	require.Equal(t, []string{"none", "a", "a2", "b", "c", "d"}, got)
}

func TestManyMacroNotes(t *testing.T) {
	m := NewMap()
	base, _ := m.AddFile("f", "M;", 0)
	at := Span{base, base + 1}
	for i := 0; i < 20; i++ {
		at, _ = m.AddToken(m.AddExpansion("M", at), Span{base, base + 1}, false)
	}
	text := m.Render(Errorf(at, "deep"))
	require.Equal(t, maxMacroNotes, strings.Count(text, "expanded from macro"))
	require.Contains(t, text, "note: 14 more macros in between\n")
}

func TestMapIsBounded(t *testing.T) {
	m := NewMap()
	m.next = MaxBytes - 10
	_, ok := m.AddFile("big", "0123456789", 0)
	require.False(t, ok)
	_, ok = m.AddFile("fits", "012345678", 0)
	require.True(t, ok)
	m.tokens = make([]macroToken, MaxMacroTokens)
	_, ok = m.AddToken(m.AddExpansion("M", Span{}), Span{}, false)
	require.False(t, ok)
}
