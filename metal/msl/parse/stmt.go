package parse

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// compound reads { ... } in a scope of its own.
func (p *parser) compound() *ast.CompoundStmt {
	restore := p.push(newScope(p.scope))
	defer restore()
	c := &ast.CompoundStmt{}
	open := p.advance()
	angle := p.angle
	p.angle = false
	for !p.at("}") && p.tok().Kind != lex.EOF {
		c.Stmts = append(c.Stmts, p.statement())
		if p.failed && p.trial > 0 {
			break
		}
	}
	p.angle = angle
	p.closeWith("}", open)
	c.Range = p.from(open.Pos)
	return c
}

// statement reads one statement. After an error it passes the broken one, except
// where a reading is tried: then the error goes up.
func (p *parser) statement() ast.Stmt {
	start, first := p.i, p.tok()
	depth := p.depth
	if p.failed || p.stopped {
		// The error is that of the statement around.
		return &ast.BadStmt{Range: ast.Range{Start: first.Pos, End: first.End}}
	}
	defer p.leave()
	var s ast.Stmt
	if p.enter() {
		s = p.oneStatement()
	}
	if !p.failed && s != nil {
		return s
	}
	bad := &ast.BadStmt{Range: ast.Range{Start: first.Pos, End: first.End}}
	if p.trial > 0 || p.stopped {
		return bad
	}
	if p.depth > maxDepth {
		// Far too deep: only the whole declaration can be passed.
		return bad
	}
	p.depth = depth + 1
	p.recover(start, false)
	bad.Range = p.from(first.Pos)
	return bad
}

func (p *parser) oneStatement() ast.Stmt {
	t := p.tok()
	switch {
	case t.Kind == lex.Pragma:
		return p.pragmaStatement()
	case t.Is("{"):
		return p.compound()
	case t.Is(";"):
		p.advance()
		return &ast.EmptyStmt{Range: p.from(t.Pos)}
	case t.Kind == lex.Ident:
		switch t.Text {
		case "if":
			return p.ifStatement()
		case "for":
			return p.forStatement(nil)
		case "while":
			return p.whileStatement(nil)
		case "do":
			return p.doStatement(nil)
		case "switch":
			return p.switchStatement()
		case "case", "default":
			return p.caseLabel()
		case "break":
			p.advance()
			p.expectEnd("break")
			return &ast.BreakStmt{Range: p.from(t.Pos)}
		case "continue":
			p.advance()
			p.expectEnd("continue")
			return &ast.ContinueStmt{Range: p.from(t.Pos)}
		case "return":
			return p.returnStatement()
		case "goto":
			p.fail(source.Errorf(t.Span(), "goto is not in the language"))
			return nil
		case "else":
			p.fail(source.Errorf(t.Span(), "else without if"))
			return nil
		}
		if isName(t) && p.peek(1).Is(":") && !p.peek(2).Is(":") {
			p.fail(source.Errorf(t.Span(), "label '%s': there is no goto in the language", t.Text))
			return nil
		}
	}
	if p.startsDeclStatement() {
		d := &ast.DeclStmt{Decls: p.declaration(inBlock)}
		d.Range = p.from(t.Pos)
		return d
	}
	if t.Is("[") && p.peek(1).Is("[") {
		p.attributes() // of a statement, such as [[fallthrough]]
		if !p.failed {
			return p.statement()
		}
		return nil
	}
	x := p.expr()
	p.expectEnd("an expression")
	return &ast.ExprStmt{Range: p.from(t.Pos), X: x}
}

