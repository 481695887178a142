package harness

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every pair of values is in some row, and the arrays stay near the smallest
// possible: the product of the two largest factors.
func TestPairwise(t *testing.T) {
	for _, c := range []struct {
		levels []int
		most   int
	}{
		{nil, 0},
		{[]int{3}, 1},
		{[]int{1, 1, 1}, 1},
		{[]int{2, 2}, 4},
		{[]int{2, 2, 2}, 5},
		{[]int{4, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 12},
		{[]int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 9},
		{[]int{5, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 14},
		{[]int{7, 5, 3, 2}, 38},
	} {
		rows := Pairwise(c.levels)
		require.LessOrEqual(t, len(rows), c.most, "%v: %v", c.levels, rows)
		seen := map[string]bool{}
		for _, row := range rows {
			require.Len(t, row, len(c.levels))
			for i, a := range row {
				require.True(t, a >= 0 && a < c.levels[i])
				seen[fmt.Sprint(i, a)] = true
				for j := i + 1; j < len(row); j++ {
					seen[fmt.Sprint(i, a, j, row[j])] = true
				}
			}
		}
		want := 0
		for i, n := range c.levels {
			want += n
			for _, m := range c.levels[i+1:] {
				want += n * m
			}
		}
		if len(c.levels) == 1 {
			// One factor has no pairs; only the first row is promised.
			require.Len(t, rows, 1)
			continue
		}
		require.Len(t, seen, want, "%v", c.levels)
		require.Equal(t, rows, Pairwise(c.levels))
	}
}
