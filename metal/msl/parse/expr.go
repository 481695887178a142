package parse

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// expr reads an expression with commas.
func (p *parser) expr() ast.Expr {
	x := p.assign()
	for n := 0; p.at(",") && !p.peek(1).Is("..."); n++ {
		op := p.advance()
		y := p.assign()
		x = binary(op, x, y)
		if !p.chain(n) {
			break
		}
	}
	return x
}

// chain bounds the operands of one chain of operators.
func (p *parser) chain(n int) bool {
	if n < maxChain {
		return true
	}
	p.fail(source.Errorf(p.tok().Span(), "expression too long: at most %d operators in a row are read", maxChain))
	return false
}

// between gives the range over two nodes.
func between(x, y ast.Node) ast.Range {
	return ast.Range{Start: x.Span().Start, End: y.Span().End}
}

func binary(op lex.Token, x, y ast.Expr) ast.Expr {
	return &ast.BinaryExpr{Range: between(x, y), Op: op.Text, OpPos: ast.Range{Start: op.Pos, End: op.End}, X: x, Y: y}
}

// assignOps are the assignment operators.
var assignOps = map[string]bool{
	"=": true, "+=": true, "-=": true, "*=": true, "/=": true, "%=": true, "&=": true, "|=": true, "^=": true, "<<=": true, ">>=": true,
}

// assign reads an expression without commas.
func (p *parser) assign() ast.Expr {
	defer p.leave()
	if !p.enter() {
		return &ast.BadExpr{Range: p.here()}
	}
	x := p.conditional()
	op := p.tok()
	if op.Kind != lex.Punct || !assignOps[op.Text] || p.angle && op.Text == ">>=" {
		return x
	}
	p.advance()
	y := p.initClause()
	return &ast.AssignExpr{Range: between(x, y), Op: op.Text, OpPos: ast.Range{Start: op.Pos, End: op.End}, X: x, Y: y}
}

// here is the range of the current token.
func (p *parser) here() ast.Range {
	t := p.tok()
	return ast.Range{Start: t.Pos, End: t.End}
}

// initClause reads an expression without commas or a list in braces.
func (p *parser) initClause() ast.Expr {
	if p.at("{") {
		return p.initList()
	}
	return p.assign()
}

// conditional reads c ? a : b and what binds closer.
func (p *parser) conditional() ast.Expr {
	c := p.binaryExpr(0)
	if !p.at("?") {
		return c
	}
	defer p.leave()
	if !p.enter() {
		return c
	}
	open := p.advance()
	angle := p.angle
	p.angle = false
	a := p.expr()
	p.angle = angle
	if !p.accept(":") {
		t := p.tok()
		p.fail(source.Errorf(t.Span(), "expected ':' of a conditional expression, found %s", t.Describe()).Note(open.Span(), "to match this '?'"))
		return c
	}
	b := p.assign()
	return &ast.CondExpr{Range: between(c, b), Cond: c, Then: a, Else: b}
}

// precedence of the binary operators, the loosest first.
var precedence = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, ".*": 11, "->*": 11,
}

// binaryExpr reads operators that bind closer than level.
func (p *parser) binaryExpr(level int) ast.Expr {
	x := p.unary()
	for n := 0; ; n++ {
		op := p.tok()
		if op.Kind != lex.Punct {
			return x
		}
		prec := precedence[op.Text]
		if prec <= level || p.angle && (op.Text == ">" || op.Text == ">>") {
			return x
		}
		if p.peek(1).Is("...") || !p.chain(n) {
			return x // a fold's operator is not ours
		}
		p.advance()
		y := p.binaryExpr(prec)
		x = binary(op, x, y)
	}
}

// unary reads prefix operators and casts.
func (p *parser) unary() ast.Expr {
	defer p.leave()
	if !p.enter() {
		return &ast.BadExpr{Range: p.here()}
	}
	t := p.tok()
	switch t.Text {
	case "+", "-", "!", "~", "*", "&", "++", "--", "__extension__":
		if t.Kind == lex.Punct || t.Kind == lex.Ident {
			p.advance()
			x := p.unary()
			return &ast.UnaryExpr{Range: p.from(t.Pos), Op: t.Text, X: x}
		}
	case "(":
		if x := p.cast(); x != nil {
			return x
		}
	case "sizeof", "alignof", "__alignof__", "__alignof":
		if t.Kind == lex.Ident {
			return p.sizeof()
		}
	case "new", "delete", "throw", "try", "asm", "__asm", "goto":
		if t.Kind == lex.Ident {
			p.fail(source.Errorf(t.Span(), "'%s' is not in the language", t.Text))
			return &ast.BadExpr{Range: p.here()}
		}
	}
	return p.postfix(p.primary())
}

