package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/types"
)

// result is what a call gives: a value, or a place for a reference.
type result struct {
	val   value
	place place
}

func (l *lowerer) call(e *sema.Call) result {
	fn := e.Func
	if fn.Body == nil {
		l.fail(e.Where, "%s has no body", fn.Name)
	}
	for f := l.fr; f != nil; f = f.up {
		if f.fn == fn {
			l.fail(e.Where, "%s calls itself; recursion is not allowed", fn.Name)
		}
	}
	if l.fr.depth >= maxCalls {
		l.fail(e.Where, "calls are nested more than %d deep", maxCalls)
	}
	l.instrs++ // a tree of calls may fold to a constant and still be without end
	fr := &frame{fn: fn, vars: map[*sema.Var]place{}, call: e.Where, up: l.fr, depth: l.fr.depth + 1, result: fn.Result}
	// Operands belong to the caller.
	var object place
	if fn.Ctor {
		object = l.object("this", e.T.T, 0)
	} else if e.This != nil {
		object = l.lv(e.This)
	}
	if fn.This != nil && (fn.Ctor || e.This != nil) {
		fr.vars[fn.This] = object
	}
	type operand struct {
		v *sema.Var
		x value
	}
	var byValue []operand
	for k, a := range e.Args {
		if k >= len(fn.Params) {
			l.effects(a)
			continue
		}
		p := fn.Params[k]
		if p.Type.T.Kind == types.Reference {
			fr.vars[p] = l.lv(a)
			continue
		}
		byValue = append(byValue, operand{p, l.rv(a)})
	}
	l.at(e.Where)
	fr.at = l.b.Pos()
	saved := l.save()
	l.fr = fr
	for _, o := range byValue {
		l.store(l.local(o.v), o.x)
	}
	ref := fn.Result.T.Kind == types.Reference
	var ts []ir.Type
	switch {
	case fn.Ctor || fn.Result.T.Kind == types.Void:
	case ref:
		ts = []ir.Type{ir.Ptr}
	default:
		ts = l.typesOf(fn.Result.T)
	}
	res := l.b.Block(ts, func(blk *ir.Instr) []ir.Value {
		fr.block = blk
		for _, m := range fn.Inits {
			l.memberInit(object, m)
		}
		l.block(fn.Body)
		if l.b.Terminated() {
			return nil
		}
		// Control reaches the end without a value: indeterminate.
		var vs []ir.Value
		for _, t := range ts {
			if t == ir.Ptr {
				vs = append(vs, l.const_(t, 0))
			} else {
				vs = append(vs, l.emit(ir.Undef, t, 0))
			}
		}
		return vs
	})
	l.restore(saved)
	l.at(e.Where)
	switch {
	case fn.Ctor:
		return result{val: l.load(object)}
	case ref:
		return result{place: l.placeAt(res[0], fn.Result.T.Of)}
	}
	return result{val: value{fn.Result.T, res}}
}

// context is what a call changes.
type context struct {
	fr        *frame
	brk, cont []*ir.Instr
	math      sema.FPMode
	statement uint64
}

func (l *lowerer) save() context {
	c := context{l.fr, l.brk, l.cont, l.math, l.statement}
	l.brk, l.cont = nil, nil
	return c
}

func (l *lowerer) restore(c context) {
	l.fr, l.brk, l.cont, l.math = c.fr, c.brk, c.cont, c.math
	// Statements of the callee are their own; the caller's goes on.
	l.statement++
}

func (l *lowerer) memberInit(object place, m sema.MemberInit) {
	f := m.Field
	if f.Type.T.Kind == types.Reference {
		p := l.lv(m.Init)
		q := place{ptr: l.offset(object.ptr, f.Offset), typ: f.Type.T, space: object.space}
		l.store(q, value{f.Type.T, []ir.Value{p.ptr}})
		return
	}
	x := l.rv(m.Init)
	l.store(l.field(object, f), x)
}
