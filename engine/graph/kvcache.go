package graph

import (
	"errors"
	"fmt"
)

// KVCache is the key and value cache of a session: one region a side and layer,
// each [capacity][width] of the cache's type, zeros at the start. A region is
// made when the first plan runs, on the backend to which Assign pinned its
// layer, and stays there through all later plans: a plan that pins the layer
// elsewhere is refused.
type KVCache struct {
	layers []KV
	owner  []Backend // nil until the region exists
	closed bool
}

// NewKVCache describes a cache of that many layers and positions; the type is
// F32, F16 or Q8_0. kWidth and vWidth are the channels of a row, n_head_kv *
// head_dim; for Q8_0 they must be multiples of 32.
func NewKVCache(layers, capacity, kWidth, vWidth int, t DType) (*KVCache, error) {
	if layers < 1 || capacity < 1 || kWidth < 1 || vWidth < 1 {
		return nil, fmt.Errorf("kv cache: %d layers, capacity %d, widths %d and %d, want positive numbers", layers, capacity, kWidth, vWidth)
	}
	if !isKVType(t) {
		return nil, fmt.Errorf("kv cache: type %v, want f32, f16 or q8_0", t)
	}
	if bs := t.BlockSize(); kWidth%bs != 0 || vWidth%bs != 0 {
		return nil, fmt.Errorf("kv cache: widths %d and %d, want multiples of %d for %v", kWidth, vWidth, bs, t)
	}
	// Offsets within a region are int; no machine has more.
	if row := max(t.RowBytes(kWidth), t.RowBytes(vWidth)); capacity > (1<<46)/row {
		return nil, fmt.Errorf("kv cache: %d positions of %d bytes, want less than 2^46 bytes a region", capacity, row)
	}
	c := &KVCache{layers: make([]KV, layers), owner: make([]Backend, layers)}
	for i := range c.layers {
		c.layers[i] = KV{Type: t, Capacity: capacity, KWidth: kWidth, VWidth: vWidth}
	}
	return c, nil
}

// Capacity is the number of positions.
func (c *KVCache) Capacity() int { return c.layers[0].Capacity }

// Bytes is the size of all regions, existing or not.
func (c *KVCache) Bytes() int {
	n := 0
	for i := range c.layers {
		n += c.layers[i].bytes(KVKey) + c.layers[i].bytes(KVValue)
	}
	return n
}

// Layer returns a layer's regions and their backend; nil buffers and backend
// before the first run. It is how tests look into, and plant faults in, a cache.
func (c *KVCache) Layer(layer int) (KV, Backend) { return c.layers[layer], c.owner[layer] }

// Clear fills every region with zeros, for a new sequence.
func (c *KVCache) Clear() error {
	if c.closed {
		return errKVClosed
	}
	for i, b := range c.owner {
		if b == nil {
			continue
		}
		if err := c.zero(i); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the regions. It is idempotent.
func (c *KVCache) Close() {
	c.closed = true
	for i := range c.layers {
		c.free(i)
	}
}

var errKVClosed = errors.New("kv cache: used after Close")

// width is the number of channels of a row of the side.
func (kv *KV) width(s KVSide) int {
	if s == KVKey {
		return kv.KWidth
	}
	return kv.VWidth
}

func (kv *KV) region(s KVSide) Buffer {
	if s == KVKey {
		return kv.K
	}
	return kv.V
}

func (kv *KV) bytes(s KVSide) int { return kv.Capacity * kv.Type.RowBytes(kv.width(s)) }

// A ZeroAllocator is a Backend that can make memory of zeros without writing them:
// a cache then takes memory as it fills, and not all at its start.
type ZeroAllocator interface {
	// AllocZeroed is AllocBuffer of memory that is zero.
	AllocZeroed(size int) (Buffer, error)
}

// bind returns the regions of a layer on backend b and makes them when they do
// not exist yet.
func (c *KVCache) bind(layer int, b Backend) (*KV, error) {
	if c.closed {
		return nil, errKVClosed
	}
	if layer < 0 || layer >= len(c.layers) {
		return nil, fmt.Errorf("kv cache: layer %d, the cache has %d", layer, len(c.layers))
	}
	kv := &c.layers[layer]
	switch c.owner[layer] {
	case b:
		return kv, nil
	case nil:
	default:
		return nil, fmt.Errorf("assignment/alloc mismatch: the kv region of layer %d lives on backend %s, its split runs on %s",
			layer, c.owner[layer].Name(), b.Name())
	}
	c.owner[layer] = b
	alloc := b.AllocBuffer
	z, zeroed := b.(ZeroAllocator)
	if zeroed {
		alloc = z.AllocZeroed
	}
	for _, s := range []KVSide{KVKey, KVValue} {
		buf, err := alloc(kv.bytes(s))
		if err != nil {
			c.free(layer)
			return nil, fmt.Errorf("kv cache: layer %d: %d bytes on %s: %w", layer, kv.bytes(s), b.Name(), err)
		}
		if s == KVKey {
			kv.K = buf
		} else {
			kv.V = buf
		}
	}
	if zeroed {
		return kv, nil
	}
	if err := c.zero(layer); err != nil {
		c.free(layer)
		return nil, err
	}
	return kv, nil
}

// zero writes zeros over both regions of a layer, by pieces: a region may be as
// large as all other memory of a session.
func (c *KVCache) zero(layer int) error {
	kv, b := &c.layers[layer], c.owner[layer]
	zeros := make([]byte, min(1<<20, max(kv.bytes(KVKey), kv.bytes(KVValue))))
	for _, s := range []KVSide{KVKey, KVValue} {
		n := kv.bytes(s)
		for off := 0; off < n; off += len(zeros) {
			if err := b.WriteHost(kv.region(s), off, zeros[:min(len(zeros), n-off)]); err != nil {
				return fmt.Errorf("kv cache: clear layer %d on %s: %w", layer, b.Name(), err)
			}
		}
	}
	return nil
}

func (c *KVCache) free(layer int) {
	kv, b := &c.layers[layer], c.owner[layer]
	if b == nil {
		return
	}
	if kv.K != nil {
		b.FreeBuffer(kv.K)
	}
	if kv.V != nil {
		b.FreeBuffer(kv.V)
	}
	kv.K, kv.V, c.owner[layer] = nil, nil, nil
}
