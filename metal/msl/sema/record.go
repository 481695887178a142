package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// record is what the checker knows of a struct or union beyond its layout.
type record struct {
	t     *types.Type
	decl  *ast.RecordDecl
	scope *scope
	tmpl  *classTmpl
	args  []targ
	at    source.Span // where an instance was first asked for
	base  *record
	ctors []*fnDecl
	convs []*fnDecl
	inits map[int]ast.Expr // default member initialisers by field
	plain bool             // has a defaulted constructor without parameters
	state bodyState
}

// enumInfo is what the checker knows of an enum.
type enumInfo struct {
	scope *scope
	ns    *scope
}

func recordOf(t *types.Type) *record {
	if t == nil || t.Kind != types.Struct {
		return nil
	}
	r, _ := t.Decl.(*record)
	return r
}

func (c *checker) newRecord(name string, decl *ast.RecordDecl, parent *scope) *record {
	r := &record{decl: decl}
	r.t = types.NewStruct(name, decl != nil && decl.Keyword == ast.Union)
	r.t.Decl = r
	r.scope = newScope(recordScope, parent)
	r.scope.rec, r.scope.name = r, name
	return r
}

// recordType resolves a struct specifier inside a declaration.
func (c *checker) recordType(s *scope, d *ast.RecordDecl) types.Qual {
	r := c.declareRecord(s, d)
	if r == nil {
		return invalidQ
	}
	return types.Q(r.t)
}

// declareRecord declares or defines a struct that is no template.
func (c *checker) declareRecord(s *scope, d *ast.RecordDecl) *record {
	if r := c.records[d][s]; r != nil {
		return r
	}
	name := ""
	if d.Name != nil {
		name = d.Name.Last().Ident
		if len(d.Name.Parts) > 1 {
			if n, ok := c.resolve(s, d.Name); ok && n.sym.kind == symType {
				if r := recordOf(n.sym.q.T); r != nil {
					c.defineRecord(r, d)
					return r
				}
			}
			c.errorf(d, "'%s' was not declared", nameString(d.Name))
			return nil
		}
		if old := s.own(name); old != nil {
			if old.tag != nil {
				old = old.tag
			}
			if old.kind == symType && old.q.T.Kind == types.Struct {
				r := recordOf(old.q.T)
				if r != nil && r.decl != nil && r.decl.Defined && d.Defined {
					c.report(source.Errorf(d.Name.Span(), "redefinition of '%s'", name).Note(old.pos, "defined here before"))
					return nil
				}
				c.remember(s, d, r)
				if d.Defined {
					c.defineRecord(r, d)
				}
				return r
			}
		} else if !d.Defined {
			if y := c.lookup(s, name); y != nil && y.kind == symType && y.q.T.Kind == types.Struct {
				return recordOf(y.q.T)
			}
		}
	}
	label := name
	if label == "" {
		label = "(unnamed " + d.Keyword.String() + ")"
	} else if s.kind == recordScope {
		label = s.rec.t.Name + "::" + name
	}
	r := c.newRecord(label, d, s)
	c.remember(s, d, r)
	if name != "" && !c.declare(s, name, &sym{kind: symType, q: types.Q(r.t), pos: d.Name.Span()}) {
		return nil
	}
	if d.Defined {
		c.defineRecord(r, d)
	}
	return r
}

func (c *checker) remember(s *scope, d *ast.RecordDecl, r *record) {
	if c.records[d] == nil {
		c.records[d] = map[*scope]*record{}
	}
	c.records[d][s] = r
}

func (c *checker) defineRecord(r *record, d *ast.RecordDecl) {
	r.decl = d
	r.t.Union = d.Keyword == ast.Union
	c.completeRecord(r)
}

