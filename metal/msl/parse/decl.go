package parse

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// place is where a declaration stands.
type place uint8

const (
	inNamespace place = iota
	inRecord
	inBlock
)

// declarations reads declarations up to the end of the file or, in a namespace,
// to the closing brace of open.
func (p *parser) declarations(open *lex.Token) []ast.Decl {
	var decls []ast.Decl
	for p.tok().Kind != lex.EOF {
		if p.at("}") {
			if open != nil {
				break
			}
			t := p.advance()
			p.report(source.Errorf(t.Span(), "'}' without '{'"))
			continue
		}
		start, first := p.i, p.tok()
		depth := p.depth
		decls = append(decls, p.declaration(inNamespace)...)
		if p.failed {
			if p.trial > 0 {
				break
			}
			p.depth = depth
			p.recover(start, true)
			decls = append(decls, &ast.BadDecl{Range: p.from(first.Pos)})
		}
	}
	return decls
}

// declaration reads one declaration: several nodes where it has several
// declarators.
func (p *parser) declaration(where place) []ast.Decl {
	defer p.leave()
	t := p.tok()
	if !p.enter() {
		return []ast.Decl{&ast.BadDecl{Range: p.here()}}
	}
	one := func(d ast.Decl) []ast.Decl { return []ast.Decl{d} }
	switch {
	case t.Kind == lex.Pragma:
		return p.pragmaDecl()
	case t.Is(";"):
		p.advance()
		return one(&ast.EmptyDecl{Range: p.from(t.Pos)})
	case t.Kind == lex.Ident:
		switch t.Text {
		case "namespace":
			return one(p.namespace(false))
		case "inline":
			if p.peek(1).Is("namespace") {
				return one(p.namespace(true))
			}
		case "using":
			return one(p.using())
		case "static_assert", "_Static_assert":
			return one(p.staticAssert())
		case "template":
			return one(p.templateDecl(where))
		case "extern":
			if p.peek(1).Is("template") {
				return one(p.templateDecl(where))
			}
			if p.peek(1).Kind == lex.String {
				return p.linkage()
			}
		case "asm", "__asm", "__asm__", "goto", "try", "throw", "export":
			p.fail(source.Errorf(t.Span(), "'%s' is not in the language", t.Text))
			return one(&ast.BadDecl{Range: p.here()})
		case "if", "for", "while", "do", "switch", "return", "else", "case", "default", "break", "continue":
			if where != inBlock {
				p.fail(source.Errorf(t.Span(), "expected a declaration, found the statement '%s'", t.Text))
				return one(&ast.BadDecl{Range: p.here()})
			}
		}
	}
	return p.simple(where)
}

// pragmaDecl reads a pragma between declarations.
func (p *parser) pragmaDecl() []ast.Decl {
	t := p.tok()
	u, words, r := p.pragma()
	if u != nil {
		p.warn(t.Span(), "the unroll pragma is ignored: expected a loop behind it")
	}
	if words == nil {
		return nil
	}
	return []ast.Decl{&ast.PragmaDecl{Range: r, Words: words}}
}

// namespace reads namespace a::b { ... } or namespace a = b;
func (p *parser) namespace(inline bool) ast.Decl {
	start := p.tok().Pos
	if inline {
		p.advance()
	}
	p.advance()
	var names []ast.Ident
	for isName(p.tok()) {
		t := p.advance()
		names = append(names, ast.Ident{Range: ast.Range{Start: t.Pos, End: t.End}, Name: t.Text})
		if len(names) > maxParts {
			p.fail(source.Errorf(t.Span(), "namespace nested more than %d deep", maxParts))
		}
		if !p.accept("::") {
			break
		}
	}
	for p.at("[") && !p.failed && !p.stopped {
		p.attributes()
	}
	if p.at("=") && len(names) == 1 {
		p.advance()
		target, e := p.name(inType)
		p.expectEnd("the alias of a namespace")
		p.declare(names[0].Name, e)
		return &ast.NamespaceAlias{Range: p.from(start), Name: names[0], Target: target}
	}
	if len(names) == 0 {
		names = append(names, ast.Ident{})
	}
	restore := p.push(p.scope)
	defer restore()
	for _, n := range names {
		e, ok := p.scope.find(n.Name)
		if !ok || e.kind != namespaceName {
			e = entry{kind: namespaceName, in: newScope(p.scope)}
			if n.Name == "metal" && p.scope == p.global {
				// A program may add to the library's namespace.
				e.in.using = append(e.in.using, librarySpace)
			}
			p.scope.declare(n.Name, e)
		}
		if inline || n.Name == "" {
			p.scope.using = append(p.scope.using, e.in)
		}
		p.scope = e.in
	}
	open := p.tok()
	if !p.expect("{", "of a namespace") {
		return &ast.BadDecl{Range: p.from(start)}
	}
	decls := p.declarations(&open)
	p.closeWith("}", open)
	var d *ast.NamespaceDecl
	for i := len(names) - 1; i >= 0; i-- {
		if d != nil {
			decls = []ast.Decl{d}
		}
		d = &ast.NamespaceDecl{Range: p.from(start), Name: names[i], Inline: inline, Decls: decls}
	}
	return d
}