// startsDeclStatement decides between a declaration and an expression.
func (p *parser) startsDeclStatement() bool {
	t := p.tok()
	if t.Kind == lex.Ident && !isName(t) {
		switch {
		case basicWords[t.Text], t.Text == "decltype", t.Text == "typename":
			if next := p.peek(1); t.Text != "typename" && t.Text != "decltype" && !next.Is("(") && !next.Is("{") {
				return true
			}
			return p.lookOnce(asDecl, p.declares)
		case specifierWords[t.Text], spaceWords[t.Text], t.Text == "using", t.Text == "static_assert", t.Text == "_Static_assert",
			t.Text == "template", t.Text == "namespace", t.Text == "__attribute__":
			return true
		case t.Text == "__extension__":
			next := p.peek(1)
			return specifierWords[next.Text] || spaceWords[next.Text] || basicWords[next.Text]
		}
		return false
	}
	if t.Is("[") && p.peek(1).Is("[") {
		return p.lookOnce(asDecl, p.declares)
	}
	if !isName(t) && !t.Is("::") {
		return false
	}
	if t.Text == "coherent" && p.isCoherent() {
		return true
	}
	n := p.scanName(0)
	if n.next == 0 || n.e.kind.isValue() {
		return false
	}
	next := p.peek(n.next)
	if !n.e.kind.isType() {
		return p.looksDeclared(n.next, false)
	}
	switch {
	case next.Is("("):
		return p.lookOnce(asDecl, p.declares)
	case next.Is("{"), next.Is("::") && !p.peek(n.next+1).Is("*"):
		return false
	}
	return true
}

// lookOnce looks whether a reading succeeds, and remembers if not.
func (p *parser) lookOnce(kind attemptKind, f func() bool) bool {
	if p.gaveUp[attempt{p.i, kind}] {
		return false
	}
	at := attempt{p.i, kind}
	ok := p.look(f)
	if !ok {
		p.gaveUp[at] = true
	}
	return ok
}

// declares reads the start of a declaration: specifiers, a declarator and what
// must follow one.
func (p *parser) declares() bool {
	s := p.specifierList(inDeclaration)
	if s.base == nil {
		return false
	}
	p.declarator(blockName)
	t := p.tok()
	return t.Is(";") || t.Is("=") || t.Is(",") || t.Is("{") || t.Is(":") || t.Is("(")
}

// body reads the statement that a control statement governs, in its own scope.
func (p *parser) body() ast.Stmt {
	restore := p.push(newScope(p.scope))
	defer restore()
	return p.statement()
}

// condition reads (x) or (T x = y), perhaps with an init statement in front.
func (p *parser) condition(what string, allowInit bool) (init ast.Stmt, x ast.Expr, v *ast.VarDecl) {
	open := p.tok()
	if !p.expect("(", "behind "+what) {
		return nil, &ast.BadExpr{Range: p.here()}, nil
	}
	start := p.tok().Pos
	for {
		if p.startsDeclStatement() {
			decls := p.conditionDecl()
			if allowInit && p.at(";") {
				p.advance()
				init = &ast.DeclStmt{Range: p.from(start), Decls: decls}
				allowInit = false
				continue
			}
			if d, ok := decls[0].(*ast.VarDecl); ok && len(decls) == 1 && d.Init != nil {
				v = d
			} else if !p.failed {
				p.fail(source.Errorf(decls[0].Span(), "the condition of %s declares a variable without a value", what))
			}
		} else {
			x = p.expr()
			if allowInit && p.at(";") {
				p.advance()
				init = &ast.ExprStmt{Range: p.from(start), X: x}
				x, allowInit = nil, false
				continue
			}
		}
		break
	}
	p.closeWith(")", open)
	if x == nil && v == nil {
		x = &ast.BadExpr{Range: p.here()}
	}
	return init, x, v
}

// conditionDecl reads declarators without their semicolon.
func (p *parser) conditionDecl() []ast.Decl {
	s := p.specifierList(inDeclaration)
	return p.declarators(s, inBlock)
}

func (p *parser) ifStatement() ast.Stmt {
	start := p.tok().Pos
	var head, last *ast.IfStmt
	// A chain of else if is read in a loop.
	for n := 0; ; n++ {
		at := p.advance().Pos
		restore := p.push(newScope(p.scope))
		s := &ast.IfStmt{}
		s.Constexpr = p.accept("constexpr")
		s.Init, s.Cond, s.CondVar = p.condition("if", true)
		s.Then = p.body()
		s.Range = p.from(at)
		if head == nil {
			head = s
		} else {
			last.Else = s
		}
		last = s
		defer restore()
		if p.failed || !p.accept("else") {
			break
		}
		if !p.at("if") {
			s.Else = p.body()
			break
		}
		if !p.chain(n) {
			break
		}
	}
	for s := head; s != nil; s, _ = s.Else.(*ast.IfStmt) {
		s.End = p.prev
	}
	head.Start = start
	return head
}

