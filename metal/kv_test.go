package metal_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal"
	"minfer/refs"
)

// storeNode is a KvcacheStore of rows into a region of capacity cells.
func storeNode(t gguf.Type, width, rows, capacity int) (*graph.Node, *graph.KV) {
	x := &graph.Node{Op: graph.MatMul, Name: "Vcur-0", Type: gguf.F32, Shape: graph.Mat(width, rows)}
	pos := &graph.Node{Op: graph.Input, Name: "inp_pos", Type: gguf.I32, Shape: graph.Vec(rows)}
	return &graph.Node{ID: 4, Op: graph.KvcacheStore, Name: "cache_v_l0", Type: t, Shape: graph.Mat(width, rows),
			In: []*graph.Node{x, pos}, Attr: graph.Attr{KV: graph.KVValue}},
		&graph.KV{Type: t, Capacity: capacity, KWidth: 2 * width, VWidth: width}
}

// Rows go to the cells of their positions, rounded once; all others keep their
// bytes, and a position outside of the region writes nothing.
func TestKVStore(t *testing.T) {
	r := newAttnRig(t)
	b := r.backend(nil)
	const capacity = 37
	for _, c := range []struct {
		kv    gguf.Type
		width int
		pos   []int32
	}{
		{gguf.F32, 128, []int32{0}}, {gguf.F32, 33, []int32{36, 0, 7}}, {gguf.F32, 1, []int32{5, -1, 37}},
		{gguf.F16, 128, []int32{36}}, {gguf.F16, 257, []int32{3, 2, 1}}, {gguf.F16, 64, []int32{-5, 9, 1 << 30}},
		{gguf.Q8_0, 32, []int32{36}}, {gguf.Q8_0, 96, []int32{4, 30, 9}}, {gguf.Q8_0, 160, []int32{-1, 11, 37}}, {gguf.Q8_0, 1024, []int32{2, 3}},
	} {
		name := fmt.Sprintf("%v width=%d pos=%v", c.kv, c.width, c.pos)
		rng := rand.New(rand.NewPCG(uint64(c.width), 3))
		x := normal(rng, c.width*len(c.pos), 3)
		if c.width >= 96 {
			clear(x[:32])                        // a block of zeros,
			x[32], x[33], x[34] = 127, 0.5, -2.5 // of ties with scale 1,
			for i := 35; i < 64; i++ {
				x[i] = float64(float32(math.Ldexp(float64(i), -149))) // with subnormals,
			}
			for i := 64; i < 96; i++ {
				x[i] = math.Ldexp(float64(i), -60) // and with a scale that is 0 as a half
			}
		}
		row := c.kv.RowBytes(c.width)
		before := bytes.Repeat([]byte{0x35}, row*capacity)
		cache := r.buffer(b, before)
		n, kv := storeNode(c.kv, c.width, len(c.pos), capacity)
		kv.V = cache.Buf
		r.launched = nil
		require.NoError(t, b.ExecuteNode(n, []graph.Operand{r.buffer(b, floatBytes(x)), r.buffer(b, positionBytes(c.pos))}, cache, kv), name)
		require.NoError(t, b.Synchronize(), name)
		require.Equal(t, []string{metal.Lookup("kv_store", c.kv.String(), "").ID()}, r.launched)
		after := r.bytes(b, cache)

		want := bytes.Clone(before)
		for i, p := range c.pos {
			if p < 0 || p >= capacity {
				continue
			}
			values, err := refs.RoundKV(c.kv, x[i*c.width:(i+1)*c.width])
			require.NoError(t, err)
			got := cacheValues(c.kv, after[int(p)*row:][:row])
			for j := range values {
				require.Equal(t, values[j], got[j], "%s: row %d, value %d of %v", name, i, j, x[i*c.width+j])
			}
			copy(want[int(p)*row:], cacheBytes(c.kv, x[i*c.width:(i+1)*c.width]))
		}
		require.Equal(t, -1, differs(want, after), "%s: first other byte", name)
	}
}

// differs is the first index where a and b differ, -1 for none.
func differs(a, b []byte) int {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	if len(b) > len(a) {
		return len(a)
	}
	return -1
}

func TestKVStoreGuards(t *testing.T) {
	r := newAttnRig(t)
	b := r.backend(nil)
	for _, c := range []struct {
		name, want string
		change     func(n *graph.Node, kv *graph.KV)
	}{
		{"type", "KV cache of type q4_0: want f32, f16 or q8_0", func(n *graph.Node, kv *graph.KV) { kv.Type = gguf.Q4_0 }},
		{"width", "rows of 64 values (of the node 64): want the 128 of the K cache", func(n *graph.Node, kv *graph.KV) { n.Attr.KV = graph.KVKey }},
		{"packed rows", "q8_0 rows of the V cache have 48 values: want a multiple of 32", func(n *graph.Node, kv *graph.KV) {
			kv.Type, kv.VWidth, n.Shape[0], n.In[0].Shape[0] = gguf.Q8_0, 48, 48, 48
		}},
		{"size", "a KV cache of 134217727 positions of 32 values, want at most 2147483647 values", func(n *graph.Node, kv *graph.KV) {
			kv.Type, kv.VWidth, kv.KWidth, kv.Capacity, n.Shape[0], n.In[0].Shape[0] = gguf.Q8_0, 32, 32, 1<<27-1, 32, 32
		}},
		{"capacity", "3 rows: the cache has a capacity of 2 positions", func(n *graph.Node, kv *graph.KV) { kv.Capacity = 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, kv := storeNode(gguf.F32, 64, 3, 8)
			c.change(n, kv)
			err := b.ExecuteNode(n, make([]graph.Operand, 2), graph.Operand{}, kv)
			require.ErrorIs(t, err, graph.ErrUnsupported)
			require.EqualError(t, err, `metal: node 4 "cache_v_l0" (kv_store): unsupported: `+c.want+` (force CPU with MINFER_DISABLE_MPS=1)`)
		})
	}
	n, kv := storeNode(gguf.F32, 64, 3, 8)
	err := b.ExecuteNode(n, []graph.Operand{{Len: 768}, {Len: 8}}, graph.Operand{Len: 2048}, kv)
	require.EqualError(t, err, `metal: node 4 "cache_v_l0" (kv_store): bytes of the positions: 8, want 12`)
}
