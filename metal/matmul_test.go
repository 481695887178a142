package metal_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/engine/quant"
	"minfer/metal"
	"minfer/metal/mtl/soft"
	"minfer/refs"
)

var matrixTypes = []gguf.Type{
	gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K,
}

// matrix quantises normal values, with a few that are ten times larger.
func matrix(t testing.TB, typ gguf.Type, cols, rows int, seed uint64) *graph.Weight {
	t.Helper()
	data := make([]byte, typ.RowBytes(cols)*rows)
	require.NoError(t, quant.Quantize(typ, data, gaussian(cols*rows, seed)))
	return &graph.Weight{Name: fmt.Sprintf("%v.%d.%d.%d", typ, cols, rows, seed), Type: typ, Shape: graph.Mat(cols, rows), Data: data}
}

func gaussian(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		if r.IntN(100) == 0 {
			x[i] *= 10
		}
	}
	return x
}

func bytesOf(x []float32) []byte {
	var data []byte
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

const (
	guard     = 64 // bytes before and behind each window
	guardByte = 0xa5
)

// guarded puts data into the middle of a buffer.
func guarded(t testing.TB, b *metal.Backend, data []byte) graph.Operand {
	t.Helper()
	buf, err := b.AllocBuffer(len(data) + 2*guard)
	require.NoError(t, err)
	all := make([]byte, len(data)+2*guard)
	for i := range all {
		all[i] = guardByte
	}
	copy(all[guard:], data)
	require.NoError(t, b.WriteHost(buf, 0, all))
	return graph.Operand{Buf: buf, Off: guard, Len: len(data)}
}

// window reads a guarded window back; what lies around it is as it was.
func window(t testing.TB, b *metal.Backend, o graph.Operand) []byte {
	t.Helper()
	all := make([]byte, o.Len+2*guard)
	require.NoError(t, b.ReadHost(o.Buf, 0, all))
	for i := range guard {
		require.EqualValues(t, guardByte, all[i], "byte %d before the window", guard-i)
		require.EqualValues(t, guardByte, all[len(all)-1-i], "byte %d from the end of the buffer", i)
	}
	return all[guard : guard+o.Len]
}

// runNode runs one node of one input and gives its output.
func runNode(t testing.TB, b *metal.Backend, n *graph.Node, input []byte) []float64 {
	t.Helper()
	x, y := guarded(t, b, input), guarded(t, b, bytes.Repeat([]byte{0xff}, 4*n.Shape.Elements())) // NaN
	defer b.FreeBuffer(x.Buf)
	defer b.FreeBuffer(y.Buf)
	n.In = []*graph.Node{{Op: graph.Input, Name: "x"}}
	require.NoError(t, b.ExecuteNode(n, []graph.Operand{x}, y, nil))
	require.NoError(t, b.Synchronize())
	require.Equal(t, input, window(t, b, x), "the input was written")
	out := window(t, b, y)
	values := make([]float64, len(out)/4)
	for i := range values {
		values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:])))
	}
	return values
}

// within holds values against a reference under the entry's bound, and gives the
// largest error in units of u*sqrt(k)*RMS(terms).
func within(t testing.TB, what string, e *metal.Entry, got, want []float64, k int, terms float64) float64 {
	t.Helper()
	require.Len(t, got, len(want), what)
	unit := 0x1p-24 * math.Sqrt(float64(k)) * terms
	tolerance := min(1e-3*max(1, refs.RMS(want)), (e.Bound.C+e.Bound.Staging/0x1p-24)*unit+e.Bound.Absolute)
	worst, at := 0.0, -1
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= worst) {
			worst, at = d, i
		}
	}
	if at >= 0 {
		require.LessOrEqual(t, worst, tolerance, "%s: element %d is %v, want %v", what, at, got[at], want[at])
	}
	return worst / unit
}

