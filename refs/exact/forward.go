package exact

import (
	"fmt"

	"minfer/engine/gguf"
	"minfer/refs/internal/hparams"
)

// Options of a [Forward].
type Options struct {
	Level Level
	KV    gguf.Type // of the cache: F32 (the zero value) or F16
	// Tap, if set, is shown every computed value in the order of
	// docs/numerics.md section 12, all tokens at once.
	Tap func(Node)
}

// A Node is one intermediate value of a forward pass.
type Node struct {
	Name  string // as llama.cpp's callback names it: "Qcur-0", "l_out-3"
	Op    string // ggml's operation in this project's spelling: mul_mat, add, rms_norm, mul, rope, ...
	Width int    // values of one token
	Data  []float32
}

// Forward evaluates the tokens from an empty cache at positions 0, 1, ... and
// returns a row of logits for each, with the bits of llama.cpp fed one token at a
// time under the settings of docs/numerics.md. The architectures are qwen2,
// qwen3 and llama.
func Forward(f *gguf.File, tokens []int32, o Options) ([][]float32, error) {
	h, err := hparams.Read(f)
	if err != nil {
		return nil, fmt.Errorf("exact forward of %s: %w", f.Path, err)
	}
	if len(tokens) == 0 {
		return nil, nil
	}
	run := &forward{file: f, h: h, o: o, pos: make([]int32, len(tokens))}
	for i := range tokens {
		run.pos[i] = int32(i)
	}
	logits := run.all(tokens)
	if run.err != nil {
		return nil, fmt.Errorf("exact forward of %s: %w", f.Path, run.err)
	}
	rows := make([][]float32, len(tokens))
	width := len(logits) / len(tokens)
	for r := range rows {
		rows[r] = logits[r*width : (r+1)*width]
	}
	return rows, nil
}

// forward is one run. A failed step sets err and makes the later ones return
// nil, so that the pass reads as the list of operations that it is.
type forward struct {
	file *gguf.File
	h    hparams.Hparams
	o    Options
	pos  []int32
	err  error
}

func (f *forward) all(tokens []int32) []float32 {
	h := f.h
	rope := ropeOf(h.Rope)
	if f.find("rope_freqs.weight") != nil {
		rope.Factors = f.vector("rope_freqs.weight")
	}
	x := f.embed(tokens)
	for il := range h.Layers {
		weight := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
		name := func(part string) string { return fmt.Sprintf("%s-%d", part, il) }

		normed := f.norm(name("norm"), name("attn_norm"), x, 0, weight("attn_norm.weight"))
		q := f.project(name("Qcur"), normed, weight("attn_q"))
		if h.QkNorm {
			q = f.norm(name("norm"), name("Qcur_normed"), q, h.HeadDim, weight("attn_q_norm.weight"))
		}
		q = f.rope(name("Qcur"), q, rope)
		v := f.project(name("Vcur"), normed, weight("attn_v"))
		k := f.project(name("Kcur"), normed, weight("attn_k"))
		if h.QkNorm {
			k = f.norm(name("norm"), name("Kcur_normed"), k, h.HeadDim, weight("attn_k_norm.weight"))
		}
		k = f.rope(name("Kcur"), k, rope)
		attended := f.attention(il, q, k, v)
		attended = f.project(name("attn_out"), attended, weight("attn_output"))

		x = f.add(name("ffn_inp"), attended, x)
		normed = f.norm(name("norm"), name("ffn_norm"), x, 0, weight("ffn_norm.weight"))
		gate := f.project(name("ffn_gate"), normed, weight("ffn_gate"))
		up := f.project(name("ffn_up"), normed, weight("ffn_up"))
		hidden := f.swiglu(name("ffn_swiglu"), gate, up)
		down := f.project(name("ffn_out"), hidden, weight("ffn_down"))
		x = f.add(name("l_out"), down, x)
		if f.err != nil {
			return nil
		}
	}
	x = f.norm("norm", "result_norm", x, 0, "output_norm.weight")
	if f.find("output.weight") != nil {
		return f.project("result_output", x, "output")
	}
	return f.project("result_output", x, "token_embd") // tied
}

