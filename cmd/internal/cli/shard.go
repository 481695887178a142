package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxShards is more than any suite has cases and any sweep scenarios.
const MaxShards = 1 << 16

// ParseShard reads the I/N of --shard, 1 <= I <= N <= MaxShards; "" is 1/1.
func ParseShard(s string) (index, count int, err error) {
	if s == "" {
		return 1, 1, nil
	}
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || index < 1 || index > count || count > MaxShards {
		return 0, 0, fmt.Errorf("--shard %q: want I/N with 1 <= I <= N <= %d", s, MaxShards)
	}
	return index, count, nil
}
