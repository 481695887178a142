package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/cpu"
	"minfer/cpu/kernel"
	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/quant"
)

// everyThreads are backends of 1, 2 and 3 threads; the last is generic.
func everyThreads(t testing.TB) []*cpu.Backend {
	return []*cpu.Backend{
		newBackend(t, cpu.Options{Threads: 1}),
		newBackend(t, cpu.Options{Threads: 2}),
		newBackend(t, cpu.Options{Threads: 3, Level: cpu.Generic}),
	}
}

// The product of a batch is, row for row, the product of each token alone, on
// any number of threads: each output is one dot.
func TestMatMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	table := kernel.Generic()
	backends := everyThreads(t)
	for typ, k := range table.Weights {
		bs := typ.BlockSize()
		for _, c := range []struct{ in, out, n int }{
			{bs, 1, 1}, {2 * bs, 3, 2}, {bs * 3, 37, 7}, {max(bs, 45), 130, 32}, {max(bs, 1), 2, 33}, {1024 + bs, 11, 5},
		} {
			in := c.in / bs * bs
			x := randFloats(rng, in*c.n)
			w := weightOf(t, "w", typ, graph.Mat(in, c.out), randFloats(rng, in*c.out))
			bias := weightOf(t, "b", gguf.F32, graph.Vec(c.out), randFloats(rng, c.out))

			want := make([]float32, c.out*c.n)
			act := make([]byte, k.Act.RowBytes(in))
			for i := range c.n {
				table.Quantize[k.Act](act, x[i*in:(i+1)*in])
				k.MatVec(want[i*c.out:(i+1)*c.out], w.Data, typ.RowBytes(in), act, in)
			}
			id := fmt.Sprintf("%v in=%d out=%d n=%d", typ, in, c.out, c.n)
			for _, b := range backends {
				got, err := exec(t, b, graph.Node{Op: graph.MatMul, Shape: graph.Mat(c.out, c.n), Weight: w}, nil, floats(graph.Mat(in, c.n), x))
				require.NoError(t, err, id)
				require.Equal(t, f32Bytes(want), got, id)
			}
			biased := slices.Clone(want)
			for i := range biased {
				biased[i] += bytesF32(bias.Data)[i%c.out]
			}
			node := graph.Node{Op: graph.MatMul, Shape: graph.Mat(c.out, c.n), Weight: w, Bias: bias}
			for _, tapped := range []bool{false, true} {
				var seen []float32
				if tapped {
					backends[1].SetTap(func(v graph.TapValue) {
						require.Equal(t, "mul_mat", v.Part)
						require.Equal(t, -1, v.Row)
						seen = slices.Clone(v.Data)
					})
				}
				got, err := exec(t, backends[1], node, nil, floats(graph.Mat(in, c.n), x))
				backends[1].SetTap(nil)
				require.NoError(t, err, id)
				require.Equal(t, f32Bytes(biased), got, id)
				if tapped {
					require.Equal(t, f32Bytes(want), f32Bytes(seen), id)
				}
			}
		}
	}
}

// attnWant computes attention as llama.cpp does, from dots over whole padded
// rows and a transposed value matrix.
func attnWant(typ gguf.Type, q, k, v []float32, pos int32, nHead, nHeadKV, hd, hdV int, scale float32) (out, kq, sm []float32) {
	table := kernel.Generic()
	convert := func(x []float32) []byte {
		b := make([]byte, typ.RowBytes(len(x)))
		table.Quantize[typ](b, x)
		return b
	}
	dot := func(x, y []float32) float32 {
		var s [1]float32
		table.Weights[typ].MatVec(s[:], convert(x), 0, convert(y), len(x))
		return s[0]
	}
	n := int(pos) + 1
	padded := (n + 255) &^ 255
	out = make([]float32, nHead*hdV)
	for h := range nHead {
		g := h / (nHead / nHeadKV)
		p := make([]float32, padded)
		for j := range n {
			p[j] = dot(k[(j*nHeadKV+g)*hd:][:hd], q[h*hd:][:hd])
		}
		kq = append(kq, p[:n]...)
		table.SoftMax(p, n, scale)
		sm = append(sm, p[:n]...)
		for c := range hdV {
			column := make([]float32, padded)
			for j := range n {
				column[j] = v[(j*nHeadKV+g)*hdV+c]
			}
			out[h*hdV+c] = dot(column, p)
		}
	}
	return out, kq, sm
}

