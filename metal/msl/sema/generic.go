package sema

import (
	"fmt"
	"math"
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/types"
)

// genericFuncs are library functions whose signature follows from the arguments.
var genericFuncs = map[string]func(*checker, *callReq) (*builtinSig, string){
	"simdgroup_load":                 resolveSgLoad,
	"simdgroup_store":                resolveSgStore,
	"simdgroup_multiply":             resolveSgMul,
	"simdgroup_multiply_accumulate":  resolveSgMul,
	"make_filled_simdgroup_matrix":   resolveSgFill,
	"make_diagonal_simdgroup_matrix": resolveSgFill,
	"threadgroup_barrier":            resolveBarrier,
	"simdgroup_barrier":              resolveBarrier,
	"atomic_thread_fence":            resolveBarrier,
	"transpose":                      resolveTranspose,
	"select":                         resolveSelect,
	"make_uniform":                   resolveIdentity,
}

func resolveIdentity(c *checker, q *callReq) (*builtinSig, string) {
	if len(q.args) != 1 {
		return nil, fmt.Sprintf("found %d arguments, expected 1", len(q.args))
	}
	t := types.Q(valueType(q.args[0]))
	return &builtinSig{params: []types.Qual{t}, result: t, generic: true, build: func(_ *checker, _ *callReq, args []Expr) Expr { return args[0] }}, ""
}

// sgMemory checks pointer, stride, origin and flag of a matrix load or store.
func sgMemory(c *checker, q *callReq, k types.Kind, write bool) ([]types.Qual, string) {
	t := c.rvalue(q.args[1]).Type().T
	if t.Kind != types.Pointer || t.Of.T.Kind != k {
		return nil, fmt.Sprintf("argument 2 is '%s', expected a pointer to %s", t, k)
	}
	sp := t.Of.Space
	if sp != types.Device && sp != types.Threadgroup && (sp != types.Constant || write) {
		return nil, fmt.Sprintf("argument 2 is '%s', expected device or threadgroup memory", t)
	}
	if write && t.Of.Const {
		return nil, fmt.Sprintf("argument 2 is '%s', which is read-only", t)
	}
	return []types.Qual{types.Q(t), types.Q(types.ULongType), types.Q(types.Vec(types.ULong, 2)), types.Q(types.BoolType)}, ""
}

// fillSg adds the default stride, origin and flag.
func fillSg(q *callReq, args []Expr) []Expr {
	at := q.at.Start
	if len(args) < 3 {
		args = append(args, &ConstExpr{Node{T: types.Q(types.ULongType), Val: &Value{I: 8}, Where: at}})
	}
	if len(args) < 4 {
		args = append(args, &Construct{Node: Node{T: types.Q(types.Vec(types.ULong, 2)), Val: &Value{Elems: []Value{{}, {}}}, Where: at}, How: Zero})
	}
	if len(args) < 5 {
		args = append(args, &ConstExpr{Node{T: types.Q(types.BoolType), Val: &Value{}, Where: at}})
	}
	return args
}

func resolveSgLoad(c *checker, q *callReq) (*builtinSig, string) {
	if len(q.args) < 2 || len(q.args) > 5 {
		return nil, fmt.Sprintf("found %d arguments, expected 2 to 5", len(q.args))
	}
	d := q.args[0].Type()
	if d.T.Kind != types.SgMatrix || !q.args[0].Lvalue() {
		return nil, fmt.Sprintf("argument 1 is '%s', expected a simdgroup matrix variable", d)
	}
	ps, why := sgMemory(c, q, d.T.Elem, false)
	if why != "" {
		return nil, why
	}
	ref := types.Q(types.ReferenceTo(types.Q(d.T).In(types.Thread)))
	return &builtinSig{params: append([]types.Qual{ref}, ps...), result: types.Q(types.VoidType), optional: 3, generic: true,
		build: func(c *checker, q *callReq, args []Expr) Expr {
			return &Builtin{Node: Node{T: types.Q(types.VoidType), Where: q.at.Start}, Op: ISgLoad, Args: fillSg(q, args)}
		}}, ""
}

