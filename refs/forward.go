package refs

import (
	"fmt"
	"math"

	"minfer/engine/gguf"
	"minfer/refs/internal/hparams"
)

// Options of a [Forward].
type Options struct {
	// KV is the cache's type, which rounds the rows of K and V: F32, F16 or Q8_0.
	// The zero value is F32.
	KV gguf.Type
	// First is the position of the first token. From one behind 0 on, Store is needed,
	// and gives the rows of the cells before with those of x.
	First int
	// Store, if set, takes RoundKV's place: it gives what the cache holds of the rows
	// x of a layer's keys, or with values of its values. A caller that has the cache of
	// a run under test gives that run's own rounding, after a look at it: rounding is
	// not continuous, so two right implementations may store neighbours.
	Store func(layer int, values bool, x []float64) ([]float64, error)
	// Tap, if set, is shown every computed value in the order of
	// docs/numerics.md section 12, all tokens at once.
	Tap func(Node)
}

// A Node is one intermediate value of a forward pass.
type Node struct {
	Name  string // as llama.cpp's callback names it: "Qcur-0", "l_out-3"
	Op    string // ggml's operation in this project's spelling: mul_mat, add, rms_norm, mul, rope, ...
	Width int    // values of one token
	Data  []float64
}

// Forward evaluates the tokens from an empty cache, at positions 0, 1, ..., or
// from Options.First on, and returns one row of logits for each of them. The architectures are qwen2, qwen3
// and llama; the file's tensors may have any type that [Dequantize] knows.
func Forward(f *gguf.File, tokens []int32, o Options) ([][]float64, error) {
	h, err := hparams.Read(f)
	if err != nil {
		return nil, fmt.Errorf("reference forward of %s: %w", f.Path, err)
	}
	run := &forward{file: f, h: h, o: o, pos: make([]int32, len(tokens))}
	for i := range tokens {
		run.pos[i] = int32(o.First + i)
	}
	logits, err := run.all(tokens)
	if err != nil {
		return nil, fmt.Errorf("reference forward of %s: %w", f.Path, err)
	}
	rows := make([][]float64, len(tokens))
	for r := range rows {
		width := len(logits) / len(tokens)
		rows[r] = logits[r*width : (r+1)*width]
	}
	return rows, nil
}

// forward is one run. A failed step sets err and makes the later ones idle, so
// that the pass reads as the list of operations that it is.
type forward struct {
	file *gguf.File
	h    hparams.Hparams
	o    Options
	pos  []int32
	err  error
}

func (f *forward) all(tokens []int32) ([]float64, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	h := f.h
	embedding := f.matrix("token_embd.weight")
	output := embedding // tied unless the file has its own
	if f.find("output.weight") != nil {
		output = f.matrix("output.weight")
	}
	rope := ropeOf(h.Rope)
	if f.find("rope_freqs.weight") != nil {
		rope.Factors = f.vector("rope_freqs.weight")
	}
	if f.err != nil {
		return nil, f.err
	}
	x, err := GetRows(embedding, tokens)
	if err != nil {
		return nil, err
	}
	f.tap("embd", "get_rows", x)

	for il := 0; il < h.Layers && f.err == nil; il++ {
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
		if f.err != nil {
			break
		}

		k, f.err = f.store(il, false, k)
		if f.err == nil {
			v, f.err = f.store(il, true, v)
		}
		f.tap(fmt.Sprintf("cache_k_l%d", il), "kv_store", k)
		f.tap(fmt.Sprintf("cache_v_l%d", il), "kv_store", v)
		attended := f.attention(il, q, k, v)
		attended = f.project(name("attn_out"), attended, weight("attn_output"))

		x = f.add(name("ffn_inp"), attended, x)
		normed = f.norm(name("norm"), name("ffn_norm"), x, 0, weight("ffn_norm.weight"))
		gate := f.project(name("ffn_gate"), normed, weight("ffn_gate"))
		up := f.project(name("ffn_up"), normed, weight("ffn_up"))
		if f.err != nil {
			break
		}
		hidden := SwiGLU(gate, up)
		f.tap(name("ffn_swiglu"), "swiglu", hidden)
		down := f.project(name("ffn_out"), hidden, weight("ffn_down"))
		x = f.add(name("l_out"), down, x)
	}
	if f.err != nil {
		return nil, f.err
	}

	x = f.norm("norm", "result_norm", x, 0, "output_norm.weight")
	if f.err != nil {
		return nil, f.err
	}
	if output.In*len(tokens) != len(x) {
		return nil, fmt.Errorf("output matrix has rows of %d, the embedding has %d", output.In, len(x)/len(tokens))
	}
	logits, err := MatMul(output, x)
	if err != nil {
		return nil, err
	}
	f.tap("result_output", "mul_mat", logits)
	if f.find("output.bias") != nil {
		logits = Add(logits, f.vector("output.bias"))
		f.tap("result_output", "add", logits)
	}
	return logits, f.err
}

// store gives what the cache holds of x.
func (f *forward) store(layer int, values bool, x []float64) ([]float64, error) {
	if f.o.Store != nil {
		return f.o.Store(layer, values, x)
	}
	return RoundKV(f.o.KV, x)
}

// ropeOf translates the file's parameters. With YaRN, llama.cpp hands the
// operator a magnitude of (1 + 0.1 ln factor) divided by what the operator will
// multiply with, which is the same: the file's factor is left.
func ropeOf(r hparams.Rope) Rope {
	p := Rope{
		Neox: r.Neox, NDims: r.NDims, FreqBase: r.FreqBase, FreqScale: 1 / r.Factor,
		ExtFactor: r.ExtFactor, AttnFactor: r.AttnFactor,
		BetaFast: r.BetaFast, BetaSlow: r.BetaSlow, NCtxOrig: r.NCtxOrig,
	}
	if r.ExtFactor != 0 && r.Factor <= 1 {
		// A factor that does not stretch has no magnitude, but the division stays.
		p.AttnFactor /= 1 + 0.1*math.Log(r.Factor)
	}
	return p
}

