package parse

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// record reads struct, class or union: a definition, or only the name.
func (p *parser) record() *ast.RecordDecl {
	head := p.template
	p.template = noTemplate
	start := p.advance()
	d := &ast.RecordDecl{Keyword: map[string]ast.RecordKeyword{"struct": ast.Struct, "class": ast.Class, "union": ast.Union}[start.Text]}
	for (p.at("[") && p.peek(1).Is("[") || p.at("alignas") || p.at("__attribute__")) && !p.failed && !p.stopped {
		attrs, _ := p.attributes()
		d.Attrs = append(d.Attrs, attrs...)
	}
	if isName(p.tok()) || p.at("::") {
		d.Name, _ = p.name(inDecl)
	}
	if p.at("final") {
		p.advance()
		d.Final = true
	}
	members := newScope(p.scope)
	if d.Name != nil {
		members.record = d.Name.Last().Ident
		p.declareRecord(d, head, members)
	}
	if !p.at("{") && !p.at(":") {
		d.Range = p.from(start.Pos)
		if d.Name == nil {
			p.expected("a name or '{' behind " + start.Text)
		}
		return d
	}
	d.Defined = true
	restore := p.push(members)
	defer restore()
	if p.at(":") {
		p.bases(d)
	}
	open := p.tok()
	if !p.expect("{", "of "+start.Text) {
		d.Range = p.from(start.Pos)
		return d
	}
	late := len(p.late)
	p.records++
	p.members(d, open)
	p.records--
	p.closeWith("}", open)
	d.Body = p.from(open.Pos)
	d.Range = p.from(start.Pos)
	if p.records == 0 && !p.failed {
		p.readLate(late)
	}
	return d
}

// declareRecord enters a record's name before its members are read, so that they
// see it. A name that is only mentioned keeps its meaning.
func (p *parser) declareRecord(d *ast.RecordDecl, head templateHead, members *scope) {
	if len(d.Name.Parts) > 1 {
		return
	}
	name := d.Name.Last()
	if name.HasArgs || head == instance {
		return // a specialisation
	}
	defined := p.at("{") || p.at(":")
	if !defined && !p.at(";") && p.lookup(name.Ident).kind.isType() {
		return
	}
	e := entry{kind: typeName}
	if head == primary {
		e.kind = typeTemplate
	}
	if defined {
		e.in = members
	}
	p.declare(name.Ident, e)
}

// bases reads the list of base classes.
func (p *parser) bases(d *ast.RecordDecl) {
	p.advance()
	for !p.failed && !p.stopped {
		b := &ast.Base{}
		start := p.tok().Pos
		for {
			if a := accessWords[p.tok().Text]; a != ast.NoAccess {
				b.Access = a
			} else if p.at("virtual") {
				b.Virtual = true
			} else {
				break
			}
			p.advance()
		}
		at := p.tok().Pos
		typename := p.accept("typename")
		if p.at("decltype") {
			b.Type = p.decltype()
		} else {
			n, _ := p.name(inType)
			b.Type = &ast.NamedType{Range: p.from(at), Typename: typename, Name: n}
		}
		b.Pack = p.accept("...")
		b.Range = p.from(start)
		d.Bases = append(d.Bases, b)
		if !p.accept(",") {
			return
		}
	}
}

var accessWords = map[string]ast.Access{"public": ast.Public, "protected": ast.Protected, "private": ast.Private}

// members reads what stands between the braces.
func (p *parser) members(d *ast.RecordDecl, open lex.Token) {
	for !p.at("}") && p.tok().Kind != lex.EOF {
		t := p.tok()
		if a := accessWords[t.Text]; a != ast.NoAccess && t.Kind == lex.Ident && p.peek(1).Is(":") {
			p.advance()
			p.advance()
			d.Members = append(d.Members, &ast.AccessDecl{Range: p.from(t.Pos), Access: a})
			continue
		}
		start, depth, scope, records := p.i, p.depth, p.scope, p.records
		d.Members = append(d.Members, p.declaration(inRecord)...)
		if p.failed {
			if p.trial > 0 {
				return
			}
			p.depth, p.scope, p.records = depth, scope, records
			p.recover(start, false)
			d.Members = append(d.Members, &ast.BadDecl{Range: p.from(t.Pos)})
		}
	}
}

