package graphtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"minfer/engine/gguf"
	"minfer/engine/graph"
)

// Config is the shape of a test model.
type Config struct {
	NVocab, NEmbd, NLayer, NHead, NHeadKV, HeadDim, NFF int
	Bias, QkNorm                                        bool // as Qwen2 has biases and Qwen3 has norms
	Seed                                                uint64
}

// Small is a model with odd widths, grouped heads, biases and norms: every op
// that an engine's graph has.
var Small = Config{NVocab: 37, NEmbd: 24, NLayer: 3, NHead: 4, NHeadKV: 2, HeadDim: 8, NFF: 52, Bias: true, QkNorm: true, Seed: 1}

// Model is a transformer of random F32 weights. Its Build follows the order and
// the names that engine/model gives its nodes.
type Model struct {
	Config
	rng     *rand.Rand
	weights map[string]*graph.Weight
}

// NewModel makes a model; the same Config gives the same weights.
func NewModel(c Config) *Model {
	return &Model{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 2)), weights: map[string]*graph.Weight{}}
}

// KVCache makes a cache for the model.
func (m *Model) KVCache(capacity int, t graph.DType) (*graph.KVCache, error) {
	w := m.NHeadKV * m.HeadDim
	return graph.NewKVCache(m.NLayer, capacity, w, w, t)
}

// weight makes a weight when first asked for it. Builds ask in one order, so the
// values depend on the seed alone.
func (m *Model) weight(name string, s graph.Shape) *graph.Weight {
	w := m.weights[name]
	if w == nil {
		scale := 1 / math.Sqrt(float64(s[0]))
		if s.Rows() == 1 {
			scale = 0.5
		}
		w = randomWeight(m.rng, name, s, scale)
		m.weights[name] = w
	}
	return w
}

func randomWeight(rng *rand.Rand, name string, s graph.Shape, scale float64) *graph.Weight {
	data := make([]float32, s.Elements())
	for i := range data {
		data[i] = float32(rng.NormFloat64() * scale)
	}
	return &graph.Weight{Name: name, Type: gguf.F32, Shape: s, Data: FloatBytes(data)}
}

// FloatBytes and IntBytes encode values as a graph's inputs and weights hold them.
func FloatBytes(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// IntBytes: see FloatBytes.
func IntBytes(x ...int) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
	}
	return b
}

// Inputs are the values of a run over the tokens, at positions from pos on.
func Inputs(tokens []int, pos int) map[string][]byte {
	at := make([]int, len(tokens))
	for i := range at {
		at[i] = pos + i
	}
	return map[string][]byte{"inp_tokens": IntBytes(tokens...), "inp_pos": IntBytes(at...)}
}

// Builder adds nodes to a graph in order.
type Builder struct{ G *graph.Graph }

// Add appends a node and gives it its ID.
func (b Builder) Add(n graph.Node) *graph.Node {
	n.ID = len(b.G.Nodes)
	b.G.Nodes = append(b.G.Nodes, &n)
	return &n
}

// F32 appends a node of an f32 value.
func (b Builder) F32(op graph.Op, name string, layer int, s graph.Shape, in ...*graph.Node) *graph.Node {
	return b.Add(graph.Node{Op: op, Name: name, Layer: layer, Type: gguf.F32, Shape: s, In: in})
}

// Input appends an I32 input of n values.
func (b Builder) Input(name string, n int) *graph.Node {
	return b.Add(graph.Node{Op: graph.Input, Name: name, Layer: -1, Type: gguf.I32, Shape: graph.Vec(n)})
}

// Build emits the graph of one forward pass.
func (m *Model) Build(p graph.Params) (*graph.Graph, error) {
	if p.NTokens < 1 || p.NOut < 1 || p.NOut > p.NTokens || p.NKV < 1 {
		return nil, fmt.Errorf("graphtest: parameters %+v", p)
	}
	b := Builder{&graph.Graph{Params: p}}
	tokens, pos := b.Input("inp_tokens", p.NTokens), b.Input("inp_pos", p.NTokens)
	table := m.weight("token_embd.weight", graph.Mat(m.NEmbd, m.NVocab))
	x := b.F32(graph.GetRows, "embd", -1, graph.Mat(m.NEmbd, p.NTokens), tokens)
	x.Weight = table
	for il := range m.NLayer {
		x = m.layer(b, il, x, pos)
	}
	x = m.norm(b, "result_norm", "output_norm.weight", -1, x)
	x = m.matMul(b, "result_output", "token_embd.weight", -1, m.NVocab, false, x)
	b.G.Output = x
	return b.G, nil
}

