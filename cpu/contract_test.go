package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/engine/gguf"
	"minfer/engine/graph"
)

func TestLevels(t *testing.T) {
	for name, want := range map[string]cpu.Level{"": cpu.Auto, "auto": cpu.Auto, "Generic": cpu.Generic, "AVX2": cpu.AVX2, "avx512": cpu.AVX512} {
		got, err := cpu.ParseLevel(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := cpu.ParseLevel("sse2")
	require.EqualError(t, err, `unknown CPU level "sse2": want one of auto, generic, avx2, avx512`)
	have := cpu.Levels()
	require.Equal(t, []cpu.Level{cpu.Generic, cpu.AVX2, cpu.AVX512}[:len(have)], have)
	for _, l := range have {
		require.Equal(t, l, newBackend(t, cpu.Options{Threads: 1, Level: l}).Level())
	}
	// Auto never has the AVX-512 level's bits: they would depend on the machine.
	require.Equal(t, have[min(1, len(have)-1)], newBackend(t, cpu.Options{Threads: 1}).Level())
	if len(have) == 1 {
		_, err = cpu.New(cpu.Options{Level: cpu.AVX2})
		require.EqualError(t, err, "cpu: level avx2: this CPU, or this build, lacks its instructions: want one of generic")
	}
	if len(have) < 3 {
		_, err = cpu.New(cpu.Options{Level: cpu.AVX512})
		require.ErrorContains(t, err, "cpu: level avx512: this CPU, or this build, lacks its instructions: want one of generic")
	}
	_, err = cpu.New(cpu.Options{Threads: -1})
	require.EqualError(t, err, "cpu: -1 threads: want 1 to 1024, or 0 for one per CPU")
}

func TestSupports(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 1})
	for _, op := range []graph.Op{graph.KvcacheStore, graph.KvcacheLoad, graph.Attn} {
		require.True(t, b.SupportsOp(op, gguf.F32) && b.SupportsOp(op, gguf.F16))
		require.False(t, b.SupportsOp(op, gguf.Q8_0))
	}
	for op := graph.GetRows; op <= graph.QkvBiasRopeStore; op++ {
		require.Equal(t, op < graph.FusedQKV, b.SupportsOp(op, gguf.F32), "%v", op)
		require.Equal(t, op == graph.SwiGLU, b.SupportsFused(op), "%v", op)
	}
	require.False(t, b.SupportsOp(graph.Add, gguf.F16))
}

func TestBuffers(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 1})
	other := newBackend(t, cpu.Options{Threads: 1})
	address := func(buf graph.Buffer) uintptr {
		mem, err := b.Map(buf)
		require.NoError(t, err)
		return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	}
	for _, n := range []int{0, 1, 63, 64, 65, 1000, 4097, 1<<20 + 1} {
		buf, err := b.AllocBuffer(n)
		require.NoError(t, err)
		require.Equal(t, n, buf.Size())
		require.Zero(t, address(buf)%64)
		fresh, err := b.AllocFresh(n)
		require.NoError(t, err)
		first, second := address(buf), address(fresh)
		require.Zero(t, second%64)
		zeroed, err := b.AllocZeroed(n)
		require.NoError(t, err)
		mem, err := b.Map(zeroed)
		require.NoError(t, err)
		require.Equal(t, make([]byte, n), mem)
		for i := range mem {
			mem[i] = 1 // and not again where it is freed
		}
		b.FreeBuffer(zeroed)
		b.FreeBuffer(buf)
		b.FreeBuffer(buf) // a second time: nothing
		b.FreeBuffer(fresh)
		other.FreeBuffer(buf)
		_, err = b.Map(buf)
		require.EqualError(t, err, "cpu: map: buffer already freed")

		again, err := b.AllocBuffer(n)
		require.NoError(t, err)
		require.Equal(t, first, address(again), "memory of %d bytes is recycled", n)
		more, err := b.AllocBuffer(n)
		require.NoError(t, err)
		require.NotEqual(t, first, address(more), "once only")
		require.NotEqual(t, second, address(more), "fresh memory never")
	}
	b.FreeBuffer(nil)

	buf, err := b.AllocBuffer(10)
	require.NoError(t, err)
	require.NoError(t, b.WriteHost(buf, 4, []byte{1, 2, 3}))
	got := make([]byte, 2)
	require.NoError(t, b.ReadHost(buf, 5, got))
	require.Equal(t, []byte{2, 3}, got)
	require.EqualError(t, b.ReadHost(buf, 9, got), "cpu: read: window of 2 bytes at 9, the buffer has 10")
	require.EqualError(t, b.WriteHost(buf, -1, got), "cpu: write: window of 2 bytes at -1, the buffer has 10")
	require.EqualError(t, b.WriteHost(nil, 0, got), "cpu: write: buffer <nil>, want one of the CPU backend")
	require.EqualError(t, other.WriteHost(buf, 0, got), "cpu: write: buffer of another CPU backend")
	_, err = b.AllocBuffer(-1)
	require.EqualError(t, err, "cpu: a buffer of -1 bytes: want 0 to 70368744177664")
	_, err = b.AllocBuffer(1 << 62)
	require.Error(t, err)
}

