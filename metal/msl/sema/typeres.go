package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

var invalidQ = types.Q(types.InvalidType)

func bad(q types.Qual) bool { return q.T == nil || q.T.Kind == types.Invalid }

var spaceOf = map[ast.Space]types.Space{
	ast.NoSpace: types.NoSpace, ast.Thread: types.Thread, ast.Device: types.Device, ast.Constant: types.Constant, ast.Threadgroup: types.Threadgroup,
}

// typ resolves a type as written. It reports what is wrong and then gives the
// invalid type.
func (c *checker) typ(s *scope, t ast.Type) types.Qual {
	if t == nil {
		return invalidQ
	}
	if !c.enter(t.Span()) {
		return invalidQ
	}
	defer c.leave()
	switch t := t.(type) {
	case *ast.BasicType:
		return c.basic(t)
	case *ast.NamedType:
		r, ok := c.resolve(s, t.Name)
		if !ok {
			return invalidQ
		}
		y := r.sym
		if y.kind != symType && y.tag != nil {
			y = y.tag
		}
		q, ok := c.symAsType(s, y, r.part, t.Span())
		if !ok {
			return invalidQ
		}
		return q
	case *ast.AutoType:
		if y := s.ownUp("auto"); y != nil {
			return y.q
		}
		c.errorf(t, "'auto' is not allowed here")
		return invalidQ
	case *ast.DecltypeType:
		return c.decltype(s, t.X)
	case *ast.RecordType:
		return c.recordType(s, t.Decl)
	case *ast.EnumType:
		return types.Q(c.enumType(s, t.Decl))
	case *ast.QualifiedType:
		return c.qualified(s, t)
	case *ast.PointerType:
		q := c.typ(s, t.Elem)
		if bad(q) {
			return q
		}
		if q.T.Kind == types.Reference {
			c.errorf(t, "pointer to a reference")
			return invalidQ
		}
		return types.Q(types.PointerTo(q))
	case *ast.ReferenceType:
		q := c.typ(s, t.Elem)
		if bad(q) {
			return q
		}
		if q.T.Kind == types.Reference {
			return q // references collapse
		}
		if q.T.Kind == types.Void {
			c.errorf(t, "reference to void")
			return invalidQ
		}
		return types.Q(types.ReferenceTo(q))
	case *ast.ArrayType:
		return c.arrayType(s, t)
	case *ast.FuncType:
		res := c.typ(s, t.Result)
		params := []types.Qual{}
		for _, p := range t.Params {
			q := c.paramType(s, p)
			if bad(q) {
				return invalidQ
			}
			params = append(params, q.Bare())
		}
		if bad(res) {
			return invalidQ
		}
		f := types.FuncOf(res.Bare(), params)
		if f.Weight() > maxTypeWeight {
			c.errorf(t, "the type is made of more than %d types", maxTypeWeight)
			return invalidQ
		}
		return types.Q(f)
	case *ast.BuiltinTraitType:
		if t.Name == "__underlying_type" && len(t.Args) == 1 {
			q := c.typ(s, t.Args[0])
			if q.T.Kind == types.Enum {
				return types.Q(q.T.Under)
			}
		}
		c.errorf(t, "unknown type function '%s'", t.Name)
		return invalidQ
	case *ast.MemberPointerType:
		c.errorf(t, "pointers to members are not supported in Metal")
		return invalidQ
	case *ast.PackType:
		c.errorf(t, "a parameter pack is not allowed here")
		return invalidQ
	}
	c.errorf(t, "unsupported form of type")
	return invalidQ
}

// ownUp finds a name in enclosing block and template scopes only.
func (s *scope) ownUp(name string) *sym {
	for ; s != nil && s.kind != nsScope; s = s.parent {
		if y := s.syms[name]; y != nil {
			return y
		}
	}
	return nil
}

func (c *checker) basic(t *ast.BasicType) types.Qual {
	switch t.Kind {
	case ast.Void:
		return types.Q(types.VoidType)
	case ast.Bool:
		return types.Q(types.BoolType)
	case ast.Char, ast.SChar:
		return types.Q(types.CharType)
	case ast.UChar:
		return types.Q(types.UCharType)
	case ast.Short:
		return types.Q(types.ShortType)
	case ast.UShort:
		return types.Q(types.UShortType)
	case ast.Int:
		return types.Q(types.IntType)
	case ast.UInt:
		return types.Q(types.UIntType)
	case ast.Long:
		return types.Q(types.LongType)
	case ast.ULong:
		return types.Q(types.ULongType)
	case ast.Float:
		return types.Q(types.FloatType)
	case ast.Double:
		c.errorf(t, "'double' is not supported in Metal")
		return invalidQ
	}
	c.errorf(t, "'%s' is not supported in Metal", t.Kind)
	return invalidQ
}

