package parse

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// nameUse is where a name stands; it decides about `name <`.
type nameUse uint8

const (
	inExpr nameUse = iota
	inType
	inDecl // the name being declared
)

// name reads a possibly qualified name and tells what it is.
func (p *parser) name(use nameUse) (*ast.Name, entry) {
	n := &ast.Name{}
	start := p.tok().Pos
	var in *scope
	qual := false
	if p.at("::") {
		p.advance()
		n.Global = true
		qual, in = true, p.global
	} else if p.at("decltype") && p.peek(p.skipDecltype(0)).Is("::") {
		t := p.decltype()
		n.Parts = append(n.Parts, ast.NamePart{Range: p.from(start), Kind: ast.NameDecltype, Conv: t})
		p.advance()
		qual = true
	}
	var e entry
	for {
		part := ast.NamePart{}
		part.Start = p.tok().Pos
		part.Template = qual && p.accept("template")
		t := p.tok()
		switch {
		case t.Is("operator"):
			p.operatorName(&part)
			e = entry{kind: valueName}
		case t.Is("~") && use != inType && (qual || use == inDecl) && isName(p.peek(1)):
			p.advance()
			part.Kind, part.Ident = ast.NameDestructor, p.advance().Text
			e = entry{kind: valueName}
		case isName(t):
			p.advance()
			part.Ident = t.Text
			if !qual {
				e = p.lookup(t.Text)
			} else {
				e = qualified(in, t.Text)
				if n.Global && len(n.Parts) == 0 && e.kind == unknownName {
					e = library(t.Text)
				}
			}
		default:
			p.expected("a name")
			return p.endName(n, start), entry{}
		}
		if p.at("<") && p.opensTemplate(&part, use, e) {
			part.HasArgs = true
			part.Args = p.templateArgs()
			if e.kind == unknownName && part.Template && use == inType {
				e.kind = typeTemplate
			}
		}
		part.End = p.prev
		n.Parts = append(n.Parts, part)
		if len(n.Parts) > maxChain {
			p.fail(source.Errorf(p.tok().Span(), "name of more than %d parts", maxChain))
		}
		if !p.at("::") || !p.continuesName(p.peek(1), use) {
			break
		}
		p.advance()
		qual, in = true, e.in
	}
	return p.endName(n, start), e
}

// endName sets the range; a name always has a part, so that readers need no
// check.
func (p *parser) endName(n *ast.Name, start source.Pos) *ast.Name {
	n.Range = p.from(start)
	if len(n.Parts) == 0 {
		n.Parts = []ast.NamePart{{Range: n.Range}}
	}
	return n
}

// continuesName reports whether t may stand behind the :: of a name.
func (p *parser) continuesName(t lex.Token, use nameUse) bool {
	return isName(t) || t.Is("template") || use != inType && (t.Is("operator") || t.Is("~"))
}

// opensTemplate decides whether the current < opens template arguments of the
// name before it.
func (p *parser) opensTemplate(part *ast.NamePart, use nameUse, e entry) bool {
	switch {
	case part.Template, e.kind.isTemplate():
		return true
	case use == inDecl:
		// What is being declared can't be compared. An operator's < is part of it.
		return true
	case e.kind != unknownName || part.Kind != ast.NameIdent:
		return false
	}
	// Not declared so far: template arguments if it reads as some, and what stands
	// behind them would make no sense behind a comparison.
	at := p.i
	if yes, known := p.opens[at]; known {
		return yes
	}
	yes := p.look(func() bool {
		for _, a := range p.templateArgs() {
			if b, ok := a.Expr.(*ast.BinaryExpr); ok && (b.Op == "&&" || b.Op == "||") {
				return false
			}
		}
		if use == inType {
			return true
		}
		t := p.tok()
		switch t.Text {
		case "(", ")", "::", ",", ";", "{", "}", "]", ">", ">>", "...", ":", "?", "=", "==", "!=", "<=", ">=", "&&", "||", "&", "|", "^", "/", "%":
			return t.Kind == lex.Punct
		}
		return t.Kind == lex.EOF || isName(t)
	})
	p.opens[at] = yes
	return yes
}

// operatorName reads operator and what it is.
func (p *parser) operatorName(part *ast.NamePart) {
	p.advance()
	t := p.tok()
	if t.Kind == lex.Punct {
		switch t.Text {
		case "(", "[":
			p.advance()
			closing := map[string]string{"(": ")", "[": "]"}[t.Text]
			if p.closeWith(closing, t) {
				part.Kind, part.Ident = ast.NameOperator, t.Text+closing
			}
			return
		case "+", "-", "*", "/", "%", "^", "&", "|", "~", "!", "=", "<", ">", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=",
			"<<", ">>", "<<=", ">>=", "==", "!=", "<=", ">=", "&&", "||", "++", "--", ",", "->", "->*":
			p.advance()
			part.Kind, part.Ident = ast.NameOperator, t.Text
			return
		}
	}
	if t.Kind == lex.String && t.Text == `""` && isName(p.peek(1)) {
		p.advance()
		part.Kind, part.Ident = ast.NameOperator, `""`+p.advance().Text
		return
	}
	// A conversion: a type without function or array declarators.
	part.Kind, part.Ident = ast.NameConversion, "operator"
	part.Conv = p.conversionType()
}

// templateArgs reads <...>.
func (p *parser) templateArgs() []ast.TemplateArg {
	defer p.leave()
	if !p.enter() {
		return nil
	}
	open := p.advance()
	angle := p.angle
	p.angle = true
	defer func() { p.angle = angle }()
	var args []ast.TemplateArg
	if t := p.tok(); t.Kind == lex.Punct && t.Text[0] == '>' {
		p.closeAngle(open)
		return args
	}
	for {
		args = append(args, p.templateArg())
		if !p.accept(",") {
			break
		}
	}
	p.closeAngle(open)
	return args
}

// atArgEnd reports whether a template argument may end here.
func (p *parser) atArgEnd() bool {
	t := p.tok()
	return t.Kind == lex.Punct && (t.Text == "," || t.Text == "..." || t.Text[0] == '>')
}

func (p *parser) templateArg() ast.TemplateArg {
	a := ast.TemplateArg{}
	start := p.tok().Pos
	isType := p.startsType() && p.try(asTypeArg, func() bool {
		a.Type = p.typeID()
		return p.atArgEnd()
	})
	if !isType {
		a.Type, a.Expr = nil, p.conditional()
	}
	if p.accept("...") {
		a.Pack = true
	}
	if !p.failed && !p.atArgEnd() {
		p.expected("',' or '>' in template arguments")
	}
	a.Range = p.from(start)
	return a
}
