package graph_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/graph/graphtest"
)

// Each fault is planted alone in the small model's graph, at a node found by
// name and op.
func TestValidateNamesTheFault(t *testing.T) {
	p := params(3, 1)
	m := graphtest.NewModel(graphtest.Small)
	build := func() *graph.Graph {
		g, err := m.Build(p)
		require.NoError(t, err)
		return g
	}
	require.NoError(t, graph.Validate(build()))
	nan := float32(math.NaN())
	for _, c := range []struct {
		node string
		op   graph.Op
		f    func(*graph.Graph, *graph.Node)
		want string
	}{
		{"embd", graph.GetRows, func(g *graph.Graph, n *graph.Node) { n.Weight = nil }, `node 2 "embd" (get_rows): no table`},
		{"embd", graph.GetRows, func(g *graph.Graph, n *graph.Node) { n.Shape[1] = 2 }, `input 0 is node 0 "inp_tokens" (input) [3] i32, want an input node of [2] i32`},
		{"embd", graph.GetRows, func(g *graph.Graph, n *graph.Node) { n.Type = gguf.F16 }, `output is [24 3] f16, want [24 3] f32`},
		{"embd", graph.GetRows, func(g *graph.Graph, n *graph.Node) { n.Shape[2] = 0 }, `dimension 2 is 0`},
		{"embd", graph.GetRows, func(g *graph.Graph, n *graph.Node) { n.Shape = graph.Shape{1 << 30, 1 << 30, 1 << 30, 1} }, `dimension 1 is 1073741824`},
		{"embd", graph.GetRows, func(g *graph.Graph, n *graph.Node) { n.Type = 99 }, `rows of 24 values of type type(99)`},
		{"inp_pos", graph.Input, func(g *graph.Graph, n *graph.Node) { n.Name = "inp_tokens" }, `node 1 "inp_tokens" (input): a second input of that name`},
		{"inp_pos", graph.Input, func(g *graph.Graph, n *graph.Node) { n.Type = gguf.F16 }, `type f16, want i32`},
		{"inp_pos", graph.Input, func(g *graph.Graph, n *graph.Node) { n.ID = 7 }, `ID is not its index 1`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { n.In[0] = g.Nodes[n.ID+1] }, `"attn_norm-1" (rms_norm): input 0 is node 26 (Qcur-1), want an earlier node`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { x := *n.In[0]; n.In[0] = &x }, `input 0 (l_out-0) is not a node of this graph`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { n.In[0] = nil }, `input 0 is nil`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { n.In = nil }, `0 inputs, want 1`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { n.Attr.Eps = nan }, `eps is NaN`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) {
			w := *n.Weight
			w.Shape[0] = 23
			w.Data = w.Data[:92]
			n.Weight = &w
		}, `weight "blk.1.attn_norm.weight" is [23] f32, want [24] f32`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { w := *n.Weight; w.Data = w.Data[:92]; n.Weight = &w }, `weight "blk.1.attn_norm.weight" [24] f32: 92 bytes of data, want 96`},
		{"attn_norm-1", graph.RmsNorm, func(g *graph.Graph, n *graph.Node) { n.Bias = n.Weight }, `bias "blk.1.attn_norm.weight" on an op that takes none`},
		{"ffn_inp-1", graph.Add, func(g *graph.Graph, n *graph.Node) { n.Weight = g.Nodes[2].Weight }, `weight "token_embd.weight" on an op that takes none`},
		{"Qcur-1", graph.MatMul, func(g *graph.Graph, n *graph.Node) { w := *n.Weight; w.Type = gguf.Q4_0; n.Weight = &w }, `weight "blk.1.attn_q.weight": rows of 24, want a multiple of 32 for q4_0`},
		{"Qcur-1", graph.MatMul, func(g *graph.Graph, n *graph.Node) { w := *n.Weight; w.Type = 77; n.Weight = &w }, `has unknown type type(77)`},
		{"Qcur-1", graph.MatMul, func(g *graph.Graph, n *graph.Node) { n.Weight = g.Nodes[find(t, g, "ffn_out-0")].Weight }, `input "attn_norm-1" is [24 3] f32, want rows of in_dim = 52 f32 for weight "blk.0.ffn_down.weight" [52 24]`},
		{"Qcur-1", graph.MatMul, func(g *graph.Graph, n *graph.Node) { n.Shape[0] = 31 }, `output is [31 3] f32, want [32 3] f32`},
		{"Qcur-1", graph.MatMul, func(g *graph.Graph, n *graph.Node) { n.Bias = g.Nodes[find(t, g, "Vcur-1")].Bias }, `bias "blk.1.attn_v.weight.bias" is [16] f32, want [32] f32`},
		{"Qcur_normed-1", graph.QkNorm, func(g *graph.Graph, n *graph.Node) { n.Attr.HeadDim = 5 }, `rows of 32, want a multiple of head_dim = 5`},
		{"Qcur_normed-1", graph.QkNorm, func(g *graph.Graph, n *graph.Node) { n.Weight = nil }, `(qk_norm): no weight`},
		{"Qcur-1", graph.RoPE, func(g *graph.Graph, n *graph.Node) { n.Attr.NHead = 3 }, `input "Qcur_normed-1" has rows of 32, want head_dim 8 * n_head 3`},
		{"Qcur-1", graph.RoPE, func(g *graph.Graph, n *graph.Node) { n.Attr.Rope.NDims = 7 }, `n_dims is 7, want an even number up to head_dim = 8`},
		{"Qcur-1", graph.RoPE, func(g *graph.Graph, n *graph.Node) { n.Attr.Rope.FreqBase = 0 }, `freq_base 0 and freq_scale 1, want finite numbers above 0`},
		{"Qcur-1", graph.RoPE, func(g *graph.Graph, n *graph.Node) { n.Attr.Rope.ExtFactor = nan }, `ext_factor NaN`},
		{"Qcur-1", graph.RoPE, func(g *graph.Graph, n *graph.Node) { n.In[1] = g.Nodes[2] }, `input 1 is node 2 "embd" (get_rows) [24 3] f32, want an input node of [3] i32`},
		{"Qcur-1", graph.RoPE, func(g *graph.Graph, n *graph.Node) { n.Weight = g.Nodes[find(t, g, "attn_norm-1")].Weight }, `factors "blk.1.attn_norm.weight" are [24] f32, want [4] f32`},
		{"cache_k_l1", graph.KvcacheStore, func(g *graph.Graph, n *graph.Node) { n.Layer = -1 }, `layer is -1, want the layer of its cache`},
		{"cache_k_l1", graph.KvcacheStore, func(g *graph.Graph, n *graph.Node) { n.Type = gguf.BF16 }, `cache type bf16, want f32, f16 or q8_0`},
		{"cache_v_l1", graph.KvcacheStore, func(g *graph.Graph, n *graph.Node) { n.Attr.KV = graph.KVKey }, `(kv_store): a second store of side 0 of layer 1`},
		{"cache_k_l1", graph.KvcacheLoad, func(g *graph.Graph, n *graph.Node) { n.Attr.KV = graph.KVValue }, `want the store of this side of layer 1`},
		{"cache_k_l1", graph.KvcacheLoad, func(g *graph.Graph, n *graph.Node) { n.Shape[1] = 15 }, `is [16 15] f32, want [16 16] f32`},
		{"kqv_out-1", graph.Attn, func(g *graph.Graph, n *graph.Node) { n.Attr.NHeadKV = 3 }, `n_head 4, n_head_kv 3, want positive numbers and n_head a multiple`},
		{"kqv_out-1", graph.Attn, func(g *graph.Graph, n *graph.Node) { n.In[1], n.In[2] = n.In[2], n.In[1] }, `input 1 is node 36 "cache_v_l1" (kv_load) of layer 1, want the load of side 0 of layer 1`},
		{"kqv_out-1", graph.Attn, func(g *graph.Graph, n *graph.Node) { n.Attr.NKV = 8 }, `input 1 "cache_k_l1" has 16 cells, want n_kv = 8`},
		{"kqv_out-1", graph.Attn, func(g *graph.Graph, n *graph.Node) { n.Attr.HeadDim = 4 }, `q "Qcur-1" is [32 3] f32, want rows of head_dim 4 * n_head 4 f32`},
		{"kqv_out-1", graph.Attn, func(g *graph.Graph, n *graph.Node) { n.Attr.NHeadKV = 1 }, `k "cache_k_l1" has rows of 16, want head_dim 8 * n_head_kv 1`},
		{"kqv_out-1", graph.Attn, func(g *graph.Graph, n *graph.Node) { n.Attr.Scale = nan }, `scale is NaN`},
		{"node", graph.View, func(g *graph.Graph, n *graph.Node) { n.Attr.Offset = 3 }, `rows 3 to 4 of "attn_out-2", which has 3`},
		{"node", graph.View, func(g *graph.Graph, n *graph.Node) { n.Attr.Offset = -1 }, `rows -1 to 0`},
		{"node", graph.View, func(g *graph.Graph, n *graph.Node) { n.Shape[0] = 23 }, `is [23] f32, want rows of "attn_out-2": [24 3] f32`},
		{"ffn_inp-1", graph.Add, func(g *graph.Graph, n *graph.Node) { n.In[1] = g.Nodes[find(t, g, "Qcur-1")] }, `input "Qcur-1" is [32 3], want [24 3] as "attn_out-1"`},
		{"ffn_inp-1", graph.Add, func(g *graph.Graph, n *graph.Node) { n.In[1] = g.Nodes[0] }, `input "inp_tokens" is of type i32, want f32`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { g.Output = nil }, `graph: no output node`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { x := *n; g.Output = &x }, `is not a node of this graph`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { g.Output = g.Nodes[0] }, `the output node 0 "inp_tokens" (input) is of type i32`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { g.Params.NOut = 2 }, `has 1 rows, want n_out = 2`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { g.Params.NOut = 4 }, `n_out is 4, want 1 to n_tokens = 3`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { g.Nodes[5] = nil }, `node 5 is nil`},
		{"result_output", graph.MatMul, func(g *graph.Graph, n *graph.Node) { g.Nodes = nil }, `graph: no nodes`},
	} {
		g := build()
		var n *graph.Node
		for _, x := range g.Nodes {
			if x.Name == c.node && x.Op == c.op {
				n = x
				break
			}
		}
		require.NotNil(t, n, c.node)
		c.f(g, n)
		err := graph.Validate(g)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
		_, err = graph.NewExecutor([]graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{}).Prepare(g)
		require.Error(t, err)
	}
	require.Error(t, graph.Validate(nil))
}

