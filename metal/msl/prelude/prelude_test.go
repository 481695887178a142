package prelude_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ast"
	"minfer/metal/msl/prelude"
)

func TestText(t *testing.T) {
	require.NoError(t, prelude.Check())
	metal := prelude.Decls("metal")
	require.Len(t, metal["clamp"], 40, "float and half and the eight integers, scalar to 4 wide")
	require.Len(t, metal["cross"], 2)
	require.Empty(t, metal["mem_threadgroup"], "a scoped enum's values are found through it")
	require.Len(t, metal["memory_order_relaxed"], 1)
	require.NotEmpty(t, prelude.Decls("metal::fast")["clamp"])
	require.Empty(t, prelude.Decls("nope"))
	f, ok := metal["clamp"][0].(*ast.FuncDecl)
	require.True(t, ok)
	require.Zero(t, f.Body.Span(), "no positions: they would belong to another text")
	require.Zero(t, f.Params[0].Span())
}