// Every refusal names the node and the numbers, and changes no output.
func TestErrors(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 2})
	kv := newKV(t, b, gguf.F32, 8, 4, 4)
	q8 := *kv
	q8.Type = gguf.Q8_0
	x := floats(graph.Mat(4, 2), make([]float32, 8))
	f32w := &graph.Weight{Name: "w", Type: gguf.F32, Shape: graph.Mat(4, 3), Data: make([]byte, 48)}
	attn := graph.Attr{HeadDim: 2, NHead: 4, NHeadKV: 2, NKV: 8}
	q := floats(graph.Mat(8, 1), make([]float32, 8))
	window := value{gguf.F32, graph.Mat(4, 8), nil}
	rope := graph.Rope{Mode: graph.RopeNeox, NDims: 4, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}
	for _, c := range []struct {
		want        string
		unsupported bool
		node        graph.Node
		kv          *graph.KV
		in          []value
	}{
		{"(mul_mat): no weight", false, graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 2)}, nil, []value{x}},
		{`(mul_mat): unsupported: weight "w" q4_K: in_dim is 128, want a multiple of 256`, true,
			graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 1), Weight: &graph.Weight{Name: "w", Type: gguf.Q4_K, Shape: graph.Mat(128, 3)}}, nil,
			[]value{floats(graph.Vec(128), make([]float32, 128))}},
		{`(mul_mat): unsupported: weight "w" of type q8_K: want one of f32, f16,`, true,
			graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 2), Weight: &graph.Weight{Name: "w", Type: gguf.Q8_K, Shape: graph.Mat(4, 3)}}, nil, []value{x}},
		{`(mul_mat): weight "w": 8 bytes, want 48 for 3 rows of 4 f32`, false,
			graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 2), Weight: &graph.Weight{Name: "w", Type: gguf.F32, Shape: graph.Mat(4, 3), Data: make([]byte, 8)}}, nil, []value{x}},
		{`(mul_mat): input [4 2 1 1] and output [3 1 1 1] for weight "w" [4, 3], want [4, n] and [3, n]`, false,
			graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 1), Weight: f32w}, nil, []value{x}},
		{`(mul_mat): input: 8 bytes, want 32`, false,
			graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 2), Weight: f32w}, nil, []value{{gguf.F32, graph.Mat(4, 2), make([]byte, 8)}}},
		{`(mul_mat): bias "b": 8 bytes of f32, want 3 f32 values`, false,
			graph.Node{Op: graph.MatMul, Shape: graph.Mat(3, 2), Weight: f32w, Bias: &graph.Weight{Name: "b", Data: make([]byte, 8)}}, nil, []value{x}},
		{"(get_rows): token id 1 is 3, want 0 to 2", false, graph.Node{Op: graph.GetRows, Shape: graph.Mat(4, 2), Weight: f32w}, nil, []value{ints(0, 3)}},
		{"(get_rows): token id 0 is -1, want 0 to 2", false, graph.Node{Op: graph.GetRows, Shape: graph.Mat(4, 2), Weight: f32w}, nil, []value{ints(-1, 0)}},
		{"(add): 1 operands for 1 inputs, want 2", false, graph.Node{Op: graph.Add, Shape: graph.Mat(4, 2)}, nil, []value{x}},
		{`(add): input 1 "in" is [8 1 1 1], want [4 2 1 1]`, false, graph.Node{Op: graph.Add, Shape: graph.Mat(4, 2)}, nil, []value{x, q}},
		{"(fused_qkv): unsupported op", true, graph.Node{Op: graph.FusedQKV, Shape: graph.Mat(4, 2)}, nil, []value{x}},
		{"(kv_store): no KV cache", false, graph.Node{Op: graph.KvcacheStore, Shape: graph.Mat(4, 2)}, nil, []value{x, ints(0, 1)}},
		{"(kv_store): position 1 is 8, want 0 to 7", false, graph.Node{Op: graph.KvcacheStore, Shape: graph.Mat(4, 2)}, kv, []value{x, ints(7, 8)}},
		{"(kv_store): unsupported: KV cache of type q8_0, want f32 or f16", true, graph.Node{Op: graph.KvcacheStore, Shape: graph.Mat(4, 2)}, &q8, []value{x, ints(0, 1)}},
		{"(kv_store): rows of 8, the cache has rows of 4", false, graph.Node{Op: graph.KvcacheStore, Shape: graph.Mat(8, 1)}, kv, []value{q, ints(0)}},
		{"(kv_load): window of 9 cells, the cache has 8", false, graph.Node{Op: graph.KvcacheLoad, Shape: graph.Mat(4, 9), Attr: graph.Attr{NKV: 9}}, kv, []value{x}},
		{"(attention): position 0 is 8, want 0 to 7", false, graph.Node{Op: graph.Attn, Shape: graph.Mat(8, 1), Attr: attn}, kv, []value{q, window, window, ints(8)}},
		{"(attention): n_head 4 and n_head_kv 3, want a positive multiple", false,
			graph.Node{Op: graph.Attn, Shape: graph.Mat(8, 1), Attr: graph.Attr{HeadDim: 2, NHead: 4, NHeadKV: 3, NKV: 8}}, kv, []value{q, window, window, ints(0)}},
		{"(attention): cache rows of 4 and 4, want n_head_kv 1 * head_dim 2, and a multiple", false,
			graph.Node{Op: graph.Attn, Shape: graph.Mat(8, 1), Attr: graph.Attr{HeadDim: 2, NHead: 4, NHeadKV: 1, NKV: 8}}, kv, []value{q, window, window, ints(0)}},
		{"(rope): rows of 4, want head_dim 4 * n_head 2", false,
			graph.Node{Op: graph.RoPE, Shape: graph.Mat(4, 2), Attr: graph.Attr{HeadDim: 4, NHead: 2, Rope: rope}}, nil, []value{x, ints(0, 1)}},
		{"(rope): position 1 is -1, want 0 to 2147483646", false,
			graph.Node{Op: graph.RoPE, Shape: graph.Mat(4, 2), Attr: graph.Attr{HeadDim: 4, NHead: 1, Rope: rope}}, nil, []value{x, ints(0, -1)}},
		{"(rope): unsupported: rope mode 9, want norm or neox", true,
			graph.Node{Op: graph.RoPE, Shape: graph.Mat(4, 2), Attr: graph.Attr{HeadDim: 4, NHead: 1, Rope: graph.Rope{Mode: 9, NDims: 4}}}, nil, []value{x, ints(0, 1)}},
		{"(qk_norm): input [4 2 1 1], output [4 2 1 1], rows of 3: want one shape of whole rows", false,
			graph.Node{Op: graph.QkNorm, Shape: graph.Mat(4, 2), Attr: graph.Attr{HeadDim: 3}}, nil, []value{x}},
		{"(view): 2 rows of 4 from row 1 on, the input is [4 2 1 1]", false, graph.Node{Op: graph.View, Shape: graph.Mat(4, 2), Attr: graph.Attr{Offset: 1}}, nil, []value{x}},
		{"(permute): perm [0 0 2 3] is not a permutation of 0..3", false, graph.Node{Op: graph.Permute, Shape: graph.Mat(4, 2), Attr: graph.Attr{Perm: [4]int{0, 0, 2, 3}}}, nil, []value{x}},
	} {
		c.node.ID, c.node.Name = 17, "n"
		out, err := exec(t, b, c.node, c.kv, c.in...)
		require.ErrorContains(t, err, `cpu: node 17 "n" `+c.want)
		require.Equal(t, c.unsupported, isUnsupported(err), c.want)
		for _, v := range out {
			require.Equal(t, byte(0xa5), v, c.want)
		}
	}
}

