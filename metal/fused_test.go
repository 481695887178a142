package metal_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/refs"
)

// projection is a FusedQKV or FusedQkvNorm node with its reference.
type projection struct {
	weights       gguf.Type
	in            int
	hd, vd        int
	heads, kv     int
	bias, norm    bool
	rope          graph.Rope
	factors       bool
	pos, capacity int
}

func (c projection) rows() int { return (c.heads+c.kv)*c.hd + c.kv*c.vd }

var neox = graph.Rope{Mode: graph.RopeNeox, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}
var yarn = graph.Rope{Mode: graph.RopeNorm, FreqBase: 1e4, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, NCtxOrig: 4096}

var projections = []projection{
	{gguf.Q4_0, 896, 64, 64, 14, 2, true, false, neox, false, 131, 256},
	{gguf.Q4_0, 64, 64, 64, 1, 1, false, false, neox, false, 0, 1},
	{gguf.Q8_0, 256, 128, 128, 4, 2, false, true, neox, false, 1023, 1024},
	{gguf.Q4_K, 256, 32, 96, 3, 3, true, true, yarn, true, 7, 9},
	{gguf.F16, 96, 64, 32, 2, 1, true, false, yarn, false, 40, 41},
	{gguf.F32, 33, 96, 32, 5, 1, false, true, neox, true, 3, 17},
}

// node registers the weights and makes the node.
func (c projection) node(t testing.TB, b *metal.Backend, i int) *graph.Node {
	r := c.rope
	r.NDims = c.hd
	if c.factors {
		r.NDims -= 4 // some channels do not rotate
	}
	n := &graph.Node{
		Op: graph.FusedQKV, Name: "Qcur-0", Shape: graph.Mat(c.heads*c.hd, 1), Weight: matrix(t, c.weights, c.in, c.rows(), uint64(i)),
		In:   []*graph.Node{f32(graph.Mat(c.in, 1)), {Op: graph.Input, Type: gguf.I32, Shape: graph.Vec(1)}},
		Attr: graph.Attr{HeadDim: c.hd, NHead: c.heads, NHeadKV: c.kv, Rope: r},
	}
	require.NoError(t, b.HoldWeight(n.Weight))
	name := func(s string) string { return fmt.Sprintf("%s.%d", s, i) }
	if c.bias {
		n.Bias = vector(t, b, name("bias"), gaussian(c.rows(), 11))
	}
	if c.norm {
		n.Op, n.Attr.Eps = graph.FusedQkvNorm, headEps
		n.Norm = vector(t, b, name("norm"), gaussian(2*c.hd, 12))
	}
	if c.factors {
		f := make([]float32, r.NDims/2)
		for k := range f {
			f[k] = 1 + float32(k)
		}
		n.Factors = vector(t, b, name("factors"), f)
	}
	return n
}

// headEps is large enough to be seen in the results, and exact in a float.
const headEps = 0.25

// wanted is q, k and v before the cache rounds them, and the RMS of the terms that
// the entry's bound is stated for.
func (c projection) wanted(t testing.TB, n *graph.Node, x []float64) (q, k, v []float64, terms float64) {
	m := refs.Matrix{Type: n.Weight.Type, In: c.in, Out: c.rows(), Data: n.Weight.Data}
	all, err := refs.MatMul(m, x)
	require.NoError(t, err)
	terms, err = refs.MatMulTerms(m, x)
	require.NoError(t, err)
	if n.Bias != nil {
		all = refs.Add(all, floatsOf(n.Bias.Data))
	}
	q, k, v = all[:c.heads*c.hd], all[c.heads*c.hd:(c.heads+c.kv)*c.hd], all[(c.heads+c.kv)*c.hd:]
	if n.Norm != nil {
		w, scale := floatsOf(n.Norm.Data), 0.0
		for h := 0; h < (c.heads+c.kv)*c.hd; h += c.hd {
			scale = max(scale, 1/refs.RMS(all[h:h+c.hd]))
		}
		largest := 0.0
		for _, v := range w {
			largest = max(largest, math.Abs(v))
		}
		terms *= max(1, scale*largest)
		q, k = refs.QkNorm(q, c.hd, headEps, w[:c.hd]), refs.QkNorm(k, c.hd, headEps, w[c.hd:])
	}
	r, pos := reference(n.Attr.Rope, n.Factors), []int32{int32(c.pos)}
	return refs.RoPE(q, c.hd, pos, r), refs.RoPE(k, c.hd, pos, r), v, terms
}

