package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// initFrom makes the initial value of an object of type q (for a reference: the
// lvalue that it binds) from `= x` or `{...}`.
func (c *checker) initFrom(s *scope, q types.Qual, x ast.Expr) (Expr, bool) {
	return c.initWhat(s, q, x, "initialiser")
}

func (c *checker) initWhat(s *scope, q types.Qual, x ast.Expr, what string) (Expr, bool) {
	if l, ok := x.(*ast.InitList); ok {
		e := c.initList(s, q, l)
		return e, !isBad(e)
	}
	if l, ok := x.(*ast.ParenList); ok {
		e := c.construct(s, q, l.Args, false, x)
		return e, !isBad(e)
	}
	e := c.expr(s, x)
	if isBad(e) {
		return e, false
	}
	e = c.coerce(e, q, what, x)
	return e, !isBad(e)
}

// initList makes a value of type q from {...}.
func (c *checker) initList(s *scope, q types.Qual, l *ast.InitList) Expr {
	if bad(q) {
		return c.bad(l)
	}
	if !c.enter(l.Span()) {
		return c.bad(l)
	}
	defer c.leave()
	t := q.T
	switch t.Kind {
	case types.Reference:
		e := c.initList(s, t.Of.Bare(), l)
		if isBad(e) {
			return e
		}
		return c.coerce(e, q, "initialiser", l)
	case types.Struct, types.Array:
		if t.Kind == types.Struct {
			if !c.needComplete(t, l.Span()) {
				return c.bad(l)
			}
			if r := recordOf(t); r != nil && len(r.ctors) > 0 {
				return c.constructClass(s, r, l.Elems, l)
			}
			if len(l.Elems) == 1 {
				if _, isList := l.Elems[0].(*ast.InitList); !isList && !isDesignated(l.Elems[0]) {
					var e Expr
					tr := c.trap(func() { e = c.expr(s, l.Elems[0]) })
					if tr.errs == 0 && e.Type().T == t {
						return c.rvalue(e)
					}
				}
			}
		}
		p := &listReader{elems: l.Elems}
		e := c.aggregate(s, t, p, l, true)
		if p.i < len(p.elems) && !isBad(e) {
			c.errorf(p.elems[p.i], "too many initialisers for '%s'", t)
			return c.bad(l)
		}
		return e
	case types.Vector, types.PackedVector, types.Matrix:
		if len(l.Elems) == 0 {
			return c.zero(t, l.Start)
		}
		if t.Kind == types.Matrix {
			return c.constructMatrix(s, t, l.Elems, l)
		}
		if len(l.Elems) > 1 && len(l.Elems) < t.N {
			if e, ok := c.shortVector(s, t, l); ok {
				return e
			}
		}
		return c.constructVector(s, t, l.Elems, l)
	}
	if len(l.Elems) == 0 {
		return c.zero(t, l.Start)
	}
	if len(l.Elems) > 1 {
		c.errorf(l, "too many initialisers for '%s'", t)
		return c.bad(l)
	}
	if in, ok := l.Elems[0].(*ast.InitList); ok {
		return c.initList(s, q, in)
	}
	e := c.expr(s, l.Elems[0])
	if isBad(e) {
		return c.bad(l)
	}
	c.narrowing(e, t, l.Elems[0])
	return c.coerce(e, q, "initialiser", l.Elems[0])
}

// shortVector fills a brace list of fewer scalars than the vector has with zeros.
func (c *checker) shortVector(s *scope, t *types.Type, l *ast.InitList) (Expr, bool) {
	xs := append([]ast.Expr{}, l.Elems...)
	for _, x := range xs {
		var e Expr
		if tr := c.trap(func() { e = c.expr(s, x) }); tr.errs > 0 || !valueType(e).IsScalar() {
			return nil, false
		}
	}
	for len(xs) < t.N {
		xs = append(xs, &ast.IntLit{Range: l.Range, Base: 10})
	}
	return c.constructVector(s, t, xs, l), true
}

func isDesignated(x ast.Expr) bool { _, ok := x.(*ast.DesignatedInit); return ok }

