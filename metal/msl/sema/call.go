package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// use notes that the function under check calls f, and sees to f's body.
func (c *checker) use(f *Func) {
	if c.unev > 0 || f == nil {
		return
	}
	if c.cur != nil && c.cur != f || c.cur == f && f != nil {
		st := c.cur.checker
		if !st.calleeSet[f] {
			if st.calleeSet == nil {
				st.calleeSet = map[*Func]bool{}
			}
			st.calleeSet[f] = true
			st.callees = append(st.callees, f)
		}
	}
	c.queue(f)
}

func (c *checker) queue(f *Func) {
	st := f.checker
	if st.state == bodyNone && st.def != nil {
		st.state = bodyQueued
		c.later = append(c.later, f)
	}
}

// ensureBody checks f's body now: its result type or its value is needed.
func (c *checker) ensureBody(f *Func, at source.Span) bool {
	st := f.checker
	if st.def == nil && !st.trivial {
		c.errAt(at, "function '%s' is used before its definition", f.Name)
		return false
	}
	if st.state == bodyChecking {
		return !st.autoResult
	}
	if st.state != bodyDone && !st.trivial {
		if !c.enter(at) {
			return false
		}
		c.checkBody(f)
		c.leave()
	}
	return st.sink.errs == 0
}

// thisFits says that a method can be called on the object e.
func (c *checker) thisFits(f *Func, e Expr) bool {
	if f.This == nil {
		return true
	}
	want, q := f.This.Type.T.Of, e.Type()
	if !e.Lvalue() {
		q.Space = types.Thread // the temporary
	}
	if q.T != want.T && !derivesFrom(q.T, want.T) {
		return false
	}
	return types.SameSpace(want.Space, q.Space) && (want.Const || !q.Const)
}

// thisArg makes the object of a call: an lvalue of the method's class.
func (c *checker) thisArg(f *Func, e Expr) Expr {
	if f.This == nil {
		return nil
	}
	if !e.Lvalue() {
		e = &Temp{Node{T: e.Type().In(types.Thread), LV: true, Where: e.Pos()}, e}
	}
	return c.toBase(e, f.This.Type.T.Of.T)
}

// finishCall converts the arguments and builds the call of a chosen function.
func (c *checker) finishCall(f *Func, this Expr, args []Expr, at source.Span) Expr {
	n := &callNode{at}
	out := make([]Expr, 0, len(f.Params))
	okay := true
	for i, p := range f.Params {
		var a Expr
		if i < len(args) {
			a = c.coerce(args[i], p.Type, "argument '"+p.Name+"'", exprNode{args[i]})
		} else {
			a = c.defaultArgument(f, i, n)
		}
		okay = okay && !isBad(a)
		out = append(out, a)
	}
	if !okay {
		return &badExpr{Node{T: invalidQ, Where: at.Start}}
	}
	if f.checker.kernel {
		c.errAt(at, "kernel '%s' can't be called", f.Name)
	}
	if f.checker.autoResult && !c.ensureBody(f, at) {
		return &badExpr{Node{T: invalidQ, Where: at.Start}}
	}
	c.use(f)
	call := &Call{Node: Node{T: f.Result, Where: at.Start}, Func: f, This: this, Args: out}
	if f.Result.T.Kind == types.Reference {
		call.T, call.LV = f.Result.T.Of, true
	}
	return call
}

func (c *checker) defaultArgument(f *Func, i int, at ast.Node) Expr {
	x := f.checker.decl.defaultArg(i)
	if x == nil {
		c.errorf(at, "no argument for parameter '%s' of '%s'", f.Params[i].Name, f.Name)
		return c.bad(at)
	}
	e, ok := c.initFrom(f.checker.scope, f.Params[i].Type, x)
	if !ok {
		return c.bad(at)
	}
	return e
}

// ctorCall calls a constructor: the new object as a value.
func (c *checker) ctorCall(k *cand, args []Expr, t *types.Type, at source.Span) Expr {
	e := c.finishCall(k.f, nil, args, at)
	if call, ok := e.(*Call); ok {
		call.T = types.Q(t)
	}
	return e
}

// callNode and exprNode let diagnostics point at checked things.
type callNode struct{ at source.Span }

func (n *callNode) Span() source.Span { return n.at }

type exprNode struct{ e Expr }

func (n exprNode) Span() source.Span { return span(n.e.Pos()) }

// listExpr is {a, b} as an argument, before its type is known.
type listExpr struct {
	Node
	list  *ast.InitList
	scope *scope
}

// singleFunc gives the function that an expression names, if it is just one.
func (c *checker) singleFunc(e Expr) (*Func, bool) {
	switch e := e.(type) {
	case *FuncRef:
		return e.Func, true
	case *AddrOf:
		return c.singleFunc(e.X)
	case *overloadSet:
		var found *Func
		for _, d := range e.fns {
			var f *Func
			switch {
			case d.bi != nil:
				return nil, false
			case d.tparams == nil:
				f = c.sigOf(d)
			case e.part != nil && e.part.HasArgs:
				// Only an instance whose arguments are all written or defaulted counts.
				k := &cand{d: d}
				c.tryTemplate(k, &callReq{name: e.name, part: e.part, scope: e.scope, at: span(e.Pos()), quiet: true})
				f = k.f
			}
			if f == nil {
				continue
			}
			if found != nil {
				return nil, false
			}
			found = f
		}
		return found, found != nil
	}
	return nil, false
}