func (p *parser) whileStatement(u *ast.Unroll) ast.Stmt {
	s := &ast.WhileStmt{Unroll: u}
	start := p.advance().Pos
	restore := p.push(newScope(p.scope))
	defer restore()
	_, s.Cond, s.CondVar = p.condition("while", false)
	s.Body = p.body()
	s.Range = p.from(start)
	return s
}

func (p *parser) doStatement(u *ast.Unroll) ast.Stmt {
	s := &ast.DoStmt{Unroll: u}
	start := p.advance().Pos
	s.Body = p.body()
	if !p.failed && p.expect("while", "behind the body of do") {
		open := p.tok()
		if p.expect("(", "behind while") {
			s.Cond = p.expr()
			p.closeWith(")", open)
			p.expectEnd("do ... while")
		}
	}
	if s.Cond == nil {
		s.Cond = &ast.BadExpr{Range: p.here()}
	}
	s.Range = p.from(start)
	return s
}

func (p *parser) forStatement(u *ast.Unroll) ast.Stmt {
	start := p.advance().Pos
	restore := p.push(newScope(p.scope))
	defer restore()
	open := p.tok()
	s := &ast.ForStmt{Unroll: u}
	if !p.expect("(", "behind for") {
		return s
	}
	initStart := p.tok().Pos
	switch {
	case p.accept(";"):
	case p.startsDeclStatement():
		decls := p.conditionDecl()
		if v, ok := decls[0].(*ast.VarDecl); ok && p.at(":") && len(decls) == 1 {
			return p.rangeFor(start, open, u, v)
		}
		p.expectEnd("the declaration of for")
		s.Init = &ast.DeclStmt{Range: p.from(initStart), Decls: decls}
	default:
		x := p.expr()
		p.expectEnd("the first expression of for")
		s.Init = &ast.ExprStmt{Range: p.from(initStart), X: x}
	}
	if !p.at(";") {
		if p.startsDeclStatement() {
			if v, ok := p.conditionDecl()[0].(*ast.VarDecl); ok {
				s.CondVar = v
			}
		} else {
			s.Cond = p.expr()
		}
	}
	p.expectEnd("the condition of for")
	if !p.at(")") {
		s.Post = p.expr()
	}
	p.closeWith(")", open)
	s.Body = p.body()
	s.Range = p.from(start)
	return s
}

func (p *parser) rangeFor(start source.Pos, open lex.Token, u *ast.Unroll, v *ast.VarDecl) ast.Stmt {
	s := &ast.RangeForStmt{Unroll: u, Var: v}
	p.advance()
	s.X = p.initClause()
	p.closeWith(")", open)
	s.Body = p.body()
	s.Range = p.from(start)
	return s
}

func (p *parser) switchStatement() ast.Stmt {
	s := &ast.SwitchStmt{}
	start := p.advance().Pos
	restore := p.push(newScope(p.scope))
	defer restore()
	s.Init, s.Cond, s.CondVar = p.condition("switch", true)
	if p.at("{") {
		s.Body = p.compound()
	} else {
		one := p.body()
		s.Body = &ast.CompoundStmt{Range: ast.Range(one.Span()), Stmts: []ast.Stmt{one}}
	}
	s.Range = p.from(start)
	return s
}

func (p *parser) caseLabel() ast.Stmt {
	t := p.advance()
	c := &ast.CaseStmt{}
	if t.Text == "case" {
		c.Value = p.conditional()
		if p.accept("...") {
			c.Hi = p.conditional()
		}
	}
	p.expect(":", "behind "+t.Text)
	c.Range = p.from(t.Pos)
	return c
}

func (p *parser) returnStatement() ast.Stmt {
	t := p.advance()
	r := &ast.ReturnStmt{}
	if p.at("{") {
		r.X = p.initList()
	} else if !p.at(";") {
		r.X = p.expr()
	}
	p.expectEnd("return")
	r.Range = p.from(t.Pos)
	return r
}