// narrowing reports a conversion inside braces that may lose the value.
func (c *checker) narrowing(e Expr, to *types.Type, at ast.Node) {
	from := valueType(e)
	if !from.IsScalar() || !to.IsScalar() || from == to {
		return
	}
	v := c.rvalue(e).Const()
	lossy := false
	switch {
	case from.IsFloat() && !to.IsFloat():
		lossy = true
	case from.IsFloat():
		lossy = to.Size() < from.Size() && v == nil
	case to.IsFloat():
		lossy = v == nil
	case to.Kind == types.Bool:
		lossy = v == nil || v.I != 0 && v.I != 1
	default:
		fits := to.Size() > from.Size() && (to.Kind.IsSigned() || !from.Kind.IsSigned()) || to.Size() == from.Size() && to.Kind.IsSigned() == from.Kind.IsSigned()
		lossy = !fits && (v == nil || wrapInt(v.I, to.Kind) != v.I)
	}
	if lossy {
		// As a warning: shipped kernels rely on it where a value is not constant.
		if v != nil {
			c.errorf(at, "constant %s of type '%s' is narrowed to '%s' inside braces", valueString(from, v), from, to)
		} else {
			c.warnf(at, "value of type '%s' is narrowed to '%s' inside braces", from, to)
		}
	}
}

// listReader hands out the elements of a brace list; inner aggregates without braces of
// their own take what they need.
type listReader struct {
	elems []ast.Expr
	i     int
}

// aggregate fills a struct or array from r.
func (c *checker) aggregate(s *scope, t *types.Type, r *listReader, at ast.Node, braced bool) Expr {
	if !c.enter(at.Span()) {
		return c.bad(at)
	}
	defer c.leave()
	n := Node{T: types.Q(t), Where: at.Span().Start}
	out := &InitList{Node: n}
	size := t.N
	if t.Kind == types.Struct {
		size = len(t.Fields)
		if t.Union {
			size = min(size, 1)
		}
	}
	okay := true
	highest := -1
	for k := 0; r.i < len(r.elems); {
		x := r.elems[r.i]
		first, last := k, k
		var inner []ast.Designator
		if d, isD := x.(*ast.DesignatedInit); isD {
			if !braced {
				break // it belongs to an enclosing list
			}
			var ok bool
			if first, last, ok = c.designator(s, t, d); !ok {
				return c.bad(at)
			}
			inner = d.Designators[1:]
			x = d.Value
			if len(inner) > 0 {
				x = &ast.InitList{Range: d.Range, Elems: []ast.Expr{&ast.DesignatedInit{Range: d.Range, Designators: inner, Value: d.Value}}}
			}
		} else if size >= 0 && k >= size {
			break
		}
		et := c.elemAt(t, first)
		if et.T == nil {
			c.errorf(r.elems[r.i], "too many initialisers for '%s'", t)
			return c.bad(at)
		}
		var e Expr
		switch l, isList := x.(*ast.InitList); {
		case isList:
			r.i++
			e = c.initList(s, et, l)
		case et.T.Kind == types.Array || et.T.Kind == types.Struct:
			if v, whole := c.wholeInit(s, et, x); whole {
				r.i++
				e = v
			} else {
				e = c.aggregate(s, et.T, r, x, false)
			}
		default:
			r.i++
			e = c.expr(s, x)
			if !isBad(e) {
				c.narrowing(e, et.T, x)
				e = c.coerce(e, et, "initialiser", x)
			}
		}
		okay = okay && !isBad(e)
		out.Elems = c.putElem(out.Elems, InitElem{first, last, e})
		highest = max(highest, last)
		k = last + 1
		if t.Union {
			break
		}
	}
	if t.Kind == types.Array && t.N < 0 {
		out.T.T = types.ArrayOf(t.Of, highest+1)
	}
	if t.Kind == types.Struct {
		c.defaultMembers(t, out)
	}
	if !okay {
		return c.bad(at)
	}
	return out
}