// recorder is a strict backend that keeps the entries it launched.
func recorder(t *testing.T, gemm bool) (*metal.Backend, *[]*metal.Entry) {
	var launched []*metal.Entry
	l := lever.Default()
	l.GEMM = gemm
	return strict(t, metal.Options{Levers: l, Launched: func(e *metal.Entry) { launched = append(launched, e) }}), &launched
}

// One backend for all: making one compiles every kernel of the table.
func TestMatrices(t *testing.T) {
	b, launched := recorder(t, true)
	for _, test := range []struct {
		name string
		f    func(t *testing.T, b *metal.Backend, launched *[]*metal.Entry)
	}{
		{"products", testProducts}, {"real sizes", testRealSizes}, {"tiers", testTiers}, {"guards", testMatrixGuards},
		{"rows", testRows}, {"ids outside the table", testRowsOutside},
	} {
		t.Run(test.name, func(t *testing.T) { test.f(t, b, launched) })
	}
}

func testProducts(t *testing.T, b *metal.Backend, launched *[]*metal.Entry) {
	for _, typ := range matrixTypes {
		// in_dim 0 stands for the type's block.
		shapes := []struct {
			tier            string
			in, out, tokens int
			bias            bool
		}{
			{"single", 0, 1, 1, false},
			{"single", 0, 9, 1, true}, // the last threadgroup has one row
			{"single", 3, 13, 1, false},
			{"single", 5, 8, 1, true},
			{"single", 24, 3, 1, true}, // fewer rows than a threadgroup has
			{"single", 31, 11, 1, true},
			{"single", 1, 261, 1, true}, // more rows than columns
			{"single", 6, 385, 1, false},
			{"multi", 0, 1, 2, true},
			{"multi", 3, 7, 5, false},
			{"multi", 5, 6, 8, true},
			{"gemm", 0, 3, 9, true},
			{"gemm", 3, 65, 33, false},
			{"gemm", 1, 64, 32, false}, // all of a tile's rows, half of its tokens
			{"gemm", 2, 128, 64, true},
		}
		worst := map[string]float64{}
		for i, s := range shapes {
			in := max(s.in, 1) * typ.BlockSize()
			if typ.BlockSize() == 1 {
				in = []int{1, 127, 260, 257, 1668, 903, 3, 5, 7, 132, 67, 13, 31, 48, 20}[i] // primes, and multiples of 4 that are no step
			}
			what := fmt.Sprintf("%v %s [%d, %d] x %d", typ, s.tier, in, s.out, s.tokens)
			w := matrix(t, typ, in, s.out, uint64(i))
			require.NoError(t, b.HoldWeight(w))
			x := gaussian(in*s.tokens, uint64(i)+100)
			want, err := refs.MatMul(refs.Matrix{Type: typ, In: in, Out: s.out, Data: w.Data}, refs.F64(x))
			require.NoError(t, err)
			terms, err := refs.MatMulTerms(refs.Matrix{Type: typ, In: in, Out: s.out, Data: w.Data}, refs.F64(x))
			require.NoError(t, err)
			n := &graph.Node{Op: graph.MatMul, Name: "y", Type: gguf.F32, Shape: graph.Mat(s.out, s.tokens), Weight: w}
			if s.bias {
				bias := gaussian(s.out, uint64(i)+200)
				n.Bias = &graph.Weight{Name: "bias " + w.Name, Type: gguf.F32, Shape: graph.Vec(s.out), Data: bytesOf(bias)}
				require.NoError(t, b.HoldWeight(n.Bias))
				for j := range want {
					want[j] += float64(bias[j%s.out])
				}
			}
			*launched = nil
			got := runNode(t, b, n, bytesOf(x))
			e := metal.Lookup("mul_mat", typ.String(), variantOf(s.tier, typ, in, s.out))
			require.Equal(t, []*metal.Entry{e}, *launched, what)
			worst[s.tier] = max(worst[s.tier], within(t, what, e, got, want, in, terms))
		}
		t.Logf("%v: largest errors in u*sqrt(k)*RMS(terms): %.2v", typ, worst)
	}
}

