package parse

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// declarator is one name with the pointers, arrays and parameter lists around it.
type declarator struct {
	start source.Pos
	name  *ast.Name // nil where none is written
	nameE entry
	parts []part // the one nearest to the name first
	attrs []*ast.Attr
	specs ast.Specs // from attributes such as [[kernel]]
	pack  bool      // ... before the name
}

// part is one operator of a declarator.
type part struct {
	kind partKind
	end  source.Pos
	// Of a pointer: its own qualifiers.
	words typeWords
	class *ast.Name // of a member pointer
	len   ast.Expr
	fn    *function
}

type partKind uint8

const (
	pointerPart partKind = iota
	memberPointerPart
	referencePart
	rvaluePart
	arrayPart
	functionPart
)

// function is a parameter list with what may follow it.
type function struct {
	params   []*ast.ParamDecl
	variadic bool
	scope    *scope // of the parameters
	space    ast.Space
	quals    ast.Quals
	ref      ast.RefKind
	noexcept bool
	result   ast.Type // behind ->
}

// declUse is where a declarator stands.
type declUse uint8

const (
	named     declUse = iota // a name is needed
	abstract                 // no name is allowed
	maybe                    // a parameter: with or without
	blockName                // named, in a function's body: (x) may be an initialiser
	typedefName
)

// maxParts bounds the pointers, arrays and so on of one declarator.
const maxParts = 64

// declarator reads a declarator.
func (p *parser) declarator(use declUse) *declarator {
	d := &declarator{start: p.tok().Pos}
	p.declaratorInto(d, use)
	return d
}

func (p *parser) declaratorInto(d *declarator, use declUse) {
	defer p.leave()
	if !p.enter() {
		return
	}
	prefix := &declarator{}
	p.pointers(prefix)
	if p.at("...") && use != abstract {
		p.advance()
		d.pack = true
	}
	p.declaratorAttributes(d)
	t := p.tok()
	switch {
	case use != abstract && (isName(t) || t.Is("operator") || t.Is("::") || t.Is("~")):
		d.name, d.nameE = p.name(inDecl)
	case t.Is("(") && p.nestedDeclarator(use):
		open := p.advance()
		p.declaratorInto(d, use)
		p.closeWith(")", open)
	case use == named || use == blockName || use == typedefName:
		p.expected("a name to declare")
		return
	}
	p.suffixes(d, use)
	d.parts = append(d.parts, prefix.parts...)
	if len(d.parts) > maxParts {
		p.fail(source.Errorf(p.from(d.start).Span(), "declarator of more than %d pointers, arrays and functions", maxParts))
	}
}

// nestedDeclarator decides whether a parenthesis where a name may stand is
// around a declarator and not a parameter list.
func (p *parser) nestedDeclarator(use declUse) bool {
	if use == named || use == blockName || use == typedefName {
		return true
	}
	for i := 1; ; i++ {
		t := p.peek(i)
		switch {
		case t.Is("*"), t.Is("&"), t.Is("&&"):
			return true
		case spaces[t.Text] != ast.NoSpace && t.Kind == lex.Ident, qualifierWords[t.Text] != 0:
			// (device *f)(...) against (device int *)
		case t.Is("("):
		case use == maybe && isName(t):
			return !p.lookup(t.Text).kind.isType() && p.peek(i+1).Is(")")
		default:
			return false
		}
		if i > maxParts {
			return false
		}
	}
}

// pointers reads *, & and member pointers with their qualifiers. The one nearest
// to the name is put first.
func (p *parser) pointers(d *declarator) {
	var read []part
	for len(read) <= maxParts {
		t := p.tok()
		pt := part{}
		switch {
		case t.Is("*"):
			p.advance()
		case t.Is("&"):
			p.advance()
			pt.kind = referencePart
		case t.Is("&&"):
			p.advance()
			pt.kind = rvaluePart
		case isName(t) && p.peek(1).Is("::") && p.peek(2).Is("*"):
			p.advance()
			pt.kind = memberPointerPart
			r := p.from(t.Pos)
			pt.class = &ast.Name{Range: r, Parts: []ast.NamePart{{Range: r, Ident: t.Text}}}
			p.advance()
			p.advance()
		default:
			for i := len(read) - 1; i >= 0; i-- {
				d.parts = append(d.parts, read[i])
			}
			return
		}
		for p.qualifier(&pt.words) {
		}
		pt.end = p.prev
		read = append(read, pt)
	}
	p.fail(source.Errorf(p.tok().Span(), "declarator of more than %d pointers", maxParts))
}

