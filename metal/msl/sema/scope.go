package sema

import (
	"slices"
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

type scopeKind uint8

const (
	nsScope scopeKind = iota
	recordScope
	templateScope // binds template parameters
	blockScope
)

// scope maps names to what they mean, in one region of the text.
type scope struct {
	kind   scopeKind
	parent *scope
	name   string
	syms   map[string]*sym
	using  []*scope
	rec    *record
	fn     *Func // block scopes: the function
	this   *Var
	lazy   func(name string) *sym // names that exist without a declaration
}

func newScope(kind scopeKind, parent *scope) *scope {
	s := &scope{kind: kind, parent: parent}
	if parent != nil && kind != nsScope {
		s.fn, s.this, s.rec = parent.fn, parent.this, parent.rec
	}
	return s
}

type symKind uint8

const (
	symType symKind = iota
	symVar
	symConst // enumerator, value argument of a template
	symFunc
	symNamespace
	symClassTmpl
	symAliasTmpl
	symVarTmpl
	symTypeTmpl // vec, matrix and their like: built in
	symPack
	symField // in record scopes: a data member
	symExpr  // a name that stands for a checked expression (captures)
)

// sym is what a name means: one entity, or a set of functions.
type sym struct {
	kind symKind
	name string
	pos  source.Span
	q    types.Qual
	v    *Var
	val  *Value
	fns  []*fnDecl
	ns   *scope
	tmpl *classTmpl
	als  *aliasTmpl
	vt   *varTmpl
	mk   *builtinTypeTmpl
	pack []targ
	expr Expr
	// tag is a struct or enum name hidden by a function or variable of that name.
	tag *sym
}

func (s symKind) String() string {
	return [...]string{"type", "variable", "constant", "function", "namespace", "class template", "alias template", "variable template", "type template", "parameter pack", "member", "variable"}[s]
}

// own gives the scope's own symbol.
func (s *scope) own(name string) *sym {
	if y, ok := s.syms[name]; ok {
		return y
	}
	if s.lazy != nil {
		if y := s.lazy(name); y != nil {
			s.put(name, y)
			return y
		}
	}
	return nil
}

func (s *scope) put(name string, y *sym) {
	if s.syms == nil {
		s.syms = map[string]*sym{}
	}
	y.name = name
	s.syms[name] = y
}

// declare adds a symbol that must be new in the scope.
func (c *checker) declare(s *scope, name string, y *sym) bool {
	if name == "" {
		return true
	}
	if old := s.own(name); old != nil {
		switch {
		case old.kind == symType && y.kind == symType && types.Identical(old.q.T, y.q.T):
			return true // a repeated typedef
		case old.kind == symType && (old.q.T.Kind == types.Struct || old.q.T.Kind == types.Enum) && y.kind != symType:
			y.tag = old
		default:
			d := source.Errorf(y.pos, "redefinition of '%s'", name)
			if old.pos.Start.IsValid() {
				d = d.Note(old.pos, "declared here before, as a %s", old.kind)
			}
			c.report(d)
			return false
		}
	}
	s.put(name, y)
	return true
}

// lookupIn finds a name in one scope, its bases and its used namespaces.
func (c *checker) lookupIn(s *scope, name string) *sym {
	switch s.kind {
	case recordScope:
		return c.lookupRecord(s.rec, name)
	case nsScope:
		return c.lookupNS(s, name, nil)
	}
	if y := s.own(name); y != nil {
		return y
	}
	var y *sym
	for _, u := range s.using {
		y = merge(y, c.lookupNS(u, name, nil))
	}
	return y
}

func (c *checker) lookupRecord(r *record, name string) *sym {
	for n := 0; r != nil && n < 100; n++ {
		if y := r.scope.own(name); y != nil {
			return y
		}
		r = r.base
	}
	return nil
}

func (c *checker) lookupNS(s *scope, name string, seen map[*scope]bool) *sym {
	if len(s.using) == 0 {
		return s.own(name)
	}
	if seen[s] {
		return nil
	}
	if seen == nil {
		seen = map[*scope]bool{}
	}
	seen[s] = true
	y := s.own(name)
	if y != nil && y.kind != symFunc {
		return y
	}
	for _, u := range s.using {
		y = merge(y, c.lookupNS(u, name, seen))
	}
	return y
}

// merge joins two sets of functions; anything else keeps the first.
func merge(a, b *sym) *sym {
	switch {
	case a == nil || a == b:
		return b
	case b == nil:
		return a
	case a.kind != symFunc || b.kind != symFunc:
		return a
	}
	m := &sym{kind: symFunc, name: a.name, pos: a.pos}
	m.fns = append(m.fns, a.fns...)
	for _, d := range b.fns {
		if !slices.Contains(a.fns, d) {
			m.fns = append(m.fns, d)
		}
	}
	return m
}

// lookup finds an unqualified name from s outwards.
func (c *checker) lookup(s *scope, name string) *sym {
	for ; s != nil; s = s.parent {
		if y := c.lookupIn(s, name); y != nil {
			return y
		}
	}
	return nil
}

// nameRes is a resolved name: the symbol, the arguments written at its last
// part, and for members of a record the record that qualified it.
type nameRes struct {
	sym  *sym
	part *ast.NamePart
	qual *record
}

// resolve finds a possibly qualified name; it reports what it can't find.
func (c *checker) resolve(s *scope, n *ast.Name) (nameRes, bool) {
	var in *scope
	var rec *record
	if n.Global {
		in = c.root
	}
	for i := range n.Parts {
		p := &n.Parts[i]
		last := i == len(n.Parts)-1
		key := partKey(p)
		var y *sym
		if p.Kind == ast.NameDecltype {
			q := c.typ(s, p.Conv)
			if bad(q) {
				return nameRes{}, false
			}
			if q.T.Kind == types.Reference {
				q = q.T.Of
			}
			c.completeType(q.T, p.Span())
			if rec = recordOf(q.T); rec == nil {
				c.errAt(p.Span(), "type '%s' has no members to name with '::'", q.T)
				return nameRes{}, false
			}
			in = rec.scope
			continue
		}
		if in == nil {
			y = c.lookup(s, key)
		} else {
			y = c.lookupIn(in, key)
			if y == nil && in == c.metal {
				y = c.root.own(key) // the built-in type names are in both
				if y != nil && y.pos.Start.IsValid() {
					y = nil
				}
			}
		}
		if y == nil {
			if in == nil {
				c.errAt(p.Span(), "use of undeclared name '%s'", key)
			} else {
				c.errAt(p.Span(), "no member named '%s' in '%s'", key, scopeName(in))
			}
			return nameRes{}, false
		}
		if last {
			return nameRes{sym: y, part: p, qual: rec}, true
		}
		if y.kind == symNamespace {
			in = y.ns
			continue
		}
		if y.tag != nil {
			y = y.tag
		}
		q, ok := c.symAsType(s, y, p, p.Span())
		if !ok {
			return nameRes{}, false
		}
		if q.T.Kind == types.Struct {
			c.completeType(q.T, p.Span())
			if rec = recordOf(q.T); rec != nil {
				in = rec.scope
				continue
			}
		}
		if q.T.Kind == types.Enum {
			if es, ok := q.T.Decl.(*enumInfo); ok {
				in = es.scope
				continue
			}
		}
		if q.T.Kind != types.Invalid {
			c.errAt(p.Span(), "type '%s' has no members to name with '::'", q.T)
		}
		return nameRes{}, false
	}
	return nameRes{}, false
}

func scopeName(s *scope) string {
	if s.rec != nil && s.kind == recordScope {
		return s.rec.t.Name
	}
	if s.name == "" {
		return "the global namespace"
	}
	return s.name
}

// partKey is the name under which a part is found.
func partKey(p *ast.NamePart) string {
	switch p.Kind {
	case ast.NameOperator:
		return "operator" + p.Ident
	case ast.NameConversion:
		return "operator()conversion"
	case ast.NameDestructor:
		return "~" + p.Ident
	}
	return p.Ident
}

func nameString(n *ast.Name) string {
	var b strings.Builder
	if n.Global {
		b.WriteString("::")
	}
	for i := range n.Parts {
		if i > 0 {
			b.WriteString("::")
		}
		b.WriteString(partKey(&n.Parts[i]))
		if n.Parts[i].HasArgs {
			b.WriteString("<...>")
		}
	}
	return b.String()
}