func resolveSgStore(c *checker, q *callReq) (*builtinSig, string) {
	if len(q.args) < 2 || len(q.args) > 5 {
		return nil, fmt.Sprintf("found %d arguments, expected 2 to 5", len(q.args))
	}
	a := valueType(q.args[0])
	if a.Kind != types.SgMatrix {
		return nil, fmt.Sprintf("argument 1 is '%s', expected a simdgroup matrix", a)
	}
	ps, why := sgMemory(c, q, a.Elem, true)
	if why != "" {
		return nil, why
	}
	return &builtinSig{params: append([]types.Qual{types.Q(a)}, ps...), result: types.Q(types.VoidType), optional: 3, generic: true,
		build: func(c *checker, q *callReq, args []Expr) Expr {
			return &Builtin{Node: Node{T: types.Q(types.VoidType), Where: q.at.Start}, Op: ISgStore, Args: fillSg(q, args)}
		}}, ""
}

// resolveSgMul takes the mixtures of element types that shipped kernels use: a and b float,
// half or bfloat (half and bfloat not together), d and c one type.
func resolveSgMul(c *checker, q *callReq) (*builtinSig, string) {
	want, op := 3, ISgMul
	if strings.HasSuffix(q.name, "accumulate") {
		want, op = 4, ISgMulAdd
	}
	if len(q.args) != want {
		return nil, fmt.Sprintf("found %d arguments, expected %d", len(q.args), want)
	}
	var ts []*types.Type
	for i, a := range q.args {
		t := valueType(a)
		if t.Kind != types.SgMatrix {
			return nil, fmt.Sprintf("argument %d is '%s', expected a simdgroup matrix", i+1, a.Type())
		}
		ts = append(ts, t)
	}
	a, b := ts[1].Elem, ts[2].Elem
	if a != b && a != types.Float && b != types.Float {
		return nil, fmt.Sprintf("'%s' times '%s'", ts[1], ts[2])
	}
	if op == ISgMulAdd && ts[0] != ts[3] {
		return nil, fmt.Sprintf("the result is '%s' and the addend '%s', expected one type", ts[0], ts[3])
	}
	if !q.args[0].Lvalue() {
		return nil, "argument 1 is not a variable"
	}
	s := &builtinSig{op: op, result: types.Q(types.VoidType), generic: true, params: []types.Qual{types.Q(types.ReferenceTo(types.Q(ts[0]).In(types.Thread)))}}
	for _, t := range ts[1:] {
		s.params = append(s.params, types.Q(t))
	}
	return s, ""
}

// resolveSgFill is make_filled_simdgroup_matrix<T, 8, 8>(value).
func resolveSgFill(c *checker, q *callReq) (*builtinSig, string) {
	if len(q.args) != 1 {
		return nil, fmt.Sprintf("found %d arguments, expected 1", len(q.args))
	}
	var t *types.Type
	if q.part != nil && q.part.HasArgs {
		m := typeTmpls[3]
		as, _, ok := c.allArgs(q.scope, m.params, c.root, q.part, q.at)
		if ok {
			t = m.make(as)
		}
	} else {
		t = types.SgMat(valueType(q.args[0]).Kind)
	}
	if t == nil {
		return nil, "expected template arguments <T, 8, 8> with T half, bfloat or float"
	}
	op := ISgFill
	if strings.Contains(q.name, "diagonal") {
		op = ISgDiag
	}
	return &builtinSig{op: op, result: types.Q(t), params: []types.Qual{types.Q(types.Scalar(t.Elem))}, generic: true}, ""
}

func resolveTranspose(c *checker, q *callReq) (*builtinSig, string) {
	if len(q.args) != 1 || valueType(q.args[0]).Kind != types.Matrix {
		return nil, "expected one matrix"
	}
	t := valueType(q.args[0])
	return &builtinSig{op: ITranspose, params: []types.Qual{types.Q(t)}, result: types.Q(types.Mat(t.Elem, t.Rows, t.N)), generic: true}, ""
}

