package pp

import (
	"strconv"
	"strings"

	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// macro is a definition.
type macro struct {
	name       string
	at         source.Span // the name in the #define, invalid for built-in ones
	function   bool
	variadic   bool
	params     []string // with __VA_ARGS__ (or GNU's name) last if variadic
	body       []lex.Token
	param      []int // by body token: the parameter's number, or -1
	predefined bool  // by the compiler: the command line may define it otherwise
	busy       bool  // being read: its name is not expanded
	builtin    func(p *preprocessor, at lex.Token) lex.Token
}

// next gives the next token of the result: macros expanded, _Pragma carried out.
func (p *preprocessor) next() lex.Token {
	for {
		t := p.raw()
		if t.Kind != lex.Ident || t.Flags&lex.NoExpand != 0 {
			return t
		}
		m := p.macros[t.Text]
		switch {
		case m == nil:
			if t.Text != "_Pragma" || !p.pragmaOperator(t) {
				return t
			}
		case m.busy:
			t.Flags |= lex.NoExpand
			return t
		case !p.expand(m, t):
			return t
		}
	}
}

// expandList expands a list of tokens by itself, as is done with arguments.
func (p *preprocessor) expandList(toks []lex.Token) []lex.Token {
	if !p.needsExpansion(toks) {
		return toks
	}
	if p.depth >= maxDepth {
		p.stop(toks[0].Span(), "macro arguments nested more than %d deep", maxDepth)
		return nil
	}
	p.depth++
	floor, isolated := p.floor, p.isolated
	p.floor, p.isolated = len(p.contexts), true
	p.push(toks, nil)
	var out []lex.Token
	for t := p.next(); t.Kind != lex.EOF; t = p.next() {
		out = append(out, t)
	}
	for len(p.contexts) > p.floor {
		p.pop()
	}
	p.floor, p.isolated = floor, isolated
	p.depth--
	return out
}

// needsExpansion reports whether there is a name of a macro in the list.
func (p *preprocessor) needsExpansion(toks []lex.Token) bool {
	for _, t := range toks {
		if t.Kind == lex.Ident && (p.macros[t.Text] != nil || t.Text == "_Pragma") {
			return true
		}
	}
	return false
}

// expand replaces the use of m by pushing its expansion. It is false where name
// is not a use: a function-like macro's name without parenthesis.
func (p *preprocessor) expand(m *macro, name lex.Token) bool {
	if m.builtin != nil {
		t := m.builtin(p, name)
		t.Flags |= name.Flags & (lex.Space | lex.LineStart)
		p.push([]lex.Token{t}, nil)
		return true
	}
	call := name.Span()
	var args [][]lex.Token
	if m.function {
		open := p.raw()
		if open.Kind != lex.Punct || open.Text != "(" {
			if open.Kind != lex.EOF {
				p.push([]lex.Token{open}, nil)
			}
			return false
		}
		var ok bool
		if args, call.End, ok = p.arguments(m, name); !ok {
			return true
		}
	}
	p.push(p.substitute(m, args, call, name.Flags), m)
	return true
}

// arguments reads the arguments of a call up to the closing parenthesis. Where
// they are wrong, the call is reported and dropped.
func (p *preprocessor) arguments(m *macro, name lex.Token) (args [][]lex.Token, end source.Pos, ok bool) {
	var arg []lex.Token
	depth := 0
	n := 1 // arguments, the last one unfinished
	for {
		t := p.raw()
		if t.Kind == lex.EOF {
			p.report(p.atMacro(m, name.Span(), "arguments of macro '%s' without an end: expected ')', found end of file", m.name))
			return nil, 0, false
		}
		if t.Kind == lex.Punct {
			switch t.Text {
			case "(":
				depth++
			case ")":
				if depth == 0 {
					args = append(args, arg)
					return p.checkArguments(m, name, args, t.End)
				}
				depth--
			case ",":
				if depth == 0 && !(m.variadic && n == len(m.params)) {
					args = append(args, arg)
					arg = nil
					if n++; n > maxTokenText {
						p.stop(t.Span(), "macro '%s' called with more than %d arguments", m.name, maxTokenText)
						return nil, 0, false
					}
					continue
				}
			}
		}
		if t.Flags&lex.LineStart != 0 {
			t.Flags = t.Flags&^lex.LineStart | lex.Space
		}
		arg = append(arg, t)
	}
}

// checkArguments compares the number of arguments with the parameters'.
func (p *preprocessor) checkArguments(m *macro, name lex.Token, args [][]lex.Token, end source.Pos) ([][]lex.Token, source.Pos, bool) {
	want := len(m.params)
	if want == 0 && len(args) == 1 && len(args[0]) == 0 {
		return nil, end, true
	}
	if m.variadic && len(args) == want-1 {
		args = append(args, nil)
	}
	if len(args) == want {
		return args, end, true
	}
	at := source.Span{Start: name.Pos, End: end}
	if m.variadic {
		p.report(p.atMacro(m, at, "macro '%s' called with %s: expected at least %d", m.name, count(len(args), "argument"), want-1))
	} else {
		p.report(p.atMacro(m, at, "macro '%s' called with %s: expected %d", m.name, count(len(args), "argument"), want))
	}
	return nil, 0, false
}

// count gives a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// atMacro makes an error with a note about the definition.
func (p *preprocessor) atMacro(m *macro, at source.Span, format string, args ...any) source.Diag {
	d := source.Errorf(at, format, args...)
	if m.at.Start.IsValid() {
		d = d.Note(m.at, "macro '%s' is defined here", m.name)
	}
	return d
}

// substitution makes the expansion of one call.
type substitution struct {
	p        *preprocessor
	m        *macro
	args     [][]lex.Token
	expanded [][]lex.Token
	number   int32 // of the expansion in the source map
	out      []lex.Token
	// empty is whether the operand added last had no tokens: what ## calls a
	// placemarker.
	empty bool
}

// substitute gives the macro's body with the arguments put in.
func (p *preprocessor) substitute(m *macro, args [][]lex.Token, call source.Span, flags lex.Flags) []lex.Token {
	if len(m.body) == 0 {
		return nil
	}
	s := &substitution{p: p, m: m, args: args, expanded: make([][]lex.Token, len(args)), number: p.m.AddExpansion(m.name, call)}
	s.out = make([]lex.Token, 0, len(m.body))
	s.tokens(0, len(m.body), true)
	if len(s.out) > 0 {
		t := &s.out[0]
		t.Flags = t.Flags&^lex.Space | flags&(lex.Space|lex.LineStart)
	}
	return s.out
}

// tokens puts in body[from:to].
func (s *substitution) tokens(from, to int, top bool) {
	body := s.m.body
	paste := false // the last token was ##
	for i := from; i < to && !s.p.stopped; i++ {
		t := body[i]
		if s.m.function && t.Kind == lex.Punct && t.Text == "#" && i+1 < to && s.m.param[i+1] >= 0 {
			i++
			s.add([]lex.Token{s.stringify(t, s.args[s.m.param[i]])}, false, paste)
			paste = false
			continue
		}
		if t.Kind == lex.Punct && t.Text == "##" && i > from && i+1 < to {
			paste = true
			continue
		}
		pasteNext := i+2 < to && body[i+1].Kind == lex.Punct && body[i+1].Text == "##"
		switch n := s.m.param[i]; {
		case n >= 0 && paste && s.isComma(i-2) && s.isVariadic(n):
			// GNU: `, ## __VA_ARGS__` drops the comma where there are no arguments
			// and joins nothing where there are.
			if len(s.args[n]) == 0 {
				s.out = s.out[:len(s.out)-1]
				s.empty = true
			} else {
				s.add(s.argument(n), true, false)
			}
		case n >= 0 && (paste || pasteNext):
			s.add(s.args[n], true, paste)
		case n >= 0:
			arg := s.argument(n)
			if len(arg) > 0 {
				first := len(s.out)
				s.add(arg, true, false)
				if first < len(s.out) {
					s.out[first].Flags = s.out[first].Flags&^lex.Space | t.Flags&lex.Space
				}
			} else {
				s.empty = true
			}
		case t.Kind == lex.Ident && t.Text == "__VA_OPT__" && s.m.variadic && top && i+1 < to && body[i+1].Is("("):
			end := closing(body, i+1, to)
			if len(s.argument(len(s.m.params)-1)) > 0 {
				s.tokens(i+2, end, false)
			} else {
				s.empty = true
			}
			i = end
		default:
			s.add(body[i:i+1], false, paste)
		}
		paste = false
	}
}

func (s *substitution) isComma(i int) bool {
	return i >= 0 && s.m.body[i].Kind == lex.Punct && s.m.body[i].Text == "," && len(s.out) > 0
}

func (s *substitution) isVariadic(n int) bool { return s.m.variadic && n == len(s.m.params)-1 }

// closing gives the index of the parenthesis that closes the one at open.
func closing(body []lex.Token, open, to int) int {
	depth := 0
	for i := open; i < to; i++ {
		if body[i].Is("(") {
			depth++
		} else if body[i].Is(")") {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return to
}

// argument gives an argument with its macros expanded.
func (s *substitution) argument(n int) []lex.Token {
	if s.expanded[n] == nil {
		s.expanded[n] = s.p.expandList(s.args[n])
	}
	return s.expanded[n]
}

// add appends an operand, joining its first token to the last one if paste.
func (s *substitution) add(toks []lex.Token, argument, paste bool) {
	if paste && len(toks) > 0 && !s.empty && len(s.out) > 0 {
		joined, ok := s.join(s.out[len(s.out)-1], toks[0])
		if ok {
			s.out = s.out[:len(s.out)-1]
			s.append(joined, false)
			toks = toks[1:]
		}
	}
	if len(toks) > 0 {
		s.empty = false
	} else if !paste {
		s.empty = true
	}
	for _, t := range toks {
		if s.p.stopped {
			return
		}
		s.append(t, argument)
	}
}

func (s *substitution) append(t lex.Token, argument bool) {
	span, ok := s.p.m.AddToken(s.number, t.Span(), argument)
	if !ok {
		s.p.stop(t.Span(), "macro expansions make more than %d tokens", source.MaxMacroTokens)
		return
	}
	t.Pos, t.End = span.Start, span.End
	t.Flags &^= lex.LineStart
	s.out = append(s.out, t)
}

// join makes one token of two.
func (s *substitution) join(a, b lex.Token) (lex.Token, bool) {
	at := source.Span{Start: a.Pos, End: b.End}
	text := a.Text + b.Text
	if !s.p.allowText(len(text), at) {
		return lex.Token{}, false
	}
	lx := lex.New(text, 1)
	t := lx.Next()
	if rest := lx.Next(); t.Kind == lex.EOF || rest.Kind != lex.EOF || t.Flags&lex.Broken != 0 || t.Text != text {
		s.p.report(s.p.atMacro(s.m, at, "'%s' ## '%s' makes no valid token", a.Text, b.Text))
		return lex.Token{}, false
	}
	t.Flags = a.Flags & lex.Space
	t.Pos, t.End = at.Start, at.End
	return t, true
}

// stringify makes a string literal of an argument's spelling.
func (s *substitution) stringify(hash lex.Token, arg []lex.Token) lex.Token {
	var b strings.Builder
	b.WriteByte('"')
	for i, t := range arg {
		if i > 0 && t.Flags&lex.Space != 0 {
			b.WriteByte(' ')
		}
		if t.Kind == lex.String || t.Kind == lex.Char {
			b.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(t.Text))
		} else {
			b.WriteString(t.Text)
		}
		if b.Len() > maxTokenText {
			break
		}
	}
	b.WriteByte('"')
	t := lex.Token{Kind: lex.String, Flags: hash.Flags & lex.Space, Text: b.String(), Pos: hash.Pos, End: hash.End}
	if !s.p.allowText(len(t.Text), hash.Span()) {
		t.Text = `""`
	}
	return t
}

// allowText counts text made by # and ##.
func (p *preprocessor) allowText(n int, at source.Span) bool {
	if n > maxTokenText {
		p.stop(at, "# or ## makes a token of more than %d bytes", maxTokenText)
		return false
	}
	if p.text += n; p.text > maxMadeText {
		p.stop(at, "# and ## make more than %d bytes of text", maxMadeText)
		return false
	}
	return true
}

// The macros with a value of their own.

func (p *preprocessor) lineMacro(at lex.Token) lex.Token {
	line := p.m.Position(at.Pos).Line
	return lex.Token{Kind: lex.Number, Text: strconv.Itoa(line), Pos: at.Pos, End: at.End}
}

func (p *preprocessor) fileMacro(at lex.Token) lex.Token {
	name := p.files[len(p.files)-1].name
	return lex.Token{Kind: lex.String, Text: quote(name), Pos: at.Pos, End: at.End}
}

func (p *preprocessor) counterMacro(at lex.Token) lex.Token {
	p.counter++
	return lex.Token{Kind: lex.Number, Text: strconv.Itoa(p.counter - 1), Pos: at.Pos, End: at.End}
}

func (p *preprocessor) levelMacro(at lex.Token) lex.Token {
	return lex.Token{Kind: lex.Number, Text: strconv.Itoa(len(p.files) - 1), Pos: at.Pos, End: at.End}
}

// quote makes a string literal.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