// putElem keeps elements in order; a later designator replaces an earlier one.
func (c *checker) putElem(es []InitElem, e InitElem) []InitElem {
	i := len(es)
	for i > 0 && es[i-1].Index >= e.Index {
		i--
	}
	if i < len(es) && es[i].Index == e.Index && es[i].Last == e.Last {
		es[i] = e
		return es
	}
	es = append(es, InitElem{})
	copy(es[i+1:], es[i:])
	es[i] = e
	return es
}

func (c *checker) elemAt(t *types.Type, i int) types.Qual {
	if t.Kind == types.Struct {
		if i < len(t.Fields) {
			return t.Fields[i].Type
		}
		return types.Qual{}
	}
	if t.N >= 0 && i >= t.N {
		return types.Qual{}
	}
	return t.Of.Bare()
}

func (c *checker) designator(s *scope, t *types.Type, d *ast.DesignatedInit) (int, int, bool) {
	g := d.Designators[0]
	if g.Field != "" {
		if t.Kind == types.Struct {
			if f, ok := t.Field(g.Field); ok {
				return f.Index, f.Index, true
			}
		}
		c.errAt(g.Span(), "no member '.%s' in '%s'", g.Field, t)
		return 0, 0, false
	}
	lo, ok := c.constInt(s, g.Lo, "designator")
	hi := lo
	if ok && g.Hi != nil {
		hi, ok = c.constInt(s, g.Hi, "designator")
	}
	if !ok {
		return 0, 0, false
	}
	if t.Kind != types.Array || lo < 0 || hi < lo || t.N >= 0 && hi >= int64(t.N) || hi > maxArray {
		c.errAt(g.Span(), "designator [%d ... %d] does not fit '%s'", lo, hi, t)
		return 0, 0, false
	}
	return int(lo), int(hi), true
}

// wholeInit says that x by itself initialises an inner struct.
func (c *checker) wholeInit(s *scope, q types.Qual, x ast.Expr) (Expr, bool) {
	if q.T.Kind == types.Array {
		return nil, false
	}
	var e Expr
	ok := false
	c.trap(func() {
		e = c.expr(s, x)
		if !isBad(e) {
			var r rank
			e, r = c.implicit(e, q, true)
			ok = r != rankNone
		}
	})
	return e, ok
}

// defaultMembers adds the default initialisers of members that have no element.
func (c *checker) defaultMembers(t *types.Type, out *InitList) {
	r := recordOf(t)
	if r == nil || len(r.inits) == 0 || t.Union {
		return
	}
	// There is no object to name the members of yet: they stand for their initial values.
	s := newScope(blockScope, r.scope)
	s.this = nil
	given := map[int]bool{}
	name := func(e InitElem) {
		given[e.Index] = true
		if f := t.Fields[e.Index]; f.Name != "" {
			s.put(f.Name, &sym{kind: symExpr, expr: e.X})
		}
	}
	for _, e := range out.Elems {
		name(e)
	}
	for i := range t.Fields {
		x := r.inits[i]
		if x == nil || given[i] {
			continue
		}
		if e, ok := c.initFrom(s, t.Fields[i].Type, x); ok {
			out.Elems = c.putElem(out.Elems, InitElem{i, i, e})
			name(InitElem{i, i, e})
		}
	}
}

// zero is the value-initialised object.
func (c *checker) zero(t *types.Type, at source.Pos) Expr {
	n := Node{T: types.Q(t), Where: at}
	switch t.Kind {
	case types.Struct, types.Array:
		l := &InitList{Node: n}
		if t.Kind == types.Struct {
			c.defaultMembers(t, l)
		}
		return l
	case types.Vector, types.PackedVector, types.Matrix:
		n.T = types.Q(t.Unpacked())
		n.Val = zeroValue(t)
		var e Expr = &Construct{Node: n, How: Zero}
		if t.Kind == types.PackedVector {
			e = c.numeric(e, t)
		}
		return e
	case types.SgMatrix:
		return &Builtin{Node: n, Op: ISgFill, Args: []Expr{&ConstExpr{Node{T: types.Q(types.Scalar(t.Elem)), Val: &Value{}, Where: at}}}}
	case types.Pointer:
		n.Val = &Value{}
		return &Convert{Node: n, How: ConvNull, X: &ConstExpr{Node{T: types.Q(types.NullPtrType), Val: &Value{}, Where: at}}}
	case types.Void:
		return &Convert{Node: n, How: ConvVoid, X: &ConstExpr{Node{T: types.Q(types.IntType), Val: &Value{}, Where: at}}}
	}
	n.Val = &Value{}
	return &ConstExpr{n}
}

