package sema

import (
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/prelude"
	"minfer/metal/msl/types"
)

// initBuiltins makes the global and metal namespaces with what the language gives.
func (c *checker) initBuiltins() {
	c.metal = newScope(nsScope, c.root)
	c.metal.name = "metal"
	c.root.put("metal", &sym{kind: symNamespace, ns: c.metal})
	c.root.lazy = func(name string) *sym {
		if t, ok := builtinTypes[name]; ok {
			return &sym{kind: symType, q: types.Q(t)}
		}
		for _, m := range typeTmpls {
			if m.name == name {
				return &sym{kind: symTypeTmpl, mk: m}
			}
		}
		if mode, ok := mathModes[name]; ok {
			return &sym{kind: symConst, q: types.Q(types.IntType), val: &Value{I: int64(mode)}}
		}
		return nil
	}
	c.libraryScope(c.metal, "metal", MathDefault)
	for name, mode := range map[string]MathMode{"fast": MathFast, "precise": MathPrecise} {
		s := newScope(nsScope, c.metal)
		s.name = name
		c.metal.put(name, &sym{kind: symNamespace, ns: s})
		c.libraryScope(s, "metal::"+name, mode)
	}
}

// libraryScope declares the library's names in a scope when they are first looked up.
func (c *checker) libraryScope(s *scope, path string, mode MathMode) {
	decls := prelude.Decls(path)
	busy := map[string]bool{}
	s.lazy = func(name string) *sym {
		if busy[name] {
			return nil
		}
		busy[name] = true
		if mode == MathDefault {
			for _, m := range typeTmpls {
				if m.name == name && name != "_atomic" {
					return &sym{kind: symTypeTmpl, mk: m}
				}
				if name == "atomic" && m.name == "_atomic" {
					return &sym{kind: symTypeTmpl, mk: m}
				}
			}
			for _, t := range textureNames {
				if t == name {
					return &sym{kind: symTypeTmpl, mk: textureTmpl(name)}
				}
			}
		}
		if b := c.builtinFuncs(name, mode); b != nil {
			s.put(name, &sym{kind: symFunc, fns: b})
		}
		ds := decls[name]
		if len(ds) == 0 {
			return s.syms[name]
		}
		// The library is declared apart from whatever is being checked now.
		sink, cur, unev, stack, in := c.sink, c.cur, c.unev, c.stack, c.inPrelude
		c.sink, c.cur, c.unev, c.stack, c.inPrelude = c.top, nil, 0, nil, true
		for _, d := range ds {
			c.decl(s, d)
		}
		c.sink, c.cur, c.unev, c.stack, c.inPrelude = sink, cur, unev, stack, in
		return s.syms[name]
	}
}

// mathModes are the names that the compiler's own __metal_ functions take as their last
// argument.
var mathModes = map[string]MathMode{"__METAL_MAYBE_FAST_MATH__": MathDefault, "__METAL_FAST_MATH__": MathFast, "__METAL_PRECISE_MATH__": MathPrecise}

func textureTmpl(name string) *builtinTypeTmpl {
	p := tparam("Args", false, nil)
	return &builtinTypeTmpl{name: name, params: []*ast.TemplateParam{p, {Kind: ast.ValueParam, Name: ast.Ident{Name: "a"}, Type: &ast.AutoType{}, DefaultExpr: &ast.IntLit{Base: 10}}},
		make:  func(a []targ) *types.Type { return types.NewTexture(name + "<" + targsString(a[:1]) + ">") },
		match: func(*types.Type) ([]targ, bool) { return nil, false }}
}

// preludeType finds a type of the metal namespace.
func (c *checker) preludeType(name string) *types.Type {
	if y := c.metal.own(name); y != nil && y.kind == symType {
		return y.q.T
	}
	return types.IntType
}

// family is a set of functions with one signature for each type of a class.
type family struct {
	names string
	on    []*types.Type
	sig   string // result(params): T the type, B bool or boolN, E the element, U its unsigned form
	modes bool   // also in namespaces fast and precise
}

var (
	floatTypes = widths(types.Half, types.Float)
	intTypes   = widths(types.Char, types.UChar, types.Short, types.UShort, types.Int, types.UInt, types.Long, types.ULong)
	numTypes   = append(append([]*types.Type{}, intTypes...), floatTypes...)
	anyTypes   = append(append(widths(types.Bool), numTypes...), widths(types.BFloat)...)
	boolVecs   = widths(types.Bool)
)

