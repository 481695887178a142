package model_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// list prints a graph, one node a line.
func list(g *graph.Graph) string {
	var b strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "%2d %-9s %-18q %v%v", n.ID, n.Op, n.Name, n.Type, n.Shape)
		if n.Layer >= 0 {
			fmt.Fprintf(&b, " layer %d", n.Layer)
		}
		for i, x := range n.In {
			if i == 0 {
				b.WriteString(" in")
			}
			fmt.Fprintf(&b, " %d", x.ID)
		}
		for _, w := range []*graph.Weight{n.Weight, n.Bias} {
			if w != nil {
				fmt.Fprintf(&b, " %s", w.Name)
			}
		}
		if n.Attr != (graph.Attr{}) || n.Op == graph.KvcacheStore {
			fmt.Fprintf(&b, " %s", attr(n))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "output %d\n", g.Output.ID)
	return b.String()
}

func attr(n *graph.Node) string {
	a := n.Attr
	switch n.Op {
	case graph.RmsNorm:
		return fmt.Sprintf("eps=%v", a.Eps)
	case graph.QkNorm:
		return fmt.Sprintf("eps=%v hd=%d", a.Eps, a.HeadDim)
	case graph.RoPE:
		r := a.Rope
		return fmt.Sprintf("hd=%d heads=%d mode=%d dims=%d base=%v scale=%v", a.HeadDim, a.NHead, r.Mode, r.NDims, r.FreqBase, r.FreqScale)
	case graph.KvcacheStore:
		return fmt.Sprintf("side=%d", a.KV)
	case graph.KvcacheLoad:
		return fmt.Sprintf("side=%d n_kv=%d", a.KV, a.NKV)
	case graph.Attn:
		return fmt.Sprintf("scale=%v hd=%d heads=%d/%d n_kv=%d", a.Scale, a.HeadDim, a.NHead, a.NHeadKV, a.NKV)
	case graph.View:
		return fmt.Sprintf("from=%d", a.Offset)
	}
	return fmt.Sprintf("%+v", a)
}

// The graphs as text, for 3 tokens of which 1 wants logits, F16 cache.
func TestBuildGolden(t *testing.T) {
	for _, arch := range model.Archs() {
		t.Run(arch, func(t *testing.T) {
			f := base(arch)
			if arch == "llama" { // with everything optional
				f.add("rope_freqs.weight", 2)
				for _, b := range []string{"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
					n := 8
					if b == "ffn_gate" || b == "ffn_up" {
						n = 12
					}
					f.add("blk.1."+b+".bias", n)
				}
			}
			if arch == "qwen2" {
				f.add("output.bias", 5)
			}
			g, err := must(t, f).Build(graph.Params{NTokens: 3, NOut: 1, NKV: 32, KVType: gguf.F16})
			require.NoError(t, err)
			require.NoError(t, graph.Validate(g))
			path := filepath.Join("testdata", "graph-"+arch+".txt")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(path, []byte(list(g)), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), list(g))
		})
	}
}

// The names of docs/numerics.md section 12 in their order, written out here and
// not by the builder; nodes that merge two of llama.cpp's appear once.
func TestBuildOrder(t *testing.T) {
	layer := map[string]string{
		"qwen2": "attn_norm-%d Qcur-%d Qcur-%d Vcur-%d Kcur-%d Kcur-%d",
		"qwen3": "attn_norm-%d Qcur-%d Qcur_normed-%d Qcur-%d Vcur-%d Kcur-%d Kcur_normed-%d Kcur-%d",
		"llama": "attn_norm-%d Qcur-%d Qcur-%d Vcur-%d Kcur-%d Kcur-%d",
	}
	const rest = " cache_k_l%d cache_v_l%d cache_k_l%d cache_v_l%d kqv_out-%d attn_out-%d ffn_inp-%d ffn_norm-%d" +
		" ffn_gate-%d ffn_up-%d ffn_silu-%d ffn_swiglu-%d ffn_out-%d l_out-%d "
	for arch, first := range layer {
		want := "inp_tokens inp_pos embd "
		for _, il := range []string{"0", "1"} {
			want += strings.ReplaceAll(first+rest, "%d", il)
		}
		want += "result_norm result_output"
		g, err := must(t, base(arch)).Build(graph.Params{NTokens: 2, NOut: 2, NKV: 2})
		require.NoError(t, err)
		var names []string
		for _, n := range g.Nodes {
			names = append(names, n.Name)
		}
		require.Equal(t, want, strings.Join(names, " "), arch)
	}
}

// The last layer works on the tail alone, and no other does.
func TestBuildTail(t *testing.T) {
	m := must(t, base("qwen2"))
	for _, c := range []struct{ tokens, out int }{{1, 1}, {7, 7}, {7, 1}, {7, 3}} {
		g, err := m.Build(graph.Params{NTokens: c.tokens, NOut: c.out, NKV: 16, KVType: gguf.F32})
		require.NoError(t, err)
		require.NoError(t, graph.Validate(g))
		require.Equal(t, graph.Mat(5, c.out), g.Output.Shape)
		views := 0
		for _, n := range g.Nodes {
			switch {
			case n.Op == graph.View:
				views++
				require.Equal(t, c.tokens-c.out, n.Attr.Offset)
				require.Equal(t, graph.Mat(8, c.out), n.Shape)
			case strings.HasSuffix(n.Name, "_out-0"), strings.HasPrefix(n.Name, "ffn_"): // all rows in layer 0
				rows := c.tokens
				if n.Layer == 1 {
					rows = c.out
				}
				require.Equal(t, rows, n.Shape[1], n.Name)
			}
		}
		if c.tokens == c.out {
			require.Zero(t, views)
		} else {
			require.Equal(t, 2, views)
		}
	}
}

func TestBuildErrors(t *testing.T) {
	m := must(t, base("qwen2"))
	for _, c := range []struct {
		p    graph.Params
		want string
	}{
		{graph.Params{NTokens: 0, NOut: 0, NKV: 4}, "model: a graph of 0 tokens, want at least 1"},
		{graph.Params{NTokens: 2, NOut: 0, NKV: 4}, "model: logits of 0 tokens, want 1 to 2"},
		{graph.Params{NTokens: 2, NOut: 3, NKV: 4}, "model: logits of 3 tokens, want 1 to 2"},
		{graph.Params{NTokens: 5, NOut: 1, NKV: 4}, "model: a cache window of 4 cells for 5 tokens, want at least as many"},
		{graph.Params{NTokens: 1, NOut: 1, NKV: 4, KVType: gguf.BF16}, "model: cache type bf16, want f32, f16 or q8_0"},
	} {
		_, err := m.Build(c.p)
		require.EqualError(t, err, c.want)
	}
}