// variantOf is the variant of a tier: some types have two for one token, and q4_0's take
// pairs of blocks.
func variantOf(tier string, typ gguf.Type, in, out int) string {
	switch {
	case tier != "single":
		return tier
	case typ == gguf.Q4_0 && in/32%2 != 0:
		return "multi"
	case out <= in && (typ == gguf.Q4_0 || typ == gguf.Q4_K):
		return "few"
	}
	return "single"
}

// Row lengths and heights of real models, with the other side small.
func testRealSizes(t *testing.T, b *metal.Backend, launched *[]*metal.Entry) {
	worst := map[string]float64{}
	for i, s := range []struct {
		tier            string
		in, out, tokens int
	}{
		{"single", 896, 5, 1}, {"multi", 896, 3, 3}, {"gemm", 896, 66, 10},
		{"single", 1536, 17, 1}, {"gemm", 1536, 2, 16},
		{"single", 4864, 4, 1}, {"multi", 4864, 2, 6}, {"gemm", 4864, 5, 9},
		{"single", 18944, 3, 1}, {"multi", 18944, 3, 2}, {"gemm", 18944, 3, 15},
		{"gemm", 256, 2048, 2},
		{"multi", 256, 2047, 2},
	} {
		for _, typ := range matrixTypes {
			if s.in%typ.BlockSize() != 0 {
				continue
			}
			if s.out > 1000 && typ != gguf.F16 && typ != gguf.Q4_K {
				continue // these two are about the tier
			}
			what := fmt.Sprintf("%v %s [%d, %d] x %d", typ, s.tier, s.in, s.out, s.tokens)
			w := matrix(t, typ, s.in, s.out, uint64(i))
			require.NoError(t, b.HoldWeight(w))
			x := gaussian(s.in*s.tokens, uint64(i)+100)
			m := refs.Matrix{Type: typ, In: s.in, Out: s.out, Data: w.Data}
			want, err := refs.MatMul(m, refs.F64(x))
			require.NoError(t, err)
			terms, err := refs.MatMulTerms(m, refs.F64(x))
			require.NoError(t, err)
			*launched = nil
			got := runNode(t, b, &graph.Node{Op: graph.MatMul, Type: gguf.F32, Shape: graph.Mat(s.out, s.tokens), Weight: w}, bytesOf(x))
			e := metal.Lookup("mul_mat", typ.String(), variantOf(s.tier, typ, s.in, s.out))
			require.Equal(t, []*metal.Entry{e}, *launched, what)
			key := fmt.Sprintf("%s %d", s.tier, s.in)
			worst[key] = max(worst[key], within(t, what, e, got, want, s.in, terms))
		}
	}
	t.Logf("largest errors in u*sqrt(k)*RMS(terms): %.2v", worst)
}

func testTiers(t *testing.T, with *metal.Backend, launchedWith *[]*metal.Entry) {
	without, launchedWithout := recorder(t, false)
	for i, s := range []struct {
		gemm        bool
		out, tokens int
		want        string
	}{
		{true, 4096, 1, "single"}, {true, 2047, 2, "multi"}, {true, 2048, 2, "gemm"}, {true, 1, 8, "multi"}, {true, 1, 9, "gemm"},
		{false, 2048, 2, "multi"}, {false, 1, 9, "multi"}, {false, 64, 33, "multi"}, {false, 1, 1, "single"},
	} {
		b, launched := with, launchedWith
		if !s.gemm {
			b, launched = without, launchedWithout
		}
		for _, typ := range []gguf.Type{gguf.F16, gguf.Q8_0} {
			w := matrix(t, typ, 32, s.out, uint64(1000+i))
			require.NoError(t, b.HoldWeight(w))
			*launched = nil
			x := gaussian(32*s.tokens, 2)
			got := runNode(t, b, &graph.Node{Op: graph.MatMul, Type: gguf.F32, Shape: graph.Mat(s.out, s.tokens), Weight: w}, bytesOf(x))
			require.Equal(t, []*metal.Entry{metal.Lookup("mul_mat", typ.String(), s.want)}, *launched, "%+v", s)
			want, err := refs.MatMul(refs.Matrix{Type: typ, In: 32, Out: s.out, Data: w.Data}, refs.F64(x))
			require.NoError(t, err)
			require.InDeltaSlice(t, want, got, 1e-3)
		}
	}
}

