package sema

import (
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// checkBody checks a function's body once.
func (c *checker) checkBody(f *Func) {
	st := f.checker
	if st.def == nil || st.state == bodyChecking || st.state == bodyDone {
		return
	}
	st.state = bodyChecking
	sink, cur, stack, unev, depth := c.sink, c.cur, c.stack, c.unev, c.depth
	c.sink, c.cur, c.stack, c.unev = &st.sink, f, st.stack, 0
	if c.depth > c.opt.MaxDepth/2 {
		// A deep chain of on-demand bodies: count it, don't restart it.
		c.depth++
	} else {
		c.depth = 0
	}
	defer func() {
		c.sink, c.cur, c.stack, c.unev, c.depth = sink, cur, stack, unev, depth
		st.state = bodyDone
	}()
	s := newScope(blockScope, st.scope)
	s.fn, s.this, s.rec = f, f.This, nil
	if st.decl.rec != nil {
		s.rec = st.decl.rec
	}
	c.bindParams(s, f, st.def)
	if f.Ctor {
		c.memberInits(s, f, st.def)
	}
	if st.def.Body == nil {
		f.Body = &Block{}
		return
	}
	b := &bodyCtx{c: c, f: f}
	f.Body = &Block{Math: st.fp}
	b.stmts(s, st.def.Body.Stmts, &f.Body.Stmts, &f.Body.Math)
	if st.autoResult {
		st.autoResult = false
	}
	if f.Result.T.Kind != types.Void && !f.Ctor && !terminates(f.Body) && st.sink.errs == 0 {
		c.warnAt(source.Span{Start: f.Pos, End: f.Pos}, "control may reach the end of '%s', which returns '%s'", f.Name, f.Result)
	}
}

// bindParams puts the parameters in scope; packs under their name.
func (c *checker) bindParams(s *scope, f *Func, def *ast.FuncDecl) {
	k := 0
	for _, p := range def.Params {
		if p.Pack || isPackType(p.Type) {
			y := &sym{kind: symPack, pos: p.Name.Span()}
			for ; k < len(f.Params); k++ {
				y.pack = append(y.pack, targ{sym: &sym{v: f.Params[k]}})
			}
			s.put(p.Name.Name, y)
			continue
		}
		if k >= len(f.Params) {
			break
		}
		v := f.Params[k]
		k++
		if p.Name.Name != "" {
			v.Name = p.Name.Name
			if old := s.own(p.Name.Name); old != nil {
				c.errorf(p, "parameter '%s' is declared twice", p.Name.Name)
			}
			s.put(p.Name.Name, &sym{kind: symVar, v: v, pos: p.Name.Span()})
		}
	}
}

// memberInits checks a constructor's initialiser list, in member order.
func (c *checker) memberInits(s *scope, f *Func, def *ast.FuncDecl) {
	t := f.Result.T
	r := recordOf(t)
	if r == nil {
		return
	}
	done := map[int]bool{}
	for _, in := range def.Inits {
		name := in.Name.Last().Ident
		var field *types.Field
		if y := r.scope.own(name); y != nil && y.kind == symField {
			fd, ok := t.Field(name)
			if !ok {
				c.errorf(in, "member '%s' of an anonymous struct or union can't be initialised here", name)
				continue
			}
			field = fd
		} else {
			q := c.typ(s, &ast.NamedType{Range: in.Name.Range, Name: in.Name})
			if bad(q) {
				continue
			}
			if q.T == t { // delegating
				e := c.construct(s, q, in.Args, in.Braces, in)
				if !isBad(e) {
					f.Body = &Block{}
					f.Inits = append(f.Inits, MemberInit{Init: e})
				}
				return
			}
			if t.Base != q.T {
				c.errorf(in, "'%s' is no member or base of '%s'", name, t)
				continue
			}
			if len(t.Fields) == 0 || !t.Fields[0].IsBase {
				continue // an empty base
			}
			field = &t.Fields[0]
		}
		if done[field.Index] {
			c.errorf(in, "member '%s' is initialised twice", name)
			continue
		}
		done[field.Index] = true
		var e Expr
		switch {
		case field.Type.T.Kind == types.Reference && len(in.Args) == 1:
			e = c.coerce(c.expr(s, in.Args[0]), field.Type, "initialiser", in)
		case field.Type.T.Kind == types.Array && len(in.Args) == 0:
			e = c.zero(field.Type.T, in.Start)
		case len(in.Args) == 1 && !in.Braces && !isList(in.Args[0]) && field.Type.T.Kind != types.Struct && !field.Type.T.IsVector() && field.Type.T.Kind != types.Matrix && field.Type.T.Kind != types.SgMatrix:
			e = c.coerce(c.expr(s, in.Args[0]), field.Type.Bare(), "initialiser", in)
		default:
			e = c.construct(s, field.Type.Bare(), in.Args, in.Braces, in)
		}
		if !isBad(e) {
			f.Inits = append(f.Inits, MemberInit{field, e})
		}
	}
	for i := range t.Fields {
		if x := r.inits[i]; x != nil && !done[i] {
			if e, ok := c.initFrom(s, t.Fields[i].Type.Bare(), x); ok {
				f.Inits = append(f.Inits, MemberInit{&t.Fields[i], e})
			}
		}
	}
	for i := 1; i < len(f.Inits); i++ { // insertion sort: few elements
		for k := i; k > 0 && f.Inits[k].Field.Index < f.Inits[k-1].Field.Index; k-- {
			f.Inits[k], f.Inits[k-1] = f.Inits[k-1], f.Inits[k]
		}
	}
}

func isList(x ast.Expr) bool { _, ok := x.(*ast.InitList); return ok }

// terminates says that control can't run off the end of a statement.
func terminates(s Stmt) bool {
	switch s := s.(type) {
	case *Block:
		return len(s.Stmts) > 0 && terminates(s.Stmts[len(s.Stmts)-1])
	case *Return:
		return true
	case *If:
		return s.Else != nil && terminates(s.Then) && terminates(s.Else)
	case *Loop:
		return s.C == nil && !breaksOut(s.Body)
	case *Switch:
		def := false
		for i, k := range s.Cases {
			def = def || k.Default
			for _, st := range k.Body {
				if breaksOut(st) {
					return false
				}
			}
			if i == len(s.Cases)-1 && !terminates(&Block{Stmts: k.Body}) {
				return false
			}
		}
		return def
	case *ExprStmt:
		if b, ok := s.X.(*Builtin); ok {
			return b.Op == IUnreachable
		}
	}
	return false
}

// breaksOut says that a statement has a break for the construct around it.
func breaksOut(s Stmt) bool {
	switch s := s.(type) {
	case *Block:
		for _, k := range s.Stmts {
			if breaksOut(k) {
				return true
			}
		}
	case *If:
		return breaksOut(s.Then) || s.Else != nil && breaksOut(s.Else)
	case *Break:
		return true
	}
	return false
}
