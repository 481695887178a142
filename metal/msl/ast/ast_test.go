package ast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/source"
)

func TestNames(t *testing.T) {
	n := &Name{Range: Range{3, 9}, Parts: []NamePart{{Ident: "a"}, {Ident: "b", HasArgs: true, Args: []TemplateArg{{Type: &BasicType{Kind: ULong}}, {Expr: &IntLit{Value: 2, Unsigned: true, Long: 1}, Pack: true}}}}}
	require.Equal(t, source.Span{Start: 3, End: 9}, n.Span())
	require.Equal(t, "b", n.Last().Ident)
	require.False(t, n.IsPlain())
	require.Equal(t, "a::b<unsigned long, 2ul...>", Dump(n))
	require.True(t, (&Name{Parts: []NamePart{{Ident: "x"}}}).IsPlain())
	require.False(t, (&Name{Global: true, Parts: []NamePart{{Ident: "x"}}}).IsPlain())
	require.False(t, (&Name{Parts: []NamePart{{Kind: NameOperator, Ident: "+"}}}).IsPlain())
	require.Equal(t, "::x", Dump(&Name{Global: true, Parts: []NamePart{{Ident: "x"}}}))
}

func TestWords(t *testing.T) {
	require.Equal(t, "METAL fp math_mode(safe)", (&PragmaDecl{Words: []string{"METAL", "fp", "math_mode", "(", "safe", ")"}}).Text())
	require.Equal(t, "a(b, c)", (&PragmaStmt{Words: []string{"a", "(", "b", ",", "c", ")"}}).Text())
	require.Equal(t, "kernel|inline", (Kernel | Inline).String())
	require.Equal(t, "const|coherent", (Const | Coherent).String())
	require.Equal(t, "threadgroup", Threadgroup.String())
	require.Equal(t, "", NoSpace.String())
	require.Equal(t, "unsigned long long", ULongLong.String())
	require.Equal(t, "union", Union.String())
	require.Equal(t, "dynamic_cast", DynamicCast.String())
}
