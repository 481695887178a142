package model

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// The names of a graph's inputs: I32, one value for each token.
const (
	InputTokens    = "inp_tokens"
	InputPositions = "inp_pos"
)

// Build emits the graph of one forward pass of p.NTokens tokens over a cache
// window of p.NKV cells, in the order of section 12 of docs/numerics.md. The
// inputs are InputTokens and InputPositions; the output holds the logits of the
// last p.NOut tokens, [n_vocab, p.NOut]. The last layer runs on those tokens
// alone from the attention's output matrix on.
//
// The decode fusions that p may ask for are Fuse's business: the graph is the
// same without.
func (m *Model) Build(p graph.Params) (*graph.Graph, error) {
	switch {
	case p.NTokens < 1:
		return nil, fmt.Errorf("model: a graph of %d tokens, want at least 1", p.NTokens)
	case p.NOut < 1 || p.NOut > p.NTokens:
		return nil, fmt.Errorf("model: logits of %d tokens, want 1 to %d", p.NOut, p.NTokens)
	case p.NKV < p.NTokens:
		return nil, fmt.Errorf("model: a cache window of %d cells for %d tokens, want at least as many", p.NKV, p.NTokens)
	case p.KVType != gguf.F32 && p.KVType != gguf.F16 && p.KVType != gguf.Q8_0:
		return nil, fmt.Errorf("model: cache type %v, want f32, f16 or q8_0", p.KVType)
	}
	b := &builder{m: m, p: p, g: &graph.Graph{Params: p}}
	b.build()
	return b.g, nil
}

// builder appends nodes to one graph.
type builder struct {
	m   *Model
	p   graph.Params
	g   *graph.Graph
	pos *graph.Node
	il  int // layer of the nodes being added, -1 outside
}

func (b *builder) build() {
	m, p := b.m, b.p
	b.il = -1
	tokens := b.add(graph.Node{Op: graph.Input, Name: InputTokens, Type: gguf.I32, Shape: graph.Vec(p.NTokens)})
	b.pos = b.add(graph.Node{Op: graph.Input, Name: InputPositions, Type: gguf.I32, Shape: graph.Vec(p.NTokens)})
	x := b.add(graph.Node{Op: graph.GetRows, Name: "embd", Shape: graph.Mat(m.NEmbd, p.NTokens), In: []*graph.Node{tokens}, Weight: m.embd})
	for il := range m.layers {
		b.il = il
		x = b.layer(&m.layers[il], x, il == len(m.layers)-1)
	}
	b.il = -1
	x = b.norm("result_norm", x, m.norm)
	b.g.Output = b.matMul("result_output", x, m.output, m.outputBias)
}

// layer is one transformer block: x is the residual stream.
func (b *builder) layer(l *layer, x *graph.Node, last bool) *graph.Node {
	m := b.m
	h := b.norm("attn_norm", x, l.attnNorm)
	q := b.matMul("Qcur", h, l.q, l.qBias)
	q = b.rotate("Qcur", q, l.qNorm, m.NHead)
	v := b.matMul("Vcur", h, l.v, l.vBias)
	k := b.matMul("Kcur", h, l.k, l.kBias)
	k = b.rotate("Kcur", k, l.kNorm, m.NHeadKV)
	a := b.attention(q, k, v)
	a = b.matMul("attn_out", a, l.o, l.oBias)
	if n := b.p.NTokens - b.p.NOut; last && n > 0 {
		a, x = b.tail(a, n), b.tail(x, n)
	}
	x = b.binary(graph.Add, "ffn_inp", a, x)
	h = b.norm("ffn_norm", x, l.ffnNorm)
	gate := b.matMul("ffn_gate", h, l.gate, l.gateBias)
	up := b.matMul("ffn_up", h, l.up, l.upBias)
	act := b.add(graph.Node{Op: graph.Silu, Name: b.name("ffn_silu"), Shape: gate.Shape, In: []*graph.Node{gate}})
	act = b.binary(graph.Mul, "ffn_swiglu", act, up)
	out := b.matMul("ffn_out", act, l.down, l.downBias)
	return b.binary(graph.Add, "l_out", out, x)
}