// construct checks T(args), T{args} and T x(args).
func (c *checker) construct(s *scope, q types.Qual, xs []ast.Expr, braces bool, at ast.Node) Expr {
	if bad(q) {
		return c.bad(at)
	}
	t := q.T
	if braces {
		return c.initList(s, q, &ast.InitList{Range: ast.Range{Start: at.Span().Start, End: at.Span().End}, Elems: xs})
	}
	switch t.Kind {
	case types.Struct:
		if !c.needComplete(t, at.Span()) {
			return c.bad(at)
		}
		r := recordOf(t)
		if r != nil && len(r.ctors) > 0 {
			return c.constructClass(s, r, xs, at)
		}
		if len(xs) == 0 {
			return c.zero(t, at.Span().Start)
		}
		args, ok := c.args(s, xs)
		if !ok {
			return c.bad(at)
		}
		if len(args) == 1 {
			if l, isList := args[0].(*listExpr); isList {
				return c.initList(s, q, l.list)
			}
			return c.coerce(args[0], q, "construction", at)
		}
		c.errorf(at, "'%s' has no constructor for %d arguments", t, len(args))
		return c.bad(at)
	case types.Vector, types.PackedVector:
		if len(xs) == 0 {
			return c.zero(t, at.Span().Start)
		}
		return c.constructVector(s, t, xs, at)
	case types.Matrix:
		if len(xs) == 0 {
			return c.zero(t, at.Span().Start)
		}
		return c.constructMatrix(s, t, xs, at)
	}
	if len(xs) == 0 {
		if t.Kind == types.Reference {
			c.errorf(at, "a reference needs an initialiser")
			return c.bad(at)
		}
		return c.zero(t, at.Span().Start)
	}
	args, ok := c.args(s, xs)
	if !ok {
		return c.bad(at)
	}
	if len(args) != 1 {
		c.errorf(at, "'%s' takes one value, found %d", t, len(args))
		return c.bad(at)
	}
	if l, isList := args[0].(*listExpr); isList {
		return c.initList(s, q, l.list)
	}
	if t.Kind == types.SgMatrix && valueType(args[0]).IsScalar() {
		v := c.numeric(c.rvalue(args[0]), types.Scalar(t.Elem))
		return &Builtin{Node: Node{T: types.Q(t), Where: at.Span().Start}, Op: ISgDiag, Args: []Expr{v}}
	}
	return c.cast(q, args[0], castC, at)
}

// constructClass calls the constructor that fits.
func (c *checker) constructClass(s *scope, r *record, xs []ast.Expr, at ast.Node) Expr {
	args, ok := c.args(s, xs)
	if !ok {
		return c.bad(at)
	}
	if len(args) == 1 {
		if a := args[0]; a.Type().T == r.t || derivesFrom(a.Type().T, r.t) {
			return c.rvalue(c.toBase(a, r.t)) // copies are member by member
		}
	}
	if len(args) == 0 && r.plain {
		return c.zero(r.t, at.Span().Start)
	}
	k := c.pick(&callReq{name: r.t.Name, fns: r.ctors, args: args, at: at.Span(), quiet: len(args) == 1 && args[0].Type().T.Kind == types.Struct})
	if k == nil {
		if len(args) == 1 && args[0].Type().T.Kind == types.Struct {
			return c.coerce(args[0], types.Q(r.t), "construction", at)
		}
		return c.bad(at)
	}
	return c.ctorCall(k, args, r.t, at.Span())
}

