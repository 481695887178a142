package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/metal/msl/ir"
)

// A mask and an or with constants are one instruction; a byte that moves by whole
// bytes is that of bytes, with the selector of where each comes from.
func TestMaskedOr(t *testing.T) {
	for _, c := range []struct {
		name        string
		shift       ir.Op // IntTrunc: none
		by, mask, c int64
		want        string
	}{
		{"mask", ir.IntTrunc, 0, 0x78, 0x3f000000, `asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(b2) : "r"(v3), "r"(0x78u), "r"(0x3f000000u));`},
		{"byte in place", ir.IntTrunc, 0, 0xff0000, 0x3f000000, `"r"(v3), "r"(0xff0000u), "r"(0x3f000000u)`},
		{"byte 0 to 2", ir.Shl, 16, 0xff0000, 0x3f000000, "__byte_perm(v3, 1056964608u, 0x7054)"},
		{"byte 1 to 2", ir.Shl, 8, 0xff0000, 0x3f000000, "__byte_perm(v3, 1056964608u, 0x7154)"},
		{"byte 3 to 2", ir.LShr, 8, 0xff0000, 0x3f000000, "__byte_perm(v3, 1056964608u, 0x7354)"},
		{"byte 3 to 0", ir.LShr, 24, 0xff, 0x4b000000, "__byte_perm(v3, 1258291200u, 0x7653)"},
		{"part of a byte", ir.LShr, 8, 0x7f, 0x4b000000, `"r"(0x7fu), "r"(0x4b000000u)`},
		{"half a byte's shift", ir.LShr, 4, 0xff, 0x4b000000, `"r"(0xffu), "r"(0x4b000000u)`},
		{"bits of the byte in the constant", ir.LShr, 8, 0xff, 0x4b000001, `"r"(0xffu), "r"(0x4b000001u)`},
	} {
		b := ir.NewBuilder("masked")
		b.Param(ir.Param{Name: "x", Index: 0, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32})
		mem := ir.Mem{Elem: ir.I32, Count: 1, Align: 4, Space: ir.Device}
		p := b.Op(ir.PtrParam, ir.Ptr, 0)
		x := b.Load(p, mem)[0]
		x = b.Bin(ir.Xor, x, x)
		shifted := x
		if c.shift != ir.IntTrunc {
			shifted = b.Bin(c.shift, x, b.I32(int32(c.by)))
		}
		b.Store(p, mem, b.Bin(ir.Or, b.Bin(ir.And, shifted, b.I32(int32(c.mask))), b.I32(int32(c.c))))
		b.Return()
		require.NoError(t, ir.Verify(b.Func()))
		t.Run(c.name, func(t *testing.T) { require.Contains(t, body(t, b.Func()), c.want) })
	}
	b := ir.NewBuilder("others")
	b.Param(ir.Param{Name: "x", Index: 0, Space: ir.Device, Elem: "uint", ElemSize: 4, Scalar: ir.I32})
	mem := ir.Mem{Elem: ir.I32, Count: 1, Align: 4, Space: ir.Device}
	p := b.Op(ir.PtrParam, ir.Ptr, 0)
	x := b.Load(p, mem)[0]
	b.Store(p, mem, b.Bin(ir.Or, b.Bin(ir.And, x, x), b.I32(1)))
	b.Store(p, mem, b.Bin(ir.Or, x, b.I32(1)))
	b.Return()
	require.NotContains(t, body(t, b.Func()), "asm")
}