// declaratorAttributes reads attributes of what is declared.
func (p *parser) declaratorAttributes(d *declarator) {
	for {
		t := p.tok()
		switch {
		case t.Is("[") && p.peek(1).Is("["), t.Is("__attribute__"), t.Is("__attribute"), t.Is("alignas"):
			attrs, specs := p.attributes()
			d.attrs = append(d.attrs, attrs...)
			d.specs |= specs
		case t.Is("asm"), t.Is("__asm"), t.Is("__asm__"):
			d.attrs = append(d.attrs, p.asmLabel())
		default:
			return
		}
		if p.failed || p.stopped {
			return
		}
	}
}

// asmLabel reads asm("symbol").
func (p *parser) asmLabel() *ast.Attr {
	start := p.advance().Pos
	a := &ast.Attr{NS: "gnu", Name: "asm"}
	open := p.tok()
	if p.expect("(", "behind asm") {
		a.Args = append(a.Args, p.assign())
		p.closeWith(")", open)
	}
	a.Range = p.from(start)
	return a
}

// suffixes reads arrays and parameter lists.
func (p *parser) suffixes(d *declarator, use declUse) {
	p.declaratorAttributes(d)
	for !p.failed && !p.stopped && len(d.parts) <= maxParts {
		t := p.tok()
		switch {
		case t.Is("["):
			d.parts = append(d.parts, p.array())
		case t.Is("(") && p.opensParams(d, use):
			d.parts = append(d.parts, p.function(d))
		default:
			return
		}
		p.declaratorAttributes(d)
	}
}

// array reads [len].
func (p *parser) array() part {
	pt := part{kind: arrayPart}
	open := p.advance()
	angle := p.angle
	p.angle = false
	if !p.at("]") {
		pt.len = p.assign()
	}
	p.angle = angle
	p.closeWith("]", open)
	pt.end = p.prev
	return pt
}

// opensParams decides whether the parenthesis behind a declarator opens
// parameters: else it is an initialiser.
func (p *parser) opensParams(d *declarator, use declUse) bool {
	switch use {
	case abstract:
		// Only behind a nested declarator or where the list can't be anything else:
		// float4(x) is no type.
		return len(d.parts) > 0 || p.look(p.paramsAhead)
	case maybe, typedefName:
		return true
	}
	if d.name != nil && d.name.Last().Kind != ast.NameIdent {
		return true // operators and their like are functions
	}
	next := p.peek(1)
	if next.Is(")") || next.Is("...") {
		return true
	}
	if use == named {
		return next.Kind != lex.Number && next.Kind != lex.String && !next.Is("-") && !(isName(next) && p.lookup(next.Text).kind.isValue())
	}
	return p.look(p.paramsAhead)
}

// paramsAhead reads a parameter list and checks what follows it.
func (p *parser) paramsAhead() bool {
	open := p.advance()
	if p.at(")") {
		p.advance()
		return true
	}
	if !p.startsType() {
		return false
	}
	restore := p.push(newScope(p.scope))
	p.params(&function{}, open)
	restore()
	t := p.tok()
	switch t.Text {
	case ";", ",", "{", ")", ">", "=", "->", "[", "(", "const", "thread", "device", "constant", "threadgroup", "noexcept", "volatile":
		return true
	}
	return t.Kind == lex.EOF
}