// completeRecord declares the members and lays them out.
func (c *checker) completeRecord(r *record) {
	if r.state != bodyNone {
		return
	}
	d := r.decl
	if r.tmpl != nil {
		var inst *scope
		d, inst = c.chooseClass(r)
		if d == nil || !d.Defined {
			return
		}
		r.decl, r.t.Union = d, d.Keyword == ast.Union
		r.scope.parent = inst
		if c.classes >= maxLevel {
			c.errAt(r.at, "instances of class templates nest deeper than %d", maxLevel)
			return
		}
		c.classes++
		c.push(r.at, "in instantiation of '%s' requested here", r.t.Name)
		defer func() {
			c.pop()
			c.classes--
		}()
		r.scope.put(r.tmpl.name, &sym{kind: symType, q: types.Q(r.t), tmpl: r.tmpl})
	}
	if d == nil || !d.Defined {
		return
	}
	if !c.enter(d.Span()) {
		return
	}
	defer c.leave()
	r.state = bodyChecking
	cur, unev := c.cur, c.unev
	c.cur, c.unev = nil, 0
	defer func() { c.cur, c.unev = cur, unev }()
	r.scope.this, r.scope.fn = nil, nil
	if r.tmpl == nil && d.Name != nil {
		r.scope.put(d.Name.Last().Ident, &sym{kind: symType, q: types.Q(r.t)})
	}
	var fields []types.Field
	for _, b := range d.Bases {
		q := c.typ(r.scope.parent, b.Type)
		if bad(q) {
			continue
		}
		br := recordOf(q.T)
		if br == nil || b.Virtual || r.t.Union {
			c.errAt(b.Span(), "'%s' can't be a base class", q)
			continue
		}
		if !c.needComplete(q.T, b.Span()) {
			continue
		}
		if r.base != nil {
			c.errAt(b.Span(), "more than one base class is not supported")
			continue
		}
		r.base, r.t.Base = br, q.T
		if len(q.T.Fields) > 0 {
			fields = append(fields, types.Field{Type: types.Q(q.T), IsBase: true})
		}
	}
	var methods []*fnDecl
	align := c.alignAttr(r.scope, d.Attrs)
	for _, m := range d.Members {
		fields = c.memberDecl(r, m, fields, &methods)
	}
	r.t.SetFields(fields, align)
	if r.t.Size() > maxArray || r.t.Size() < 0 {
		c.errorf(d, "'%s' is too large", r.t.Name)
		r.t.SetFields(nil, 1)
	}
	r.state = bodyDone
	if r.tmpl == nil && !c.inTemplate(r.scope) {
		for _, m := range methods {
			if m.tparams == nil {
				if f := c.sigOf(m); f != nil && f.checker.def != nil && f.checker.state == bodyNone {
					f.checker.state = bodyQueued
					c.now = append(c.now, f)
				}
			}
		}
	}
}

// inTemplate says that a scope lies inside bound template parameters.
func (c *checker) inTemplate(s *scope) bool {
	for ; s != nil; s = s.parent {
		if s.kind == templateScope {
			return true
		}
	}
	return false
}

func (c *checker) memberDecl(r *record, m ast.Decl, fields []types.Field, methods *[]*fnDecl) []types.Field {
	switch m := m.(type) {
	case *ast.VarDecl:
		if m.Specs&ast.Static != 0 {
			if v := c.globalVar(r.scope, m, m.Name.Last().Ident); v != nil {
				c.declare(r.scope, v.Name, &sym{kind: symVar, v: v, pos: m.Name.Span()})
			}
			return fields
		}
		return c.fieldDecl(r, m, fields)
	case *ast.FuncDecl:
		if d := c.funcDecl(r.scope, m, nil, r); d != nil {
			*methods = append(*methods, d)
		}
	case *ast.TemplateDecl:
		switch in := m.Decl.(type) {
		case *ast.FuncDecl:
			if len(m.Params) == 0 {
				c.funcSpec(r.scope, in)
				break
			}
			c.funcDecl(r.scope, in, m.Params, r)
		default:
			c.templateDecl(r.scope, m)
		}
	case *ast.RecordDecl:
		in := c.declareRecord(r.scope, m)
		if in != nil && m.Name == nil && in.t.Complete() {
			fields = append(fields, types.Field{Type: types.Q(in.t)})
			c.anonymous(r, in.t, m)
		}
	case *ast.AccessDecl, *ast.EmptyDecl:
	case *ast.EnumDecl, *ast.TypedefDecl, *ast.StaticAssertDecl, *ast.UsingDecl:
		c.decl(r.scope, m)
	case *ast.BadDecl:
		c.sink.errs++
	default:
		c.errorf(m, "this declaration is not allowed in a struct")
	}
	return fields
}

