package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"minfer/engine/gguf"
	"minfer/engine/graph"
	"minfer/engine/model"
	"minfer/engine/session"
	"minfer/harness"
	"minfer/refs"
	"minfer/refs/llamacpp"
	"minfer/suites"
)

// GPUOptions are those of a comparison on a GPU.
type GPUOptions struct {
	Options // but Backend, Threads and Compare
	// Hold gives the model's weights to a backend of the GPU, which stays the caller's,
	// and chooses the cache's type.
	Hold func(m *model.Model) (b graph.Backend, kv gguf.Type, err error)
	// Read is the bytes that a plain kernel reads a second, 0 where that was not measured.
	Read float64
	// Layers of llama.cpp that are on the GPU; unless it is 0, all must be there.
	Layers int
}

// CheckGPU is Check, and that there are rounds enough for a median.
func (o *GPUOptions) CheckGPU() error {
	if o.Rounds < fewest {
		return fmt.Errorf("rounds %d: want at least %d on a GPU", o.Rounds, fewest)
	}
	return o.Check()
}

// gpuSettings: llama.cpp as it comes on a GPU, with its fused attention, and without.
var gpuSettings = []setting{{"llama.cpp, flash attention", false, true}, {"llama.cpp", false, false}}

// nearLimit is the most NMSE of llama.cpp's logits to count as those of the same model.
// Its GPU kernels round activations to 8 bits in blocks of 32, in steps of the largest
// one over 127. Of 32 normally distributed values that is 2.4 times their size, so the
// step's rounding makes (2.4/127)^2/12 = 3e-5 of a product's energy. A layer adds two
// terms to the stream that logits are made of, of up to three such products in a row;
// with an error that each term inherits from all before it, as large as they together
// have, the terms' 9e-5 add up over 2*layers of them. Activations whose largest is twice
// a normal distribution's have four times that.
func nearLimit(layers int) float64 { return 4 * 9e-5 * float64(2*layers) }

// prefillLimit is the most NMSE of our own prefill's logits against the reference that
// has a decode's cache. A GPU's matrix units may make the prefill's products of shorter
// numbers, so some cached values near a tie are rounded to the other neighbour, a step
// of f16 away, and one logit of a million may be off by more than any arithmetic would
// make it: suites.LogitsBound has no room for that. Over all logits it has: if every
// value were a step off, 2^-11 of itself, K and V would be off by 2^-22 of their
// energy each, 5e-7 together. A prefill's errors are to be no more than 1e-3 of the logits in
// the mean square, which is that twice.
const prefillLimit = 1e-6

// peerModel and peerContext are llama.cpp's, for a test to stand in for them.
type (
	peerModel interface {
		NewContext(o llamacpp.ContextOptions) (peerContext, error)
		Offloaded() (layers, of int)
		Close()
	}
	peerContext interface {
		Pos() int
		Truncate(pos int) error
		Eval(tokens []int32) ([]float32, error)
		EvalLast(tokens []int32) ([]float32, error)
		Close()
	}
)

type libModel struct{ *llamacpp.Model }

func (m libModel) NewContext(o llamacpp.ContextOptions) (peerContext, error) {
	return m.Model.NewContext(o)
}

// RunGPU is [Run] on a GPU, with the backend loaded into lib and all of the model's
// layers on it. There are no threads, and no bits to compare. Our logits are held
// against the float64 model's, before the rounds and after them: those of a decode, each,
// within suites.LogitsBound, given the run's own cache, and those of a prefill of the same
// tokens within 1e-3 in the mean square. llama.cpp's need only be near. The rates count if
// all hold; Record.Wrong says what did not.
func RunGPU(ctx context.Context, lib *llamacpp.Lib, o GPUOptions) (*Record, error) {
	return runGPU(ctx, func(path string, o llamacpp.ModelOptions) (peerModel, error) {
		m, err := lib.LoadModel(path, o)
		return libModel{m}, err
	}, o)
}