// resolveSelect takes select with an integer vector as the condition: its sign bit counts.
func resolveSelect(c *checker, q *callReq) (*builtinSig, string) {
	if len(q.args) != 3 {
		return nil, fmt.Sprintf("found %d arguments, expected 3", len(q.args))
	}
	t, k := valueType(q.args[0]), valueType(q.args[2])
	if t.Kind != types.Vector || k.Kind != types.Vector || k.N != t.N || !k.Elem.IsSigned() || k.Elem.Size() != t.Elem.Size() {
		return nil, fmt.Sprintf("condition is '%s'", k)
	}
	return &builtinSig{generic: true, params: []types.Qual{types.Q(t), types.Q(t), types.Q(k)}, result: types.Q(t), build: func(c *checker, q *callReq, a []Expr) Expr {
		n := Node{T: types.Q(types.Vec(types.Bool, t.N)), Where: q.at.Start}
		neg := &Binary{n, Lt, a[2], &Construct{Node: Node{T: types.Q(k), Val: zeroValue(k), Where: q.at.Start}, How: Zero}}
		return &Builtin{Node: Node{T: types.Q(t), Where: q.at.Start}, Op: ISelect, Args: []Expr{a[0], a[1], neg}}
	}}, ""
}

func resolveBarrier(c *checker, q *callReq) (*builtinSig, string) {
	flags, order, scope := types.Q(c.preludeType("mem_flags")), types.Q(c.preludeType("memory_order")), types.Q(c.preludeType("thread_scope"))
	s := &builtinSig{params: []types.Qual{flags}, result: types.Q(types.VoidType), generic: true}
	op := IThreadgroupBarrier
	switch q.name {
	case "threadgroup_barrier", "simdgroup_barrier":
		s.params = append(s.params, scope)
		if len(q.args) > 2 {
			s.params = append(s.params, scope)
		}
		s.optional = len(s.params) - 1
		if q.name == "simdgroup_barrier" {
			op = ISimdgroupBarrier
		}
		s.op = op
	default:
		s.op, op = IFence, IFence
		s.params = append(s.params, order, scope)
		s.optional = 1
	}
	s.build = func(c *checker, q *callReq, args []Expr) Expr {
		v, _ := c.eval(args[0])
		if v == nil {
			c.errAt(q.at, "mem_flags of '%s' must be a constant expression", q.name)
			return &badExpr{Node{T: invalidQ, Where: q.at.Start}}
		}
		out := []Expr{&ConstExpr{Node{T: flags, Val: v, Where: q.at.Start}}}
		if op == IFence {
			sc := &Value{I: 2}
			if len(args) > 2 {
				if k, _ := c.eval(args[2]); k != nil {
					sc = k
				}
			}
			out = append(out, &ConstExpr{Node{T: scope, Val: sc, Where: q.at.Start}})
		}
		if c.cur != nil && c.unev == 0 {
			c.cur.checker.constexpr = false
		}
		return &Builtin{Node: Node{T: types.Q(types.VoidType), Where: q.at.Start}, Op: op, Args: out}
	}
	return s, ""
}

// builtinCall checks calls of names that take types or unread lvalues, and of
// the compiler's own functions.
func (c *checker) builtinCall(s *scope, n *ast.NameExpr, e *ast.CallExpr) (Expr, bool) {
	part := n.Name.Last()
	id := part.Ident
	at := e.Start
	switch {
	case id == "as_type" && part.HasArgs:
		return c.asType(s, part, e), true
	case id == "is_function_constant_defined" && len(e.Args) == 1:
		x := c.expr(s, e.Args[0])
		if isBad(x) {
			return c.bad(e), true
		}
		v, ok := x.(*VarRef)
		if !ok || v.Var.Kind != FuncConstVar {
			c.errorf(e, "is_function_constant_defined needs a function constant")
			return c.bad(e), true
		}
		return &Builtin{Node: Node{T: types.Q(types.BoolType), Where: at}, Op: IFuncConstDefined, Args: []Expr{x}}, true
	case strings.HasPrefix(id, "__is_"):
		return c.typeTrait(s, id, e)
	case strings.HasPrefix(id, "__builtin_") || strings.HasPrefix(id, "__metal_"):
		if c.lookup(s, id) != nil {
			return nil, false
		}
		return c.compilerFunc(s, id, e)
	}
	return nil, false
}

