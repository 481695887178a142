package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu/kernel"
)

// The chunks of a product cover all weight rows once. Those of a single token are
// in parts of nearly the same size, and the last of each part is short.
func TestCut(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 16} {
		for _, m := range []int{1, 7, 8, 9, 128, 896, 4864, 151936} {
			for _, stride := range []int{18, 504, 2736, 35840} {
				for _, n := range []int{1, 2, 3, 128} {
					mm := &matMul{m: m, n: n, k: stride * 2, stride: stride, tiled: n >= tileFrom, prep: &kernel.MatMul{}}
					mm.cut(threads)
					whole(t, mm)
				}
				mm := &matMul{m: m, n: 1, k: stride * 2, stride: stride}
				mm.cutStream(threads)
				whole(t, mm)
				s := mm.starts
				require.Len(t, s, threads+1)
				require.Zero(t, s[0])
				require.Equal(t, len(mm.bounds)-1, s[threads])
				for i := range threads {
					require.LessOrEqual(t, s[i], s[i+1])
					require.InDelta(t, float64(m)/float64(threads), mm.bounds[s[i+1]]-mm.bounds[s[i]], 16, "m=%d threads=%d", m, threads)
					if s[i] < s[i+1] {
						last := mm.bounds[s[i+1]] - mm.bounds[s[i+1]-1]
						require.LessOrEqual(t, last*stride, max(shortestChunk, 8*stride))
					}
				}
			}
		}
	}
}

func whole(t *testing.T, mm *matMul) {
	b := mm.bounds
	require.Zero(t, b[0])
	require.Equal(t, mm.m, b[len(b)-1])
	for i := 1; i < len(b); i++ {
		require.Greater(t, b[i], b[i-1])
	}
}
