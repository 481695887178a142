package sema

import (
	"fmt"
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

type targKind uint8

const (
	targNone targKind = iota
	targType
	targValue
	targFunc
	targTmpl
	targPack
)

// targ is an argument of a template.
type targ struct {
	kind targKind
	q    types.Qual // the type; a value's type
	val  *Value
	fn   *Func
	sym  *sym // a template
	pack []targ
}

// String spells the argument as the source would.
func (a targ) String() string {
	switch a.kind {
	case targType:
		return a.q.String()
	case targValue:
		return valueString(a.q.T, a.val)
	case targFunc:
		return a.fn.Name
	case targTmpl:
		return a.sym.name
	case targPack:
		return targsString(a.pack)
	}
	return "?"
}

func targsString(as []targ) string {
	s := make([]string, len(as))
	for i, a := range as {
		s[i] = a.String()
	}
	return strings.Join(s, ", ")
}

// key identifies the argument: equal keys, equal arguments.
func (a targ) key() string {
	switch a.kind {
	case targType:
		return typeKey(a.q)
	case targValue:
		return fmt.Sprintf("=%s:%d:%v:%p+%d", a.q.T, a.val.I, a.val.F, a.val.Ref, a.val.Offset)
	case targFunc:
		return fmt.Sprintf("f%p", a.fn)
	case targTmpl:
		return fmt.Sprintf("t%p%p%p", a.sym.tmpl, a.sym.als, a.sym.mk)
	case targPack:
		return "[" + targsKey(a.pack) + "]"
	}
	return "?"
}

func targsKey(as []targ) string {
	s := make([]string, len(as))
	for i, a := range as {
		s[i] = a.key()
	}
	return strings.Join(s, ";")
}

func typeKey(q types.Qual) string {
	var b strings.Builder
	writeTypeKey(&b, q)
	return b.String()
}

func writeTypeKey(b *strings.Builder, q types.Qual) {
	if q.Const {
		b.WriteByte('c')
	}
	if q.Volatile {
		b.WriteByte('v')
	}
	if q.Space > types.Thread {
		b.WriteByte('0' + byte(q.Space))
	}
	t := q.T
	switch t.Kind {
	case types.Pointer, types.Reference:
		b.WriteByte("*&"[t.Kind-types.Pointer])
		writeTypeKey(b, t.Of)
	case types.Array:
		fmt.Fprintf(b, "[%d]", t.N)
		writeTypeKey(b, t.Of)
	case types.Function:
		b.WriteByte('(')
		for _, p := range t.Params {
			writeTypeKey(b, p)
			b.WriteByte(',')
		}
		b.WriteByte(')')
		writeTypeKey(b, t.Result)
	case types.Struct, types.Enum, types.Opaque:
		fmt.Fprintf(b, "%s@%p", t.Name, t)
	default:
		b.WriteString(t.String())
	}
}

// bindings are the arguments found so far for template parameters.
type bindings struct {
	params []*ast.TemplateParam
	args   []targ
	fixed  []bool // given explicitly
	scope  *scope // where the template is declared
}

func newBindings(s *scope, params []*ast.TemplateParam) *bindings {
	return &bindings{params: params, args: make([]targ, len(params)), fixed: make([]bool, len(params)), scope: s}
}

func (b *bindings) index(name string) int {
	for i, p := range b.params {
		if p.Name.Name == name && name != "" {
			return i
		}
	}
	return -1
}

// plainParam gives the index of the parameter that a type is, -1 if it is none.
func (b *bindings) plainParam(t ast.Type) int {
	if n, ok := t.(*ast.NamedType); ok && n.Name.IsPlain() {
		return b.index(n.Name.Parts[0].Ident)
	}
	if _, ok := t.(*ast.AutoType); ok {
		return b.index("auto")
	}
	return -1
}

// set binds parameter i, or checks that it has that value already.
func (b *bindings) set(i int, a targ) bool {
	if a.kind == targType {
		a.q = dropThread(a.q)
	}
	if b.args[i].kind == targNone {
		b.args[i] = a
		return true
	}
	if b.fixed[i] {
		return true // conversions decide
	}
	old := b.args[i]
	if old.kind == targValue && a.kind == targValue {
		return old.val.I == a.val.I && old.val.Ref == a.val.Ref
	}
	return old.key() == a.key()
}

// deduce matches the parameter type P, as written, with the argument's type A.
// Parts of P that do not depend on parameters match anything here.
func (c *checker) deduce(b *bindings, P ast.Type, A types.Qual) bool {
	if A.T == nil || A.T.Kind == types.Invalid {
		return true
	}
	switch p := P.(type) {
	case *ast.QualifiedType:
		if A.T.Kind == types.Array {
			if _, isArr := p.Elem.(*ast.ArrayType); isArr {
				return c.deduce(b, p.Elem, A)
			}
		}
		sp := spaceOf[p.Space]
		if sp != types.NoSpace {
			if A.Space != types.NoSpace && A.Space != sp || A.Space == types.NoSpace && sp != types.Thread {
				if c.dependent(b, p.Elem) && b.plainParam(p.Elem) < 0 {
					return false
				}
				if A.Space != types.NoSpace {
					return false
				}
			}
			A.Space = types.NoSpace
		}
		if p.Quals&ast.Const != 0 {
			A.Const = false
		}
		if p.Quals&ast.Volatile != 0 {
			A.Volatile = false
		}
		A.Coherent = false
		return c.deduce(b, p.Elem, A)
	case *ast.NamedType, *ast.AutoType:
		if i := b.plainParam(P); i >= 0 {
			if b.params[i].Kind != ast.TypeParam {
				return false
			}
			return b.set(i, targ{kind: targType, q: A})
		}
		if n, ok := P.(*ast.NamedType); ok {
			return c.deduceNamed(b, n, A)
		}
		return true
	case *ast.PointerType:
		if A.T.Kind != types.Pointer {
			return !c.dependent(b, P) || A.T.Kind == types.NullPtr
		}
		return c.deduce(b, p.Elem, A.T.Of)
	case *ast.ReferenceType:
		if A.T.Kind == types.Reference {
			A = A.T.Of
		}
		return c.deduce(b, p.Elem, A)
	case *ast.ArrayType:
		if !c.dependent(b, P) {
			return true
		}
		if A.T.Kind != types.Array {
			return false
		}
		if p.Len != nil && !c.deduceValue(b, p.Len, targ{kind: targValue, q: types.Q(types.ULongType), val: &Value{I: int64(A.T.N)}}) {
			return false
		}
		return c.deduce(b, p.Elem, A.T.Of)
	case *ast.FuncType:
		t := A.T
		if t.Kind == types.Pointer {
			t = t.Of.T
		}
		if t.Kind != types.Function || len(t.Params) != len(p.Params) {
			return !c.dependent(b, P)
		}
		for i, pp := range p.Params {
			if !c.deduce(b, decayParam(pp.Type), t.Params[i]) {
				return false
			}
		}
		return c.deduce(b, p.Result, t.Result)
	}
	return true
}

// decayParam spells an array parameter as the pointer that it is.
func decayParam(t ast.Type) ast.Type {
	switch t := t.(type) {
	case *ast.ArrayType:
		return &ast.PointerType{Range: t.Range, Elem: t.Elem}
	case *ast.QualifiedType:
		if a, ok := t.Elem.(*ast.ArrayType); ok {
			q := *t
			q.Elem = a.Elem
			return &ast.PointerType{Range: t.Range, Elem: &q}
		}
	}
	return t
}

// deduceNamed matches X<args> with the type that A is.
func (c *checker) deduceNamed(b *bindings, n *ast.NamedType, A types.Qual) bool {
	last := n.Name.Last()
	if !last.HasArgs || !c.dependent(b, n) {
		return true
	}
	for i := range n.Name.Parts[:len(n.Name.Parts)-1] {
		if n.Name.Parts[i].HasArgs {
			return true // typename X<T>::Y<U>: not deducible
		}
	}
	// A template template parameter: TT<args>.
	if i := b.index(last.Ident); i >= 0 && plainButArgs(n.Name) {
		r := recordOf(A.T)
		if r == nil || r.tmpl == nil {
			return false
		}
		return b.set(i, targ{kind: targTmpl, sym: r.tmpl.sym}) && c.deduceArgs(b, last.Args, r.args)
	}
	var y *sym
	t := c.trap(func() {
		if r, ok := c.resolve(b.scope, n.Name); ok {
			y = r.sym
		}
	})
	if t.errs > 0 || y == nil {
		return true
	}
	switch {
	case y.kind == symTypeTmpl:
		args, ok := y.mk.matchType(A.T)
		return ok && c.deduceArgs(b, last.Args, args)
	case y.tmpl != nil:
		for r := recordOf(A.T); r != nil; r = r.base {
			if r.tmpl == y.tmpl {
				// Arguments that are not written are the defaults; conversion checks them.
				as := r.args
				if n := len(last.Args); n > 0 && n < len(as) && !last.Args[n-1].Pack {
					as = as[:n]
				}
				return c.deduceArgs(b, last.Args, as)
			}
		}
		return false
	case y.kind == symAliasTmpl:
		// An alias is transparent where its arguments are its parameters in order; else
		// only conversion can tell.
		return c.deduceAlias(b, y.als, last.Args, A)
	}
	return true
}

func (c *checker) deduceAlias(b *bindings, a *aliasTmpl, args []ast.TemplateArg, A types.Qual) bool {
	inner := newBindings(a.scope, a.params)
	if !c.deduce(inner, a.decl.Type, A) {
		return false
	}
	for i, arg := range args {
		if i < len(inner.args) && inner.args[i].kind != targNone {
			if !c.deduceArgs(b, []ast.TemplateArg{arg}, inner.args[i:i+1]) {
				return false
			}
		}
	}
	return true
}

// deduceArgs matches template arguments as written with actual ones.
func (c *checker) deduceArgs(b *bindings, ps []ast.TemplateArg, as []targ) bool {
	for i, p := range ps {
		if p.Pack {
			rest := []targ{}
			if i < len(as) {
				rest = as[i:]
			}
			if len(rest) == 1 && rest[0].kind == targPack {
				rest = rest[0].pack
			}
			if t, ok := packName(p); ok {
				if k := b.index(t); k >= 0 {
					return b.set(k, targ{kind: targPack, pack: rest})
				}
			}
			return true
		}
		if i >= len(as) {
			return false
		}
		a := as[i]
		switch {
		case a.kind == targPack && len(ps) > len(as)-1:
			return c.deduceArgs(b, ps[i:], append(append([]targ{}, as[:i]...), a.pack...)[i:])
		case p.Type != nil:
			if a.kind == targTmpl {
				if k := b.plainParam(p.Type); k >= 0 {
					if !b.set(k, a) {
						return false
					}
				}
				continue
			}
			if a.kind != targType {
				return false
			}
			if !c.deduceExact(b, p.Type, a.q) {
				return false
			}
		case p.Expr != nil:
			if n, ok := p.Expr.(*ast.NameExpr); ok && a.kind == targType {
				if !c.deduceExact(b, &ast.NamedType{Range: n.Range, Name: n.Name}, a.q) {
					return false
				}
				continue
			}
			if a.kind == targType {
				return false
			}
			if !c.deduceValue(b, p.Expr, a) {
				return false
			}
		}
	}
	return len(as) <= len(ps) || len(ps) > 0 && ps[len(ps)-1].Pack
}

// deduceExact is deduce where a part without parameters must be the same type.
func (c *checker) deduceExact(b *bindings, p ast.Type, q types.Qual) bool {
	if c.dependent(b, p) {
		if !c.deduce(b, p, q) {
			return false
		}
		return c.sameShape(b, p, q)
	}
	same := false
	t := c.trap(func() { same = types.IdenticalQ(c.typ(b.scope, p), q) })
	return same && t.errs == 0
}

// sameShape rejects `T *` for a type that is no pointer, `const T` for one that is
// not const, and so on: in partial specialisations nothing converts.
func (c *checker) sameShape(b *bindings, p ast.Type, q types.Qual) bool {
	switch p := p.(type) {
	case *ast.PointerType:
		return q.T.Kind == types.Pointer && c.sameShape(b, p.Elem, q.T.Of)
	case *ast.ReferenceType:
		return q.T.Kind == types.Reference && !p.RValue && c.sameShape(b, p.Elem, q.T.Of)
	case *ast.ArrayType:
		return q.T.Kind == types.Array && (p.Len != nil || q.T.N < 0)
	case *ast.FuncType:
		return q.T.Kind == types.Function
	case *ast.QualifiedType:
		sp := spaceOf[p.Space]
		if p.Quals&ast.Const != 0 && !q.Const || p.Quals&ast.Volatile != 0 && !q.Volatile || sp > types.Thread && q.Space != sp {
			return false
		}
		return c.sameShape(b, p.Elem, q)
	}
	return true
}

// deduceValue matches a value argument as written with an actual one.
func (c *checker) deduceValue(b *bindings, p ast.Expr, a targ) bool {
	if n, ok := p.(*ast.NameExpr); ok && n.Name.IsPlain() {
		if i := b.index(n.Name.Parts[0].Ident); i >= 0 {
			return b.set(i, a)
		}
	}
	if c.dependentExpr(b, p) {
		return true
	}
	if a.kind != targValue {
		return true
	}
	v, ok := int64(0), false
	t := c.trap(func() { v, ok = c.constInt(b.scope, p, "template argument") })
	return ok && t.errs == 0 && v == a.val.I
}

func packName(a ast.TemplateArg) (string, bool) {
	switch {
	case a.Type != nil:
		if n, ok := a.Type.(*ast.NamedType); ok && n.Name.IsPlain() {
			return n.Name.Parts[0].Ident, true
		}
	case a.Expr != nil:
		if n, ok := a.Expr.(*ast.NameExpr); ok && n.Name.IsPlain() {
			return n.Name.Parts[0].Ident, true
		}
	}
	return "", false
}

// dependent says that a type as written mentions a parameter of b.
func (c *checker) dependent(b *bindings, t ast.Type) bool {
	found := false
	walkNames(t, func(id string) { found = found || b.index(id) >= 0 })
	return found
}

func (c *checker) dependentExpr(b *bindings, e ast.Expr) bool {
	found := false
	walkNames(e, func(id string) { found = found || b.index(id) >= 0 })
	return found
}
