package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/metal/mtl"
)

// piece is memory that only its address tells apart.
type piece struct {
	mtl.Buffer
	_ byte
}

// repeat is a node that has been recorded, and what it was called with.
type repeat struct {
	b       *Backend
	n       *graph.Node
	in      []graph.Operand
	out     graph.Operand
	kv      *graph.KV
	scratch *buffer
}

func recorded(t *testing.T) *repeat {
	b := &Backend{}
	handle := func() *buffer { return &buffer{owner: b, mem: &piece{}, size: 64} }
	x, y := &graph.Node{Type: gguf.F32, Shape: graph.Mat(4, 2)}, &graph.Node{Type: gguf.F32, Shape: graph.Mat(4, 2)}
	r := &repeat{
		b: b, scratch: handle(),
		n: &graph.Node{Op: graph.FusedQKV, Name: "qkv-0", Type: gguf.F32, Shape: graph.Mat(4, 2), In: []*graph.Node{x, y},
			Weight: &graph.Weight{}, Bias: &graph.Weight{}, Norm: &graph.Weight{}, Factors: &graph.Weight{}},
		in:  []graph.Operand{{Buf: handle(), Len: 32}, {Buf: handle(), Off: 32, Len: 32}},
		out: graph.Operand{Buf: handle(), Len: 32},
		kv:  &graph.KV{Type: gguf.F16, Capacity: 8, KWidth: 2, VWidth: 2, K: handle(), V: handle()},
	}
	b.record(r.n, r.in, r.out, r.kv)
	for _, o := range append(r.in[:2:2], r.out, graph.Operand{Buf: r.scratch, Len: 64}) {
		_, err := b.use(o)
		require.NoError(t, err)
	}
	b.recorded(r.n)
	require.Nil(t, b.recording)
	return r
}

func (r *repeat) same() bool {
	e := r.b.encoded[r.n]
	return e != nil && e.same(r.n, r.in, r.out, r.kv)
}

// A node is encoded as it was as long as nothing that it was made from has changed,
// and afresh after any one change.
func TestRepeatSame(t *testing.T) {
	r := recorded(t)
	require.True(t, r.same())
	for k, e := range map[string]func(*repeat){
		"op":              func(r *repeat) { r.n.Op = graph.FusedQkvNorm },
		"name":            func(r *repeat) { r.n.Name = "qkv-1" },
		"type":            func(r *repeat) { r.n.Type = gguf.F16 },
		"shape":           func(r *repeat) { r.n.Shape[1]++ },
		"attributes":      func(r *repeat) { r.n.Attr.NKV = 32 },
		"rotation":        func(r *repeat) { r.n.Attr.Rope.NDims = 9 },
		"weight":          func(r *repeat) { r.n.Weight = &graph.Weight{} },
		"bias":            func(r *repeat) { r.n.Bias = nil },
		"norm":            func(r *repeat) { r.n.Norm = &graph.Weight{} },
		"factors":         func(r *repeat) { r.n.Factors = nil },
		"inputs swapped":  func(r *repeat) { r.n.In[0], r.n.In[1] = r.n.In[1], r.n.In[0] },
		"an input less":   func(r *repeat) { r.n.In = r.n.In[:1] },
		"input's shape":   func(r *repeat) { r.n.In[1].Shape[0] = 8 },
		"input's type":    func(r *repeat) { r.n.In[0].Type = gguf.F16 },
		"input's window":  func(r *repeat) { r.in[1].Off = 0 },
		"a window less":   func(r *repeat) { r.in = r.in[:1] },
		"output's window": func(r *repeat) { r.out.Len = 16 },
		"output's buffer": func(r *repeat) { r.out.Buf = r.in[0].Buf },
		"no cache":        func(r *repeat) { r.kv = nil },
		"cache's type":    func(r *repeat) { r.kv.Type = gguf.F32 },
		"cache's size":    func(r *repeat) { r.kv.Capacity = 16 },
		"cache's buffer":  func(r *repeat) { r.kv.V = r.kv.K },
		// Under the same handle there is other memory now, or none.
		"recycled":      func(r *repeat) { r.scratch.mem = &piece{} },
		"input's moved": func(r *repeat) { r.in[0].Buf.(*buffer).mem = &piece{} },
		"freed":         func(r *repeat) { r.scratch.mem = nil },
	} {
		r := recorded(t)
		e(r)
		require.False(t, r.same(), k)
	}
}

// What was kept is no alias of what the caller goes on using.
func TestRepeatCopies(t *testing.T) {
	r := recorded(t)
	e := r.b.encoded[r.n]
	r.in[0].Off, r.n.In[0], r.kv.Capacity = 4, nil, 99
	require.Zero(t, e.in[0].Off)
	require.NotNil(t, e.node.In[0])
	require.Equal(t, 8, e.kv.Capacity)

	b := &Backend{}
	n := &graph.Node{}
	b.record(n, nil, graph.Operand{}, nil)
	d := mtl.Dispatch{Bindings: []mtl.Binding{{Index: 3, Bytes: []byte{1, 2}}}}
	b.dispatched(nil, &d)
	d.Bindings[0].Bytes[0], d.Bindings[0].Index = 9, 9
	b.recorded(n)
	require.Equal(t, []mtl.Binding{{Index: 3, Bytes: []byte{1, 2}}}, b.encoded[n].dispatches[0].Bindings)
	b.dispatched(nil, &d) // nothing is being recorded
	require.Len(t, b.encoded[n].dispatches, 1)
}

// A node that freed some of its own memory while it was encoded is not kept, nor
// what was kept of it before.
func TestRepeatFreed(t *testing.T) {
	r := recorded(t)
	r.b.record(r.n, r.in, r.out, r.kv)
	_, err := r.b.use(graph.Operand{Buf: r.scratch, Len: 64})
	require.NoError(t, err)
	r.scratch.mem = nil
	r.b.recorded(r.n)
	require.Nil(t, r.b.recording)
	require.Empty(t, r.b.encoded)
}

// The nodes of plans that are gone do not pile up.
func TestRepeatForgets(t *testing.T) {
	b := &Backend{}
	nodes := make([]graph.Node, maxEncoded+1)
	for i := range nodes {
		b.record(&nodes[i], nil, graph.Operand{}, nil)
		b.recorded(&nodes[i])
		require.LessOrEqual(t, len(b.encoded), maxEncoded)
	}
	require.Len(t, b.encoded, 1)
	require.True(t, b.encoded[&nodes[maxEncoded]].same(&nodes[maxEncoded], nil, graph.Operand{}, nil))
}