// region is a cache side full of a pattern.
func region(t testing.TB, b *metal.Backend, typ gguf.Type, width, cells int) (graph.Buffer, []byte) {
	t.Helper()
	data := make([]byte, typ.RowBytes(width)*cells)
	for i := range data {
		data[i] = byte(i*7 + 1)
	}
	buf, err := b.AllocBuffer(len(data))
	require.NoError(t, err)
	require.NoError(t, b.WriteHost(buf, 0, data))
	return buf, data
}

// checkRegion holds the cell against the values that were stored, within the bound
// and the type's rounding, and the others against what they were.
func checkRegion(t testing.TB, what string, b *metal.Backend, buf graph.Buffer, before []byte, typ gguf.Type, cell int, want []float64, tolerance float64) {
	t.Helper()
	data := make([]byte, len(before))
	require.NoError(t, b.ReadHost(buf, 0, data))
	row := typ.RowBytes(len(want))
	require.Equal(t, before[:cell*row], data[:cell*row], "%s: cells before", what)
	require.Equal(t, before[(cell+1)*row:], data[(cell+1)*row:], "%s: cells behind", what)
	got, err := refs.Dequantize(typ, data[cell*row:(cell+1)*row], len(want))
	require.NoError(t, err)
	for i, w := range want {
		rounding := 0.0
		switch typ {
		case gguf.F16:
			rounding = max(math.Abs(w)*0x1p-11, 0x1p-25)
		case gguf.Q8_0:
			largest := 0.0
			for _, v := range want[i/32*32 : i/32*32+32] {
				largest = max(largest, math.Abs(v))
			}
			// Half a step of the quants, and the scale's own rounding.
			rounding = largest/127/2*(1+0x1p-10) + largest*0x1p-11
		}
		require.InDelta(t, w, got[i], tolerance+rounding, "%s: channel %d", what, i)
	}
}

func TestFusedQKV(t *testing.T) {
	b, list := watched(t, nil)
	for i, c := range projections {
		n := c.node(t, b, i)
		x := gaussian(c.in, 13)
		q, k, v, terms := c.wanted(t, n, refs.F64(x))
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0} {
			e := metal.Lookup(n.Op.String(), typ.String(), "")
			what := fmt.Sprintf("projection %d %v", i, typ)
			kv := &graph.KV{Type: typ, Capacity: c.capacity, KWidth: c.kv * c.hd, VWidth: c.kv * c.vd}
			var keys, values []byte
			kv.K, keys = region(t, b, typ, kv.KWidth, c.capacity)
			kv.V, values = region(t, b, typ, kv.VWidth, c.capacity)
			got := encode(t, b, n, kv, -1, bytesOf(x), int32s(int32(c.pos)))
			require.Equal(t, []string{"mul_mat " + c.weights.String() + " " + variantOf("single", c.weights, c.in, n.Weight.Shape[1]), e.ID()}, launches(list))
			within(t, what, e, got, q, c.in, terms)
			tolerance := func(want []float64) float64 {
				return min(1e-3*max(1, refs.RMS(want)), e.Bound.C*0x1p-24*math.Sqrt(float64(c.in))*terms)
			}
			checkRegion(t, what+" K", b, kv.K, keys, typ, c.pos, k, tolerance(k))
			checkRegion(t, what+" V", b, kv.V, values, typ, c.pos, v, tolerance(v))
			b.FreeBuffer(kv.K)
			b.FreeBuffer(kv.V)
		}
	}
}

// A position outside of the cache is stored nowhere; the query turns by it, however
// far.
func TestFusedQKVOutside(t *testing.T) {
	b, _ := watched(t, nil)
	c := projections[0]
	n := c.node(t, b, 0)
	for _, pos := range []int32{int32(c.capacity), 1_000_003, -1} {
		kv := &graph.KV{Type: gguf.F16, Capacity: c.capacity, KWidth: c.kv * c.hd, VWidth: c.kv * c.vd}
		var keys, values []byte
		kv.K, keys = region(t, b, gguf.F16, kv.KWidth, c.capacity)
		kv.V, values = region(t, b, gguf.F16, kv.VWidth, c.capacity)
		x := gaussian(c.in, 13)
		got := encode(t, b, n, kv, -1, bytesOf(x), int32s(pos))
		if c.pos = int(pos); pos >= 0 {
			q, _, _, terms := c.wanted(t, n, refs.F64(x))
			within(t, fmt.Sprintf("position %d", pos), metal.Lookup("fused_qkv", "f16", ""), got, q, c.in, terms)
		}
		for buf, want := range map[graph.Buffer][]byte{kv.K: keys, kv.V: values} {
			got := make([]byte, len(want))
			require.NoError(t, b.ReadHost(buf, 0, got))
			require.Equal(t, want, got, "position %d", pos)
		}
	}
}