// using reads using namespace a; using a::b; and using X = T;
func (p *parser) using() ast.Decl {
	start := p.advance().Pos
	if p.accept("namespace") {
		n, e := p.name(inType)
		if e.kind == namespaceName && e.in != nil && e.in != p.scope {
			p.scope.using = append(p.scope.using, e.in)
		}
		p.expectEnd("using namespace")
		return &ast.UsingDirective{Range: p.from(start), Name: n}
	}
	if isName(p.tok()) && !p.peek(1).Is("::") {
		t := p.advance()
		d := &ast.TypedefDecl{Using: true, Name: ast.Ident{Range: ast.Range{Start: t.Pos, End: t.End}, Name: t.Text}}
		for p.at("[") && !p.failed && !p.stopped {
			attrs, _ := p.attributes()
			d.Attrs = append(d.Attrs, attrs...)
		}
		head := p.template
		p.template = noTemplate
		p.expect("=", "behind the name of an alias")
		d.Type = p.typeID()
		p.expectEnd("the type of an alias")
		p.declareType(t.Text, head, d.Type)
		d.Range = p.from(start)
		return d
	}
	p.accept("typename")
	n, e := p.name(inDecl)
	if n.Last().Kind == ast.NameIdent {
		p.declare(n.Last().Ident, e)
	}
	p.expectEnd("using")
	return &ast.UsingDecl{Range: p.from(start), Name: n}
}

// declareType enters the name of a type; what its members are is known where the
// type is a record.
func (p *parser) declareType(name string, head templateHead, t ast.Type) {
	e := entry{kind: typeName}
	if head == primary {
		e.kind = typeTemplate
	}
	if q, ok := t.(*ast.QualifiedType); ok {
		t = q.Elem
	}
	switch t := t.(type) {
	case *ast.NamedType:
		if len(t.Name.Parts) == 1 {
			e.in = p.lookup(t.Name.Parts[0].Ident).in
		}
	case *ast.RecordType:
		if t.Decl.Name != nil {
			e.in = p.lookup(t.Decl.Name.Last().Ident).in
		}
	}
	p.declare(name, e)
}

func (p *parser) staticAssert() ast.Decl {
	start := p.advance().Pos
	d := &ast.StaticAssertDecl{}
	open := p.tok()
	if p.expect("(", "behind static_assert") {
		d.Cond = p.assign()
		if p.accept(",") {
			if p.tok().Kind == lex.String {
				d.Msg = p.stringLit().Value
			} else {
				p.expected("a string literal")
			}
		}
		p.closeWith(")", open)
	}
	p.expectEnd("static_assert")
	d.Range = p.from(start)
	if d.Cond == nil {
		return &ast.BadDecl{Range: d.Range}
	}
	return d
}

// linkage reads extern "C" { ... }, which means nothing here.
func (p *parser) linkage() []ast.Decl {
	p.advance()
	p.advance()
	if !p.at("{") {
		return p.declaration(inNamespace)
	}
	open := p.advance()
	decls := p.declarations(&open)
	p.closeWith("}", open)
	return decls
}