// The ops that no model's graph has.
func TestValidateOtherOps(t *testing.T) {
	one := func(f func(b graphtest.Builder, x *graph.Node) *graph.Node) error {
		b := graphtest.Builder{G: &graph.Graph{}}
		x := b.F32(graph.Input, "x", -1, graph.Mat(4, 6))
		b.G.Output = f(b, x)
		return graph.Validate(b.G)
	}
	perm := func(shape graph.Shape, p ...int) error {
		return one(func(b graphtest.Builder, x *graph.Node) *graph.Node {
			n := b.F32(graph.Permute, "p", -1, shape, x)
			n.Attr.Perm = [4]int(p)
			return n
		})
	}
	require.NoError(t, perm(graph.Mat(6, 4), 1, 0, 2, 3))
	require.NoError(t, perm(graph.Shape{1, 6, 4, 1}, 2, 1, 0, 3), "dimension i goes to perm[i]")
	require.ErrorContains(t, perm(graph.Mat(4, 6), 1, 0, 2, 3), "output is [4 6] f32, want [6 4] f32")
	require.ErrorContains(t, perm(graph.Mat(6, 4), 1, 1, 2, 3), "perm [1 1 2 3] is not a permutation")
	require.ErrorContains(t, perm(graph.Mat(6, 4), 1, 0, 2, 4), "is not a permutation")
	require.ErrorContains(t, one(func(b graphtest.Builder, x *graph.Node) *graph.Node {
		return b.F32(graph.BatchMatMul, "m", -1, graph.Mat(6, 5), x, x)
	}), "output is [6 5] f32, want [6 6] f32")
	require.ErrorContains(t, one(func(b graphtest.Builder, x *graph.Node) *graph.Node {
		return b.F32(graph.Reshape, "r", -1, graph.Mat(5, 5), x)
	}), `is [5 5] f32, want as many values as "x": [4 6] f32`)
	for _, op := range []graph.Op{graph.Scale, graph.Softmax} {
		require.ErrorContains(t, one(func(b graphtest.Builder, x *graph.Node) *graph.Node {
			n := b.F32(op, "s", -1, x.Shape, x)
			n.Attr.Scale = float32(math.Inf(1))
			return n
		}), "scale is +Inf")
	}
	// A word without a backend.
	b := graphtest.Builder{G: &graph.Graph{}}
	x := b.F32(graph.Input, "x", -1, graph.Mat(4, 6))
	b.G.Output = b.F32(graph.QkvBiasRopeStore, "f", -1, x.Shape, x)
	_, err := graph.NewExecutor([]graph.Backend{graphtest.NewRef("Ref")}, graph.ExecOptions{}).Prepare(b.G)
	require.EqualError(t, err, `assign: node 1 "f" (qkv_bias_rope_store): no backend of Ref supports qkv_bias_rope_store on f32`)
}

func TestOpNames(t *testing.T) {
	seen := map[string]bool{}
	for op := graph.Input; op <= graph.QkvBiasRopeStore; op++ {
		got, err := graph.ParseOp(op.String())
		require.NoError(t, err)
		require.Equal(t, op, got)
		require.False(t, seen[op.GoName()])
		seen[op.GoName()] = true
	}
	require.Equal(t, "rms_norm", graph.RmsNorm.String())
	require.Equal(t, "kv_store", graph.KvcacheStore.String())
	_, err := graph.ParseOp("rmsnorm")
	require.EqualError(t, err, `unknown op "rmsnorm"`)
	require.Equal(t, "op(200)", graph.Op(200).String())
}