// ropeOf translates the file's parameters with llama.cpp's float32 steps. With
// YaRN it computes a magnitude and divides it by what the operator will multiply
// with: 1, or a neighbour of 1.
func ropeOf(r hparams.Rope) Rope {
	p := Rope{
		Neox: r.Neox, NDims: r.NDims, FreqBase: float32(r.FreqBase), FreqScale: 1 / float32(r.Factor),
		ExtFactor: float32(r.ExtFactor), AttnFactor: float32(r.AttnFactor),
		BetaFast: float32(r.BetaFast), BetaSlow: float32(r.BetaSlow), NCtxOrig: r.NCtxOrig,
	}
	if p.ExtFactor != 0 {
		factor := 1 / p.FreqScale
		stretch := float32(0.1*Logf(factor)) + 1
		magnitude := float32(1)
		if factor > 1 {
			magnitude = stretch
		}
		p.AttnFactor = float32(magnitude*(1/stretch)) * p.AttnFactor
	}
	return p
}

func (f *forward) embed(tokens []int32) []float32 {
	t := f.tensor("token_embd.weight", 2)
	if f.err != nil {
		return nil
	}
	x, err := GetRows(t.Type, t.Data, t.Dims[0], tokens)
	return f.done("embd", "get_rows", x, err)
}

// norm is rms_norm and its weight over rows of d values; d 0 means a whole row.
func (f *forward) norm(name, weighted string, x []float32, d int, tensor string) []float32 {
	weight := f.vector(tensor)
	if f.err != nil {
		return nil
	}
	if d == 0 {
		d = len(x) / len(f.pos)
	}
	if len(weight) != d || len(x)%d != 0 {
		f.fail(fmt.Errorf("%s has %d values: want %d", tensor, len(weight), d))
		return nil
	}
	eps := float32(f.h.Eps)
	f.done(name, "rms_norm", RmsNorm(x, d, eps, nil), nil)
	return f.done(weighted, "mul", RmsNorm(x, d, eps, weight), nil)
}

// project is a matrix with its bias, if the file has one.
func (f *forward) project(name string, x []float32, tensor string) []float32 {
	w := f.tensor(tensor+".weight", 2)
	if f.err != nil {
		return nil
	}
	if w.Dims[0]*len(f.pos) != len(x) {
		f.fail(fmt.Errorf("%s.weight has rows of %d: want %d", tensor, w.Dims[0], len(x)/len(f.pos)))
		return nil
	}
	y, err := MatMul(f.o.Level, w.Type, w.Data, w.Dims[0], w.Dims[1], x)
	y = f.done(name, "mul_mat", y, err)
	if f.find(tensor+".bias") == nil {
		return y
	}
	bias := f.vector(tensor + ".bias")
	if f.err != nil {
		return nil
	}
	if len(bias) != w.Dims[1] {
		f.fail(fmt.Errorf("%s.bias has %d values: want %d", tensor, len(bias), w.Dims[1]))
		return nil
	}
	return f.done(name, "add", Add(y, bias), nil)
}

func (f *forward) rope(name string, x []float32, p Rope) []float32 {
	if f.err != nil {
		return nil
	}
	y, err := RoPE(x, f.h.HeadDim, f.pos, p)
	return f.done(name, "rope", y, err)
}