func runGPU(ctx context.Context, load func(path string, o llamacpp.ModelOptions) (peerModel, error), o GPUOptions) (*Record, error) {
	o.Threads = []int{1}
	if err := o.CheckGPU(); err != nil {
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
	ours, err := session.New(m, session.Options{Backends: []graph.Backend{b}, NCtx: nCtx, KVType: kv, FuseQKV: true, FuseFFN: true})
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	rec := &Record{Model: o.Path, KV: kv.String(), Weights: weightBytes(m), Adds: multiplyAdds(m), With: "the float64 model"}
	tokens := make([]int32, nCtx)
	for i := range tokens {
		tokens[i] = int32((i*7919 + 13) % (m.NVocab - 1))
	}
	decoded, prefilled, cache, err := bothWays(ours, tokens[:checkTokens], m.NLayer)
	if err != nil {
		return nil, err
	}
	// The reference needs this machine's cores, the other engine's start its GPU: both
	// at once.
	type reference struct {
		rows [][]float64
		err  error
	}
	made := make(chan reference, 1)
	go func() {
		rows, err := suites.Reference(f, tokens[:checkTokens], kv, cache)
		made <- reference{rows, err}
	}()
	var want [][]float64
	wait := func() error {
		if made == nil {
			return nil
		}
		r := <-made
		made, want = nil, r.rows
		return r.err
	}
	defer wait() // it reads the mapped file

	lm, err := load(o.Path, llamacpp.ModelOptions{Repack: true, GPULayers: o.Layers})
	if err != nil {
		return nil, err
	}
	defer lm.Close()
	if on, of := lm.Offloaded(); o.Layers > 0 && (of <= m.NLayer || on != of) {
		return nil, fmt.Errorf("%s: llama.cpp put %d of %d layers on the GPU: want all of %d and the output", o.Path, on, of, m.NLayer)
	} else if o.Layers > 0 {
		rec.Offloaded = fmt.Sprintf("%d of %d", on, of)
	}
	sides := []contender{{Ours, ours.Pos, ours.Truncate, func(tokens []int32) error {
		_, err := ours.Eval(tokens)
		return err
	}}}
	var theirs [][2][]float32 // of a decode, and the last token's of a prefill
	for _, s := range gpuSettings {
		c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: nCtx, KVType: kv, Threads: 1, UBatch: min(512, nCtx), FlashAttn: s.flash})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		sides = append(sides, contender{s.name, c.Pos, c.Truncate, func(tokens []int32) error {
			_, err := c.EvalLast(tokens)
			return err
		}})
		last, err := c.EvalLast(tokens[:checkTokens])
		if err = errors.Join(err, c.Truncate(0)); err != nil {
			return nil, err
		}
		var all []float32
		for i := range checkTokens {
			row, err := c.Eval(tokens[i : i+1])
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			all = append(all, row...)
		}
		theirs = append(theirs, [2][]float32{all, last})
	}
	if err := wait(); errors.Is(err, suites.ErrRounding) {
		// Not a cache of this model: there is nothing to hold the logits against but
		// the reference's own.
		if want, err = suites.Reference(f, tokens[:checkTokens], kv, nil); err != nil {
			return nil, err
		}
		rec.Wrong = append(rec.Wrong, "the cache of a decode is not the model's")
	} else if err != nil {
		return nil, err
	}
	if err := rec.ours("", want, decoded, prefilled); err != nil {
		return nil, err
	}
	for i, t := range theirs {
		for k, what := range []string{"decode", "prefill"} {
			row := want
			if k == 1 {
				row = want[checkTokens-1:]
			}
			c, err := harness.Bits(t[k], refs.F32(slices.Concat(row...)))
			if err != nil {
				return nil, err
			}
			rec.hold(Held{Side: gpuSettings[i].name, What: what, Check: c, Limit: nearLimit(m.NLayer)})
		}
	}

	// What a kernel's first use costs, on a GPU that compiles it then even seconds, is
	// no part of a round: each test is gone through once before its rounds, and all
	// sides take part in all of them.
	left := sides
	for _, depth := range slices.Sorted(slices.Values(o.Depths)) {
		t := test{name: fmt.Sprintf("decode %d at depth %d", o.Generate, depth), tokens: o.Generate, depth: depth, warm: true}
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
		t := test{name: fmt.Sprintf("prefill %d", n), tokens: n, warm: true}
		if _, err = rec.measure(ctx, o.Options, t, sides, func(c contender) error { return c.eval(tokens[:n]) }); err != nil {
			return nil, err
		}
	}
	if decoded, prefilled, _, err = bothWays(ours, tokens[:checkTokens], m.NLayer); err != nil {
		return nil, err
	}
	return rec, rec.ours(", after the rounds", want, decoded, prefilled)
}

// bothWays evaluates tokens from an empty cache, as one prefill and then one by one,
// and gives the logits of all and the cache that the latter made.
func bothWays(s *session.Session, tokens []int32, layers int) (decoded, prefilled [][]float32, cache suites.KVBytes, err error) {
	if err := s.Truncate(0); err != nil {
		return nil, nil, nil, err
	}
	if prefilled, err = s.EvalAll(tokens); err != nil {
		return nil, nil, nil, err
	}
	if err := s.Truncate(0); err != nil {
		return nil, nil, nil, err
	}
	for i := range tokens {
		row, err := s.Eval(tokens[i : i+1])
		if err != nil {
			return nil, nil, nil, err
		}
		decoded = append(decoded, slices.Clone(row))
	}
	cache, err = suites.ReadCache(s, layers)
	return decoded, prefilled, cache, err
}

// ours holds this engine's logits against the reference's. The first of these is the
// record's check.
func (rec *Record) ours(when string, want [][]float64, decoded, prefilled [][]float32) error {
	var bounds []float64
	for _, row := range want {
		bounds = append(bounds, slices.Repeat([]float64{suites.LogitsBound(row)}, len(row))...)
	}
	all := slices.Concat(want...)
	d, err := harness.WithinEach(slices.Concat(decoded...), all, bounds)
	if err != nil {
		return err
	}
	p, err := harness.Bits(slices.Concat(prefilled...), refs.F32(all))
	if err != nil {
		return err
	}
	rec.hold(Held{Side: Ours, What: "decode" + when, Check: d})
	rec.hold(Held{Side: Ours, What: "prefill" + when, Check: p, Limit: prefillLimit})
	return nil
}
