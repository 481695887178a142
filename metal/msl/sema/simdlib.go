package sema

import (
	"fmt"

	"minfer/metal/msl/types"
)

// simdFuncs are the simdgroup and quadgroup functions on a value, by operands: see simdShape.
var simdFuncs = makeSimdFuncs()

type simdFunc struct {
	op    Intrinsic
	shape byte // '1' value; 's' value and ushort; 'f' value, fill, ushort[, ushort]
}

func makeSimdFuncs() map[string]simdFunc {
	m := map[string]simdFunc{}
	names := []struct {
		name  string
		shape byte
		simd  Intrinsic
		quad  Intrinsic
	}{
		{"sum", '1', ISimdSum, IQuadSum}, {"product", '1', ISimdProduct, IQuadProduct}, {"min", '1', ISimdMin, IQuadMin}, {"max", '1', ISimdMax, IQuadMax},
		{"and", '1', ISimdAnd, IQuadAnd}, {"or", '1', ISimdOr, IQuadOr}, {"xor", '1', ISimdXor, IQuadXor},
		{"prefix_inclusive_sum", '1', ISimdPrefixInclusiveSum, IQuadPrefixInclusiveSum}, {"prefix_exclusive_sum", '1', ISimdPrefixExclusiveSum, IQuadPrefixExclusiveSum},
		{"prefix_inclusive_product", '1', ISimdPrefixInclusiveProduct, IQuadPrefixInclusiveProduct}, {"prefix_exclusive_product", '1', ISimdPrefixExclusiveProduct, IQuadPrefixExclusiveProduct},
		{"shuffle", 's', ISimdShuffle, IQuadShuffle}, {"broadcast", 's', ISimdBroadcast, IQuadBroadcast}, {"shuffle_up", 's', ISimdShuffleUp, IQuadShuffleUp},
		{"shuffle_down", 's', ISimdShuffleDown, IQuadShuffleDown}, {"shuffle_xor", 's', ISimdShuffleXor, IQuadShuffleXor},
		{"shuffle_rotate_up", 's', ISimdShuffleRotateUp, IQuadShuffleRotateUp}, {"shuffle_rotate_down", 's', ISimdShuffleRotateDown, IQuadShuffleRotateDown},
		{"broadcast_first", '1', ISimdBroadcastFirst, IQuadBroadcastFirst},
		{"shuffle_and_fill_up", 'f', ISimdShuffleAndFillUp, IQuadShuffleAndFillUp}, {"shuffle_and_fill_down", 'f', ISimdShuffleAndFillDown, IQuadShuffleAndFillDown},
	}
	for _, n := range names {
		m["simd_"+n.name] = simdFunc{n.simd, n.shape}
		m["quad_"+n.name] = simdFunc{n.quad, n.shape}
	}
	return m
}

