package parse

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/lex"
	"minfer/metal/msl/source"
)

// specifiers is what stands before the declarators: storage, attributes and the
// type that they build on.
type specifiers struct {
	start   source.Pos
	specs   ast.Specs
	attrs   []*ast.Attr
	typedef bool
	base    ast.Type // with qualifiers; nil where none is written, as for constructors
}

// specUse is where specifiers stand; it decides about names that are not known.
type specUse uint8

const (
	inDeclaration specUse = iota // any name is a type, but a constructor's
	inParam
	inTypeID // only a type
)

// typeWords collects the parts of a type specifier.
type typeWords struct {
	quals      ast.Quals
	space      ast.Space
	spaceRange ast.Range
	start, end source.Pos // of type and qualifiers
	base       ast.Type
	baseStart  source.Pos
	baseEnd    source.Pos
	counts     map[string]int // of basic words
	words      []string       // these in order
}

// seen extends the range of the type by the token read last.
func (w *typeWords) seen(start, end source.Pos) {
	if !w.start.IsValid() {
		w.start = start
	}
	w.end = end
}

// specifierList reads specifiers.
func (p *parser) specifierList(use specUse) specifiers {
	s := specifiers{start: p.tok().Pos}
	w := &typeWords{}
	for !p.failed && !p.stopped {
		t := p.tok()
		switch {
		case t.Is("[") && p.peek(1).Is("["), t.Is("__attribute__"), t.Is("__attribute"), t.Is("alignas"):
			attrs, specs := p.attributes()
			s.attrs = append(s.attrs, attrs...)
			s.specs |= specs
		case p.qualifier(w):
		case t.Is("::"):
			if w.base != nil || w.counts != nil || !p.typeSpecifier(w, use) {
				return p.endSpecifiers(s, w)
			}
		case t.Kind != lex.Ident:
			return p.endSpecifiers(s, w)
		case basicWords[t.Text]:
			if w.base != nil {
				return p.endSpecifiers(s, w)
			}
			p.advance()
			w.basic(t)
		case t.Text == "typedef":
			p.advance()
			s.typedef = true
		case storageWords[t.Text] != 0:
			p.advance()
			s.specs |= storageWords[t.Text]
		case t.Text == "__extension__":
			p.advance()
		case w.base != nil || w.counts != nil:
			return p.endSpecifiers(s, w)
		case !p.typeSpecifier(w, use):
			return p.endSpecifiers(s, w)
		}
	}
	return p.endSpecifiers(s, w)
}

// storageWords are the specifiers of one word.
var storageWords = map[string]ast.Specs{
	"kernel": ast.Kernel, "vertex": ast.Vertex, "fragment": ast.Fragment, "static": ast.Static, "inline": ast.Inline,
	"__inline": ast.Inline, "__inline__": ast.Inline, "constexpr": ast.Constexpr, "consteval": ast.Consteval, "extern": ast.Extern,
	"explicit": ast.Explicit, "friend": ast.Friend, "mutable": ast.Mutable, "virtual": ast.Virtual, "register": ast.Register,
	"thread_local": ast.ThreadLocal,
}

// spaces are the address spaces by keyword.
var spaces = map[string]ast.Space{
	"thread": ast.Thread, "device": ast.Device, "constant": ast.Constant, "threadgroup": ast.Threadgroup,
	"threadgroup_imageblock": ast.ThreadgroupImageblock, "ray_data": ast.RayData, "object_data": ast.ObjectData,
}

var qualifierWords = map[string]ast.Quals{
	"const": ast.Const, "__const__": ast.Const, "volatile": ast.Volatile, "__volatile__": ast.Volatile,
	"__restrict": ast.Restrict, "__restrict__": ast.Restrict, "restrict": ast.Restrict, "_Atomic": ast.Atomic,
}

// qualifier reads one qualifier or address space.
func (p *parser) qualifier(w *typeWords) bool {
	t := p.tok()
	if t.Kind != lex.Ident {
		return false
	}
	if q := qualifierWords[t.Text]; q != 0 && (t.Text != "restrict" || p.lookup("restrict").kind == unknownName) {
		p.advance()
		w.quals |= q
	} else if space := spaces[t.Text]; space != ast.NoSpace {
		p.advance()
		at := ast.Range{Start: t.Pos, End: t.End}
		if w.space != ast.NoSpace && w.space != space {
			p.report(source.Errorf(at.Span(), "two address spaces on one type: '%s' and '%s'", w.space, space).
				Note(w.spaceRange.Span(), "'%s' is here", w.space))
		}
		w.space, w.spaceRange = space, at
	} else if t.Text == "coherent" && p.isCoherent() {
		p.advance()
		if p.at("(") {
			open := p.advance()
			for !p.at(")") && p.tok().Kind == lex.Ident {
				p.advance()
			}
			p.closeWith(")", open)
		}
		w.quals |= ast.Coherent
	} else {
		return false
	}
	w.seen(t.Pos, p.prev)
	return true
}

