package types_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/types"
)

// The sizes and alignments are those of the language's tables, written out.
func TestLayout(t *testing.T) {
	vec, packed := types.Vec, types.Packed
	for _, c := range []struct {
		t           *types.Type
		name        string
		size, align int
	}{
		{types.BoolType, "bool", 1, 1}, {types.CharType, "char", 1, 1}, {types.UCharType, "uchar", 1, 1}, {types.ShortType, "short", 2, 2},
		{types.UShortType, "ushort", 2, 2}, {types.IntType, "int", 4, 4}, {types.UIntType, "uint", 4, 4}, {types.LongType, "long", 8, 8},
		{types.ULongType, "ulong", 8, 8}, {types.HalfType, "half", 2, 2}, {types.BFloatType, "bfloat", 2, 2}, {types.FloatType, "float", 4, 4},
		{vec(types.Bool, 2), "bool2", 2, 2}, {vec(types.Bool, 3), "bool3", 4, 4}, {vec(types.Bool, 4), "bool4", 4, 4},
		{vec(types.Char, 2), "char2", 2, 2}, {vec(types.Char, 3), "char3", 4, 4}, {vec(types.UChar, 4), "uchar4", 4, 4},
		{vec(types.Short, 2), "short2", 4, 4}, {vec(types.UShort, 3), "ushort3", 8, 8}, {vec(types.UShort, 4), "ushort4", 8, 8},
		{vec(types.Int, 2), "int2", 8, 8}, {vec(types.UInt, 3), "uint3", 16, 16}, {vec(types.UInt, 4), "uint4", 16, 16},
		{vec(types.Long, 2), "long2", 16, 16}, {vec(types.Long, 3), "long3", 32, 32}, {vec(types.ULong, 4), "ulong4", 32, 32},
		{vec(types.Half, 2), "half2", 4, 4}, {vec(types.Half, 3), "half3", 8, 8}, {vec(types.Half, 4), "half4", 8, 8},
		{vec(types.BFloat, 4), "bfloat4", 8, 8}, {vec(types.Float, 2), "float2", 8, 8}, {vec(types.Float, 3), "float3", 16, 16}, {vec(types.Float, 4), "float4", 16, 16},
		{packed(types.Char, 4), "packed_char4", 4, 1}, {packed(types.Float, 3), "packed_float3", 12, 4}, {packed(types.Int, 3), "packed_int3", 12, 4},
		{packed(types.Half, 2), "packed_half2", 4, 2}, {packed(types.Half, 3), "packed_half3", 6, 2},
		{types.Mat(types.Half, 2, 2), "half2x2", 8, 4}, {types.Mat(types.Half, 2, 3), "half2x3", 16, 8}, {types.Mat(types.Half, 2, 4), "half2x4", 16, 8},
		{types.Mat(types.Half, 4, 2), "half4x2", 16, 4}, {types.Mat(types.Half, 4, 4), "half4x4", 32, 8}, {types.Mat(types.Float, 2, 2), "float2x2", 16, 8},
		{types.Mat(types.Float, 2, 4), "float2x4", 32, 16}, {types.Mat(types.Float, 3, 3), "float3x3", 48, 16}, {types.Mat(types.Float, 4, 4), "float4x4", 64, 16},
		{types.PointerTo(types.Q(types.FloatType).In(types.Device)), "device float *", 8, 8},
		{types.AtomicOf(types.Int), "atomic_int", 4, 4},
		{types.ArrayOf(types.Q(vec(types.Float, 3)), 5), "float3[5]", 80, 16},
	} {
		require.Equal(t, c.name, c.t.String())
		require.Equal(t, c.size, c.t.Size(), c.name)
		require.Equal(t, c.align, c.t.Align(), c.name)
	}
	require.Nil(t, types.Vec(types.Float, 5))
	require.Nil(t, types.Mat(types.Int, 2, 2))
	require.Nil(t, types.SgMat(types.Int))
}

func offsets(s *types.Type) (out []int) {
	for _, f := range s.Fields {
		out = append(out, f.Offset)
	}
	return out
}

func TestStructs(t *testing.T) {
	f := func(name string, ty *types.Type) types.Field { return types.Field{Name: name, Type: types.Q(ty)} }
	s := types.NewStruct("S", false)
	require.False(t, s.Complete())
	s.SetFields([]types.Field{f("a", types.CharType), f("b", types.LongType), f("c", types.HalfType), f("d", types.Vec(types.UInt, 3)), f("e", types.CharType)}, 0)
	require.Equal(t, []int{0, 8, 16, 32, 48}, offsets(s))
	require.Equal(t, 64, s.Size())
	require.Equal(t, 16, s.Align())

	block := types.NewStruct("block", false) // a half scale and 16 packed bytes
	block.SetFields([]types.Field{f("d", types.HalfType), f("qs", types.ArrayOf(types.Q(types.UCharType), 16))}, 0)
	require.Equal(t, []int{0, 2}, offsets(block))
	require.Equal(t, 18, block.Size())

	u := types.NewStruct("U", true)
	u.SetFields([]types.Field{f("h", types.Vec(types.Half, 2)), f("i", types.UIntType), f("c", types.ArrayOf(types.Q(types.CharType), 5))}, 0)
	require.Equal(t, []int{0, 0, 0}, offsets(u))
	require.Equal(t, 8, u.Size())

	a := types.NewStruct("A", false)
	a.SetFields([]types.Field{f("x", types.CharType)}, 16)
	require.Equal(t, 16, a.Size())

	e := types.NewStruct("E", false)
	e.SetFields(nil, 0)
	require.Equal(t, 1, e.Size())

	al := types.NewStruct("Al", false)
	al.SetFields([]types.Field{f("x", types.CharType), {Name: "y", Type: types.Q(types.CharType), Align: 8}}, 0)
	require.Equal(t, []int{0, 8}, offsets(al))
	require.Equal(t, 16, al.Size())
}

func TestIdentical(t *testing.T) {
	fl := types.Q(types.FloatType)
	dev, con := types.PointerTo(fl.In(types.Device)), types.PointerTo(fl.In(types.Constant))
	require.True(t, types.Identical(dev, types.PointerTo(fl.In(types.Device))))
	require.False(t, types.Identical(dev, con))
	require.False(t, types.Identical(dev, types.PointerTo(fl.In(types.Device).AsConst())))
	require.True(t, types.Identical(types.PointerTo(fl), types.PointerTo(fl.In(types.Thread))))
	require.False(t, types.Identical(types.ArrayOf(fl, 2), types.ArrayOf(fl, 3)))
	require.False(t, types.Identical(types.NewStruct("S", false), types.NewStruct("S", false)))
	g := types.FuncOf(types.Q(types.VoidType), []types.Qual{types.Q(dev)})
	require.True(t, types.Identical(g, types.FuncOf(types.Q(types.VoidType), []types.Qual{types.Q(dev)})))
	require.False(t, types.Identical(g, types.FuncOf(types.Q(types.VoidType), nil)))
}
