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
	"minfer/metal/msl/ast"
	"minfer/metal/msl/source"
)

// Options bound the work. Zero values mean the defaults.
type Options struct {
	MaxInstances int // template instances of one program, default 200000
	MaxDepth     int // nesting of instantiations, default 256
	MaxSteps     int // statements of all constant evaluations, default 4 million
	MaxErrors    int // diagnostics kept, default 1000
}

type funcState struct{}

// Check checks a translation unit.
func Check(file *ast.File, opt Options) (*Program, []source.Diag) {
	return &Program{}, nil
}