// Attention over a cache filled by KvcacheStore, cut into batches in several
// ways, with cells of later tokens already stored.
func TestAttention(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, b := range everyThreads(t) {
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16} {
			for _, c := range []struct{ nHead, nHeadKV, hd, hdV, n, batch int }{
				{1, 1, 1, 1, 3, 1}, {2, 1, 20, 12, 40, 7}, {14, 2, 64, 64, 33, 32}, {4, 4, 128, 128, 9, 9}, {3, 3, 80, 80, 70, 70},
			} {
				const capacity = 300
				kv := newKV(t, b, typ, capacity, c.nHeadKV*c.hd, c.nHeadKV*c.hdV)
				k, v := randFloats(rng, c.n*kv.KWidth), randFloats(rng, c.n*kv.VWidth)
				q := randFloats(rng, c.n*c.nHead*c.hd)
				scale := 1 / float32(math.Sqrt(float64(c.hd)))
				id := fmt.Sprintf("%v %+v threads=%d", typ, c, b.Threads())
				for from := 0; from < c.n; from += c.batch {
					m := min(c.batch, c.n-from)
					pos := make([]int32, m)
					for i := range pos {
						pos[i] = int32(from + i)
					}
					for side, x := range [][]float32{k, v} {
						width := []int{kv.KWidth, kv.VWidth}[side]
						_, err := exec(t, b, graph.Node{Op: graph.KvcacheStore, Type: typ, Shape: graph.Mat(width, m), Attr: graph.Attr{KV: graph.KVSide(side)}}, kv,
							floats(graph.Mat(width, m), x[from*width:(from+m)*width]), ints(pos...))
						require.NoError(t, err, id)
					}
					at := graph.Attr{HeadDim: c.hd, NHead: c.nHead, NHeadKV: c.nHeadKV, NKV: 256, Scale: scale}
					window := value{typ, graph.Mat(kv.KWidth, 256), nil}
					run := func() []byte {
						got, err := exec(t, b, graph.Node{Op: graph.Attn, Shape: graph.Mat(c.nHead*c.hdV, m), Attr: at}, kv,
							floats(graph.Mat(c.nHead*c.hd, m), q[from*c.nHead*c.hd:(from+m)*c.nHead*c.hd]), window, window, ints(pos...))
						require.NoError(t, err, id)
						return got
					}
					var kq, sm [][]float32
					b.SetTap(func(tv graph.TapValue) {
						require.Equal(t, graph.Mat(len(tv.Data)/c.nHead, c.nHead), tv.Dims, id)
						if tv.Part == "kq" {
							require.Equal(t, len(kq), tv.Row, id)
							kq = append(kq, slices.Clone(tv.Data))
						} else {
							require.Equal(t, "kq_soft_max", tv.Part, id)
							sm = append(sm, slices.Clone(tv.Data))
						}
					})
					tapped := run()
					b.SetTap(nil)
					got := run()
					require.Equal(t, tapped, got, id)
					row := 4 * c.nHead * c.hdV
					for i, p := range pos {
						out, wantKQ, wantSM := attnWant(typ, q[int(p)*c.nHead*c.hd:], k, v, p, c.nHead, c.nHeadKV, c.hd, c.hdV, scale)
						require.Equal(t, f32Bytes(out), got[i*row:(i+1)*row], "%s pos %d", id, p)
						require.Equal(t, f32Bytes(wantKQ), f32Bytes(kq[i]), "%s pos %d kq", id, p)
						require.Equal(t, f32Bytes(wantSM), f32Bytes(sm[i]), "%s pos %d kq_soft_max", id, p)
					}
				}
				// The regions hold the rounded rows and, past them, still zeros.
				region := make([]byte, capacity*typ.RowBytes(kv.VWidth))
				require.NoError(t, b.ReadHost(kv.V, 0, region))
				want := make([]byte, typ.RowBytes(len(v)))
				require.NoError(t, quant.Quantize(typ, want, v))
				require.Equal(t, append(want, make([]byte, len(region)-len(want))...), region, id)
				b.FreeBuffer(kv.K)
				b.FreeBuffer(kv.V)
			}
		}
	}
}

