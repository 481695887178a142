package sema

import "minfer/metal/msl/types"

// call evaluates a call of a constexpr function.
func (ev *evaluator) call(e *Call) *Value {
	f := e.Func
	st := f.checker
	if !st.constexpr && !st.trivial {
		return ev.fail("it calls '" + f.Name + "', which is not constexpr")
	}
	if !ev.c.ensureBody(f, span(e.Where)) || f.Body == nil {
		return ev.fail("it calls '" + f.Name + "', whose body has errors")
	}
	if ev.depth > ev.c.opt.MaxDepth {
		return ev.fail("it calls too deep")
	}
	frame := map[*Var]*Value{}
	for i, a := range e.Args {
		p := f.Params[i]
		var v *Value
		if p.Type.T.Kind == types.Reference {
			v = ev.lval(a)
		} else if v = ev.value(a); v != nil {
			v = ev.copy(v)
		}
		if v == nil {
			return nil
		}
		frame[p] = v
	}
	var obj *Value
	switch {
	case f.Ctor:
		if obj = ev.zero(f.Result.T); obj == nil {
			return ev.fail("it is too large")
		}
		frame[f.This] = obj
	case f.This != nil && e.This != nil:
		t := ev.lval(e.This)
		if t == nil {
			return nil
		}
		frame[f.This] = t
	}
	old, oldRet := ev.frame, ev.ret
	ev.frame, ev.ret = frame, nil
	ev.depth++
	defer func() {
		ev.frame, ev.ret = old, oldRet
		ev.depth--
	}()
	for _, in := range f.Inits {
		v := ev.value(in.Init)
		if v == nil {
			return nil
		}
		switch {
		case in.Field == nil: // delegated
			*obj = *ev.copy(v)
		case f.Result.T.Union:
			*obj = Value{Elems: []Value{*ev.copy(v)}, Field: in.Field.Index}
		default:
			obj.Elems[in.Field.Index] = *ev.copy(v)
		}
	}
	ctl := ev.block(f.Body.Stmts)
	if ctl == ctlFail {
		return nil
	}
	if f.Ctor {
		return obj
	}
	if f.Result.T.Kind == types.Void {
		return &Value{}
	}
	if ev.ret == nil {
		return ev.fail("'" + f.Name + "' ends without a value")
	}
	return ev.ret
}

type control uint8

const (
	ctlNext control = iota
	ctlBreak
	ctlContinue
	ctlReturn
	ctlFail
)

func (ev *evaluator) block(ss []Stmt) control {
	for _, s := range ss {
		if k := ev.stmt(s); k != ctlNext {
			return k
		}
	}
	return ctlNext
}

func (ev *evaluator) stmt(s Stmt) control {
	if !ev.step() {
		return ctlFail
	}
	switch s := s.(type) {
	case *Block:
		return ev.block(s.Stmts)
	case *ExprStmt:
		if !ev.effect(s.X) {
			return ctlFail
		}
	case *DeclStmt:
		v := s.Var
		var val *Value
		switch {
		case v.Type.T.Kind == types.Reference:
			val = ev.lval(v.Init)
		case v.Init == nil:
			val = ev.zero(v.Type.T)
		default:
			if val = ev.value(v.Init); val != nil {
				val = ev.copy(val)
			}
		}
		if val == nil {
			return ctlFail
		}
		ev.frame[v] = val
	case *If:
		c := ev.value(s.C)
		switch {
		case c == nil:
			return ctlFail
		case c.I != 0:
			return ev.stmt(s.Then)
		case s.Else != nil:
			return ev.stmt(s.Else)
		}
	case *Loop:
		return ev.loop(s)
	case *Switch:
		x := ev.value(s.X)
		if x == nil {
			return ctlFail
		}
		start := -1
		for i, k := range s.Cases {
			for _, v := range k.Values {
				if v == x.I {
					start = i
				}
			}
		}
		for i, k := range s.Cases {
			if start < 0 && k.Default {
				start = i
			}
		}
		for i := start; i >= 0 && i < len(s.Cases); i++ {
			switch k := ev.block(s.Cases[i].Body); k {
			case ctlBreak:
				return ctlNext
			case ctlNext:
			default:
				return k
			}
		}
	case *Break:
		return ctlBreak
	case *Continue:
		return ctlContinue
	case *Return:
		if s.X != nil {
			if s.X.Lvalue() {
				ev.ret = ev.lval(s.X)
			} else if ev.ret = ev.value(s.X); ev.ret != nil {
				ev.ret = ev.copy(ev.ret)
			}
			if ev.ret == nil {
				return ctlFail
			}
		}
		return ctlReturn
	}
	return ctlNext
}

func (ev *evaluator) loop(l *Loop) control {
	if k := ev.block(l.Init); k != ctlNext {
		return k
	}
	for first := true; ; first = false {
		if !ev.step() {
			return ctlFail
		}
		if l.C != nil && (l.TestAt == TestBefore || !first) {
			c := ev.value(l.C)
			if c == nil {
				return ctlFail
			}
			if c.I == 0 {
				return ctlNext
			}
		}
		switch k := ev.stmt(l.Body); k {
		case ctlBreak:
			return ctlNext
		case ctlReturn, ctlFail:
			return k
		}
		if l.Post != nil && !ev.effect(l.Post) {
			return ctlFail
		}
	}
}
