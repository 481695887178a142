package synth

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"minfer/engine/gguf"
	"minfer/engine/model"
)

// How the weights are scaled
//
// A matrix has elements of mean 0 and a standard deviation that gives its
// outputs a chosen size for an input of unit variance, which is what the norms
// hand out: queries and keys 1.5, so that attention is neither uniform nor
// one-hot, values and ups 2, gates 1. The embedding has 1, the feed-forwards of
// all layers together have 4 and the attentions 0.75: the next token depends
// on the context, yet the current token is not washed out by an attention
// average that hardly moves. The output norm brings the logits to 4.
//
// With a tied embedding that alone would repeat the current token for ever:
// what is left of its embedding in the residual stream points at itself. The
// output norm therefore has random signs, which turn the stream away from the
// embeddings: the likeliest next token is another one, drawn as if at random.
// Each pair of neighbours has one plus and one minus, so that the current
// token's own logit, the sum of its squared components with these signs, is no
// larger than any other's. And the feed-forwards outweigh the embedding, because
// a map from embedding to embedding by signs alone is symmetric: two tokens
// would follow each other for ever.
const (
	sizeQK     = 1.5
	sizeV      = 2
	sizeUp     = 2
	sizeLogits = 4
	// The standard deviation of silu(g)*u for normal g and u is 0.6.
	sizeSwiGLU = 0.6 * sizeUp
	// What all layers together add to the stream, where the embedding has 1.
	sizeFFN  = 4
	sizeAttn = 0.75
)

// kind is how a tensor is drawn.
type kind uint8

const (
	drawMatrix  kind = iota // mean 0, standard deviation std
	drawNorm                // 1 +- 10 %
	drawSigned              // std +- 10 %, one of two neighbours negative
	drawBias                // mean 0, standard deviation std
	drawFactors             // llama 3's frequency factors: not random
)

// tensor is one tensor to be made.
type tensor struct {
	name string
	dims []int
	kind kind
	std  float64
	base float64 // drawFactors: the rotation's base
}

// planTensors lists a model's tensors in file order.
func planTensors(h model.Hparams, factors bool) []tensor {
	var list []tensor
	add := func(name string, k kind, std float64, dims ...int) {
		list = append(list, tensor{name: name, dims: dims, kind: k, std: std, base: float64(h.Rope.FreqBase)})
	}
	fan := func(size float64, in int) float64 { return size / math.Sqrt(float64(in)) }
	layer := 1 / math.Sqrt(float64(h.NLayer)) // one layer's share of what all add
	q, kv := h.NHead*h.HeadDimK, h.NHeadKV*h.HeadDimK

	add("token_embd.weight", drawMatrix, 1, h.NEmbd, h.NVocab)
	if factors {
		add("rope_freqs.weight", drawFactors, 0, h.HeadDimK/2)
	}
	for il := range h.NLayer {
		add := func(name string, k kind, std float64, dims ...int) {
			add(fmt.Sprintf("blk.%d.%s", il, name), k, std, dims...)
		}
		add("attn_norm.weight", drawNorm, 0, h.NEmbd)
		add("attn_q.weight", drawMatrix, fan(sizeQK, h.NEmbd), h.NEmbd, q)
		add("attn_k.weight", drawMatrix, fan(sizeQK, h.NEmbd), h.NEmbd, kv)
		add("attn_v.weight", drawMatrix, fan(sizeV, h.NEmbd), h.NEmbd, kv)
		switch h.Arch {
		case "qwen2":
			add("attn_q.bias", drawBias, 0.3, q)
			add("attn_k.bias", drawBias, 0.3, kv)
			add("attn_v.bias", drawBias, 0.1, kv)
		case "qwen3":
			add("attn_q_norm.weight", drawNorm, 0, h.HeadDimK)
			add("attn_k_norm.weight", drawNorm, 0, h.HeadDimK)
		}
		// An average over the context is about half as large as what it averages.
		add("attn_output.weight", drawMatrix, fan(layer*sizeAttn/(0.5*sizeV), q), q, h.NEmbd)
		add("ffn_norm.weight", drawNorm, 0, h.NEmbd)
		add("ffn_gate.weight", drawMatrix, fan(1, h.NEmbd), h.NEmbd, h.NFF)
		add("ffn_up.weight", drawMatrix, fan(sizeUp, h.NEmbd), h.NEmbd, h.NFF)
		add("ffn_down.weight", drawMatrix, fan(layer*sizeFFN/sizeSwiGLU, h.NFF), h.NFF, h.NEmbd)
	}
	add("output_norm.weight", drawSigned, fan(sizeLogits, h.NEmbd), h.NEmbd)
	if !h.Tied {
		add("output.weight", drawMatrix, 1, h.NEmbd, h.NVocab)
	}
	return list
}