// norm is rms_norm and its weight over rows of d values; d 0 means the weight's
// length. The two values have two names.
func (f *forward) norm(name, weighted string, x []float64, d int, tensor string) []float64 {
	weight := f.vector(tensor)
	if f.err != nil {
		return nil
	}
	if d == 0 {
		d = len(x) / len(f.pos)
	}
	if len(weight) != d || len(x)%d != 0 {
		f.err = fmt.Errorf("%s has %d values: want %d", tensor, len(weight), d)
		return nil
	}
	f.tap(name, "rms_norm", RmsNorm(x, d, f.h.Eps, nil))
	y := RmsNorm(x, d, f.h.Eps, weight)
	f.tap(weighted, "mul", y)
	return y
}

// project is a matrix with its bias, if the file has one.
func (f *forward) project(name string, x []float64, tensor string) []float64 {
	w := f.matrix(tensor + ".weight")
	if f.err != nil {
		return nil
	}
	if w.In*len(f.pos) != len(x) {
		f.err = fmt.Errorf("%s.weight has rows of %d: want %d", tensor, w.In, len(x)/len(f.pos))
		return nil
	}
	y, err := MatMul(w, x)
	if err != nil {
		f.err = fmt.Errorf("%s: %w", tensor, err)
		return nil
	}
	f.tap(name, "mul_mat", y)
	if f.find(tensor+".bias") == nil {
		return y
	}
	bias := f.vector(tensor + ".bias")
	if f.err != nil {
		return nil
	}
	if len(bias) != w.Out {
		f.err = fmt.Errorf("%s.bias has %d values: want %d", tensor, len(bias), w.Out)
		return nil
	}
	y = Add(y, bias)
	f.tap(name, "add", y)
	return y
}

func (f *forward) rope(name string, x []float64, p Rope) []float64 {
	if f.err != nil {
		return nil
	}
	if p.NDims > f.h.HeadDim || p.NDims%2 != 0 || (p.Factors != nil && len(p.Factors) != p.NDims/2) {
		f.err = fmt.Errorf("rope: %d dimensions and %d factors for heads of %d", p.NDims, len(p.Factors), f.h.HeadDim)
		return nil
	}
	y := RoPE(x, f.h.HeadDim, f.pos, p)
	f.tap(name, "rope", y)
	return y
}

func (f *forward) attention(il int, q, k, v []float64) []float64 {
	if f.err != nil {
		return nil
	}
	h := f.h
	n, cells := len(f.pos), f.o.First+len(f.pos)
	if len(q) != n*h.Heads*h.HeadDim || len(k) != cells*h.HeadsKV*h.HeadDim || len(v) != cells*h.HeadsKV*h.HeadDimV {
		f.err = fmt.Errorf("layer %d: q, k, v of %d, %d, %d channels do not fit %d and %d heads of %d and %d",
			il, len(q)/n, len(k)/cells, len(v)/cells, h.Heads, h.HeadsKV, h.HeadDim, h.HeadDimV)
		return nil
	}
	parts, err := Attention(q, k, v, f.pos, Attn{
		NHead: h.Heads, NHeadKV: h.HeadsKV, HeadDim: h.HeadDim, HeadDimV: h.HeadDimV,
		Scale: 1 / math.Sqrt(float64(h.HeadDim)),
	})
	if err != nil {
		f.err = fmt.Errorf("layer %d: %w", il, err)
		return nil
	}
	if f.o.Tap != nil {
		f.tap(fmt.Sprintf("kq-%d", il), "mul_mat", flatten(parts.Scores))
		f.tap(fmt.Sprintf("kq_soft_max-%d", il), "soft_max", flatten(parts.Probs))
	}
	f.tap(fmt.Sprintf("kqv_out-%d", il), "attention", parts.Out)
	return parts.Out
}

func (f *forward) add(name string, a, b []float64) []float64 {
	if f.err != nil {
		return nil
	}
	if len(a) != len(b) {
		f.err = fmt.Errorf("%s: widths %d and %d differ", name, len(a)/len(f.pos), len(b)/len(f.pos))
		return nil
	}
	y := Add(a, b)
	f.tap(name, "add", y)
	return y
}

func (f *forward) tap(name, op string, data []float64) {
	if f.o.Tap != nil && f.err == nil {
		f.o.Tap(Node{Name: name, Op: op, Width: len(data) / len(f.pos), Data: data})
	}
}

func (f *forward) find(name string) *gguf.Tensor {
	for i := range f.file.Tensors {
		if f.file.Tensors[i].Name == name {
			return &f.file.Tensors[i]
		}
	}
	return nil
}

func (f *forward) matrix(name string) Matrix {
	t := f.find(name)
	if t == nil || len(t.Dims) != 2 {
		f.fail(fmt.Errorf("tensor %s: want one of two dimensions", name))
		return Matrix{}
	}
	return Matrix{Type: t.Type, In: t.Dims[0], Out: t.Dims[1], Data: t.Data}
}

func (f *forward) vector(name string) []float64 {
	t := f.find(name)
	if t == nil || len(t.Dims) != 1 {
		f.fail(fmt.Errorf("tensor %s: want one of one dimension", name))
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
func flatten(x [][][]float64) []float64 {
	var y []float64
	for _, row := range x {
		for _, head := range row {
			y = append(y, head...)
		}
	}
	return y
}
