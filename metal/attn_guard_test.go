package metal_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/metal/kernels"
	"minfer/metal/mtl"
	"minfer/metal/mtl/soft"
	"minfer/metal/mtl/soft/san"
	"minfer/refs"
)

// Each guard of attention is an error with the numbers, and encodes nothing.
func TestAttentionGuards(t *testing.T) {
	r := newAttnRig(t)
	b := r.backend(nil)
	good := attnCase{kv: gguf.F16, hd: 64, nHead: 4, nHeadKV: 2, cells: 5, window: 8, rows: 1}
	for _, c := range []struct {
		name, want string
		change     func(n *graph.Node, kv *graph.KV)
	}{
		{"ratio of heads", "n_head 4 is no multiple of n_head_kv 3", func(n *graph.Node, kv *graph.KV) { n.Attr.NHeadKV = 3 }},
		{"no heads", "n_head is 4 and n_head_kv is 0: want at least 1", func(n *graph.Node, kv *graph.KV) { n.Attr.NHeadKV = 0 }},
		{"head size", "head_dim is 2048: want 1 to 1024", func(n *graph.Node, kv *graph.KV) { n.Attr.HeadDim = 2048 }},
		{"no head size", "head_dim is 0: want 1 to 1024", func(n *graph.Node, kv *graph.KV) { n.Attr.HeadDim = 0 }},
		{"width of K", "rows of the K cache have 192 values: want n_head_kv 2 * head_dim 64 = 128", func(n *graph.Node, kv *graph.KV) { kv.KWidth = 192 }},
		{"width of V", "head_dim of the V cache is 64/2: want head_dim = 64 of the keys", func(n *graph.Node, kv *graph.KV) { kv.VWidth = 64 }},
		{"window", "n_kv is 9: want 1 to the capacity 8", func(n *graph.Node, kv *graph.KV) { n.Attr.NKV = 9 }},
		{"no window", "n_kv is 0: want 1 to the capacity 8", func(n *graph.Node, kv *graph.KV) { n.Attr.NKV = 0 }},
		{"size", "a KV cache of 33554432 positions of 128 values, want at most 2147483647 values", func(n *graph.Node, kv *graph.KV) { kv.Capacity = 1 << 25 }},
		{"rows", "16777216 rows of 4 heads of 64 values, want at most 2147483647 values", func(n *graph.Node, kv *graph.KV) { n.Shape = graph.Mat(256, 1<<24) }},
		{"heads", "1 rows of 33554432 heads of 64 values, want at most 2147483647 values", func(n *graph.Node, kv *graph.KV) { n.Attr.NHead = 1 << 25 }},
		{"cache type", "KV cache of type bf16: want f32, f16 or q8_0", func(n *graph.Node, kv *graph.KV) { kv.Type = gguf.BF16 }},
		{"packed rows", "q8_0 rows of the KV cache have 144 values: want a multiple of 32", func(n *graph.Node, kv *graph.KV) {
			kv.Type, kv.KWidth, kv.VWidth, n.Attr.HeadDim = gguf.Q8_0, 144, 144, 72
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, kv := good.node()
			c.change(n, kv)
			r.launched = nil
			err := b.ExecuteNode(n, make([]graph.Operand, 4), graph.Operand{}, kv)
			require.ErrorIs(t, err, graph.ErrUnsupported)
			require.EqualError(t, err, `metal: node 9 "kqv_out-0" (attention): unsupported: `+c.want+` (force CPU with MINFER_DISABLE_MPS=1)`)
			require.Empty(t, r.launched)
		})
	}
	t.Run("operands", func(t *testing.T) {
		n, kv := good.node()
		in := []graph.Operand{{Len: 1024}, {Len: 8 * 256}, {Len: 7 * 256}, {Len: 4}}
		err := b.ExecuteNode(n, in, graph.Operand{Len: 1024}, kv)
		require.EqualError(t, err, `metal: node 9 "kqv_out-0" (attention): bytes of v: 1792, want 2048`)
		err = b.ExecuteNode(n, in, graph.Operand{Len: 1024}, nil)
		require.EqualError(t, err, `metal: node 9 "kqv_out-0" (attention): no KV cache`)
	})
}

// small is a device with less threadgroup memory than the kernels want.
type small struct{ mtl.Device }