func (c *checker) constructVector(s *scope, t *types.Type, xs []ast.Expr, at ast.Node) Expr {
	args, ok := c.args(s, xs)
	if !ok {
		return c.bad(at)
	}
	ut := t.Unpacked()
	pack := func(e Expr) Expr {
		if t != ut {
			return c.numeric(e, t)
		}
		return e
	}
	for i, a := range args {
		if l, isList := a.(*listExpr); isList {
			if len(args) == 1 {
				return c.initList(s, types.Q(t), l.list)
			}
			c.errorf(xs[i], "'{' is not a component")
			return c.bad(at)
		}
	}
	if len(args) == 1 {
		a := valueType(args[0])
		if a.Kind == types.Vector && a.N == ut.N || a.IsScalar() || a.Kind == types.Enum || a.Kind == types.Struct {
			e := c.cast(types.Q(ut), args[0], castC, at)
			if isBad(e) {
				return e
			}
			return pack(e)
		}
	}
	n := 0
	out := &Construct{Node: Node{T: types.Q(ut), Where: at.Span().Start}, How: FromParts}
	var val *Value = &Value{}
	for i, a := range args {
		v := c.rvalue(a)
		vt := v.Type().T
		switch {
		case vt.IsScalar() || vt.Kind == types.Enum:
			v = c.numeric(v, types.Scalar(ut.Elem))
		case vt.Kind == types.Vector:
			v = c.numeric(v, types.Vec(ut.Elem, vt.N))
		case vt.Kind == types.Struct:
			x, r := c.implicit(v, types.Q(types.Scalar(ut.Elem)), true)
			if r == rankNone {
				c.errorf(xs[min(i, len(xs)-1)], "component of type '%s' in '%s'", vt, t)
				return c.bad(at)
			}
			v = x
		default:
			c.errorf(xs[min(i, len(xs)-1)], "component of type '%s' in '%s'", vt, t)
			return c.bad(at)
		}
		n += v.Type().T.Lanes()
		if k := v.Const(); k == nil {
			val = nil
		} else if val != nil {
			if len(k.Elems) > 0 {
				val.Elems = append(val.Elems, k.Elems...)
			} else {
				val.Elems = append(val.Elems, *k)
			}
		}
		out.Args = append(out.Args, v)
	}
	if n != ut.N {
		c.errorf(at, "'%s' from %d components, expected %d", t, n, ut.N)
		return c.bad(at)
	}
	out.Val = val
	return pack(out)
}

func (c *checker) constructMatrix(s *scope, t *types.Type, xs []ast.Expr, at ast.Node) Expr {
	args, ok := c.args(s, xs)
	if !ok {
		return c.bad(at)
	}
	out := &Construct{Node: Node{T: types.Q(t), Where: at.Span().Start}, How: FromParts}
	if len(args) == 1 {
		a := valueType(args[0])
		switch {
		case a.Kind == types.Matrix && a.N == t.N && a.Rows == t.Rows:
			return c.numeric(c.rvalue(args[0]), t)
		case a.IsScalar():
			out.How = Diagonal
			out.Args = []Expr{c.numeric(c.rvalue(args[0]), types.Scalar(t.Elem))}
			return out
		}
	}
	n := 0
	for i, a := range args {
		if l, isList := a.(*listExpr); isList {
			e := c.initList(s, types.Q(t.Column()), l.list)
			if isBad(e) {
				return e
			}
			a = e
		}
		v := c.rvalue(a)
		vt := v.Type().T
		switch {
		case vt.IsScalar():
			v = c.numeric(v, types.Scalar(t.Elem))
		case vt.Kind == types.Vector:
			v = c.numeric(v, types.Vec(t.Elem, vt.N))
			if vt.N != t.Rows {
				n = -100
			}
		default:
			c.errorf(xs[min(i, len(xs)-1)], "column of type '%s' in '%s'", vt, t)
			return c.bad(at)
		}
		n += vt.Lanes()
		out.Args = append(out.Args, v)
	}
	if n != t.N*t.Rows {
		c.errorf(at, "'%s' needs %d columns of %d or %d scalars", t, t.N, t.Rows, t.N*t.Rows)
		return c.bad(at)
	}
	return out
}
