package sema

import (
	"fmt"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// builtinSig is one signature of a library function that the compiler knows.
type builtinSig struct {
	params   []types.Qual
	result   types.Qual
	op       Intrinsic
	optional int  // trailing parameters that may be left out
	generic  bool // ranks as a template
	// resolve finds the signature from the arguments, where the types are not fixed.
	resolve func(c *checker, q *callReq) (*builtinSig, string)
	// build makes the expression; nil makes a Builtin of op.
	build func(c *checker, q *callReq, args []Expr) Expr
	mode  MathMode
}

// tryBuiltin fills a candidate in.
func (c *checker) tryBuiltin(k *cand, q *callReq) {
	s := k.d.bi
	if s.resolve != nil {
		var why string
		if s, why = s.resolve(c, q); s == nil {
			k.why = why
			return
		}
	} else if q.part != nil && q.part.HasArgs {
		k.why = "explicit template arguments do not fit"
		return
	}
	k.sig, k.params = s, s.params
}

// callBuiltin builds the call of a library function.
func (c *checker) callBuiltin(k *cand, q *callReq) Expr {
	s := k.sig
	args := make([]Expr, 0, len(s.params))
	n := &callNode{q.at}
	for i, a := range q.args {
		x := c.coerce(a, s.params[i], fmt.Sprintf("argument %d", i+1), n)
		if isBad(x) {
			return x
		}
		args = append(args, x)
	}
	if s.build != nil {
		return s.build(c, q, args)
	}
	b := &Builtin{Node: Node{T: s.result, Where: q.at.Start}, Op: s.op, Math: s.mode, Args: args}
	if s.result.T.IsScalar() {
		all := true
		for _, a := range args {
			all = all && a.Const() != nil
		}
		if all && len(args) > 0 {
			if v := (&evaluator{c: c, exact: true, frame: map[*Var]*Value{}}).builtin(b); v != nil {
				b.Val = v
			}
		}
	}
	return fold(b)
}

var threadElements = &builtinSig{
	build: nil,
	resolve: func(c *checker, q *callReq) (*builtinSig, string) {
		if q.this == nil {
			return nil, "it needs a simdgroup matrix"
		}
		this := q.this
		return &builtinSig{build: func(c *checker, q *callReq, _ []Expr) Expr {
			t := this.Type()
			if !this.Lvalue() {
				this = &Temp{Node{T: t.In(types.Thread), LV: true, Where: this.Pos()}, this}
				t = this.Type()
			}
			v := t
			v.T = types.Vec(t.T.Elem, 2)
			return &SgElements{Node{T: v, LV: true, Where: q.at.Start}, this}
		}}, ""
	},
}

// identityBuiltin gives back the object of a call of a conversion operator by name.
var identityBuiltin = &builtinSig{resolve: func(c *checker, q *callReq) (*builtinSig, string) {
	this := q.this
	return &builtinSig{build: func(*checker, *callReq, []Expr) Expr { return this }}, ""
}}

// builtinTypeTmpl is a type template of the library that is built in: vec<T, n>.
type builtinTypeTmpl struct {
	name   string
	params []*ast.TemplateParam
	make   func(args []targ) *types.Type
	match  func(t *types.Type) ([]targ, bool)
}

func tparam(name string, value bool, def ast.Expr) *ast.TemplateParam {
	p := &ast.TemplateParam{Name: ast.Ident{Name: name}, DefaultExpr: def}
	if value {
		p.Kind = ast.ValueParam
		p.Type = &ast.BasicType{Kind: ast.Int}
	}
	return p
}

func intArg(n int) targ {
	return targ{kind: targValue, q: types.Q(types.IntType), val: &Value{I: int64(n)}}
}

func typeArg(t *types.Type) targ { return targ{kind: targType, q: types.Q(t)} }

// opaqueTmpl remembers the arguments of a type template of stand-ins.
type opaqueTmpl struct {
	mk   *builtinTypeTmpl
	args []targ
}

var typeTmpls = []*builtinTypeTmpl{
	{name: "vec", params: []*ast.TemplateParam{tparam("T", false, nil), tparam("n", true, nil)},
		make: func(a []targ) *types.Type { return vecOf(a, types.Vec) },
		match: func(t *types.Type) ([]targ, bool) {
			return []targ{typeArg(types.Scalar(t.Elem)), intArg(t.N)}, t.Kind == types.Vector
		}},
	{name: "packed_vec", params: []*ast.TemplateParam{tparam("T", false, nil), tparam("n", true, nil)},
		make: func(a []targ) *types.Type { return vecOf(a, types.Packed) },
		match: func(t *types.Type) ([]targ, bool) {
			return []targ{typeArg(types.Scalar(t.Elem)), intArg(t.N)}, t.Kind == types.PackedVector
		}},
	{name: "matrix", params: []*ast.TemplateParam{tparam("T", false, nil), tparam("cols", true, nil), tparam("rows", true, nil)},
		make: func(a []targ) *types.Type {
			if !a[0].q.T.IsScalar() {
				return nil
			}
			return types.Mat(a[0].q.T.Kind, int(a[1].val.I), int(a[2].val.I))
		},
		match: func(t *types.Type) ([]targ, bool) {
			return []targ{typeArg(types.Scalar(t.Elem)), intArg(t.N), intArg(t.Rows)}, t.Kind == types.Matrix
		}},
	{name: "simdgroup_matrix", params: []*ast.TemplateParam{tparam("T", false, nil), tparam("cols", true, &ast.IntLit{Value: 8, Base: 10}), tparam("rows", true, &ast.IntLit{Value: 8, Base: 10})},
		make: func(a []targ) *types.Type {
			if a[1].val.I != 8 || a[2].val.I != 8 || !a[0].q.T.IsScalar() {
				return nil
			}
			if t := types.SgMat(a[0].q.T.Kind); t != nil {
				return t
			}
			// It may be named, but no object can have it.
			return types.NewStruct("simdgroup_matrix<"+targsString(a)+">", false)
		},
		match: func(t *types.Type) ([]targ, bool) {
			return []targ{typeArg(types.Scalar(t.Elem)), intArg(8), intArg(8)}, t.Kind == types.SgMatrix
		}},
	{name: "_atomic", params: []*ast.TemplateParam{tparam("T", false, nil)},
		make: func(a []targ) *types.Type { return types.AtomicOf(a[0].q.T.Kind) },
		match: func(t *types.Type) ([]targ, bool) {
			return []targ{typeArg(types.Scalar(t.Elem))}, t.Kind == types.Atomic
		}},
	{name: "uniform", params: []*ast.TemplateParam{tparam("T", false, nil)},
		make:  func(a []targ) *types.Type { return a[0].q.T },
		match: func(t *types.Type) ([]targ, bool) { return []targ{typeArg(t)}, true }},
}

func vecOf(a []targ, mk func(types.Kind, int) *types.Type) *types.Type {
	if !a[0].q.T.IsScalar() {
		return nil
	}
	n := a[1].val.I
	if n < 1 || n > 4 {
		return nil
	}
	return mk(a[0].q.T.Kind, int(n))
}

// builtinInstance gives vec<float, 4> and its like.
func (c *checker) builtinInstance(s *scope, m *builtinTypeTmpl, part *ast.NamePart, at source.Span) (types.Qual, bool) {
	as, _, ok := c.allArgs(s, m.params, c.root, part, at)
	if !ok {
		return invalidQ, false
	}
	for _, a := range as {
		if a.kind == targType && a.q.T.Kind == types.Opaque || a.kind == targValue && a.val.I > 1000000 {
			t := types.NewOpaque(m.name + "<" + targsString(as) + ">")
			t.Decl = &opaqueTmpl{m, as}
			return types.Q(t), true
		}
	}
	t := m.make(as)
	if t == nil {
		c.errAt(at, "there is no type %s<%s>", m.name, targsString(as))
		return invalidQ, false
	}
	return types.Q(t), true
}

// matchType gives the arguments with which m makes t.
func (m *builtinTypeTmpl) matchType(t *types.Type) ([]targ, bool) {
	if o, ok := t.Decl.(*opaqueTmpl); ok {
		return o.args, o.mk == m
	}
	if t.Kind == types.Opaque {
		return nil, false
	}
	return m.match(t)
}

var textureNames = []string{"texture1d", "texture1d_array", "texture2d", "texture2d_array", "texture3d", "texturecube", "texturecube_array",
	"texture2d_ms", "texture_buffer", "depth2d", "depth2d_array", "depthcube", "tensor"}

// scalarNames are the type names that are built in, beside C++'s keywords.
var scalarAliases = map[string]*types.Type{
	"half": types.HalfType, "bfloat": types.BFloatType, "uchar": types.UCharType, "ushort": types.UShortType, "uint": types.UIntType,
	"ulong": types.ULongType, "size_t": types.ULongType, "ptrdiff_t": types.LongType, "int8_t": types.CharType, "uint8_t": types.UCharType,
	"int16_t": types.ShortType, "uint16_t": types.UShortType, "int32_t": types.IntType, "uint32_t": types.UIntType, "int64_t": types.LongType,
	"uint64_t": types.ULongType, "intptr_t": types.LongType, "uintptr_t": types.ULongType, "nullptr_t": types.NullPtrType,
	"atomic_int": types.AtomicOf(types.Int), "atomic_uint": types.AtomicOf(types.UInt), "atomic_float": types.AtomicOf(types.Float),
	"atomic_ulong": types.AtomicOf(types.ULong), "atomic_bool": types.AtomicOf(types.Bool),
	"sampler": types.NewTexture("sampler"),
}

// builtinTypes are all names of built-in types.
var builtinTypes = makeBuiltinTypes()

func makeBuiltinTypes() map[string]*types.Type {
	m := map[string]*types.Type{}
	for n, t := range scalarAliases {
		m[n] = t
	}
	for k := types.Bool; k <= types.Float; k++ {
		for n := 2; n <= 4; n++ {
			name := fmt.Sprintf("%s%d", k, n)
			m[name], m["packed_"+name] = types.Vec(k, n), types.Packed(k, n)
			if k.IsFloat() {
				for r := 2; r <= 4; r++ {
					m[fmt.Sprintf("%s%dx%d", k, n, r)] = types.Mat(k, n, r)
				}
			}
		}
		if k.IsFloat() {
			m[fmt.Sprintf("simdgroup_%s8x8", k)] = types.SgMat(k)
		}
	}
	return m
}