// A product of one token says how many rows the weight has and how much of each is worth
// fetching ahead; one of more tokens, whose tiles take rows more than once, says nothing.
func TestMatMulAhead(t *testing.T) {
	b, d := counted(t, metal.Options{Levers: lever.Default()}, nil)
	for i, c := range []struct {
		typ             gguf.Type
		in, out, tokens int
		rows, ahead     int
	}{
		{gguf.Q4_0, 896, 9, 1, 9, 504}, {gguf.Q4_0, 256, 260, 1, 260, 0}, {gguf.Q4_K, 4096, 5, 1, 5, 2304}, {gguf.F16, 896, 4, 1, 4, 0},
		{gguf.Q8_0, 18944, 4, 1, 4, 4096}, {gguf.Q4_0, 896, 9, 2, 0, 0}, {gguf.Q4_0, 96, 9, 1, 9, 0},
	} {
		w := matrix(t, c.typ, c.in, c.out, uint64(i))
		require.NoError(t, b.HoldWeight(w))
		d.first = nil
		runNode(t, b, &graph.Node{Op: graph.MatMul, Type: gguf.F32, Shape: graph.Mat(c.out, c.tokens), Weight: w}, bytesOf(gaussian(c.in*c.tokens, 2)))
		require.Len(t, d.first, 1)
		require.Equal(t, len(w.Data), d.first[0].Length)
		require.Equal(t, c.rows, d.first[0].Rows, "%v %d x %d, %d tokens", c.typ, c.out, c.in, c.tokens)
		require.Equal(t, c.ahead, d.first[0].Ahead, "%v %d x %d, %d tokens", c.typ, c.out, c.in, c.tokens)
	}
}

// The rows of each threadgroup are as many as the kernel has. Fewer threadgroups than fill
// a large GPU share their columns between simdgroups, and rows of blocks are fetched ahead
// then.
func TestSingleOf(t *testing.T) {
	for _, c := range []struct {
		typ     gguf.Type
		in, out int
		want    metal.Single
	}{
		{gguf.Q4_0, 3584, 152064, metal.Single{"single", 19008, 1, 0}}, {gguf.Q4_0, 3584, 18944, metal.Single{"single", 2368, 1, 0}},
		{gguf.Q4_0, 896, 4864, metal.Single{"single", 608, 4, 504}}, {gguf.Q4_0, 18944, 3584, metal.Single{"few", 896, 4, 1024}},
		{gguf.Q4_0, 896, 896, metal.Single{"few", 224, 4, 504}}, {gguf.Q4_0, 18944, 5, metal.Single{"few", 2, 6, 1024}},
		{gguf.Q4_0, 18944, 3, metal.Single{"few", 3, 6, 1024}}, {gguf.Q4_0, 32, 1, metal.Single{"multi", 1, 2, 0}}, {gguf.Q4_0, 96, 99, metal.Single{"multi", 50, 2, 0}},
		{gguf.Q6_K, 3584, 18944, metal.Single{"single", 4736, 4, 2940}}, {gguf.Q6_K, 18944, 3584, metal.Single{"single", 896, 5, 1024}},
		{gguf.Q6_K, 3584, 152064, metal.Single{"single", 38016, 3, 2940}}, {gguf.Q8_0, 18944, 3584, metal.Single{"single", 896, 8, 4096}},
		{gguf.Q4_K, 18944, 3584, metal.Single{"few", 896, 4, 10656}}, {gguf.Q4_K, 3584, 18944, metal.Single{"single", 2368, 4, 2016}},
		{gguf.Q4_K, 256, 257, metal.Single{"single", 33, 1, 0}}, {gguf.Q4_K, 256, 9, metal.Single{"few", 3, 1, 0}}, {gguf.Q5_K, 256, 3, metal.Single{"single", 3, 1, 0}},
		{gguf.F16, 18944, 3584, metal.Single{"single", 1792, 4, 0}}, {gguf.F16, 1, 1, metal.Single{"single", 1, 1, 0}}, {gguf.F32, 768, 3, metal.Single{"single", 2, 2, 0}},
	} {
		require.Equal(t, c.want, metal.SingleOf(c.typ, c.in, c.out), "%v %d x %d", c.typ, c.out, c.in)
	}
}

