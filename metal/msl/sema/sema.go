// Package sema checks a parsed Metal program: it resolves names and overloads,
// instantiates templates, evaluates constant expressions and enforces the
// language's rules, and gives a typed tree of each kernel ([Program]) or
// diagnostics. It generates no code and knows no device; metal/msl/lower goes on
// from the tree.
//
// Templates are checked where they are instantiated, as text with types put in.
// An error inside one kernel or instance is recorded there ([Kernel.Errors]) and does not
// stop the others. Function constants are not constants here: the tree is
// generic in them.
//
// [Check] is a pure function of its input and safe for concurrent use; the tree is
// immutable once returned.
package sema

import (
	"fmt"
	"sort"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
	"minfer/metal/msl/types"
)

// Options bound the work. Zero values mean the defaults.
type Options struct {
	MaxInstances int // template instances of one program, default 200000
	MaxDepth     int // nesting of instantiations and expressions, default 3000
	MaxSteps     int // steps of all constant evaluations, default 1 million
	MaxErrors    int // diagnostics kept, default 1000
}

func (o *Options) defaults() {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&o.MaxInstances, 200000)
	set(&o.MaxDepth, 3000)
	set(&o.MaxSteps, 1<<20)
	set(&o.MaxErrors, 1000)
}

// Check checks a translation unit. The diagnostics are all of the program's, those of
// kernels included, each once.
func Check(file *ast.File, opt Options) (*Program, []source.Diag) {
	opt.defaults()
	c := &checker{opt: opt, prog: &Program{}, records: map[*ast.RecordDecl]map[*scope]*record{}, enums: map[*ast.EnumDecl]map[*scope]*types.Type{}, hosts: map[string]*Kernel{}}
	c.top = &sink{}
	c.sink = c.top
	c.root = newScope(nsScope, nil)
	c.initBuiltins()
	c.checkAll(file)
	return c.prog, c.diags()
}

// checkAll does the work. A fault of the checker itself fails the program, not the process.
func (c *checker) checkAll(file *ast.File) {
	defer func() {
		if r := recover(); r != nil {
			e := source.Errorf(file.Span(), "%s: %v", internalError, r)
			c.top.diags = append(c.top.diags, e)
			for _, k := range c.prog.Kernels {
				k.Errors = append(k.Errors, e)
			}
		}
	}()
	for _, d := range file.Decls {
		c.decl(c.root, d)
		c.drain(&c.now)
	}
	c.drain(&c.later)
	c.finish()
}

const internalError = "internal error of the checker"

type checker struct {
	opt       Options
	prog      *Program
	root      *scope
	metal     *scope
	top       *sink
	sink      *sink
	cur       *Func   // the function whose body is being checked
	now       []*Func // bodies to check after the current declaration
	later     []*Func // bodies of instances, to check at the end
	all       []*Func
	records   map[*ast.RecordDecl]map[*scope]*record
	enums     map[*ast.EnumDecl]map[*scope]*types.Type
	hosts     map[string]*Kernel
	nextID    int
	insts     int
	depth     int
	steps     int
	stack     []source.Note // instantiations under way, outermost first
	unev      int           // > 0 in unevaluated operands
	classes   int           // class templates whose instances are being laid out
	userDepth int           // > 0 inside a user-defined conversion
	inPrelude bool
	fp        FPMode // by pragmas at program scope
}

// sink collects diagnostics. A trap's are dropped: they only say that something
// did not work out.
type sink struct {
	diags []source.Diag
	errs  int
}

func (c *checker) report(d source.Diag) {
	if d.Severity == source.Error {
		c.sink.errs++
	}
	if len(c.sink.diags) >= c.opt.MaxErrors {
		return
	}
	for i := len(c.stack) - 1; i >= 0 && i >= len(c.stack)-5; i-- {
		d.Notes = append(d.Notes, c.stack[i])
	}
	c.sink.diags = append(c.sink.diags, d)
}

func (c *checker) errorf(n ast.Node, format string, args ...any) {
	c.errAt(n.Span(), format, args...)
}

func (c *checker) errAt(at source.Span, format string, args ...any) {
	c.report(source.Errorf(at, format, args...))
}

func (c *checker) warnf(n ast.Node, format string, args ...any) {
	c.warnAt(n.Span(), format, args...)
}

func (c *checker) warnAt(at source.Span, format string, args ...any) {
	c.report(source.Warningf(at, format, args...))
}

// trap runs f with its errors caught and gives them.
func (c *checker) trap(f func()) *sink {
	old := c.sink
	t := &sink{}
	c.sink = t
	f()
	c.sink = old
	return t
}

