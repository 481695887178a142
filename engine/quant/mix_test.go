package quant_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/quant"
)

// A layout is a model of testdata/types.txt: real row lengths where they
// matter, a few rows each.
type layout struct {
	shape    quant.Shape
	embd, ff int
	tied     bool
}

var layouts = map[string]layout{
	"qwen2-0.5b":   {quant.Shape{Arch: "qwen2", Layers: 24, Heads: 14, HeadsKV: 2}, 896, 4864, true}, // rows of 896 fit no K block
	"qwen2-1.5b":   {quant.Shape{Arch: "qwen2", Layers: 28, Heads: 12, HeadsKV: 2}, 1536, 8960, true},
	"tied-24":      {quant.Shape{Arch: "qwen2", Layers: 24, Heads: 16, HeadsKV: 16}, 1024, 2816, true},
	"gqa-32":       {quant.Shape{Arch: "llama", Layers: 32, Heads: 32, HeadsKV: 8}, 4096, 1024, false},
	"llama-65b":    {quant.Shape{Arch: "llama", Layers: 80, Heads: 4, HeadsKV: 4}, 256, 256, false},
	"llama-70b":    {quant.Shape{Arch: "llama", Layers: 80, Heads: 8, HeadsKV: 1}, 256, 256, false},
	"qwen2-72b":    {quant.Shape{Arch: "qwen2", Layers: 80, Heads: 8, HeadsKV: 1}, 256, 256, false},
	"qwen3-80":     {quant.Shape{Arch: "qwen3", Layers: 80, Heads: 8, HeadsKV: 1}, 256, 256, false},
	"experts-4":    {quant.Shape{Arch: "llama", Layers: 16, Heads: 8, HeadsKV: 2, Experts: 4}, 256, 256, false},
	"experts-8":    {quant.Shape{Arch: "llama", Layers: 16, Heads: 8, HeadsKV: 2, Experts: 8}, 256, 256, true},
	"rows-of-80":   {quant.Shape{Arch: "qwen2", Layers: 9, Heads: 4, HeadsKV: 2}, 80, 256, true},
	"rows-of-288":  {quant.Shape{Arch: "qwen3", Layers: 3, Heads: 4, HeadsKV: 2}, 288, 80, false},
	"single-layer": {quant.Shape{Arch: "qwen3", Layers: 1, Heads: 4, HeadsKV: 2}, 512, 768, false},
}

func (l layout) tensors() []gguf.Tensor {
	var ts []gguf.Tensor
	add := func(name string, t gguf.Type, dims ...int) {
		ts = append(ts, gguf.Tensor{Name: name, Type: t, Dims: dims})
	}
	// Not the order in which llama.cpp visits them.
	add("output_norm.weight", gguf.F32, l.embd)
	for i := l.shape.Layers - 1; i >= 0; i-- {
		b := fmt.Sprintf("blk.%d.", i)
		add(b+"attn_norm.weight", gguf.F32, l.embd)
		add(b+"attn_q.weight", gguf.F16, l.embd, 2)
		add(b+"attn_q.bias", gguf.F32, 2)
		add(b+"attn_q_norm.weight", gguf.F32, 64, 2) // a matrix by its shape
		add(b+"attn_k.weight", gguf.F16, l.embd, 2)
		add(b+"attn_v.weight", gguf.F16, l.embd, 2)
		add(b+"attn_output.weight", gguf.F16, l.embd, 2)
		add(b+"odd", gguf.F16, l.embd, 2) // no weight by its name
		if l.shape.Experts > 0 {
			add(b+"ffn_gate_inp.weight", gguf.F32, l.embd, l.shape.Experts)
			add(b+"ffn_down_exps.weight", gguf.F16, l.ff, 2, l.shape.Experts)
			add(b+"ffn_down_shexp.weight", gguf.F16, l.ff, 2)
			add(b+"ffn_up_exps.weight", gguf.F16, l.embd, 2, l.shape.Experts)
			continue
		}
		add(b+"ffn_gate.weight", gguf.F16, l.embd, 2)
		add(b+"ffn_up.weight", gguf.F16, l.embd, 2)
		add(b+"ffn_down.weight", gguf.F16, l.ff, 2)
	}
	add("token_embd.weight", gguf.F16, l.embd, 40)
	if !l.tied {
		add("output.weight", gguf.F16, l.embd, 40)
	}
	return ts
}

