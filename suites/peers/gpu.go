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
// has a decode's cache, and of its cache beside that one. A GPU's matrix units may make the prefill's products of shorter
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

// others are what our engine is measured beside and held against.
type others struct {
	load      func(path string, o llamacpp.ModelOptions) (peerModel, error)
	reference func(f *gguf.File, first int, tokens []int32, kv gguf.Type, cache suites.KVBytes) ([][]float64, error)
}

// RunGPU is [Run] on a GPU, with the backend loaded into lib and all of the model's
// layers on it. There are no threads, and no bits to compare. What is held against the
// float64 model's logits instead:
//
//   - those of 16 tokens, before the rounds and after them: of our decode each, within
//     suites.LogitsBound, given the run's own cache; of our prefill within 1e-3 in the
//     mean square; llama.cpp's need only be near;
//   - those that the last round of each test ended with, in the same limits: so of the
//     kernels that were timed, at their depth and number of tokens. The float64 model
//     goes on from a cache of ours, of the same test for a decode and of a decode of the
//     same tokens for a prefill, whose own cache is held beside that one.
//
// The rates count if all hold; Record.Wrong says what did not. An interrupted run gives the
// record of the tests that every side has a sample of, and the context's error.
func RunGPU(ctx context.Context, lib *llamacpp.Lib, o GPUOptions) (*Record, error) {
	return runGPU(ctx, others{func(path string, o llamacpp.ModelOptions) (peerModel, error) {
		m, err := lib.LoadModel(path, o)
		return libModel{m}, err
	}, suites.ReferenceFrom}, o)
}

