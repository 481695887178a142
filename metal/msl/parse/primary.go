package parse

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// primary reads an operand.
func (p *parser) primary() ast.Expr {
	t := p.tok()
	r := ast.Range{Start: t.Pos, End: t.End}
	switch t.Kind {
	case lex.Number:
		p.advance()
		return p.number(t, r)
	case lex.Char:
		p.advance()
		v, err := lex.UnquoteChar(t.Text)
		if err != nil {
			p.report(source.Errorf(r.Span(), "%v", err))
		}
		return &ast.CharLit{Range: r, Value: v}
	case lex.String:
		return p.stringLit()
	case lex.Punct:
		switch t.Text {
		case "(":
			return p.paren()
		case "[":
			return p.lambda()
		case "{":
			p.expected("an expression")
			return &ast.BadExpr{Range: r}
		}
	case lex.Ident:
		if x := p.word(t, r); x != nil {
			return x
		}
	}
	if t.Is("::") || isName(t) || t.Is("operator") {
		return p.nameExpr()
	}
	if t.Kind == lex.Ident && p.startsType() {
		p.fail(source.Errorf(t.Span(), "expected an expression, found %s, which starts a type", t.Describe()))
		return &ast.BadExpr{Range: r}
	}
	p.expected("an expression")
	return &ast.BadExpr{Range: r}
}

// number reads a numeric literal.
func (p *parser) number(t lex.Token, r ast.Range) ast.Expr {
	n, err := lex.ParseNumber(t.Text)
	if err != nil {
		p.report(source.Errorf(r.Span(), "%v", err))
		return &ast.IntLit{Range: r, Base: 10}
	}
	if n.Float {
		return &ast.FloatLit{Range: r, Text: n.Text, Suffix: n.Suffix}
	}
	return &ast.IntLit{Range: r, Value: n.Int, Base: n.Base, Unsigned: n.Unsigned, Long: n.Long}
}

// stringLit reads adjacent string literals as one.
func (p *parser) stringLit() *ast.StringLit {
	s := &ast.StringLit{}
	start := p.tok().Pos
	var b strings.Builder
	for p.tok().Kind == lex.String {
		t := p.advance()
		v, err := lex.Unquote(t.Text)
		if err != nil {
			p.report(source.Errorf(t.Span(), "%v", err))
		}
		b.WriteString(v)
	}
	s.Value = b.String()
	s.Range = p.from(start)
	return s
}

// word reads an operand that starts with a keyword, nil if there is none.
func (p *parser) word(t lex.Token, r ast.Range) ast.Expr {
	switch t.Text {
	case "true", "false":
		p.advance()
		return &ast.BoolLit{Range: r, Value: t.Text == "true"}
	case "nullptr":
		p.advance()
		return &ast.NullLit{Range: r}
	case "this":
		p.advance()
		return &ast.ThisExpr{Range: r}
	case "static_cast":
		return p.namedCast(ast.StaticCast)
	case "reinterpret_cast":
		return p.namedCast(ast.ReinterpretCast)
	case "const_cast":
		return p.namedCast(ast.ConstCast)
	case "dynamic_cast":
		return p.namedCast(ast.DynamicCast)
	case "typename", "decltype", "__decltype":
		if p.peek(p.skipDecltype(0)).Is("::") {
			return p.nameExpr()
		}
		s := p.specifierOnly()
		return p.construct(s)
	}
	if basicWords[t.Text] {
		return p.construct(p.specifierOnly())
	}
	if next := p.peek(1); next.Is("(") && (strings.HasPrefix(t.Text, "__is_") || strings.HasPrefix(t.Text, "__has_")) && p.lookup(t.Text).kind == unknownName {
		return p.trait()
	}
	return nil
}

// specifierOnly reads a type of specifiers alone, for T(x).
func (p *parser) specifierOnly() ast.Type {
	start := p.tok()
	s := p.specifierList(inTypeID)
	if s.base == nil {
		if !p.failed {
			p.expected("a type")
		}
		return &ast.AutoType{Range: ast.Range{Start: start.Pos, End: start.End}}
	}
	return s.base
}

// trait reads a compiler's own predicate on types: __is_same(A, B).
func (p *parser) trait() ast.Expr {
	t := p.advance()
	r := ast.Range{Start: t.Pos, End: t.End}
	c := &ast.CallExpr{Fn: &ast.NameExpr{Range: r, Name: &ast.Name{Range: r, Parts: []ast.NamePart{{Range: r, Ident: t.Text}}}}}
	open := p.advance()
	for !p.at(")") && !p.failed && !p.stopped {
		c.Args = append(c.Args, p.typeOrExpr())
		if !p.accept(",") {
			break
		}
	}
	p.closeWith(")", open)
	c.Range = p.from(t.Pos)
	return c
}

