package sema

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/prelude"
	"minfer/metal/msl/types"
)

// All of the library that is written in the language checks, used or not.
func TestLibraryChecks(t *testing.T) {
	require.NoError(t, prelude.Check())
	opt := Options{}
	opt.defaults()
	c := &checker{opt: opt, prog: &Program{}, records: map[*ast.RecordDecl]map[*scope]*record{}, enums: map[*ast.EnumDecl]map[*scope]*types.Type{}, hosts: map[string]*Kernel{}}
	c.top = &sink{}
	c.sink = c.top
	c.root = newScope(nsScope, nil)
	c.initBuiltins()
	bodies := 0
	for _, s := range []*scope{c.metal, c.metal.own("fast").ns, c.metal.own("precise").ns} {
		path := "metal"
		if s != c.metal {
			path += "::" + s.name
		}
		decls := prelude.Decls(path)
		require.NotEmpty(t, decls, path)
		for name := range decls {
			y := s.own(name)
			require.NotNil(t, y, name)
			for _, d := range y.fns {
				if d.bi != nil || d.tparams != nil {
					continue
				}
				f := c.sigOf(d)
				require.NotNil(t, f, name)
				c.checkBody(f)
				bodies++
			}
		}
	}
	c.drain(&c.later)
	require.Empty(t, c.diags())
	require.Greater(t, bodies, 1000)
}

// Each intrinsic of the tables has signatures, and each family's function an intrinsic.
func TestBuiltinTable(t *testing.T) {
	c := &checker{}
	for name, op := range intrinsics {
		fns := c.builtinFuncs(name, MathDefault)
		require.NotEmpty(t, fns, name)
		for _, d := range fns {
			if d.bi.resolve == nil {
				require.Equal(t, op, d.bi.op, name)
				require.NotNil(t, d.bi.result.T, name)
			}
		}
	}
	// exp: half and float, scalar to 4 wide; max: the eight integer types too; none in a
	// namespace that has no such function.
	require.Len(t, c.builtinFuncs("exp", MathFast), 8)
	require.Len(t, c.builtinFuncs("max", MathDefault), 40)
	require.Empty(t, c.builtinFuncs("clz", MathPrecise))
	require.Empty(t, c.builtinFuncs("nope", MathDefault))
}