// simple reads specifiers and declarators.
func (p *parser) simple(where place) []ast.Decl {
	first := p.tok()
	head := p.template // the record's own template head is used by record()
	s := p.specifierList(inDeclaration)
	p.template = noTemplate
	if p.failed {
		return []ast.Decl{&ast.BadDecl{Range: p.from(first.Pos)}}
	}
	if p.at(";") && s.base != nil && !s.typedef {
		switch t := s.base.(type) {
		case *ast.RecordType:
			p.advance()
			if t.Decl.Name == nil && where == inRecord {
				// An unnamed record's members are those of the record around.
				p.lift(t.Decl)
			}
			t.Decl.Attrs = append(s.attrs, t.Decl.Attrs...)
			t.Decl.Range = p.from(first.Pos)
			return []ast.Decl{t.Decl}
		case *ast.EnumType:
			p.advance()
			t.Decl.Range = p.from(first.Pos)
			return []ast.Decl{t.Decl}
		}
	}
	if s.base == nil && !p.startsMember() {
		p.noType(where)
		return []ast.Decl{&ast.BadDecl{Range: p.from(first.Pos)}}
	}
	p.template = head
	decls := p.declarators(s, where)
	p.template = noTemplate
	if p.failed {
		return decls
	}
	if f, ok := decls[len(decls)-1].(*ast.FuncDecl); ok && f.Body != nil {
		return decls
	}
	what := "a declaration"
	switch decls[len(decls)-1].(type) {
	case *ast.VarDecl:
		what = "the declaration of '" + nameText(decls[len(decls)-1].(*ast.VarDecl).Name) + "'"
	case *ast.FuncDecl:
		what = "the declaration of '" + nameText(decls[len(decls)-1].(*ast.FuncDecl).Name) + "'"
	}
	p.expectEnd(what)
	for _, d := range decls {
		extend(d, p.prev)
	}
	return decls
}

// extend moves a declaration's end behind the semicolon.
func extend(d ast.Decl, end source.Pos) {
	switch d := d.(type) {
	case *ast.VarDecl:
		d.End = end
	case *ast.FuncDecl:
		d.End = end
	case *ast.TypedefDecl:
		d.End = end
	}
}

func nameText(n *ast.Name) string {
	if n == nil {
		return ""
	}
	return n.Last().Ident
}

// startsMember reports whether a declarator without a type starts here: a
// constructor, destructor or conversion.
func (p *parser) startsMember() bool {
	t := p.tok()
	return t.Is("~") || t.Is("operator") || isName(t) && p.startsConstructor()
}

// noType reports a declaration that has no type.
func (p *parser) noType(where place) {
	t := p.tok()
	if isName(t) && p.lookup(t.Text).kind.isValue() {
		p.fail(source.Errorf(t.Span(), "expected a declaration, found '%s', which is not a type", t.Text))
		return
	}
	if where == inRecord {
		p.expected("a member")
		return
	}
	p.expected("a declaration")
}

// lift enters the names of an unnamed record's members into the current scope.
func (p *parser) lift(d *ast.RecordDecl) {
	for _, m := range d.Members {
		if v, ok := m.(*ast.VarDecl); ok && v.Name != nil {
			p.declare(v.Name.Last().Ident, entry{kind: valueName})
		}
	}
}

// declarators reads what stands behind the specifiers, without the semicolon. It
// gives at least one declaration.
func (p *parser) declarators(s specifiers, where place) []ast.Decl {
	head := p.template
	p.template = noTemplate
	var decls []ast.Decl
	for {
		d := p.oneDeclarator(s, where, head)
		decls = append(decls, d)
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			return decls
		}
		if p.failed || !p.accept(",") {
			return decls
		}
	}
}