func (c *checker) qualified(s *scope, t *ast.QualifiedType) types.Qual {
	q := c.typ(s, t.Elem)
	if bad(q) {
		return q
	}
	sp, ok := spaceOf[t.Space]
	if !ok {
		c.errAt(t.SpaceRange.Span(), "address space '%s' is not supported", t.Space)
		return invalidQ
	}
	return c.addQuals(q, t.Quals, sp, t.Span())
}

// addQuals puts qualifiers on q; on an array they go to its elements.
func (c *checker) addQuals(q types.Qual, quals ast.Quals, sp types.Space, at source.Span) types.Qual {
	switch q.T.Kind {
	case types.Array:
		e := c.addQuals(q.T.Of, quals, sp, at)
		if bad(e) {
			return invalidQ
		}
		r := q
		r.T = types.ArrayOf(e, q.T.N)
		r.Const = r.Const || quals&ast.Const != 0
		if sp != types.NoSpace {
			r.Space = sp
		}
		return r
	case types.Reference:
		return q // qualifiers of a reference have no effect
	}
	if quals&ast.Atomic != 0 {
		a := types.AtomicOf(q.T.Kind)
		if a == nil {
			c.errAt(at, "there is no atomic of type '%s': expected int, uint, float, ulong or bool", q.T)
			return invalidQ
		}
		q.T = a
	}
	q.Const = q.Const || quals&ast.Const != 0
	q.Volatile = q.Volatile || quals&ast.Volatile != 0
	q.Coherent = q.Coherent || quals&ast.Coherent != 0
	if sp != types.NoSpace {
		if q.Space != types.NoSpace && q.Space != sp {
			c.errAt(at, "conflicting address spaces '%s' and '%s'", sp, q.Space)
			return invalidQ
		}
		q.Space = sp
	}
	return q
}

// maxTypeWeight bounds what types are made of: functions of functions and templates of
// templates double it at each step.
const maxTypeWeight = 4096

// argsFit reports template arguments that are too large to work with.
func (c *checker) argsFit(as []targ, at source.Span) bool {
	n := 0
	for _, a := range as {
		switch a.kind {
		case targType:
			n += a.q.T.Weight() + len(a.q.T.Name)/4
		case targPack:
			for _, p := range a.pack {
				if p.kind == targType {
					n += p.q.T.Weight() + len(p.q.T.Name)/4
				}
			}
		case targFunc:
			n += len(a.fn.Name) / 4
		}
	}
	if n > maxTypeWeight {
		c.errAt(at, "template arguments are made of more than %d types", maxTypeWeight)
		return false
	}
	return true
}

// maxArray bounds the bytes of an array, so that layouts stay in range.
const maxArray = 1 << 28

func (c *checker) arrayType(s *scope, t *ast.ArrayType) types.Qual {
	e := c.typ(s, t.Elem)
	if bad(e) {
		return e
	}
	if e.T.Kind == types.Reference || e.T.Kind == types.Void || e.T.Kind == types.Function {
		c.errorf(t, "array of '%s'", e.T)
		return invalidQ
	}
	n := -1
	if t.Len != nil {
		v, ok := c.constInt(s, t.Len, "array length")
		if !ok {
			return invalidQ
		}
		c.completeType(e.T, t.Span())
		switch {
		case v < 0:
			c.errorf(t.Len, "array length is negative: %d", v)
			return invalidQ
		case v > maxArray || v*int64(max(1, e.T.Size())) > maxArray:
			c.errorf(t.Len, "array of %d elements of '%s' is too large", v, e.T)
			return invalidQ
		}
		n = int(v)
	}
	if e.T.Kind == types.Array && e.T.N < 0 {
		c.errorf(t, "array of an array without a length")
		return invalidQ
	}
	q := e
	q.T = types.ArrayOf(e, n)
	return q
}