// The fused node stores the bits that the single ones do.
func TestFusedQKVAsSingle(t *testing.T) {
	b, list := watched(t, nil)
	c := projections[2]
	n := c.node(t, b, 0)
	x, pos := bytesOf(gaussian(c.in, 14)), int32s(int32(c.pos))
	kv := &graph.KV{Type: gguf.Q8_0, Capacity: c.capacity, KWidth: c.kv * c.hd, VWidth: c.kv * c.vd}
	kv.K, _ = region(t, b, kv.Type, kv.KWidth, c.capacity)
	kv.V, _ = region(t, b, kv.Type, kv.VWidth, c.capacity)
	fused := encode(t, b, n, kv, -1, x, pos)

	all := encode(t, b, &graph.Node{Op: graph.MatMul, Shape: graph.Mat(c.rows(), 1), Weight: n.Weight, In: n.In[:1]}, nil, -1, x)
	part := func(from, size int) []byte { return bytesOf(refs.F32(all[from : from+size])) }
	rotated := func(from, heads int, w *graph.Weight) []byte {
		s := graph.Mat(heads*c.hd, 1)
		normed := encode(t, b, &graph.Node{Op: graph.QkNorm, Shape: s, Weight: w, In: nodes(f32(s), 1), Attr: graph.Attr{HeadDim: c.hd, Eps: n.Attr.Eps}}, nil, -1, part(from, heads*c.hd))
		return bytesOf(refs.F32(encode(t, b, &graph.Node{
			Op: graph.RoPE, Shape: s, In: []*graph.Node{f32(s), n.In[1]}, Attr: graph.Attr{HeadDim: c.hd, NHead: heads, Rope: n.Attr.Rope},
		}, nil, -1, bytesOf(refs.F32(normed)), pos)))
	}
	norms := floatsOf(n.Norm.Data)
	q := rotated(0, c.heads, vector(t, b, "q norm", refs.F32(norms[:c.hd])))
	k := rotated(c.heads*c.hd, c.kv, vector(t, b, "k norm", refs.F32(norms[c.hd:])))
	require.Equal(t, q, bytesOf(refs.F32(fused)), "q")
	for _, side := range []struct {
		values []byte
		buf    graph.Buffer
		width  int
		attr   graph.KVSide
	}{{k, kv.K, kv.KWidth, graph.KVKey}, {part((c.heads+c.kv)*c.hd, c.kv*c.vd), kv.V, kv.VWidth, graph.KVValue}} {
		buf, before := region(t, b, kv.Type, side.width, c.capacity)
		in, at := guarded(t, b, side.values), guarded(t, b, pos)
		s := graph.Mat(side.width, 1)
		store := &graph.Node{Op: graph.KvcacheStore, Type: kv.Type, Shape: s, In: []*graph.Node{f32(s), n.In[1]}, Attr: graph.Attr{KV: side.attr}}
		require.NoError(t, b.ExecuteNode(store, []graph.Operand{in, at}, graph.Operand{Buf: buf, Len: len(before)}, kv))
		require.NoError(t, b.Synchronize())
		want, got := make([]byte, len(before)), make([]byte, len(before))
		require.NoError(t, b.ReadHost(buf, 0, want))
		require.NoError(t, b.ReadHost(side.buf, 0, got))
		require.Equal(t, want, got, "side %d", side.attr)
	}
	launches(list)
}

func TestFusedFFN(t *testing.T) {
	b, list := watched(t, nil)
	e := metal.Lookup("fused_ffn", "", "")
	for i, test := range []struct {
		typ    gguf.Type
		in, ff int
	}{{gguf.Q4_0, 64, 1}, {gguf.Q8_0, 96, 33}, {gguf.Q4_K, 256, 1025}, {gguf.F16, 31, 255}, {gguf.Q6_K, 256, 300}} {
		w := matrix(t, test.typ, test.in, 2*test.ff, uint64(i))
		require.NoError(t, b.HoldWeight(w))
		x := gaussian(test.in, 15)
		m := refs.Matrix{Type: w.Type, In: test.in, Out: 2 * test.ff, Data: w.Data}
		all, err := refs.MatMul(m, refs.F64(x))
		require.NoError(t, err)
		terms, err := refs.MatMulTerms(m, refs.F64(x))
		require.NoError(t, err)
		want := refs.SwiGLU(all[:test.ff], all[test.ff:])
		largest := 1.0
		for _, v := range all {
			largest = max(largest, math.Abs(v))
		}
		n := &graph.Node{Op: graph.FusedFFN, Shape: graph.Mat(test.ff, 1), Weight: w, In: nodes(f32(graph.Mat(test.in, 1)), 1)}
		within(t, fmt.Sprint(test), e, encode(t, b, n, nil, -1, bytesOf(x)), want, test.in, terms*largest)
		require.Equal(t, []string{"mul_mat " + test.typ.String() + " " + variantOf("single", test.typ, test.in, 2*test.ff), "fused_ffn"}, launches(list))
	}
}

