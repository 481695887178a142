package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// A matrix with a value or a scale that is not finite has no finite result in that row,
// whatever it is multiplied with, zeros too: the first results say whether a model's
// matrices are finite (model.Proof).
func TestNotFiniteShows(t *testing.T) {
	const m = 9
	rng := rand.New(rand.NewPCG(1, 2))
	scales := map[gguf.Type][]int{ // offsets in a block
		gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0},
		gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208}, gguf.F16: {0}, gguf.BF16: {0}, gguf.F32: {2},
	}
	zero := make([]float32, 512*11)
	for _, level := range append(cpu.Levels(), cpu.Auto) {
		b, err := cpu.New(cpu.Options{Threads: 2, Level: level})
		require.NoError(t, err)
		defer b.Close()
		for typ, places := range scales {
			exponents := []uint16{0x7c00, 0xfc00, 0x7e01} // of halves: infinities and a NaN
			if typ == gguf.BF16 || typ == gguf.F32 {
				exponents = []uint16{0x7f80, 0xff80, 0x7fc1}
			}
			lengths := []int{512}
			if typ.BlockSize() == 1 {
				lengths = []int{512, 77, 5} // and what vectors leave over
			}
			for _, k := range lengths {
				size, row := typ.BlockBytes(), typ.RowBytes(k)
				random := weightOf(t, "w", typ, graph.Mat(k, m), randFloats(rng, k*m))
				zeros := weightOf(t, "w", typ, graph.Mat(k, m), make([]float32, k*m)) // smaller scales are zero too
				for c := range 8 {
					n, w := []int{1, 2, 3, 11}[c/2], []*graph.Weight{random, zeros}[c%2]
					for _, x := range [][]float32{randFloats(rng, k*n), zero[:k*n]} {
						run := func() []float32 {
							out, err := exec(t, b, graph.Node{Op: graph.MatMul, Weight: w, Shape: graph.Mat(m, n)}, nil, floats(graph.Mat(k, n), x))
							require.NoError(t, err)
							return bytesF32(out)
						}
						for i, y := range run() {
							require.Zero(t, y-y, "%v %v: result %d is %v", level, typ, i, y)
						}
						for _, at := range places {
							for _, r := range []int{0, 3, m - 1} {
								for _, block := range []int{0, 1, row / size / 2, row/size - 1} {
									place := w.Data[r*row+block*size+at:]
									sound := binary.LittleEndian.Uint16(place)
									for _, e := range exponents {
										binary.LittleEndian.PutUint16(place, e)
										for i, y := range run() {
											what := fmt.Sprintf("%v %v, %d tokens: %#x in block %d of row %d: result %d is %v", level, typ, n, e, block, r, i, y)
											if i%m == r {
												require.NotZero(t, y-y, what)
											} else {
												require.Zero(t, y-y, what)
											}
										}
									}
									binary.LittleEndian.PutUint16(place, sound)
								}
							}
						}
					}
				}
			}
		}
	}
}