// cast reads (type)x, or nothing where the parenthesis is not around a type.
func (p *parser) cast() ast.Expr {
	open := p.tok()
	if !p.mayCast() {
		return nil
	}
	var typ ast.Type
	bare := false
	ok := p.try(asCast, func() bool {
		p.advance()
		angle := p.angle
		p.angle = false
		known := p.startsType()
		typ = p.typeID()
		p.angle = angle
		_, isName := typ.(*ast.NamedType)
		bare = isName && !known
		return p.accept(")") && (!bare || p.startsOperand())
	})
	if !ok {
		return nil
	}
	c := &ast.CastExpr{Type: typ}
	if p.at("{") {
		c.X = p.initList()
	} else {
		c.X = p.unary()
	}
	c.Range = p.from(open.Pos)
	return c
}

// mayCast reports whether what stands in the parenthesis may be a type.
func (p *parser) mayCast() bool {
	t := p.peek(1)
	if t.Kind != lex.Ident && !t.Is("::") {
		return false
	}
	if !isName(t) && !t.Is("::") {
		return true // a keyword: the trial tells
	}
	n := p.scanName(1)
	switch {
	case n.next == 0 || n.e.kind.isValue() || n.e.kind == namespaceName:
		return false
	case n.e.kind.isType():
		return true
	}
	next := p.peek(n.next)
	return next.Is(")") || p.looksDeclared(n.next, true)
}

// startsOperand reports whether the current token can only start an operand:
// behind (x) it makes x a type.
func (p *parser) startsOperand() bool {
	switch t := p.tok(); t.Kind {
	case lex.Number, lex.Char, lex.String:
		return true
	case lex.Ident:
		return isName(t) || t.Text == "this" || t.Text == "true" || t.Text == "false" || t.Text == "nullptr" || strings.HasSuffix(t.Text, "_cast")
	default:
		return t.Is("!") || t.Is("~") || t.Is("{")
	}
}

// sizeof reads sizeof and alignof.
func (p *parser) sizeof() ast.Expr {
	t := p.advance()
	if t.Text == "sizeof" && p.accept("...") {
		s := &ast.SizeofPackExpr{}
		open := p.tok()
		if p.expect("(", "behind sizeof...") {
			n := p.tok()
			if !isName(n) {
				p.expected("the name of a pack")
			}
			p.advance()
			s.Name = ast.Ident{Range: ast.Range{Start: n.Pos, End: n.End}, Name: n.Text}
			p.closeWith(")", open)
		}
		s.Range = p.from(t.Pos)
		return s
	}
	s := &ast.SizeofExpr{Align: t.Text != "sizeof"}
	if p.at("(") {
		var typ ast.Type
		ok := p.try(asSizeofType, func() bool {
			p.advance()
			if !p.startsType() {
				return false
			}
			angle := p.angle
			p.angle = false
			typ = p.typeID()
			p.angle = angle
			return p.accept(")") && !p.at("{")
		})
		if ok {
			s.Type = typ
			s.Range = p.from(t.Pos)
			return s
		}
	}
	s.X = p.unary()
	s.Range = p.from(t.Pos)
	return s
}

// args reads (a, b, ...).
func (p *parser) args() []ast.Expr {
	open := p.advance()
	angle := p.angle
	p.angle = false
	defer func() { p.angle = angle }()
	var args []ast.Expr
	for !p.at(")") && !p.failed && !p.stopped {
		args = append(args, p.packed(p.initClause()))
		if !p.accept(",") {
			break
		}
		if p.at(")") {
			p.expected("an argument")
		}
	}
	p.closeWith(")", open)
	return args
}

// packed reads the ... of a pack expansion.
func (p *parser) packed(x ast.Expr) ast.Expr {
	if !p.accept("...") {
		return x
	}
	return &ast.PackExpr{Range: p.from(x.Span().Start), X: x}
}

// postfix reads calls, indices, members and ++.
func (p *parser) postfix(x ast.Expr) ast.Expr {
	for n := 0; p.chain(n); n++ {
		t := p.tok()
		if t.Kind != lex.Punct {
			return x
		}
		start := x.Span().Start
		switch t.Text {
		case "(":
			args := p.args()
			x = &ast.CallExpr{Range: p.from(start), Fn: x, Args: args}
		case "[":
			open := p.advance()
			angle := p.angle
			p.angle = false
			i := p.expr()
			p.angle = angle
			p.closeWith("]", open)
			x = &ast.IndexExpr{Range: p.from(start), X: x, Index: i}
		case ".", "->":
			p.advance()
			name := p.memberName()
			x = &ast.MemberExpr{Range: p.from(start), X: x, Arrow: t.Text == "->", Name: name}
		case "++", "--":
			p.advance()
			x = &ast.PostfixExpr{Range: p.from(start), Op: t.Text, X: x}
		default:
			return x
		}
	}
	return x
}

