package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
)

// batched are the levels with products of prepared activations, each with the
// plain Go kernels of the same bits.
func batched(t testing.TB) map[string][2]*Table {
	m := map[string][2]*Table{}
	if VNNI() != nil {
		m[VNNI().Name] = [2]*Table{Generic(), VNNI()}
		m[AVX512().Name] = [2]*Table{GenericZ(), AVX512()}
	}
	if len(m) == 0 {
		t.Skip("this CPU or architecture has no AVX-512 VNNI: its kernels are NOT tested here")
	}
	return m
}

// aligned is memory of n bytes for prepared activations, with a guard zone behind
// it that intact checks.
func prepared64(n int) (b []byte, intact func() bool) {
	m := make([]byte, n+128)
	for i := range m {
		m[i] = 0xa5
	}
	return m[:n:n], func() bool {
		for _, v := range m[n:] {
			if v != 0xa5 {
				return false
			}
		}
		return true
	}
}

// The products of prepared rows and tiles have the bits of the plain Go dot for
// every number of rows and tokens, in memory that ends where a row ends.
func TestMatMul(t *testing.T) {
	for name, tabs := range batched(t) {
		for typ, w := range tabs[1].Weights {
			if w.MatMul == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", name, typ), func(t *testing.T) {
				testMatMul(t, typ, tabs[0].Weights[typ].MatVec, w)
			})
		}
	}
}

func testMatMul(t *testing.T, typ gguf.Type, ref MatVecFunc, weight *Weight) {
	rng := rand.New(rand.NewPCG(uint64(typ), 3))
	act, mm := weight.Act, weight.MatMul
	check := func(n, rows, tokens, gap int, q, aq quantKind, s, as scaleKind, fence bool) {
		t.Helper()
		stride, aStride, dStride := typ.RowBytes(n)+gap, act.RowBytes(n)+gap, rows+gap
		w := placed(t, matrix(typ, n, rows, stride, rng, q, s), fence, 4*rng.IntN(8))
		a := placed(t, matrix(act, n, tokens, aStride, rng, aq, as), fence, 4*rng.IntN(8))
		size := 0
		if rows > 0 {
			size = (tokens-1)*dStride + rows
		}
		want := make([]float32, size)
		got, intact := output(t, size, fence)
		for i := range want {
			want[i], got[i] = 7, 7
		}
		id := fmt.Sprintf("n=%d rows=%d tokens=%d gap=%d quants=%d,%d scales=%d,%d", n, rows, tokens, gap, q, aq, s, as)
		for i := range tokens {
			if rows > 0 {
				ref(want[i*dStride:][:rows], w, stride, a[i*aStride:], n)
			}
			prep, whole := prepared64(mm.RowBytes(n))
			mm.PrepareRow(prep, a[i*aStride:], n)
			one, clean := output(t, rows, fence)
			mm.MulRow(one, w, stride, prep, n)
			if rows > 0 {
				sameBits(t, want[i*dStride:][:rows], one, "one row, %s", id)
			}
			require.True(t, whole() && clean(), id)
		}
		tiles, whole := prepared64((tokens + mm.Tokens - 1) / mm.Tokens * mm.TileBytes(n))
		for i := 0; i < tokens; i += mm.Tokens {
			mm.PrepareTile(tiles[i/mm.Tokens*mm.TileBytes(n):], a[i*aStride:], aStride, min(mm.Tokens, tokens-i), n)
		}
		scratch, clean := prepared64(mm.ScratchBytes(n))
		mm.Mul(got, dStride, w, stride, rows, tiles, tokens, n, scratch)
		sameBits(t, want, got, "%s", id)
		require.True(t, intact() && whole() && clean(), id)
	}
	lengths := dotLengths(typ)
	if typ.BlockSize() == 1 {
		lengths = []int{mm.Step, 2 * mm.Step, 192, 896}
	}
	for _, n := range lengths {
		for _, rows := range []int{0, 1, 2, 3, 4, 5, 9} {
			check(n, rows, 1+rng.IntN(8), 0, randomQuants, randomQuants, randomScales, randomScales, false)
			check(n, rows, 1+rng.IntN(20), 12, randomQuants, randomQuants, randomScales, randomScales, true)
		}
	}
	// More than one slab of rows, of tokens and one part of a row.
	long := 4864
	if typ.BlockSize() == 256 {
		long = 19 * 256
	}
	check(long, 37, 9, 0, randomQuants, randomQuants, randomScales, randomScales, true)
	check(lengths[2], 70, 133, 4, randomQuants, randomQuants, randomScales, randomScales, false)
	n := lengths[3]
	for q := range quantKinds {
		for aq := range quantKinds {
			for s := range scaleKinds {
				check(n, 5, 9, 0, q, aq, s, randomScales, false)
				check(n, 5, 9, 0, q, aq, randomScales, s, false)
			}
		}
	}
}

