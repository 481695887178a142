// Package parse builds the syntax tree of a Metal program from preprocessed
// tokens.
//
// It is a hand-written recursive descent parser. As in C++, the grammar needs to
// know which names are types and templates, so the parser keeps the scopes of
// what it has seen declared, and a table of the library's names; the table only
// decides between readings of the text and declares nothing. Where that does not
// decide, it tries one reading and falls back to the other. Bodies of member
// functions are read when their class is complete.
//
// After a syntax error it goes on with the next statement or declaration, so one
// run reports several errors. Nesting, number of errors and total work are
// limited: any input ends in time proportional to its length.
//
// Functions of the package keep no state and are safe for concurrent use.
package parse

import (
	"fmt"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// Options are the settings of one run.
type Options struct {
	// MaxErrors is the number of errors after which the run stops, 50 if 0. As many
	// warnings are kept.
	MaxErrors int
}

const (
	defaultMaxErrors = 50
	// maxDepth bounds the nesting of everything that is parsed by recursion. A
	// parenthesised expression takes two.
	maxDepth = 512
	// maxChain bounds what is parsed by a loop and nests in the tree, such as
	// a + b + c.
	maxChain = 1000
	// workPerToken bounds how often a token is looked at again after a reading
	// was given up.
	workPerToken = 50
	// maxIdle is how often tokens are looked at without one being passed: a fault of
	// this package must not hang its caller.
	maxIdle = 1 << 16
)

// File parses a translation unit. toks is what pp.Process gives and ends with a
// lex.EOF token. The tree holds everything that could be parsed.
func File(toks []lex.Token, opts Options) (*ast.File, []source.Diag) {
	if opts.MaxErrors <= 0 {
		opts.MaxErrors = defaultMaxErrors
	}
	if len(toks) == 0 || toks[len(toks)-1].Kind != lex.EOF {
		toks = append(toks[:len(toks):len(toks)], lex.Token{Kind: lex.EOF})
	}
	p := &parser{
		toks: spellOperators(toks), opts: opts, work: workPerToken*len(toks) + 10000,
		gaveUp: map[attempt]bool{}, opens: map[int]bool{}, memberTemplates: map[string]bool{},
	}
	p.global = newScope(nil)
	p.scope = p.global
	f := &ast.File{}
	f.Start = toks[0].Pos
	f.Decls = p.declarations(nil)
	f.End = toks[len(toks)-1].End
	return f, p.diags
}

// spellOperators writes `and`, `or` and their like as the operators that they are.
func spellOperators(toks []lex.Token) []lex.Token {
	copied := false
	for i, t := range toks {
		if op, ok := operatorWords[t.Text]; ok && t.Kind == lex.Ident {
			if !copied {
				toks, copied = append([]lex.Token(nil), toks...), true
			}
			toks[i].Kind, toks[i].Text = lex.Punct, op
		}
	}
	return toks
}

var operatorWords = map[string]string{
	"and": "&&", "or": "||", "not": "!", "not_eq": "!=", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~",
	"and_eq": "&=", "or_eq": "|=", "xor_eq": "^=",
}

// parser is the state of one run.
type parser struct {
	opts  Options
	toks  []lex.Token
	i     int
	half  int        // bytes of toks[i] that are used up: the first > of >>
	prev  source.Pos // end of the token read last
	diags []source.Diag

	errors, warnings int

	failed  bool // a syntax error is on its way up to where the parser can go on
	stopped bool // a limit was passed: nothing more is read
	ended   bool // that the file ends too early was reported
	trial   int  // readings under way that may be given up: no errors are reported
	depth   int
	work    int
	idle    int // looks at a token since one was passed

	global *scope
	scope  *scope
	angle  bool // > ends a template argument list
	// template is what stands before the declaration that is being read.
	template templateHead

	records         int // classes that are being read
	late            []lateBody
	gaveUp          map[attempt]bool
	opens           map[int]bool    // whether the < at a token opens template arguments, where that was found by trying
	memberTemplates map[string]bool // names of all member templates
}

// templateHead says whether a declaration has template <...> in front.
type templateHead uint8

const (
	noTemplate templateHead = iota
	primary                 // template <parameters>
	special                 // template <>
	instance                // template without <>
)

// tok gives the current token. On the way up from an error it is the end of
// file, so that every loop ends.
func (p *parser) tok() lex.Token {
	if p.failed || p.stopped {
		return p.toks[len(p.toks)-1]
	}
	t := p.toks[p.i]
	if p.idle++; p.idle > maxIdle {
		p.stop(t.Span(), "the parser makes no progress at %s", t.Describe())
	}
	if p.half > 0 {
		t.Text = t.Text[p.half:]
		if t.Pos > 0 {
			t.Pos += source.Pos(p.half)
		}
	}
	return t
}

// peek gives the token n behind the current one.
func (p *parser) peek(n int) lex.Token {
	if p.failed || p.stopped || p.i+n >= len(p.toks) {
		return p.toks[len(p.toks)-1]
	}
	return p.toks[p.i+n]
}

// at reports whether the current token is the word or punctuation s.
func (p *parser) at(s string) bool { return p.tok().Is(s) }

// advance passes the current token.
func (p *parser) advance() lex.Token {
	t := p.tok()
	if p.failed || p.stopped || t.Kind == lex.EOF {
		return t
	}
	p.prev = t.End
	p.half = 0
	p.i++
	p.idle = 0
	p.spend(t)
	return t
}

// spend counts the work done.
func (p *parser) spend(t lex.Token) {
	if p.work--; p.work < 0 {
		p.stop(t.Span(), "the text is too ambiguous: reading it takes too much work")
	}
}

// accept passes the current token if it is s.
func (p *parser) accept(s string) bool {
	if !p.at(s) {
		return false
	}
	p.advance()
	return true
}

// closeAngle passes one >, which may be the first of >>, >= or >>=.
func (p *parser) closeAngle(open lex.Token) {
	t := p.tok()
	if t.Kind != lex.Punct || t.Text[0] != '>' {
		p.unclosed(">", open)
		return
	}
	if len(t.Text) == 1 {
		p.advance()
		return
	}
	p.half++
	p.prev = t.End
	if t.Pos > 0 {
		p.prev = t.Pos + 1
	}
	p.spend(t)
}

// report adds a diagnostic.
func (p *parser) report(d source.Diag) {
	if p.trial > 0 || p.stopped {
		return
	}
	if d.Severity != source.Error {
		if p.warnings++; p.warnings <= p.opts.MaxErrors {
			p.diags = append(p.diags, d)
		}
		return
	}
	p.diags = append(p.diags, d)
	if p.errors++; p.errors >= p.opts.MaxErrors {
		p.stop(d.Span, "too many errors, the rest of the text is not read")
	}
}

// stop gives up after a passed limit, also where a reading is tried.
func (p *parser) stop(at source.Span, format string, args ...any) {
	if p.stopped {
		return
	}
	p.diags = append(p.diags, source.Errorf(at, format, args...))
	p.stopped = true
}

// fail reports a syntax error and starts the way up.
func (p *parser) fail(d source.Diag) {
	if p.failed {
		return
	}
	p.report(d)
	p.failed = true
}

// expected fails at the current token. what is what should have been there.
func (p *parser) expected(what string) {
	t := p.tok()
	if t.Kind == lex.Other {
		p.fail(source.Errorf(t.Span(), "unexpected character %s in the text: expected %s", t.Describe(), what))
		return
	}
	p.fail(source.Errorf(t.Span(), "expected %s, found %s", what, t.Describe()))
}

// expect passes s or fails. where completes the message: "expected '(' behind if".
func (p *parser) expect(s, where string) bool {
	if p.accept(s) {
		return true
	}
	p.expected("'" + s + "' " + where)
	return false
}

// expectEnd passes a semicolon or fails at the end of the token before, which is
// where it is missing.
func (p *parser) expectEnd(what string) bool {
	if p.accept(";") {
		return true
	}
	t := p.tok()
	at := t.Span()
	if p.prev.IsValid() && t.Kind != lex.Other {
		at = source.Span{Start: p.prev, End: p.prev}
	}
	p.fail(source.Errorf(at, "expected ';' behind %s, found %s", what, t.Describe()))
	return false
}

// unclosed fails where a bracket should be closed. That the file ends before is
// reported for the innermost one only.
func (p *parser) unclosed(s string, open lex.Token) {
	t := p.tok()
	if t.Kind == lex.EOF && !p.failed && p.trial == 0 {
		if p.ended {
			p.failed = true
			return
		}
		p.ended = true
	}
	p.fail(source.Errorf(t.Span(), "expected '%s', found %s", s, t.Describe()).Note(open.Span(), "to match this '%s'", open.Text))
}

// closeWith passes a closing bracket or fails.
func (p *parser) closeWith(s string, open lex.Token) bool {
	if p.accept(s) {
		return true
	}
	p.unclosed(s, open)
	return false
}

// enter goes one level deeper; it fails past the limit. leave goes back.
func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxDepth {
		if !p.failed {
			p.fail(source.Errorf(p.tok().Span(), "nested too deep: at most %d levels are read", maxDepth))
		}
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// from gives the range from a position to the end of the token read last.
func (p *parser) from(start source.Pos) ast.Range {
	end := p.prev
	if !end.IsValid() {
		end = start
	}
	return ast.Range{Start: start, End: end}
}

// state is what a reading that is given up restores.
type state struct {
	i, half, depth, late, records int
	prev                          source.Pos
	scope                         *scope
	angle                         bool
	template                      templateHead
}

func (p *parser) save() state {
	return state{p.i, p.half, p.depth, len(p.late), p.records, p.prev, p.scope, p.angle, p.template}
}

func (p *parser) restore(s state) {
	p.i, p.half, p.depth, p.records, p.prev, p.scope, p.angle, p.template = s.i, s.half, s.depth, s.records, s.prev, s.scope, s.angle, s.template
	p.late = p.late[:s.late]
	p.failed = false
}

// attempt names a reading at a token.
type attempt struct {
	i    int
	kind attemptKind
}

type attemptKind uint8

const (
	asTypeArg attemptKind = iota
	asCast
	asSizeofType
	asDecl
	asParams
	asType
)

// try reads something that may turn out to be something else: if f is false or
// fails, the parser is back where it was. That a reading failed is remembered,
// so that readings inside readings don't multiply.
func (p *parser) try(kind attemptKind, f func() bool) bool {
	if p.failed || p.stopped {
		return false
	}
	key := attempt{p.i, kind}
	if p.gaveUp[key] {
		return false
	}
	s := p.save()
	p.trial++
	ok := f() && !p.failed && !p.stopped
	p.trial--
	if !ok {
		p.restore(s)
		p.gaveUp[key] = true
	}
	return ok
}

// look reads ahead and always comes back.
func (p *parser) look(f func() bool) bool {
	if p.failed || p.stopped {
		return false
	}
	s := p.save()
	p.trial++
	ok := f() && !p.failed && !p.stopped
	p.trial--
	p.restore(s)
	return ok
}

// recover ends the way up from an error: it passes tokens up to the next place
// where a statement, declaration or member may start. start is the token where
// the broken one began.
func (p *parser) recover(start int, decl bool) {
	p.failed, p.half, p.angle, p.template = false, 0, false, noTemplate
	p.leaveForHead(start)
	braces := 0 // that the broken text has opened
	for _, t := range p.toks[min(start, p.i):p.i] {
		if t.Is("{") {
			braces++
		} else if t.Is("}") && braces > 0 {
			braces--
		}
	}
	broken := p.i
	for !p.stopped {
		t := p.tok()
		first := p.i == start
		switch {
		case t.Kind == lex.EOF:
			return
		case t.Is("{"):
			braces++
		case t.Is("}"):
			if braces == 0 {
				return
			}
			if braces--; braces == 0 {
				p.advance()
				p.accept(";")
				return
			}
		case t.Is(";") && braces == 0:
			p.advance()
			return
		case decl && braces == 0 && !first && t.Flags&lex.LineStart != 0 && startsDeclaration[t.Text]:
			return
		case t.Kind == lex.Pragma && braces == 0 && !first && p.i != broken:
			return
		}
		p.advance()
	}
}

// leaveForHead passes the rest of a for's parenthesis, whose semicolons end
// nothing.
func (p *parser) leaveForHead(start int) {
	if !p.toks[start].Is("for") {
		return
	}
	open := 0
	for _, t := range p.toks[start:p.i] {
		if t.Is("(") {
			open++
		} else if t.Is(")") {
			open--
		}
	}
	for open > 0 {
		t := p.tok()
		switch {
		case t.Is("("):
			open++
		case t.Is(")"):
			open--
		case t.Is("{"), t.Is("}"), t.Kind == lex.EOF, t.Kind == lex.Pragma:
			return
		}
		p.advance()
	}
}

// startsDeclaration are words that start a declaration where they start a line.
var startsDeclaration = words("kernel vertex fragment template struct class union enum typedef using namespace static inline constexpr constant")

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range splitWords(s) {
		m[w] = true
	}
	return m
}

// warn adds a warning.
func (p *parser) warn(at source.Span, format string, args ...any) {
	p.report(source.Diag{Severity: source.Warning, Span: at, Msg: fmt.Sprintf(format, args...)})
}
