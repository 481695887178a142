package harness

import (
	"cmp"
	"slices"
)

// Shard gives part index of count, 1 to count, of a list whose items have that much
// work: the indices of its items, ascending. Items go, the largest first, to the
// shard that has least work so far, so that the shards are the whole without an item
// twice, and of nearly equal work. An item of no work counts as 1. More shards than
// items stay empty; a count of 1 or less is the whole.
func Shard(work []int64, index, count int) []int {
	order := make([]int, len(work))
	for i := range order {
		order[i] = i
	}
	if count <= 1 {
		return order
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(work[b], work[a]) })
	// A shard that no item has reached yet has no work, so the first such takes the next.
	sums := make([]int64, min(count, len(work)))
	var mine []int
	for _, i := range order {
		least := 0
		for s := range sums {
			if sums[s] < sums[least] {
				least = s
			}
		}
		sums[least] += max(work[i], 1)
		if least == index-1 {
			mine = append(mine, i)
		}
	}
	slices.Sort(mine)
	return mine
}