// enum reads an enumeration.
func (p *parser) enum() *ast.EnumDecl {
	start := p.advance()
	d := &ast.EnumDecl{}
	if p.at("class") || p.at("struct") {
		p.advance()
		d.Scoped = true
	}
	for (p.at("[") || p.at("__attribute__")) && !p.failed && !p.stopped {
		attrs, _ := p.attributes()
		d.Attrs = append(d.Attrs, attrs...)
	}
	members := newScope(p.scope)
	if isName(p.tok()) {
		d.Name, _ = p.name(inDecl)
		if p.at("{") || p.at(":") || p.at(";") || !p.lookup(d.Name.Last().Ident).kind.isType() {
			p.declare(d.Name.Last().Ident, entry{kind: typeName, in: members})
		}
	}
	if p.at(":") {
		p.advance()
		s := p.specifierList(inTypeID)
		if s.base == nil {
			p.expected("the underlying type of an enumeration")
		}
		d.Underlying = s.base
	}
	if !p.at("{") {
		if d.Name == nil {
			p.expected("a name or '{' behind enum")
		}
		d.Range = p.from(start.Pos)
		return d
	}
	d.Defined = true
	open := p.advance()
	for !p.at("}") && !p.failed && !p.stopped {
		t := p.tok()
		if !isName(t) {
			p.expected("the name of an enumerator")
			break
		}
		p.advance()
		e := &ast.Enumerator{Name: ast.Ident{Range: ast.Range{Start: t.Pos, End: t.End}, Name: t.Text}}
		for (p.at("[") || p.at("__attribute__")) && !p.failed && !p.stopped {
			attrs, _ := p.attributes()
			e.Attrs = append(e.Attrs, attrs...)
		}
		if p.accept("=") {
			e.Value = p.conditional()
		}
		e.Range = p.from(t.Pos)
		d.Enumerators = append(d.Enumerators, e)
		members.declare(t.Text, entry{kind: valueName})
		if !d.Scoped {
			p.declare(t.Text, entry{kind: valueName})
		}
		if !p.accept(",") {
			break
		}
	}
	p.closeWith("}", open)
	d.Range = p.from(start.Pos)
	return d
}

// attributes reads one [[...]], __attribute__((...)) or alignas(...). Attributes
// that make a function a kernel are given as specifiers.
func (p *parser) attributes() ([]*ast.Attr, ast.Specs) {
	t := p.tok()
	var attrs []*ast.Attr
	var specs ast.Specs
	switch {
	case t.Is("alignas"):
		p.advance()
		a := &ast.Attr{Name: "alignas"}
		open := p.tok()
		if p.expect("(", "behind alignas") {
			a.Args = append(a.Args, p.typeOrExpr())
			p.closeWith(")", open)
		}
		a.Range = p.from(t.Pos)
		return append(attrs, a), 0
	case t.Is("["):
		p.advance()
		open := p.tok()
		if !p.expect("[", "of an attribute") {
			return nil, 0
		}
		attrs, specs = p.attributeList("]", "")
		if p.closeWith("]", open) {
			p.closeWith("]", t)
		}
	default:
		p.advance()
		open := p.tok()
		if !p.expect("(", "behind "+t.Text) || !p.expect("(", "behind "+t.Text+"(") {
			return nil, 0
		}
		attrs, specs = p.attributeList(")", "gnu")
		if p.closeWith(")", open) {
			p.closeWith(")", open)
		}
	}
	return attrs, specs
}

// attributeList reads name(args), ... up to the closing bracket.
func (p *parser) attributeList(closing, ns string) (attrs []*ast.Attr, specs ast.Specs) {
	for !p.at(closing) && !p.failed && !p.stopped {
		if p.accept(",") {
			continue
		}
		t := p.tok()
		a := &ast.Attr{NS: ns}
		if t.Kind != lex.Ident {
			p.expected("the name of an attribute")
			return attrs, specs
		}
		p.advance()
		a.Name = t.Text
		if p.at("::") {
			p.advance()
			n := p.tok()
			if n.Kind != lex.Ident {
				p.expected("the name of an attribute")
				return attrs, specs
			}
			p.advance()
			a.NS, a.Name = t.Text, n.Text
		}
		if p.at("(") {
			open := p.advance()
			angle := p.angle
			p.angle = false
			for !p.at(")") && !p.failed && !p.stopped {
				a.Args = append(a.Args, p.typeOrExpr())
				if !p.accept(",") {
					break
				}
			}
			p.angle = angle
			p.closeWith(")", open)
		}
		a.Range = p.from(t.Pos)
		if s := entryWords[a.Name]; s != 0 && a.NS == "" {
			specs |= s
			continue
		}
		attrs = append(attrs, a)
		if !p.at(",") && !p.at(closing) {
			p.expected("',' or '" + closing + "' in attributes")
		}
	}
	return attrs, specs
}

