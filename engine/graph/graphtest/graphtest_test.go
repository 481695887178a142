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

func TestHolder(t *testing.T) {
	h := graphtest.Hold(graphtest.Wrap(graphtest.NewRef("Ref"), graphtest.Options{Name: "Test"}))
	a := weight(graph.Vec(2), 1, 2)
	n := &graph.Node{Op: graph.RmsNorm, Name: "n", Type: gguf.F32, Shape: graph.Vec(2), Weight: a}
	x, y := buffer(t, h, 3, 4), buffer(t, h, 0, 0)
	require.EqualError(t, h.ExecuteNode(n, []graph.Operand{x}, y, nil), `Test: "n" (rms_norm) reads w, which is not registered`)
	require.False(t, h.Holds(a))
	require.NoError(t, h.HoldWeight(a))
	require.NoError(t, h.HoldWeight(a))
	require.True(t, h.Holds(a))
	require.Equal(t, 1, h.Held())
	require.NoError(t, h.ExecuteNode(n, []graph.Operand{x}, y, nil))
	require.InDelta(t, 3./5*math.Sqrt2, read(t, h, y)[0], 1e-6)
	// The same name with other bytes.
	b := weight(graph.Vec(2), 1, 2)
	require.False(t, h.Holds(b))
	require.EqualError(t, h.HoldWeight(b), "Test: weight w is registered with other bytes")
	h.Drop("w")
	require.False(t, h.Holds(a))
}

// fusedNode is one head of two channels for q and k, and one channel of v, with
// its cache of two positions.
func fusedNode(t *testing.T, b graph.Backend) (*graph.Node, []graph.Operand, graph.Operand, *graph.KV) {
	t.Helper()
	n := &graph.Node{
		Op: graph.FusedQKV, Name: "Qcur-0", Type: gguf.F32, Shape: graph.Vec(2),
		// q = (x, 2x), k = (3x, 4x), v = 5x of a single input channel.
		Weight: weight(graph.Mat(1, 5), 1, 2, 3, 4, 5), Bias: weight(graph.Vec(5), 0, 0, 0, 0, 100),
		// A quarter turn at position 1.
		Attr: graph.Attr{HeadDim: 2, NHead: 1, NHeadKV: 1, Rope: graph.Rope{NDims: 2, FreqBase: 1, FreqScale: math.Pi / 2}},
	}
	kv := &graph.KV{Type: gguf.F32, Capacity: 2, KWidth: 2, VWidth: 1, K: buffer(t, b, 7, 7, 7, 7).Buf, V: buffer(t, b, 7, 7).Buf}
	return n, []graph.Operand{buffer(t, b, 10), ints(t, b, 1)}, buffer(t, b, 0, 0), kv
}

// Values by hand.
func TestRefFused(t *testing.T) {
	w := graphtest.Wrap(graphtest.NewRef("Ref"), graphtest.Options{Name: "Test", Poison: true})
	n, in, out, kv := fusedNode(t, w)
	region := func(b graph.Buffer, n int) []float32 { return read(t, w, graph.Operand{Buf: b, Len: 4 * n}) }
	require.NoError(t, w.ExecuteNode(n, in, out, kv))
	require.InDeltaSlice(t, []float32{-20, 10}, read(t, w, out), 1e-5)
	require.InDeltaSlice(t, []float32{7, 7, -40, 30}, region(kv.K, 4), 1e-5)
	require.Equal(t, []float32{7, 150}, region(kv.V, 2))

	// With norms: (3, 4) and (1, 2) become unit mean squares, times the weights of
	// q's channels and then of k's.
	n, in, out, kv = fusedNode(t, w)
	n.Op, n.Norm = graph.FusedQkvNorm, weight(graph.Vec(4), 10, 20, 1, 2)
	require.NoError(t, w.ExecuteNode(n, in, out, kv))
	q, k := math.Sqrt(2./5), math.Sqrt2/5
	require.InDeltaSlice(t, []float32{float32(-40 * q), float32(10 * q)}, read(t, w, out), 1e-4)
	require.InDeltaSlice(t, []float32{7, 7, float32(-8 * k), float32(3 * k)}, region(kv.K, 4), 1e-5)
	require.Equal(t, []float32{7, 150}, region(kv.V, 2))

	// gate = (1, -1), up = (2, 3).
	ffn := &graph.Node{Op: graph.FusedFFN, Type: gguf.F32, Shape: graph.Vec(2), Weight: weight(graph.Mat(1, 4), 1, -1, 2, 3)}
	y := buffer(t, w, 0, 0)
	require.NoError(t, w.ExecuteNode(ffn, []graph.Operand{buffer(t, w, 1)}, y, nil))
	require.InDeltaSlice(t, []float32{2 * 0.7310586, 3 * -0.2689414}, read(t, w, y), 1e-6)

	kv.VWidth = 2
	r := graphtest.NewRef("Ref")
	n, in, out, kv = fusedNode(t, r)
	require.ErrorContains(t, r.ExecuteNode(n, in, out, nil), "fused_qkv without a cache of f32")
	kv.VWidth = 2
	in[1] = ints(t, r, 0)
	require.ErrorContains(t, r.ExecuteNode(n, in, out, kv), "a row of 1 values for a region of width 2")
}