func runGPU(ctx context.Context, with others, o GPUOptions) (rec *Record, err error) {
	o.Threads = []int{1}
	if err := o.CheckGPU(); err != nil {
		return nil, err
	}
	b, err := openBench(o.Options, checkTokens)
	if err != nil {
		return nil, err
	}
	var j *judge
	defer func() {
		j.then(func() { b.f.Close() }) // which the judge reads
	}()
	backend, kv, err := o.Hold(b.m)
	if err != nil {
		return nil, err
	}
	if b.o.KVType = kv; kv != gguf.F32 && kv != gguf.F16 {
		return nil, fmt.Errorf("%s: a KV cache of type %v: want one that llama.cpp's runs have too, f32 or f16", o.Path, kv)
	}
	ours, err := session.New(b.m, session.Options{Backends: []graph.Backend{backend}, NCtx: b.nCtx, KVType: kv, FuseQKV: true, FuseFFN: true})
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	rec = b.record()
	rec.With = "the float64 model"
	us := contender{Ours, ours.Pos, ours.Truncate, ours.Eval}
	tokens := b.tokens[:checkTokens]
	decoded, prefilled, cache, err := bothWays(ours, tokens, b.m.NLayer)
	if err != nil {
		return nil, err
	}
	ends, caches, err := b.ends(ctx, ours, us)
	if err != nil {
		return nil, err
	}
	// The reference needs this machine's cores, the other engine's start its GPU: both
	// at once.
	j = judging(ctx, b, with, cache, ends)

	lm, err := with.load(o.Path, llamacpp.ModelOptions{Repack: true, GPULayers: o.Layers})
	if err != nil {
		return nil, err
	}
	defer lm.Close()
	if on, of := lm.Offloaded(); o.Layers > 0 && (of <= b.m.NLayer || on != of) {
		return nil, fmt.Errorf("%s: llama.cpp put %d of %d layers on the GPU: want all of %d and the output", o.Path, on, of, b.m.NLayer)
	} else if o.Layers > 0 {
		rec.Offloaded = fmt.Sprintf("%d of %d", on, of)
	}
	sides := []contender{us}
	var theirs [][2][]float32
	for _, s := range gpuSettings {
		c, err := lm.NewContext(llamacpp.ContextOptions{NCtx: b.nCtx, KVType: kv, Threads: 1, UBatch: min(fillBatch, b.nCtx), FlashAttn: s.flash})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		logits, err := theirBothWays(ctx, c, tokens)
		if err != nil {
			return nil, err
		}
		sides, theirs = append(sides, contender{s.name, c.Pos, c.Truncate, c.EvalLast}), append(theirs, logits)
	}
	if err := j.wait(ctx); err != nil {
		return nil, err
	}
	rec.Wrong = append(rec.Wrong, j.wrong...)
	if err := rec.ours("", j.rows, decoded, prefilled); err != nil {
		return nil, err
	}
	for _, h := range caches {
		rec.hold(h)
	}
	near := func(side, what string, got []float32, want ...[]float64) error {
		return rec.holdMean(side, what, got, slices.Concat(want...), nearLimit(b.m.NLayer))
	}
	for i, t := range theirs {
		for k, what := range []string{"decode", "prefill"} {
			if err := near(gpuSettings[i].name, what, t[k], j.rows...); err != nil {
				return nil, err
			}
		}
	}

	// What a kernel's first use costs, on a GPU that compiles it then even seconds, is
	// no part of a round, nor is the making of what goes to the GPU at once when work
	// repeats: each test is gone through twice before. All sides take part in all rounds.
	err = b.all(ctx, rec, sides, func(t *test) {
		t.warm = []int{t.tokens, t.tokens}
		if t.decode {
			t.readRate = o.Read
		}
	}, func(t test, last [][]float32) error {
		want := j.ends[t.name]
		if want == nil {
			return nil // wrong, and said to be
		}
		what := t.name + ", its last token"
		if t.decode {
			if err := rec.holdEach(Ours, what, last[0], [][]float64{want}); err != nil {
				return err
			}
		} else if err := rec.holdMean(Ours, what, last[0], want, prefillLimit); err != nil {
			return err
		}
		for i, s := range gpuSettings {
			if err := near(s.name, what, last[i+1], want); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && (ctx.Err() == nil || len(rec.Rows) == 0) {
		return nil, err
	}
	decoded, prefilled, _, after := bothWays(ours, tokens, b.m.NLayer)
	if after != nil {
		return nil, after
	}
	return rec, errors.Join(rec.ours(", after the rounds", j.rows, decoded, prefilled), err)
}

// end is where a timed test ends, for the float64 model to judge: the last of its tokens,
// and a cache that holds it and those before.
type end struct {
	test  test
	cache suites.KVBytes
}

// ends goes through the tests as the rounds do. Of a prefill it takes the cache of a decode
// of the same tokens, and holds that of the prefill beside it.
func (b *bench) ends(ctx context.Context, ours *session.Session, us contender) (ends []end, caches []Held, err error) {
	read := func() suites.KVBytes {
		var cache suites.KVBytes
		if err == nil {
			cache, err = suites.ReadCache(ours, b.m.NLayer)
		}
		return cache
	}
	if err := us.back(0); err != nil {
		return nil, nil, err
	}
	var prefills []test
	for _, t := range b.tests() {
		if !t.decode {
			prefills = append(prefills, t)
			continue
		}
		if err := us.seek(ctx, t.depth); err != nil {
			return nil, nil, err
		}
		_, err = t.work(ctx, us, t.tokens)
		if ends = append(ends, end{t, read()}); err != nil {
			return nil, nil, err
		}
	}
	if err := us.back(0); err != nil {
		return nil, nil, err
	}
	decodes := len(ends)
	for _, t := range prefills {
		for us.pos() < t.tokens {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			if _, err := us.eval(b.tokens[us.pos():][:1]); err != nil {
				return nil, nil, err
			}
		}
		if ends = append(ends, end{t, read()}); err != nil {
			return nil, nil, err
		}
	}
	for i, t := range prefills {
		if err := errors.Join(ctx.Err(), us.back(0)); err != nil {
			return nil, nil, err
		}
		_, err = t.work(ctx, us, t.tokens)
		cache := read()
		if err != nil {
			return nil, nil, err
		}
		worst, where, err := furthest(b.o.KVType, cache, ends[decodes+i].cache)
		if err != nil {
			return nil, nil, err
		}
		caches = append(caches, Held{Side: Ours, What: fmt.Sprintf("%s, its cache beside a decode's, %s", t.name, where), Check: worst, Limit: prefillLimit})
	}
	return ends, caches, nil
}

// furthest compares two caches, and gives the part that is the furthest off in the mean
// square, of all layers' keys and values.
func furthest(kv gguf.Type, got, want suites.KVBytes) (worst *harness.Comparison, where string, err error) {
	for layer := range got {
		for side, name := range []string{"keys", "values"} {
			var x [2][]float32
			for i, cache := range []suites.KVBytes{got, want} {
				data := cache[layer][side]
				values, err := refs.Dequantize(kv, data, len(data)/kv.BlockBytes()*kv.BlockSize())
				if err != nil {
					return nil, "", err
				}
				x[i] = refs.F32(values)
			}
			c, err := harness.Bits(x[0], x[1])
			if err != nil {
				return nil, "", err
			}
			if worst == nil || !(c.NMSE <= worst.NMSE) { // a NaN is the furthest
				worst, where = c, fmt.Sprintf("%s of layer %d", name, layer)
			}
		}
	}
	return worst, where, nil
}

// judge is the float64 model at work.
type judge struct {
	done  chan struct{}
	rows  [][]float64          // of the first tokens
	ends  map[string][]float64 // of the last token of a test, none where it is wrong
	wrong []string
	err   error
}

// judging has the float64 model evaluate the first tokens, with the cache of a decode, and
// then the last one of each test.
func judging(ctx context.Context, b *bench, with others, cache suites.KVBytes, ends []end) *judge {
	j := &judge{done: make(chan struct{}), ends: map[string][]float64{}}
	go func() {
		defer close(j.done)
		kv := b.o.KVType
		j.rows, j.err = with.reference(b.f, 0, b.tokens[:checkTokens], kv, cache)
		if errors.Is(j.err, suites.ErrRounding) {
			// Not a cache of this model: there is nothing to hold the logits against but
			// the reference's own.
			j.wrong = append(j.wrong, "the cache of a decode is not the model's")
			j.rows, j.err = with.reference(b.f, 0, b.tokens[:checkTokens], kv, nil)
		}
		for i := 0; i < len(ends) && j.err == nil; i++ {
			if j.err = ctx.Err(); j.err != nil {
				return
			}
			last := ends[i].test.depth + ends[i].test.tokens - 1
			rows, err := with.reference(b.f, last, b.tokens[last:][:1], kv, ends[i].cache)
			ends[i].cache = nil
			if errors.Is(err, suites.ErrRounding) {
				j.wrong = append(j.wrong, fmt.Sprintf("the cache of %s is not the model's", ends[i].test.name))
			} else if j.err = err; err == nil {
				j.ends[ends[i].test.name] = rows[0]
			}
		}
	}()
	return j
}

// wait is until the judge has done all, or the context ends.
func (j *judge) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-j.done:
		return j.err
	}
}

// then calls f as soon as the judge is idle, without waiting for it.
func (j *judge) then(f func()) {
	if j == nil {
		f()
		return
	}
	select {
	case <-j.done:
		f()
	default:
		go func() {
			<-j.done
			f()
		}()
	}
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

// theirBothWays has the logits of all tokens of a decode, and of a prefill.
func theirBothWays(ctx context.Context, c peerContext, tokens []int32) (logits [2][]float32, err error) {
	if logits[1], err = c.Eval(tokens); err != nil {
		return logits, err
	}
	if err := c.Truncate(0); err != nil {
		return logits, err
	}
	for i := range tokens {
		row, err := c.Eval(tokens[i : i+1])
		if err = errors.Join(err, ctx.Err()); err != nil {
			return logits, err
		}
		logits[0] = append(logits[0], row...)
	}
	return logits, nil
}

// ours holds this engine's logits against the reference's. The first of these is the
// record's check.
func (rec *Record) ours(when string, want [][]float64, decoded, prefilled [][]float32) error {
	return errors.Join(rec.holdEach(Ours, "decode"+when, slices.Concat(decoded...), want),
		rec.holdMean(Ours, "prefill"+when, slices.Concat(prefilled...), slices.Concat(want...), prefillLimit))
}

// holdEach holds each logit within its row's bound.
func (rec *Record) holdEach(side, what string, got []float32, want [][]float64) error {
	var bounds []float64
	for _, row := range want {
		bounds = append(bounds, slices.Repeat([]float64{suites.LogitsBound(row)}, len(row))...)
	}
	c, err := harness.WithinEach(got, slices.Concat(want...), bounds)
	if err == nil {
		rec.hold(Held{Side: side, What: what, Check: c})
	}
	return err
}

// holdMean holds logits in the mean square.
func (rec *Record) holdMean(side, what string, got []float32, want []float64, limit float64) error {
	c, err := harness.Bits(got, refs.F32(want))
	if err == nil {
		rec.hold(Held{Side: side, What: what, Check: c, Limit: limit})
	}
	return err
}