// isCoherent tells the qualifier coherent from a name: it is one where a
// qualifier or type follows.
func (p *parser) isCoherent() bool {
	next := p.peek(1)
	if next.Is("(") {
		a := p.peek(2)
		return (a.Is("device") || a.Is("system") || a.Is("threadgroup")) && p.peek(3).Is(")")
	}
	return next.Kind == lex.Ident && p.lookup("coherent").kind == unknownName
}

// typeSpecifier reads the one specifier that names a type. It is false where the
// current word is none.
func (p *parser) typeSpecifier(w *typeWords, use specUse) bool {
	t := p.tok()
	start := t.Pos
	switch t.Text {
	case "struct", "class", "union":
		d := p.record()
		w.base = &ast.RecordType{Range: d.Range, Decl: d}
	case "enum":
		d := p.enum()
		w.base = &ast.EnumType{Range: d.Range, Decl: d}
	case "auto":
		p.advance()
		w.base = &ast.AutoType{Range: p.from(start)}
	case "decltype", "__decltype":
		if p.peek(p.skipDecltype(0)).Is("::") {
			n, _ := p.name(inType)
			w.base = &ast.NamedType{Range: p.from(start), Name: n}
			break
		}
		w.base = p.decltype()
	case "typename":
		p.advance()
		n, _ := p.name(inType)
		w.base = &ast.NamedType{Range: p.from(start), Typename: true, Name: n}
	case "__underlying_type", "__remove_cv", "__remove_reference", "__remove_address_space":
		p.advance()
		open := p.tok()
		if p.expect("(", "behind "+t.Text) {
			arg := p.typeID()
			p.closeWith(")", open)
			w.base = &ast.BuiltinTraitType{Range: p.from(start), Name: t.Text, Args: []ast.Type{arg}}
		}
	default:
		if !isName(t) && !t.Is("::") || !p.namesType(use) {
			return false
		}
		n, _ := p.name(inType)
		w.base = &ast.NamedType{Range: p.from(start), Name: n}
	}
	w.baseStart, w.baseEnd = start, p.prev
	w.seen(start, p.prev)
	return true
}

// decltype reads decltype(x), which may qualify a name.
func (p *parser) decltype() ast.Type {
	start := p.advance().Pos
	open := p.tok()
	if !p.expect("(", "behind decltype") {
		return &ast.AutoType{Range: p.from(start)}
	}
	if p.at("auto") {
		p.advance()
		p.closeWith(")", open)
		return &ast.AutoType{Range: p.from(start), Decltype: true}
	}
	angle := p.angle
	p.angle = false
	x := p.expr()
	p.angle = angle
	p.closeWith(")", open)
	return &ast.DecltypeType{Range: p.from(start), X: x}
}

// namesType decides whether the name at the current token is the type of a
// declaration.
func (p *parser) namesType(use specUse) bool {
	if use == inDeclaration && p.startsConstructor() {
		return false
	}
	n := p.scanName(0)
	switch {
	case n.e.kind.isType():
		return true
	case n.next == 0 || n.e.kind.isValue() || n.e.kind == namespaceName:
		return false
	case use != inParam:
		return true
	}
	t := p.peek(n.next)
	return p.looksDeclared(n.next, true) || t.Is(",") || t.Is(")") || t.Is("=") || t.Is(">") || t.Is("...")
}

// scannedName is what scanName finds.
type scannedName struct {
	e    entry
	next int // the token behind the name, counted from the current one; 0 if there is no name
	// member is whether the name is that of a constructor, destructor or conversion
	// of the class that qualifies it.
	member bool
}

