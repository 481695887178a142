package pp

import (
	"strings"

	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// pragma reads a #pragma line and pushes what is kept of it.
func (p *preprocessor) pragma(f *input, at source.Span) {
	toks := p.line(f)
	if len(toks) > 0 && toks[0].Is("once") {
		p.once[f.name] = true
		return
	}
	p.keepPragma(at, toks)
}

// pragmaOperator carries out _Pragma("..."). It is false where no string in
// parentheses follows: an error was reported, and the name stays.
func (p *preprocessor) pragmaOperator(name lex.Token) bool {
	open := p.raw()
	if !open.Is("(") {
		p.errorf(name.Span(), "_Pragma: expected '(' and a string, found %s", open.Describe())
		p.push([]lex.Token{open}, nil)
		return true
	}
	str := p.raw()
	for str.Kind == lex.Ident && p.macros[str.Text] != nil && !p.macros[str.Text].busy && p.expand(p.macros[str.Text], str) {
		str = p.raw()
	}
	text, err := "", error(nil)
	if str.Kind == lex.String {
		text, err = lex.Unquote(str.Text)
	}
	if str.Kind != lex.String || err != nil {
		p.errorf(str.Span(), "_Pragma: expected a string literal, found %s", str.Describe())
		return true
	}
	if end := p.raw(); !end.Is(")") {
		p.errorf(end.Span(), "_Pragma: expected ')' behind the string, found %s", end.Describe())
		p.push([]lex.Token{end}, nil)
	}
	lx := lex.New(text, 1)
	var toks []lex.Token
	for t := lx.Next(); t.Kind != lex.EOF; t = lx.Next() {
		// Its words have no places of their own: they are those of the string.
		t.Pos, t.End = str.Pos, str.End
		t.Flags &^= lex.LineStart
		toks = append(toks, t)
	}
	p.keepPragma(str.Span(), toks)
	return true
}

// keepPragma pushes a pragma's words between a Pragma and a PragmaEnd token.
// Macros are expanded only in those about loops, as their count may be one.
// Pragmas for other tools are dropped.
func (p *preprocessor) keepPragma(at source.Span, toks []lex.Token) {
	if len(toks) == 0 {
		return
	}
	switch toks[0].Text {
	case "unroll", "nounroll":
		toks = append(toks[:1:1], p.expandList(toks[1:])...)
	case "clang":
		if len(toks) < 2 || toks[1].Text != "loop" {
			return // clang diagnostic and the like
		}
		toks = append(toks[:2:2], p.expandList(toks[2:])...)
	case "METAL":
	case "mark", "unused", "GCC", "region", "endregion", "message", "push_macro", "pop_macro":
		return
	default:
		words := make([]string, 0, len(toks))
		for _, t := range toks {
			words = append(words, t.Text)
		}
		p.report(source.Warningf(source.Span{Start: toks[0].Pos, End: toks[len(toks)-1].End}, "unknown pragma is ignored: %s", clip(strings.Join(words, " "))))
		return
	}
	group := make([]lex.Token, 0, len(toks)+2)
	group = append(group, lex.Token{Kind: lex.Pragma, Text: "pragma", Pos: at.Start, End: at.End})
	for _, t := range toks {
		// What is expanded is expanded, and words such as full are not macros.
		t.Flags = t.Flags&^lex.LineStart | lex.NoExpand
		group = append(group, t)
	}
	last := toks[len(toks)-1]
	group = append(group, lex.Token{Kind: lex.PragmaEnd, Pos: last.End, End: last.End})
	p.push(group, nil)
}
