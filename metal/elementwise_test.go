package metal_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/refs"
)

// floatsOf reads f32 values.
func floatsOf(data []byte) []float64 {
	x := make([]float64, len(data)/4)
	for i := range x {
		x[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return x
}

func int32s(x ...int32) []byte {
	var data []byte
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}

// vector is an F32 weight, registered.
func vector(t testing.TB, b *metal.Backend, name string, x []float32) *graph.Weight {
	t.Helper()
	w := &graph.Weight{Name: name, Type: gguf.F32, Shape: graph.Vec(len(x)), Data: bytesOf(x)}
	require.NoError(t, b.HoldWeight(w))
	return w
}

// f32 is an input of the graph for a single op.
func f32(s graph.Shape) *graph.Node {
	return &graph.Node{Op: graph.Input, Type: gguf.F32, Shape: s, Name: "x"}
}

// encode runs one node on guarded copies of the inputs, which stay as they are, and
// gives its output. inPlace puts the output over that input; -1 is none.
func encode(t testing.TB, b *metal.Backend, n *graph.Node, kv *graph.KV, inPlace int, inputs ...[]byte) []float64 {
	t.Helper()
	n.Type = gguf.F32
	in := make([]graph.Operand, len(inputs))
	for i, data := range inputs {
		in[i] = guarded(t, b, data)
		defer b.FreeBuffer(in[i].Buf)
	}
	var out graph.Operand
	if inPlace >= 0 {
		out = in[inPlace]
	} else {
		out = guarded(t, b, make([]byte, 4*n.Shape.Elements()))
		defer b.FreeBuffer(out.Buf)
	}
	require.NoError(t, b.ExecuteNode(n, in, out, kv))
	require.NoError(t, b.Synchronize())
	for i, data := range inputs {
		if i != inPlace {
			require.Equal(t, data, window(t, b, in[i]), "input %d was written", i)
		}
	}
	return floatsOf(window(t, b, out))
}

// near holds each value against the reference under the entry's bound, with k = 1
// and terms of its own.
func near(t testing.TB, what string, e *metal.Entry, got, want, terms []float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	limit := 1e-3 * max(1, refs.RMS(want))
	for i, w := range want {
		tolerance := min(limit, (e.Bound.C*0x1p-24+e.Bound.Staging)*terms[i]+e.Bound.Absolute)
		if d := math.Abs(got[i] - w); !(d <= tolerance) {
			require.Failf(t, "too far", "%s: element %d is %v, want %v: off by %.3g, at most %.3g", what, i, got[i], w, d, tolerance)
		}
	}
}

// sizes are |x|.
func sizes(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Abs(v)
	}
	return y
}

// launches gives what was launched since the last call.
func launches(list *[]*metal.Entry) []string {
	var ids []string
	for _, e := range *list {
		if e.Op != "warm_up" {
			ids = append(ids, e.ID())
		}
	}
	*list = (*list)[:0]
	return ids
}

func watched(t *testing.T, change func(*lever.Levers)) (*metal.Backend, *[]*metal.Entry) {
	var list []*metal.Entry
	l := lever.Default()
	if change != nil {
		change(&l)
	}
	return strict(t, metal.Options{Levers: l, Launched: func(e *metal.Entry) { list = append(list, e) }}), &list
}

func TestElementwise(t *testing.T) {
	b, list := watched(t, nil)
	for _, op := range []graph.Op{graph.Add, graph.Mul, graph.Silu, graph.SwiGLU} {
		for _, s := range []graph.Shape{graph.Vec(1), graph.Vec(31), graph.Mat(257, 1), graph.Mat(64, 3), graph.Mat(1023, 1), graph.Mat(1025, 2), graph.Mat(896, 5)} {
			what := fmt.Sprintf("%v %v", op, s)
			x, y := gaussian(s.Elements(), 1), gaussian(s.Elements(), 2)
			x[0], y[0] = 40, -3 // a peak
			if len(x) > 30 {
				x[30], y[30] = -20, 5
			}
			inputs, xs, ys := [][]byte{bytesOf(x), bytesOf(y)}, refs.F64(x), refs.F64(y)
			var want, terms []float64
			switch op {
			case graph.Add:
				want = refs.Add(xs, ys)
				terms = refs.Add(sizes(xs), sizes(ys))
			case graph.Mul:
				want = refs.Mul(xs, ys)
			case graph.SwiGLU:
				want = refs.SwiGLU(xs, ys)
			default:
				want, inputs = refs.Silu(xs), inputs[:1]
			}
			if terms == nil {
				terms = sizes(want)
			}
			if op == graph.Silu || op == graph.SwiGLU {
				for i := range terms {
					terms[i] *= 1 + math.Abs(xs[i])
				}
			}
			n := &graph.Node{Op: op, Shape: s}
			for range inputs {
				n.In = append(n.In, f32(s))
			}
			e := metal.Lookup(op.String(), "", "")
			for at := -1; at < len(inputs); at++ {
				near(t, what, e, encode(t, b, n, nil, at, inputs...), want, terms)
				require.Equal(t, []string{op.String()}, launches(list))
			}
		}
	}
}

// The gate at the ends of its range: no infinity on the way, whatever the mode of
// the device's arithmetic.
func TestSiluRange(t *testing.T) {
	b, _ := watched(t, nil)
	x := []float32{-1e30, -200, -104, -88, -87.5, -86, -50, -1e-30, 0, 1e-30, 50, 88, 104, 200, 1e30}
	got := encode(t, b, &graph.Node{Op: graph.Silu, Shape: graph.Vec(len(x)), In: []*graph.Node{f32(graph.Vec(len(x)))}}, nil, -1, bytesOf(x))
	for i, v := range x {
		want := 0.0
		if v > -700 {
			want = float64(v) / (1 + math.Exp(-float64(v)))
		}
		require.InDelta(t, want, got[i], 2e-6*math.Abs(want)+2e-36, "silu(%v)", v)
	}
}

func TestPermute(t *testing.T) {
	b, list := watched(t, nil)
	for _, test := range []struct {
		in   graph.Shape
		perm [4]int
	}{
		{graph.Shape{5, 3, 2, 2}, [4]int{1, 0, 2, 3}},
		{graph.Shape{64, 7, 3, 1}, [4]int{0, 2, 1, 3}},
		{graph.Shape{3, 4, 5, 2}, [4]int{2, 3, 1, 0}},
		{graph.Shape{1, 17, 1, 1}, [4]int{0, 1, 2, 3}},
		{graph.Shape{300, 2, 1, 3}, [4]int{3, 2, 1, 0}},
	} {
		n := &graph.Node{Op: graph.Permute, In: []*graph.Node{f32(test.in)}, Attr: graph.Attr{Perm: test.perm}}
		for i, p := range test.perm {
			n.Shape[p] = test.in[i]
		}
		x := gaussian(test.in.Elements(), 3)
		got := encode(t, b, n, nil, -1, bytesOf(x))
		require.Equal(t, []string{"permute"}, launches(list))
		k := 0
		var at [4]int
		for at[3] = range test.in[3] {
			for at[2] = range test.in[2] {
				for at[1] = range test.in[1] {
					for at[0] = range test.in[0] {
						var to [4]int
						for i, p := range test.perm {
							to[p] = at[i]
						}
						o := to[0] + n.Shape[0]*(to[1]+n.Shape[1]*(to[2]+n.Shape[2]*to[3]))
						require.Equal(t, float64(x[k]), got[o], "%v by %v: element %v", test.in, test.perm, at)
						k++
					}
				}
			}
		}
	}
}

// refused runs a node that a guard takes exception to; nothing is launched.
func refused(t *testing.T, b *metal.Backend, list *[]*metal.Entry, n *graph.Node, kv *graph.KV, text string) {
	t.Helper()
	var in []graph.Operand
	for _, x := range n.In {
		in = append(in, guarded(t, b, make([]byte, 4*x.Shape.Elements())))
	}
	err := b.ExecuteNode(n, in, guarded(t, b, make([]byte, 4*n.Shape.Elements())), kv)
	require.ErrorIs(t, err, graph.ErrUnsupported, text)
	require.ErrorContains(t, err, text)
	require.ErrorContains(t, err, "(force CPU with MINFER_DISABLE_MPS=1)")
	require.Empty(t, launches(list))
}

func TestElementwiseErrors(t *testing.T) {
	b, list := watched(t, nil)
	a, short := f32(graph.Mat(4, 2)), f32(graph.Mat(4, 1))
	for text, n := range map[string]*graph.Node{
		"input 1 is [4 1 1 1] of 16 bytes, want [4 2 1 1]: 32 bytes": {Op: graph.Add, Shape: a.Shape, In: []*graph.Node{a, short}},
		"input 0 is [4 1 1 1] of 16 bytes":                           {Op: graph.Silu, Shape: a.Shape, In: []*graph.Node{short}},
		"by perm [0 0 2 3] is not the output's":                      {Op: graph.Permute, Shape: a.Shape, In: []*graph.Node{a}, Attr: graph.Attr{Perm: [4]int{0, 0, 2, 3}}},
		"by perm [1 0 2 3] is not the output's":                      {Op: graph.Permute, Shape: a.Shape, In: []*graph.Node{a}, Attr: graph.Attr{Perm: [4]int{1, 0, 2, 3}}},
	} {
		var in []graph.Operand
		for _, x := range n.In {
			in = append(in, guarded(t, b, make([]byte, 4*x.Shape.Elements())))
		}
		err := b.ExecuteNode(n, in, guarded(t, b, make([]byte, 32)), nil)
		require.ErrorContains(t, err, text)
	}
	require.Empty(t, launches(list))
	require.NoError(t, b.Synchronize())
}

func nodes(n *graph.Node, k int) []*graph.Node { return slices.Repeat([]*graph.Node{n}, k) }