// scanName looks at the name that starts n tokens behind the current one, without
// reading its template arguments.
func (p *parser) scanName(n int) scannedName {
	s := scannedName{}
	var in *scope
	qual := false
	before := ""
	if p.peek(n).Is("::") {
		qual, in = true, p.global
		n++
	} else if n = p.skipDecltype(n); p.tok().Is("decltype") {
		if !p.peek(n).Is("::") {
			return s
		}
		qual = true
		n++
	}
	for {
		if qual && p.peek(n).Is("template") {
			n++
		}
		t := p.peek(n)
		if qual && (t.Is("operator") || t.Is("~")) {
			s.e, s.next = entry{kind: valueName}, n+1
			s.member = t.Is("~") || p.peek(n+1).Kind == lex.Ident
			return s
		}
		if !isName(t) {
			return s
		}
		if qual {
			s.e = qualified(in, t.Text)
			if in == p.global && s.e.kind == unknownName {
				s.e = library(t.Text)
			}
		} else {
			s.e = p.lookup(t.Text)
		}
		s.member = qual && t.Text == before
		before = t.Text
		n++
		if p.peek(n).Is("<") && (s.e.kind.isTemplate() || s.e.kind == unknownName) {
			n = p.skipAngles(n)
		}
		s.next = n
		if !p.peek(n).Is("::") || p.peek(n+1).Is("*") {
			return s
		}
		qual, in = true, s.e.in
		n++
	}
}

// skipDecltype gives the token behind a decltype(x) at token n, or n.
func (p *parser) skipDecltype(n int) int {
	if !p.peek(n).Is("decltype") || !p.peek(n+1).Is("(") {
		return n
	}
	depth := 0
	for i := n + 1; i < n+maxAngles; i++ {
		switch t := p.peek(i); {
		case t.Is("("):
			depth++
		case t.Is(")"):
			if depth--; depth == 0 {
				return i + 1
			}
		case t.Kind == lex.EOF:
			return n
		}
	}
	return n
}

// maxAngles is the number of tokens in which skipAngles looks.
const maxAngles = 512

// skipAngles gives the token behind the > that closes the < at token n, or n where
// none does.
func (p *parser) skipAngles(n int) int {
	angles, brackets := 0, 0
	for i := n; i < n+maxAngles; i++ {
		t := p.peek(i)
		if t.Kind == lex.EOF {
			return n
		}
		if t.Kind != lex.Punct {
			continue
		}
		switch t.Text {
		case "(", "[", "{":
			brackets++
		case ")", "]", "}":
			if brackets--; brackets < 0 {
				return n
			}
		case ";":
			return n
		case "<":
			if brackets == 0 {
				angles++
			}
		case ">", ">>":
			if brackets == 0 {
				if angles -= len(t.Text); angles <= 0 {
					return i + 1
				}
			}
		}
	}
	return n
}

// looksDeclared reports whether what stands n tokens on, behind a name that is
// not known, can only be the rest of a declaration: it makes the name a type. In
// a parameter list that may also end behind the declared name.
func (p *parser) looksDeclared(n int, inList bool) bool {
	t := p.peek(n)
	if isName(t) || t.Kind == lex.Ident && (qualifierWords[t.Text] != 0 || spaces[t.Text] != ast.NoSpace) {
		return true
	}
	if !t.Is("*") && !t.Is("&") && !t.Is("&&") {
		return false
	}
	for i := n + 1; i < n+maxParts; i++ {
		switch next := p.peek(i); {
		case next.Is("*"), next.Is("&"), qualifierWords[next.Text] != 0, spaces[next.Text] != ast.NoSpace:
		case isName(next):
			after := p.peek(i + 1)
			return after.Is("=") || after.Is(";") || after.Is(",") || after.Is("[") || inList && after.Is(")")
		default:
			return next.Is(")") || next.Is(">")
		}
	}
	return false
}

// startsConstructor reports whether a constructor's declarator starts here: the
// name of the class around, or C::C, and a parenthesis.
func (p *parser) startsConstructor() bool {
	t := p.tok()
	for s := p.scope; s != nil; s = s.outer {
		if s.record != "" {
			if s.record != t.Text {
				break
			}
			n := 1
			if p.peek(n).Is("<") {
				n = p.skipAngles(n)
			}
			if p.peek(n).Is("(") {
				return true
			}
			break
		}
		if !s.head {
			break
		}
	}
	if next := p.peek(1); !next.Is("::") && !next.Is("<") {
		return false
	}
	return p.scanName(0).member
}

// basic counts a word of a basic type.
func (w *typeWords) basic(t lex.Token) {
	if w.counts == nil {
		w.counts = map[string]int{}
		w.baseStart = t.Pos
	}
	name := t.Text
	if name == "__signed__" {
		name = "signed"
	}
	w.counts[name]++
	if len(w.words) < maxParts {
		w.words = append(w.words, t.Text)
	}
	w.baseEnd = t.End
	w.seen(t.Pos, t.End)
}