// BenchmarkMatMul reports multiply-adds a second of one thread: of one prepared row
// (mv, with the rate of reading weights) and of batches.
func BenchmarkMatMul(b *testing.B) {
	for name, tabs := range batched(b) {
		for _, typ := range weightTypes {
			mm := tabs[1].Weights[typ].MatMul
			if mm == nil {
				continue
			}
			for _, shape := range []struct {
				name    string
				rows, n int
			}{{"896x896", 896, 896}, {"4864x896", 4864, 896}, {"896x4864", 896, 4864}} {
				n := shape.n / typ.BlockSize() * typ.BlockSize()
				rng := rand.New(rand.NewPCG(1, 1))
				stride, act := typ.RowBytes(n), tabs[1].Weights[typ].Act
				w := make([]byte, stride*shape.rows)
				row := matrix(typ, n, 8, stride, rng, randomQuants, randomScales)
				for i := 0; i < len(w); i += len(row) {
					copy(w[i:], row)
				}
				const tokens = 128
				a := matrix(act, n, tokens, act.RowBytes(n), rng, randomQuants, randomScales)
				dst := make([]float32, tokens*shape.rows)
				rowMem, tiles, scratch := alignedTo64(mm.RowBytes(n)), alignedTo64(tokens/mm.Tokens*mm.TileBytes(n)), alignedTo64(mm.ScratchBytes(n))
				mm.PrepareRow(rowMem, a, n)
				for i := 0; i < tokens; i += mm.Tokens {
					mm.PrepareTile(tiles[i/mm.Tokens*mm.TileBytes(n):], a[i*act.RowBytes(n):], act.RowBytes(n), mm.Tokens, n)
				}
				rate := func(b *testing.B, tokens int, f func()) {
					t := medianCall(b, f)
					b.ReportMetric(float64(len(w))/t/1e9, "GB/s")
					b.ReportMetric(float64(tokens*n*shape.rows)/t/1e9, "Gmac/s")
				}
				b.Run(fmt.Sprintf("%s/%v/%s/row", name, typ, shape.name), func(b *testing.B) {
					rate(b, 1, func() { mm.MulRow(dst[:shape.rows], w, stride, rowMem, n) })
				})
				b.Run(fmt.Sprintf("%s/%v/%s/batch", name, typ, shape.name), func(b *testing.B) {
					rate(b, tokens, func() {
						chunk := max(32, 65536/stride&^7)
						for r := 0; r < shape.rows; r += chunk {
							mm.Mul(dst[r:], shape.rows, w[r*stride:], stride, min(chunk, shape.rows-r), tiles, tokens, n, scratch)
						}
					})
				})
			}
		}
	}
}

// alignedTo64 is memory as the CPU backend has it.
func alignedTo64(n int) []byte { return align64(make([]byte, n+63)) }

func align64(b []byte) []byte { return b[-uintptr(unsafe.Pointer(&b[0]))&63:] }
