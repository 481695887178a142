package graphtest_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

func buffer(t *testing.T, b graph.Backend, x ...float32) graph.Operand {
	t.Helper()
	buf, err := b.AllocBuffer(max(4*len(x), 16))
	require.NoError(t, err)
	require.NoError(t, b.WriteHost(buf, 0, graphtest.FloatBytes(x)))
	return graph.Operand{Buf: buf, Len: 4 * len(x)}
}

func ints(t *testing.T, b graph.Backend, x ...int) graph.Operand {
	t.Helper()
	buf, err := b.AllocBuffer(4 * len(x))
	require.NoError(t, err)
	require.NoError(t, b.WriteHost(buf, 0, graphtest.IntBytes(x...)))
	return graph.Operand{Buf: buf, Len: 4 * len(x)}
}

func read(t *testing.T, b graph.Backend, o graph.Operand) []float32 {
	t.Helper()
	raw := make([]byte, o.Len)
	require.NoError(t, b.ReadHost(o.Buf, o.Off, raw))
	y := make([]float32, o.Len/4)
	for i := range y {
		y[i] = math.Float32frombits(uint32(raw[4*i]) | uint32(raw[4*i+1])<<8 | uint32(raw[4*i+2])<<16 | uint32(raw[4*i+3])<<24)
	}
	return y
}

func weight(s graph.Shape, x ...float32) *graph.Weight {
	return &graph.Weight{Name: "w", Type: gguf.F32, Shape: s, Data: graphtest.FloatBytes(x)}
}

// Values by hand.
func TestRef(t *testing.T) {
	r := graphtest.NewRef("Ref")
	run := func(n graph.Node, kv *graph.KV, in ...graph.Operand) []float32 {
		n.Type = gguf.F32
		out := buffer(t, r, make([]float32, n.Shape.Elements())...)
		require.NoError(t, r.ExecuteNode(&n, in, out, kv))
		return read(t, r, out)
	}
	x := func(v ...float32) graph.Operand { return buffer(t, r, v...) }

	require.Equal(t, []float32{5, 6, 1, 2}, run(graph.Node{Op: graph.GetRows, Shape: graph.Mat(2, 2), Weight: weight(graph.Mat(2, 3), 1, 2, 3, 4, 5, 6)}, nil, ints(t, r, 2, 0)))
	// [1 2; 3 4; 5 6] times (1, 10) plus bias.
	require.Equal(t, []float32{22, 44, 66}, run(graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 1), Weight: weight(graph.Mat(2, 3), 1, 2, 3, 4, 5, 6), Bias: weight(graph.Vec(3), 1, 1, 1)}, nil, x(1, 10)))
	require.InDeltaSlice(t, []float32{3. / 5 * math.Sqrt2, 8. / 5 * math.Sqrt2}, run(graph.Node{Op: graph.RmsNorm, Shape: graph.Vec(2), Weight: weight(graph.Vec(2), 1, 2)}, nil, x(3, 4)), 1e-6) // the mean square is 12.5
	require.InDeltaSlice(t, []float32{3. / 5 * math.Sqrt2, 8. / 5 * math.Sqrt2, -math.Sqrt2, 0}, run(graph.Node{Op: graph.QkNorm, Shape: graph.Vec(4), Attr: graph.Attr{HeadDim: 2}, Weight: weight(graph.Vec(2), 1, 2)}, nil, x(3, 4, -7, 0)), 1e-6)
	require.InDeltaSlice(t, []float32{0.7310586, -0.2689414}, run(graph.Node{Op: graph.Silu, Shape: graph.Vec(2)}, nil, x(1, -1)), 1e-6)
	require.InDeltaSlice(t, []float32{0.25, 0.75}, run(graph.Node{Op: graph.Softmax, Shape: graph.Vec(2), Attr: graph.Attr{Scale: 0.5}}, nil, x(0, 2*math.Ln2+2*0.40546511)), 1e-6)
	// A quarter turn at position 1: freq_base 1 and scale pi/2.
	turn := graph.Attr{HeadDim: 6, NHead: 1, Rope: graph.Rope{NDims: 4, FreqBase: 1, FreqScale: math.Pi / 2}}
	require.InDeltaSlice(t, []float32{-2, 1, -4, 3, 5, 6}, run(graph.Node{Op: graph.RoPE, Shape: graph.Vec(6), Attr: turn}, nil, x(1, 2, 3, 4, 5, 6), ints(t, r, 1)), 1e-6)
	turn.Rope.Mode = graph.RopeNeox
	require.InDeltaSlice(t, []float32{-3, -4, 1, 2, 5, 6}, run(graph.Node{Op: graph.RoPE, Shape: graph.Vec(6), Attr: turn}, nil, x(1, 2, 3, 4, 5, 6), ints(t, r, 1)), 1e-6)
	require.InDeltaSlice(t, []float32{-1, -4, -3, 2, 5, 6}, run(graph.Node{Op: graph.RoPE, Shape: graph.Vec(6), Attr: turn, Weight: weight(graph.Vec(2), 0.5, 1)}, nil, x(1, 2, 3, 4, 5, 6), ints(t, r, 1)), 1e-6)
	a := &graph.Node{Shape: graph.Mat(2, 3)}
	require.Equal(t, []float32{1, 3, 5, 2, 4, 6}, run(graph.Node{Op: graph.Permute, Shape: graph.Mat(3, 2), Attr: graph.Attr{Perm: [4]int{1, 0, 2, 3}}, In: []*graph.Node{a}}, nil, x(1, 2, 3, 4, 5, 6)))
	require.Equal(t, []float32{1, 3, 5}, run(graph.Node{Op: graph.BatchMatMul, Shape: graph.Mat(3, 1), In: []*graph.Node{a}}, nil, x(1, 2, 3, 4, 5, 6), x(1, 0)))

	// Two cells, keys (0) and (ln 3): weights 1/4 and 3/4.
	k, v := x(0, math.Ln2+0.40546511), x(4, 8)
	kv := &graph.KV{Type: gguf.F32, Capacity: 2, KWidth: 1, VWidth: 1, K: k.Buf, V: v.Buf}
	attn := graph.Node{Op: graph.Attn, Shape: graph.Mat(1, 2), Attr: graph.Attr{HeadDim: 1, NHead: 1, NHeadKV: 1, NKV: 2, Scale: 1}}
	require.InDeltaSlice(t, []float32{4, 7}, run(attn, kv, x(1, 1), k, v, ints(t, r, 0, 1)), 1e-6)

	err := r.ExecuteNode(&graph.Node{Op: graph.QkvBiasRopeStore}, nil, k, nil)
	require.ErrorContains(t, err, "op qkv_bias_rope_store")
	w := weight(graph.Vec(1), 1)
	w.Type = gguf.F16
	require.ErrorContains(t, r.ExecuteNode(&graph.Node{Op: graph.MatMul, Weight: w}, nil, k, nil), `weight "w" is f16, want f32`)
	r.FreeBuffer(k.Buf)
	require.ErrorContains(t, r.ReadHost(k.Buf, 0, make([]byte, 4)), "a freed buffer")
	require.ErrorContains(t, r.ReadHost(v.Buf, 12, make([]byte, 8)), "window 12+8 of a buffer of 16 bytes")
}

