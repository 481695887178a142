package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// effects evaluates an expression for what it does.
func (l *lowerer) effects(e sema.Expr) {
	switch e := e.(type) {
	case *sema.Assign, *sema.IncDec:
		if e.Lvalue() {
			l.lv(e)
			return
		}
	case *sema.Convert:
		if e.How == sema.ConvVoid {
			l.effects(e.X)
			return
		}
	case *sema.Comma:
		l.effects(e.L)
		l.effects(e.R)
		return
	}
	if e.Lvalue() {
		l.lv(e)
		return
	}
	l.rv(e)
}

// rv evaluates a value.
func (l *lowerer) rv(e sema.Expr) value {
	defer l.at(l.at(e.Pos()))
	if l.instrs > maxInstrs {
		l.fail(e.Pos(), "the kernel has more than %d instructions after inlining", maxInstrs)
	}
	if c := e.Const(); c != nil && !e.Lvalue() {
		return l.constValue(e.Type().T, c)
	}
	if e.Lvalue() {
		// Where a value is wanted of something that kept its place.
		return l.load(l.lv(e))
	}
	switch e := e.(type) {
	case *sema.Load:
		return l.loadExpr(e)
	case *sema.FieldExpr:
		return l.fieldValue(e)
	case *sema.Swizzle:
		x := l.rv(e.X)
		v := value{typ: e.T.T}
		for _, c := range e.Comps {
			v.s = append(v.s, x.s[c])
		}
		return v
	case *sema.IndexExpr:
		return l.indexValue(e)
	case *sema.AddrOf:
		p := l.lv(e.X)
		if p.comps != nil || p.lanes {
			l.fail(e.Where, "the address of components of a vector is taken")
		}
		return value{e.T.T, []ir.Value{p.ptr}}
	case *sema.Unary:
		return l.unary(e)
	case *sema.Binary:
		return l.binaryExpr(e)
	case *sema.PtrAdd:
		p := l.rv(e.P)
		i := l.rv(e.I)
		return value{e.T.T, []ir.Value{l.move(p.s[0], i, e.P.Type().T, e.Neg)}}
	case *sema.PtrDiff:
		a, b := l.rv(e.L), l.rv(e.R)
		l.at(e.Where)
		d := l.emit(ir.PtrDiff, ir.I64, 0, a.s[0], b.s[0])
		size := int64(max(e.L.Type().T.Of.T.Size(), 1))
		return value{e.T.T, []ir.Value{l.emit(ir.SDiv, ir.I64, 0, d, l.i64(size))}}
	case *sema.Cond:
		return l.condValue(e)
	case *sema.IncDec:
		old, _ := l.incDec(e)
		return old
	case *sema.Convert:
		return l.convert(e)
	case *sema.Construct:
		return l.construct(e)
	case *sema.InitList:
		return l.initList(e)
	case *sema.Call:
		return l.call(e).val
	case *sema.Builtin:
		return l.builtin(e)
	case *sema.Comma:
		l.effects(e.L)
		return l.rv(e.R)
	}
	l.fail(e.Pos(), "an expression of kind %T is not supported as a value", e)
	return value{}
}

// lv evaluates an lvalue, or puts a value into an object.
func (l *lowerer) lv(e sema.Expr) place {
	defer l.at(l.at(e.Pos()))
	if !e.Lvalue() {
		return l.spill(l.rv(e))
	}
	switch e := e.(type) {
	case *sema.VarRef:
		return l.variable(e.Var)
	case *sema.Temp:
		return l.spill(l.rv(e.X))
	case *sema.FieldExpr:
		return l.field(l.lv(e.X), e.Field)
	case *sema.Swizzle:
		p := l.lv(e.X)
		comps := e.Comps
		if p.comps != nil {
			comps = make([]uint8, len(e.Comps))
			for k, c := range e.Comps {
				comps[k] = p.comps[c]
			}
		}
		if len(comps) == 1 && !p.lanes {
			p.comps = nil
			return l.component(p, int(comps[0]), p.typ.Elem.Size())
		}
		p.comps = comps
		return p
	case *sema.IndexExpr:
		return l.index(l.lv(e.X), e.I)
	case *sema.Deref:
		if p, ok := l.lanesAgain(e); ok {
			return p
		}
		return l.placeAt(l.rv(e.X).s[0], e.T)
	case *sema.SgElements:
		p := l.lv(e.X)
		p.lanes = true
		return p
	case *sema.Cond:
		return l.condPlace(e)
	case *sema.Assign:
		return l.assign(e)
	case *sema.IncDec:
		_, p := l.incDec(e)
		return p
	case *sema.Call:
		return l.call(e).place
	case *sema.Comma:
		l.effects(e.L)
		return l.lv(e.R)
	case *sema.Convert:
		switch e.How {
		case sema.ConvBase:
			p := l.lv(e.X)
			p.typ = e.T.T
			return p
		case sema.ConvPointer, sema.ConvBits:
			p := l.lv(e.X)
			p.typ = e.T.T
			return p
		}
	case *sema.ConstExpr:
		return l.spill(l.constValue(e.T.T, e.Val))
	}
	l.fail(e.Pos(), "an expression of kind %T is not supported as an object", e)
	return place{}
}