// A fused node may touch its output and its row of both regions, and must write
// all of them.
func TestWrapWatchesFusedWrites(t *testing.T) {
	ref := graphtest.NewRef("Ref")
	one := graphtest.FloatBytes([]float32{1})
	for want, spoil := range map[string]func(in []graph.Operand, out graph.Operand, kv *graph.KV) error{
		`wrote outside its row of side 0 of the cache`: func(_ []graph.Operand, _ graph.Operand, kv *graph.KV) error { return ref.WriteHost(kv.K, 4, one) },
		`wrote outside its row of side 1 of the cache`: func(_ []graph.Operand, _ graph.Operand, kv *graph.KV) error { return ref.WriteHost(kv.V, 0, one) },
		`wrote outside its output`:                     func(_ []graph.Operand, out graph.Operand, _ *graph.KV) error { return ref.WriteHost(out.Buf, 8, one) },
		`changed its input 0`:                          func(in []graph.Operand, _ graph.Operand, _ *graph.KV) error { return ref.WriteHost(in[0].Buf, 0, one) },
	} {
		w := graphtest.Wrap(&fuser{ref, spoil}, graphtest.Options{Name: "Test", Poison: true})
		n, in, out, kv := fusedNode(t, w)
		require.ErrorContains(t, w.ExecuteNode(n, in, out, kv), want)
	}
	// Nothing but the output, or nothing but one side.
	for want, skip := range map[string]int{
		`did not write element 0 of its row of side 0 of the cache`: 0,
		`did not write element 0 of its row of side 1 of the cache`: 1,
		`did not write element 0`:                                   2,
	} {
		w := graphtest.Wrap(&partial{ref, skip}, graphtest.Options{Name: "Test", Poison: true})
		n, in, out, kv := fusedNode(t, w)
		require.EqualError(t, w.ExecuteNode(n, in, out, kv), `Test: "Qcur-0" (fused_qkv): `+want)
	}
}

// fuser runs the node and then spoils something.
type fuser struct {
	*graphtest.Ref
	spoil func(in []graph.Operand, out graph.Operand, kv *graph.KV) error
}

func (f *fuser) ExecuteNode(n *graph.Node, in []graph.Operand, out graph.Operand, kv *graph.KV) error {
	return errors.Join(f.Ref.ExecuteNode(n, in, out, kv), f.spoil(in, out, kv))
}

// partial leaves out k, v or q of position 1.
type partial struct {
	*graphtest.Ref
	skip int
}

func (p *partial) ExecuteNode(_ *graph.Node, _ []graph.Operand, out graph.Operand, kv *graph.KV) error {
	var errs []error
	row := graphtest.FloatBytes([]float32{1, 2})
	if p.skip != 0 {
		errs = append(errs, p.WriteHost(kv.K, 8, row))
	}
	if p.skip != 1 {
		errs = append(errs, p.WriteHost(kv.V, 4, row[:4]))
	}
	if p.skip != 2 {
		errs = append(errs, p.WriteHost(out.Buf, out.Off, row))
	}
	return errors.Join(errs...)
}