func TestZeroRows(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 2})
	kv := newKV(t, b, gguf.F16, 8, 4, 4)
	none := value{gguf.F32, graph.Mat(4, 0), nil}
	noInts := value{gguf.I32, graph.Vec(0), nil}
	_, err := exec(t, b, graph.Node{Op: graph.KvcacheStore, Type: gguf.F16, Shape: graph.Mat(4, 0)}, kv, none, noInts)
	require.NoError(t, err)
	w := &graph.Weight{Name: "w", Type: gguf.F32, Shape: graph.Mat(4, 3), Data: make([]byte, 48)}
	for _, n := range []graph.Node{
		{Op: graph.MatMul, Shape: graph.Mat(3, 0), Weight: w}, {Op: graph.Silu, Shape: graph.Mat(4, 0)},
		{Op: graph.RmsNorm, Shape: graph.Mat(4, 0)}, {Op: graph.Softmax, Shape: graph.Mat(4, 0)},
	} {
		_, err := exec(t, b, n, nil, none)
		require.NoError(t, err)
	}
	_, err = exec(t, b, graph.Node{Op: graph.GetRows, Shape: graph.Mat(4, 0), Weight: w}, nil, noInts)
	require.NoError(t, err)
}

// A layer's nodes allocate nothing once warm, also as the context grows within
// the room that scratch memory has.
func TestNoAllocations(t *testing.T) {
	for _, n := range []int{1, 3} { // a single token has ways of its own
		for _, typ := range []gguf.Type{gguf.F32, gguf.Q4_0, gguf.Q4_K} {
			t.Run(fmt.Sprintf("%d tokens, %v", n, typ), func(t *testing.T) { noAllocations(t, n, typ) })
		}
	}
}

