// Package lower turns a checked kernel into IR: all calls inlined, vectors and
// matrices taken apart, control flow structured, function constants put in.
//
// Variables become private objects of the IR with loads and stores; the passes of
// metal/msl/ir/pass, which [Kernel] runs at the end, take them out of memory. What
// lowering itself folds are constants, so that branches on function constants
// and template arguments leave no trace and code behind them is never looked at.
//
// Lowering reports what the language allows and the IR has no form for, and
// what only specialisation can know (an undefined function constant in use,
// recursion) as diagnostics with the stack of inlined calls. It knows no device.
//
// Safe for concurrent use: the tree is only read.
package lower

import (
	"minfer/metal/msl/ir"
	"minfer/metal/msl/ir/pass"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// Options specialise a kernel.
type Options struct {
	// Constants are the values of function constants by index, in the form
	// that sema has for the constant's type.
	Constants map[int]sema.Value
	// Safe turns fast math off: products and sums are fused only inside a
	// statement. Pragmas in the source go before it.
	Safe bool
	// NoPasses leaves the code as lowered, for tests.
	NoPasses bool
}

// Limits of one kernel after inlining.
const (
	maxInstrs = 1 << 18
	maxCalls  = 128 // depth
)

// Kernel lowers one entry point. The result is verified.
func Kernel(k *sema.Kernel, m *source.Map, o Options) (f *ir.Func, diags []source.Diag) {
	l := &lowerer{b: ir.NewBuilder(k.HostName), src: m, opt: o, consts: map[ir.Value]uint64{}, posOf: map[posKey]ir.Pos{},
		statics: map[*sema.Var]int{}, tables: map[*sema.Var]int{}, leafCache: map[*types.Type][]leaf{}, statement: 1}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(failure)
			if !ok {
				panic(r)
			}
			f, diags = nil, []source.Diag{e.diag}
		}
	}()
	l.kernel(k)
	f = l.b.Func()
	if o.NoPasses {
		return f, nil
	}
	err := pass.Run(f)
	if err == nil {
		err = ir.Verify(f)
	}
	if err != nil {
		return nil, []source.Diag{source.Errorf(source.Span{Start: k.Pos}, "%v", err)}
	}
	return f, nil
}

// failure carries a diagnostic out of the recursion.
type failure struct{ diag source.Diag }

type posKey struct {
	pos source.Pos
	at  ir.Pos
}

// frame is one inlined call.
type frame struct {
	fn     *sema.Func
	vars   map[*sema.Var]place
	block  *ir.Instr // what return leaves; nil for the kernel
	at     ir.Pos    // the call
	call   source.Pos
	up     *frame
	depth  int
	result types.Qual
}

type lowerer struct {
	b         *ir.Builder
	src       *source.Map
	opt       Options
	consts    map[ir.Value]uint64
	posOf     map[posKey]ir.Pos
	where     source.Pos
	fr        *frame
	statics   map[*sema.Var]int
	tables    map[*sema.Var]int
	leafCache map[*types.Type][]leaf
	brk, cont []*ir.Instr // targets of break and continue
	math      sema.FPMode
	statement uint64
	instrs    int
	entry     *ir.Region // goes before the body: addresses of objects
}

// fail stops the lowering of the kernel.
func (l *lowerer) fail(at source.Pos, format string, args ...any) {
	if at == 0 {
		at = l.where
	}
	d := source.Errorf(source.Span{Start: at}, format, args...)
	for f := l.fr; f != nil && f.up != nil; f = f.up {
		d = d.Note(source.Span{Start: f.call}, "in the call of %s inlined here", f.fn.Name)
	}
	panic(failure{d})
}

// at sets the position of the instructions that follow and gives the one before.
func (l *lowerer) at(p source.Pos) (old source.Pos) {
	old = l.where
	if p == 0 {
		return old
	}
	l.where = p
	var at ir.Pos
	if l.fr != nil {
		at = l.fr.at
	}
	k := posKey{p, at}
	q, ok := l.posOf[k]
	if !ok {
		s := l.src.Position(p)
		switch {
		case len(s.File) > 0 && s.File[0] == '<' && at != 0:
			q = at // inside the library: the user's call is the place to show
		case s.IsValid():
			q = l.b.Position(ir.Position{File: s.File, Line: s.Line, Col: s.Col, InlinedAt: at})
		}
		l.posOf[k] = q
	}
	l.b.SetPos(q)
	return old
}

func (l *lowerer) kernel(k *sema.Kernel) {
	f := l.b.Func()
	f.MaxThreads = k.MaxThreads
	l.fr = &frame{fn: k.Func, vars: map[*sema.Var]place{}, result: k.Func.Result}
	l.entry = &ir.Region{}
	defer func() { f.Body.Instrs = append(l.entry.Instrs, f.Body.Instrs...) }()
	l.at(k.Pos)
	for _, p := range k.Params {
		l.param(p)
	}
	l.block(k.Func.Body)
	if !l.b.Terminated() {
		l.b.Return()
	}
}

// present decides whether a gated parameter exists.
func (l *lowerer) present(gate *sema.Var) bool {
	if gate == nil {
		return true
	}
	if gate.Kind == sema.FuncConstVar {
		c, ok := l.opt.Constants[gate.FuncConst]
		return ok && c.I != 0
	}
	if gate.Value != nil {
		return gate.Value.I != 0
	}
	v := l.rv(gate.Init)
	c, ok := l.constOf(v.s[0])
	if !ok {
		l.fail(gate.Pos, "the condition %s of a parameter is not computed from function constants alone", gate.Name)
	}
	return c != 0
}

