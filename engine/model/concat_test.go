package model_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
	"minfer/engine/model"
	"minfer/engine/quant"
	"minfer/engine/synth"
)

// random gives every tensor of f random finite values, so that rows differ.
func random(f *file) *file {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, s := range f.tensors {
		n := 1
		for _, d := range s.Dims {
			n *= d
		}
		x := make([]float32, n)
		for j := range x {
			x[j] = rng.Float32() - 0.5
		}
		f.tensors[i] = gguf.BytesSpec(s.Name, gguf.F32, s.Dims, graphtest.FloatBytes(x))
	}
	return f
}

// data is what the file has under the names, one after the other.
func data(t *testing.T, m *model.Model, names ...string) []byte {
	t.Helper()
	var all []byte
	for _, name := range names {
		x, ok := m.File().Tensor(name)
		require.True(t, ok, name)
		all = append(all, x.Data...)
	}
	return all
}

func names(ws []*graph.Weight) []string {
	var s []string
	for _, w := range ws {
		s = append(s, w.Name)
	}
	return s
}

// weight finds a weight of the model.
func weight(t *testing.T, m *model.Model, name string) *graph.Weight {
	t.Helper()
	i := slices.IndexFunc(m.Weights(), func(w *graph.Weight) bool { return w.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return m.Weights()[i]
}

func TestConcatenate(t *testing.T) {
	for arch, want := range map[string][]string{
		"qwen2": {"attn_qkv.weight", "attn_qkv.bias", "ffn_gate_up.weight"},
		"qwen3": {"attn_qkv.weight", "attn_qk_norm.weight", "ffn_gate_up.weight"},
		"llama": {"attn_qkv.weight", "ffn_gate_up.weight"},
	} {
		t.Run(arch, func(t *testing.T) {
			m := must(t, random(base(arch)))
			for _, w := range m.Weights() {
				require.Nil(t, w.Concat, "without a call, as in a run on the CPU, nothing is copied")
			}
			require.Empty(t, m.Concatenations())
			before := names(m.Weights())
			m.Concatenate(true, true)
			require.Equal(t, before, names(m.Weights()))
			var all []string
			for il := range 2 {
				for _, w := range want {
					all = append(all, fmt.Sprintf("blk.%d.%s", il, w))
				}
			}
			require.Equal(t, all, names(m.Concatenations()))

			for _, c := range m.Concatenations() {
				il := c.Name[:6]
				shape, parts := graph.Shape{}, []string(nil)
				switch c.Name[6:] {
				case "attn_qkv.weight":
					shape, parts = graph.Mat(8, 16), []string{"attn_q.weight", "attn_k.weight", "attn_v.weight"}
				case "attn_qkv.bias":
					shape, parts = graph.Vec(16), []string{"attn_q.bias", "attn_k.bias", "attn_v.bias"}
				case "attn_qk_norm.weight":
					shape, parts = graph.Vec(8), []string{"attn_q_norm.weight", "attn_k_norm.weight"}
				case "ffn_gate_up.weight":
					shape, parts = graph.Mat(8, 24), []string{"ffn_gate.weight", "ffn_up.weight"}
				}
				for i := range parts {
					parts[i] = il + parts[i]
					w := weight(t, m, parts[i])
					require.Same(t, c, w.Concat)
					row := map[string][]int{
						"attn_qkv.weight": {0, 8, 12}, "attn_qkv.bias": {0, 8, 12}, "attn_qk_norm.weight": {0, 4}, "ffn_gate_up.weight": {0, 12},
					}[c.Name[6:]][i]
					require.Equal(t, row, w.Row, w.Name)
				}
				require.Equal(t, shape, c.Shape, c.Name)
				require.Equal(t, gguf.F32, c.Type)
				require.Equal(t, data(t, m, parts...), c.Data, c.Name)
			}

			// Again: nothing new. In two steps: the rest.
			old := slices.Clone(m.Concatenations())
			m.Concatenate(true, true)
			require.Equal(t, old, m.Concatenations())
			m = must(t, base(arch))
			m.Concatenate(false, true)
			require.Len(t, m.Concatenations(), 2)
			require.Nil(t, weight(t, m, "blk.0.attn_q.weight").Concat)
			m.Concatenate(true, false)
			require.Len(t, m.Concatenations(), len(old))
			require.NotNil(t, weight(t, m, "blk.0.attn_q.weight").Concat)
		})
	}
}

// A layer without one condition has no concatenation; the other layer does.
func TestConcatenateConditions(t *testing.T) {
	half := func(f *file, name string, dims ...int) {
		n := 2
		for _, d := range dims {
			n *= d
		}
		f.put(gguf.BytesSpec(name, gguf.F16, dims, make([]byte, n)))
	}
	for name, c := range map[string]struct {
		arch string
		want string
		edit func(*file)
	}{
		"v of another type":    {"qwen2", "blk.0.ffn_gate_up.weight", func(f *file) { half(f, "blk.0.attn_v.weight", 8, 4) }},
		"up of another type":   {"qwen2", "blk.0.attn_qkv.weight blk.0.attn_qkv.bias", func(f *file) { half(f, "blk.0.ffn_up.weight", 8, 12) }},
		"no bias of k":         {"qwen2", "blk.0.ffn_gate_up.weight", func(f *file) { f.drop("blk.0.attn_k.bias") }},
		"no bias of q":         {"qwen2", "blk.0.ffn_gate_up.weight", func(f *file) { f.drop("blk.0.attn_q.bias") }},
		"a bias of ffn_gate":   {"llama", "blk.0.attn_qkv.weight", func(f *file) { f.add("blk.0.ffn_gate.bias", 12) }},
		"a bias of ffn_up":     {"llama", "blk.0.attn_qkv.weight", func(f *file) { f.add("blk.0.ffn_up.bias", 12) }},
		"a bias of ffn_down":   {"llama", "blk.0.attn_qkv.weight blk.0.ffn_gate_up.weight", func(f *file) { f.add("blk.0.ffn_down.bias", 8) }},
		"everything, as it is": {"llama", "blk.0.attn_qkv.weight blk.0.ffn_gate_up.weight", func(f *file) {}},
	} {
		f := base(c.arch)
		c.edit(f)
		m := must(t, f)
		m.Concatenate(true, true)
		first, second := []string(nil), 0
		for _, n := range names(m.Concatenations()) {
			if strings.HasPrefix(n, "blk.0.") {
				first = append(first, n)
			} else {
				second++
			}
		}
		require.Equal(t, strings.Fields(c.want), first, name)
		require.Equal(t, map[string]int{"qwen2": 3, "llama": 2}[c.arch], second, name)
	}
}

// Q4_K_M gives attn_v and ffn_down of some layers more bits: those layers keep
// their three projections apart. It fuses what the others have.
func TestMixedTypes(t *testing.T) {
	mix, err := quant.ParseMix("q4_K_M")
	require.NoError(t, err)
	paths, err := synth.Write(filepath.Join(t.TempDir(), "m.gguf"), synth.Options{Arch: "qwen2", Size: "tiny", Mix: mix, Layers: 8, MaxPartBytes: 1 << 20})
	require.NoError(t, err)
	f, err := gguf.Open(paths[0])
	require.NoError(t, err)
	defer f.Close()
	m, err := model.Load(f)
	require.NoError(t, err)
	m.Concatenate(true, true)
	together, apart := 0, 0
	for il := range 8 {
		q, _ := f.Tensor(fmt.Sprintf("blk.%d.attn_q.weight", il))
		v, _ := f.Tensor(fmt.Sprintf("blk.%d.attn_v.weight", il))
		c := weight(t, m, q.Name).Concat
		require.Equal(t, q.Type == v.Type, c != nil, "layer %d: %v and %v", il, q.Type, v.Type)
		if c != nil {
			together++
			require.Equal(t, data(t, m, q.Name, strings.Replace(q.Name, "_q", "_k", 1), v.Name), c.Data)
			require.Equal(t, q.Type.RowBytes(c.Shape[0])*c.Shape[1], len(c.Data))
		} else {
			apart++
		}
	}
	require.Positive(t, together)
	require.Positive(t, apart)

	// A graph of one token has both kinds.
	h := graphtest.Hold(graphtest.Wrap(anyBackend{graphtest.NewRef("inner")}, graphtest.Options{Name: "Metal"}))
	require.NoError(t, m.Hold(h))
	p := graph.Params{NTokens: 1, NOut: 1, NKV: 8, GPU: true, FuseQKV: true, FuseFFN: true}
	g, err := m.Build(p)
	require.NoError(t, err)
	a, err := graph.Assign(g, []graph.Backend{h}, nil)
	require.NoError(t, err)
	g, _ = graph.Fuse(g, a)
	require.NoError(t, graph.Validate(g))
	ops := map[graph.Op]int{}
	for _, n := range g.Nodes {
		ops[n.Op]++
	}
	require.Equal(t, []int{together, apart * 2, 8, 0}, []int{ops[graph.FusedQKV], ops[graph.KvcacheStore], ops[graph.FusedFFN], ops[graph.SwiGLU]})

	// The parts of the file are announced, then everything registered.
	require.Greater(t, len(paths), 1)
	require.Len(t, h.Parts, len(paths))
	for i, p := range f.Parts {
		require.Same(t, &p.Data[0], &h.Parts[i][0])
		require.Len(t, h.Parts[i], len(p.Data))
	}
	require.Equal(t, len(m.Weights())+len(m.Concatenations()), h.Held())
	missing, open := graph.Gate([]graph.Backend{h}, slices.Concat(m.Weights(), m.Concatenations()))
	require.Nil(t, missing)
	require.True(t, open)
}

// anyBackend is planned for and never run.
type anyBackend struct{ *graphtest.Ref }

func (anyBackend) SupportsOp(graph.Op, graph.DType) bool { return true }

// failing refuses a part, or a weight by name.
type failing struct {
	part bool
	name string
}

func (f failing) HoldPart([]byte) error {
	if f.part {
		return errors.New("too large")
	}
	return nil
}

func (f failing) HoldWeight(w *graph.Weight) error {
	if w.Name == f.name {
		return errors.New("no room")
	}
	return nil
}

func (failing) Holds(*graph.Weight) bool { return false }

func TestHoldErrors(t *testing.T) {
	m := must(t, base("qwen2"))
	m.Concatenate(true, true)
	require.ErrorContains(t, m.Hold(failing{part: true}), "m.gguf: too large")
	require.EqualError(t, m.Hold(failing{name: "blk.1.ffn_norm.weight"}), "model: tensor blk.1.ffn_norm.weight: no room")
	require.EqualError(t, m.Hold(failing{name: "blk.1.attn_qkv.bias"}), "model: tensor blk.1.attn_qkv.bias: no room")
	require.NoError(t, m.Hold(failing{}))
}