func testMatrixGuards(t *testing.T, b *metal.Backend, launched *[]*metal.Entry) {
	operand := func(n int) graph.Operand {
		buf, err := b.AllocBuffer(n)
		require.NoError(t, err)
		return graph.Operand{Buf: buf, Len: n}
	}
	run := func(op graph.Op, w, bias *graph.Weight, in, out int) error {
		n := &graph.Node{Op: op, Name: "y", Type: gguf.F32, Shape: graph.Mat(w.Shape[1], 1), Weight: w, Bias: bias, In: []*graph.Node{{}}}
		if op == graph.GetRows {
			n.Shape = graph.Mat(w.Shape[0], 1)
		}
		return b.ExecuteNode(n, []graph.Operand{operand(in)}, operand(out), nil)
	}
	weight := func(typ gguf.Type, cols, rows, size int) *graph.Weight {
		return &graph.Weight{Name: "w", Type: typ, Shape: graph.Mat(cols, rows), Data: make([]byte, size)}
	}
	*launched = nil
	for _, c := range []struct {
		err  error
		want string
	}{
		{run(graph.MatMul, weight(gguf.Q4_K, 896, 2, 1008), nil, 3584, 8), "weight w of type q4_K has in_dim 896, want a multiple of 256"},
		{run(graph.MatMul, weight(gguf.Q8_0, 33, 2, 68), nil, 132, 8), "weight w of type q8_0 has in_dim 33, want a multiple of 32"},
		{run(graph.MatMul, weight(gguf.Q8_1, 32, 2, 72), nil, 128, 8), "weight w of type q8_1, want one of [f32 f16"},
		{run(graph.MatMul, weight(gguf.F16, 32, 2, 127), nil, 128, 8), "weight w of type f16 [32 2 1 1] has 127 bytes, want 128"},
		{run(graph.MatMul, weight(gguf.F16, 32, 2, 128), weight(gguf.F32, 3, 1, 12), 128, 8), "bias w is f32 [3 1 1 1], want f32 of 2 elements"},
		{run(graph.GetRows, weight(gguf.Q5_K, 128, 2, 176), nil, 4, 512), "table w of type q5_K has rows of 128, want a multiple of 256"},
		{run(graph.GetRows, weight(gguf.I32, 8, 2, 64), nil, 4, 32), "table w of type i32, want one of [f32 f16"},
	} {
		require.ErrorIs(t, c.err, graph.ErrUnsupported)
		require.ErrorContains(t, c.err, c.want)
		require.ErrorContains(t, c.err, "(force CPU with MINFER_DISABLE_MPS=1)")
	}
	w := weight(gguf.F16, 32, 2, 128)
	require.ErrorContains(t, run(graph.MatMul, w, nil, 128, 8), "weight w is not registered")
	require.ErrorContains(t, run(graph.MatMul, w, nil, 124, 8), "activations of 124 bytes and output of 8 for 1 tokens")
	require.Empty(t, *launched)
}