// memberName reads the name behind a dot or arrow.
func (p *parser) memberName() *ast.Name {
	start := p.tok().Pos
	part := ast.NamePart{}
	part.Start = start
	part.Template = p.accept("template")
	t := p.tok()
	switch {
	case t.Is("operator"):
		p.operatorName(&part)
	case t.Is("~"):
		p.advance()
		part.Kind, part.Ident = ast.NameDestructor, p.advance().Text
	case isName(t):
		p.advance()
		part.Ident = t.Text
	default:
		p.expected("the name of a member")
	}
	if p.at("<") && (part.Template || p.memberTemplates[part.Ident] || p.takesTypes()) {
		part.HasArgs = true
		part.Args = p.templateArgs()
	}
	part.End = p.prev
	return &ast.Name{Range: p.from(start), Parts: []ast.NamePart{part}}
}

// takesTypes reports whether the < behind the name of an unknown member opens
// template arguments: one of them is a type, and a call follows.
func (p *parser) takesTypes() bool {
	at := p.i
	if yes, known := p.opens[at]; known {
		return yes
	}
	yes := p.look(func() bool {
		types := false
		for _, a := range p.templateArgs() {
			types = types || a.Type != nil
		}
		return types && p.at("(")
	})
	p.opens[at] = yes
	return yes
}

// paren reads (x), a fold or a statement expression.
func (p *parser) paren() ast.Expr {
	open := p.advance()
	angle := p.angle
	p.angle = false
	defer func() { p.angle = angle }()
	if p.at("{") {
		s := &ast.StmtExpr{Body: p.compound()}
		p.closeWith(")", open)
		s.Range = p.from(open.Pos)
		return s
	}
	if p.at("...") {
		p.advance()
		f := &ast.FoldExpr{Left: true, Op: p.foldOp()}
		f.X = p.unary()
		p.closeWith(")", open)
		f.Range = p.from(open.Pos)
		return f
	}
	x := p.expr()
	if op := p.tok(); folds(op) && p.peek(1).Is("...") {
		f := &ast.FoldExpr{Op: p.foldOp(), X: x}
		p.advance()
		if p.at(op.Text) {
			p.advance()
			f.Init = p.unary()
		}
		p.closeWith(")", open)
		f.Range = p.from(open.Pos)
		return f
	}
	p.closeWith(")", open)
	return &ast.ParenExpr{Range: p.from(open.Pos), X: x}
}

// folds reports whether a fold may have the operator.
func folds(op lex.Token) bool {
	return op.Kind == lex.Punct && (precedence[op.Text] > 0 || op.Text == "," || assignOps[op.Text])
}

// foldOp reads the operator of a fold.
func (p *parser) foldOp() string {
	t := p.tok()
	if !folds(t) {
		p.expected("a binary operator of a fold")
		return ""
	}
	p.advance()
	return t.Text
}

// initList reads {a, b, ...}.
func (p *parser) initList() *ast.InitList {
	l := &ast.InitList{}
	open := p.advance()
	defer p.leave()
	if !p.enter() {
		l.Range = p.from(open.Pos)
		return l
	}
	angle := p.angle
	p.angle = false
	for !p.at("}") && !p.failed && !p.stopped {
		l.Elems = append(l.Elems, p.initElem())
		if !p.accept(",") {
			break
		}
	}
	p.closeWith("}", open)
	p.angle = angle
	l.Range = p.from(open.Pos)
	return l
}

// initElem reads an element, perhaps with designators.
func (p *parser) initElem() ast.Expr {
	if !p.at(".") && !(p.at("[") && p.designates()) {
		return p.packed(p.initClause())
	}
	d := &ast.DesignatedInit{}
	start := p.tok().Pos
	for len(d.Designators) < maxParts {
		g := ast.Designator{}
		g.Start = p.tok().Pos
		if p.at(".") {
			p.advance()
			t := p.tok()
			if !isName(t) {
				p.expected("the name of a field")
			}
			p.advance()
			g.Field = t.Text
		} else if p.at("[") {
			open := p.advance()
			g.Lo = p.conditional()
			if p.accept("...") {
				g.Hi = p.conditional()
			}
			p.closeWith("]", open)
		} else {
			break
		}
		g.End = p.prev
		d.Designators = append(d.Designators, g)
	}
	p.expect("=", "behind a designator")
	d.Value = p.initClause()
	d.Range = p.from(start)
	return d
}

// designates tells [index] = x from a lambda.
func (p *parser) designates() bool {
	depth := 0
	for i := 0; i < maxAngles; i++ {
		switch t := p.peek(i); {
		case t.Is("["):
			depth++
		case t.Is("]"):
			if depth--; depth == 0 {
				next := p.peek(i + 1)
				return next.Is("=") || next.Is("[") || next.Is(".")
			}
		case t.Kind == lex.EOF:
			return false
		}
	}
	return false
}
