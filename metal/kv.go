package metal

import (
	"fmt"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// kvThreads is the size of a threadgroup of the KV kernels.
const kvThreads = 128

func kvTable() []*Entry {
	const always = "KV cache of that type"
	return []*Entry{
		{Op: graph.KvcacheStore.String(), Type: "f32", Kernel: "kernel_kv_store_f32", When: always, Lever: "MINFER_CACHE_TYPE",
			Bound: Bound{Why: "a copy"}},
		{Op: graph.KvcacheStore.String(), Type: "f16", Kernel: "kernel_kv_store_f16", When: always, Lever: "MINFER_CACHE_TYPE",
			Bound: Bound{Why: "rounded once, as the reference is"}},
		{Op: graph.KvcacheStore.String(), Type: "q8_0", Kernel: "kernel_kv_store_q8_0", When: always, Lever: "MINFER_CACHE_TYPE",
			Bound: Bound{Staging: 1.0 / 127, Why: "x*127/max|x| in float32 may round to the other integer close to a tie: one step is max|x|/127, and max|x| is at most sqrt(32) * RMS of the block"}},
		kvDequantize,
	}
}

var kvDequantize = &Entry{
	Op: "kv_dequantize", Type: "q8_0", Kernel: "kernel_kv_dequantize_q8_0",
	When: "before attention over a q8_0 cache by any kernel but flash_decode", Lever: "MINFER_CACHE_TYPE",
	Bound: Bound{Why: "the product of an 8-bit and an 11-bit number is exact"},
}

// cacheType is the binding type of a cache's elements.
func cacheType(t gguf.Type) mtl.Type {
	switch t {
	case gguf.F32:
		return mtl.Float32
	case gguf.F16:
		return mtl.Float16
	}
	return mtl.AnyType
}

// checkCache is the guard of a cache's size: kernels count its values in 32 bits.
func checkCache(n *graph.Node, kv *graph.KV) error {
	if width := max(kv.KWidth, kv.VWidth); width > 0 && kv.Capacity > maxElements/width {
		return refuse(n, "a KV cache of %d positions of %d values, want at most %d values", kv.Capacity, width, maxElements)
	}
	return nil
}

// kvStore encodes a KvcacheStore node: each row of the input goes to the cell of
// its position. A position outside of the region writes nothing.
func (b *Backend) kvStore(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	if kv == nil {
		return fmt.Errorf("no KV cache")
	}
	if !slices.Contains([]gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0}, kv.Type) {
		return refuse(n, "KV cache of type %v: want f32, f16 or q8_0", kv.Type)
	}
	width, side := kv.KWidth, "K"
	if n.Attr.KV == graph.KVValue {
		width, side = kv.VWidth, "V"
	}
	rows := n.Shape.Rows()
	if n.Shape[0] != width || n.In[0].Shape[0] != width {
		return refuse(n, "rows of %d values (of the node %d): want the %d of the %s cache", n.In[0].Shape[0], n.Shape[0], width, side)
	}
	if kv.Type == gguf.Q8_0 && width%32 != 0 {
		return refuse(n, "q8_0 rows of the %s cache have %d values: want a multiple of 32", side, width)
	}
	if err := checkCache(n, kv); err != nil {
		return err
	}
	if rows > kv.Capacity {
		return refuse(n, "%d rows: the cache has a capacity of %d positions", rows, kv.Capacity)
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"rows of the input", n.In[0].Shape.Rows(), rows},
		{"bytes of the input", in[0].Len, 4 * width * rows},
		{"bytes of the positions", in[1].Len, 4 * rows},
		{"bytes of the region", out.Len, kv.Type.RowBytes(width) * kv.Capacity},
	} {
		if c.got != c.want {
			return fmt.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	if rows == 0 || width == 0 {
		return nil
	}
	g := grid{Grid: mtl.Size{X: width, Y: rows}, Threads: mtl.Size{X: min(kvThreads, width)}}
	if kv.Type == gguf.Q8_0 {
		blocks := width / 32
		perGroup := min(kvThreads/32, blocks)
		g = grid{Groups: mtl.Size{X: ceil(blocks, perGroup), Y: rows}, Threads: mtl.Size{X: 32 * perGroup}}
	}
	return b.launch(Lookup(graph.KvcacheStore.String(), kv.Type.String(), ""), n, []mtl.Binding{
		b.read(0, in[0], mtl.Float32), b.read(1, in[1], mtl.Int32), b.write(2, out, cacheType(kv.Type)),
		b.params(3, width, kv.Capacity),
	}, g)
}

// kvDequantize encodes the F32 copy of a window of a q8_0 cache.
func (b *Backend) kvDequantize(n *graph.Node, packed, stage graph.Operand) error {
	values := stage.Len / 4
	return b.launch(kvDequantize, n, []mtl.Binding{
		b.read(0, packed, mtl.AnyType), b.output(1, stage, mtl.Float32),
	}, grid{Grid: mtl.Size{X: values}, Threads: mtl.Size{X: min(kvThreads, values)}})
}