// pickByType chooses the function of a set that has a given type; template
// arguments are deduced from it.
func (c *checker) pickByType(e Expr, ft *types.Type, at ast.Node) (*Func, bool) {
	f, why := c.matchFuncType(e, ft)
	if f == nil {
		c.errorf(at, "no function matches type '%s'%s", ft, why)
		return nil, false
	}
	c.use(f)
	return f, true
}

func (c *checker) matchFuncType(e Expr, ft *types.Type) (*Func, string) {
	switch e := e.(type) {
	case *FuncRef:
		if types.Identical(e.Func.typ(), ft) {
			return e.Func, ""
		}
		return nil, ": '" + e.Func.Name + "' is '" + e.Func.typ().String() + "'"
	case *overloadSet:
		why := ""
		var found *Func
		fromTmpl := false
		for _, d := range e.fns {
			if d.bi != nil || d.rec != nil && !d.static {
				continue
			}
			var f *Func
			if d.tparams == nil {
				f = c.sigOf(d)
			} else {
				if len(d.ast.Params) != len(ft.Params) || found != nil && !fromTmpl {
					continue
				}
				b := newBindings(d.scope, d.tparams)
				ok := true
				c.trap(func() {
					if e.part != nil && e.part.HasArgs {
						var as []targ
						as, ok = c.bindWritten(e.scope, d.tparams, newScope(templateScope, d.scope), e.part.Args, span(e.Pos()))
						for i, a := range as {
							b.args[i], b.fixed[i] = a, a.kind != targNone
						}
					}
					for i, p := range d.ast.Params {
						ok = ok && c.deduce(b, decayParam(p.Type), ft.Params[i])
					}
					if ok && d.ast.Result != nil {
						ok = c.deduce(b, d.ast.Result, ft.Result)
					}
					if ok {
						f = c.instance(d, b, span(e.Pos()))
					}
				})
			}
			if f == nil {
				continue
			}
			if !types.Identical(f.typ(), ft) {
				why = ": candidate '" + f.Name + "' is '" + f.typ().String() + "'"
				continue
			}
			if found == nil || fromTmpl && d.tparams == nil {
				found, fromTmpl = f, d.tparams != nil
			}
		}
		return found, why
	}
	return nil, ": found '" + exprTypeString(e) + "'"
}

// implicitFunc converts a function name to a function pointer or reference.
func (c *checker) implicitFunc(s *overloadSet, to types.Qual, build bool) (Expr, rank) {
	ft := funcTypeOf(to.T)
	if ft == nil {
		return s, rankNone
	}
	f, _ := c.matchFuncType(s, ft)
	if f == nil {
		return s, rankNone
	}
	if build {
		c.use(f)
	}
	return &FuncRef{Node: Node{T: to, Where: s.Pos()}, Func: f}, rankExact
}

// call checks Fn(Args...).
func (c *checker) call(s *scope, e *ast.CallExpr) Expr {
	if n, ok := e.Fn.(*ast.NameExpr); ok {
		if y, part, ok := c.calleeType(s, n); ok {
			q, ok := c.symAsType(s, y, part, n.Span())
			if !ok {
				return c.bad(e)
			}
			return c.construct(s, q, e.Args, false, e)
		}
		if x, ok := c.builtinCall(s, n, e); ok {
			return x
		}
	}
	fn := c.calleeExpr(s, e.Fn, e.Args)
	args, ok := c.args(s, e.Args)
	if !ok || isBad(fn) {
		return c.bad(e)
	}
	return c.callExpr(fn, args, e)
}

// calleeType finds a name that is a type although the parser did not know it.
func (c *checker) calleeType(s *scope, n *ast.NameExpr) (*sym, *ast.NamePart, bool) {
	var y *sym
	t := c.trap(func() {
		if r, ok := c.resolve(s, n.Name); ok {
			y = r.sym
		}
	})
	if t.errs > 0 || y == nil {
		return nil, nil, false
	}
	switch y.kind {
	case symType, symClassTmpl, symAliasTmpl, symTypeTmpl:
		return y, n.Name.Last(), true
	}
	return nil, nil, false
}

// calleeExpr checks the callee; a name that is only found through its arguments
// gives an empty set.
func (c *checker) calleeExpr(s *scope, fn ast.Expr, args []ast.Expr) Expr {
	n, ok := fn.(*ast.NameExpr)
	if !ok || !plainButArgs(n.Name) {
		return c.expr(s, fn)
	}
	part := n.Name.Last()
	if y := c.lookup(s, part.Ident); y == nil && len(args) > 0 {
		return &overloadSet{Node: Node{T: types.Q(types.VoidType), Where: n.Start}, name: part.Ident, part: part, scope: s, adl: true}
	}
	return c.expr(s, fn)
}

