package lower

import (
	"sort"

	"minfer/metal/msl/sema"
)

// Uses is what a kernel and the functions that it calls refer to.
type Uses struct {
	// Constants are the function constants, by index, those of conditions on parameters included.
	Constants []*sema.Var
	// Static is the threadgroup memory of the kernel's own variables in bytes, each
	// rounded up to its alignment.
	Static int
}

// UsesOf walks a checked kernel. What specialisation would remove counts too.
func UsesOf(k *sema.Kernel) Uses {
	w := &walker{funcs: map[*sema.Func]bool{}, vars: map[*sema.Var]bool{}}
	for _, p := range k.Params {
		if p != nil && p.Gate != nil {
			w.variable(p.Gate)
		}
	}
	if k.Func != nil {
		w.function(k.Func)
	}
	var u Uses
	for v := range w.vars {
		switch v.Kind {
		case sema.FuncConstVar:
			u.Constants = append(u.Constants, v)
		case sema.ThreadgroupVar:
			a := max(v.Type.T.Align(), v.Align)
			u.Static += (v.Type.T.Size() + a - 1) / a * a
		}
	}
	sort.Slice(u.Constants, func(i, j int) bool { return u.Constants[i].FuncConst < u.Constants[j].FuncConst })
	return u
}

type walker struct {
	funcs map[*sema.Func]bool
	vars  map[*sema.Var]bool
}

func (w *walker) variable(v *sema.Var) {
	if v == nil || w.vars[v] {
		return
	}
	w.vars[v] = true
	w.expr(v.Init)
}

func (w *walker) function(f *sema.Func) {
	if f == nil || w.funcs[f] {
		return
	}
	w.funcs[f] = true
	for _, i := range f.Inits {
		w.expr(i.Init)
	}
	if f.Body != nil {
		w.stmt(f.Body)
	}
}

func (w *walker) stmts(list []sema.Stmt) {
	for _, s := range list {
		w.stmt(s)
	}
}

func (w *walker) stmt(s sema.Stmt) {
	switch s := s.(type) {
	case *sema.Block:
		if s != nil {
			w.stmts(s.Stmts)
		}
	case *sema.ExprStmt:
		w.expr(s.X)
	case *sema.DeclStmt:
		w.variable(s.Var)
	case *sema.If:
		w.expr(s.C)
		w.stmt(s.Then)
		w.stmt(s.Else)
	case *sema.Loop:
		w.stmts(s.Init)
		w.expr(s.C)
		w.expr(s.Post)
		w.stmt(s.Body)
	case *sema.Switch:
		w.expr(s.X)
		for _, c := range s.Cases {
			w.stmts(c.Body)
		}
	case *sema.Return:
		w.expr(s.X)
	}
}

func (w *walker) exprs(list []sema.Expr) {
	for _, e := range list {
		w.expr(e)
	}
}

func (w *walker) expr(e sema.Expr) {
	switch e := e.(type) {
	case *sema.VarRef:
		w.variable(e.Var)
	case *sema.FuncRef:
		w.function(e.Func)
	case *sema.Load:
		w.expr(e.X)
	case *sema.Temp:
		w.expr(e.X)
	case *sema.FieldExpr:
		w.expr(e.X)
	case *sema.Swizzle:
		w.expr(e.X)
	case *sema.IndexExpr:
		w.expr(e.X)
		w.expr(e.I)
	case *sema.Deref:
		w.expr(e.X)
	case *sema.AddrOf:
		w.expr(e.X)
	case *sema.SgElements:
		w.expr(e.X)
	case *sema.Unary:
		w.expr(e.X)
	case *sema.Binary:
		w.expr(e.L)
		w.expr(e.R)
	case *sema.PtrAdd:
		w.expr(e.P)
		w.expr(e.I)
	case *sema.PtrDiff:
		w.expr(e.L)
		w.expr(e.R)
	case *sema.Cond:
		w.expr(e.C)
		w.expr(e.A)
		w.expr(e.B)
	case *sema.Assign:
		w.expr(e.L)
		w.expr(e.R)
	case *sema.IncDec:
		w.expr(e.X)
	case *sema.Convert:
		w.expr(e.X)
	case *sema.Construct:
		w.exprs(e.Args)
	case *sema.InitList:
		for _, x := range e.Elems {
			w.expr(x.X)
		}
	case *sema.Call:
		w.function(e.Func)
		w.expr(e.This)
		w.exprs(e.Args)
	case *sema.Builtin:
		w.exprs(e.Args)
	case *sema.Comma:
		w.expr(e.L)
		w.expr(e.R)
	}
}
