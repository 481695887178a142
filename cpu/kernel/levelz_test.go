package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/refs/exact"
)

// levelsZ are the tables with level Z's bits.
func levelsZ(t testing.TB) []*Table {
	if AVX512() == nil {
		t.Logf("level avx512 is not available: plain Go only")
		return []*Table{GenericZ()}
	}
	return []*Table{GenericZ(), AVX512()}
}

// Section 15, level Z.
func TestGoldenZ(t *testing.T) {
	x, y := goldenXY(1024)
	for _, tab := range levelsZ(t) {
		for typ, want := range map[gguf.Type][5]uint32{
			gguf.F32: {0x40d89cee, 0x40cecb0f, 0x403b7e13, 0x40410930, 0x401da37e},
			gguf.F16: {0x40d8ad89, 0x40ced945, 0x403b8772, 0x4040fc04, 0x401db0c1},
		} {
			for i, n := range []int{1024, 1000, 77, 45, 7} {
				w, a := make([]byte, typ.RowBytes(n)), make([]byte, typ.RowBytes(n))
				tab.Quantize[typ](w, x[:n])
				tab.Quantize[typ](a, y[:n])
				got := math.Float32bits(dot(tab, typ, w, a, n))
				require.Equalf(t, want[i], got, "%s %v n=%d: %08x, want %08x", tab.Name, typ, n, got, want[i])
			}
		}
		dst := make([]float32, 1024)
		copy(dst, y)
		tab.SoftMax(dst, 701, 8)
		require.Equal(t, uint64(0xd4896da655641d1f), fnv64(floatBytes(dst)), "%s soft_max", tab.Name)
		tab.Silu(dst, y)
		require.Equal(t, uint64(0x71864c90f3400808), fnv64(floatBytes(dst)), "%s silu", tab.Name)
		tab.SwiGLU(dst, y, x)
		require.Equal(t, uint64(0xe9065a6ff07be532), fnv64(floatBytes(dst)), "%s swiglu", tab.Name)
	}
}

// Against package exact, which was written from docs/numerics.md by itself: all
// lengths of tails, and the exponential over its whole range.
func TestExactZ(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 12))
	for _, tab := range levelsZ(t) {
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16} {
			for _, s := range []scaleKind{randomScales, subnormal, zeroScales} {
				for n := range 140 {
					w, a := randomRow(typ, n, randomQuants, s, rng), randomRow(typ, n, randomQuants, randomScales, rng)
					if typ == gguf.BF16 && s == subnormal { // of bfloat16, which has more exponents
						for i := range n {
							w[2*i+1] &= 0x80
						}
					}
					want, err := exact.Dot(exact.Z, typ, n, w, a)
					require.NoError(t, err)
					got := dot(tab, typ, w, a, n)
					require.Equal(t, math.Float32bits(want), math.Float32bits(got), "%s %v n=%d scales=%d: %x, want %x", tab.Name, typ, n, s, got, want)
				}
			}
		}
		x := normal(rng, 1<<15, 60)
		x = append(x, anyFloats(rng, 1<<15)...)
		got := make([]float32, len(x))
		tab.Silu(got, x)
		sameBits(t, exact.Silu(exact.Z, x, len(x)), got, "%s silu", tab.Name)
		for n := 1; n < 100; n++ {
			row := normal(rng, n, 20)
			want := exact.SoftMax(exact.Z, row, n, 0.5, nil)
			tab.SoftMax(row, n, 0.5)
			sameBits(t, want, row, "%s soft_max n=%d", tab.Name, n)
		}
	}
}