func (c *checker) asType(s *scope, part *ast.NamePart, e *ast.CallExpr) Expr {
	if len(part.Args) != 1 || len(e.Args) != 1 {
		c.errorf(e, "as_type needs one type and one value")
		return c.bad(e)
	}
	a, ok := c.templateArg(s, &ast.TemplateParam{Name: ast.Ident{Name: "T"}}, s, part.Args[0])
	x := c.rvalue(c.expr(s, e.Args[0]))
	if !ok || isBad(x) {
		return c.bad(e)
	}
	from, to := x.Type().T, a.q.T
	okType := func(t *types.Type) bool { return t.IsScalar() || t.IsVector() }
	if !okType(from) || !okType(to) || from.ScalarKind() == types.Bool || to.ScalarKind() == types.Bool {
		c.errorf(e, "as_type from '%s' to '%s', expected scalars or vectors of numbers", from, to)
		return c.bad(e)
	}
	if from.Size() != to.Size() {
		c.errorf(e, "as_type from '%s' (%d bytes) to '%s' (%d bytes), expected equal sizes", from, from.Size(), to, to.Size())
		return c.bad(e)
	}
	k := &Convert{Node: Node{T: types.Q(to), Where: e.Start}, How: ConvBits, X: x}
	if x.Const() != nil {
		k.Val = (&evaluator{c: c, frame: map[*Var]*Value{}}).convert(k)
	}
	return fold(k)
}

// typeTrait evaluates __is_same(A, B) and its like.
func (c *checker) typeTrait(s *scope, id string, e *ast.CallExpr) (Expr, bool) {
	var qs []types.Qual
	for _, a := range e.Args {
		switch a := a.(type) {
		case *ast.TypeExpr:
			qs = append(qs, c.typ(s, a.Type))
		case *ast.NameExpr:
			y, part, ok := c.calleeType(s, a)
			if !ok {
				return nil, false
			}
			q, ok := c.symAsType(s, y, part, a.Span())
			if !ok {
				return c.bad(e), true
			}
			qs = append(qs, q)
		default:
			return nil, false
		}
	}
	if len(qs) == 0 {
		return nil, false
	}
	for _, q := range qs {
		if bad(q) {
			return c.bad(e), true
		}
	}
	t := qs[0].T
	var r bool
	switch id {
	case "__is_same":
		r = len(qs) == 2 && types.IdenticalQ(qs[0], qs[1])
	case "__is_floating_point":
		r = t.IsFloat()
	case "__is_integral":
		r = t.IsInteger()
	case "__is_arithmetic":
		r = t.IsScalar()
	case "__is_signed":
		r = t.IsFloat() || t.Kind.IsSigned()
	case "__is_unsigned":
		r = t.IsInteger() && !t.Kind.IsSigned()
	case "__is_enum":
		r = t.Kind == types.Enum
	case "__is_class":
		r = t.Kind == types.Struct && !t.Union
	case "__is_union":
		r = t.Kind == types.Struct && t.Union
	case "__is_void":
		r = t.Kind == types.Void
	case "__is_const":
		r = qs[0].Const
	case "__is_pointer":
		r = t.Kind == types.Pointer
	case "__is_reference":
		r = t.Kind == types.Reference
	case "__is_array":
		r = t.Kind == types.Array
	case "__is_vector":
		r = t.Kind == types.Vector
	case "__is_empty":
		r = t.Kind == types.Struct && len(t.Fields) == 0
	case "__is_trivial", "__is_trivially_copyable", "__is_pod":
		r = t.Kind != types.Void && t.Kind != types.Reference
	case "__is_base_of":
		r = len(qs) == 2 && (qs[0].T == qs[1].T && t.Kind == types.Struct || derivesFrom(qs[1].T, qs[0].T))
	case "__is_convertible", "__is_convertible_to":
		if len(qs) == 2 {
			_, rk := c.implicit(&badExpr{Node{T: qs[0].Bare()}}, qs[1], false)
			r = rk != rankNone
		}
	case "__is_constructible":
		r = len(qs) > 0
	default:
		return nil, false
	}
	return &ConstExpr{Node{T: types.Q(types.BoolType), Val: boolValue(r), Where: e.Start}}, true
}