func double(b graph.Backend, x, y graph.Operand) error {
	n := &graph.Node{Op: graph.Scale, Name: "twice", Type: gguf.F32, Shape: graph.Vec(x.Len / 4), Attr: graph.Attr{Scale: 2}}
	return b.ExecuteNode(n, []graph.Operand{x}, y, nil)
}

func TestWrapIsLateAndOpaque(t *testing.T) {
	w := graphtest.Wrap(graphtest.NewRef("Ref"), graphtest.Options{Name: "Test", Async: true, Opaque: true, Poison: true})
	_, mapper := any(w).(graph.Mapper)
	require.False(t, mapper)
	x, y := buffer(t, w, 1, 2), buffer(t, w, 0, 0)
	require.NoError(t, double(w, x, y))
	raw := make([]byte, 8)
	require.EqualError(t, w.ReadHost(y.Buf, 0, raw), "Test buffer 1 (16 bytes): host read with 1 pending nodes, want Synchronize before")
	require.EqualError(t, w.WriteHost(x.Buf, 0, raw), "Test buffer 0 (16 bytes): host write with 1 pending nodes, want Synchronize before")
	require.NoError(t, w.Synchronize())
	require.Equal(t, []float32{2, 4}, read(t, w, y))

	// Lenient: the read waits by itself.
	w = graphtest.Wrap(graphtest.NewRef("Ref"), graphtest.Options{Async: true})
	require.Equal(t, "Ref", w.Name())
	x, y = buffer(t, w, 1, 2), buffer(t, w, 0, 0)
	require.NoError(t, double(w, x, y))
	require.Equal(t, []float32{2, 4}, read(t, w, y))
}