// function reads a parameter list and what follows it.
func (p *parser) function(d *declarator) part {
	f := &function{scope: newScope(p.scope)}
	if d.name != nil && len(d.name.Parts) > 1 {
		// A member defined outside sees the names of its class.
		if in := p.scopeOf(d.name); in != nil {
			f.scope.using = append(f.scope.using, in)
		}
	}
	restore := p.push(f.scope)
	defer restore()
	open := p.advance()
	p.params(f, open)
	w := &typeWords{}
	for !p.failed && !p.stopped {
		t := p.tok()
		switch {
		case p.qualifier(w):
		case t.Is("&"):
			p.advance()
			f.ref = ast.LValueRef
		case t.Is("&&"):
			p.advance()
			f.ref = ast.RValueRef
		case t.Is("noexcept"):
			p.advance()
			f.noexcept = true
			if p.at("(") {
				o := p.advance()
				p.expr()
				p.closeWith(")", o)
			}
		case t.Is("throw"):
			p.advance()
			o := p.tok()
			if p.expect("(", "behind throw") {
				p.closeWith(")", o)
			}
			f.noexcept = true
		case t.Is("override"), t.Is("final"):
			p.advance()
		case t.Is("->"):
			p.advance()
			f.result = p.typeID()
		default:
			f.quals, f.space = w.quals, w.space
			return part{kind: functionPart, end: p.prev, fn: f}
		}
	}
	return part{kind: functionPart, end: p.prev, fn: f}
}

// scopeOf finds the class or namespace that qualifies a name.
func (p *parser) scopeOf(n *ast.Name) *scope {
	e := p.lookup(n.Parts[0].Ident)
	for _, part := range n.Parts[1 : len(n.Parts)-1] {
		e = qualified(e.in, part.Ident)
	}
	return e.in
}

// params reads parameters up to the closing parenthesis.
func (p *parser) params(f *function, open lex.Token) {
	angle := p.angle
	p.angle = false
	defer func() { p.angle = angle }()
	if p.at("void") && p.peek(1).Is(")") {
		p.advance()
	}
	for !p.at(")") && !p.failed && !p.stopped {
		if p.at("...") {
			p.advance()
			f.variadic = true
			break
		}
		f.params = append(f.params, p.param())
		if !p.accept(",") {
			if p.at("...") {
				continue
			}
			break
		}
		if p.at(")") {
			p.expected("a parameter")
		}
	}
	p.closeWith(")", open)
}

// param reads one parameter.
func (p *parser) param() *ast.ParamDecl {
	start := p.tok()
	s := p.specifierList(inParam)
	if s.base == nil {
		if !p.failed {
			p.expected("the type of a parameter")
		}
		return &ast.ParamDecl{Range: ast.Range{Start: start.Pos, End: start.End}, Type: &ast.AutoType{}}
	}
	d := p.declarator(maybe)
	pd := &ast.ParamDecl{Specs: s.specs | d.specs, Attrs: append(s.attrs, d.attrs...), Type: p.build(s.base, d), Pack: d.pack}
	if d.name != nil {
		if !d.name.IsPlain() {
			p.fail(source.Errorf(d.name.Span(), "the name of a parameter is qualified or an operator: expected an identifier"))
		}
		pd.Name = ast.Ident{Range: d.name.Range, Name: d.name.Last().Ident}
		p.declare(pd.Name.Name, entry{kind: valueName})
	}
	if p.accept("=") {
		pd.Default = p.initClause()
	}
	pd.Range = p.from(start.Pos)
	return pd
}

// build puts a declarator's parts around a type.
func (p *parser) build(base ast.Type, d *declarator) ast.Type {
	t := base
	start := base.Span().Start
	for i := len(d.parts) - 1; i >= 0; i-- {
		pt := d.parts[i]
		r := ast.Range{Start: start, End: pt.end}
		switch pt.kind {
		case pointerPart:
			t = &ast.PointerType{Range: r, Elem: t}
		case memberPointerPart:
			t = &ast.MemberPointerType{Range: r, Class: pt.class, Elem: t}
		case referencePart:
			t = &ast.ReferenceType{Range: r, Elem: t}
		case rvaluePart:
			t = &ast.ReferenceType{Range: r, Elem: t, RValue: true}
		case arrayPart:
			t = &ast.ArrayType{Range: r, Elem: t, Len: pt.len}
		case functionPart:
			if pt.fn.result != nil {
				t = pt.fn.result
			}
			t = &ast.FuncType{Range: r, Result: t, Params: pt.fn.params, Variadic: pt.fn.variadic, Noexcept: pt.fn.noexcept}
		}
		if w := pt.words; w.quals != 0 || w.space != ast.NoSpace {
			t = &ast.QualifiedType{Range: r, Quals: w.quals, Space: w.space, SpaceRange: w.spaceRange, Elem: t}
		}
	}
	return t
}