// entryWords are the attributes of entry points.
var entryWords = map[string]ast.Specs{"kernel": ast.Kernel, "vertex": ast.Vertex, "fragment": ast.Fragment}

// templateDecl reads a template, a specialisation or an instantiation.
func (p *parser) templateDecl(where place) ast.Decl {
	start := p.tok().Pos
	external := p.accept("extern")
	p.advance()
	if !p.at("<") {
		p.template = instance
		decls := p.declaration(where)
		p.template = noTemplate
		d := &ast.InstanceDecl{Range: p.from(start), Extern: external, Decl: decls[0]}
		if len(decls) > 1 && !p.failed {
			p.report(source.Errorf(decls[1].Span(), "an explicit instantiation names one template: found a second declarator"))
		}
		if f, ok := decls[0].(*ast.FuncDecl); ok && f.Body != nil && !p.failed {
			p.report(source.Errorf(f.Body.Span(), "an explicit instantiation has no body: expected ';'"))
		}
		return d
	}
	d := &ast.TemplateDecl{}
	head := newScope(p.scope)
	head.head = true
	restore := p.push(head)
	defer restore()
	d.Params = p.templateParams()
	if p.failed {
		return &ast.BadDecl{Range: p.from(start)}
	}
	if p.at("requires") {
		p.advance()
		d.Requires = p.binaryExpr(0)
	}
	p.template = primary
	if len(d.Params) == 0 {
		p.template = special
	}
	decls := p.declaration(where)
	p.template = noTemplate
	d.Decl = decls[0]
	if len(decls) > 1 && !p.failed {
		p.report(source.Errorf(decls[1].Span(), "a template declares one thing: found a second declarator"))
	}
	d.Range = p.from(start)
	return d
}

// templateParams reads <...> of a template head.
func (p *parser) templateParams() []*ast.TemplateParam {
	open := p.advance()
	angle := p.angle
	p.angle = true
	defer func() { p.angle = angle }()
	var params []*ast.TemplateParam
	if p.at(">") {
		p.closeAngle(open)
		return params
	}
	for {
		params = append(params, p.templateParam())
		if p.failed || !p.accept(",") {
			break
		}
	}
	p.closeAngle(open)
	return params
}

func (p *parser) templateParam() *ast.TemplateParam {
	t := &ast.TemplateParam{}
	start := p.tok()
	defer p.leave()
	if !p.enter() {
		return t
	}
	next := p.peek(1)
	isType := start.Is("class") || start.Is("typename") &&
		(next.Is("...") || next.Is(",") || next.Is(">") || next.Is("=") || isName(next) && !p.peek(2).Is("::") && !p.peek(2).Is("<"))
	switch {
	case start.Is("template"):
		p.advance()
		t.Kind = ast.TemplateTemplateParam
		if !p.at("<") {
			p.expected("'<' behind template")
			return t
		}
		restore := p.push(newScope(p.scope))
		t.Params = p.templateParams()
		restore()
		if !p.accept("class") && !p.accept("typename") {
			p.expected("class or typename of a template parameter")
		}
		p.paramName(t, typeTemplate)
		if p.accept("=") {
			t.DefaultType = p.typeID()
		}
	case isType:
		p.advance()
		p.paramName(t, typeName)
		if p.accept("=") {
			t.DefaultType = p.typeID()
		}
	default:
		t.Kind = ast.ValueParam
		s := p.specifierList(inTypeID)
		if s.base == nil {
			if !p.failed {
				p.expected("a template parameter")
			}
			return t
		}
		d := p.declarator(maybe)
		t.Pack = d.pack
		t.Type = p.build(s.base, d)
		if d.name != nil {
			t.Name = ast.Ident{Range: d.name.Range, Name: d.name.Last().Ident}
			p.scope.declare(t.Name.Name, entry{kind: valueName})
		}
		if p.accept("=") {
			t.DefaultExpr = p.conditional()
		}
	}
	t.Range = p.from(start.Pos)
	return t
}

// paramName reads the name of a type or template parameter, if it has one.
func (p *parser) paramName(t *ast.TemplateParam, kind nameKind) {
	t.Pack = p.accept("...")
	if n := p.tok(); isName(n) {
		p.advance()
		t.Name = ast.Ident{Range: ast.Range{Start: n.Pos, End: n.End}, Name: n.Text}
		p.scope.declare(n.Text, entry{kind: kind})
	}
}
