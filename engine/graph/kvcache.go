package graph

// KVCache is the key and value cache of a session: one region a side and layer,
// each [capacity][width] of the cache's type, zeros at the start. A region is
// made when the first plan runs, on the backend to which Assign pinned its
// layer, and stays there through all later plans.
type KVCache struct {
	layers []KV
}

// NewKVCache describes a cache of that many layers and positions. kWidth and
// vWidth are the channels of a row; for Q8_0 they must be multiples of 32.
func NewKVCache(layers, capacity, kWidth, vWidth int, t DType) (*KVCache, error) {
	return nil, errSkeleton
}

// Capacity is the number of positions.
func (c *KVCache) Capacity() int { return 0 }

// Type is the element type.
func (c *KVCache) Type() DType { return 0 }

// Clear fills every region with zeros.
func (c *KVCache) Clear() error { return errSkeleton }

// Close frees the regions. It is idempotent.
func (c *KVCache) Close() {}
