package sema_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/parse"
	"minfer/metal/msl/pp"
	"minfer/metal/msl/sema"
	"minfer/metal/msl/source"
)

const head = "#include <metal_stdlib>\nusing namespace metal;\n"

// run takes a program through all phases and gives the errors as line:col: text, lines
// counted from the program's own first one.
func run(t testing.TB, src string) (*sema.Program, []string) {
	t.Helper()
	return runFor(t, src, source.Error)
}

// runFor gives the diagnostics of one severity.
func runFor(t testing.TB, src string, sev source.Severity) (*sema.Program, []string) {
	t.Helper()
	toks, m, diags := pp.Process(fstest.MapFS{"t.metal": {Data: []byte(head + src)}}, "t.metal", pp.Options{})
	file, more := parse.File(toks, parse.Options{})
	diags = append(diags, more...)
	prog, more := sema.Check(file, sema.Options{})
	var errs []string
	for _, d := range append(diags, more...) {
		require.NotContains(t, d.Msg, "internal error")
		if d.Severity == sev {
			p := m.Position(d.Span.Start)
			errs = append(errs, fmt.Sprintf("%d:%d: %s", p.Line-2, p.Col, d.Msg))
		}
	}
	return prog, errs
}

// good checks a program that must have no errors.
func good(t testing.TB, src string) *sema.Program {
	t.Helper()
	prog, errs := run(t, src)
	require.Empty(t, errs)
	for _, k := range prog.Kernels {
		require.Empty(t, k.Errors, k.HostName)
	}
	return prog
}

// place finds the mark in a program, takes it out and gives its line and column.
func place(src string) (string, string) {
	const mark = "@"
	i := strings.Index(src, mark)
	if i < 0 {
		return src, ""
	}
	line := 1 + strings.Count(src[:i], "\n")
	col := i - strings.LastIndex(src[:i], "\n")
	return strings.Replace(src, mark, "", 1), fmt.Sprintf("%d:%d: ", line, col)
}

// kernel gives a kernel of the program by host name.
func kernel(t testing.TB, p *sema.Program, host string) *sema.Kernel {
	t.Helper()
	for _, k := range p.Kernels {
		if k.HostName == host {
			return k
		}
	}
	require.Failf(t, "no kernel", "%s", host)
	return nil
}

// walk calls f for every expression below x.
func walk(x any, f func(sema.Expr)) {
	switch x := x.(type) {
	case nil:
	case *sema.Block:
		for _, s := range x.Stmts {
			walk(s, f)
		}
	case *sema.ExprStmt:
		walk(x.X, f)
	case *sema.DeclStmt:
		walk(x.Var.Init, f)
	case *sema.If:
		walk(x.C, f)
		walk(x.Then, f)
		walk(x.Else, f)
	case *sema.Loop:
		for _, s := range x.Init {
			walk(s, f)
		}
		walk(x.C, f)
		walk(x.Body, f)
		walk(x.Post, f)
	case *sema.Switch:
		walk(x.X, f)
		for _, c := range x.Cases {
			for _, s := range c.Body {
				walk(s, f)
			}
		}
	case *sema.Return:
		walk(x.X, f)
	case sema.Expr:
		f(x)
		switch x := x.(type) {
		case *sema.Load:
			walk(x.X, f)
		case *sema.Temp:
			walk(x.X, f)
		case *sema.FieldExpr:
			walk(x.X, f)
		case *sema.Swizzle:
			walk(x.X, f)
		case *sema.IndexExpr:
			walk(x.X, f)
			walk(x.I, f)
		case *sema.Deref:
			walk(x.X, f)
		case *sema.AddrOf:
			walk(x.X, f)
		case *sema.Unary:
			walk(x.X, f)
		case *sema.Binary:
			walk(x.L, f)
			walk(x.R, f)
		case *sema.PtrAdd:
			walk(x.P, f)
			walk(x.I, f)
		case *sema.Cond:
			walk(x.C, f)
			walk(x.A, f)
			walk(x.B, f)
		case *sema.Assign:
			walk(x.L, f)
			walk(x.R, f)
		case *sema.Convert:
			walk(x.X, f)
		case *sema.Construct:
			for _, a := range x.Args {
				walk(a, f)
			}
		case *sema.InitList:
			for _, e := range x.Elems {
				walk(e.X, f)
			}
		case *sema.Call:
			walk(x.This, f)
			for _, a := range x.Args {
				walk(a, f)
			}
		case *sema.Builtin:
			for _, a := range x.Args {
				walk(a, f)
			}
		}
	}
}

// callees lists the functions that a kernel's body calls, in order.
func callees(k *sema.Kernel) (out []string) {
	walk(k.Func.Body, func(e sema.Expr) {
		if c, ok := e.(*sema.Call); ok {
			out = append(out, c.Func.Name)
		}
	})
	return out
}

// builtins lists the intrinsics of a kernel's body.
func builtins(k *sema.Kernel) (out []*sema.Builtin) {
	walk(k.Func.Body, func(e sema.Expr) {
		if b, ok := e.(*sema.Builtin); ok {
			out = append(out, b)
		}
	})
	return out
}