func widths(ks ...types.Kind) (ts []*types.Type) {
	for _, k := range ks {
		for n := 1; n <= 4; n++ {
			ts = append(ts, types.Vec(k, n))
		}
	}
	return ts
}

// intrinsics are the functions that are one intrinsic each.
var intrinsics = map[string]Intrinsic{
	"fabs": IFabs, "floor": IFloor, "ceil": ICeil, "trunc": ITrunc, "rint": IRint, "round": IRound, "sqrt": ISqrt, "rsqrt": IRsqrt,
	"exp": IExp, "exp2": IExp2, "exp10": IExp10, "log": ILog, "log2": ILog2, "log10": ILog10, "sin": ISin, "cos": ICos, "tan": ITan,
	"sinh": ISinh, "cosh": ICosh, "tanh": ITanh, "asin": IAsin, "acos": IAcos, "atan": IAtan,
	"atan2": IAtan2, "pow": IPow, "powr": IPow, "fmod": IFmod, "fmin": IFmin, "fmax": IFmax, "copysign": ICopysign, "fma": IFma,
	"min": IMin, "max": IMax, "abs": IAbs, "mulhi": IMulHi, "clz": IClz, "ctz": ICtz, "popcount": IPopcount, "reverse_bits": IReverseBits,
	"dot": IDot, "all": IAll, "any": IAny, "select": ISelect,
}

var families = []family{
	{"fabs floor ceil trunc rint round sqrt rsqrt exp exp2 exp10 log log2 log10 sin cos tan sinh cosh tanh asin acos atan", floatTypes, "T(T)", true},
	{"atan2 pow powr fmod fmin fmax copysign", floatTypes, "T(TT)", true},
	{"fma", floatTypes, "T(TTT)", true},
	{"min max", numTypes, "T(TT)", true},
	{"abs", numTypes, "T(T)", true},
	{"mulhi", intTypes, "T(TT)", false},
	{"clz ctz popcount reverse_bits", intTypes, "T(T)", false},
	{"dot", floatTypes[1:4], "E(TT)", false},
	{"dot", floatTypes[5:8], "E(TT)", false},
	{"all any", boolVecs, "b(B)", false},
	{"select", anyTypes, "T(TTB)", false},
}

// builtinFuncs makes the overloads of a library function that is built in.
func (c *checker) builtinFuncs(name string, mode MathMode) (out []*fnDecl) {
	add := func(s *builtinSig) {
		s.mode = mode
		out = append(out, &fnDecl{name: name, bi: s})
	}
	for i := range families {
		f := &families[i]
		if mode != MathDefault && !f.modes || !hasWord(f.names, name) {
			continue
		}
		for _, t := range f.on {
			add(f.signature(t, intrinsics[name]))
		}
	}
	if mode != MathDefault {
		return out
	}
	if g, ok := genericFuncs[name]; ok {
		g := g
		add(&builtinSig{generic: true, resolve: func(c *checker, q *callReq) (*builtinSig, string) { return g(c, q) }})
	}
	if op, ok := simdFuncs[name]; ok {
		add(&builtinSig{generic: true, resolve: simdResolver(op)})
	}
	if op, ok := simdVotes[name]; ok {
		add(op)
	}
	if op, ok := atomicFuncs[name]; ok {
		add(&builtinSig{generic: true, resolve: atomicResolver(op)})
	}
	return out
}

func hasWord(list, w string) bool {
	for _, s := range strings.Fields(list) {
		if s == w {
			return true
		}
	}
	return false
}

func (f *family) signature(t *types.Type, op Intrinsic) *builtinSig {
	res, params, _ := strings.Cut(strings.TrimSuffix(f.sig, ")"), "(")
	s := &builtinSig{op: op, result: types.Q(letter(res[0], t))}
	for i := range params {
		s.params = append(s.params, types.Q(letter(params[i], t)))
	}
	return s
}

func letter(l byte, t *types.Type) *types.Type {
	switch l {
	case 'B':
		return types.Vec(types.Bool, t.Lanes())
	case 'b':
		return types.BoolType
	case 'E':
		return types.Scalar(t.ScalarKind())
	}
	return t
}