// pragmaStatement reads a pragma and, if it is about a loop, the loop.
func (p *parser) pragmaStatement() ast.Stmt {
	var u *ast.Unroll
	start := p.tok()
	for p.tok().Kind == lex.Pragma {
		one, words, r := p.pragma()
		if one == nil {
			if u == nil && words != nil {
				return &ast.PragmaStmt{Range: r, Words: words}
			}
			continue
		}
		u = one
	}
	if u == nil {
		if p.at("}") {
			return &ast.EmptyStmt{Range: p.from(start.Pos)}
		}
		return p.statement()
	}
	switch t := p.tok(); t.Text {
	case "for":
		return p.forStatement(u)
	case "while":
		return p.whileStatement(u)
	case "do":
		return p.doStatement(u)
	default:
		p.warn(start.Span(), "the unroll pragma is ignored: expected a loop behind it, found %s", t.Describe())
		if t.Is("}") || t.Kind == lex.EOF {
			return &ast.EmptyStmt{Range: p.from(start.Pos)}
		}
		return p.statement()
	}
}

// pragma reads one pragma: an unroll request, or words that are kept. Both are
// nil for other requests about loops, such as vectorize.
func (p *parser) pragma() (*ast.Unroll, []string, ast.Range) {
	start := p.advance()
	t := p.tok()
	var u *ast.Unroll
	switch {
	case t.Is("unroll"):
		p.advance()
		u = &ast.Unroll{Kind: ast.UnrollFull}
		p.unrollCount(u)
	case t.Is("nounroll"):
		p.advance()
		u = &ast.Unroll{Kind: ast.UnrollDisable}
	case t.Is("clang"):
		p.advance()
		p.advance() // loop
		for p.tok().Kind == lex.Ident {
			if one := p.loopOption(); one != nil {
				u = one
			}
		}
	default:
		var words []string
		for p.tok().Kind != lex.PragmaEnd && p.tok().Kind != lex.EOF {
			words = append(words, p.advance().Text)
		}
		r := p.from(start.Pos)
		p.endPragma()
		return nil, words, r
	}
	r := p.from(start.Pos)
	p.endPragma()
	if u != nil {
		u.Range = r
	}
	return u, nil, r
}

// unrollCount reads the count of #pragma unroll: N or (N), or none.
func (p *parser) unrollCount(u *ast.Unroll) {
	if p.tok().Kind == lex.PragmaEnd {
		return
	}
	u.Kind = ast.UnrollCount
	u.Count = p.assign()
	if x, ok := u.Count.(*ast.ParenExpr); ok {
		u.Count = x.X
	}
}

// loopOption reads an option of #pragma clang loop.
func (p *parser) loopOption() *ast.Unroll {
	name := p.advance()
	open := p.tok()
	if !p.expect("(", "behind "+name.Text) {
		return nil
	}
	var u *ast.Unroll
	switch {
	case name.Text == "unroll_count":
		u = &ast.Unroll{Kind: ast.UnrollCount, Count: p.assign()}
	case name.Text == "unroll" && p.at("full"):
		u = &ast.Unroll{Kind: ast.UnrollFull}
		p.advance()
	case name.Text == "unroll" && p.at("enable"):
		u = &ast.Unroll{Kind: ast.UnrollEnable}
		p.advance()
	case name.Text == "unroll" && p.at("disable"):
		u = &ast.Unroll{Kind: ast.UnrollDisable}
		p.advance()
	case name.Text == "unroll":
		p.expected("full, enable or disable")
	default:
		p.assign()
	}
	p.closeWith(")", open)
	return u
}

// endPragma passes the end of a pragma. An error in a pragma is that pragma's
// alone.
func (p *parser) endPragma() {
	if !p.failed && p.tok().Kind != lex.PragmaEnd {
		p.expected("the end of the pragma")
	}
	if p.trial == 0 {
		p.failed = false
	}
	for p.tok().Kind != lex.PragmaEnd && p.tok().Kind != lex.EOF {
		p.advance()
	}
	if p.tok().Kind == lex.PragmaEnd {
		p.advance()
	}
}