func TestFusedGuards(t *testing.T) {
	b, list := watched(t, nil)
	c := projections[5] // F32, with norm, hd 96 and vd 32
	kv := func(typ gguf.Type) *graph.KV {
		k := &graph.KV{Type: typ, Capacity: c.capacity, KWidth: c.kv * c.hd, VWidth: c.kv * c.vd}
		k.K, _ = region(t, b, typ, k.KWidth, k.Capacity)
		k.V, _ = region(t, b, typ, k.VWidth, k.Capacity)
		return k
	}
	good := c.node(t, b, 0)
	for _, test := range []struct {
		text   string
		typ    gguf.Type
		change func(*graph.Node, *graph.KV)
	}{
		{"weight f32.33.608.0 has 608 rows, want (n_head 6 + n_head_kv 1) * head_dim 96 and a multiple", gguf.F16, func(n *graph.Node, _ *graph.KV) { n.Attr.NHead = 6 }},
		{"KV cache of type q4_0, want f32, f16 or q8_0", gguf.F16, func(_ *graph.Node, k *graph.KV) { k.Type = gguf.Q4_0 }},
		{"norm weight given: false, want true", gguf.F16, func(n *graph.Node, _ *graph.KV) { n.Norm = nil }},
		{"norm weight given: true, want false", gguf.F16, func(n *graph.Node, _ *graph.KV) { n.Op = graph.FusedQKV }},
		{"want f32 of 192 values", gguf.F16, func(n *graph.Node, _ *graph.KV) { n.Norm = n.Factors }},
		{"rows of 96 and 32 values of K and V, the cache has 96 and 64", gguf.F16, func(_ *graph.Node, k *graph.KV) { k.VWidth = 64 }},
		{"a KV cache of 44739243 positions of 96 values, want at most 2147483647 values", gguf.F16, func(_ *graph.Node, k *graph.KV) { k.Capacity = 1<<32/96 + 1 }},
		{"n_dims is 98, want an even number up to head_dim = 96", gguf.F16, func(n *graph.Node, _ *graph.KV) { n.Attr.Rope.NDims = 98 }},
		{"heads of 152 and 304 values in a q8_0 cache, want multiples of 32", gguf.F16, func(n *graph.Node, k *graph.KV) {
			n.Attr.HeadDim, n.Attr.NHead, k.Type, n.Norm = 152, 1, gguf.Q8_0, nil
			n.Op = graph.FusedQKV
		}},
	} {
		n, k := *good, kv(test.typ)
		test.change(&n, k)
		refused(t, b, list, &n, k, test.text)
	}
	w := matrix(t, gguf.F32, 2, 2*(metal.MaxFusedFF+1), 1)
	require.NoError(t, b.HoldWeight(w))
	launches(list)
	n := &graph.Node{Op: graph.FusedFFN, Shape: graph.Mat(metal.MaxFusedFF+1, 1), Weight: w, In: nodes(f32(graph.Mat(2, 1)), 1)}
	refused(t, b, list, n, nil, "n_ff is 16385, want at most 16384")
	n.Shape = graph.Mat(100, 1)
	refused(t, b, list, n, nil, "has 32770 rows, want those of gate and up: 2 * n_ff = 200")
}

func TestSupportsFused(t *testing.T) {
	b, _ := watched(t, nil)
	n := projections[5].node(t, b, 0)
	require.True(t, b.SupportsFusedNode(n, gguf.Q8_0))
	require.False(t, b.SupportsFusedNode(n, gguf.Q4_0))
	n.Attr.Rope.NDims = 3
	require.False(t, b.SupportsFusedNode(n, gguf.F32))
	off, _ := watched(t, func(l *lever.Levers) { l.NoFuseQKV = true })
	require.False(t, off.SupportsFused(graph.FusedQkvNorm))
	require.True(t, off.SupportsFused(graph.FusedFFN))
}