// anonymous makes the members of an anonymous struct or union known in r.
func (c *checker) anonymous(r *record, t *types.Type, at ast.Node) {
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Name == "" {
			if f.Type.T.Kind == types.Struct {
				c.anonymous(r, f.Type.T, at)
			}
			continue
		}
		c.declare(r.scope, f.Name, &sym{kind: symField, pos: at.Span()})
	}
}

func (c *checker) fieldDecl(r *record, m *ast.VarDecl, fields []types.Field) []types.Field {
	name := ""
	if m.Name != nil {
		name = m.Name.Last().Ident
	}
	q := c.typ(r.scope, m.Type)
	if bad(q) {
		// Keep the name known, so that uses of it are not errors of their own.
		if name != "" {
			c.declare(r.scope, name, &sym{kind: symField, pos: m.Span()})
		}
		return append(fields, types.Field{Name: name, Type: invalidQ})
	}
	if m.Bits != nil {
		c.errorf(m, "bit-field '%s' is not supported in Metal", name)
		return fields
	}
	switch {
	case q.T.Kind == types.Void || q.T.Kind == types.Function:
		c.errorf(m, "member '%s' of type '%s'", name, q.T)
		return fields
	case q.T.Kind == types.Array && q.T.N < 0:
		q.T = types.ArrayOf(q.T.Of, 0) // flexible array member
	case q.T.Kind != types.Reference && q.Space != types.NoSpace && q.Space != types.Thread:
		c.errorf(m, "member '%s' in address space '%s': a member lives where its object does", name, q.Space)
		q.Space = types.NoSpace
	}
	q.Space = types.NoSpace
	if !c.needComplete(q.T, m.Span()) && q.T.Kind != types.Array {
		return fields
	}
	f := types.Field{Name: name, Type: q, Mutable: m.Specs&ast.Mutable != 0, Align: c.alignAttr(r.scope, m.Attrs)}
	if name != "" {
		c.declare(r.scope, name, &sym{kind: symField, pos: m.Name.Span()})
	} else {
		c.anonymous(r, q.T, m)
	}
	if m.Init != nil {
		if r.inits == nil {
			r.inits = map[int]ast.Expr{}
		}
		r.inits[len(fields)] = m.Init
	}
	return append(fields, f)
}

// alignAttr evaluates alignas and __attribute__((aligned)).
func (c *checker) alignAttr(s *scope, attrs []*ast.Attr) int {
	align := 0
	for _, a := range attrs {
		if a.Name != "alignas" && a.Name != "aligned" {
			continue
		}
		if len(a.Args) != 1 {
			continue
		}
		n := int64(0)
		if t, ok := a.Args[0].(*ast.TypeExpr); ok {
			n = int64(c.typ(s, t.Type).T.Align())
		} else if v, ok := c.constInt(s, a.Args[0], "alignment"); ok {
			n = v
		} else {
			continue
		}
		if n < 0 || n&(n-1) != 0 || n > 4096 {
			c.errorf(a, "alignment %d, expected a power of two up to 4096", n)
			continue
		}
		align = max(align, int(n))
	}
	return align
}