// compilerFunc checks the functions that begin with __builtin_ and __metal_.
func (c *checker) compilerFunc(s *scope, id string, e *ast.CallExpr) (Expr, bool) {
	num := func(t *types.Type, f float64) (Expr, bool) {
		return &ConstExpr{Node{T: types.Q(t), Val: &Value{F: f}, Where: e.Start}}, true
	}
	switch id {
	case "__builtin_inff", "__builtin_huge_valf":
		return num(types.FloatType, math.Inf(1))
	case "__builtin_nanf", "__builtin_nan":
		return num(types.FloatType, math.NaN())
	case "__builtin_unreachable":
		return &Builtin{Node: Node{T: types.Q(types.VoidType), Where: e.Start}, Op: IUnreachable}, true
	}
	if rest, ok := strings.CutPrefix(id, "__metal_"); ok {
		return c.metalFunc(s, rest, e), true
	}
	args, ok := c.args(s, e.Args)
	if !ok {
		return c.bad(e), true
	}
	one := func(op Intrinsic, t, res *types.Type) (Expr, bool) {
		if len(args) != 1 {
			c.errorf(e, "%s needs one argument", id)
			return c.bad(e), true
		}
		x := c.coerce(args[0], types.Q(t), "argument 1", e)
		if isBad(x) {
			return x, true
		}
		return c.numeric(&Builtin{Node: Node{T: types.Q(t), Where: e.Start}, Op: op, Args: []Expr{x}}, res), true
	}
	switch id {
	case "__builtin_ctz":
		return one(ICtz, types.UIntType, types.IntType)
	case "__builtin_clz":
		return one(IClz, types.UIntType, types.IntType)
	case "__builtin_popcount":
		return one(IPopcount, types.UIntType, types.IntType)
	case "__builtin_ctzll", "__builtin_ctzl":
		return one(ICtz, types.ULongType, types.IntType)
	case "__builtin_clzll", "__builtin_clzl":
		return one(IClz, types.ULongType, types.IntType)
	case "__builtin_popcountll", "__builtin_popcountl":
		return one(IPopcount, types.ULongType, types.IntType)
	case "__builtin_assume":
		if len(args) == 1 {
			b := c.toBool(args[0], e)
			return &Builtin{Node: Node{T: types.Q(types.VoidType), Where: e.Start}, Op: IAssume, Args: []Expr{b}}, true
		}
	case "__builtin_expect":
		if len(args) == 2 {
			return c.coerce(args[0], types.Q(types.LongType), "argument 1", e), true
		}
	case "__builtin_fabsf":
		return one(IFabs, types.FloatType, types.FloatType)
	}
	c.errorf(e, "compiler function '%s' is not supported", id)
	return c.bad(e), true
}

// metalFunc checks __metal_f(args, mode): the library's f of that mode.
func (c *checker) metalFunc(s *scope, name string, e *ast.CallExpr) Expr {
	in, xs := c.metal, e.Args
	if len(xs) > 0 {
		if n, ok := xs[len(xs)-1].(*ast.NameExpr); ok {
			if mode, ok := mathModes[n.Name.Last().Ident]; ok {
				xs = xs[:len(xs)-1]
				if mode != MathDefault {
					in = c.metal.own([...]string{MathFast: "fast", MathPrecise: "precise"}[mode]).ns
				}
			}
		}
	}
	args, ok := c.args(s, xs)
	if !ok {
		return c.bad(e)
	}
	var fns []*fnDecl
	for _, sc := range []*scope{in, c.metal} {
		if y := sc.own(name); y != nil && y.kind == symFunc && len(fns) == 0 {
			for _, d := range y.fns {
				// The library's own: not what the program adds under the same name.
				if d.bi != nil || !d.pos.Start.IsValid() {
					fns = append(fns, d)
				}
			}
		}
	}
	if len(fns) == 0 {
		c.errorf(e, "compiler function '__metal_%s' is not supported", name)
		return c.bad(e)
	}
	return c.callExpr(&overloadSet{Node: Node{T: types.Q(types.VoidType), Where: e.Start}, name: name, fns: fns, scope: s}, args, e)
}

// lambda is not supported: no kernel of the first version needs one.
func (c *checker) lambda(s *scope, x *ast.LambdaExpr) Expr {
	c.errorf(x, "lambda expressions are not supported")
	return c.bad(x)
}