func (d small) Limits() mtl.Limits {
	l := d.Device.Limits()
	l.MaxThreadgroupMemory = 1000
	return l
}

func TestAttentionThreadgroupMemory(t *testing.T) {
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	require.NoError(t, err)
	defer dev.Close()
	b, err := metal.New(small{dev}, metal.Options{Levers: lever.Default()})
	require.NoError(t, err)
	defer b.Close()
	c := attnCase{kv: gguf.F32, hd: 80, nHead: 2, nHeadKV: 2, cells: 3, window: 3, rows: 1}
	n, kv := c.node()
	in := []graph.Operand{{Len: 640}, {Len: 3 * 640}, {Len: 3 * 640}, {Len: 4}}
	err = b.ExecuteNode(n, in, graph.Operand{Len: 640}, kv)
	require.ErrorIs(t, err, graph.ErrUnsupported)
	require.ErrorContains(t, err, "attention f32 classic needs 1024 bytes of threadgroup memory: the device has 1000 (force CPU with MINFER_DISABLE_MPS=1)")
}

// The choice of a kernel by shape and levers.
func TestAttentionVariants(t *testing.T) {
	r := newAttnRig(t)
	set := func(flash, split bool) func(*lever.Levers) {
		return func(l *lever.Levers) {
			l.NoFlash, l.NoSplitAttn, l.NoPrefillFlash, l.NoMatmulAttn = flash, split, flash, split
		}
	}
	for _, c := range []struct {
		flash, split bool // levers: off
		hd           int
		want         string
	}{
		{false, false, 64, "flash_decode_64"}, {false, true, 128, "flash_decode_128"},
		{true, false, 64, "split_64"}, {true, false, 128, "split_128"}, {true, true, 64, "classic"},
		{false, false, 80, "classic"}, {true, false, 96, "classic"},
	} {
		r.launched = nil
		r.check(r.backend(set(c.flash, c.split)), attnCase{kv: gguf.F32, hd: c.hd, nHead: 2, nHeadKV: 1, cells: 3, window: 4, rows: 1},
			metal.Bound{C: 256}, false)
		require.Equal(t, "attention f32 "+c.want, r.launched[0])
	}
}

// handLaunch runs kernels of one source by hand, one barrier after each.
type handLaunch struct {
	t   *testing.T
	dev mtl.Device
	lib map[string]mtl.Library
}

func newHandLaunch(t *testing.T) *handLaunch {
	dev, err := soft.New(soft.Options{Mode: san.Strict})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return &handLaunch{t: t, dev: dev, lib: map[string]mtl.Library{}}
}

func (h *handLaunch) buffer(size int, data []byte) mtl.Binding {
	b, err := h.dev.NewBuffer(size, fmt.Sprintf("%d bytes", size))
	require.NoError(h.t, err)
	if data != nil {
		require.NoError(h.t, b.Write(0, data))
	}
	return mtl.Binding{Buffer: b, Length: size}
}

func (h *handLaunch) run(file, kernel string, groups, threads mtl.Size, bind ...mtl.Binding) {
	h.t.Helper()
	if h.lib[file] == nil {
		text, err := fs.ReadFile(kernels.FS, file)
		require.NoError(h.t, err)
		h.lib[file], err = h.dev.Compile(context.Background(), mtl.Source{Name: file, Text: string(text), Include: kernels.FS, FastMath: true})
		require.NoError(h.t, err)
	}
	p, err := h.lib[file].Pipeline(kernel, nil)
	require.NoError(h.t, err)
	for i := range bind {
		bind[i].Index = i
	}
	cb, err := h.dev.NewCommandBuffer(kernel)
	require.NoError(h.t, err)
	require.NoError(h.t, cb.Dispatch(mtl.Dispatch{Label: kernel, Pipeline: p, Bindings: bind, Threadgroups: groups, ThreadsPerThreadgroup: threads}))
	_, err = cb.Submit(context.Background())
	require.NoError(h.t, err)
}