// enumType declares or finds an enumeration.
func (c *checker) enumType(s *scope, d *ast.EnumDecl) *types.Type {
	if t := c.enums[d][s]; t != nil {
		return t
	}
	name := ""
	if d.Name != nil {
		name = d.Name.Last().Ident
		if y := c.lookup(s, name); y != nil && !d.Defined {
			if y.kind == symType && y.q.T.Kind == types.Enum {
				return y.q.T
			}
		}
		// The lookup may have declared it: the library's names are declared on demand.
		if t := c.enums[d][s]; t != nil {
			return t
		}
	}
	values := c.enumValues(s, d)
	under := types.IntType
	fixed := d.Underlying != nil
	if fixed {
		q := c.typ(s, d.Underlying)
		if bad(q) {
			return types.InvalidType
		}
		if !q.T.IsInteger() {
			c.errorf(d.Underlying, "underlying type '%s' of an enum, expected an integer type", q.T)
			return types.InvalidType
		}
		under = q.T
	}
	var t *types.Type
	if old := s.own(name); name != "" && old != nil && old.kind == symType && old.q.T.Kind == types.Enum {
		t = old.q.T
		if info := t.Decl.(*enumInfo); d.Defined && len(info.scope.syms) > 0 {
			c.errorf(d, "redefinition of '%s'", name)
			return types.InvalidType
		}
	} else {
		label := name
		if label == "" {
			label = "(unnamed enum)"
		}
		if !fixed && !d.Scoped {
			under = enumUnder(values)
		}
		t = types.NewEnum(label, under, d.Scoped)
		info := &enumInfo{scope: newScope(nsScope, s)}
		for ns := s; ns != nil; ns = ns.parent {
			if ns.kind == nsScope {
				info.ns = ns
				break
			}
		}
		info.scope.name = label
		t.Decl = info
		if name != "" {
			c.declare(s, name, &sym{kind: symType, q: types.Q(t), pos: d.Name.Span()})
		}
	}
	if c.enums[d] == nil {
		c.enums[d] = map[*scope]*types.Type{}
	}
	c.enums[d][s] = t
	info := t.Decl.(*enumInfo)
	for i, e := range d.Enumerators {
		v := values[i]
		if wrapInt(v, t.Under.Kind) != v {
			c.errorf(e, "enumerator '%s' = %d does not fit '%s'", e.Name.Name, v, t.Under)
		}
		y := sym{kind: symConst, q: types.Q(t), val: &Value{I: v}, pos: e.Name.Span()}
		in := y
		c.declare(info.scope, e.Name.Name, &in)
		if !t.Scoped {
			out := y
			c.declare(s, e.Name.Name, &out)
		}
	}
	return t
}

// enumValues evaluates the enumerators of an enum, each of which sees those
// before it. They are evaluated once, before the enum's type is known: what an
// initialiser instantiates reports its errors here.
func (c *checker) enumValues(s *scope, d *ast.EnumDecl) []int64 {
	values := make([]int64, len(d.Enumerators))
	next := int64(0)
	tmp := newScope(blockScope, s)
	for i, e := range d.Enumerators {
		if e.Value != nil {
			if v, ok := c.constInt(tmp, e.Value, "enumerator"); ok {
				next = v
			}
		}
		tmp.put(e.Name.Name, &sym{kind: symConst, q: types.Q(types.LongType), val: &Value{I: next}})
		values[i] = next
		next++
	}
	return values
}

// enumUnder picks the integer type that holds all values of an enum without a
// written type: uint, else int, else 64 bits, as clang does.
func enumUnder(values []int64) *types.Type {
	neg, big := false, false
	for _, v := range values {
		neg = neg || v < 0
		big = big || v > 1<<32-1 || v < -1<<31 || neg && v > 1<<31-1
	}
	switch {
	case big && neg:
		return types.LongType
	case big:
		return types.ULongType
	case neg:
		return types.IntType
	}
	return types.UIntType
}