// enter guards a recursion; the caller must call leave if it gives true.
func (c *checker) enter(at source.Span) bool {
	if c.depth >= c.opt.MaxDepth {
		c.errAt(at, "nesting of templates, calls or expressions is deeper than %d", c.opt.MaxDepth)
		return false
	}
	c.depth++
	return true
}

func (c *checker) leave() { c.depth-- }

// countInstance counts a new template instance against the limit.
func (c *checker) countInstance(at source.Span) bool {
	if c.insts >= c.opt.MaxInstances {
		c.errAt(at, "more than %d template instances", c.opt.MaxInstances)
		return false
	}
	c.insts++
	return true
}

// push notes an instantiation for the diagnostics inside it; pop ends that.
func (c *checker) push(at source.Span, format string, args ...any) {
	c.stack = append(c.stack, source.Note{Span: at, Msg: fmt.Sprintf(format, args...)})
}

func (c *checker) pop() { c.stack = c.stack[:len(c.stack)-1] }

// drain checks the bodies in a queue, and those that they add to it.
func (c *checker) drain(q *[]*Func) {
	for len(*q) > 0 {
		f := (*q)[0]
		*q = (*q)[1:]
		c.checkBody(f)
	}
}

// finish hands the errors of functions to the kernels that reach them.
func (c *checker) finish() {
	for _, k := range c.prog.Kernels {
		if k.Func == nil {
			continue
		}
		var vars []*Var
		c.reach(k, k.Func, map[*Func]int{}, &vars)
		c.checkMemory(k, vars)
	}
}

const (
	onPath = 1
	done   = 2
)

func (c *checker) reach(k *Kernel, f *Func, seen map[*Func]int, vars *[]*Var) {
	seen[f] = onPath
	st := f.checker
	*vars = append(*vars, st.tgVars...)
	if st.state == bodyNone && !st.trivial {
		k.Errors = append(k.Errors, source.Errorf(span(f.Pos), "function '%s' is used but has no body", f.Name))
		if !st.undefinedTold {
			st.undefinedTold = true
			c.top.diags = append(c.top.diags, k.Errors[len(k.Errors)-1])
		}
	}
	for _, d := range st.sink.diags {
		if d.Severity == source.Error {
			k.Errors = append(k.Errors, d)
		}
	}
	if st.sink.errs > 0 && len(k.Errors) == 0 {
		k.Errors = append(k.Errors, source.Errorf(span(f.Pos), "function '%s' has errors", f.Name))
	}
	for _, g := range st.callees {
		switch seen[g] {
		case onPath:
			k.Errors = append(k.Errors, source.Errorf(span(g.Pos), "function '%s' calls itself: recursion is not supported", g.Name))
			if !g.checker.recursionTold {
				g.checker.recursionTold = true
				c.top.diags = append(c.top.diags, k.Errors[len(k.Errors)-1])
			}
		case 0:
			c.reach(k, g, seen, vars)
		}
	}
	seen[f] = done
}

// diags gives all diagnostics, errors first, each once.
func (c *checker) diags() []source.Diag {
	ds := c.top.diags
	for _, f := range c.all {
		ds = append(ds, f.checker.sink.diags...)
	}
	type key struct {
		sev source.Severity
		at  source.Span
		msg string
	}
	seen := map[key]bool{}
	out := ds[:0:0]
	for _, d := range ds {
		k := key{d.Severity, d.Span, d.Msg}
		if !seen[k] && len(out) < c.opt.MaxErrors {
			seen[k] = true
			out = append(out, d)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Severity < out[j].Severity })
	return out
}

// maxLevel bounds chains of instances that ask for each other, body by body.
const maxLevel = 512

func span(p source.Pos) source.Span { return source.Span{Start: p, End: p} }

// bodyState is how far the check of a function's body or of a class is.
type bodyState uint8

const (
	bodyNone bodyState = iota // no definition seen
	bodyQueued
	bodyChecking
	bodyDone
)

// funcState is what the checker keeps of a function.
type funcState struct {
	decl          *fnDecl
	def           *ast.FuncDecl // with the body
	scope         *scope        // where parameter types and the body are resolved
	state         bodyState
	sink          sink
	callees       []*Func
	calleeSet     map[*Func]bool
	kernel        bool
	constexpr     bool
	autoResult    bool
	undefinedTold bool
	recursionTold bool
	trivial       bool // a defaulted constructor: no body needed
	tgVars        []*Var
	fp            FPMode // of the text around the definition
	level         int    // instances that led here, one from the body of the other
	stack         []source.Note
}
