package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShard(t *testing.T) {
	work := []int64{1, 0, 5, 3, 3, 4} // by size: 5, 4, 3, 3, 1, 0
	require.Equal(t, []int{1, 2, 4}, Shard(work, 1, 2), "5, then 3 and 0")
	require.Equal(t, []int{0, 3, 5}, Shard(work, 2, 2), "4, then 3 and 1")
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, Shard(work, 1, 1))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, Shard(work, 0, 0))
	require.Equal(t, []int{1}, Shard(work[:2], 2, 3))
	require.Empty(t, Shard(work[:2], 3, 3), "more shards than items")
	require.Empty(t, Shard(nil, 1, 2))
}