// lanesAgain sees through a cast of the address of thread_elements(), as in
// reinterpret_cast<thread float2 &>(m.thread_elements()): the elements have no address, but
// as the vector that they are they need none.
func (l *lowerer) lanesAgain(e *sema.Deref) (place, bool) {
	x := e.X
	for {
		c, ok := x.(*sema.Convert)
		if !ok || c.How != sema.ConvPointer {
			break
		}
		x = c.X
	}
	a, ok := x.(*sema.AddrOf)
	if !ok {
		return place{}, false
	}
	m, ok := a.X.(*sema.SgElements)
	if !ok {
		return place{}, false
	}
	p := l.lv(m)
	if t := e.T.T; t.Kind != types.Vector || t.N != 2 || t.Elem != p.typ.Elem {
		l.fail(e.Where, "thread_elements() of %s is used as %s", p.typ, t)
	}
	return p, true
}

// loadExpr reads an lvalue, a known constant where it is one.
func (l *lowerer) loadExpr(e *sema.Load) value {
	if r, ok := e.X.(*sema.VarRef); ok {
		v := r.Var
		switch {
		case v.Kind == sema.FuncConstVar:
			return l.funcConst(v, e.Where)
		case v.Value != nil && v.Type.T.Kind != types.Array && v.Type.T.Kind != types.Struct && (v.Type.Const || v.Kind == sema.GlobalVar):
			return l.constValue(v.Type.T, v.Value)
		case v.Kind == sema.GlobalVar && v.Value == nil && v.Init != nil:
			return l.rv(v.Init)
		}
	}
	if c, ok := e.X.(*sema.Cond); ok {
		// The value of the chosen object, not the address of the choice, which would keep
		// both in memory.
		return l.choose(c, func(x sema.Expr) value {
			arm := *e
			arm.X = x
			return l.loadExpr(&arm)
		})
	}
	p := l.lv(e.X)
	l.at(e.Where)
	return l.load(p)
}

func (l *lowerer) funcConst(v *sema.Var, at source.Pos) value {
	c, ok := l.opt.Constants[v.FuncConst]
	if !ok {
		l.fail(at, "function constant %s (index %d) is used and has no value", v.Name, v.FuncConst)
	}
	return l.constValue(v.Type.T, &c)
}

func (l *lowerer) variable(v *sema.Var) place {
	for f := l.fr; f != nil; f = f.up {
		if p, ok := f.vars[v]; ok {
			return p
		}
	}
	switch {
	case v.Kind == sema.ThreadgroupVar:
		n, ok := l.statics[v]
		if !ok {
			n = l.b.Static(ir.Static{Name: v.Name, Size: v.Type.T.Size(), Align: max(v.Type.T.Align(), v.Align), Pos: l.b.Pos()})
			l.statics[v] = n
		}
		return place{ptr: l.emit(ir.PtrStatic, ir.Ptr, uint64(n)), typ: v.Type.T, space: ir.Threadgroup, align: v.Align}
	case v.Kind == sema.FuncConstVar:
		return l.spill(l.funcConst(v, l.where))
	case v.Value != nil:
		if v.Type.T.Kind == types.Reference {
			return l.placeAt(l.address(v.Value), v.Type.T.Of)
		}
		return place{ptr: l.table(v), typ: v.Type.T, space: ir.Constant, align: v.Align}
	case v.Kind == sema.GlobalVar && v.Init != nil:
		if v.Type.T.Kind == types.Reference {
			return l.lv(v.Init)
		}
		l.fail(l.where, "the address of %s, which is computed from function constants, is not supported", v.Name)
	}
	l.fail(l.where, "the variable %s has no place here", v.Name)
	return place{}
}

func (l *lowerer) field(p place, f *types.Field) place {
	q := place{ptr: l.offset(p.ptr, f.Offset), typ: f.Type.T, space: p.space, coherent: p.coherent}
	q.align = max(p.typ.Align(), p.align)
	if f.Offset != 0 {
		q.align = min(q.align, f.Offset&-f.Offset)
	}
	if f.Type.T.Kind == types.Reference {
		return l.placeAt(l.load(q).s[0], f.Type.T.Of)
	}
	return q
}