func noAllocations(t *testing.T, n int, typ gguf.Type) {
	b := newBackend(t, cpu.Options{Threads: 4})
	rng := rand.New(rand.NewPCG(8, 8))
	const d, heads, hd = 256, 4, 64
	kv := newKV(t, b, gguf.F16, 256, heads*hd, heads*hd)
	input := func(typ gguf.Type, s graph.Shape, data []byte) (*graph.Node, graph.Operand) {
		buf, err := b.AllocBuffer(len(data))
		require.NoError(t, err)
		require.NoError(t, b.WriteHost(buf, 0, data))
		return &graph.Node{Op: graph.Input, Type: typ, Shape: s}, graph.Operand{Buf: buf, Len: len(data)}
	}
	x, xo := input(gguf.F32, graph.Mat(d, n), f32Bytes(randFloats(rng, d*n)))
	pos, poso := input(gguf.I32, graph.Vec(n), i32Bytes(0, 1, 2)[:4*n])
	win := &graph.Node{Op: graph.KvcacheLoad, Type: gguf.F16, Shape: graph.Mat(heads*hd, 256)}
	_, out := input(gguf.F32, graph.Mat(d, n), make([]byte, 4*d*n))
	table := weightOf(t, "e", gguf.Q4_K, graph.Mat(d, 3), randFloats(rng, 3*d))
	w := weightOf(t, "w", typ, graph.Mat(d, d), randFloats(rng, d*d))
	bias := weightOf(t, "b", gguf.F32, graph.Vec(d), randFloats(rng, d))
	rope := graph.Rope{Mode: graph.RopeNeox, NDims: hd, FreqBase: 1e6, FreqScale: 1, AttnFactor: 1}
	type call struct {
		node graph.Node
		in   []graph.Operand
	}
	calls := []call{
		{graph.Node{Op: graph.GetRows, In: []*graph.Node{pos}, Weight: table}, []graph.Operand{poso}},
		{graph.Node{Op: graph.RmsNorm, In: []*graph.Node{x}, Weight: bias}, []graph.Operand{xo}},
		{graph.Node{Op: graph.MatMul, In: []*graph.Node{x}, Weight: w, Bias: bias}, []graph.Operand{xo}},
		{graph.Node{Op: graph.RoPE, In: []*graph.Node{x, pos}, Attr: graph.Attr{HeadDim: hd, NHead: heads, Rope: rope}}, []graph.Operand{xo, poso}},
		{graph.Node{Op: graph.KvcacheStore, In: []*graph.Node{x, pos}}, []graph.Operand{xo, poso}},
		{graph.Node{Op: graph.Attn, In: []*graph.Node{x, win, win, pos}, Attr: graph.Attr{HeadDim: hd, NHead: heads, NHeadKV: heads, NKV: 256}},
			[]graph.Operand{xo, {}, {}, poso}},
		{graph.Node{Op: graph.Add, In: []*graph.Node{x, x}}, []graph.Operand{xo, xo}},
		{graph.Node{Op: graph.SwiGLU, In: []*graph.Node{x, x}}, []graph.Operand{xo, xo}},
	}
	for i := range calls {
		calls[i].node.Type, calls[i].node.Shape = gguf.F32, graph.Mat(d, n)
	}
	run := func() {
		for i := range calls {
			if err := b.ExecuteNode(&calls[i].node, calls[i].in, out, kv); err != nil {
				t.Fatal(err)
			}
		}
	}
	require.NoError(t, b.WriteHost(poso.Buf, 0, i32Bytes(0, 1, 2)[:4*n]))
	run()
	require.Zero(t, testing.AllocsPerRun(20, run))
}