func TestSmallOps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	table := kernel.Generic()
	for _, b := range everyThreads(t) {
		for _, s := range []graph.Shape{graph.Vec(1), graph.Mat(7, 3), graph.Mat(4864, 2), graph.Mat(9001, 1), {12, 2, 3, 2}} {
			d, n := s[0], s.Elements()
			x, y := randFloats(rng, n), randFloats(rng, n)
			rows := func(f func(dst, x, y []float32)) []float32 {
				out := make([]float32, n)
				for r := 0; r < n; r += d {
					f(out[r:r+d], x[r:r+d], y[r:r+d])
				}
				return out
			}
			w := weightOf(t, "w", gguf.F32, graph.Vec(d), randFloats(rng, d))
			for _, c := range []struct {
				node graph.Node
				in   int
				want []float32
			}{
				{graph.Node{Op: graph.Add}, 2, rows(table.Add)},
				{graph.Node{Op: graph.Mul}, 2, rows(table.Mul)},
				{graph.Node{Op: graph.SwiGLU}, 2, rows(table.SwiGLU)},
				{graph.Node{Op: graph.Silu}, 1, rows(func(dst, x, _ []float32) { table.Silu(dst, x) })},
				{graph.Node{Op: graph.Scale, Attr: graph.Attr{Scale: 0.3}}, 1, rows(func(dst, x, _ []float32) { table.Scale(dst, x, 0.3) })},
				{graph.Node{Op: graph.Softmax, Attr: graph.Attr{Scale: 0.3}}, 1, rows(func(dst, x, _ []float32) { copy(dst, x); table.SoftMax(dst, d, 0.3) })},
				{graph.Node{Op: graph.RmsNorm, Attr: graph.Attr{Eps: 1e-5}}, 1, rows(func(dst, x, _ []float32) { table.RmsNorm(dst, x, nil, d, 1e-5) })},
				{graph.Node{Op: graph.RmsNorm, Attr: graph.Attr{Eps: 1e-5}, Weight: w}, 1, rows(func(dst, x, _ []float32) { table.RmsNorm(dst, x, bytesF32(w.Data), d, 1e-5) })},
				{graph.Node{Op: graph.Reshape}, 1, x},
				{graph.Node{Op: graph.Permute, Attr: graph.Attr{Perm: [4]int{0, 1, 2, 3}}}, 1, x},
			} {
				c.node.Shape = s
				in := []value{floats(s, x), floats(s, y)}[:c.in]
				got, err := exec(t, b, c.node, nil, in...)
				require.NoError(t, err)
				require.Equal(t, f32Bytes(c.want), got, "%v %v threads=%d", c.node.Op, s, b.Threads())
			}
		}
	}
}

func TestNormTaps(t *testing.T) {
	b := newBackend(t, cpu.Options{Threads: 2})
	rng := rand.New(rand.NewPCG(4, 4))
	x := randFloats(rng, 6*4)
	w := weightOf(t, "w", gguf.F32, graph.Vec(3), randFloats(rng, 3))
	want := make([]float32, len(x))
	kernel.Generic().RmsNorm(want, x, nil, 3, 1e-6)
	taps := 0
	b.SetTap(func(v graph.TapValue) {
		taps++
		require.Equal(t, "norm", v.Part)
		require.Equal(t, graph.Mat(6, 4), v.Dims)
		require.Equal(t, f32Bytes(want), f32Bytes(v.Data))
	})
	got, err := exec(t, b, graph.Node{Op: graph.QkNorm, Shape: graph.Mat(6, 4), Weight: w, Attr: graph.Attr{HeadDim: 3, Eps: 1e-6}}, nil, floats(graph.Mat(6, 4), x))
	require.NoError(t, err)
	require.Equal(t, 1, taps)
	for i := range want {
		want[i] = want[i] * bytesF32(w.Data)[i%3]
	}
	require.Equal(t, f32Bytes(want), got)
}

func TestRoPE(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	factors := weightOf(t, "rope_freqs.weight", gguf.F32, graph.Vec(8), []float32{1, 1, 2, 3, 4, 8, 8, 8})
	table := kernel.Generic()
	for _, b := range everyThreads(t) {
		// The parameters and positions alternate, so that angles kept from the
		// node before would show.
		for i := range 24 {
			p := graph.Rope{Mode: graph.RopeMode(i % 2), NDims: 16, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}
			k := kernel.RopeParams{NDims: 16, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1}
			node := graph.Node{Op: graph.RoPE, Shape: graph.Mat(3*20, 5), Attr: graph.Attr{HeadDim: 20, NHead: 3, Rope: p}}
			if i/2%2 == 1 {
				node.Weight, k.Factors = factors, bytesF32(factors.Data)
			}
			pos := []int32{int32(i / 4), 7, 7, 100000, 0}
			x := randFloats(rng, 300)
			want, cs := make([]float32, 300), make([]float32, 16)
			for r, at := range pos {
				kernel.NewRopeAngles(k).Fill(cs, at)
				f := table.RopeNorm
				if p.Mode == graph.RopeNeox {
					f = table.RopeNeox
				}
				f(want[60*r:60*r+60], x[60*r:60*r+60], 20, cs)
			}
			got, err := exec(t, b, node, nil, floats(node.Shape, x), ints(pos...))
			require.NoError(t, err)
			require.Equal(t, f32Bytes(want), got, "case %d threads=%d", i, b.Threads())
		}
	}
}

func TestGetRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	b := newBackend(t, cpu.Options{Threads: 3})
	for typ := range kernel.Generic().Weights {
		d := 256
		w := weightOf(t, "table", typ, graph.Mat(d, 10), randFloats(rng, d*10))
		all := make([]float32, d*10)
		require.NoError(t, quant.Dequantize(typ, all, w.Data))
		ids := []int32{9, 0, 3, 3, 7}
		var want []float32
		for _, id := range ids {
			want = append(want, all[int(id)*d:(int(id)+1)*d]...)
		}
		got, err := exec(t, b, graph.Node{Op: graph.GetRows, Shape: graph.Mat(d, 5), Weight: w}, nil, ints(ids...))
		require.NoError(t, err)
		require.Equal(t, f32Bytes(want), got, "%v", typ)
	}
}