func (p *parser) oneDeclarator(s specifiers, where place, head templateHead) ast.Decl {
	start := p.tok()
	use := named
	switch {
	case s.typedef:
		use = typedefName
	case where == inBlock:
		use = blockName
	}
	if where == inRecord && p.at(":") {
		// An unnamed bit-field.
		v := &ast.VarDecl{Specs: s.specs, Attrs: s.attrs, Type: s.base, Member: true}
		v.Range = p.from(s.start)
		v.Name = &ast.Name{Range: v.Range, Parts: []ast.NamePart{{}}}
		p.bits(v)
		return v
	}
	if !p.checkDeclarator(s) {
		return &ast.BadDecl{Range: p.from(s.start)}
	}
	d := p.declarator(use)
	if d.name == nil {
		if !p.failed {
			p.fail(source.Errorf(ast.Range{Start: start.Pos, End: start.End}.Span(), "expected a name to declare, found %s", start.Describe()))
		}
		return &ast.BadDecl{Range: p.from(s.start)}
	}
	attrs := append(append([]*ast.Attr(nil), s.attrs...), d.attrs...)
	last := d.name.Last()
	isFunc := len(d.parts) > 0 && d.parts[0].kind == functionPart
	if s.typedef {
		t := &ast.TypedefDecl{Name: ast.Ident{Range: d.name.Range, Name: last.Ident}, Attrs: attrs}
		t.Type = p.typeOf(s, d)
		t.Range = p.from(s.start)
		p.declareType(last.Ident, head, t.Type)
		return t
	}
	if isFunc {
		return p.functionDecl(s, d, attrs, where, head)
	}
	v := &ast.VarDecl{Specs: s.specs | d.specs, Attrs: attrs, Name: d.name, Member: where == inRecord, Pack: d.pack}
	v.Type = p.typeOf(s, d)
	p.declareValue(d.name, head, where)
	switch {
	case p.at(":") && where == inRecord:
		p.bits(v)
	case p.accept("="):
		v.Init, v.InitStyle = p.initClause(), ast.CopyInit
	case p.at("{"):
		v.Init, v.InitStyle = p.initList(), ast.BraceInit
	case p.at("("):
		at := p.tok().Pos
		args := p.args()
		v.Init, v.InitStyle = &ast.ParenList{Range: p.from(at), Args: args}, ast.ParenInit
	}
	v.Range = p.from(s.start)
	return v
}

// checkDeclarator reports the two common slips that would give a confusing error
// about a missing name: no semicolon behind a record, no type before a function.
func (p *parser) checkDeclarator(s specifiers) bool {
	t := p.tok()
	if p.failed || s.base == nil || isName(t) || t.Is("*") || t.Is("&") || t.Is("::") {
		return true
	}
	switch base := s.base.(type) {
	case *ast.RecordType:
		if base.Decl.Defined && !t.Is("(") && !t.Is("[") {
			p.expectEnd("the definition of a " + base.Decl.Keyword.String())
			return false
		}
	case *ast.EnumType:
		if base.Decl.Defined && !t.Is("(") && !t.Is("[") {
			p.expectEnd("the definition of an enumeration")
			return false
		}
	case *ast.NamedType:
		next := p.peek(1)
		if t.Is("(") && base.Name.IsPlain() && !next.Is("*") && !next.Is("&") && !isName(next) && !next.Is("(") {
			p.fail(source.Errorf(base.Span(), "function '%s' is declared without a result type", nameText(base.Name)))
			return false
		}
	}
	return true
}

// typeOf builds a declarator's type; a type must have been written.
func (p *parser) typeOf(s specifiers, d *declarator) ast.Type {
	if s.base == nil {
		p.fail(source.Errorf(d.name.Span(), "'%s' is declared without a type", nameText(d.name)))
		return &ast.AutoType{Range: d.name.Range}
	}
	return p.build(s.base, d)
}

// bits reads the width of a bit-field.
func (p *parser) bits(v *ast.VarDecl) {
	p.advance()
	v.Bits = p.conditional()
	if p.at("=") || p.at("{") {
		v.InitStyle = ast.BraceInit
		if p.accept("=") {
			v.InitStyle = ast.CopyInit
		}
		v.Init = p.initClause()
	}
	v.End = p.prev
}

// declareValue enters the name of a function or variable.
func (p *parser) declareValue(n *ast.Name, head templateHead, where place) {
	if len(n.Parts) > 1 || n.Last().Kind != ast.NameIdent {
		return
	}
	e := entry{kind: valueName}
	if head == primary || head == special {
		e.kind = valueTemplate
	}
	if head == instance {
		return
	}
	p.declare(n.Last().Ident, e)
	if where == inRecord && head == primary {
		p.memberTemplates[n.Last().Ident] = true
	}
}