func (l *lowerer) fieldValue(e *sema.FieldExpr) value {
	x := l.rv(e.X)
	t := x.typ
	if t.Kind != types.Struct || t.Union || e.Field.Type.T.Kind == types.Reference {
		return l.load(l.field(l.spill(x), e.Field))
	}
	from := 0
	for i := range e.Field.Index {
		from += len(l.leaves(t.Fields[i].Type.T))
	}
	return value{e.Field.Type.T, x.s[from : from+len(l.leaves(e.Field.Type.T))]}
}

// asI64 widens an index of any integer type.
func (l *lowerer) asI64(v value) ir.Value {
	return l.convScalar(v.s[0], v.typ.ScalarKind(), types.Long)
}

// move gives the pointer p of type t moved by i elements.
func (l *lowerer) move(p ir.Value, i value, t *types.Type, neg bool) ir.Value {
	n := l.asI64(i)
	if neg {
		n = l.emit(ir.Sub, ir.I64, 0, l.i64(0), n)
	}
	size := max(t.Of.T.Size(), 1)
	off := l.emit(ir.Mul, ir.I64, 0, n, l.i64(int64(size)))
	if c, ok := l.constOf(off); ok && c == 0 {
		return p
	}
	return l.emit(ir.PtrAdd, ir.Ptr, 0, p, off)
}

func (l *lowerer) index(p place, ie sema.Expr) place {
	i := l.rv(ie)
	n := l.asI64(i)
	c, known := l.constOf(n)
	if p.comps != nil || p.lanes {
		width := uint64(2)
		if p.comps != nil {
			width = uint64(len(p.comps))
		}
		if !known || c >= width {
			l.fail(ie.Pos(), "the index of a swizzle or of thread_elements() must be a constant below %d", width)
		}
		comp := uint8(c)
		if p.comps != nil {
			comp = p.comps[c]
		}
		if p.lanes {
			p.comps = []uint8{comp}
			return p
		}
		p.comps = nil
		return l.component(p, int(comp), p.typ.Elem.Size())
	}
	var e *types.Type
	switch p.typ.Kind {
	case types.Array:
		e = p.typ.Of.T
	case types.Matrix:
		e = p.typ.Column()
	case types.Vector, types.PackedVector:
		e = types.Scalar(p.typ.Elem)
		if known && c < uint64(p.typ.N) {
			return l.component(p, int(c), e.Size())
		}
	default:
		l.fail(ie.Pos(), "a value of type %s is indexed", p.typ)
	}
	q := place{typ: e, space: p.space, coherent: p.coherent}
	off := l.emit(ir.Mul, ir.I64, 0, n, l.i64(int64(e.Size())))
	q.ptr = p.ptr
	if !known || c != 0 {
		q.ptr = l.emit(ir.PtrAdd, ir.Ptr, 0, p.ptr, off)
	} else {
		q.align = max(p.typ.Align(), p.align)
	}
	return q
}

func (l *lowerer) indexValue(e *sema.IndexExpr) value {
	x := l.rv(e.X)
	i := l.rv(e.I)
	n := len(l.leaves(e.T.T))
	if c, ok := l.constOf(l.asI64(i)); ok && n > 0 && c < uint64(len(x.s)/n) {
		return value{e.T.T, x.s[int(c)*n : int(c+1)*n]}
	}
	return l.load(l.index(l.spill(x), e.I))
}

func (l *lowerer) typesOf(t *types.Type) []ir.Type {
	var out []ir.Type
	for _, f := range l.leaves(t) {
		out = append(out, f.typ)
	}
	return out
}

func (l *lowerer) condValue(e *sema.Cond) value { return l.choose(e, l.rv) }

// choose evaluates one side with f, where the type is not void.
func (l *lowerer) choose(e *sema.Cond, f func(x sema.Expr) value) value {
	c := l.rv(e.C).s[0]
	if k, ok := l.constOf(c); ok {
		if k != 0 {
			return f(e.A)
		}
		return f(e.B)
	}
	l.at(e.Where)
	void := e.T.T.Kind == types.Void
	var ts []ir.Type
	if !void {
		ts = l.typesOf(e.T.T)
	}
	arm := func(x sema.Expr) func() []ir.Value {
		return func() []ir.Value {
			if void {
				l.effects(x)
				return nil
			}
			return f(x).s
		}
	}
	return value{e.T.T, l.b.If(c, ts, arm(e.A), arm(e.B))}
}