// typeOrExpr reads an argument that may be a type: it is a *ast.TypeExpr then.
func (p *parser) typeOrExpr() ast.Expr {
	start := p.tok().Pos
	var typ ast.Type
	ok := p.startsType() && p.try(asType, func() bool {
		angle := p.angle
		p.angle = false
		typ = p.typeID()
		p.angle = angle
		return p.at(",") || p.at(")")
	})
	if ok {
		return &ast.TypeExpr{Range: p.from(start), Type: typ}
	}
	return p.assign()
}

// namedCast reads static_cast<T>(x) and its like.
func (p *parser) namedCast(kind ast.CastKind) ast.Expr {
	t := p.advance()
	c := &ast.NamedCastExpr{Kind: kind}
	open := p.tok()
	if !p.expect("<", "behind "+t.Text) {
		return &ast.BadExpr{Range: p.from(t.Pos)}
	}
	angle := p.angle
	p.angle = true
	c.Type = p.typeID()
	p.closeAngle(open)
	p.angle = false
	open = p.tok()
	if p.expect("(", "behind "+t.Text+"<...>") {
		c.X = p.expr()
		p.closeWith(")", open)
	} else {
		c.X = &ast.BadExpr{Range: p.here()}
	}
	p.angle = angle
	c.Range = p.from(t.Pos)
	return c
}

// nameExpr reads a name; if it is a type's, a construction.
func (p *parser) nameExpr() ast.Expr {
	start := p.tok()
	n, e := p.name(inExpr)
	if e.kind.isType() || e.kind == unknownName && p.at("{") && (n.Last().HasArgs || len(n.Parts) > 1) {
		if p.at("(") || p.at("{") {
			return p.construct(&ast.NamedType{Range: n.Range, Name: n})
		}
		if !p.failed && len(n.Parts) == 1 && p.trial == 0 && (isName(p.tok()) || p.at("*") && !p.canMultiply()) {
			p.fail(source.Errorf(n.Span(), "expected an expression, found the type '%s'", start.Text))
		}
	}
	return &ast.NameExpr{Range: n.Range, Name: n}
}

// canMultiply reports whether an operand follows the current *.
func (p *parser) canMultiply() bool {
	t := p.peek(1)
	return t.Kind == lex.Number || isName(t) || t.Is("(")
}

// construct reads the arguments of T(x) or T{x}.
func (p *parser) construct(t ast.Type) ast.Expr {
	c := &ast.ConstructExpr{Type: t}
	switch {
	case p.at("("):
		c.Args = p.args()
	case p.at("{"):
		c.Braces = true
		c.Args = p.initList().Elems
	default:
		p.expected("'(' or '{' behind a type in an expression")
	}
	c.Range = p.from(t.Span().Start)
	return c
}

// lambda reads [captures](params) { body }.
func (p *parser) lambda() ast.Expr {
	l := &ast.LambdaExpr{}
	open := p.advance()
	angle := p.angle
	p.angle = false
	defer func() { p.angle = angle }()
	if (p.at("=") || p.at("&")) && (p.peek(1).Is("]") || p.peek(1).Is(",")) {
		l.Default = p.advance().Text[0]
		p.accept(",")
	}
	for !p.at("]") && !p.failed && !p.stopped {
		l.Captures = append(l.Captures, p.capture())
		if !p.accept(",") {
			break
		}
	}
	p.closeWith("]", open)
	f := &function{scope: newScope(p.scope)}
	restore := p.push(f.scope)
	defer restore()
	for _, c := range l.Captures {
		p.declare(c.Name, entry{kind: valueName})
	}
	if p.at("(") {
		p.params(f, p.advance())
		l.Params = f.params
		for p.at("mutable") || p.at("constexpr") || p.at("noexcept") {
			l.Mutable = p.advance().Text == "mutable" || l.Mutable
		}
		for p.at("[") && p.peek(1).Is("[") || p.at("__attribute__") {
			attrs, _ := p.attributes()
			l.Attrs = append(l.Attrs, attrs...)
			if p.failed {
				break
			}
		}
		if p.accept("->") {
			l.Result = p.typeID()
		}
	}
	if p.at("{") {
		l.Body = p.compound()
	} else {
		p.expected("the body of a lambda")
		l.Body = &ast.CompoundStmt{Range: p.here()}
	}
	l.Range = p.from(open.Pos)
	return l
}

// capture reads one capture.
func (p *parser) capture() ast.Capture {
	c := ast.Capture{}
	start := p.tok().Pos
	c.ByRef = p.accept("&")
	if !c.ByRef {
		p.accept("*") // *this
	}
	t := p.tok()
	if !isName(t) && !t.Is("this") {
		p.expected("the name of a captured variable")
	}
	p.advance()
	c.Name = t.Text
	if p.accept("=") {
		c.Init = p.initClause()
	}
	p.accept("...")
	c.Range = p.from(start)
	return c
}
