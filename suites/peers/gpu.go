package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/refs/llamacpp"
)

// GPUOptions are those of a comparison on a GPU.
type GPUOptions struct {
	Options // but Backend, Threads and Compare
	// Hold gives the model's weights to a backend of the GPU, which stays the caller's,
	// and chooses the cache's type.
	Hold func(m *model.Model) (b graph.Backend, kv gguf.Type, err error)
	// Read is the bytes that a plain kernel reads a second, 0 where that was not measured.
	Read float64
	// Layers of llama.cpp that are on the GPU.
	Layers int
}

// gpuSettings: llama.cpp as it comes on a GPU, with its fused attention, and without.
var gpuSettings = []setting{{"llama.cpp, flash attention", false, true}, {"llama.cpp", false, false}}

// MaxGPUError is the most that the logits may differ to count as those of the same
// model: the mean of the squared errors over that of the squares. llama.cpp's GPU
// kernels round activations to 8 bits, which this engine's don't; with random weights
// that made 0.0025 (0.5B, q4_0) and 0.0065 (7B, q4_K_M).
const MaxGPUError = 0.05

// RunGPU is [Run] on a GPU, with the backend loaded into lib and all of the model's
// layers on it. There are no threads, and no bits to compare: the logits of the last
// check token have to be near.
func RunGPU(ctx context.Context, lib *llamacpp.Lib, o GPUOptions) (*Record, error) {
	o.Threads = []int{1}
	if err := o.Check(); err != nil {
		return nil, err
	}
	f, err := gguf.Open(o.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return nil, err
	}
	nCtx := checkTokens
	for _, n := range o.Prompts {
		nCtx = max(nCtx, n)
	}
	for _, n := range o.Depths {
		nCtx = max(nCtx, n+o.Generate)
	}
	nCtx++
	b, kv, err := o.Hold(m)
	if err != nil {
		return nil, err
	}
	if o.KVType = kv; kv != gguf.F32 && kv != gguf.F16 {
		return nil, fmt.Errorf("%s: a KV cache of type %v: want one that llama.cpp's runs have too, f32 or f16", o.Path, kv)
	}
	lm, err := lib.LoadModel(o.Path, llamacpp.ModelOptions{Repack: true, GPULayers: o.Layers})
	if err != nil {
		return nil, err
	}
	defer lm.Close()
	ours, err := session.New(m, session.Options{Backends: []graph.Backend{b}, NCtx: nCtx, KVType: kv, FuseQKV: true, FuseFFN: true})
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	rec := &Record{Model: o.Path, KV: kv.String(), Weights: weightBytes(m), Adds: multiplyAdds(m), With: "ggml-cuda, NMSE"}
	sides := []contender{{Ours, ours.Pos, ours.Truncate, func(tokens []int32) error {
		_, err := ours.Eval(tokens)
		return err
	}}}
	tokens := make([]int32, nCtx)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % (m.NVocab - 1))
	}
	mine, err := ours.Eval(tokens[:checkTokens])
	if err != nil {
		return nil, err
	}
	for i, s := range gpuSettings {
		c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: nCtx, KVType: kv, Threads: 1, UBatch: min(512, nCtx), FlashAttn: s.flash})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		sides = append(sides, contender{s.name, c.Pos, c.Truncate, func(tokens []int32) error {
			_, err := c.EvalLast(tokens)
			return err
		}})
		theirs, err := c.EvalLast(tokens[:checkTokens])
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if rec.Check, err = harness.Bits(mine, theirs); err != nil {
				return nil, err
			}
			rec.Agree = float64(rec.Check.NMSE) <= MaxGPUError && !math.IsNaN(float64(rec.Check.NMSE))
		}
	}
	left := sides
	for _, depth := range slices.Sorted(slices.Values(o.Depths)) {
		t := test{name: fmt.Sprintf("decode %d at depth %d", o.Generate, depth), tokens: o.Generate, depth: depth}
		start := len(rec.Rows)
		left, err = rec.measure(ctx, o.Options, t, left, func(c contender) error {
			for i := range o.Generate {
				if err := errors.Join(ctx.Err(), c.eval(tokens[depth+i:][:1])); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i := start; i < len(rec.Rows) && o.Read > 0; i++ {
			r := &rec.Rows[i]
			r.ReadRate, r.OfLimit = o.Read, r.Rate*float64(rec.Weights)/o.Read
		}
	}
	for _, n := range slices.Sorted(slices.Values(o.Prompts)) {
		t := test{name: fmt.Sprintf("prefill %d", n), tokens: n}
		if _, err = rec.measure(ctx, o.Options, t, sides, func(c contender) error { return c.eval(tokens[:n]) }); err != nil {
			return nil, err
		}
	}
	return rec, nil
}
