package parse

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// functionDecl makes the node of a function and reads its body.
func (p *parser) functionDecl(s specifiers, d *declarator, attrs []*ast.Attr, where place, head templateHead) ast.Decl {
	fn := d.parts[0].fn
	f := &ast.FuncDecl{
		Specs: s.specs | d.specs, Attrs: attrs, Name: d.name, Params: fn.params, Variadic: fn.variadic,
		ThisSpace: fn.space, ThisQuals: fn.quals, ThisRef: fn.ref, Noexcept: fn.noexcept, Member: where == inRecord,
	}
	switch d.name.Last().Kind {
	case ast.NameConversion:
		f.Kind = ast.Conversion
	case ast.NameDestructor:
		f.Kind = ast.Destructor
	default:
		if s.base == nil {
			f.Kind = ast.Constructor
		}
	}
	if f.Kind == ast.Function {
		f.Result = p.build(s.base, &declarator{parts: d.parts[1:]})
		if fn.result != nil {
			f.Result, f.Trailing = fn.result, true
		}
	}
	if f.Kind != ast.Constructor {
		p.declareValue(d.name, head, where)
	}
	defer func() { f.Range = p.from(s.start) }()
	if head == instance {
		return f
	}
	if p.at("=") && (p.peek(1).Is("default") || p.peek(1).Is("delete") || p.peek(1).Text == "0") {
		p.advance()
		f.Default, f.Delete = p.at("default"), p.at("delete")
		p.advance()
		return f
	}
	restore := p.push(fn.scope)
	defer restore()
	if p.at(":") {
		p.memberInits(f)
	}
	switch {
	case !p.at("{"):
		if len(f.Inits) > 0 {
			p.expected("the body of a constructor")
		}
	case where == inBlock && p.trial == 0:
		t := p.tok()
		p.fail(source.Errorf(t.Span(), "function '%s' is defined inside a function", nameText(d.name)))
	case p.records > 0:
		p.delay(f)
	default:
		f.Body = p.compound()
	}
	return f
}

// memberInits reads a constructor's : a(x), b{y}.
func (p *parser) memberInits(f *ast.FuncDecl) {
	p.advance()
	for !p.failed && !p.stopped {
		m := &ast.MemberInit{}
		start := p.tok().Pos
		m.Name, _ = p.name(inType)
		switch {
		case p.at("("):
			m.Args = p.args()
		case p.at("{"):
			m.Braces = true
			m.Args = p.initList().Elems
		default:
			p.expected("'(' or '{' behind the name of a member to initialise")
		}
		m.Pack = p.accept("...")
		m.Range = p.from(start)
		f.Inits = append(f.Inits, m)
		if !p.accept(",") {
			return
		}
	}
}

// lateBody is a member function's body, to be read when the class is complete.
type lateBody struct {
	f     *ast.FuncDecl
	i     int
	scope *scope
}

// delay passes a body.
func (p *parser) delay(f *ast.FuncDecl) {
	open := p.tok()
	p.late = append(p.late, lateBody{f, p.i, p.scope})
	braces := 0
	for {
		t := p.tok()
		switch {
		case t.Is("{"):
			braces++
		case t.Is("}"):
			braces--
		case t.Kind == lex.EOF:
			p.unclosed("}", open)
			return
		}
		p.advance()
		if braces == 0 {
			break
		}
	}
	f.Body = &ast.CompoundStmt{Range: p.from(open.Pos)}
}

// readLate reads the bodies that were passed since there were n of them.
func (p *parser) readLate(n int) {
	late := p.late[n:]
	p.late = p.late[:n:n]
	i, prev, scope := p.i, p.prev, p.scope
	for _, b := range late {
		p.i, p.scope = b.i, b.scope
		b.f.Body = p.compound()
		if p.failed {
			break
		}
	}
	p.scope = scope
	if !p.failed {
		p.i, p.prev = i, prev
	}
}