func (l *lowerer) param(p *sema.Param) {
	v := p.Var
	l.at(v.Pos)
	if p.Kind == sema.ResourceParam {
		l.fail(v.Pos, "a parameter of type %s is not supported", v.Type)
	}
	if p.Kind == sema.GridParam {
		t := v.Type.T
		var s []ir.Value
		for c := range t.Lanes() {
			s = append(s, l.convScalar(l.b.Grid(p.Grid, c), types.UInt, t.ScalarKind()))
		}
		l.store(l.local(v), value{t, s})
		return
	}
	of := v.Type.T.Of
	here := l.present(p.Gate)
	var ptr ir.Value
	if here {
		q := ir.Param{Name: v.Name, Kind: ir.BufferParam, Index: p.Index, Space: space(of.Space), Elem: of.T.String(), ElemSize: of.T.Size(),
			ReadOnly: of.Const || of.Space == types.Constant, Ref: v.Type.T.Kind == types.Reference, Pos: l.b.Pos()}
		if p.Kind == sema.ThreadgroupParam {
			q.Kind = ir.ThreadgroupParam
		}
		if of.T.Kind != types.Void {
			for n, f := range l.leaves(of.T) {
				if n > 0 && f.typ != q.Scalar {
					q.Scalar = ir.Void
					break
				}
				q.Scalar = f.typ
			}
		}
		ptr = l.b.Op(ir.PtrParam, ir.Ptr, uint64(l.b.Param(q)))
	} else {
		ptr = l.const_(ir.Ptr, 0)
	}
	if v.Type.T.Kind == types.Reference {
		l.fr.vars[v] = l.placeAt(ptr, of)
		return
	}
	l.store(l.local(v), value{v.Type.T, []ir.Value{ptr}})
}

// space maps the language's spaces; none is thread.
func space(s types.Space) ir.Space {
	switch s {
	case types.Device:
		return ir.Device
	case types.Constant:
		return ir.Constant
	case types.Threadgroup:
		return ir.Threadgroup
	}
	return ir.Thread
}

// local makes the object of a variable, indeterminate.
func (l *lowerer) local(v *sema.Var) place {
	p := l.object(v.Name, v.Type.T, v.Align)
	l.fr.vars[v] = p
	return p
}

// object makes a private object.
func (l *lowerer) object(name string, t *types.Type, align int) place {
	if !t.Complete() || t.Size() == 0 {
		if t.Kind != types.Struct {
			l.fail(0, "a variable %s of type %s has no size", name, t)
		}
	}
	l.leaves(t) // refuses types without a form in memory
	n := l.b.Alloca(ir.Alloca{Name: name, Size: t.Size(), Align: max(t.Align(), align), Pos: l.b.Pos()})
	var ptr ir.Value
	l.b.In(l.entry, func() { ptr = l.emit(ir.PtrAlloca, ir.Ptr, uint64(n)) })
	l.b.Op(ir.Declare, ir.Void, 0, ptr)
	return place{ptr: ptr, typ: t, space: ir.Thread, align: max(t.Align(), align)}
}

// emit appends an instruction, or gives the constant that it computes.
func (l *lowerer) emit(op ir.Op, t ir.Type, imm uint64, args ...ir.Value) ir.Value {
	if l.instrs++; l.instrs > maxInstrs {
		l.fail(0, "the kernel has more than %d instructions after inlining", maxInstrs)
	}
	if op == ir.Const {
		return l.const_(t, imm)
	}
	if n := len(args); n > 0 && n <= 3 && op.Pure() && t != ir.Ptr {
		var a [3]uint64
		known := true
		for k, v := range args {
			if a[k], known = l.constOf(v); !known {
				break
			}
		}
		if known && l.b.TypeOf(args[0]) != ir.Ptr {
			if r, ok := pass.Eval(op, t, l.b.TypeOf(args[0]), imm, a[:n]); ok {
				return l.const_(t, r)
			}
		}
	}
	return l.b.Op(op, t, imm, args...)
}

func (l *lowerer) const_(t ir.Type, bits uint64) ir.Value {
	v := l.b.Const(t, bits)
	i := l.b.Region().Instrs
	l.consts[v] = i[len(i)-1].Imm
	return v
}

func (l *lowerer) i64(x int64) ir.Value { return l.const_(ir.I64, uint64(x)) }

func (l *lowerer) constOf(v ir.Value) (uint64, bool) {
	c, ok := l.consts[v]
	return c, ok
}

// offset gives p moved by a constant number of bytes.
func (l *lowerer) offset(p ir.Value, off int) ir.Value {
	if off == 0 {
		return p
	}
	return l.emit(ir.PtrAdd, ir.Ptr, 0, p, l.i64(int64(off)))
}

// contraction gives the Imm of float sums and products here.
func (l *lowerer) contraction() uint64 {
	switch l.math.Contract {
	case "off":
		return pass.ContractNone
	case "fast":
		return pass.ContractAny
	case "on":
		return l.statement + 1
	}
	switch l.math.MathMode {
	case "fast", "relaxed":
		return pass.ContractAny
	case "safe":
		return l.statement + 1
	}
	if l.opt.Safe {
		return l.statement + 1
	}
	return pass.ContractAny
}
