package pp

import (
	"slices"
	"strings"

	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// directive carries out the directive whose # was read from f.
func (p *preprocessor) directive(f *input, hash lex.Token) {
	if f.lx.AtLineEnd() {
		return // a lone # is allowed
	}
	name := f.lx.Next()
	switch name.Text {
	case "define":
		p.define(f, name)
	case "undef":
		if t, ok := p.macroName(f, name); ok {
			delete(p.macros, t.Text)
			p.endLine(f, "undef")
		}
	case "include", "import":
		p.includeDirective(f, name)
	case "if", "ifdef", "ifndef":
		p.openCond(f, hash, name)
	case "elif", "elifdef", "elifndef", "else":
		p.elseDirective(f, hash, name)
	case "endif":
		if len(f.conds) == 0 {
			p.errorf(p.upTo(hash, name), "#endif without #if")
		} else {
			f.conds = f.conds[:len(f.conds)-1]
		}
		p.endLine(f, "endif")
	case "error":
		p.errorf(p.upTo(hash, name), "#error %s", clip(f.lx.RestOfLine()))
	case "warning":
		p.report(source.Warningf(p.upTo(hash, name), "#warning %s", clip(f.lx.RestOfLine())))
	case "pragma":
		p.pragma(f, p.upTo(hash, name))
	case "line":
		p.report(source.Warningf(p.upTo(hash, name), "#line is ignored: places stay those of the file"))
		f.lx.RestOfLine()
	case "ident":
		f.lx.RestOfLine()
	default:
		p.errorf(p.upTo(hash, name), "unknown directive #%s", clip(name.Text))
		f.lx.RestOfLine()
	}
}

func (p *preprocessor) upTo(from, to lex.Token) source.Span {
	return source.Span{Start: from.Pos, End: to.End}
}

// clip bounds text that goes into a message.
func clip(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// line reads the rest of a directive's line.
func (p *preprocessor) line(f *input) []lex.Token {
	var toks []lex.Token
	for !f.lx.AtLineEnd() {
		toks = append(toks, f.lx.Next())
	}
	return toks
}

// endLine passes the rest of a line that should be empty.
func (p *preprocessor) endLine(f *input, directive string) {
	if toks := p.line(f); len(toks) > 0 {
		p.report(source.Warningf(p.upTo(toks[0], toks[len(toks)-1]), "more text behind #%s is ignored", directive))
	}
}

// macroName reads the name of a macro behind a directive.
func (p *preprocessor) macroName(f *input, directive lex.Token) (lex.Token, bool) {
	if f.lx.AtLineEnd() {
		p.errorf(directive.Span(), "#%s without a name: expected the name of a macro", directive.Text)
		return lex.Token{}, false
	}
	t := f.lx.Next()
	if t.Kind != lex.Ident || t.Text == "defined" || t.Text == "__VA_ARGS__" || t.Text == "__VA_OPT__" {
		p.errorf(t.Span(), "#%s of %s: expected the name of a macro", directive.Text, t.Describe())
		f.lx.RestOfLine()
		return lex.Token{}, false
	}
	return t, true
}

// define reads #define.
func (p *preprocessor) define(f *input, directive lex.Token) {
	name, ok := p.macroName(f, directive)
	if !ok {
		return
	}
	m := &macro{name: name.Text, at: name.Span(), predefined: f.name == builtIn}
	toks := p.line(f)
	if len(toks) > 0 && toks[0].Is("(") && toks[0].Flags&lex.Space == 0 {
		n := p.params(m, toks)
		if n < 0 {
			return
		}
		toks = toks[n:]
	}
	if !p.setBody(m, toks) {
		return
	}
	if old := p.macros[m.name]; old != nil && !sameMacro(old, m) && !(old.predefined && f.name == commandLine) {
		d := source.Warningf(m.at, "macro '%s' is defined again, differently", m.name)
		if old.at.Start.IsValid() {
			d = d.Note(old.at, "it was defined here before")
		}
		p.report(d)
	}
	p.macros[m.name] = m
}

// params reads a parameter list and gives the number of tokens that it takes,
// -1 after an error.
func (p *preprocessor) params(m *macro, toks []lex.Token) int {
	m.function = true
	fail := func(i int, want string) int {
		at, found := m.at, "end of line"
		if i < len(toks) {
			at, found = toks[i].Span(), toks[i].Describe()
		}
		p.errorf(at, "parameters of macro '%s': expected %s, found %s", m.name, want, found)
		return -1
	}
	i := 1
	if i < len(toks) && toks[i].Is(")") {
		return i + 1
	}
	for {
		switch {
		case i < len(toks) && toks[i].Is("..."):
			m.variadic = true
			m.params = append(m.params, "__VA_ARGS__")
			i++
		case i < len(toks) && toks[i].Kind == lex.Ident:
			if slices.Contains(m.params, toks[i].Text) {
				p.errorf(toks[i].Span(), "parameter '%s' of macro '%s' is there twice", toks[i].Text, m.name)
				return -1
			}
			m.params = append(m.params, toks[i].Text)
			i++
			if i < len(toks) && toks[i].Is("...") {
				m.variadic = true
				i++
			}
		default:
			return fail(i, "a parameter's name")
		}
		if i < len(toks) && toks[i].Is(")") {
			return i + 1
		}
		if m.variadic {
			return fail(i, "')' behind '...'")
		}
		if i >= len(toks) || !toks[i].Is(",") {
			return fail(i, "',' or ')'")
		}
		if len(m.params) >= maxParams {
			p.errorf(toks[i].Span(), "macro '%s' has more than %d parameters", m.name, maxParams)
			return -1
		}
		i++
	}
}

// setBody stores the replacement tokens and finds the parameters in them.
func (p *preprocessor) setBody(m *macro, toks []lex.Token) bool {
	m.body = toks
	m.param = make([]int, len(toks))
	for i, t := range toks {
		m.param[i] = -1
		if t.Kind == lex.Ident {
			if n := slices.Index(m.params, t.Text); n >= 0 {
				m.param[i] = n
			} else if t.Text == "__VA_ARGS__" && !m.variadic {
				p.errorf(t.Span(), "__VA_ARGS__ in macro '%s', which is not variadic", m.name)
				return false
			}
		}
	}
	for i, t := range toks {
		if t.Kind != lex.Punct {
			continue
		}
		if t.Text == "##" && (i == 0 || i == len(toks)-1) {
			p.errorf(t.Span(), "## at the %s of macro '%s': expected a token on each side", map[bool]string{true: "start", false: "end"}[i == 0], m.name)
			return false
		}
		if t.Text == "#" && m.function && (i+1 == len(toks) || m.param[i+1] < 0) {
			p.errorf(t.Span(), "# in macro '%s': expected the name of a parameter behind it", m.name)
			return false
		}
	}
	return true
}

// sameMacro tells a harmless second definition.
func sameMacro(a, b *macro) bool {
	if a.function != b.function || a.variadic != b.variadic || !slices.Equal(a.params, b.params) || a.builtin != nil {
		return false
	}
	return slices.EqualFunc(a.body, b.body, func(x, y lex.Token) bool {
		return x.Kind == y.Kind && x.Text == y.Text
	})
}

// includeDirective reads the name behind #include, which macros may make.
func (p *preprocessor) includeDirective(f *input, directive lex.Token) {
	name, system, at, ok := f.lx.HeaderName()
	if !ok {
		toks := p.line(f)
		if len(toks) > 0 {
			at = p.upTo(toks[0], toks[len(toks)-1])
			name, system, ok = headerName(p.expandList(toks))
		} else {
			at = directive.Span()
		}
		if !ok {
			p.errorf(at, "#%s: expected \"file\" or <file>", directive.Text)
			return
		}
	} else {
		p.endLine(f, directive.Text)
	}
	if directive.Text == "import" {
		defer func(n int) {
			if len(p.files) > n {
				p.once[p.files[n].name] = true
			}
		}(len(p.files))
	}
	p.include(name, system, at)
}

// headerName reads a header name out of expanded tokens.
func headerName(toks []lex.Token) (name string, system, ok bool) {
	if len(toks) == 1 && toks[0].Kind == lex.String {
		s, err := lex.Unquote(toks[0].Text)
		return s, false, err == nil
	}
	if len(toks) >= 3 && toks[0].Is("<") && toks[len(toks)-1].Is(">") {
		var b strings.Builder
		for i, t := range toks[1 : len(toks)-1] {
			if i > 0 && t.Flags&lex.Space != 0 {
				b.WriteByte(' ')
			}
			b.WriteString(t.Text)
		}
		return b.String(), true, true
	}
	return "", false, false
}

// openCond reads #if, #ifdef or #ifndef.
func (p *preprocessor) openCond(f *input, hash, name lex.Token) {
	if len(f.conds) >= maxDepth {
		p.stop(p.upTo(hash, name), "#%s nested more than %d deep", name.Text, maxDepth)
		return
	}
	f.conds = append(f.conds, cond{at: p.upTo(hash, name)})
	p.group(f, p.condition(f, name))
}

// condition evaluates what stands behind #if, #elif and their like.
func (p *preprocessor) condition(f *input, name lex.Token) bool {
	switch name.Text {
	case "if", "elif":
		return p.evalLine(name, p.line(f))
	}
	t, ok := p.macroName(f, name)
	if ok {
		p.endLine(f, name.Text)
	}
	return ok && p.isDefined(t.Text) == !strings.HasSuffix(name.Text, "ndef")
}

// group starts the next group of the innermost conditional: it is read on if yes
// and passed otherwise, up to the directive that starts one to be read.
func (p *preprocessor) group(f *input, yes bool) {
	c := &f.conds[len(f.conds)-1]
	if yes {
		c.taken = true
		return
	}
	depth := 0
	for {
		hash := f.lx.SkipToDirective()
		if hash.Kind == lex.EOF {
			return // closeFile reports the conditional
		}
		if f.lx.AtLineEnd() {
			continue
		}
		name := f.lx.Next()
		switch name.Text {
		case "if", "ifdef", "ifndef":
			depth++
		case "endif":
			if depth == 0 {
				f.conds = f.conds[:len(f.conds)-1]
				p.endLine(f, "endif")
				return
			}
			depth--
		case "elif", "elifdef", "elifndef", "else":
			if depth > 0 {
				continue
			}
			if p.checkElse(c, hash, name); name.Text == "else" {
				c.other = true
				p.endLine(f, "else")
			}
			if !c.taken && !c.other && p.condition(f, name) || !c.taken && name.Text == "else" {
				c.taken = true
				return
			}
		}
	}
}

// elseDirective ends a group that was read: all further ones are passed.
func (p *preprocessor) elseDirective(f *input, hash, name lex.Token) {
	if len(f.conds) == 0 {
		p.errorf(p.upTo(hash, name), "#%s without #if", name.Text)
		f.lx.RestOfLine()
		return
	}
	c := &f.conds[len(f.conds)-1]
	p.checkElse(c, hash, name)
	if name.Text == "else" {
		c.other = true
	}
	f.lx.RestOfLine()
	p.group(f, false)
}

// checkElse reports a group behind #else.
func (p *preprocessor) checkElse(c *cond, hash, name lex.Token) {
	if c.other {
		p.report(source.Errorf(p.upTo(hash, name), "#%s behind #else", name.Text).Note(c.at, "the conditional starts here"))
	}
}