// summary writes the types of a model as lines "tensor type*layers ...", in
// order of first appearance.
func summary(ts []gguf.Tensor, types []gguf.Type) []string {
	runs := map[string][]string{}
	counts := map[string][]int{}
	var kinds []string
	for _, i := range quant.Order(ts) {
		kind := ts[i].Name
		if strings.HasPrefix(kind, "blk.") {
			kind = strings.SplitN(kind, ".", 3)[2]
		}
		if _, ok := runs[kind]; !ok {
			kinds = append(kinds, kind)
		}
		name := types[i].String()
		if r := runs[kind]; len(r) > 0 && r[len(r)-1] == name {
			counts[kind][len(r)-1]++
			continue
		}
		runs[kind] = append(runs[kind], name)
		counts[kind] = append(counts[kind], 1)
	}
	var lines []string
	for _, kind := range kinds {
		line := kind
		for i, name := range runs[kind] {
			line += fmt.Sprintf(" %s*%d", name, counts[kind][i])
		}
		lines = append(lines, line)
	}
	return lines
}

// TestTypes compares the choices for whole models with testdata/types.txt,
// which names its origin.
func TestTypes(t *testing.T) {
	f, err := os.Open("testdata/types.txt")
	require.NoError(t, err)
	defer f.Close()
	want := map[string][]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if field := strings.SplitN(s.Text(), " ", 3); !strings.HasPrefix(s.Text(), "#") {
			key := field[0] + " " + field[1]
			want[key] = append(want[key], field[2])
		}
	}
	seen := 0
	for name, l := range layouts {
		ts := l.tensors()
		for _, mix := range quant.MixNames() {
			m, err := quant.ParseMix(mix)
			require.NoError(t, err)
			for _, pure := range []bool{false, true} {
				key := name + " " + mix
				if pure {
					if m.Pure {
						continue
					}
					m.Pure = true
					key += ",pure"
				}
				if want[key] == nil {
					continue // not recorded: every layout has the mixes that matter to it
				}
				types, err := m.Types(l.shape, ts)
				require.NoError(t, err)
				require.Equal(t, want[key], summary(ts, types), key)
				seen++
			}
		}
	}
	require.Equal(t, len(want), seen, "records without a layout or a mix")
	require.Greater(t, seen, 100)
}

// TestQ4_K_M states the choice for a model of 24 layers with a tied embedding
// in plain words: the first and last three layers and every third between get
// q6_K for attn_v and ffn_down, so does the embedding.
func TestQ4_K_M(t *testing.T) {
	m, err := quant.ParseMix("Q4_K_M")
	require.NoError(t, err)
	l := layouts["tied-24"]
	ts := l.tensors()
	types, err := m.Types(l.shape, ts)
	require.NoError(t, err)
	more := map[int]bool{0: true, 1: true, 2: true, 5: true, 8: true, 11: true, 14: true, 17: true, 20: true, 21: true, 22: true, 23: true}
	for i, x := range ts {
		want := gguf.Q4_K
		var il int
		fmt.Sscanf(x.Name, "blk.%d.", &il)
		switch {
		case x.Type == gguf.F32, strings.HasSuffix(x.Name, "odd"):
			want = x.Type
		case x.Name == "token_embd.weight":
			want = gguf.Q6_K
		case more[il] && (strings.HasSuffix(x.Name, "attn_v.weight") || strings.HasSuffix(x.Name, "ffn_down.weight")):
			want = gguf.Q6_K
		}
		require.Equal(t, want, types[i], x.Name)
	}
}

func TestParseMix(t *testing.T) {
	for _, name := range quant.MixNames() {
		for _, spelling := range []string{name, strings.ToUpper(name), strings.ToLower(name)} {
			m, err := quant.ParseMix(spelling)
			require.NoError(t, err)
			require.Equal(t, name, m.Name)
		}
	}
	m, err := quant.ParseMix("q4_k")
	require.NoError(t, err)
	require.True(t, m.Pure)
	_, err = quant.ParseMix("q3_K")
	require.EqualError(t, err, `unknown quantisation "q3_K": want one of f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_K_S, q4_K_M, q5_K_S, q5_K_M, q6_K, q4_K, q5_K`)
}

func TestOrder(t *testing.T) {
	var ts []gguf.Tensor
	for _, n := range []string{"blk.10.a", "blk.2.b", "output.weight", "blk.2.a", "blk.x.a", "blk.3", "a"} {
		ts = append(ts, gguf.Tensor{Name: n})
	}
	require.Equal(t, []int{6, 5, 4, 2, 3, 1, 0}, quant.Order(ts))
}

// TestLayerOfExperts: with experts the layer is read from the name, and a name
// without one can't be placed.
func TestLayerOfExperts(t *testing.T) {
	m, err := quant.ParseMix("q4_K_M")
	require.NoError(t, err)
	_, err = m.Types(quant.Shape{Arch: "llama", Layers: 4, Experts: 2}, []gguf.Tensor{{Name: "blk.4.ffn_down.weight", Type: gguf.F16, Dims: []int{256, 2}}})
	require.EqualError(t, err, "tensor blk.4.ffn_down.weight: layer 4: want one of 0 to 3")
}