func TestWrapWatchesLifetimes(t *testing.T) {
	w := graphtest.Wrap(graphtest.NewRef("Ref"), graphtest.Options{Name: "Test", Async: true, Opaque: true, Poison: true})
	x, y := buffer(t, w, 1, 2), buffer(t, w, 0, 0)
	require.NoError(t, double(w, x, y))
	w.FreeBuffer(x.Buf)
	require.EqualError(t, w.Synchronize(), "Test buffer 0 (16 bytes): freed with 1 pending nodes")
	require.Equal(t, 2, w.Live())
	w.FreeBuffer(x.Buf)
	w.FreeBuffer(x.Buf)
	require.Equal(t, 1, w.DoubleFrees())
	require.Equal(t, 1, w.Live())
	require.EqualError(t, w.ReadHost(x.Buf, 0, nil), "Test buffer 0 (16 bytes): used after free")
	require.EqualError(t, double(w, x, y), "input 0: Test buffer 0 (16 bytes): used after free")
	// The next buffer has the old memory and new poison.
	z, err := w.AllocBuffer(16)
	require.NoError(t, err)
	require.Zero(t, w.Recycled())
	got := read(t, w, graph.Operand{Buf: z, Len: 16})
	for _, v := range got {
		require.Equal(t, graphtest.PoisonBits, math.Float32bits(v))
	}
	require.EqualError(t, w.ReadHost(z, 12, make([]byte, 8)), "Test buffer 2 (16 bytes): window 12+8 is outside")
	w.FreeBuffer(z)
	f, err := w.AllocFresh(16)
	require.NoError(t, err)
	require.Equal(t, 1, w.Recycled(), "fresh is never recycled")
	// Buffers of others.
	other := graphtest.Wrap(graphtest.NewRef("Ref"), graphtest.Options{Name: "Other"})
	require.ErrorContains(t, other.ReadHost(f, 0, nil), "Test buffer 3 (16 bytes) is of another backend")
	plain := buffer(t, graphtest.NewRef("Ref"), 1)
	require.ErrorContains(t, w.ReadHost(plain.Buf, 0, nil), "a buffer of another backend")
	w.FreeBuffer(plain.Buf)
	require.ErrorContains(t, w.Synchronize(), "free of a foreign buffer")
	w.FreeBuffer(f)
	w.FreeBuffer(y.Buf)
	require.Zero(t, w.Live())
	w.Close()
	require.Zero(t, w.Recycled())
}

// naughty breaks one rule of ExecuteNode.
type naughty struct {
	*graphtest.Ref
	do func(in []graph.Operand, out graph.Operand) error
}

func (n *naughty) ExecuteNode(_ *graph.Node, in []graph.Operand, out graph.Operand, _ *graph.KV) error {
	return n.do(in, out)
}

func TestWrapWatchesWrites(t *testing.T) {
	ref := graphtest.NewRef("Ref")
	four := graphtest.FloatBytes([]float32{4})
	for want, do := range map[string]func(in []graph.Operand, out graph.Operand) error{
		`Test: "twice" (scale): changed its input 0`: func(in []graph.Operand, out graph.Operand) error {
			return ref.WriteHost(in[0].Buf, in[0].Off+4, four)
		},
		`Test: "twice" (scale): did not write element 1`: func(in []graph.Operand, out graph.Operand) error {
			return ref.WriteHost(out.Buf, out.Off, four)
		},
		`Test: "twice" (scale): wrote outside its output, bytes 0+8 of Test buffer 1 (16 bytes)`: func(in []graph.Operand, out graph.Operand) error {
			return ref.WriteHost(out.Buf, 8, four)
		},
		`lost`: func(in []graph.Operand, out graph.Operand) error { return errors.New("lost") },
	} {
		w := graphtest.Wrap(&naughty{ref, do}, graphtest.Options{Name: "Test", Poison: true})
		require.EqualError(t, double(w, buffer(t, w, 1, 2), buffer(t, w, 0, 0)), want)
	}
	w := graphtest.Wrap(ref, graphtest.Options{Name: "Test", Poison: true, Refuse: []graph.Op{graph.Add}})
	x := buffer(t, w, 1, 2, 3)
	require.NoError(t, double(w, x, x), "in place")
	require.Equal(t, []float32{2, 4, 6}, read(t, w, x))
	a, b := x, x
	a.Len, b.Len, b.Off = 8, 8, 4
	require.ErrorContains(t, double(w, a, b), `"twice" (scale): input 0 at 0+8 overlaps the output at 4+8`)
	require.False(t, w.SupportsOp(graph.Add, gguf.F32))
	require.ErrorContains(t, w.ExecuteNode(&graph.Node{Op: graph.Add}, nil, a, nil), "op add was refused and yet came")

	// A store may touch the rows of its positions only.
	kv := &graph.KV{Type: gguf.F32, Capacity: 3, KWidth: 1, VWidth: 1, K: buffer(t, w, 0, 0, 0).Buf, V: buffer(t, w, 0, 0, 0).Buf}
	store := &graph.Node{Op: graph.KvcacheStore, Name: "cache_k_l0", Type: gguf.F32, Shape: graph.Vec(1)}
	region := graph.Operand{Buf: kv.K, Len: 12}
	in := []graph.Operand{buffer(t, w, 9), ints(t, w, 1)}
	require.NoError(t, w.ExecuteNode(store, in, region, kv))
	require.Equal(t, []float32{0, 9, 0}, read(t, w, region))
	bad := graphtest.Wrap(&naughty{ref, func(in []graph.Operand, out graph.Operand) error { return ref.WriteHost(out.Buf, 8, four) }}, graphtest.Options{Name: "Test"})
	kv = &graph.KV{Type: gguf.F32, Capacity: 3, KWidth: 1, VWidth: 1, K: buffer(t, bad, 0, 0, 0).Buf, V: buffer(t, bad, 0, 0, 0).Buf}
	err := bad.ExecuteNode(store, []graph.Operand{buffer(t, bad, 9), ints(t, bad, 1)}, graph.Operand{Buf: kv.K, Len: 12}, kv)
	require.ErrorContains(t, err, `"cache_k_l0" (kv_store): wrote outside its output`)
}