// args checks call arguments, packs expanded.
func (c *checker) args(s *scope, xs []ast.Expr) ([]Expr, bool) {
	out := make([]Expr, 0, len(xs))
	ok := true
	for _, x := range xs {
		if p, isPack := x.(*ast.PackExpr); isPack {
			ok = c.eachPack(s, p.X, func(es *scope) bool {
				e := c.expr(es, p.X)
				out = append(out, e)
				return !isBad(e)
			}) && ok
			continue
		}
		if l, isList := x.(*ast.InitList); isList {
			out = append(out, &listExpr{Node: Node{T: types.Q(types.VoidType), Where: l.Start}, list: l, scope: s})
			continue
		}
		e := c.expr(s, x)
		ok = ok && !isBad(e)
		out = append(out, e)
	}
	return out, ok
}

// callExpr calls a checked callee.
func (c *checker) callExpr(fn Expr, args []Expr, at ast.Node) Expr {
	switch f := fn.(type) {
	case *overloadSet:
		fns := f.fns
		if f.adl {
			fns = c.withADL(fns, f.name, args)
		}
		if len(fns) == 0 {
			c.errorf(at, "use of undeclared name '%s'", f.name)
			return c.bad(at)
		}
		q := &callReq{name: f.name, fns: fns, part: f.part, scope: f.scope, this: f.this, args: args, at: at.Span()}
		if f.this == nil {
			q.this = c.implicitThis(f.scope, fns)
		}
		k := c.pick(q)
		if k == nil {
			return c.bad(at)
		}
		return c.callCand(k, q)
	case *FuncRef:
		if len(args) != len(f.Func.Params) {
			c.errorf(at, "call of '%s': found %d arguments, expected %d", f.Func.Name, len(args), len(f.Func.Params))
			return c.bad(at)
		}
		return c.finishCall(f.Func, nil, args, at.Span())
	}
	t := fn.Type().T
	if t.Kind == types.Struct {
		if r := recordOf(t); r != nil {
			c.completeType(t, at.Span())
			if y := c.lookupRecord(r, "operator()"); y != nil && y.kind == symFunc {
				q := &callReq{name: t.Name + "::operator()", fns: y.fns, this: fn, args: args, at: at.Span()}
				k := c.pick(q)
				if k == nil {
					return c.bad(at)
				}
				return c.callCand(k, q)
			}
		}
	}
	if t.Kind == types.Pointer && t.Of.T.Kind == types.Function || t.Kind == types.Function {
		if v := fn.Const(); v == nil {
			c.errorf(at, "calls through function pointers known only at run time are not supported")
			return c.bad(at)
		}
	}
	c.errorf(at, "'%s' is not a function", fn.Type())
	return c.bad(at)
}

// callCand builds the call of a chosen candidate.
func (c *checker) callCand(k *cand, q *callReq) Expr {
	if k.sig != nil {
		return c.callBuiltin(k, q)
	}
	var this Expr
	if k.f.This != nil && q.this != nil && !k.f.Ctor {
		this = c.thisArg(k.f, q.this)
	}
	if k.d.ast.Delete {
		c.errAt(q.at, "'%s' is deleted", k.f.Name)
	}
	return c.finishCall(k.f, this, q.args, q.at)
}

// implicitThis is the object that a method's own class members are called on.
func (c *checker) implicitThis(s *scope, fns []*fnDecl) Expr {
	for _, d := range fns {
		if d.rec == nil || d.static || s == nil || s.this == nil {
			continue
		}
		of := s.this.Type.T.Of
		if of.T == d.rec.t || derivesFrom(of.T, d.rec.t) {
			return &VarRef{Node: Node{T: of, LV: true, Where: s.this.Pos}, Var: s.this}
		}
	}
	return nil
}

// withADL adds the functions of the namespaces that the arguments' types are in.
func (c *checker) withADL(fns []*fnDecl, name string, args []Expr) []*fnDecl {
	var seen map[*fnDecl]bool
	for _, a := range args {
		t := a.Type().T
		for t.Kind == types.Pointer || t.Kind == types.Array {
			t = t.Of.T
		}
		var ns *scope
		if r := recordOf(t); r != nil {
			ns = r.scope.parent
			for ns != nil && ns.kind != nsScope {
				ns = ns.parent
			}
		} else if e, ok := t.Decl.(*enumInfo); ok {
			ns = e.ns
		}
		if ns == nil {
			continue
		}
		y := ns.own(name)
		if y == nil || y.kind != symFunc {
			continue
		}
		if seen == nil {
			seen = map[*fnDecl]bool{}
			for _, d := range fns {
				seen[d] = true
			}
			fns = fns[:len(fns):len(fns)]
		}
		for _, d := range y.fns {
			if !seen[d] {
				seen[d] = true
				fns = append(fns, d)
			}
		}
	}
	return fns
}