func (l *lowerer) condPlace(e *sema.Cond) place {
	c := l.rv(e.C).s[0]
	if k, ok := l.constOf(c); ok {
		if k != 0 {
			return l.lv(e.A)
		}
		return l.lv(e.B)
	}
	l.at(e.Where)
	arm := func(x sema.Expr) func() []ir.Value {
		return func() []ir.Value {
			p := l.lv(x)
			if p.comps != nil || p.lanes {
				l.fail(x.Pos(), "components of a vector are chosen as an object")
			}
			return []ir.Value{p.ptr}
		}
	}
	v := l.b.If(c, []ir.Type{ir.Ptr}, arm(e.A), arm(e.B))
	return l.placeAt(v[0], e.T)
}

// typeAt is the type of what a place stands for.
func typeAt(p place) *types.Type {
	switch {
	case p.comps != nil:
		return types.Vec(p.typ.Elem, len(p.comps))
	case p.lanes:
		return types.Vec(p.typ.Elem, 2)
	}
	return p.typ
}

func (l *lowerer) assign(e *sema.Assign) place {
	r := l.rv(e.R)
	p := l.lv(e.L)
	l.at(e.Where)
	if !e.Compound {
		l.store(p, r)
		return p
	}
	t := typeAt(p)
	old := l.load(p)
	if t.Kind == types.Pointer {
		l.store(p, value{t, []ir.Value{l.move(old.s[0], r, t, e.Op == sema.Sub)}})
		return p
	}
	old = l.convNumeric(old, e.OpType)
	l.store(p, l.convNumeric(l.arith(e.Op, old, r, e.OpType), t))
	return p
}

func (l *lowerer) incDec(e *sema.IncDec) (old value, p place) {
	p = l.lv(e.X)
	l.at(e.Where)
	old = l.load(p)
	t := typeAt(p)
	next := value{typ: t}
	if t.Kind == types.Pointer {
		one := value{types.IntType, []ir.Value{l.const_(ir.I32, 1)}}
		next.s = []ir.Value{l.move(old.s[0], one, t, e.Dec)}
	}
	for _, x := range old.s {
		if t.Kind == types.Pointer {
			break
		}
		op, it := ir.Add, l.b.TypeOf(x)
		switch {
		case it.IsFloat():
			op = ir.FAdd
			if e.Dec {
				op = ir.FSub
			}
			next.s = append(next.s, l.emit(op, it, l.contraction(), x, l.const_(it, it.FloatBits(1))))
			continue
		case it == ir.I1:
			next.s = append(next.s, l.const_(it, 1))
			continue
		case e.Dec:
			op = ir.Sub
		}
		next.s = append(next.s, l.emit(op, it, 0, x, l.const_(it, 1)))
	}
	l.store(p, next)
	return old, p
}

func (l *lowerer) construct(e *sema.Construct) value {
	v := value{typ: e.T.T}
	switch e.How {
	case sema.Zero:
		return l.zero(e.T.T)
	case sema.Diagonal:
		x := l.rv(e.Args[0]).s[0]
		zero := l.zeroOf(l.b.TypeOf(x))
		for c := range v.typ.N {
			for r := range v.typ.Rows {
				if c == r {
					v.s = append(v.s, x)
				} else {
					v.s = append(v.s, zero)
				}
			}
		}
		return v
	}
	for _, a := range e.Args {
		v.s = append(v.s, l.rv(a).s...)
	}
	if want := len(l.leaves(e.T.T)); len(v.s) != want {
		l.fail(e.Where, "%s is built from %d scalars, expected %d", e.T.T, len(v.s), want)
	}
	return v
}

func (l *lowerer) initList(e *sema.InitList) value {
	t := e.T.T
	if t.Kind == types.Struct && t.Union {
		p := l.spill(l.zero(t))
		for _, x := range e.Elems {
			f := &t.Fields[x.Index]
			v := l.rv(x.X)
			l.store(l.field(p, f), v)
		}
		return l.load(p)
	}
	v := l.zero(t)
	// The place of each member among the leaves.
	var start []int
	n := 0
	switch t.Kind {
	case types.Struct:
		for i := range t.Fields {
			start = append(start, n)
			n += len(l.leaves(t.Fields[i].Type.T))
		}
	case types.Array:
		each := len(l.leaves(t.Of.T))
		for range max(t.N, 0) {
			start = append(start, n)
			n += each
		}
	default: // a scalar or vector in braces
		for i := range v.s {
			start = append(start, i)
		}
	}
	for _, x := range e.Elems {
		var s []ir.Value
		if t.Kind == types.Struct && t.Fields[x.Index].Type.T.Kind == types.Reference {
			s = []ir.Value{l.lv(x.X).ptr}
		} else {
			s = l.rv(x.X).s
		}
		for k := x.Index; k <= max(x.Last, x.Index); k++ {
			if k < 0 || k >= len(start) || start[k]+len(s) > len(v.s) {
				l.fail(e.Where, "an initialiser for element %d of %s", k, t)
			}
			copy(v.s[start[k]:], s)
		}
	}
	return v
}
