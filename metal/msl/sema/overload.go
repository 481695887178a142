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
		if k.f == nil || !k.d.hasDefault(i) {
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
func (d *fnDecl) hasDefault(i int) bool { return d.defaultArg(i) != nil || d.isPackFrom(i) }

func (d *fnDecl) isPackFrom(i int) bool {
	return d.ast != nil && len(d.ast.Params) > 0 && d.ast.Params[len(d.ast.Params)-1].Pack && i >= len(d.ast.Params)-1
}

func (d *fnDecl) defaultArg(i int) ast.Expr {
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