func simdResolver(f simdFunc) func(*checker, *callReq) (*builtinSig, string) {
	return func(c *checker, q *callReq) (*builtinSig, string) {
		if q.part != nil && q.part.HasArgs {
			return nil, "explicit template arguments do not fit"
		}
		want := map[byte]int{'1': 1, 's': 2, 'f': 4}[f.shape]
		if len(q.args) > want || len(q.args) < want && !(f.shape == 'f' && len(q.args) == 3) {
			return nil, fmt.Sprintf("found %d arguments, expected %d", len(q.args), want)
		}
		t := valueType(q.args[0])
		k := t.ScalarKind()
		if !t.IsScalar() && t.Kind != types.Vector {
			return nil, fmt.Sprintf("argument 1 is '%s', expected a scalar or vector", t)
		}
		switch {
		case k == types.Bool:
			return nil, "bool has no simdgroup functions but votes"
		case k == types.Long || k == types.ULong:
			return nil, fmt.Sprintf("argument 1 is '%s': 64-bit integers have no simdgroup functions", t)
		case k.IsFloat() && (f.op == ISimdAnd || f.op == ISimdOr || f.op == ISimdXor || f.op == IQuadAnd || f.op == IQuadOr || f.op == IQuadXor):
			return nil, fmt.Sprintf("argument 1 is '%s', expected an integer", t)
		}
		s := &builtinSig{op: f.op, result: types.Q(t), params: []types.Qual{types.Q(t)}, generic: true}
		switch f.shape {
		case 's':
			s.params = append(s.params, types.Q(types.UShortType))
		case 'f':
			s.params = append(s.params, types.Q(t), types.Q(types.UShortType))
			n := 32
			if f.op == IQuadShuffleAndFillUp || f.op == IQuadShuffleAndFillDown {
				n = 4
			}
			if len(q.args) == 4 {
				s.params = append(s.params, types.Q(types.UShortType))
			} else {
				s.build = func(c *checker, q *callReq, args []Expr) Expr {
					mod := &ConstExpr{Node{T: types.Q(types.UShortType), Val: &Value{I: int64(n)}, Where: q.at.Start}}
					return &Builtin{Node: Node{T: types.Q(t), Where: q.at.Start}, Op: f.op, Args: append(args, mod)}
				}
			}
		}
		return s, ""
	}
}

var simdVotes = map[string]*builtinSig{
	"simd_any": vote(ISimdAny, types.BoolType, true), "simd_all": vote(ISimdAll, types.BoolType, true),
	"quad_any": vote(IQuadAny, types.BoolType, true), "quad_all": vote(IQuadAll, types.BoolType, true),
	"simd_ballot": vote(ISimdBallot, types.ULongType, true), "quad_ballot": vote(IQuadBallot, types.UShortType, true),
	"simd_is_first": vote(ISimdIsFirst, types.BoolType, false), "quad_is_first": vote(IQuadIsFirst, types.BoolType, false),
	"simd_active_threads_mask": vote(ISimdActiveMask, types.ULongType, false), "quad_active_threads_mask": vote(IQuadActiveMask, types.UShortType, false),
}

func vote(op Intrinsic, result *types.Type, arg bool) *builtinSig {
	s := &builtinSig{op: op, result: types.Q(result)}
	if arg {
		s.params = []types.Qual{types.Q(types.BoolType)}
	}
	if op == ISimdBallot || op == ISimdActiveMask || op == IQuadBallot || op == IQuadActiveMask {
		name := "simd_vote"
		if op == IQuadBallot || op == IQuadActiveMask {
			name = "quad_vote"
		}
		return &builtinSig{resolve: func(c *checker, q *callReq) (*builtinSig, string) {
			t := *s
			t.build = func(c *checker, q *callReq, args []Expr) Expr {
				m := &Builtin{Node: Node{T: types.Q(result), Where: q.at.Start}, Op: op, Args: args}
				vt := c.preludeType(name)
				if r := recordOf(vt); r != nil && c.completeType(vt, q.at) {
					if k := c.pick(&callReq{name: name, fns: r.ctors, args: []Expr{m}, at: q.at}); k != nil {
						return c.ctorCall(k, []Expr{m}, vt, q.at)
					}
				}
				return m
			}
			return &t, ""
		}}
	}
	return s
}

// atomicFuncs are the atomic operations, by operands after the pointer.
var atomicFuncs = map[string]atomicFunc{
	"atomic_load_explicit": {IAtomicLoad, "="}, "atomic_store_explicit": {IAtomicStore, "v"}, "atomic_exchange_explicit": {IAtomicExchange, "=v"},
	"atomic_compare_exchange_weak_explicit": {IAtomicCompareExchange, "?"},
	"atomic_fetch_add_explicit":             {IAtomicFetchAdd, "=v"}, "atomic_fetch_sub_explicit": {IAtomicFetchSub, "=v"}, "atomic_fetch_and_explicit": {IAtomicFetchAnd, "=v"},
	"atomic_fetch_or_explicit": {IAtomicFetchOr, "=v"}, "atomic_fetch_xor_explicit": {IAtomicFetchXor, "=v"}, "atomic_fetch_min_explicit": {IAtomicFetchMin, "=v"},
	"atomic_fetch_max_explicit": {IAtomicFetchMax, "=v"}, "atomic_min_explicit": {IAtomicMin, "v"}, "atomic_max_explicit": {IAtomicMax, "v"},
}