func words(v ...any) mtl.Binding {
	var data []byte
	for _, x := range v {
		switch x := x.(type) {
		case int:
			data = binary.LittleEndian.AppendUint32(data, uint32(x))
		case float32:
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	}
	return mtl.Binding{Bytes: data}
}

// Heads that no KV head is left for, and positions outside of the window: the
// kernels stay within their buffers, write zeros for what sees nothing, and get
// the rest right.
func TestAttentionInvalidHeads(t *testing.T) {
	h := newHandLaunch(t)
	const cells = 40
	for _, c := range []struct{ nHead, nHeadKV, hd, pos, sees int }{
		{7, 3, 64, cells - 1, cells}, {5, 3, 128, cells - 1, cells}, {2, 3, 64, 36, 37}, {4, 2, 64, 1000, cells}, {4, 2, 64, -1, 0},
	} {
		share := max(c.nHead/c.nHeadKV, 1)
		valid := min(c.nHead, share*c.nHeadKV)
		d := attnCase{kv: gguf.F32, hd: c.hd, nHead: c.nHead, nHeadKV: c.nHeadKV, cells: cells, rows: 1}.data()
		scale := float32(1 / math.Sqrt(float64(c.hd)))
		want := make([]float64, c.hd*c.nHead)
		// Of 2 heads over 3 KV heads the third KV head has none: the first two are
		// read one to one.
		for head := range valid {
			if c.sees == 0 {
				break
			}
			one := func(x []float64) []float64 {
				var y []float64
				for i := range cells {
					at := (i*c.nHeadKV + head/share) * c.hd
					y = append(y, x[at:at+c.hd]...)
				}
				return y
			}
			p, err := refs.Attention(d.q[head*c.hd:(head+1)*c.hd], one(d.k), one(d.v), []int32{int32(c.sees - 1)},
				refs.Attn{NHead: 1, NHeadKV: 1, HeadDim: c.hd, Scale: float64(scale)})
			require.NoError(t, err)
			copy(want[head*c.hd:], p.Out)
		}

		q, k, v := h.buffer(4*len(d.q), floatBytes(d.q)), h.buffer(4*len(d.k), floatBytes(d.k)), h.buffer(4*len(d.v), floatBytes(d.v))
		pos := h.buffer(4, positionBytes([]int32{int32(c.pos)}))
		check := func(kernel string, out mtl.Binding) {
			t.Helper()
			data := make([]byte, out.Length)
			require.NoError(t, out.Buffer.Read(0, data))
			for i, x := range bytesFloat(data) {
				require.InDelta(t, want[i], float64(x), 1e-5, "%s, %+v, element %d", kernel, c, i)
			}
		}
		output := func() mtl.Binding {
			out := h.buffer(4*c.hd*c.nHead, nil)
			out.Access = mtl.Output
			return out
		}
		out := output()
		h.run("attn_classic.metal", "kernel_attn_classic_f32", mtl.Size{X: c.nHead, Y: 1, Z: 1}, mtl.Size{X: c.hd, Y: 1, Z: 1},
			q, k, v, pos, out, words(c.nHead, c.nHeadKV, c.hd, cells, 1, scale))
		check("classic", out)

		for _, two := range []struct {
			file, kernel    string
			chunks, threads int
		}{
			{"attn_flash_decode.metal", fmt.Sprintf("kernel_attn_flash_decode_f32_%d", c.hd), 2, 32},
			{"attn_flash_decode.metal", fmt.Sprintf("kernel_attn_flash_decode_f32_%d", c.hd), 1, 64},
			{"attn_split.metal", fmt.Sprintf("kernel_attn_split_f32_%d", c.hd), 1, 128},
		} {
			partial, state, out := h.buffer(4*c.hd*c.nHead*two.chunks, nil), h.buffer(8*c.nHead*two.chunks, nil), output()
			partial.Access, state.Access = mtl.Write, mtl.Write
			params := words(c.nHead, c.nHeadKV, c.hd, cells, two.chunks, scale)
			h.run(two.file, two.kernel, mtl.Size{X: c.nHead, Y: two.chunks, Z: 1}, mtl.Size{X: two.threads, Y: 1, Z: 1},
				q, k, v, pos, partial, state, params)
			partial.Access, state.Access = mtl.Read, mtl.Read
			h.run("attn_flash_decode.metal", "kernel_attn_combine", mtl.Size{X: c.nHead, Y: 1, Z: 1}, mtl.Size{X: c.hd, Y: 1, Z: 1},
				partial, state, pos, out, params)
			check(two.kernel, out)
		}
	}
}
