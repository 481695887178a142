package metal_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/lever"
	"minfer/metal"
	"minfer/refs"
)

func TestRmsNorm(t *testing.T) {
	for _, variant := range []string{"256", "32"} {
		b, list := watched(t, func(l *lever.Levers) { l.NoRMS256 = variant == "32" })
		e := metal.Lookup("rms_norm", "", variant)
		for _, s := range []graph.Shape{
			graph.Mat(1, 3), graph.Mat(31, 2), graph.Mat(64, 5), graph.Mat(97, 1), graph.Mat(255, 2), graph.Mat(257, 3),
			graph.Mat(896, 4), graph.Mat(1023, 1), graph.Mat(3584, 2), graph.Mat(18944, 1),
		} {
			x := gaussian(s.Elements(), 4)
			x[0] = 30
			w := vector(t, b, fmt.Sprintf("norm.%d", s[0]), gaussian(s[0], 5))
			for _, weight := range []*graph.Weight{w, nil} {
				for _, eps := range []float32{1e-6, 1e-2} {
					var ws []float64
					if weight != nil {
						ws = floatsOf(weight.Data)
					}
					want := refs.RmsNorm(refs.F64(x), s[0], float64(eps), ws)
					n := &graph.Node{Op: graph.RmsNorm, Shape: s, Weight: weight, In: []*graph.Node{f32(s)}, Attr: graph.Attr{Eps: eps}}
					near(t, fmt.Sprintf("%s %v weighted %v", variant, s, weight != nil), e, encode(t, b, n, nil, -1, bytesOf(x)), want, sizes(want))
					require.Equal(t, []string{"rms_norm " + variant}, launches(list))
				}
			}
		}
	}
}

// A row of zeros has only eps under the root; rows do not see each other.
func TestRmsNormRows(t *testing.T) {
	b, _ := watched(t, nil)
	x := make([]float32, 3*70)
	for i := range 70 {
		x[i], x[140+i] = 1e4, 1e-4
	}
	s := graph.Mat(70, 3)
	got := encode(t, b, &graph.Node{Op: graph.RmsNorm, Shape: s, In: []*graph.Node{f32(s)}, Attr: graph.Attr{Eps: 1e-6}}, nil, -1, bytesOf(x))
	require.InDelta(t, 1, got[69], 1e-6)
	require.Zero(t, got[70])
	require.InDelta(t, 0.0995037190, got[209], 1e-6) // 1e-4 / sqrt(1e-8 + 1e-6)
}

func TestQkNorm(t *testing.T) {
	b, list := watched(t, nil)
	e := metal.Lookup("qk_norm", "", "")
	for _, test := range []struct{ hd, heads, rows int }{{64, 1, 1}, {64, 14, 3}, {128, 5, 2}, {80, 3, 1}, {7, 2, 3}, {1, 1, 5}, {256, 9, 1}} {
		s := graph.Mat(test.hd*test.heads, test.rows)
		x := gaussian(s.Elements(), 6)
		w := vector(t, b, fmt.Sprintf("qk.%v", test), gaussian(test.hd, 7))
		want := refs.QkNorm(refs.F64(x), test.hd, 1e-5, floatsOf(w.Data))
		n := &graph.Node{Op: graph.QkNorm, Shape: s, Weight: w, In: []*graph.Node{f32(s)}, Attr: graph.Attr{Eps: 1e-5, HeadDim: test.hd}}
		near(t, fmt.Sprint(test), e, encode(t, b, n, nil, -1, bytesOf(x)), want, sizes(want))
		require.Equal(t, []string{"qk_norm"}, launches(list))
	}
}

func TestNormGuards(t *testing.T) {
	b, list := watched(t, nil)
	x := f32(graph.Mat(64, 2))
	short := vector(t, b, "short", gaussian(63, 1))
	half := &graph.Weight{Name: "half", Type: gguf.F16, Shape: graph.Vec(64), Data: make([]byte, 128)}
	refused(t, b, list, &graph.Node{Op: graph.RmsNorm, Shape: x.Shape, In: nodes(x, 1), Weight: short}, nil,
		"weight short is f32 [63 1 1 1] of 252 bytes, want f32 of 64 values")
	refused(t, b, list, &graph.Node{Op: graph.RmsNorm, Shape: x.Shape, In: nodes(x, 1), Weight: half}, nil,
		"weight half is f16 [64 1 1 1] of 128 bytes, want f32 of 64 values")
	refused(t, b, list, &graph.Node{Op: graph.QkNorm, Shape: x.Shape, In: nodes(x, 1), Weight: short, Attr: graph.Attr{HeadDim: 48}}, nil,
		"rows of 64, want a multiple of head_dim = 48")
	refused(t, b, list, &graph.Node{Op: graph.QkNorm, Shape: x.Shape, In: nodes(x, 1), Attr: graph.Attr{HeadDim: 32}}, nil, "no weight")
	// A weight that is not registered is no guard's: the gate lets no such graph here.
	n := &graph.Node{Op: graph.RmsNorm, Shape: x.Shape, In: nodes(x, 1), Weight: &graph.Weight{Name: "new", Type: gguf.F32, Shape: graph.Vec(64), Data: make([]byte, 256)}}
	err := b.ExecuteNode(n, []graph.Operand{guarded(t, b, make([]byte, 512))}, guarded(t, b, make([]byte, 512)), nil)
	require.ErrorContains(t, err, "weight new is not registered")
}