func testRows(t *testing.T, b *metal.Backend, launched *[]*metal.Entry) {
	ids := []int32{5, 0, 6, 5, 3}
	for _, typ := range matrixTypes {
		for _, cols := range []int{1, 3, 7} {
			cols *= typ.BlockSize()
			w := matrix(t, typ, cols, 7, 3)
			require.NoError(t, b.HoldWeight(w))
			want, err := refs.GetRows(refs.Matrix{Type: typ, In: cols, Out: 7, Data: w.Data}, ids)
			require.NoError(t, err)
			var data []byte
			for _, id := range ids {
				data = binary.LittleEndian.AppendUint32(data, uint32(id))
			}
			*launched = nil
			got := runNode(t, b, &graph.Node{Op: graph.GetRows, Type: gguf.F32, Shape: graph.Mat(cols, len(ids)), Weight: w}, data)
			require.Equal(t, []*metal.Entry{metal.Lookup("get_rows", typ.String(), "")}, *launched)
			// One rounding: the float32 nearest to the exact value.
			for i := range want {
				require.Equal(t, float64(float32(want[i])), got[i], "%v of %d: element %d", typ, cols, i)
			}
		}
	}
}

func testRowsOutside(t *testing.T, b *metal.Backend, _ *[]*metal.Entry) {
	for _, typ := range []gguf.Type{gguf.F16, gguf.Q4_0, gguf.Q6_K} {
		cols := max(typ.BlockSize(), 2)
		w := matrix(t, typ, cols, 2, 3)
		require.NoError(t, b.HoldWeight(w))
		got := runNode(t, b, &graph.Node{Op: graph.GetRows, Type: gguf.F32, Shape: graph.Mat(cols, 4), Weight: w},
			[]byte{2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80, 1, 0, 0, 0})
		require.Equal(t, make([]float64, 3*cols), got[:3*cols], "ids 2, -1 and the least integer of a table of 2")
		want, err := refs.GetRows(refs.Matrix{Type: typ, In: cols, Out: 2, Data: w.Data}, []int32{1})
		require.NoError(t, err)
		require.Equal(t, refs.F64(refs.F32(want)), got[3*cols:])
	}
}

// Multiply-adds a second of each tier on one thread of the software device, nothing
// checked. go test ./metal -bench MatMul -run ^$
func BenchmarkMatMul(b *testing.B) {
	dev, err := soft.New(soft.Options{Threads: 1})
	require.NoError(b, err)
	m, err := metal.New(dev, metal.Options{Levers: lever.Default()})
	require.NoError(b, err)
	defer m.Close()
	for _, s := range []struct {
		tier       string
		k, out, nt int
	}{{"single", 256, 768, 1}, {"single", 768, 256, 1}, {"single", 1024, 1024, 1}, {"multi", 1024, 1024, 4}, {"multi", 1024, 1024, 8}, {"gemm", 1024, 1024, 64}} {
		for _, typ := range matrixTypes {
			w := matrix(b, typ, s.k, s.out, uint64(s.nt))
			require.NoError(b, m.HoldWeight(w))
			operand := func(n int) graph.Operand {
				buf, err := m.AllocBuffer(4 * n)
				require.NoError(b, err)
				require.NoError(b, m.WriteHost(buf, 0, make([]byte, 4*n)))
				return graph.Operand{Buf: buf, Len: 4 * n}
			}
			x, y := operand(s.k*s.nt), operand(s.out*s.nt)
			n := &graph.Node{Op: graph.MatMul, Type: gguf.F32, Shape: graph.Mat(s.out, s.nt), Weight: w, In: []*graph.Node{{}}}
			b.Run(fmt.Sprintf("%s/%dx%dx%d/%v", s.tier, s.k, s.out, s.nt, typ), func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, m.ExecuteNode(n, []graph.Operand{x}, y, nil))
					require.NoError(b, m.Synchronize())
				}
				b.ReportMetric(float64(s.k*s.out*s.nt)*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
			})
		}
	}
}