// basicType finds the type that the words make.
func (p *parser) basicType(w *typeWords) ast.Type {
	r := ast.Range{Start: w.baseStart, End: w.baseEnd}
	c := w.counts
	bad := func() ast.Type {
		p.report(source.Errorf(r.Span(), "'%s' is not a type", strings.Join(w.words, " ")))
		return &ast.BasicType{Range: r, Kind: ast.Int}
	}
	one := func(k ast.Basic) ast.Type { return &ast.BasicType{Range: r, Kind: k} }
	total := 0
	for _, n := range c {
		total += n
	}
	unsigned, signed := c["unsigned"], c["signed"]
	if unsigned+signed > 1 || c["int"] > 1 || c["short"] > 1 || c["long"] > 2 {
		return bad()
	}
	pick := func(s, u ast.Basic) ast.Type {
		if unsigned > 0 {
			return one(u)
		}
		return one(s)
	}
	sign := unsigned + signed
	switch {
	case c["void"] == 1 && total == 1:
		return one(ast.Void)
	case c["bool"] == 1 && total == 1:
		return one(ast.Bool)
	case c["float"] == 1 && total == 1:
		return one(ast.Float)
	case c["double"] == 1 && total-c["long"] == 1:
		return one(ast.Double)
	case c["char"] == 1 && total == 1+sign:
		if signed > 0 {
			return one(ast.SChar)
		}
		return pick(ast.Char, ast.UChar)
	case c["short"] == 1 && total == 1+sign+c["int"]:
		return pick(ast.Short, ast.UShort)
	case c["long"] == 2 && total == 2+sign+c["int"]:
		return pick(ast.LongLong, ast.ULongLong)
	case c["long"] == 1 && total == 1+sign+c["int"]:
		return pick(ast.Long, ast.ULong)
	case total == sign+c["int"]:
		return pick(ast.Int, ast.UInt)
	}
	return bad()
}

// endSpecifiers puts the type together.
func (p *parser) endSpecifiers(s specifiers, w *typeWords) specifiers {
	base := w.base
	if w.counts != nil {
		base = p.basicType(w)
	}
	if base != nil && (w.quals != 0 || w.space != ast.NoSpace) {
		base = &ast.QualifiedType{Range: ast.Range{Start: w.start, End: w.end}, Quals: w.quals, Space: w.space, SpaceRange: w.spaceRange, Elem: base}
	}
	if base == nil && w.start.IsValid() && !p.failed {
		p.expected("a type behind the qualifiers")
	}
	s.base = base
	return s
}

// startsType reports whether the current token surely or probably starts a type:
// a word that only types have, or a name that is known as one or not at all.
func (p *parser) startsType() bool {
	t := p.tok()
	if t.Kind == lex.Punct {
		return t.Text == "::" && p.scanName(0).e.kind.isType()
	}
	if t.Kind != lex.Ident {
		return false
	}
	if basicWords[t.Text] || qualifierWords[t.Text] != 0 || spaces[t.Text] != ast.NoSpace {
		return true
	}
	switch t.Text {
	case "typename", "struct", "class", "union", "enum", "auto", "decltype", "__underlying_type":
		return true
	case "coherent":
		return p.isCoherent()
	}
	if !isName(t) {
		return false
	}
	if next := p.peek(1); !next.Is("::") && !next.Is("<") {
		return p.lookup(t.Text).kind.isType()
	}
	return p.scanName(0).e.kind.isType()
}

// typeID reads a type without a name.
func (p *parser) typeID() ast.Type {
	defer p.leave()
	if !p.enter() {
		return &ast.AutoType{}
	}
	start := p.tok()
	s := p.specifierList(inTypeID)
	if s.base == nil {
		if !p.failed {
			p.expected("a type")
		}
		return &ast.AutoType{Range: ast.Range{Start: start.Pos, End: start.End}}
	}
	d := p.declarator(abstract)
	return p.build(s.base, d)
}

// conversionType reads the type of a conversion function: specifiers and pointers.
func (p *parser) conversionType() ast.Type {
	start := p.tok()
	s := p.specifierList(inTypeID)
	if s.base == nil {
		if !p.failed {
			p.expected("an operator or a type behind 'operator'")
		}
		return &ast.AutoType{Range: ast.Range{Start: start.Pos, End: start.End}}
	}
	d := &declarator{}
	p.pointers(d)
	return p.build(s.base, d)
}
