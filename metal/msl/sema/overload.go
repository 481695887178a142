package sema

import (
	"fmt"
	"strings"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// fnDecl is a declared function or function template: an element of an overload
// set. Redeclarations share one.
type fnDecl struct {
	name     string
	ast      *ast.FuncDecl   // the first declaration
	def      *ast.FuncDecl   // the definition, nil until seen
	all      []*ast.FuncDecl // all declarations, for default arguments
	tparams  []*ast.TemplateParam
	scope    *scope
	rec      *record // of a member
	static   bool
	ctor     bool
	explicit bool
	fn       *Func            // not a template
	insts    map[string]*Func // a template; nil values failed
	specs    []*fnSpec
	bi       *builtinSig
	pos      source.Span
}

// fnSpec is an explicit specialisation of a function template.
type fnSpec struct {
	key string
	def *ast.FuncDecl
	sc  *scope
}

// overloadSet is a name of functions before one is chosen.
type overloadSet struct {
	Node
	name  string
	fns   []*fnDecl
	part  *ast.NamePart
	scope *scope
	this  Expr // object of a member call
	adl   bool // unqualified: look in the arguments' namespaces too
}

// callReq is a call to resolve.
type callReq struct {
	name  string
	fns   []*fnDecl
	part  *ast.NamePart // explicit template arguments
	scope *scope        // where they are resolved
	this  Expr
	args  []Expr
	at    source.Span
	quiet bool // no report
}

// cand is a viable function.
type cand struct {
	d      *fnDecl
	f      *Func
	sig    *builtinSig
	params []types.Qual
	ranks  []rank
	why    string
}

// pick chooses the best function for a call. It reports and gives nil if there
// is none or no best one.
func (c *checker) pick(q *callReq) *cand {
	for _, a := range q.args {
		if isBad(a) {
			c.sink.errs++ // reported where the argument was checked
			return nil
		}
	}
	var viable, failed []*cand
	for _, d := range q.fns {
		k := c.tryFn(d, q)
		if k.why != "" {
			failed = append(failed, k)
			continue
		}
		viable = append(viable, k)
	}
	if len(viable) == 0 {
		if !q.quiet {
			c.noMatch(q, failed)
		}
		return nil
	}
	best := viable[0]
	for _, k := range viable[1:] {
		if c.better(k, best, q) {
			best = k
		}
	}
	var rivals []*cand
	for _, k := range viable {
		if k != best && !c.better(best, k, q) {
			rivals = append(rivals, k)
		}
	}
	if len(rivals) > 0 {
		if !q.quiet {
			d := source.Errorf(q.at, "call to '%s' is ambiguous for arguments (%s)", q.name, argTypes(q.args))
			for _, k := range append([]*cand{best}, rivals...)[:min(4, len(rivals)+1)] {
				d = d.Note(k.d.pos, "candidate: %s", k.signature())
			}
			c.report(d)
		}
		return nil
	}
	return best
}

func (k *cand) signature() string {
	if k.f != nil {
		s := make([]string, len(k.params))
		for i, p := range k.params {
			s[i] = p.String()
		}
		return fmt.Sprintf("%s %s(%s)", k.f.Result, k.f.Name, strings.Join(s, ", "))
	}
	if k.sig != nil {
		s := make([]string, len(k.sig.params))
		for i, p := range k.sig.params {
			s[i] = p.String()
		}
		return fmt.Sprintf("%s %s(%s)", k.sig.result, k.d.name, strings.Join(s, ", "))
	}
	return k.d.name
}

func argTypes(args []Expr) string {
	s := make([]string, len(args))
	for i, a := range args {
		s[i] = exprTypeString(a)
	}
	return strings.Join(s, ", ")
}

func (c *checker) noMatch(q *callReq, failed []*cand) {
	if len(failed) == 1 {
		d := source.Errorf(q.at, "no matching function for call to '%s': %s", q.name, failed[0].why)
		c.report(d.Note(failed[0].d.pos, "candidate: %s", failed[0].signature()))
		return
	}
	d := source.Errorf(q.at, "no matching function for call to '%s' with arguments (%s)", q.name, argTypes(q.args))
	for _, k := range failed[:min(4, len(failed))] {
		d = d.Note(k.d.pos, "candidate %s: %s", k.signature(), k.why)
	}
	c.report(d)
}

// tryFn checks whether a function can take the arguments.
func (c *checker) tryFn(d *fnDecl, q *callReq) *cand {
	k := &cand{d: d}
	switch {
	case d.bi != nil:
		c.tryBuiltin(k, q)
	case d.tparams != nil:
		c.tryTemplate(k, q)
	default:
		if q.part != nil && q.part.HasArgs {
			k.why = "it is not a template"
			return k
		}
		k.f = c.sigOf(d)
		if k.f == nil {
			k.why = "its declaration has errors"
			return k
		}
	}
	if k.why != "" {
		return k
	}
	if k.f != nil {
		for _, p := range k.f.Params {
			k.params = append(k.params, p.Type)
		}
	}
	c.rankArgs(k, q)
	return k
}

func (c *checker) rankArgs(k *cand, q *callReq) {
	if len(q.args) > len(k.params) {
		k.why = fmt.Sprintf("found %d arguments, expected %d", len(q.args), len(k.params))
		return
	}
	for i := len(q.args); i < len(k.params); i++ {
		if k.sig != nil && i >= len(k.params)-k.sig.optional {
			break
		}
		if k.f == nil || !k.d.hasDefault(i, k.f) {
			k.why = fmt.Sprintf("found %d arguments, expected %d", len(q.args), len(k.params))
			return
		}
	}
	if k.f != nil && k.f.This != nil && !k.f.Ctor {
		if q.this == nil {
			k.why = "it is a method and needs an object"
			return
		}
		if !c.thisFits(k.f, q.this) {
			k.why = fmt.Sprintf("the object is '%s', expected '%s'", q.this.Type(), k.f.This.Type.T.Of)
			return
		}
		r := rankExact
		if k.f.This.Type.T.Of.Const && !q.this.Type().Const {
			r = rankQual
		}
		k.ranks = append(k.ranks, r)
	} else if q.this != nil {
		k.ranks = append(k.ranks, rankExact)
	}
	for i, a := range q.args {
		_, r := c.implicit(a, k.params[i], false)
		if r == rankNone {
			k.why = fmt.Sprintf("argument %d: no implicit conversion from '%s' to '%s'%s", i+1, exprTypeString(a), k.params[i], c.whyNot(a, k.params[i]))
			return
		}
		k.ranks = append(k.ranks, r)
	}
}

// hasDefault says that parameter i of the declaration has a default argument.
func (d *fnDecl) hasDefault(i int, f *Func) bool { return d.defaultArg(i, f) != nil || d.isPackFrom(i) }

func (d *fnDecl) isPackFrom(i int) bool {
	return d.ast != nil && len(d.ast.Params) > 0 && d.ast.Params[len(d.ast.Params)-1].Pack && i >= len(d.ast.Params)-1
}

func (d *fnDecl) defaultArg(i int, f *Func) ast.Expr {
	for _, a := range d.all {
		if i < len(a.Params) && a.Params[i].Default != nil {
			return a.Params[i].Default
		}
	}
	return nil
}

// better says that a is a better match than b.
func (c *checker) better(a, b *cand, q *callReq) bool {
	less := false
	for i := range min(len(a.ranks), len(b.ranks)) {
		if a.ranks[i] > b.ranks[i] {
			return false
		}
		less = less || a.ranks[i] < b.ranks[i]
	}
	if less {
		return true
	}
	ta, tb := a.isTemplate(), b.isTemplate()
	if ta != tb {
		return !ta
	}
	if a.d.bi != nil != (b.d.bi != nil) {
		return a.d.bi == nil // a program's own function hides an equal one of the library
	}
	if ta && a.d.bi == nil {
		return c.moreSpecialFn(a.d, b.d, len(q.args), q.at) && !c.moreSpecialFn(b.d, a.d, len(q.args), q.at)
	}
	return false
}

func (k *cand) isTemplate() bool { return k.d.tparams != nil || k.d.bi != nil && k.d.bi.generic }

// moreSpecialFn says that b's parameters can be deduced from a's types, a's own
// parameters being unique types.
func (c *checker) moreSpecialFn(a, b *fnDecl, n int, at source.Span) bool {
	inst := newScope(templateScope, a.scope)
	for _, p := range a.tparams {
		bind(inst, p, c.uniqueArg(p, inst))
	}
	var as []types.Qual
	t := c.trap(func() {
		for _, p := range a.ast.Params[:min(n, len(a.ast.Params))] {
			as = append(as, c.typ(inst, decayParam(p.Type)))
		}
	})
	if t.errs > 0 {
		return false
	}
	bb := newBindings(b.scope, b.tparams)
	for i, p := range b.ast.Params[:min(n, len(b.ast.Params))] {
		if i >= len(as) {
			return false
		}
		q := as[i]
		if q.T.Kind == types.Reference {
			q = q.T.Of
		}
		pt := decayParam(p.Type)
		if r, ok := pt.(*ast.ReferenceType); ok {
			pt = r.Elem
		} else {
			q = q.Bare()
		}
		if !c.deduceExact(bb, pt, q) && c.dependent(bb, pt) {
			return false
		}
	}
	return true
}

// tryTemplate deduces a template's arguments from the call.
func (c *checker) tryTemplate(k *cand, q *callReq) {
	d := k.d
	b := newBindings(d.scope, d.tparams)
	inst := newScope(templateScope, d.scope)
	if q.part != nil && q.part.HasArgs {
		t := c.trap(func() {
			as, ok := c.bindWritten(q.scope, d.tparams, inst, q.part.Args, q.at)
			if !ok {
				k.why = "explicit template arguments do not fit"
				return
			}
			for i, a := range as {
				if a.kind == targPack && len(a.pack) == 0 {
					continue // may still be deduced
				}
				b.args[i], b.fixed[i] = a, a.kind != targNone
			}
		})
		if k.why != "" {
			if len(t.diags) > 0 {
				k.why += ": " + t.diags[0].Msg
			}
			return
		}
	}
	if len(q.args) > len(d.ast.Params) && !d.isPackFrom(len(q.args)) {
		k.why = fmt.Sprintf("found %d arguments, expected %d", len(q.args), len(d.ast.Params))
		return
	}
	if why := c.deduceCall(b, d, q.args); why != "" {
		k.why = why
		return
	}
	t := c.trap(func() { k.f = c.instance(d, b, q.at) })
	if k.f == nil {
		k.why = "template arguments could not be deduced"
		if len(t.diags) > 0 {
			k.why = t.diags[0].Msg
		}
	}
}

// deduceCall deduces from all arguments; it gives what failed.
func (c *checker) deduceCall(b *bindings, d *fnDecl, args []Expr) string {
	var late []int
	for i, a := range args {
		if i >= len(d.ast.Params)-1 && d.ast.Params[len(d.ast.Params)-1].Pack {
			p := d.ast.Params[len(d.ast.Params)-1]
			return c.deducePack(b, p, args[i:])
		}
		if _, ok := a.(*overloadSet); ok {
			late = append(late, i)
			continue
		}
		if why := c.deduceArg(b, d.ast.Params[i], a, i); why != "" {
			return why
		}
	}
	for _, i := range late {
		if why := c.deduceFromSet(b, d.ast.Params[i], args[i].(*overloadSet), i); why != "" {
			return why
		}
	}
	return ""
}

func (c *checker) deduceArg(b *bindings, p *ast.ParamDecl, a Expr, i int) string {
	if _, ok := a.(*listExpr); ok || !c.dependent(b, p.Type) {
		return ""
	}
	pt, q := decayParam(p.Type), a.Type()
	if r, ok := stripRef(pt); ok {
		if r.RValue {
			if k := b.plainParam(r.Elem); k >= 0 && a.Lvalue() {
				if b.set(k, targ{kind: targType, q: types.Q(types.ReferenceTo(q))}) {
					return ""
				}
				return fmt.Sprintf("argument %d: conflicting deduction", i+1)
			}
			q = q.Bare()
		}
		if q.Space == types.NoSpace && !a.Lvalue() {
			// A temporary lives in thread space, which matches any spelling of it.
			q.Space = types.Thread
		}
		if a.Lvalue() && q.Space == types.NoSpace {
			q.Space = types.Thread
		}
		pt = r.Elem
	} else {
		if q.T.Kind == types.Array {
			of := q.T.Of
			of.Space = max(of.Space, q.Space)
			of.Const = of.Const || q.Const
			q = types.Q(types.PointerTo(of))
		}
		q = types.Q(q.T.Unpacked())
		if q.T.Kind == types.Array {
			q = q.Bare()
		}
	}
	if !c.deduce(b, pt, q) {
		return fmt.Sprintf("argument %d: can't deduce template arguments from '%s'", i+1, a.Type())
	}
	return ""
}

// stripRef finds the reference that a parameter type is.
func stripRef(t ast.Type) (*ast.ReferenceType, bool) {
	switch t := t.(type) {
	case *ast.ReferenceType:
		return t, true
	case *ast.QualifiedType:
		return stripRef(t.Elem)
	}
	return nil, false
}

// deduceFromSet deduces from a function name, if it names one function.
func (c *checker) deduceFromSet(b *bindings, p *ast.ParamDecl, s *overloadSet, i int) string {
	if f, ok := c.singleFunc(s); ok {
		if !c.deduce(b, p.Type, types.Q(f.typ())) {
			return fmt.Sprintf("argument %d: can't deduce template arguments from function '%s'", i+1, s.name)
		}
	}
	return ""
}

func (c *checker) deducePack(b *bindings, p *ast.ParamDecl, args []Expr) string {
	pt := p.Type
	if k, ok := pt.(*ast.PackType); ok {
		pt = k.Elem
	}
	for k, tp := range b.params {
		if !tp.Pack {
			continue
		}
		mentioned := false
		walkNames(pt, func(id string) { mentioned = mentioned || id == tp.Name.Name })
		if !mentioned {
			continue
		}
		pack := targ{kind: targPack}
		for i, a := range args {
			one := &bindings{params: []*ast.TemplateParam{{Kind: tp.Kind, Name: tp.Name}}, args: make([]targ, 1), fixed: make([]bool, 1), scope: b.scope}
			if why := c.deduceArg(one, &ast.ParamDecl{Range: p.Range, Type: pt}, a, i); why != "" {
				return why
			}
			pack.pack = append(pack.pack, one.args[0])
		}
		if b.fixed[k] {
			return ""
		}
		b.set(k, pack)
	}
	return ""
}

// sigOf resolves the signature of a function that is not a template.
func (c *checker) sigOf(d *fnDecl) *Func {
	if d.fn == nil {
		d.fn = c.makeFunc(d, d.ast, d.scope, d.name)
		if d.fn != nil && d.def != nil {
			d.fn.checker.define(d.def, d.scope)
		}
	}
	if d.fn == nil || d.fn.Params == nil && len(d.ast.Params) > 0 {
		return nil
	}
	return d.fn
}

// define attaches a body.
func (st *funcState) define(def *ast.FuncDecl, s *scope) {
	if st.def == nil {
		st.def, st.scope = def, s
	}
}

// instance gives the instance of a function template for bound arguments; defaults
// are filled in. It reports what does not work and remembers that.
func (c *checker) instance(d *fnDecl, b *bindings, at source.Span) *Func {
	if !c.enter(at) {
		return nil
	}
	defer c.leave()
	inst := newScope(templateScope, d.scope)
	as := append([]targ{}, b.args...)
	if !c.bindDefaults(d.tparams, inst, as, at) {
		return nil
	}
	key := targsKey(as)
	if f, ok := d.insts[key]; ok {
		if f == nil {
			c.errAt(at, "template arguments <%s> do not fit '%s'", targsString(as), d.name)
		}
		return f
	}
	level := 1
	if c.cur != nil {
		level = c.cur.checker.level + 1
	}
	if level > maxLevel {
		c.errAt(at, "instances of function templates nest deeper than %d", maxLevel)
		return nil
	}
	if !c.countInstance(at) {
		return nil
	}
	d.insts[key] = nil
	name := d.name + "<" + targsString(as) + ">"
	def, sc := d.def, inst
	for _, s := range d.specs {
		if s.key == key {
			def, sc = s.def, s.sc
		}
	}
	sig := d.ast
	if def != nil {
		sig = def
	}
	f := c.makeFunc(d, sig, sc, name)
	if f == nil {
		return nil
	}
	if def != nil {
		f.checker.define(def, sc)
	}
	f.checker.level = level
	f.checker.stack = append(append([]source.Note{}, c.stack...), source.Note{Span: at, Msg: fmt.Sprintf("in instantiation of '%s' requested here", name)})
	if len(f.checker.stack) > 8 {
		f.checker.stack = f.checker.stack[len(f.checker.stack)-8:]
	}
	d.insts[key] = f
	return f
}

// makeFunc resolves a signature.
func (c *checker) makeFunc(d *fnDecl, sig *ast.FuncDecl, sc *scope, name string) *Func {
	f := &Func{Name: name, Pos: sig.Name.Span().Start, Ctor: d.ctor}
	if d.rec != nil {
		f.Name = d.rec.t.Name + "::" + name
	}
	st := &funcState{fp: c.fp, decl: d, scope: sc, constexpr: sig.Specs&(ast.Constexpr|ast.Consteval) != 0, kernel: sig.Specs&ast.Kernel != 0}
	f.checker = st
	fs := newScope(blockScope, sc)
	ok := true
	f.Params = []*Var{}
	for i, p := range sig.Params {
		if p.Pack || isPackType(p.Type) {
			if i != len(sig.Params)-1 {
				c.errorf(p, "a parameter pack must be the last parameter")
				ok = false
			}
			ok = c.packParams(f, fs, p) && ok
			continue
		}
		q := c.paramType(sc, p)
		if bad(q) {
			if dependsOnParams(p.Type, sig.Params[:i]) {
				q = c.paramType(fs, p)
			}
			if bad(q) {
				ok = false
				continue
			}
		}
		c.warnSpace(p.Type, q, p)
		v := &Var{Name: p.Name.Name, Type: q, Kind: ParamVar, Pos: p.Name.Start}
		if !v.Pos.IsValid() {
			v.Pos = p.Start
		}
		f.Params = append(f.Params, v)
		if v.Name != "" {
			fs.put(v.Name, &sym{kind: symVar, v: v, pos: p.Name.Span()})
		}
	}
	if sig.Variadic {
		c.errorf(sig, "variadic functions are not supported in Metal")
		ok = false
	}
	switch {
	case d.ctor:
		f.Result = types.Q(d.rec.t)
	case sig.Kind == ast.Conversion:
		f.Result = c.typ(sc, sig.Name.Last().Conv)
	case sig.Result == nil:
		c.errorf(sig, "'%s' has no result type", name)
	case hasAuto(sig.Result):
		st.autoResult = true
		f.Result = types.Q(types.VoidType)
	default:
		f.Result = c.typ(fs, sig.Result)
	}
	if bad(f.Result) {
		ok = false
	} else if f.Result.T.Kind == types.Array || f.Result.T.Kind == types.Function {
		c.errorf(sig, "function '%s' returns '%s'", name, f.Result.T)
		ok = false
	}
	if f.Result.T != nil && f.Result.T.Kind != types.Reference {
		f.Result = f.Result.Bare()
	}
	if d.rec != nil && !d.static {
		q := types.Qual{T: d.rec.t, Const: sig.ThisQuals&ast.Const != 0, Volatile: sig.ThisQuals&ast.Volatile != 0, Space: spaceOf[sig.ThisSpace]}
		if q.Space == types.NoSpace {
			q.Space = types.Thread
		}
		if q.Space == types.Constant {
			q.Const = true
		}
		if d.ctor {
			q.Const, q.Space = false, types.Thread
		}
		f.This = &Var{Name: "this", Type: types.Q(types.ReferenceTo(q)), Kind: ParamVar, Pos: f.Pos}
	}
	if !ok {
		return nil
	}
	c.all = append(c.all, f)
	return f
}

func isPackType(t ast.Type) bool { _, ok := t.(*ast.PackType); return ok }

func dependsOnParams(t ast.Type, ps []*ast.ParamDecl) bool {
	found := false
	walkNames(t, func(id string) {
		for _, p := range ps {
			found = found || id != "" && p.Name.Name == id
		}
	})
	return found
}

func hasAuto(t ast.Type) bool {
	switch t := t.(type) {
	case *ast.AutoType:
		return true
	case *ast.QualifiedType:
		return hasAuto(t.Elem)
	case *ast.PointerType:
		return hasAuto(t.Elem)
	case *ast.ReferenceType:
		return hasAuto(t.Elem)
	}
	return false
}

// packParams expands a function parameter pack.
func (c *checker) packParams(f *Func, fs *scope, p *ast.ParamDecl) bool {
	pt := p.Type
	if k, ok := pt.(*ast.PackType); ok {
		pt = k.Elem
	}
	pack := []targ{}
	ok := c.eachPack(fs, pt, func(es *scope) bool {
		q := c.typ(es, pt)
		if bad(q) {
			return false
		}
		q = c.adjustParam(q, p)
		v := &Var{Name: fmt.Sprintf("%s#%d", p.Name.Name, len(pack)), Type: q, Kind: ParamVar, Pos: p.Name.Start}
		f.Params = append(f.Params, v)
		pack = append(pack, targ{sym: &sym{v: v}})
		return !bad(q)
	})
	fs.put(p.Name.Name, &sym{kind: symPack, pack: pack, pos: p.Name.Span()})
	return ok
}