func TestBatchMatMulViewPermute(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, b := range everyThreads(t) {
		k, m, n, batch := 45, 3, 5, 4
		x, y := randFloats(rng, k*m*batch), randFloats(rng, k*n*batch)
		var want []float32
		for z := range batch {
			for j := range n {
				d := make([]float32, m)
				kernel.Generic().Weights[gguf.F32].MatVec(d, f32Bytes(x[z*k*m:(z+1)*k*m]), 4*k, f32Bytes(y[(z*n+j)*k:(z*n+j+1)*k]), k)
				want = append(want, d...)
			}
		}
		got, err := exec(t, b, graph.Node{Op: graph.BatchMatMul, Shape: graph.Shape{m, n, batch, 1}}, nil,
			floats(graph.Shape{k, m, batch, 1}, x), floats(graph.Shape{k, n, batch, 1}, y))
		require.NoError(t, err)
		require.Equal(t, f32Bytes(want), got)

		got, err = exec(t, b, graph.Node{Op: graph.View, Shape: graph.Mat(5, 2), Attr: graph.Attr{Offset: 3}}, nil, floats(graph.Mat(5, 6), x[:30]))
		require.NoError(t, err)
		require.Equal(t, f32Bytes(x[15:25]), got)

		// Dimension i becomes dimension Perm[i].
		got, err = exec(t, b, graph.Node{Op: graph.Permute, Shape: graph.Shape{4, 2, 1, 3}, Attr: graph.Attr{Perm: [4]int{1, 3, 0, 2}}}, nil,
			floats(graph.Shape{2, 3, 4, 1}, x[:24]))
		require.NoError(t, err)
		out := bytesF32(got)
		for i2 := range 4 {
			for i1 := range 3 {
				for i0 := range 2 {
					require.Equal(t, x[i0+2*i1+6*i2], out[i2+4*(i0+2*i1)])
				}
			}
		}
	}
}

// A long window of one token, whose heads the threads share, gives the same bits as
// one thread and as a batch, and at level H as kernels of one head at a time.
func TestAttentionShared(t *testing.T) {
	const heads, headsKV, hd, hdV, n = 6, 2, 64, 32, 1500
	rng := rand.New(rand.NewPCG(5, 5))
	k, v := randFloats(rng, n*headsKV*hd), randFloats(rng, n*headsKV*hdV)
	q := randFloats(rng, 2*heads*hd)
	pos := make([]int32, n)
	for i := range pos {
		pos[i] = int32(i)
	}
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16} {
		byLevel := map[cpu.Level][]byte{}
		for _, o := range []cpu.Options{{Threads: 1, Level: cpu.AVX2}, {Threads: 1}, {Threads: 3}, {Threads: 1, Level: cpu.AVX512}, {Threads: 3, Level: cpu.AVX512}} {
			if !slices.Contains(cpu.Levels(), o.Level) && o.Level != cpu.Auto {
				continue
			}
			b := newBackend(t, o)
			kv := newKV(t, b, typ, n, headsKV*hd, headsKV*hdV)
			for side, x := range map[graph.KVSide][]float32{graph.KVKey: k, graph.KVValue: v} {
				_, err := exec(t, b, graph.Node{Op: graph.KvcacheStore, Type: typ, Shape: graph.Mat(len(x)/n, n), Attr: graph.Attr{KV: side}}, kv, floats(graph.Mat(len(x)/n, n), x), ints(pos...))
				require.NoError(t, err)
			}
			at := graph.Attr{HeadDim: hd, NHead: heads, NHeadKV: headsKV, Scale: 0.125, NKV: n}
			window := value{typ, graph.Mat(kv.KWidth, n), nil}
			both, err := exec(t, b, graph.Node{Op: graph.Attn, Shape: graph.Mat(heads*hdV, 2), Attr: at}, kv, floats(graph.Mat(heads*hd, 2), q), window, window, ints(n-1, n-3))
			require.NoError(t, err)
			one, err := exec(t, b, graph.Node{Op: graph.Attn, Shape: graph.Mat(heads*hdV, 1), Attr: at}, kv, floats(graph.Mat(heads*hd, 1), q[:heads*hd]), window, window, ints(n-1))
			require.NoError(t, err)
			require.Equal(t, both[:len(one)], one, "%v %v", typ, o)
			if want, ok := byLevel[b.Level()]; ok {
				require.Equal(t, want, both, "%v %v", typ, o)
			}
			byLevel[b.Level()] = both
		}
	}
}