// warnSpace warns of a pointer or reference that is written without an address space. The
// specification forbids it; array-spelled parameters without one are in shipped kernels.
func (c *checker) warnSpace(t ast.Type, q types.Qual, at ast.Node) {
	if k, ok := t.(*ast.QualifiedType); ok {
		t = k.Elem
	}
	var elem ast.Type
	switch k := t.(type) {
	case *ast.PointerType:
		elem = k.Elem
	case *ast.ReferenceType:
		elem = k.Elem
	}
	if elem == nil || hasAuto(elem) || q.T.Kind != types.Pointer && q.T.Kind != types.Reference || !at.Span().Start.IsValid() {
		return
	}
	if of := q.T.Of; of.Space == types.NoSpace && of.T.Kind != types.Function && of.T.Kind != types.Array {
		c.warnf(at, "'%s' has no address space, thread is assumed", q)
	}
}

// paramType is the type of a parameter: arrays and functions become pointers.
func (c *checker) paramType(s *scope, p *ast.ParamDecl) types.Qual {
	q := c.typ(s, p.Type)
	if bad(q) {
		return invalidQ
	}
	return c.adjustParam(q, p)
}

func (c *checker) adjustParam(q types.Qual, at ast.Node) types.Qual {
	switch q.T.Kind {
	case types.Array:
		return types.Q(types.PointerTo(q.T.Of))
	case types.Function:
		return types.Q(types.PointerTo(q))
	case types.Void:
		c.errorf(at, "parameter of type void")
		return invalidQ
	}
	return q
}

// symAsType gives the type that a symbol names, with the template arguments of
// part put in.
func (c *checker) symAsType(s *scope, y *sym, part *ast.NamePart, at source.Span) (types.Qual, bool) {
	switch y.kind {
	case symType:
		if part != nil && part.HasArgs {
			if y.tmpl == nil {
				c.errAt(at, "'%s' is not a template", y.name)
				return invalidQ, false
			}
			return c.classInstance(s, y.tmpl, part, at)
		}
		return y.q, !bad(y.q)
	case symClassTmpl:
		if part == nil || !part.HasArgs && y.tmpl.hasRequired() {
			c.errAt(at, "class template '%s' needs template arguments", y.name)
			return invalidQ, false
		}
		return c.classInstance(s, y.tmpl, part, at)
	case symAliasTmpl:
		return c.aliasInstance(s, y.als, part, at)
	case symTypeTmpl:
		return c.builtinInstance(s, y.mk, part, at)
	}
	c.errAt(at, "'%s' is a %s, expected a type", y.name, y.kind)
	return invalidQ, false
}

// decltype gives the type of an expression: as declared for a name or member
// (space and const included), else a reference for lvalues.
func (c *checker) decltype(s *scope, x ast.Expr) types.Qual {
	c.unev++
	defer func() { c.unev-- }()
	e := c.expr(s, x)
	if isBad(e) {
		return invalidQ
	}
	if f, ok := c.singleFunc(e); ok {
		return types.Q(f.typ())
	}
	if _, ok := e.(*overloadSet); ok {
		c.errorf(x, "decltype of an overloaded function")
		return invalidQ
	}
	switch x.(type) {
	case *ast.NameExpr:
		if v, ok := e.(*VarRef); ok {
			q := v.Var.Type
			if q.T.Kind != types.Reference && q.Space == types.NoSpace {
				q.Space = v.T.Space
			}
			return dropThread(q)
		}
		return e.Type().Bare()
	case *ast.MemberExpr:
		if f, ok := e.(*FieldExpr); ok {
			return dropThread(f.T)
		}
		if !e.Lvalue() {
			return e.Type().Bare()
		}
		return types.Q(types.ReferenceTo(e.Type()))
	}
	if e.Lvalue() {
		return types.Q(types.ReferenceTo(e.Type()))
	}
	return e.Type().Bare()
}

func dropThread(q types.Qual) types.Qual {
	if q.Space == types.Thread {
		q.Space = types.NoSpace
	}
	return q
}

// typ is the function's type.
func (f *Func) typ() *types.Type {
	ps := make([]types.Qual, len(f.Params))
	for i, p := range f.Params {
		ps[i] = p.Type.Bare()
	}
	return types.FuncOf(f.Result, ps)
}

// completeType lays a struct out if that is still possible; it reports nothing.
func (c *checker) completeType(t *types.Type, at source.Span) bool {
	for t.Kind == types.Array {
		t = t.Of.T
	}
	if t.Kind == types.Struct && !t.Complete() {
		if r := recordOf(t); r != nil {
			c.completeRecord(r)
		}
		return t.Complete()
	}
	return true
}

// needComplete reports a type whose size is not known.
func (c *checker) needComplete(t *types.Type, at source.Span) bool {
	if !c.completeType(t, at) || t.Kind == types.Array && t.N < 0 {
		c.errAt(at, "'%s' is an incomplete type", t)
		return false
	}
	return true
}