// rotate normalises the heads where the architecture does, and applies RoPE.
func (b *builder) rotate(name string, x *graph.Node, norm *graph.Weight, heads int) *graph.Node {
	hd := b.m.HeadDimK
	if norm != nil {
		x = b.add(graph.Node{Op: graph.QkNorm, Name: b.name(name + "_normed"), Shape: x.Shape, In: []*graph.Node{x}, Weight: norm,
			Attr: graph.Attr{Eps: b.m.RMSEps, HeadDim: hd}})
	}
	return b.add(graph.Node{Op: graph.RoPE, Name: b.name(name), Shape: x.Shape, In: []*graph.Node{x, b.pos}, Weight: b.m.ropeFactors,
		Attr: graph.Attr{HeadDim: hd, NHead: heads, Rope: b.m.Rope}})
}

// attention stores k and v in the cache and attends over its window.
func (b *builder) attention(q, k, v *graph.Node) *graph.Node {
	m, p := b.m, b.p
	store := func(name string, side graph.KVSide, x *graph.Node) *graph.Node {
		return b.add(graph.Node{Op: graph.KvcacheStore, Name: name, Type: p.KVType, Shape: x.Shape, In: []*graph.Node{x, b.pos},
			Attr: graph.Attr{KV: side}})
	}
	fetch := func(s *graph.Node) *graph.Node {
		return b.add(graph.Node{Op: graph.KvcacheLoad, Name: s.Name, Type: p.KVType, Shape: graph.Mat(s.Shape[0], p.NKV), In: []*graph.Node{s},
			Attr: graph.Attr{KV: s.Attr.KV, NKV: p.NKV}})
	}
	ks := store(fmt.Sprintf("cache_k_l%d", b.il), graph.KVKey, k)
	vs := store(fmt.Sprintf("cache_v_l%d", b.il), graph.KVValue, v)
	kw, vw := fetch(ks), fetch(vs)
	return b.add(graph.Node{Op: graph.Attn, Name: b.name("kqv_out"), Shape: graph.Mat(m.NHead*m.HeadDimV, p.NTokens),
		In: []*graph.Node{q, kw, vw, b.pos},
		Attr: graph.Attr{
			// 1.0f/sqrtf(head_dim) in float32, as docs/numerics.md section 8 has it.
			Scale:   1 / float32(math.Sqrt(float64(m.HeadDimK))),
			HeadDim: m.HeadDimK, NHead: m.NHead, NHeadKV: m.NHeadKV, NKV: p.NKV,
		}})
}

// tail is the rows of x from the given one on.
func (b *builder) tail(x *graph.Node, from int) *graph.Node {
	return b.add(graph.Node{Op: graph.View, Name: x.Name + " (view)", Shape: graph.Mat(x.Shape[0], b.p.NOut), In: []*graph.Node{x},
		Attr: graph.Attr{Offset: from}})
}

func (b *builder) norm(name string, x *graph.Node, w *graph.Weight) *graph.Node {
	return b.add(graph.Node{Op: graph.RmsNorm, Name: b.name(name), Shape: x.Shape, In: []*graph.Node{x}, Weight: w,
		Attr: graph.Attr{Eps: b.m.RMSEps}})
}

func (b *builder) matMul(name string, x *graph.Node, w, bias *graph.Weight) *graph.Node {
	return b.add(graph.Node{Op: graph.MatMul, Name: b.name(name), Shape: graph.Mat(w.Shape[1], x.Shape[1]), In: []*graph.Node{x}, Weight: w, Bias: bias})
}

func (b *builder) binary(op graph.Op, name string, x, y *graph.Node) *graph.Node {
	return b.add(graph.Node{Op: op, Name: b.name(name), Shape: x.Shape, In: []*graph.Node{x, y}})
}

// name is llama.cpp's: the layer follows after a dash, inside the layers.
func (b *builder) name(s string) string {
	if b.il < 0 {
		return s
	}
	return fmt.Sprintf("%s-%d", s, b.il)
}

// add appends a node. Its type is F32 unless given; I32 inputs and cache nodes
// give theirs. (F32 is the zero DType.)
func (b *builder) add(n graph.Node) *graph.Node {
	n.ID, n.Layer = len(b.g.Nodes), b.il
	b.g.Nodes = append(b.g.Nodes, &n)
	return &n
}