func (f *forward) attention(il int, q, k, v []float32) []float32 {
	if f.err != nil {
		return nil
	}
	h, n := f.h, len(f.pos)
	kWidth, vWidth := h.HeadDim*h.HeadsKV, h.HeadDimV*h.HeadsKV
	if len(q) != n*h.Heads*h.HeadDim || len(k) != n*kWidth || len(v) != n*vWidth {
		f.fail(fmt.Errorf("layer %d: q, k, v of %d, %d, %d channels do not fit %d and %d heads of %d and %d",
			il, len(q)/n, len(k)/n, len(v)/n, h.Heads, h.HeadsKV, h.HeadDim, h.HeadDimV))
		return nil
	}
	store := func(name string, width int, x []float32) []byte {
		region, err := KVStore(f.o.KV, make([]byte, n*f.o.KV.RowBytes(width)), width, x, f.pos)
		if f.done(name, "kv_store", widen(f.o.KV, region), err); f.err != nil {
			return nil
		}
		return region
	}
	keys := store(fmt.Sprintf("cache_k_l%d", il), kWidth, k)
	values := store(fmt.Sprintf("cache_v_l%d", il), vWidth, v)
	if f.err != nil {
		return nil
	}
	parts, err := Attention(f.o.Level, q, keys, values, f.pos, Attn{
		NHead: h.Heads, NHeadKV: h.HeadsKV, HeadDim: h.HeadDim, HeadDimV: h.HeadDimV,
		Scale: AttnScale(h.HeadDim), KV: f.o.KV,
	})
	if f.o.Tap != nil && err == nil {
		f.done(fmt.Sprintf("kq-%d", il), "mul_mat", flatten(parts.Scores), nil)
		f.done(fmt.Sprintf("kq_soft_max-%d", il), "soft_max", flatten(parts.Probs), nil)
	}
	return f.done(fmt.Sprintf("kqv_out-%d", il), "attention", parts.Out, err)
}

func (f *forward) swiglu(name string, gate, up []float32) []float32 {
	if f.err != nil {
		return nil
	}
	if len(gate) != len(up) {
		f.fail(fmt.Errorf("%s: widths %d and %d differ", name, len(gate)/len(f.pos), len(up)/len(f.pos)))
		return nil
	}
	return f.done(name, "swiglu", SwiGLU(f.o.Level, gate, up, len(gate)/len(f.pos)), nil)
}

func (f *forward) add(name string, a, b []float32) []float32 {
	if f.err != nil {
		return nil
	}
	if len(a) != len(b) {
		f.fail(fmt.Errorf("%s: widths %d and %d differ", name, len(a)/len(f.pos), len(b)/len(f.pos)))
		return nil
	}
	return f.done(name, "add", Add(a, b), nil)
}

// done shows a value and passes it on, or notes the failure.
func (f *forward) done(name, op string, data []float32, err error) []float32 {
	if err != nil {
		f.fail(fmt.Errorf("%s: %w", name, err))
	}
	if f.err != nil {
		return nil
	}
	if f.o.Tap != nil {
		f.o.Tap(Node{Name: name, Op: op, Width: len(data) / len(f.pos), Data: data})
	}
	return data
}

func (f *forward) find(name string) *gguf.Tensor {
	for i := range f.file.Tensors {
		if f.file.Tensors[i].Name == name {
			return &f.file.Tensors[i]
		}
	}
	return nil
}

// tensor is a tensor that must exist with so many dimensions.
func (f *forward) tensor(name string, dims int) *gguf.Tensor {
	t := f.find(name)
	if t == nil || len(t.Dims) != dims {
		f.fail(fmt.Errorf("tensor %s: want one of %d dimensions", name, dims))
		return nil
	}
	return t
}

func (f *forward) vector(name string) []float32 {
	t := f.tensor(name, 1)
	if t == nil {
		return nil
	}
	v, err := Dequantize(t.Type, t.Data, t.Dims[0])
	if err != nil {
		f.fail(fmt.Errorf("tensor %s: %w", name, err))
	}
	return v
}

func (f *forward) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// flatten joins [row][head][cell] values.
func flatten(x [][][]float32) []float32 {
	var y []float32
	for _, row := range x {
		for _, head := range row {
			y = append(y, head...)
		}
	}
	return y
}