type atomicFunc struct {
	op    Intrinsic
	shape string
}

func atomicResolver(f atomicFunc) func(*checker, *callReq) (*builtinSig, string) {
	return func(c *checker, q *callReq) (*builtinSig, string) {
		if len(q.args) == 0 || valueType(q.args[0]).Kind != types.Pointer && valueType(q.args[0]).Kind != types.Array {
			return nil, "argument 1 is no pointer to an atomic"
		}
		p := c.rvalue(q.args[0]).Type().T
		of := p.Of
		if of.T.Kind != types.Atomic {
			return nil, fmt.Sprintf("argument 1 is '%s', expected a pointer to an atomic", p)
		}
		if of.Space != types.Device && of.Space != types.Threadgroup {
			return nil, fmt.Sprintf("argument 1 is '%s': atomics live in device or threadgroup memory", p)
		}
		if of.Const && f.op != IAtomicLoad {
			return nil, fmt.Sprintf("argument 1 is '%s', which is read-only", p)
		}
		k := of.T.Elem
		if why := atomicRule(f.op, k, of.Space); why != "" {
			return nil, why
		}
		e := types.Q(types.Scalar(k))
		order := types.Q(c.preludeType("memory_order"))
		s := &builtinSig{op: f.op, result: types.Q(types.VoidType), params: []types.Qual{types.Q(p)}, generic: true}
		orders := 1
		switch f.shape {
		case "=":
			s.result = e
		case "=v":
			s.result = e
			s.params = append(s.params, e)
		case "v":
			s.params = append(s.params, e)
		case "?":
			s.result = types.Q(types.BoolType)
			s.params = append(s.params, types.Q(types.PointerTo(types.Q(e.T).In(types.Thread))))
			s.params = append(s.params, e)
			orders = 2
		}
		n := len(s.params)
		for range orders {
			s.params = append(s.params, order)
		}
		res := s.result
		s.build = func(c *checker, q *callReq, args []Expr) Expr {
			for _, o := range args[n:] {
				v, _ := c.eval(o)
				if v == nil || v.I != 0 {
					c.errAt(q.at, "memory order of '%s' must be memory_order_relaxed", q.name)
				}
			}
			return &Builtin{Node: Node{T: res, Where: q.at.Start}, Op: f.op, Args: args[:n]}
		}
		return s, ""
	}
}

// atomicRule says which atomics exist: int and uint everywhere; float and ulong in device
// memory and not for every operation.
func atomicRule(op Intrinsic, k types.Kind, sp types.Space) string {
	only := op == IAtomicMin || op == IAtomicMax
	switch {
	case only && k != types.ULong:
		return fmt.Sprintf("this form of atomic exists for ulong only, found %s", k)
	case k == types.ULong && !only:
		return "atomic_ulong has only atomic_min_explicit and atomic_max_explicit"
	case (k == types.ULong || k == types.Float) && sp != types.Device:
		return fmt.Sprintf("atomic_%s is for device memory", k)
	case k == types.Float && (op == IAtomicFetchAnd || op == IAtomicFetchOr || op == IAtomicFetchXor || op == IAtomicFetchMin || op == IAtomicFetchMax):
		return "atomic_float has no such operation"
	case k == types.Bool && op != IAtomicLoad && op != IAtomicStore && op != IAtomicExchange && op != IAtomicCompareExchange:
		return "atomic_bool has no such operation"
	}
	return ""
}