func (m *Model) norm(b Builder, name, weight string, il int, x *graph.Node) *graph.Node {
	y := b.F32(graph.RmsNorm, name, il, x.Shape, x)
	y.Weight, y.Attr.Eps = m.weight(weight, graph.Vec(m.NEmbd)), 1e-6
	return y
}

func (m *Model) matMul(b Builder, name, weight string, il, out int, bias bool, x *graph.Node) *graph.Node {
	y := b.F32(graph.MatMul, name, il, graph.Mat(out, x.Shape[1]), x)
	y.Weight = m.weight(weight, graph.Mat(x.Shape[0], out))
	if bias {
		y.Bias = m.weight(weight+".bias", graph.Vec(out))
	}
	return y
}

// project is one of q and k up to its rotation.
func (m *Model) project(b Builder, name, weight string, il, heads int, x, pos *graph.Node) *graph.Node {
	y := m.matMul(b, name, weight, il, heads*m.HeadDim, m.Bias, x)
	if m.QkNorm {
		y = b.F32(graph.QkNorm, name[:4]+"_normed"+name[4:], il, y.Shape, y)
		y.Weight = m.weight(weight+".norm", graph.Vec(m.HeadDim))
		y.Attr.HeadDim, y.Attr.Eps = m.HeadDim, 1e-6
	}
	y = b.F32(graph.RoPE, name, il, y.Shape, y, pos)
	y.Attr.HeadDim, y.Attr.NHead = m.HeadDim, heads
	y.Attr.Rope = graph.Rope{Mode: graph.RopeNeox, NDims: m.HeadDim, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	return y
}

func (m *Model) layer(b Builder, il int, x, pos *graph.Node) *graph.Node {
	p := b.G.Params
	name := func(s string) string { return fmt.Sprintf("%s-%d", s, il) }
	wn := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", il, s) }
	kvWidth := m.NHeadKV * m.HeadDim

	h := m.norm(b, name("attn_norm"), wn("attn_norm"), il, x)
	q := m.project(b, name("Qcur"), wn("attn_q"), il, m.NHead, h, pos)
	v := m.matMul(b, name("Vcur"), wn("attn_v"), il, kvWidth, m.Bias, h)
	k := m.project(b, name("Kcur"), wn("attn_k"), il, m.NHeadKV, h, pos)

	var loads [2]*graph.Node
	for side, src := range []*graph.Node{k, v} {
		n := fmt.Sprintf("cache_%c_l%d", "kv"[side], il)
		attr := graph.Attr{KV: graph.KVSide(side)}
		s := b.Add(graph.Node{Op: graph.KvcacheStore, Name: n, Layer: il, Type: p.KVType, Shape: src.Shape, In: []*graph.Node{src, pos}, Attr: attr})
		attr.NKV = p.NKV
		loads[side] = b.Add(graph.Node{Op: graph.KvcacheLoad, Name: n, Layer: il, Type: p.KVType, Shape: graph.Mat(kvWidth, p.NKV), In: []*graph.Node{s}, Attr: attr})
	}
	a := b.F32(graph.Attn, name("kqv_out"), il, q.Shape, q, loads[0], loads[1], pos)
	a.Attr = graph.Attr{HeadDim: m.HeadDim, NHead: m.NHead, NHeadKV: m.NHeadKV, NKV: p.NKV, Scale: float32(1 / math.Sqrt(float64(m.HeadDim)))}
	o := m.matMul(b, name("attn_out"), wn("attn_output"), il, m.NEmbd, false, a)
	if il == m.NLayer-1 && p.NOut < p.NTokens {
		tail := func(n *graph.Node) *graph.Node {
			t := b.F32(graph.View, "node", il, graph.Mat(m.NEmbd, p.NOut), n)
			t.Attr.Offset = p.NTokens - p.NOut
			return t
		}
		o, x = tail(o), tail(x)
	}
	in := b.F32(graph.Add, name("ffn_inp"), il, o.Shape, o, x)
	h = m.norm(b, name("ffn_norm"), wn("ffn_norm"), il, in)
	gate := m.matMul(b, name("ffn_gate"), wn("ffn_gate"), il, m.NFF, false, h)
	up := m.matMul(b, name("ffn_up"), wn("ffn_up"), il, m.NFF, false, h)
	s := b.F32(graph.Silu, name("ffn_silu"), il, gate.Shape, gate)
	g := b.F32(graph.Mul, name("ffn_swiglu"), il, gate.Shape, s, up)
	out := m.matMul(b, name("ffn_out"), wn("ffn_down"), il, m.NEmbd, false, g)
	return b.F32(graph.Add, name("l_out"), il, out.Shape, out, in)
}
