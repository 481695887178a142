package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu/kernel"
)

// The chunks of a product cover all weight rows once; those of a single token are
// bounded in bytes, and there are several for each thread.
func TestCut(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 16} {
		for _, m := range []int{1, 7, 8, 9, 128, 896, 4864, 151936} {
			for _, stride := range []int{18, 504, 2736, 35840} {
				for _, n := range []int{1, 2, 3, 128} {
					mm := &matMul{m: m, n: n, k: stride * 2, stride: stride, tiled: n >= tileFrom, prep: &kernel.MatMul{}}
					mm.cut(threads)
					b := mm.bounds
					require.Zero(t, b[0])
					require.Equal(t, m, b[len(b)-1])
					for i := 1; i < len(b); i++ {
						require.Greater(t, b[i], b[i-1])
						if n == 1 && m*mm.k >= inlineWork && b[i]-b[i-1] > 8 {
							require.LessOrEqual(t, (b[i]-b[i-1])*stride, streamChunk+7*stride)
						}
					}
					if n == 1 && m*mm.k >= inlineWork && m >= 8*streamChunks*threads {
						require.Greater(t, len(b)-1, streamChunks*threads/2, "m=%d stride=%d threads=%d", m, stride, threads)
					}
				}
			}
		}
	}
}