// chunkBlocks is the number of blocks that one generator draws. It is part of
// what a seed means: another number gives another file.
const chunkBlocks = 1 << 14

// writer draws the tensor chunk by chunk, as many at a time as there are cores,
// and writes them in order.
func (t tensor) writer(typ gguf.Type, seed uint64) func(io.Writer) error {
	return func(w io.Writer) error {
		n := 1
		for _, d := range t.dims {
			n *= d
		}
		if t.kind == drawFactors {
			_, err := w.Write(floats(ropeFactors(n, t.base)))
			return err
		}
		name := fnv.New64a()
		io.WriteString(name, t.name)
		blocks, bytes := n/typ.BlockSize(), typ.BlockBytes()
		bufs := make([][]byte, min(runtime.GOMAXPROCS(0), (blocks+chunkBlocks-1)/chunkBlocks))
		for i := range bufs {
			bufs[i] = make([]byte, min(blocks, chunkBlocks)*bytes)
		}
		for done, chunk := 0, 0; done < blocks; {
			var wg sync.WaitGroup
			var ready [][]byte
			for i := 0; i < len(bufs) && done < blocks; i++ {
				k := min(chunkBlocks, blocks-done)
				buf := bufs[i][:k*bytes]
				ready = append(ready, buf)
				rng := rand.New(rand.NewPCG(seed^name.Sum64(), uint64(chunk)))
				wg.Go(func() { t.fill(buf, typ, rng) })
				done, chunk = done+k, chunk+1
			}
			wg.Wait()
			for _, buf := range ready {
				if _, err := w.Write(buf); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// fill draws whole blocks.
func (t tensor) fill(dst []byte, typ gguf.Type, rng *rand.Rand) {
	switch t.kind {
	case drawNorm, drawSigned:
		sign := 1.0
		for i := 0; i < len(dst); i += 4 {
			x := float32(1 + float64(0.1*normal(rng)))
			if t.kind == drawSigned {
				if sign = -sign; i%8 == 0 {
					sign = signed(1, rng)
				}
				x *= float32(sign * t.std)
			}
			binary.LittleEndian.PutUint32(dst[i:], math.Float32bits(x))
		}
	default:
		fillBlocks(dst, typ, t.std, rng)
	}
}

// normal is nearly normal, mean 0, standard deviation 1, and never far out: the
// sum of four uniform numbers. (rand.NormFloat64's tail depends on math.Exp,
// which is not the same on all machines.)
func normal(rng *rand.Rand) float64 {
	u := rng.Uint64()
	sum := int(u&0xffff) + int(u>>16&0xffff) + int(u>>32&0xffff) + int(u>>48)
	// Each of the four has the mean 65535/2 and the variance (65536^2-1)/12.
	const mean, std = 2 * 65535, 65536 / 1.7320508075688772
	return float64(sum-mean) / std
}

// ropeFactors are the frequency factors of Llama 3.2 for a context of 32 times
// the original 8192: high frequencies stay, low ones are slowed by 32, and
// between wavelengths of a quarter and the whole of the original context the
// factor moves smoothly.
func ropeFactors(n int, base float64) []float32 {
	const factor, low, high, orig = 32, 1, 4, 8192
	f := make([]float32, n)
	for i := range f {
		wavelength := 2 * math.Pi * math.Pow(base, float64(i)/float64(n))
		switch {
		case wavelength < orig/high:
			f[i] = 1
		case wavelength > orig/low:
			f[i] = factor
		default:
			smooth := (orig/wavelength - low) / (high - low)
			f[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return f
}

func floats(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
